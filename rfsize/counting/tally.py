"""Tally: adds up, block of rows by block of rows, what the trees say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter
from rfsize.counting.block_counts import BlockCounts
from rfsize.counting.by_block import tree_blocks
from rfsize.counting.walk import asked_of, out_of_bag_members
from rfsize.voting.averages import Averages
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.scores import Scores


class Tally:
    """What the trees of a forest say of rows, added up while the rows' leaves are visited in order.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    n_rows : int
        Rows that will be visited.
    n_classes : int
        0 where the trees cast no votes.
    threshold : float
        As in `rfsize.votes`, checked.
    scored : ndarray of bool, shape (n_rows,), optional
        Rows to keep scores of; none by default.
    in_blocks : slice, optional
        Rows to keep `TreeBlocks` of; none by default.
    averages : Averages, optional
        What to fill with the averaged scores of all rows.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class.
    """

    def __init__(
        self,
        adapter: Adapter,
        n_rows: int,
        n_classes: int,
        threshold: float,
        *,
        scored: NDArray[np.bool_] | None = None,
        in_blocks: slice | None = None,
        averages: Averages | None = None,
    ) -> None:
        self._adapter, self._n_classes = adapter, n_classes
        self._cast = adapter.voter(threshold)
        self._counting = BlockCounts(adapter, threshold, n_rows)
        self._scored, self._averages = scored, averages
        self._in_blocks = np.zeros(n_rows, dtype=np.bool_)
        if in_blocks is not None:
            self._in_blocks[in_blocks] = True
        self.counts = np.zeros((n_rows, n_classes), dtype=np.int32)
        self._scores = [Scores.nothing(0, adapter.leaves.n_scores)]
        self._blocks: list[TreeBlocks] = []

    def add(self, rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
        """Add up what is said of some rows; a `Visit`."""
        ordered, may_vote = out_of_bag_members(leaf, inbag)
        if self._n_classes:
            self.counts[rows] = self._counting.votes(ordered, may_vote)
        if self._scored is not None and (scored := self._scored[rows]).any():
            some: Any = slice(None) if scored.all() else scored
            self._scores.append(self._counting.scores(ordered[some], None if may_vote is None else may_vote[some]))
        if self._averages is not None:
            self._averages.fill(rows, self._adapter.leaves.raw_scores(leaf), asked_of(leaf, inbag))
        in_blocks = np.flatnonzero(self._in_blocks[rows])
        if in_blocks.size:
            seen = None if inbag is None else inbag[in_blocks]
            numbers = rows.start + in_blocks
            found = tree_blocks(self._adapter, self._cast, self._n_classes, numbers, leaf[in_blocks], seen)
            self._blocks.append(found)

    @property
    def scores(self) -> Scores:
        """Scores of the rows that were to be kept."""
        return Scores.stacked(self._scores)

    @property
    def blocks(self) -> TreeBlocks:
        """Blocks of the rows that were to be kept."""
        if not self._blocks:
            return TreeBlocks.nothing(np.zeros(0, dtype=np.int64), self._n_classes, self._adapter.leaves.n_scores)
        return TreeBlocks.stacked(self._blocks)
