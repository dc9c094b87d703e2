"""What each tree of a forest says of rows, block by block, for calibrating a stop table on it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, shrinking_of
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.representative import RowsAsked
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.counting.walk import out_of_bag_members
from rfsize.utils.pieces import PiecesElsewhere
from rfsize.utils.typing import Int64s
from rfsize.utils.warn import give

# What is done with a block: scores or votes of the trees in their order, shape (rows, T, n_scores) or (rows, T), and
# how many of them are asked about each row, the first so many.
Take = Callable[[NDArray[Any], Int64s], None]

# Numbers for each row and score of a tree that calibration holds besides.
_CELLS = 6


class Gathering(ABC):
    """What is gathered of blocks of rows, and of rows elsewhere: a `Take` whose parts add up.

    Attributes
    ----------
    seen : int
        Rows before those that come next.
    """

    seen: int = 0

    @abstractmethod
    def __call__(self, said: NDArray[Any], number: Int64s) -> None:
        """Take the next block."""

    @abstractmethod
    def add(self, other: Any) -> None:
        """Add what was gathered of rows that follow."""

    def chosen(self, every: int, n_rows: int) -> NDArray[np.bool_]:
        """One row in so many of the next block; none where that is 0."""
        place = np.arange(self.seen, self.seen + n_rows)
        self.seen += n_rows
        return np.zeros(n_rows, dtype=np.bool_) if every == 0 else place % every == 0


@dataclass(frozen=True, eq=False)
class TreesOnRows:
    """A forest's trees asked about rows, once or again.

    Attributes
    ----------
    rows : ForestOnRows
        With bags, each row asks its own trees, those that did not train on it, and rows of one group count once.
    y : array_like or None
        Their labels or numbers, where these are known.
    """

    rows: ForestOnRows
    y: Any = None

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any = None, *, casts_votes: bool, missing: float | None = None, **options: Any
    ) -> TreesOnRows:
        """Of a model and rows, which are checked; ``options`` are those of `ForestOnRows.of`.

        Raises
        ------
        ValueError
            If rows of which all trees are asked are those of training, or anything else does not fit.
        """
        rows = ForestOnRows.of(adapter_for(model, casts_votes=casts_votes, missing=missing), X, y, **options)
        refuse_training_rows(rows, y)
        give(shrinking_of(rows.adapter, labels_at=rows.threshold if casts_votes else None))
        return cls(rows, y)

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

    def scores(self, take: Take) -> None:
        """Hand over the scores of each tree alone, before the link."""
        self._hand_over("scores", take)

    def votes(self, take: Take) -> None:
        """Hand over the class index that each tree votes for."""
        self._hand_over("votes", take)

    def _hand_over(self, what: str, take: Take) -> None:
        rows = self.rows
        if not (isinstance(take, Gathering) and isinstance(rows.X, PiecesElsewhere)) or rows.bags is not None:
            self.visit(what, take)
            return
        for gathered in rows.X.each(_gathered, rows.adapter, rows.threshold, what, take):
            take.add(gathered)

    def visit(self, what: str, take: Take) -> None:
        """Hand over "scores" or "votes" in this process.

        Raises
        ------
        FewVotesError
            If the rows' own trees do not tell where voting may stop on fresh rows.
        """
        read = self.adapter.leaves.raw_scores if what == "scores" else self.adapter.voter(self.rows.threshold)
        once, n_trees = self.rows.groups.once, self.adapter.n_trees
        asked = np.zeros(self.rows.n_rows, dtype=np.int32)
        cells = _CELLS * n_trees * self.adapter.leaves.n_scores

        def visit(rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
            ordered, may = out_of_bag_members(leaf, inbag)
            said = read(ordered)
            if may is None:
                take(said, np.full(len(said), n_trees))
                return
            number = may.sum(axis=1)
            asked[rows] = number
            kept = number > 0 if once is None else (number > 0) & once[rows]
            first = np.argsort(~may[kept], axis=1, kind="stable")
            own = said[kept][np.arange(len(first))[:, None], first]
            take(own, number[kept])

        self.rows.visit(visit, what="scores of trees", cells=cells)
        if self.rows.bags is not None:
            RowsAsked.of(self.rows, asked, self.y).check("where voting may stop")


def _gathered(first: int, X: Any, adapter: Adapter, threshold: float, what: str, gathering: Gathering) -> Gathering:
    """Where rows lie: what is gathered of a piece of them, by a copy of what has gathered nothing yet."""
    own = copy.deepcopy(gathering)
    own.seen = first
    TreesOnRows(ForestOnRows(adapter, adapter.check(X), None, threshold)).visit(what, own)
    return own


def known_labels(classes: NDArray[Any]) -> tuple[Any, ...] | None:
    """Class labels as a table's file can hold them: numbers or text; None of others."""
    labels = tuple(classes.tolist())
    return labels if labels and all(type(label) in (bool, int, float, str) for label in labels) else None
