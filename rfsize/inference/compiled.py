"""CompiledForest: predicts as the model's own ``predict`` does, many times faster."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Int64s, check_threads, how_many
from rfsize.counting.votes import Votes
from rfsize.exceptions import NotAForestError
from rfsize.inference.answers import Answer
from rfsize.inference.c_source import write_c
from rfsize.inference.file import save_forests
from rfsize.inference.tables import check_fit
from rfsize.stopping.rules import Rule
from rfsize.stopping.table import StopTable
from rfsize.walking.layout import PackedForest

LABELS = ("labels", "class numbers")
"""The values of ``output`` for which `predict` returns a class."""


class CompiledForest:
    """A compiled forest, with the stop table that it uses, if any.

    You can call it from many threads at once, after a fork, and in worker processes.

    Parameters
    ----------
    forest : PackedForest
        The trees.
    table, voting, n_jobs
        As in `rfsize.compile`. Without a table, "auto" means averaged scores.

    Raises
    ------
    ValueError
        As in `rfsize.compile`.

    See Also
    --------
    compile : Make a compiled forest.
    load : Read a saved one.
    StopTable : Ask each row fewer trees.

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
        self, forest: PackedForest, table: StopTable | None = None, *, voting: str = "auto", n_jobs: int = -1
    ) -> None:
        check_threads(n_jobs)
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
        """Number of trees."""
        return self.forest.n_trees

    def __repr__(self) -> str:
        gives, kind, by = self.forest.output, "regression", ""
        if self.classes.size:
            kind = f"{len(self.classes)} classes"
            above = "" if self.forest.threshold == 0.5 else f" above {self.forest.threshold:g}"
            labels = "" if gives in LABELS else "predict_labels "
            by = f", {labels}by {'averaged scores' if self.voting == 'soft' else 'majority vote'}{above}"
        table = "no stop table"
        if self.table is not None:
            own = "predict_labels" if self.table.metric == "labels" else "predict_proba"
            methods = ["predict"] * self.predict_uses_table + [own] * bool(self.classes.size)
            table = f"on {' and '.join(methods)}: {self.table!r}"
        trees = how_many(self.n_trees, f"{self.forest.conventions.framework} tree")
        return f"CompiledForest({trees}, {kind}; predict gives {gives}{by}; {table})"

    @property
    def predict_uses_table(self) -> bool:
        """Whether `predict` stops by the table: whether it gives what the table is for."""
        return self.table is not None and (self.forest.output in LABELS) == (self.table.metric == "labels")

    @overload
    def predict(self, X: Any, *, return_trees: Literal[False] = False) -> NDArray[Any]: ...

    @overload
    def predict(self, X: Any, *, return_trees: Literal[True]) -> tuple[NDArray[Any], Int64s]: ...

    def predict(self, X: Any, *, return_trees: bool = False) -> Any:
        """Predict as the model's own ``predict`` does: labels or numbers of an estimator, probabilities of a Booster.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the framework takes them.
        return_trees : bool, default False
            Whether to return the number of trees that each row used as well.

        Returns
        -------
        predicted : ndarray, shape (n_rows,) or (n_rows, n_classes)
            For a classifier: labels, as `predict_labels` gives them. For a `Booster` of two classes: the probability of
            class 1; of more classes: the probabilities of all classes, or labels as floats if XGBoost was trained with
            ``multi:softmax``. For a regression: numbers. Floats have the framework's own precision, which is single in
            XGBoost, and scores are added in the framework's order. With a stop table for these predictions, they are as
            close to those of all trees as the table promises.
        n_used : ndarray of int64, shape (n_rows,)
            Only with ``return_trees``. Labels, and predictions that have a stop table, may use fewer trees than all.

        Raises
        ------
        ValueError
            If ``X`` does not fit the forest, or holds what the framework refuses.

        Examples
        --------
        A row stops when the remaining trees cannot change its label, so the labels are those of all trees:

        >>> import rfsize
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> labels, n_used = rfsize.compile(forest).predict(X, return_trees=True)
        >>> labels.tolist() == forest.predict(X).tolist()
        True
        >>> bool(n_used.mean() < 50)
        True
        """
        few = self._predicted.few.predict(X, return_trees)
        return self._predicted.of(X, return_trees) if few is None else few

    @overload
    def predict_labels(self, X: Any, *, return_trees: Literal[False] = False) -> NDArray[Any]: ...

    @overload
    def predict_labels(self, X: Any, *, return_trees: Literal[True]) -> tuple[NDArray[Any], Int64s]: ...

    def predict_labels(self, X: Any, *, return_trees: bool = False) -> Any:
        """Predict class labels, also where the model's own ``predict`` gives probabilities.

        Parameters
        ----------
        X, return_trees
            As in `predict`.

        Returns
        -------
        labels : ndarray, shape (n_rows,)
            Labels as you gave them at training. With averaged scores, this is the class that the framework predicts, or
            class 1 if its probability is above the threshold. With votes, it is the class of the majority. Ties go to
            the lowest class index. With a stop table for labels, they are as close to those of all trees as the table
            promises.
        n_used : ndarray of int64, shape (n_rows,)
            Only with ``return_trees``. Without a stop table for labels, a row skips the trees that can no longer change
            its label.

        Raises
        ------
        ValueError
            As in `predict`.
        NotAForestError
            If the forest predicts numbers.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
        >>> labels = rfsize.compile(forest, threshold=0.3).predict_labels(X)
        >>> labels.tolist() == (forest.predict_proba(X)[:, 1] > 0.3).astype(int).tolist()
        True
        """
        refuse_numbers(self.classes, "labels")
        few = self._labels.few.predict(X, return_trees)
        return self._labels.of(X, return_trees) if few is None else few

    def votes(self, X: Any) -> Votes:
        """Count the votes of all trees, as `rfsize.tree_outputs` does.

        Parameters
        ----------
        X
            As in `predict`.

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
        >>> rfsize.compile(forest).votes(X) == rfsize.tree_outputs(forest, X).votes
        True
        """
        if not self.classes.size:
            raise NotAForestError("the forest predicts numbers, for which its trees cast no votes: use predict")
        return Votes(self._labels.votes(X), self.classes, self.n_trees, threshold=self.forest.threshold)

    @overload
    def predict_proba(self, X: Any, *, return_trees: Literal[False] = False) -> NDArray[np.floating[Any]]: ...

    @overload
    def predict_proba(self, X: Any, *, return_trees: Literal[True]) -> tuple[NDArray[np.floating[Any]], Int64s]: ...

    def predict_proba(self, X: Any, *, return_trees: bool = False) -> Any:
        """Predict class probabilities as the framework does, from the averaged scores of all trees.

        Parameters
        ----------
        X, return_trees
            As in `predict`.

        Returns
        -------
        probabilities : ndarray, shape (n_rows, n_classes)
            In the framework's precision, which is single in XGBoost. Equal to the framework's probabilities to the last
            bit, if both use the same C library for exponentials; the sums of scores are always equal. With a stop table
            that was calibrated for probabilities, they are as close as the table promises.
        n_used : ndarray of int64, shape (n_rows,)
            Only with ``return_trees``. Without a stop table for probabilities, every row uses all trees.

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
        refuse_numbers(self.classes, "probabilities")
        few = self._probabilities.few.predict(X, return_trees)
        return self._probabilities.of(X, return_trees) if few is None else few

    def save(self, path: str | Path, *, compress: bool = True) -> None:
        """Write the forest and its table to one file. `rfsize.load` reads it without LightGBM or XGBoost.

        Parameters
        ----------
        path : str or Path
            The file.
        compress : bool, default True
            Whether the file is as small as can be, and has checksums. Otherwise it holds the arrays as they are used:
            it takes several times the space, is loaded at once, and several processes can share it in memory
            (``rfsize.load(path, mmap=True)``).

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
        >>> compiled.save("forest.rfsize")
        >>> rfsize.load("forest.rfsize").predict(X).tolist() == compiled.predict(X).tolist()
        True
        """
        save_forests(Path(path), [(self.forest, self.table, self.voting)], compress=compress)

    def to_c(self, path: str | Path, *, name: str = "forest") -> None:
        """Write the forest and its table as one C99 file, which needs nothing but a C compiler.

        The top of the file names the columns and the codes of their categories, and declares its functions, for one
        row and for many. They give the same labels, probabilities and numbers of trees as this forest, allocate no
        memory, and keep nothing between calls. The constants take 4 to 12 bytes for each split and 4 or 8 bytes for
        each score of a leaf, besides the thresholds and the table. Equal leaves share one score. With two classes, most
        leaves take 8 bytes in an XGBoost forest and 12 in a LightGBM forest.

        Parameters
        ----------
        path : str or Path
            The file.
        name : str, default "forest"
            Beginning of the functions' names.

        Raises
        ------
        ValueError
            If ``name`` is not a C identifier, or the table is not for labels.
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
        write_c(Path(path), self.forest, self._stops, self.voting, name)

    @cached_property
    def _predicted(self) -> Answer:
        forest = self.forest
        if forest.output == "labels":
            return self._labels
        if forest.output == "class numbers":
            named = partial(np.asarray, dtype=forest.precision)
            return Answer.labels(forest, self.n_jobs, self._stops, self.voting, named)
        return Answer.numbers(forest, self.n_jobs, self._stops, forest.n_scores if forest.predicts_each_class else 1)

    @cached_property
    def _labels(self) -> Answer:
        return Answer.labels(self.forest, self.n_jobs, self._stops, self.voting)

    @cached_property
    def _probabilities(self) -> Answer:
        return Answer.numbers(self.forest, self.n_jobs, self._stops, len(self.classes))

    @property
    def _stops(self) -> Rule | None:
        return None if self.table is None else self.table.stops

    def __getstate__(self) -> dict[str, Any]:
        # The prepared readers take more memory than the forest, and are quickly made again.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def refuse_numbers(classes: NDArray[Any], what: str) -> None:
    """Raise `NotAForestError` if a regression is asked for labels or probabilities."""
    if not classes.size:
        raise NotAForestError(f"forests of a regression predict numbers, and no {what}: use predict")
