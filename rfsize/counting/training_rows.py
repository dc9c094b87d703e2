"""Detect whether rows given as fresh rows are the rows that the forest was trained on; trees on rows that are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Caution, Int64s, give
from rfsize.counting.task import BagCheck, Task
from rfsize.exceptions import InbagError, TrainingRowsWarning
from rfsize.models.bags import Bags
from rfsize.models.ensemble import LeafIds
from rfsize.models.framework import read_model, refuse_regression
from rfsize.models.model import Model, learning_rate_of
from rfsize.models.rows import DistributedRows

# Fresh rows overfill some leaf long before all of them are counted, so leaves are checked after each part of the rows:
# number of parts, and fewest rows in a part.
_PARTS, _FEWEST_ROWS = 16, 512


def warning_of_training_rows(task: Task, y: Any = None, sample_weight: Any = None) -> tuple[Caution, ...]:
    """A warning if the rows are the training rows in their order; empty if it cannot be known.

    Leaf counts prove that rows are all training rows, as they prove bags. The proof begins only if there are as many
    rows as training rows. It ends as soon as a leaf holds more rows than at training.

    Parameters
    ----------
    task : Task
        The forest, and the rows to send down all its trees.
    y, sample_weight : array_like, shape (n_rows,), optional
        Labels and weights of the rows, if known; the bags or the proof may depend on them.
    """
    bags = _proven_bags(task, y, sample_weight)
    if bags is None:
        return ()
    advice = "leave some rows out of each bag" if bags.hold_all else "give oob=True"
    text = (
        f"X are the {task.n_rows:,} rows that the forest was trained on, as its leaf counts prove, and trees agree on "
        f"rows that they have seen: {advice}, or give rows that it was not trained on"
    )
    return (Caution(TrainingRowsWarning, text),)


def refuse_training_rows(task: Task) -> None:
    """Raise ``ValueError`` if the rows for a certificate are the rows that the forest was trained on."""
    if _proven_bags(task, None, None) is not None:
        raise training_rows_error()


def training_rows_error() -> ValueError:
    """The error for a certificate on rows that the forest was trained on."""
    return ValueError(
        "X are the rows that the forest was trained on, and a certificate from training rows does not hold for other "
        "rows: give rows that it was not trained on"
    )


def _proven_bags(task: Task, y: Any, sample_weight: Any) -> Bags | None:
    """The bags that were drawn from the rows; None if the rows are not training rows, or it cannot be known."""
    if task.bags is not None:
        return None
    is_given = y is not None or sample_weight is not None
    for given in ((None, None), (y, sample_weight)) if is_given else ((None, None),):
        try:
            bags = task.forest.likely_bags(task.layout, *given)
        except ValueError:  # labels or weights differ from those of training, or bags cannot be drawn again
            continue
        if bags is not None and _proves(task, bags):
            return bags
    return None


def _proves(task: Task, bags: Bags) -> bool:
    """Whether the leaf counts prove that the bags were drawn from these rows."""
    check, most = BagCheck(task.forest, bags), max(_FEWEST_ROWS, -(-task.n_rows // _PARTS))
    for _ in replace(task.walk, bags=bags).batches("rows", most_rows=most, check=check):
        if check.is_exceeded:
            return False
    try:
        check.conclude()
    except InbagError:
        return False
    return True


# Rows for certificates, which must not be training rows

# "scores": the scores of each tree before the link, shape (rows, T, n_scores). "partial scores": those that the first
# 1, …, T trees predict together. "values": the leaf values that the framework adds up, in its precision, in the same
# shape. "votes": the class index that each tree votes for, shape (rows, T).
Outputs = Literal["scores", "partial scores", "values", "votes"]

Total = TypeVar("Total")

# Reads a block of outputs. Takes the outputs, and the numbers of the block's rows among all rows.
Read = Callable[[NDArray[Any], Int64s], Total]

# Further numbers that calibration holds for each row and score of a tree.
_CELLS = 6

_WHAT = "scores of trees"  # of a progress bar


@dataclass(frozen=True, eq=False)
class TreesOnRows:
    """A model, and rows that it was not trained on."""

    rows: Task

    @classmethod
    def of(
        cls, model: Any, X: Any, *, casts_votes: bool, threshold: float | None = None, missing: float | None = None
    ) -> TreesOnRows:
        """Check a model and rows.

        Raises
        ------
        ValueError
            If the rows are the training rows, or do not fit the model.
        """
        forest = read_model(model, missing=missing)
        if casts_votes:
            refuse_regression(forest)
        rows = Task.of(forest, X, threshold=threshold)
        refuse_training_rows(rows)
        give(learning_rate_of(rows.forest, labels_at=rows.threshold if casts_votes else None))
        return cls(rows)

    @property
    def forest(self) -> Model:
        """The model."""
        return self.rows.forest

    @property
    def n_members(self) -> int:
        """Number of trees after which a row may stop; those that grew in parallel count singly."""
        ensemble = self.forest.ensemble
        return self.forest.n_trees * (1 if ensemble is None else ensemble.parallel_trees)

    @property
    def threshold(self) -> float | None:
        """Class 1 is predicted if its probability is above the threshold; None if there are not two classes."""
        return self.rows.threshold if self.forest.classes.size == 2 else None

    @property
    def cut(self) -> float:
        """Class 1 is predicted if the mean score is above the cut; 0 if there are several scores, or no classes."""
        forest = self.forest
        return forest.raw_threshold(self.rows.threshold) if forest.n_scores == 1 and forest.classes.size else 0.0

    def added_up(self, outputs: Outputs, read: Read[Total], nothing: Callable[[], Total]) -> Total:
        """Call ``read`` on each block of outputs, in the order of the rows, and add up what it returns.

        ``nothing`` makes the total to start from. Rows on workers are read there, so then ``read`` and ``nothing`` must
        be picklable.
        """
        rows, total = self.rows, nothing()
        if not isinstance(rows.X, DistributedRows):
            return self._added_to(total, outputs, read, 0)
        sent = rows.forest, rows.threshold, outputs, read, nothing
        for part in rows.X.each(_read_there, *sent, what=_WHAT):
            total += part
        return total

    def _added_to(self, total: Any, outputs: Outputs, read: Read[Any], first: int) -> Any:
        forest = self.forest
        of_leaves: dict[Outputs, Callable[[LeafIds], NDArray[Any]]] = {
            "scores": lambda leaves: leaves.scores,
            "partial scores": forest.partial_scores,
            "values": forest.leaf_values,
            "votes": forest.leaf_class(self.rows.threshold),
        }
        for batch in self.rows.walk.batches(_WHAT, cells=_CELLS * self.n_members * forest.n_scores):
            number = np.arange(first + batch.rows.start, first + batch.rows.stop)
            total += read(of_leaves[outputs](batch.leaves), number)
        return total


def _read_there(
    rows: range, X: Any, forest: Model, threshold: float, outputs: Outputs, read: Read[Any], nothing: Any
) -> Any:
    """Add up a piece of the rows on the worker that holds it."""
    there = TreesOnRows(Task(forest, forest.open(X), None, threshold))
    return there._added_to(nothing(), outputs, read, rows.start)


def one_in(every: int, place: Int64s) -> NDArray[np.bool_]:
    """Mask of every ``every``-th row, by the rows' numbers ``place``; no rows if ``every`` is 0."""
    return place % every == 0 if every else np.zeros(len(place), dtype=np.bool_)
