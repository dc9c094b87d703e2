"""Quantises rows block by block into the form that the trees of a `PackedForest` compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rfsize import _core
from rfsize.utils.threads import effective_threads
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import PackedForest

# Quantised values per block of rows. They must stay in the cache, but there must be enough rows that the last undecided
# rows still go down a tree together.
_VALUES_PER_BLOCK = 1 << 19
_FEWEST_ROWS, _MOST_ROWS = 512, 16_384

# Takes the numbers start and stop, and returns these rows in the form that the trees compare.
Quantise = Callable[[int, int], _core.Rows]


def quantised_blocks(forest: PackedForest, X: Any) -> Quantise:
    """A function that quantises blocks of ``X``, which `as_rows` returned and which has the columns of training.

    Raises
    ------
    ValueError
        If ``X`` does not fit the forest. When a block is read: if it holds a value that the framework refuses.
    """
    blocks, native = encoded(X, forest.conventions), forest.native

    def dense(start: int, stop: int) -> _core.Rows:
        return native.rows(blocks(start, stop))

    def sparse(start: int, stop: int) -> _core.Rows:
        stored = blocks(start, stop)
        index, begin = stored.indices.astype(np.int64, copy=False), stored.indptr.astype(np.int64, copy=False)
        return native.sparse_rows(stored.data.astype(np.float64, copy=False), index, begin)

    return sparse if issparse(X) else dense


def rows_per_block(rows: int, n_columns: int, *, n_jobs: int = -1) -> int:
    """Number of rows in a block, so that each thread has some."""
    threads = 1 if rows <= _FEWEST_ROWS else effective_threads(n_jobs)
    return max(min(_VALUES_PER_BLOCK // n_columns, _MOST_ROWS, -(-rows // threads)), _FEWEST_ROWS)
