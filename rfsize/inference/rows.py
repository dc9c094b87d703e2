"""The rows that a compiled forest predicts: checked, quantised block by block; or a few of them as a plain array."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.models.columns import Columns, categorical_columns
from rfsize.models.rows import Chunk, Rows, lies_elsewhere, open_rows, refuse_dmatrix
from rfsize.walking.layout import PackedForest
from rfsize.walking.leaves import in_blocks, quantised


def columns_of(forest: PackedForest) -> Columns:
    """The columns that a compiled forest was trained on."""
    return Columns(forest.feature_names, forest.n_features, forest.conventions)


def opened(forest: PackedForest, X: Any) -> Rows:
    """The rows of ``X``; ``ValueError`` if they do not fit the forest."""
    refuse_dmatrix(X)
    if lies_elsewhere(X):
        raise ValueError("X lies on Dask's workers: give rfsize.dask.predict(forest, X), which predicts there")
    columns = columns_of(forest)
    views = column_views(X, columns)
    if views is None:
        return open_rows(X, columns)
    chunk = Chunk(0, len(views[0]), lambda start, stop: [view[start:stop] for view in views])
    return Rows(chunk.n_rows, len(views), columns.names, lambda: iter([chunk]), X, columns)


# Types of which double precision holds every number.
_EXACT = nw.Float32, nw.Float64, nw.Int8, nw.Int16, nw.Int32, nw.UInt8, nw.UInt16, nw.UInt32


def column_views(X: Any, columns: Columns) -> list[NDArray[Any]] | None:
    """The columns of a Polars or Arrow table where they lie.

    None if a column has to be copied or needs a check: it has nulls, lies in pieces, is no column of training, holds
    categories, or numbers that the framework may refuse.
    """
    conventions = columns.conventions
    assert conventions is not None
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    is_table = isinstance(frame, nw.DataFrame) and (
        frame.implementation.is_polars() or frame.implementation.is_pyarrow()
    )
    if not is_table or conventions.reading.refuses_infinite or conventions.categories or 0 in frame.shape:
        return None
    if frame.columns != columns.names if columns.names else len(frame.columns) != columns.n_features:
        return None
    if any(dtype not in _EXACT for dtype in frame.schema.values()):
        return None
    views = [_view(frame[:, place]) for place in range(len(frame.columns))]
    return None if any(view is None for view in views) else views


def _view(column: nw.Series[Any]) -> Any:
    """A column as an array on the same memory; None if that cannot be."""
    native = column.to_native()
    is_arrow = hasattr(native, "num_chunks")
    if column.null_count() or (native.num_chunks if is_arrow else native.n_chunks()) != 1:
        return None
    return native.chunk(0).to_numpy(zero_copy_only=True) if is_arrow else native.to_numpy(allow_copy=False)


def each_block(forest: PackedForest, rows: Rows, n_jobs: int, work: Callable[[_core.Rows, slice], None]) -> None:
    """Quantise blocks of rows, and call ``work`` on each, in ``n_jobs`` threads.

    Raises
    ------
    ValueError
        If the rows hold a value that the framework refuses.
    """

    def work_on(chunk: Chunk, start: int, stop: int) -> None:
        work(quantised(forest, chunk.read(start, stop)), slice(chunk.start + start, chunk.start + stop))

    for chunk in rows.chunks():
        in_blocks(forest, partial(work_on, chunk), chunk.n_rows, n_jobs)


_OF_PANDAS = "float32", "float64", "category"  # columns of pandas that a few rows are read from at once


class PlainRows:
    """Reads a few rows of a DataFrame or of lists as an array, for which the general checks would take too long.

    Parameters
    ----------
    forest : PackedForest
        The forest that predicts.
    most_rows : int
        Only so many rows are read.
    """

    def __init__(self, forest: PackedForest, most_rows: int) -> None:
        self._names, self._most_rows, self._conventions = forest.feature_names, most_rows, forest.conventions
        self._columns: Any = None
        self._dtypes: list[Any] = []
        self._codes: dict[int, dict[Any, float]] = {}

    def read(self, X: Any) -> NDArray[Any] | None:
        """The rows as floats; None if they are of another kind, too many, or need checks of columns or categories."""
        if isinstance(X, list | tuple):
            if self._conventions.codes_numbers:
                return None
            is_few = len(X) <= self._most_rows and all(isinstance(row, list | tuple) for row in X)
            return np.asarray(X) if is_few and len(set(map(len, X))) == 1 else None
        columns: Any = getattr(X, "columns", None)
        if columns is None or not hasattr(X, "iloc") or lies_elsewhere(X) or len(X) > self._most_rows:
            return None
        if self._columns is None or not self._columns.equals(columns):
            if not columns.is_unique or (self._names is not None and list(columns) != self._names):
                return None
            self._columns, self._dtypes = columns, []  # the next frames mostly have the same columns
        if self._conventions.categories:
            return self._coded(X)
        if any(dtype.kind == "O" for dtype in X.dtypes.array):  # categories, which to_numpy() takes for numbers
            return None
        return X.to_numpy()  # np.asarray takes fifty times as long

    def _coded(self, X: Any) -> NDArray[Any] | None:
        """The rows of a frame with floats and categories that training knew; None for all others."""
        dtypes = X.dtypes.to_list()
        if dtypes != self._dtypes:
            kinds = {"f": "number", "O": "category"}
            named = [kinds.get(dtype.kind if dtype.name in _OF_PANDAS else "", "") for dtype in dtypes]
            if "" in named or self._conventions.takes_codes:
                return None
            places = categorical_columns([str(name) for name in X.columns], named, self._conventions)
            codes = ({value: float(code) for code, value in enumerate(of)} for of in self._conventions.categories)
            self._dtypes, self._codes = dtypes, dict(zip(places, codes, strict=True))
        values = X.to_numpy()
        for place, code in self._codes.items():
            for row in values:
                value = row[place]
                if value == value and value not in code:
                    return None  # unknown, or missing in another form
                row[place] = code.get(value, np.nan)
        return np.asarray(values, dtype=np.float64)
