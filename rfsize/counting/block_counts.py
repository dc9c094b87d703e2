"""What is added up over the trees of a block of rows, by compiled loops where there are many rows × trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter
from rfsize.counting.leaves import ROWS_PER_THREAD, is_worth_compiling
from rfsize.counting.walk import votes_by_class, voting_members
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Int32s
from rfsize.voting.scores import Scores


class BlockCounts:
    """Votes and scores of blocks of rows.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    threshold : float
        As in `rfsize.votes`.
    n_rows : int
        Rows of all blocks.
    """

    def __init__(self, adapter: Adapter, threshold: float, n_rows: int) -> None:
        self._cast, self._n_classes = adapter.voter(threshold), len(adapter.classes)
        self._leaves = adapter.leaves
        self._is_compiled = is_worth_compiling(adapter, n_rows)
        if self._is_compiled:
            self._raw = np.ascontiguousarray(adapter.leaves.raw).reshape(len(adapter.leaves.raw), -1)

    def votes(self, leaf: NDArray[Any], may_vote: NDArray[np.bool_] | None) -> Int32s:
        """`votes_by_class` of the members whose leaves the rows reach, shape (rows, n_members, n_outputs)."""
        if not self._is_compiled:
            return votes_by_class(self._cast(leaf), self._n_classes, may_vote)
        from rfsize.counting.kernels import count_votes

        counts = np.zeros((len(leaf), self._n_classes), dtype=np.int32)
        asked = voting_members(leaf, may_vote)
        each_range(
            lambda start, stop: count_votes(self._cast(leaf[start:stop]), asked[start:stop], counts[start:stop]),
            len(leaf),
            ROWS_PER_THREAD,
        )
        return counts

    def scores(self, leaf: NDArray[Any], may_vote: NDArray[np.bool_] | None) -> Scores:
        """`Scores.of` the members whose leaves the rows reach, shape (rows, n_members, n_outputs)."""
        if not self._is_compiled:
            return Scores.of(self._leaves.raw_scores(leaf), may_vote)
        from rfsize.counting.kernels import add_up_one_score, add_up_scores

        found = Scores.nothing(len(leaf), self._leaves.n_scores)
        leaf, asked = np.ascontiguousarray(leaf), np.ascontiguousarray(voting_members(leaf, may_vote))
        add_up = add_up_one_score if found.n_scores == 1 else add_up_scores

        def add(start: int, stop: int) -> None:
            part = slice(start, stop)
            add_up(leaf[part], asked[part], self._raw, found.asked[part], found.mean[part], found.scatter[part])

        each_range(add, len(leaf), ROWS_PER_THREAD)
        return found
