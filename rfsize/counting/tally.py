"""Tally: adds up, block of rows by block of rows, what the trees say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Tallied:
    """What the trees of a forest say of rows.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class.
    scores : Scores
        Of the rows whose scores were to be kept.
    blocks : TreeBlocks
        Of the rows that were to be looked at block by block of trees.
    averages : Averages or None
        Averaged scores of all rows, where these were to be kept.
    """

    counts: NDArray[np.int32]
    scores: Scores
    blocks: TreeBlocks
    averages: Averages | None

    @classmethod
    def joined(cls, parts: Sequence[Tallied]) -> Tallied:
        """Of the rows of all parts, one after another."""
        averages = [part.averages for part in parts if part.averages is not None]
        return cls(
            np.concatenate([part.counts for part in parts]),
            Scores.stacked([part.scores for part in parts]),
            TreeBlocks.stacked([part.blocks for part in parts]),
            Averages.stacked(averages) if averages else None,
        )


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
        As in `rfsize.tree_outputs`, checked.
    scored : ndarray of bool, shape (n_rows,), optional
        Rows to keep scores of; none by default.
    in_blocks : ndarray of bool, shape (n_rows,), optional
        Rows to keep `TreeBlocks` of; none by default.
    averages : Averages, optional
        What to fill with the averaged scores of all rows.
    first : int, default 0
        Number of the first row, where they are a part of others.
    """

    def __init__(
        self,
        adapter: Adapter,
        n_rows: int,
        n_classes: int,
        threshold: float,
        *,
        scored: NDArray[np.bool_] | None = None,
        in_blocks: NDArray[np.bool_] | None = None,
        averages: Averages | None = None,
        first: int = 0,
    ) -> None:
        self._adapter, self._n_classes = adapter, n_classes
        self._cast = adapter.voter(threshold)
        self._counting = BlockCounts(adapter, threshold)
        self._scored, self._averages, self._first = scored, averages, first
        self._in_blocks = np.zeros(n_rows, dtype=np.bool_) if in_blocks is None else in_blocks
        self._counts = np.zeros((n_rows, n_classes), dtype=np.int32)
        self._scores = [Scores.nothing(0, adapter.leaves.n_scores)]
        self._blocks: list[TreeBlocks] = []

    def add(self, rows: slice, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None) -> None:
        """Add up what is said of some rows; a `Visit`."""
        ordered, may_vote = out_of_bag_members(leaf, inbag)
        if self._n_classes:
            self._counts[rows] = self._counting.votes(ordered, may_vote)
        if self._scored is not None and (scored := self._scored[rows]).any():
            some: Any = slice(None) if scored.all() else scored
            self._scores.append(self._counting.scores(ordered[some], None if may_vote is None else may_vote[some]))
        if self._averages is not None:
            self._averages.fill(rows, self._adapter.leaves.raw_scores(leaf), asked_of(leaf, inbag))
        in_blocks = np.flatnonzero(self._in_blocks[rows])
        if in_blocks.size:
            seen = None if inbag is None else inbag[in_blocks]
            numbers = self._first + rows.start + in_blocks
            found = tree_blocks(self._adapter, self._cast, self._n_classes, numbers, leaf[in_blocks], seen)
            self._blocks.append(found)

    @property
    def told(self) -> Tallied:
        """All that was added up."""
        nothing = TreeBlocks.nothing(np.zeros(0, dtype=np.int64), self._n_classes, self._adapter.leaves.n_scores)
        blocks = TreeBlocks.stacked(self._blocks) if self._blocks else nothing
        return Tallied(self._counts, Scores.stacked(self._scores), blocks, self._averages)
