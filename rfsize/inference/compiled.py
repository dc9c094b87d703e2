"""Predicting with a compiled forest: `compile` and what it returns."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, shrinking_of
from rfsize.adapters.registry import adapter_for, weighted_adapter_for
from rfsize.errors import ForestFileError, NotAForestError
from rfsize.inference.by_scores import ByScores
from rfsize.inference.by_votes import ByVotes
from rfsize.inference.c_source import write_c
from rfsize.inference.file import load_forest, save_forest
from rfsize.inference.rows import Rows
from rfsize.inference.tables import check_fit, checked_table
from rfsize.inference.trees import CompiledTrees
from rfsize.stopping.spread import SpreadStops
from rfsize.stopping.stops import AverageStops, WeightedStops
from rfsize.stopping.table import StopTable
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import choice
from rfsize.utils.warn import give
from rfsize.utils.words import how_many
from rfsize.voting.votes import Votes
from rfsize.walking.layout import Forest


def compile(
    model: Any,
    table: StopTable | None = None,
    *,
    voting: Literal["auto", "soft", "hard"] = "auto",
    threshold: float = 0.5,
    n_jobs: int = -1,
    missing: float | None = None,
) -> CompiledForest:
    """A forest that predicts what the model's own ``predict`` does, many times faster.

    Without a table, rows ask trees until those left can no longer change their label. With one, until the table says
    that it is settled. An ``AdaBoostClassifier`` of decision trees predicts exactly as it does itself, and each row
    asks trees from the heaviest down until the remaining weight cannot change its label.

    Parameters
    ----------
    model : booster or estimator
        A trained forest of trees, of classes or numbers, or an `AdaBoostClassifier` of trees; it is not changed. Of a
        `RightSizedClassifier` its own stop table is taken too, unless a table, a voting or a threshold is given.
    table : StopTable, optional
        For as many trees and classes as the forest has: of averaged scores (`StopTable.calibrate`; of probabilities,
        for `CompiledForest.predict_proba`), or of votes (`StopTable.build`). Leave it out for AdaBoost, whose own
        weights say when to stop.
    voting : {"auto", "soft", "hard"}
        What labels go by: "soft" the averaged scores, "hard" the majority of the trees' votes, "auto" the same as the
        table, or without one the same as the model's own ``predict``.
    threshold : float, default 0.5
        Probability of class 1 above which it is predicted, and voted for by a tree; two classes only.
    n_jobs : int, default -1
        Threads that predict; -1 for one per core. The predictions are the same for any number.
    missing : float, optional
        Value that means missing in the rows to come, besides NaN, as in `votes`; the compiled forest keeps it, and so
        does its file.

    Returns
    -------
    CompiledForest
        Independent of the framework; `CompiledForest.save` writes it to one file.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees, or cannot be compiled.
    ValueError
        If the table is for another forest, threshold or way of voting.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(101, random_state=0).fit(X[:400], y[:400])
    >>> fast = rfsize.compile(forest)
    >>> fast
    CompiledForest(101 scikit-learn trees, 2 classes, averaged scores, no stop table)
    >>> bool((fast.predict(X) == forest.predict(X)).all())
    True

    With a table of the out-of-bag votes most rows ask a few trees for the majority of all:

    >>> table = rfsize.StopTable.build(101, alpha=0.99, prior=rfsize.votes(forest, X[:400], oob=True))
    >>> labels, asked = rfsize.compile(forest, table).predict(X, return_trees=True)
    >>> bool(asked.mean() < 20)
    True
    """
    choice("voting", voting, ("auto", "soft", "hard"))
    adapter = adapter_for(weighted_adapter_for(model) or model, casts_votes=False, missing=missing)
    if adapter.holder is not None and table is None and voting == "auto" and threshold == 0.5:
        table = adapter.holder.table
    table = checked_table(adapter, table)
    threshold = adapter.checked_threshold(threshold)
    give(shrinking_of(adapter))
    forest = Forest.of(adapter, adapter.tree_table(threshold), threshold)
    return CompiledForest(forest, table, voting=_resolved(voting, adapter, table), n_jobs=n_jobs)


def _resolved(voting: str, adapter: Adapter, table: StopTable | None) -> str:
    """What the labels go by, where "auto" may be asked for."""
    if voting == "auto":
        return adapter.predict_obeys if table is None else table.voting
    if voting == "soft" and adapter.vote_weights is not None:
        raise ValueError("the members of AdaBoost vote, and its own predict goes by their weights: leave voting out")
    if voting == "hard" and not adapter.classes.size:
        raise ValueError("the forest predicts numbers, of which there is no majority vote: leave voting out")
    return voting


def load(path: str | Path, *, n_jobs: int = -1) -> CompiledForest:
    """Read what `CompiledForest.save` wrote; neither LightGBM nor XGBoost need be installed.

    Parameters
    ----------
    path : str or Path
        The file; it may come from anyone: it holds no code, and everything in it is checked.
    n_jobs : int, default -1
        Threads that predict; -1 for one per core.

    Returns
    -------
    CompiledForest
        Predicts as the one saved.

    Raises
    ------
    ForestFileError, TableError
        If the file is damaged, or was not written by rfsize.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> rfsize.compile(forest).save("forest.npz")
    >>> rfsize.load("forest.npz")
    CompiledForest(50 scikit-learn trees, 3 classes, averaged scores, no stop table)
    """
    forest, table, voting = load_forest(Path(path))
    try:
        return CompiledForest(forest, table, voting=voting, n_jobs=n_jobs)
    except ValueError as error:
        raise ForestFileError(f"{path} is damaged, or was not written by rfsize: {error}") from error


class CompiledForest:
    """A compiled forest, and the table by which its rows stop asking trees.

    Safe to call from many threads at once, after a fork, and in worker processes.

    Parameters
    ----------
    forest : Forest
        The trees.
    table : StopTable, optional
        When rows stop asking.
    voting : {"auto", "soft", "hard"}
        Whether labels go by averaged scores or by votes; "auto" for what the table goes by, without one for scores.
    n_jobs : int, default -1
        Threads that predict; -1 for one per core.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Class labels; empty for regression.
    n_trees : int
        Trees that are asked at most.

    Raises
    ------
    ValueError
        If the table is for another forest, threshold or way of voting.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> compiled = rfsize.compile(RandomForestClassifier(50, random_state=0).fit(X, y))
    >>> compiled.n_trees, compiled.classes.tolist()
    (50, [0, 1, 2])
    >>> compiled.predict(X).shape, compiled.predict_proba(X).shape
    ((150,), (150, 3))
    """

    def __init__(
        self, forest: Forest, table: StopTable | None = None, *, voting: str = "auto", n_jobs: int = -1
    ) -> None:
        if voting == "auto":
            voting = "soft" if table is None else table.voting
        if table is not None:
            check_fit(table, forest, voting)
        self.forest = forest
        self.table = table
        self.voting = voting
        self.n_jobs = n_jobs

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels, shape (n_classes,); empty for regression."""
        return self.forest.classes

    @property
    def n_trees(self) -> int:
        """Trees that are asked at most."""
        return self.forest.n_trees

    def __repr__(self) -> str:
        trees = how_many(self.n_trees, f"{self.forest.conventions.framework} tree")
        if not self.classes.size:
            return f"CompiledForest({trees}, regression)"
        by = "averaged scores" if self.voting == "soft" else "majority vote"
        table = "no stop table" if self.table is None else repr(self.table)
        return f"CompiledForest({trees}, {len(self.classes)} classes, {by}, {table})"

    @overload
    def predict(self, X: Any, *, return_trees: Literal[False] = False) -> NDArray[Any]: ...

    @overload
    def predict(self, X: Any, *, return_trees: Literal[True]) -> tuple[NDArray[Any], Int64s]: ...

    def predict(self, X: Any, *, return_trees: bool = False) -> Any:
        """Labels, or numbers of a regression forest.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the framework takes them.
        return_trees : bool, default False
            Whether to return also how many trees each row asked.

        Returns
        -------
        labels : ndarray, shape (n_rows,)
            In the caller's encoding. By averaged scores those that the framework's own ``predict`` gives, or of a
            booster's probability those above the threshold; scores are added in its own order and precision. By votes
            those of the majority. Ties go to the lowest class index. With a table, what the table promises of these.
        asked : ndarray of int64, shape (n_rows,)
            Only with ``return_trees``. Without a table, trees are left out that can no longer change the label.

        Raises
        ------
        ValueError
            If ``X`` does not fit the forest, or holds what the framework refuses.

        Examples
        --------
        The labels are those of all trees, though no row asks more trees than can change its label:

        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> labels, asked = rfsize.compile(forest).predict(X, return_trees=True)
        >>> labels.tolist() == forest.predict(X).tolist()
        True
        >>> bool(asked.mean() < 50)
        True
        """
        if self.classes.size:
            labels, asked = (self._by_scores if self.voting == "soft" else self._by_votes).labels(X)
            found = self.classes[labels]
        else:
            numbers, asked = self._by_scores.predictions(X)
            found = numbers[:, 0]
        return (found, asked) if return_trees else found

    def votes(self, X: Any) -> Votes:
        """Votes of all trees, as `rfsize.votes` counts them.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the framework takes them.

        Returns
        -------
        Votes
            One row of counts per row of ``X``.

        Raises
        ------
        ValueError
            As in `predict`, or if the trees have weights.
        NotAForestError
            If the forest predicts numbers.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> rfsize.compile(forest).votes(X) == rfsize.votes(forest, X)
        True
        """
        if not self.classes.size:
            raise NotAForestError("the forest predicts numbers, for which its trees cast no votes: use predict")
        if self.table is not None and isinstance(self.table.stops, WeightedStops):
            raise ValueError(
                "the trees have weights, so that the number of their votes says nothing of the label: use predict or "
                "predict_proba"
            )
        return Votes(self._by_votes.counts(X), self.classes, self.n_trees)

    @overload
    def predict_proba(self, X: Any, *, return_trees: Literal[False] = False) -> Floats: ...

    @overload
    def predict_proba(self, X: Any, *, return_trees: Literal[True]) -> tuple[Floats, Int64s]: ...

    def predict_proba(self, X: Any, *, return_trees: bool = False) -> Any:
        """Class probabilities that the framework predicts, from the averaged scores of all trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the framework takes them.
        return_trees : bool, default False
            Whether to return also how many trees each row asked.

        Returns
        -------
        probabilities : ndarray of float64, shape (n_rows, n_classes)
            Equal to the framework's to the last bit of its own precision, which is single in XGBoost, where both take
            exponentials by the same C library; sums of scores are equal with any. With a table that was calibrated for
            probabilities, as close as it promises.
        asked : ndarray of int64, shape (n_rows,)
            Only with ``return_trees``; all trees without such a table.

        Raises
        ------
        ValueError
            As in `predict`.
        NotAForestError
            If the forest predicts numbers.

        Examples
        --------
        >>> import numpy as np
        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> np.allclose(rfsize.compile(forest).predict_proba(X), forest.predict_proba(X), atol=1e-12)
        True
        """
        if not self.classes.size:
            raise NotAForestError("the forest predicts numbers, and no probabilities: use predict")
        found, asked = self._by_scores.predictions(X)
        return (found, asked) if return_trees else found

    def save(self, path: str | Path) -> None:
        """Write forest and table to one file, which `rfsize.load` reads without LightGBM or XGBoost.

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        ValueError
            If the class labels are neither numbers nor text.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> compiled = rfsize.compile(RandomForestClassifier(50, random_state=0).fit(X, y))
        >>> compiled.save("forest.npz")
        >>> rfsize.load("forest.npz").predict(X).tolist() == compiled.predict(X).tolist()
        True
        """
        save_forest(Path(path), self.forest, self.table, self.voting)

    def to_c(self, path: str | Path, *, name: str = "forest") -> None:
        """Write forest, table and quantiser to one C99 file, which needs nothing but a C compiler.

        A comment at its top says which functions it has, for one row and for many. They allocate nothing, keep nothing
        between calls, and give the labels, trees asked and probabilities that this forest gives. Constants take, next
        to thresholds and table, 4 to 12 bytes for each split and 4 or 8 for each score of a leaf: 8 bytes for most
        leaves of an XGBoost forest of two classes, and 12 of a LightGBM forest. Leaves that are alike share theirs.

        Parameters
        ----------
        path : str or Path
            The file.
        name : str, default "forest"
            What the names of the functions begin with.

        Raises
        ------
        ValueError
            If ``name`` is no C identifier, a class label takes more than 4,095 bytes or holds a NUL, or the table is
            not for labels.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import rfsize
        >>> from pathlib import Path
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> rfsize.compile(forest).to_c("iris.c", name="iris")
        >>> "int iris_predict(const double *row);" in Path("iris.c").read_text()
        True
        """
        write_c(Path(path), self.forest, None if self.table is None else self.table.stops, self.voting, name)

    @property
    def adapter(self) -> Adapter:
        """The trees as `StopTable.calibrate` and `rfsize.size` take any forest's, for rows it was not trained on.

        Raises
        ------
        NotAForestError
            If the trees have weights.
        """
        if self.table is not None and isinstance(self.table.stops, WeightedStops):
            raise NotAForestError("boosted trees are no independent draws, of which a size or a table could be told")
        return CompiledTrees(self.forest, self._rows, self.voting)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.forest, self.n_jobs)

    @cached_property
    def _by_scores(self) -> ByScores:
        stops = None if self.table is None else self.table.stops
        return ByScores(self.forest, self._rows, stops if isinstance(stops, AverageStops | SpreadStops) else None)

    @cached_property
    def _by_votes(self) -> ByVotes:
        stops = None if self.table is None else self.table.stops
        return ByVotes(self.forest, self._rows, None if isinstance(stops, AverageStops | SpreadStops) else stops)

    def __getstate__(self) -> dict[str, Any]:
        # What is prepared for predicting takes more memory than the forest, and is soon prepared again.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}
