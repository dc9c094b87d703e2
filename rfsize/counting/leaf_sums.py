"""Sums by leaf of what the rows of bags add to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.threads import each_range, effective_threads
from rfsize.utils.typing import Floats

# Cells for each leaf from which threads with sums of their own are sooner done than one.
_FEWEST_CELLS_PER_LEAF = 8


class LeafSums:
    """Adds up values of a block of rows by the leaves that they reach, where their trees were trained on them.

    Parameters
    ----------
    leaf : ndarray of int, shape (rows, n_members, n_outputs)
        Leaves that the rows reach, as indices into the table of all leaves.
    inbag : ndarray of bool, shape (rows, n_members, n_outputs or 1)
        Whether the tree was trained on the row.
    is_compiled : bool
        Whether compiled loops add up.
    """

    def __init__(self, leaf: NDArray[Any], inbag: NDArray[np.bool_], *, is_compiled: bool) -> None:
        self._leaf, self._inbag, self._is_compiled = leaf, inbag, is_compiled
        if not is_compiled:
            self._seen = np.broadcast_to(inbag, leaf.shape)
            self._reached = leaf[self._seen]

    def add(self, value: Floats, total: Floats) -> None:
        """Add to ``total``, by leaf, the values, shape (rows, n_members or 1, n_outputs or 1)."""
        if not self._is_compiled:
            total += np.bincount(self._reached, weights=self._of_cells(value), minlength=total.size)
            return
        from rfsize.counting.kernels import add_at_leaves

        rows = len(self._leaf)
        leaf, inbag, value = (np.ascontiguousarray(each) for each in (self._leaf, self._inbag, value))
        threads = effective_threads(-1) if leaf.size >= _FEWEST_CELLS_PER_LEAF * total.size else 1
        if threads == 1:
            add_at_leaves(leaf, inbag, value, total)
            return

        def part(start: int, stop: int) -> Floats:
            own = np.zeros(total.size)
            add_at_leaves(leaf[start:stop], inbag[start:stop], value[start:stop], own)
            return own

        for own in each_range(part, rows, -(-rows // threads)):
            total += own

    def _of_cells(self, value: Floats) -> Floats:
        """The value of each cell of rows, members and outputs that is in a bag."""
        if value.shape[1:] == (1, 1):
            return np.repeat(value[:, 0, 0], np.count_nonzero(self._seen, axis=(1, 2)))
        return np.broadcast_to(value, self._seen.shape)[self._seen]
