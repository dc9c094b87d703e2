"""How much memory the rows of a forest may take: told before they are asked about, and refused where it is too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rfsize.adapters.base import Adapter
from rfsize.utils.validation import positive

# What is kept of the rows: votes; what sizes go by; averaged scores; or all that `rfsize.count` keeps.
Kept = Literal["votes", "outputs", "averages", "all"]

# Bytes, from above; `benchmarks/memory.py` measures what is taken. Whatever the rows: two pieces of them, and the block
# that is worked on with its leaves, votes and scores, tree by tree.
_ALWAYS = 500_000_000
# Sums by parts of the forest; see `rfsize.voting.averages`.
_PARTS = 400_000_000
# A row, for each of its votes and of its scores.
_COUNTED, _SIZED, _AVERAGED = 16, 64, 64


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that may be taken to find something out, beside the model and rows that are in memory.

    Attributes
    ----------
    limit : float
        Bytes.
    keeps : {"votes", "outputs", "averages", "all"}
        What is added up of the rows.
    """

    limit: float
    keeps: Kept

    @classmethod
    def of(cls, max_memory: float | None, keeps: Kept) -> MemoryLimit | None:
        """Of an argument ``max_memory``, which is checked; None sets no limit."""
        return None if max_memory is None else cls(positive("max_memory", max_memory), keeps)

    def check(self, adapter: Adapter, n_rows: int, *, oob: bool) -> None:
        """Raise ``ValueError`` where so many rows may take more."""
        always, a_row = bytes_taken(adapter, self.keeps, oob=oob)
        needed = always + a_row * n_rows
        if needed <= self.limit:
            return
        found = (
            f"{n_rows:,} rows may take {needed / 1e9:,.2f} GB of memory, {always / 1e9:.2f} GB whatever their number "
            f"and {a_row:,} bytes each, where max_memory allows {self.limit / 1e9:,.2f} GB"
        )
        fit = int((self.limit - always) // a_row)
        if fit < 1:
            raise ValueError(f"{found}: allow {(always + a_row * min(n_rows, 1_000_000)) / 1e9:.2f} GB or more")
        if oob:
            raise ValueError(
                f"{found}: allow more, or ask on a cluster by rfsize.dask; out of bag takes all rows at once"
            )
        raise ValueError(
            f"{found}: ask about {fit:,} rows at a time, or allow more; rfsize.size draws so many by max_rows={fit}, "
            'or as many as narrow its interval by max_rows="auto"'
        )


def bytes_taken(adapter: Adapter, keeps: Kept, *, oob: bool) -> tuple[int, int]:
    """Bytes that are taken at most, whatever the rows, and for each of them."""
    n_votes, n_scores = len(adapter.classes), adapter.leaves.n_scores
    a_row = {
        "votes": _COUNTED * n_votes,
        "outputs": _SIZED * (n_votes + n_scores),
        "averages": _AVERAGED * n_scores,
        "all": _SIZED * (n_votes + n_scores) + _AVERAGED * n_scores,
    }[keeps]
    parts = _PARTS if keeps in ("averages", "all") else 0
    # A row and tree: whether it was in the bag.
    return _ALWAYS + parts, a_row + (adapter.n_trees * n_scores if oob else 0)
