"""Rows as the trees of a `Forest` compare them: quantised block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rfsize import _core
from rfsize.utils.threads import effective_threads
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import Forest

# Quantised values per block of rows: as many as stay in the cache, but enough rows that those still voting at the
# end go down a tree together.
_VALUES_PER_BLOCK = 1 << 19
_FEWEST_ROWS, _MOST_ROWS = 512, 16_384

# Takes rows start to stop, and gives them as the trees compare them.
Quantise = Callable[[int, int], _core.Rows]


def quantised_blocks(forest: Forest, X: Any) -> Quantise:
    """How to quantise blocks of ``X``, which `as_rows` returned and which has the columns of training.

    Raises
    ------
    ValueError
        If ``X`` does not fit the forest; from the blocks, if they hold what the framework refuses.
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
    """Rows of quantised values that are worked on together, with some for each thread."""
    threads = 1 if rows <= _FEWEST_ROWS else effective_threads(n_jobs)
    return max(min(_VALUES_PER_BLOCK // n_columns, _MOST_ROWS, -(-rows // threads)), _FEWEST_ROWS)
