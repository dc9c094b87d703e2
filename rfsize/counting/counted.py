"""`rfsize.count`: one pass over the trees, for all questions that are asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.base import warn_of_dependence
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows, Told
from rfsize.counting.memory import MemoryLimit
from rfsize.counting.training_rows import noting_training_rows
from rfsize.utils.warn import Caution, give
from rfsize.utils.words import how_many
from rfsize.voting.votes import Votes


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """What a forest's trees say of some rows, counted once: votes, scores, and sums by parts of the forest.

    `rfsize.size`, `truncate`, `oob_score`, `oob_predict` and `oob_predict_proba` take it in place of model and rows,
    `StopTable.build` as a prior, and reports made from it answer `metric_gap` without asking the trees again.

    Attributes
    ----------
    forest : ForestOnRows
        The model and the rows: references, no copies.
    y : array_like or None
        Labels of the rows, in the encoding of the model, as they were given.
    sample_weight : array_like or None
        Weights of the rows, as they were given.
    told : Told
        What the trees say.
    noted : tuple of Caution
        Warnings that were given when the trees were asked, and go into reports.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> counted = rfsize.count(forest, X, y, oob=True)
    >>> counted
    Counted(569 rows (oob), 2 classes, 100 trees)
    >>> report = rfsize.size(counted, alpha=0.95)
    >>> len(rfsize.truncate(counted, alpha=0.95).estimators_) == report.n_trees
    True
    """

    forest: ForestOnRows
    y: Any
    sample_weight: Any
    told: Told
    noted: tuple[Caution, ...] = ()

    @property
    def votes(self) -> Votes:
        """Votes of the rows that sizes go by: all, or one of each set of copies where copies are groups.

        Raises
        ------
        ValueError
            Of a regression forest, whose trees cast no votes.
        """
        if self.told.outputs.votes is None:
            raise ValueError("the trees of a regression forest cast no votes: ask for scores")
        return self.told.outputs.votes

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.forest.n_rows

    @property
    def n_trees(self) -> int:
        """Trees of the forest."""
        return self.forest.adapter.n_trees

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; empty for regression."""
        return self.forest.adapter.classes

    @property
    def source(self) -> str:
        """Where votes and scores come from: "oob" or "rows given"."""
        return self.forest.source

    @property
    def nbytes(self) -> int:
        """Memory that it holds, beside the model and the rows."""
        outputs = self.told.outputs
        of_votes = 0 if outputs.votes is None else outputs.votes.counts.nbytes
        held = (outputs.blocks, outputs.scores, self.told.averages)
        return of_votes + sum(0 if one is None else one.nbytes for one in held)

    @classmethod
    def of(cls, forest: ForestOnRows, y: Any = None, sample_weight: Any = None) -> Counted:
        """Ask the trees of a forest on rows."""
        return cls(forest, y, sample_weight, forest.told(), noting_training_rows(forest, y, sample_weight))

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        return f"Counted({how_many(self.n_rows, 'row')} ({self.source}), {what}, {how_many(self.n_trees, 'tree')})"


def count(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    oob: bool = False,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: ArrayLike | str | None = None,
    missing: float | None = None,
    max_memory: float | None = None,
) -> Counted:
    """Ask the trees once for all questions to come: a notebook's five questions cost one pass.

    Parameters
    ----------
    model
        As in `votes`, or a regression forest as in `size`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        Rows the forest was not trained on; or, with ``oob``, all training rows in the order of training.
    y : array_like, shape (n_rows,), optional
        Labels of the rows, in the encoding of the model, for metrics; with ``oob`` also as in `inbag`.
    oob, threshold, seed, subsample, groups, missing, max_memory
        As in `votes`.
    sample_weight : array_like, shape (n_rows,), optional
        Weights of the rows, for metrics; with ``oob`` also as in `inbag`.

    Returns
    -------
    Counted
        What `size`, `truncate`, `oob_score`, `oob_predict`, `oob_predict_proba` and `StopTable.build` take. It holds
        about 40 bytes a row where one score tells two classes, more where there are more classes, and besides at most
        400 MB of sums by parts of the forest, and of what noise the rows share; see `Counted.nbytes`.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    InbagError
        If ``oob`` and the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit; or the rows may take more memory than ``max_memory``.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> counted = rfsize.count(forest, X, y, oob=True)
    >>> report = rfsize.size(counted, alpha=0.95)
    >>> gap = report.metric_gap("accuracy")
    >>> table = rfsize.StopTable.build(counted.n_trees, prior=counted)
    """
    of_training: dict[str, Any] = {"y": y, "sample_weight": sample_weight} if oob else {}
    adapter = adapter_for(model, casts_votes=False, missing=missing)
    limit = MemoryLimit.of(max_memory, "all")
    of_bags: dict[str, Any] = {"seed": seed, "subsample": subsample, "groups": groups, **of_training}
    forest = ForestOnRows.of(adapter, X, oob=oob, threshold=threshold, limit=limit, **of_bags)
    warn_of_dependence(adapter.shared_bags, adapter.seed_dependence)
    counted = Counted.of(forest, y, sample_weight)
    give(counted.noted)
    return counted
