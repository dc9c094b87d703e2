"""Sums by leaf of what the rows of bags add to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
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
    """

    def __init__(self, leaf: NDArray[Any], inbag: NDArray[np.bool_]) -> None:
        self._leaf, self._inbag = np.ascontiguousarray(leaf, dtype=np.int64), np.ascontiguousarray(inbag)

    def add(self, value: Floats, total: Floats) -> None:
        """Add to ``total``, by leaf, the values, shape (rows, n_members or 1, n_outputs or 1)."""
        leaf, inbag, value, rows = self._leaf, self._inbag, np.ascontiguousarray(value), len(self._leaf)
        threads = effective_threads(-1) if leaf.size >= _FEWEST_CELLS_PER_LEAF * total.size else 1
        if threads == 1:
            _core.add_at_leaves(leaf, inbag, value, total)
            return

        def part(start: int, stop: int) -> Floats:
            own = np.zeros(total.size)
            _core.add_at_leaves(leaf[start:stop], inbag[start:stop], value[start:stop], own)
            return own

        for own in each_range(part, rows, -(-rows // threads)):
            total += own
