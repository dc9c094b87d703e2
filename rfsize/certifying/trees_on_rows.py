"""A forest's trees asked about rows that it was not trained on, once or again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, shrinking_of
from rfsize.adapters.leaves import Answers
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.utils.pieces import PiecesElsewhere
from rfsize.utils.typing import Int64s
from rfsize.utils.warn import give

# "scores" of each tree alone, before the link, shape (rows, T, n_scores); or the class index of its "votes", (rows, T).
Outputs = Literal["scores", "votes"]

Total = TypeVar("Total")

# What is read of a block of outputs, and of the places of its rows among all.
Read = Callable[[NDArray[Any], Int64s], Total]

# Numbers for each row and score of a tree that calibration holds besides.
_CELLS = 6


@dataclass(frozen=True, eq=False)
class TreesOnRows:
    """A forest's trees asked about rows that it was not trained on, once or again."""

    rows: ForestOnRows

    @classmethod
    def of(
        cls, model: Any, X: Any, *, casts_votes: bool, threshold: float | None = None, missing: float | None = None
    ) -> TreesOnRows:
        """Of a model and rows, which are checked.

        Raises
        ------
        ValueError
            If the rows are those of training, or anything else does not fit.
        """
        adapter = adapter_for(model, casts_votes=casts_votes, missing=missing, may_be_shrunk=True)
        rows = ForestOnRows.of(adapter, X, threshold=threshold)
        refuse_training_rows(rows)
        give(shrinking_of(rows.adapter, labels_at=rows.threshold if casts_votes else None))
        return cls(rows)

    @property
    def adapter(self) -> Adapter:
        """The forest."""
        return self.rows.adapter

    @property
    def threshold(self) -> float | None:
        """Probability above which class 1 is predicted; None of other than two classes."""
        return self.rows.threshold if self.adapter.classes.size == 2 else None

    @property
    def cut(self) -> float:
        """Mean score above which class 1 is predicted, of one score; 0 where there are several, or no classes."""
        adapter = self.adapter
        return adapter.cut(self.rows.threshold) if adapter.leaves.n_scores == 1 and adapter.classes.size else 0.0

    def added_up(self, outputs: Outputs, read: Read[Total], nothing: Callable[[], Total]) -> Total:
        """The sum of what is read of all blocks, in the order of their rows; ``nothing`` makes that of no block.

        Rows that lie elsewhere are read there, for which ``read`` and ``nothing`` must be pickled.
        """
        rows, total = self.rows, nothing()
        if not isinstance(rows.X, PiecesElsewhere):
            return self._added_to(total, outputs, read, 0)
        for part in rows.X.each(_read_there, rows.adapter, rows.threshold, outputs, read, nothing):
            total += part
        return total

    def _added_to(self, total: Any, outputs: Outputs, read: Read[Any], first: int) -> Any:
        adapter = self.adapter
        cast = adapter.voter(self.rows.threshold)

        def visit(rows: slice, answers: Answers, _: Any) -> None:
            nonlocal total
            said = answers.raw if outputs == "scores" else cast(answers)
            total += read(said, np.arange(first + rows.start, first + rows.stop))

        self.rows.visit(visit, what="scores of trees", cells=_CELLS * adapter.n_trees * adapter.leaves.n_scores)
        return total


def _read_there(
    first: int, X: Any, adapter: Adapter, threshold: float, outputs: Outputs, read: Read[Any], nothing: Any
) -> Any:
    """Where rows lie: the sum over a piece of them, of which the first has this number."""
    there = TreesOnRows(ForestOnRows(adapter, adapter.check(X), None, threshold))
    return there._added_to(nothing(), outputs, read, first)


def one_in(every: int, place: Int64s) -> NDArray[np.bool_]:
    """Which rows are one in so many of all; none where that is 0."""
    return place % every == 0 if every else np.zeros(len(place), dtype=np.bool_)
