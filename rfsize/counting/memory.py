"""How much memory the rows of a forest may take: told before they are asked about, and refused where it is too much."""

from __future__ import annotations

from bisect import bisect_right

from rfsize.adapters.base import Adapter
from rfsize.utils.validation import positive
from rfsize.voting.averages import Parts
from rfsize.voting.scores import Scores, most_scored

# Bytes, from above; `benchmarks/memory.py` measures what is taken. Whatever the rows: two pieces of them, and the block
# that is worked on with its leaves, votes and scores, tree by tree.
_ALWAYS = 500_000_000
# What votes and scores take: for each class a row is counted by, of a row, and for each byte of its scores.
_SIZED, _OF_SCORES = (32, 70), 4
# Of a row and for each of its mean scores, with what a metric of them takes; and for each sum by parts of the forest.
_AVERAGED, _SUMMED = (70, 75), 6


def check_memory(max_memory: float | None, adapter: Adapter, n_rows: int, *, oob: bool) -> None:
    """Raise ``ValueError`` where so many rows may take more bytes, beside the model and rows that are in memory."""
    if max_memory is None:
        return
    limit = positive("max_memory", max_memory)

    def taken(rows: int) -> int:
        return bytes_taken(adapter, rows, oob=oob)

    if taken(n_rows) <= limit:
        return
    found = (
        f"{n_rows:,} rows may take {taken(n_rows) / 1e9:,.3f} GB of memory, {_ALWAYS / 1e9:.3f} GB whatever their "
        f"number, where max_memory allows {limit / 1e9:,.3f} GB"
    )
    fit = bisect_right(range(n_rows), limit, key=taken) - 1
    if fit < 1:
        raise ValueError(f"{found}: allow more")
    if oob:
        raise ValueError(f"{found}: allow more, or ask on a cluster by rfsize.dask; out of bag takes all rows at once")
    raise ValueError(
        f"{found}: ask about {fit:,} rows at a time, or allow more; rfsize.size draws so many by max_rows={fit}, or as "
        'many as narrow its interval by max_rows="auto"'
    )


def bytes_taken(adapter: Adapter, n_rows: int, *, oob: bool) -> int:
    """Bytes that so many rows take at most."""
    n_votes, n_scores = len(adapter.classes), adapter.leaves.n_scores
    a_row = _SIZED[0] * n_votes + _SIZED[1] + _AVERAGED[0] + _AVERAGED[1] * n_scores
    in_all = _ALWAYS + _OF_SCORES * Scores.bytes_of(most_scored(n_rows, n_scores), n_scores)
    in_all += _SUMMED * Parts.most_sums(n_rows, adapter.n_trees, n_scores)
    if oob:  # whether each tree saw the row
        a_row += adapter.n_trees * n_scores
    return in_all + a_row * n_rows
