"""Rows as the trees of a `Forest` compare them: quantised block by block."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from rfsize.utils.threads import effective_threads
from rfsize.walking.encoding import encoded
from rfsize.walking.layout import Forest

# Quantised values per block of rows: as many as stay in the cache, but enough rows that those still voting at the
# end go down a tree together.
_VALUES_PER_BLOCK = 1 << 19
_FEWEST_ROWS, _MOST_ROWS = 512, 16_384

# Takes rows start to stop, and gives them quantised, shape (rows, `Forest.n_columns`).
Quantise = Callable[[int, int], NDArray[np.uint16]]


class Quantiser:
    """Quantises rows for one forest.

    Parameters
    ----------
    forest : Forest
        Its columns say what is kept of a row.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def blocks(self, X: Any) -> Quantise:
        """How to quantise blocks of ``X``, which `as_rows` returned and which has the columns of training.

        Raises
        ------
        ValueError
            If ``X`` does not fit the forest; from the blocks, if they hold what the framework refuses.
        """
        from rfsize.walking.kernels import quantise_dense, quantise_sparse

        forest = self._forest
        blocks = encoded(X, forest.conventions)
        columns, reading = tuple(forest.columns), tuple(forest.conventions.reading)

        def dense(start: int, stop: int) -> NDArray[np.uint16]:
            q = np.empty((stop - start, forest.n_columns), dtype=np.uint16)
            rows = blocks(start, stop).view()
            rows.flags.writeable = False  # as those of frames are: the loop is compiled for one kind only
            quantise_dense(rows, columns, reading, q)
            return q

        def sparse(start: int, stop: int) -> NDArray[np.uint16]:
            q = np.empty((stop - start, forest.n_columns), dtype=np.uint16)
            stored = blocks(start, stop)
            data, index, begin = stored.data.astype(np.float64), stored.indices, stored.indptr.astype(np.int64)
            quantise_sparse(data, index.astype(np.int64), begin, self._absent, self._entry_of, columns, reading, q)
            return q

        return sparse if issparse(X) else dense

    @cached_property
    def _absent(self) -> NDArray[np.uint16]:
        """A quantised row of entries that a sparse matrix does not store."""
        from rfsize.walking.kernels import quantise_dense

        forest, conventions = self._forest, self._forest.conventions
        q = np.empty((1, forest.n_columns), dtype=np.uint16)
        row = np.full((1, forest.n_features), np.nan if conventions.absent_is_missing else 0.0)
        quantise_dense(row, tuple(forest.columns), tuple(conventions.reading), q)
        return q[0]

    @cached_property
    def _entry_of(self) -> NDArray[np.int64]:
        """Where each feature's entries in `Columns` begin."""
        return np.searchsorted(self._forest.columns.feature, np.arange(self._forest.n_features + 1)).astype(np.int64)


def rows_per_block(rows: int, n_columns: int, *, n_jobs: int = -1) -> int:
    """Rows of quantised values that are worked on together, with some for each thread."""
    threads = 1 if rows <= _FEWEST_ROWS else effective_threads(n_jobs)
    return max(min(_VALUES_PER_BLOCK // n_columns, _MOST_ROWS, -(-rows // threads)), _FEWEST_ROWS)
