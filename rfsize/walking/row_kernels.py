"""The compiled loops for a single row: quantising it, and taking it down several trees together."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.adapters.trees import Missing
from rfsize.utils.jit import compiled
from rfsize.walking import layout
from rfsize.walking.kernels import balanced_depth, category_rank, child, compared, read

AT_ONCE = 16
"""Trees that a row goes down together, so that none waits for the memory of another."""

# Steps between two looks at whether all have reached a leaf.
_STEPS = 3

_RANK_MASK, _CATEGORY = layout.RANK_MASK, int(Missing.CATEGORY)


@compiled
def quantise_row(X: Any, row: Any, columns: Any, reading: Any, q: Any) -> None:
    """Quantise one row of a dense matrix, as `quantise_dense` does many."""
    feature, cut_start, cuts, start, kind, base = columns
    for entry in range(feature.size):
        value = read(X[row, feature[entry]], reading)
        number = 0.0 if np.isnan(value) else value
        first, is_category = start[entry], kind[start[entry]] == _CATEGORY
        key = np.trunc(number) if is_category else number
        below, size = cut_start[entry], cut_start[entry + 1] - cut_start[entry]
        while size > 1:
            half = size >> 1
            below += half * np.int64(cuts[below + half - 1] < key)
            size -= half
        if size == 1:
            below += np.int64(cuts[below] < key)
        rank = below - cut_start[entry]
        if is_category:
            q[row, first] = category_rank(value, key, rank, cuts[cut_start[entry] : cut_start[entry + 1]], reading[3])
            continue
        for column in range(first, start[entry + 1]):
            q[row, column] = compared(value, rank, kind[column], base[column])


@compiled
def places_of_row(n_outputs: Any) -> Any:
    """Memory for the nodes of so many trees as make up some members."""
    return np.zeros(-(-max(AT_ONCE, n_outputs) // AT_ONCE) * AT_ONCE, np.uint32)


@compiled
def leaves_of_row(q: Any, row: Any, trees: Any, first: Any, place: Any) -> None:
    """Fill ``place`` with the leaves that a row reaches in the trees from ``first`` on, of which there may be fewer."""
    nodes, _, _, tree_start, bit_start, bits = trees
    categorical, last = bits.size > 0, tree_start.size - 2
    for j in range(AT_ONCE):
        place[j] = tree_start[min(first + j, last)]
    for _ in range(balanced_depth(tree_start, first)):
        for j in range(AT_ONCE):
            place[j] = child(q, nodes, bit_start, bits, categorical, row, place[j])
    while True:
        leaf = _RANK_MASK
        for j in range(AT_ONCE):
            leaf &= nodes[place[j]]
        if leaf & _RANK_MASK == _RANK_MASK:
            return
        for _ in range(_STEPS):
            for j in range(AT_ONCE):
                place[j] = child(q, nodes, bit_start, bits, categorical, row, place[j])
