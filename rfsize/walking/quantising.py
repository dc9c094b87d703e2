"""Quantises rows block by block into the form that the trees of a `PackedForest` compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from rfsize import _core
from rfsize._util import effective_threads
from rfsize.walking.layout import PackedForest

# Quantised values per block of rows. They must stay in the cache, but there must be enough rows that the last undecided
# rows still go down a tree together.
_VALUES_PER_BLOCK = 1 << 19
_FEWEST_ROWS, _MOST_ROWS = 512, 16_384


def quantised(forest: PackedForest, values: Any) -> _core.Rows:
    """Rows in the form that the trees compare, from a float array or a compressed sparse row matrix."""
    if not issparse(values):
        return forest.native.rows(values)
    index, begin = values.indices.astype(np.int64, copy=False), values.indptr.astype(np.int64, copy=False)
    return forest.native.sparse_rows(values.data.astype(np.float64, copy=False), index, begin)


def rows_per_block(rows: int, n_columns: int, *, n_jobs: int = -1) -> int:
    """Number of rows in a block, so that each thread has some."""
    threads = 1 if rows <= _FEWEST_ROWS else effective_threads(n_jobs)
    return max(min(_VALUES_PER_BLOCK // n_columns, _MOST_ROWS, -(-rows // threads)), _FEWEST_ROWS)
