"""The compiled loop over rows × trees of XGBoost's bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.utils.jit import compiled


@compiled
def draw(step: Any, tree_seed: Any, mask: Any, level: Any, inbag: Any) -> None:
    """Write into ``inbag``, shape (rows, trees), whether the draw of each tree is below ``level``.

    ``step`` is what a tree's seed is multiplied by for its draw on each row; the draw is what ``mask`` leaves of it.
    """
    for i in range(step.size):
        for tree in range(tree_seed.size):
            inbag[i, tree] = np.float64(np.int64(step[i] * tree_seed[tree] & mask)) < level
