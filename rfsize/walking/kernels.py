"""The compiled loops that every walk down the trees of a `Forest` needs: quantising rows, and going down.

They take plain tuples in the order of `Nodes`, `Columns` and `Reading`: numba's files on disk would name the classes,
and fail to load when a later version of rfsize has others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.adapters.trees import Missing
from rfsize.utils.jit import compiled
from rfsize.walking import layout

# Values that are quantised together.
_BLOCK = 512

_HIGHEST, _LEFT_SHIFT, _COLUMN_SHIFT = layout.HIGHEST_RANK, layout.LEFT_SHIFT, layout.COLUMN_SHIFT
_COLUMN_MASK, _RANK_MASK, _CATEGORICAL = layout.COLUMN_MASK, layout.RANK_MASK, layout.CATEGORICAL
_ZERO_RIGHT, _ZERO_LEFT = int(Missing.ZERO_RIGHT), int(Missing.ZERO_LEFT)
_NAN_RIGHT, _NAN_LEFT, _CATEGORY = int(Missing.NAN_RIGHT), int(Missing.NAN_LEFT), int(Missing.CATEGORY)
_ONE = np.uint64(1)

# ---------------------------------------------------------------------------------------------------------
# Quantising


@compiled
def quantise_dense(X: Any, columns: Any, reading: Any, out: Any) -> None:
    """Quantise the rows of a dense matrix into ``out``, shape (rows, columns)."""
    feature, _, _, _, _, _ = columns
    value, key, rank = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK, np.uint64)
    for first in range(0, X.shape[0], _BLOCK):
        rows = min(_BLOCK, X.shape[0] - first)
        for entry in range(feature.size):
            for i in range(rows):
                value[i] = read(X[first + i, feature[entry]], reading)
            _quantise(value, rows, entry, columns, reading, key, rank, out[first : first + rows])


@compiled
def quantise_sparse(
    data: Any, index: Any, start: Any, absent: Any, entry_of: Any, columns: Any, reading: Any, out: Any
) -> None:
    """Quantise the rows of a compressed sparse row matrix.

    ``absent`` is the quantised row that stores nothing, and ``entry_of`` the first entry of each feature.
    """
    value, key, rank = np.empty(1), np.empty(1), np.empty(1, np.uint64)
    for i in range(out.shape[0]):
        out[i] = absent
        for stored in range(start[i], start[i + 1]):
            feature = index[stored]
            value[0] = read(data[stored], reading)
            for entry in range(entry_of[feature], entry_of[feature + 1]):
                _quantise(value, 1, entry, columns, reading, key, rank, out[i : i + 1])


@compiled
def read(value: Any, reading: Any) -> Any:
    """A value as the framework reads it, NaN where it is missing."""
    single_precision, missing, zero_within, _ = reading
    number = np.float64(value)
    if single_precision:
        number = np.float64(np.float32(number))
    if number == missing:
        return np.nan
    return 0.0 if abs(number) <= zero_within else number


@compiled
def _quantise(value: Any, rows: Any, entry: Any, columns: Any, reading: Any, key: Any, rank: Any, out: Any) -> None:
    """Fill the columns of one feature from its values."""
    _, cut_start, cuts, start, kind, base = columns
    cuts = cuts[cut_start[entry] : cut_start[entry + 1]]
    first, last = start[entry], start[entry + 1]
    is_category = kind[first] == _CATEGORY
    for i in range(rows):
        number = 0.0 if np.isnan(value[i]) else value[i]
        key[i] = np.trunc(number) if is_category else number
    _rank(key, rows, cuts, rank)
    if is_category:
        for i in range(rows):
            out[i, first] = category_rank(value[i], key[i], np.int64(rank[i]), cuts, reading[3])
        return
    for column in range(first, last):
        for i in range(rows):
            out[i, column] = compared(value[i], np.int64(rank[i]), kind[column], base[column])


@compiled
def compared(value: Any, rank: Any, missing: Any, lowest: Any) -> Any:
    """What a column of numbers holds for a value of some rank among the thresholds of its feature."""
    is_zero = value == 0.0 or np.isnan(value)
    if (missing == _ZERO_RIGHT and is_zero) or (missing == _NAN_RIGHT and np.isnan(value)):
        return _HIGHEST
    if (missing == _ZERO_LEFT and is_zero) or (missing == _NAN_LEFT and np.isnan(value)):
        return 0
    return min(max(rank - lowest, 0), _HIGHEST)


@compiled
def _rank(key: Any, rows: Any, cuts: Any, rank: Any) -> None:
    """How many of the ascending ``cuts`` are below each key.

    All rows take each step of the bisection together, so that none waits for its comparison to be decided.
    """
    for i in range(rows):
        rank[i] = 0
    size = np.uint64(cuts.size)
    while size > _ONE:
        half = size >> _ONE
        for i in range(rows):
            rank[i] += half * np.uint64(cuts[rank[i] + half - _ONE] < key[i])
        size -= half
    if size == _ONE:
        for i in range(rows):
            rank[i] += np.uint64(cuts[rank[i]] < key[i])


@compiled
def category_rank(value: Any, whole: Any, rank: Any, known: Any, lowest: Any) -> Any:
    """Rank of a category: one more than those of all known ones where it is missing, two where it is unknown."""
    if np.isnan(value):
        return known.size
    if value > lowest and rank < known.size and known[rank] == whole:
        return rank
    return known.size + 1


# ---------------------------------------------------------------------------------------------------------
# Going down


@compiled
def walkers(n: Any) -> Any:
    """Memory for walkers down trees: the row of each, its node, and which of them have not reached a leaf."""
    return np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.uint32)


@compiled
def balanced_depth(tree_start: Any, tree: Any) -> Any:
    """Depth that a tree of as many nodes has at least."""
    nodes, depth = tree_start[tree + 1] - tree_start[tree], 0
    while 2 << depth <= nodes:
        depth += 1
    return depth


@compiled
def descend(q: Any, trees: Any, n: Any, steps: Any, walk: Any) -> None:
    """Take ``n`` walkers down to leaves.

    All take each step together, so that none waits for the memory of another. After ``steps`` of them only those go
    on that have not reached a leaf.
    """
    row, place, open_ = walk
    nodes, _, _, _, bit_start, bits = trees
    categorical = bits.size > 0
    for _ in range(steps):
        for j in range(n):
            place[j] = child(q, nodes, bit_start, bits, categorical, row[j], place[j])
    still = 0
    for j in range(n):
        open_[still] = j
        still += np.int64((nodes[place[j]] & _RANK_MASK) != _RANK_MASK)
    while still > 0:
        n, still = still, 0
        for k in range(n):
            j = open_[k]
            # Two steps at once: to look after each which rows have reached a leaf costs more.
            once = child(q, nodes, bit_start, bits, categorical, row[j], place[j])
            twice = child(q, nodes, bit_start, bits, categorical, row[j], once)
            place[j], open_[still] = twice, j
            still += np.int64((nodes[twice] & _RANK_MASK) != _RANK_MASK)


@compiled
def child(q: Any, nodes: Any, bit_start: Any, bits: Any, categorical: Any, row: Any, place: Any) -> Any:
    """The node that a row goes to from a node; from a leaf, the leaf itself."""
    node = nodes[place]
    value = q[row, (node >> _COLUMN_SHIFT) & _COLUMN_MASK]
    if categorical and node & _CATEGORICAL:
        word = bits[bit_start[place] + (value >> 5)]
        return (node >> _LEFT_SHIFT) + (np.uint64(~word) >> np.uint64(value & 31) & _ONE)
    return (node >> _LEFT_SHIFT) + np.uint64(np.uint64(value) > (node & _RANK_MASK))
