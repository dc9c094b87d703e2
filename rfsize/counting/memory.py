"""How much memory the rows of a forest may take: told before they are asked about, and refused where it is too much."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from rfsize.adapters.base import Adapter
from rfsize.utils.validation import positive
from rfsize.voting.averages import Parts
from rfsize.voting.scores import Scores, most_scored

# What is kept of the rows: votes; what sizes go by; averaged scores; or all that `rfsize.tree_outputs` keeps.
Kept = Literal["votes", "outputs", "averages", "all"]

# Bytes, from above; `benchmarks/memory.py` measures what is taken. Whatever the rows: two pieces of them, and the block
# that is worked on with its leaves, votes and scores, tree by tree.
_ALWAYS = 500_000_000
# For each class a row is counted by; what a size takes besides, of a row and for each byte of its scores that is kept.
_COUNTED, _SIZED, _OF_SCORES = 16, (32, 70), 4
# Of a row and for each of its mean scores, with what a metric of them takes; and for each sum by parts of the forest.
_AVERAGED, _SUMMED = (70, 75), 6


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that may be taken to find something out, beside the model and rows that are in memory.

    Attributes
    ----------
    limit : float
        Bytes.
    keeps : {"votes", "outputs", "averages", "all"}
        What is kept of the rows.
    """

    limit: float
    keeps: Kept

    @classmethod
    def of(cls, max_memory: float | None, keeps: Kept) -> MemoryLimit | None:
        """Of an argument ``max_memory``, which is checked; None sets no limit."""
        return None if max_memory is None else cls(positive("max_memory", max_memory), keeps)

    def check(self, adapter: Adapter, n_rows: int, *, oob: bool) -> None:
        """Raise ``ValueError`` where so many rows may take more."""

        def taken(rows: int) -> int:
            return bytes_taken(adapter, self.keeps, rows, oob=oob)

        if taken(n_rows) <= self.limit:
            return
        found = (
            f"{n_rows:,} rows may take {taken(n_rows) / 1e9:,.3f} GB of memory, {_ALWAYS / 1e9:.3f} GB whatever their "
            f"number, where max_memory allows {self.limit / 1e9:,.3f} GB"
        )
        fit = bisect_right(range(n_rows), self.limit, key=taken) - 1
        if fit < 1:
            raise ValueError(f"{found}: allow more")
        if oob:
            raise ValueError(
                f"{found}: allow more, or ask on a cluster by rfsize.dask; out of bag takes all rows at once"
            )
        raise ValueError(
            f"{found}: ask about {fit:,} rows at a time, or allow more; rfsize.size draws so many by max_rows={fit}, "
            'or as many as narrow its interval by max_rows="auto"'
        )


def bytes_taken(adapter: Adapter, keeps: Kept, n_rows: int, *, oob: bool) -> int:
    """Bytes that so many rows take at most."""
    n_votes, n_scores = len(adapter.classes), adapter.leaves.n_scores
    a_row = _COUNTED * n_votes
    in_all = _ALWAYS
    if keeps in ("outputs", "all"):
        a_row = _SIZED[0] * n_votes + _SIZED[1]
        in_all += _OF_SCORES * Scores.bytes_of(most_scored(n_rows, n_scores), n_scores)
    if keeps in ("averages", "all"):
        a_row += _AVERAGED[0] + _AVERAGED[1] * n_scores
        in_all += _SUMMED * Parts.most_sums(n_rows, adapter.n_trees, n_scores)
    if oob:  # whether each tree saw the row
        a_row += adapter.n_trees * n_scores
    return in_all + a_row * n_rows
