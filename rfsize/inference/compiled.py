"""Predicting with a compiled forest: `compile` and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import VoteWeights
from rfsize.adapters.registry import adapter_for, weighted_adapter_for
from rfsize.errors import NotAForestError
from rfsize.inference.file import load_forest, save_forest
from rfsize.stopping.rules import lossless_stops
from rfsize.stopping.stops import BinaryStops, LeaderStops, Stops, WeightedStops
from rfsize.stopping.table import StopTable
from rfsize.utils import matrix
from rfsize.utils.threads import each_range
from rfsize.voting.links import Link
from rfsize.voting.votes import Votes
from rfsize.walking.layout import Forest
from rfsize.walking.quantising import Quantiser, rows_per_block

# Without a table. To find the two leaders of many classes after every tree would take longer than to walk down it.
_TREES_BETWEEN_LOOKS = 8


def compile(
    model: Any,
    table: StopTable | None = None,
    *,
    threshold: float = 0.5,
    n_jobs: int = -1,
    missing: float | None = None,
) -> CompiledForest:
    """A forest that predicts many times faster, by majority vote.

    Without a table the label is the majority of all trees' votes (of which those are left out that can no longer change
    it). With one, each row asks trees in turn until the
    table says that its outcome is settled. An ``AdaBoostClassifier`` of decision trees predicts exactly as it does
    itself, and each row asks trees from the heaviest down until the remaining weight cannot change its label.

    Parameters
    ----------
    model : booster or estimator
        A trained forest of trees, as in `votes`, or an `AdaBoostClassifier` of trees; it is not changed.
    table : StopTable, optional
        For as many trees and classes as the forest has. Leave it out for AdaBoost, whose own weights say when to stop.
    threshold : float, default 0.5
        Probability of class 1 above which a tree votes for it, as in `votes`; two classes only.
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
        If the table is for another forest.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(101, random_state=0).fit(X, y)
    >>> rfsize.compile(forest)
    CompiledForest(101 scikit-learn trees, 2 classes, no stop table)

    With a table of the out-of-bag votes most rows ask a few trees:

    >>> table = rfsize.StopTable.build(101, alpha=0.99, prior=rfsize.votes(forest, X, oob=True))
    >>> labels, asked = rfsize.compile(forest, table).predict(X, return_trees=True)
    >>> bool(asked.mean() < 20)
    True
    """
    adapter = adapter_for(weighted_adapter_for(model) or model, casts_votes=False, missing=missing)
    if not adapter.classes.size:
        raise NotAForestError(
            "the forest predicts numbers, and a compiled forest labels and probabilities: use its own predict, of "
            "fewer trees if it is slow (rfsize.truncate(model, X_val, criterion='score', tolerance=...))"
        )
    own = adapter.vote_weights
    table = _checked_table(None if own is None else _table_of_weights(own, len(adapter.classes)), table)
    forest = Forest.of(adapter, adapter.tree_table(adapter.checked_threshold(threshold)))
    return CompiledForest(forest, table, n_jobs=n_jobs)


def _table_of_weights(given: VoteWeights, n_classes: int) -> StopTable:
    """The table by which members with weights stop."""
    return StopTable.of_weights(WeightedStops(given.weight, given.against, given.total), n_classes)


def _checked_table(own: StopTable | None, given: StopTable | None) -> StopTable | None:
    """The table to compile with, where ``own`` is that of members with weights."""
    if own is None:
        if given is not None and isinstance(given.stops, WeightedStops):
            raise ValueError(
                "the table is for members with weights, but the trees of a forest have one vote each: use "
                "StopTable.build"
            )
        return given
    if given is not None and given != own:
        raise ValueError(
            "boosted trees are no independent draws: only a lead that their remaining weight cannot make up may stop "
            "them, and the table is another one; leave table out"
        )
    return own


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
    CompiledForest(50 scikit-learn trees, 3 classes, no stop table)
    """
    forest, table = load_forest(Path(path))
    return CompiledForest(forest, table, n_jobs=n_jobs)


