"""The compiled loop over rows × trees of LightGBM's bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.utils.jit import compiled

_SHIFT, _DRAW = np.uint32(16), np.uint32(0x7FFF)


@compiled
def draw(first: Any, multiplier: Any, increment: Any, level: Any, inbag: Any) -> None:
    """Write into ``inbag``, shape (rows, trees), whether the draw of each tree is below the row's level.

    ``first`` are the states of the rows' generators, which each tree's ``multiplier`` and ``increment`` advance.
    """
    for i in range(first.size):
        for tree in range(multiplier.size):
            state = np.uint32(first[i] * multiplier[tree] + increment[tree])
            inbag[i, tree] = np.int64(np.uint32(state >> _SHIFT) & _DRAW) < level[i]
