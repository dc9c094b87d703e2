"""The trees of a forest on rows that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Int64s, give
from rfsize.counting.task import Task
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_model, refuse_regression
from rfsize.models.model import Forest, learning_rate_of
from rfsize.models.rows import DistributedRows

# "scores": the scores of each tree before the link, shape (rows, T, n_scores). "votes": the class index that each tree
# votes for, shape (rows, T).
Outputs = Literal["scores", "votes"]

Total = TypeVar("Total")

# Reads a block of outputs. Takes the outputs, and the numbers of the block's rows among all rows.
Read = Callable[[NDArray[Any], Int64s], Total]

# Further numbers that calibration holds for each row and score of a tree.
_CELLS = 6


@dataclass(frozen=True, eq=False)
class TreesOnRows:
    """A forest, and rows that it was not trained on."""

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
        if not isinstance(forest, Forest):
            raise NotAForestError(forest.why_no_forest)
        if casts_votes:
            refuse_regression(forest)
        rows = Task.of(forest, X, threshold=threshold)
        refuse_training_rows(rows)
        give(learning_rate_of(rows.forest, labels_at=rows.threshold if casts_votes else None))
        return cls(rows)

    @property
    def forest(self) -> Forest:
        """The forest."""
        return self.rows.forest

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
        for part in rows.X.each(_read_there, rows.forest, rows.threshold, outputs, read, nothing):
            total += part
        return total

    def _added_to(self, total: Any, outputs: Outputs, read: Read[Any], first: int) -> Any:
        leaf_class = self.forest.leaf_class(self.rows.threshold)
        for batch in self.rows.walk.batches(
            "scores of trees", cells=_CELLS * self.forest.n_trees * self.forest.n_scores
        ):
            of_trees = batch.leaves.scores if outputs == "scores" else leaf_class(batch.leaves)
            total += read(of_trees, np.arange(first + batch.rows.start, first + batch.rows.stop))
        return total


def _read_there(
    first: int, X: Any, forest: Forest, threshold: float, outputs: Outputs, read: Read[Any], nothing: Any
) -> Any:
    """Add up a piece of the rows on the worker that holds it; ``first`` is the number of its first row."""
    there = TreesOnRows(Task(forest, forest.open(X), None, threshold))
    return there._added_to(nothing(), outputs, read, first)


def one_in(every: int, place: Int64s) -> NDArray[np.bool_]:
    """Mask of every ``every``-th row, by the rows' numbers ``place``; no rows if ``every`` is 0."""
    return place % every == 0 if every else np.zeros(len(place), dtype=np.bool_)