class CompiledForest:
    """A compiled forest, and the table by which its rows stop voting.

    Safe to call from many threads at once, after a fork, and in worker processes.

    Parameters
    ----------
    forest : Forest
        The trees.
    table : StopTable, optional
        When rows stop voting.
    n_jobs : int, default -1
        Threads that predict; -1 for one per core.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Class labels.
    n_trees : int
        Trees that vote.

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

    def __init__(self, forest: Forest, table: StopTable | None = None, *, n_jobs: int = -1) -> None:
        if table is not None and (table.n_trees, table.n_classes) != (forest.n_trees, len(forest.classes)):
            raise ValueError(
                f"the table is for {table.n_trees} trees and {table.n_classes} classes, the forest has "
                f"{forest.n_trees} trees and {len(forest.classes)} classes: build one for {forest.n_trees} trees"
            )
        self.forest = forest
        self.table = table
        self.n_jobs = n_jobs

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels, shape (n_classes,)."""
        return self.forest.classes

    @property
    def n_trees(self) -> int:
        """Trees that vote."""
        return self.forest.n_trees

    def __repr__(self) -> str:
        framework = self.forest.conventions.framework
        table = "no stop table" if self.table is None else repr(self.table)
        return f"CompiledForest({self.n_trees:,} {framework} trees, {len(self.classes)} classes, {table})"

    @overload
    def predict(self, X: Any, *, return_trees: Literal[False] = False) -> NDArray[Any]: ...

    @overload
    def predict(self, X: Any, *, return_trees: Literal[True]) -> tuple[NDArray[Any], NDArray[np.int64]]: ...

    def predict(self, X: Any, *, return_trees: bool = False) -> Any:
        """Labels by majority vote, or by the table.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the framework takes them.
        return_trees : bool, default False
            Whether to return also how many trees each row asked.

        Returns
        -------
        labels : ndarray, shape (n_rows,)
            In the caller's encoding; ties go to the lowest class index.
        asked : ndarray of int64, shape (n_rows,)
            Only with ``return_trees``. Without a table, trees are left out that can no longer change the majority.

        Raises
        ------
        ValueError
            If ``X`` does not fit the forest, or holds what the framework refuses.

        Examples
        --------
        The labels are those of all trees' votes, though no row asks more trees than can change its label:

        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> labels, asked = rfsize.compile(forest).predict(X, return_trees=True)
        >>> labels.tolist() == rfsize.votes(forest, X).winner().tolist()
        True
        >>> bool(asked.mean() < 50)
        True
        """
        if self.table is None:
            _, labels, asked = self._decided(X, self._majority, every=_TREES_BETWEEN_LOOKS)
        else:
            _, labels, asked = self._decided(X, self.table.stops)
        named = self.classes[labels]
        return (named, asked) if return_trees else named

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
        if self.table is not None and isinstance(self.table.stops, WeightedStops):
            raise ValueError(
                "the trees have weights, so that the number of their votes says nothing of the label: use predict or "
                "predict_proba"
            )
        return Votes(self._decided(X, None)[0], self.classes, self.n_trees)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities that the framework predicts, from the average score of all trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the framework takes them.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            Equal to the framework's to about 1e-6, which XGBoost computes in single precision.

        Raises
        ------
        ValueError
            As in `predict`.

        Examples
        --------
        >>> import numpy as np
        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> np.allclose(rfsize.compile(forest).predict_proba(X), forest.predict_proba(X), atol=1e-6)
        True
        """
        from rfsize.inference.kernels import add_scores

        forest = self.forest
        X = self._checked(X)
        total = np.zeros((matrix.n_rows(X), forest.n_scores))
        self._each_block(X, lambda q, rows: add_scores(q, tuple(forest.trees), forest.n_outputs, total[rows]))
        return Link(forest.conventions.link, forest.conventions.slope).probabilities(total / self.n_trees)

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
        save_forest(Path(path), self.forest, self.table)

    def _checked(self, X: Any) -> Any:
        X, forest = matrix.as_rows(X), self.forest
        underscores = forest.conventions.spaces_become_underscores
        matrix.check_columns(X, forest.feature_names, forest.n_features, spaces_become_underscores=underscores)
        return X

    @cached_property
    def _quantiser(self) -> Quantiser:
        return Quantiser(self.forest)

    @cached_property
    def _majority(self) -> Stops:
        """Stops at which the trees left can no longer change the majority of all."""
        kind = BinaryStops.kind if len(self.classes) == 2 else LeaderStops.kind
        return lossless_stops(kind, self.n_trees)

    def _decided(
        self, X: Any, stops: Stops | None, every: int = 1
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """Votes that each row asked for, or their weights, the index of its label, and how many they are."""
        from rfsize.inference.kernels import Stop, decide

        X, forest, stop = self._checked(X), self.forest, Stop.of(stops, self.n_trees, every)
        trees = tuple(forest.trees)
        counts = np.zeros((matrix.n_rows(X), len(self.classes)), dtype=stop.weight.dtype)
        labels = np.full(len(counts), -1, dtype=np.int64)
        asked = np.full(len(counts), self.n_trees, dtype=np.int64)

        def work(q: NDArray[np.uint16], rows: slice) -> None:
            decide(q, trees, forest.n_outputs, tuple(stop), counts[rows], labels[rows], asked[rows])
            if isinstance(stops, WeightedStops):
                level = labels[rows] < 0
                if level.any():
                    labels[rows][level] = self._winner(q[level], stops)

        self._each_block(X, work)
        return counts, labels, asked

    def _winner(self, q: NDArray[np.uint16], stops: WeightedStops) -> NDArray[np.int64]:
        """Labels of quantised rows by the weights of all trees, summed in the model's own order of them."""
        from rfsize.inference.kernels import cast

        votes = np.empty((len(q), self.n_trees), dtype=np.int64)
        cast(q, tuple(self.forest.trees), self.forest.n_outputs, votes)
        in_own_order = np.empty_like(votes)
        in_own_order[:, stops.order] = votes
        return stops.winner(in_own_order, len(self.classes))

    def _each_block(self, X: Any, work: Callable[[NDArray[np.uint16], slice], None]) -> None:
        """Quantise blocks of rows and work on them, in as many threads as asked for."""
        rows, quantise = matrix.n_rows(X), self._quantiser.blocks(X)

        def block(start: int, stop: int) -> None:
            work(quantise(start, stop), slice(start, stop))

        each_range(block, rows, rows_per_block(rows, self.forest.n_columns, n_jobs=self.n_jobs), n_jobs=self.n_jobs)
