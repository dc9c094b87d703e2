"""What is added up over the trees of a block of rows, by compiled loops."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.adapters.base import Adapter
from rfsize.counting.leaves import ROWS_PER_THREAD
from rfsize.counting.walk import voting_members
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Floats, Int32s
from rfsize.voting.scores import Scores


class BlockCounts:
    """Votes and scores of blocks of rows.

    Parameters
    ----------
    adapter : Adapter
        The forest.
    threshold : float
        As in `rfsize.tree_outputs`.
    """

    def __init__(self, adapter: Adapter, threshold: float) -> None:
        self._cast, self._n_classes = adapter.voter(threshold), len(adapter.classes)
        self._leaves = adapter.leaves

    def votes(self, leaf: NDArray[Any], may_vote: NDArray[np.bool_] | None) -> Int32s:
        """Votes for each class of the members whose leaves the rows reach, shape (rows, n_members, n_outputs)."""
        counts = np.zeros((len(leaf), self._n_classes), dtype=np.int32)
        asked = np.ascontiguousarray(voting_members(leaf, may_vote))

        def count(start: int, stop: int) -> None:
            _core.count_votes(_plain(self._cast(leaf[start:stop])), asked[start:stop], counts[start:stop])

        each_range(count, len(leaf), ROWS_PER_THREAD)
        return counts

    def scores(self, leaf: NDArray[Any], may_vote: NDArray[np.bool_] | None) -> Scores:
        """`Scores.of` the members whose leaves the rows reach, shape (rows, n_members, n_outputs)."""
        found = Scores.nothing(len(leaf), self._leaves.n_scores)
        leaf = np.ascontiguousarray(leaf, dtype=np.int64)
        asked = np.ascontiguousarray(voting_members(leaf, may_vote))

        def add(start: int, stop: int) -> None:
            part = slice(start, stop)
            _core.add_up_scores(
                leaf[part], asked[part], self._raw, found.asked[part], found.mean[part], found.scatter[part]
            )

        each_range(add, len(leaf), ROWS_PER_THREAD)
        return found

    @cached_property
    def _raw(self) -> Floats:
        return np.ascontiguousarray(self._leaves.raw, dtype=np.float64).reshape(len(self._leaves.raw), -1)


def _plain(vote: NDArray[Any]) -> NDArray[Any]:
    """Votes of the types that compiled loops take."""
    return np.ascontiguousarray(vote, dtype=np.bool_ if vote.dtype == np.bool_ else np.int64)
