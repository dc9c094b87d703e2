"""Checks and quantises rows for a compiled forest, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfsize import _core
from rfsize._util import each_range
from rfsize.models.columns import Columns
from rfsize.models.rows import Chunk, Rows, open_rows, refuse_dmatrix
from rfsize.walking.layout import PackedForest
from rfsize.walking.leaves import quantised, rows_per_block


def columns_of(forest: PackedForest) -> Columns:
    """The columns that a compiled forest was trained on."""
    return Columns(forest.feature_names, forest.n_features, forest.conventions)


def opened(forest: PackedForest, X: Any) -> Rows:
    """The rows of ``X``; ``ValueError`` if they do not fit the forest."""
    refuse_dmatrix(X)
    return open_rows(X, columns_of(forest))


def each_block(forest: PackedForest, rows: Rows, n_jobs: int, work: Callable[[_core.Rows, slice], None]) -> None:
    """Quantise blocks of rows, and call ``work`` on each, in ``n_jobs`` threads.

    Raises
    ------
    ValueError
        If the rows hold a value that the framework refuses.
    """
    for chunk in rows.chunks():
        _each_block_of(forest, chunk, n_jobs, work)


def _each_block_of(forest: PackedForest, chunk: Chunk, n_jobs: int, work: Callable[[_core.Rows, slice], None]) -> None:
    def block(start: int, stop: int) -> None:
        work(quantised(forest, chunk.read(start, stop)), slice(chunk.start + start, chunk.start + stop))

    each_range(block, chunk.n_rows, rows_per_block(chunk.n_rows, forest.n_columns, n_jobs=n_jobs), n_jobs=n_jobs)
