"""The compiled loops that take all rows of a block down a whole tree together.

To walk costs a row some ten instructions a level. Near the root, where many rows meet each split, it is cheaper to put
the split to all rows at once: with the block laid out by columns, one instruction compares as many rows as fit into a
register of the processor. So all rows pass the first splits of a tree one split after the other, whether they have
come to it or not, and only those walk on that have not reached a leaf by then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.utils.jit import compiled
from rfsize.walking import layout
from rfsize.walking.kernels import balanced_depth, descend, walkers

# Rows that go down a tree together: as many as stay in the cache.
TOGETHER = 2048

# Where no more of the rows that go down trees together are open, the others are left out.
SHARE_OPEN = 0.75
# Trees asked in the first stage, and how many times as many are asked by the end of the next.
FIRST_STAGE, STAGES_GROW = 4, 4

# Splits that all rows pass, where ranks fit a byte: the children of as many can be told apart in one. Of words half as
# many fit a register, and are passed. Further down so few rows meet a split that they had better walk.
_SPLITS = 127
# Rows that a split must be put to at least, to make up for the time that it takes to prepare it.
_ROWS_PER_SPLIT = 8
# Fewer rows walk all the way.
_FEWEST = 64
# Nodes, of the first trees, that tell whether ranks fit a byte.
_LOOKED_AT = 1024

_LEFT_SHIFT, _COLUMN_SHIFT, _COLUMN_MASK = layout.LEFT_SHIFT, layout.COLUMN_SHIFT, layout.COLUMN_MASK
_RANK_MASK, _CATEGORICAL = layout.RANK_MASK, layout.CATEGORICAL
_BYTE, _WORD = 0xFF, 0xFFFF


@compiled
def group(n: Any, n_columns: Any, trees: Any) -> Any:
    """Memory for up to ``n`` rows that go down trees together: their columns, and where they are, as bytes or as words.

    Walkers come last. Few rows need no columns.
    """
    many = n if n >= _FEWEST else 0
    bytes_ = many if _ranks_fit_a_byte(trees[0]) else 0
    words = many - bytes_
    return (
        (np.empty((n_columns, bytes_), np.uint8), np.empty(bytes_, np.uint8)),
        (np.empty((n_columns, words), np.uint16), np.empty(words, np.uint16)),
        walkers(n),
    )


@compiled
def _ranks_fit_a_byte(nodes: Any) -> Any:
    """Whether hardly any rank exceeds a byte, going by the first nodes: a split whose rank does is left to walkers."""
    looked_at, beyond = min(nodes.size, _LOOKED_AT), 0
    for place in range(looked_at):
        rank = np.int64(nodes[place] & _RANK_MASK)
        beyond += np.int64(rank >= _BYTE) & np.int64(rank < _WORD)
    return 20 * beyond <= looked_at


@compiled
def gather(q: Any, going: Any, together: Any) -> None:
    """Lay out by columns the rows of ``q`` that are ``going`` down trees, as many as there is memory for."""
    (narrow, _), (wide, _), (row, _, _) = together
    for j in range(going.size):
        row[j] = going[j]
    if going.size < _FEWEST:
        return
    for column in range(narrow.shape[0]):
        if narrow.size:
            for j in range(going.size):
                narrow[column, j] = min(q[going[j], column], _BYTE)
        else:
            for j in range(going.size):
                wide[column, j] = q[going[j], column]


@compiled
def leave_out(settled: Any, going: Any, together: Any) -> Any:
    """Of the rows that are ``going``, which were gathered, keep in front those that are not settled, and count them.

    ``settled`` is negative for a row that is not.
    """
    (narrow, _), (wide, _), (row, kept, _) = together
    n = 0
    for j in range(going.size):
        kept[n] = j
        n += np.int64(settled[going[j]] < 0)
    for j in range(n):
        going[j] = going[kept[j]]
        row[j] = going[j]
    if n < _FEWEST:
        return n
    for column in range(narrow.shape[0]):
        if narrow.size:
            for j in range(n):
                narrow[column, j] = narrow[column, kept[j]]
        else:
            for j in range(n):
                wide[column, j] = wide[column, kept[j]]
    return n


@compiled
def still_open(settled: Any, going: Any) -> Any:
    """Move the rows that are not settled to the front, and count them; ``settled`` is negative for these."""
    kept = 0
    for j in range(going.size):
        if settled[going[j]] < 0:
            going[kept] = going[j]
            kept += 1
    return kept


@compiled
def moved_up(going: Any, kept: Any, first: Any, n: Any) -> Any:
    """Move ``n`` rows from the place ``first`` on behind those that were ``kept``, and count these."""
    for j in range(n):
        going[kept + j] = going[first + j]
    return kept + n


@compiled
def to_leaves(q: Any, n: Any, trees: Any, tree: Any, together: Any) -> Any:
    """The node of the leaf that each of the ``n`` rows reaches that were gathered; the next call overwrites it."""
    (narrow, byte), (wide, word), (row, place, open_) = together
    nodes, _, _, tree_start, _, _ = trees
    first, last = tree_start[tree], tree_start[tree + 1]
    splits, steps, is_done = n // _ROWS_PER_SPLIT, 0, False
    if n < _FEWEST:
        for j in range(n):
            place[j] = first
        steps = balanced_depth(tree_start, tree)
    elif narrow.size:
        is_done = _pass_splits(nodes, first, last, min(splits, _SPLITS), narrow, byte[:n])
        for j in range(n):
            place[j] = first + np.int64(byte[j])
    else:
        is_done = _pass_splits(nodes, first, last, min(splits, _SPLITS // 2), wide, word[:n])
        for j in range(n):
            place[j] = first + np.int64(word[j])
    if not is_done:
        descend(q, trees, n, steps, (row, place, open_))
    return place[:n]


@compiled
def _pass_splits(nodes: Any, first: Any, last: Any, splits: Any, columns: Any, at: Any) -> Any:
    """Take all rows past the first splits of a tree, so many at most, and say whether it has no others.

    ``at`` becomes the node of each row, counted from the root. Rows stay at a split that is left out because it is
    categorical, or because its rank or its children exceed what a column holds. Parents come before their children.
    """
    number, highest = at.dtype.type, _BYTE if at.itemsize == 1 else _WORD
    for j in range(at.size):
        at[j] = 0
    has_others = False
    for place in range(first, last):
        node = nodes[place]
        rank, left = np.int64(node & _RANK_MASK), np.int64(node >> _LEFT_SHIFT) - first
        if rank == _WORD:  # a leaf
            continue
        if splits == 0:
            return False
        if rank >= highest or left >= highest or node & _CATEGORICAL:
            has_others = True
            continue
        column = columns[np.int64(node >> _COLUMN_SHIFT & _COLUMN_MASK)]
        _pass_split(column, number(rank), number(place - first), number(left), at)
        splits -= 1
    return not has_others


@compiled
def _pass_split(column: Any, rank: Any, split: Any, left: Any, at: Any) -> None:
    """Send the rows that are at a split to its children.

    Where a branch would do, rows that are elsewhere add zero: this becomes vector code on every processor.
    """
    number = at.dtype.type
    down = number(left - split)
    for j in range(at.size):
        at[j] = number(at[j] + number(at[j] == split) * number(down + number(column[j] > rank)))
