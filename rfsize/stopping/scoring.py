"""What each tree of a forest says of rows, block by block, for calibrating a stop table on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.walk import out_of_bag_members
from rfsize.utils.typing import Int64s

# What is done with a block: scores or votes of the trees in their order, shape (rows, T, n_scores) or (rows, T), and
# how many of them are asked about each row, the first so many.
Take = Callable[[NDArray[Any], Int64s], None]

# Numbers for each row and score of a tree that calibration holds besides.
_CELLS = 6


@dataclass(frozen=True, eq=False)
class TreesOnRows:
    """A forest's trees asked about rows, once or again.

    Attributes
    ----------
    rows : ForestOnRows
        With bags, each row asks its own trees, those that did not train on it, and rows of one group count once.
    """

    rows: ForestOnRows

    @classmethod
    def of(cls, model: Any, X: Any, *, casts_votes: bool, missing: float | None = None, **options: Any) -> TreesOnRows:
        """Of a model and rows, which are checked; ``options`` are those of `ForestOnRows.of`."""
        return cls(ForestOnRows.of(adapter_for(model, casts_votes=casts_votes, missing=missing), X, **options))

    @property
    def adapter(self) -> Adapter:
        """The forest."""
        return self.rows.adapter

    @property
    def cut(self) -> float:
        """Mean score above which class 1 is predicted, of one score; 0 where there are several, or no classes."""
        adapter = self.adapter
        return adapter.cut(self.rows.threshold) if adapter.leaves.n_scores == 1 and adapter.classes.size else 0.0

    def scores(self, take: Take) -> None:
        """Hand over the scores of each tree alone, before the link."""
        leaves = self.adapter.leaves
        self._visit(leaves.raw_scores, take)

    def votes(self, take: Take) -> None:
        """Hand over the class index that each tree votes for."""
        self._visit(self.adapter.voter(self.rows.threshold), take)

    def _visit(self, read: Callable[[NDArray[Any]], NDArray[Any]], take: Take) -> None:
        once, n_trees = self.rows.groups.once, self.adapter.n_trees
        cells = _CELLS * n_trees * self.adapter.leaves.n_scores

        def visit(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            ordered, may = out_of_bag_members(leaf, inbag)
            said = read(ordered)
            if may is None:
                take(said, np.full(len(said), n_trees))
                return
            number = may.sum(axis=1)
            kept = number > 0 if once is None else (number > 0) & once[rows]
            first = np.argsort(~may[kept], axis=1, kind="stable")
            own = said[kept][np.arange(len(first))[:, None], first]
            take(own, number[kept])

        self.rows.visit(visit, what="scores of trees", cells=cells)


def known_labels(classes: NDArray[Any]) -> tuple[Any, ...] | None:
    """Class labels as a table's file can hold them: numbers or text; None of others."""
    labels = tuple(classes.tolist())
    return labels if labels and all(type(label) in (bool, int, float, str) for label in labels) else None
