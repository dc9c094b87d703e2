"""The compiled loops over rows × trees of counting; see `rfsize.walking.kernels` for how trees are walked."""

from __future__ import annotations

from typing import Any

from rfsize.utils.jit import compiled
from rfsize.walking.kernels import balanced_depth, descend, walkers

# Rows that go down a tree together: as many as stay in the cache with the leaves that they reach.
_TOGETHER = 1024


@compiled
def reach(q: Any, trees: Any, index: Any, leaf: Any) -> None:
    """Write into ``leaf``, shape (rows, trees), the ``index`` of the leaf that each quantised row reaches."""
    _, _, _, tree_start, _, _ = trees
    walk = walkers(_TOGETHER)
    row, place, _ = walk
    for first in range(0, q.shape[0], _TOGETHER):
        n = min(_TOGETHER, q.shape[0] - first)
        for tree in range(tree_start.size - 1):
            for j in range(n):
                row[j], place[j] = first + j, tree_start[tree]
            descend(q, trees, n, balanced_depth(tree_start, tree), walk)
            for j in range(n):
                leaf[first + j, tree] = index[place[j]]
