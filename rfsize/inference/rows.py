"""The rows that a compiled forest predicts: checked, quantised block by block; or a few of them as a plain array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats
from rfsize.models.columns import CodesOf, Columns, coded_values, coders_by_place, kind_of, places_of
from rfsize.models.rows import Chunk, Rows, lies_elsewhere, open_rows, refuse_dmatrix
from rfsize.walking.layout import PackedForest
from rfsize.walking.leaves import in_blocks, quantised

# What reads columns that are no numbers, by their places.
Readers = dict[int, Callable[[Any], Floats]]

# The kinds of columns by the letters of NumPy and the names of pandas.
_KINDS = dict.fromkeys("biuf", "number") | dict.fromkeys(("O", "str", "string"), "text") | {"category": "category"}


def columns_of(forest: PackedForest) -> Columns:
    """The columns that a compiled forest was trained on."""
    return Columns(forest.feature_names, forest.n_features, forest.conventions)


def opened(forest: PackedForest, X: Any) -> Rows:
    """The rows of ``X``; ``ValueError`` if they do not fit the forest."""
    refuse_dmatrix(X)
    if lies_elsewhere(X):
        raise ValueError("X lies on Dask's workers: give rfsize.dask.predict(forest, X), which predicts there")
    columns = columns_of(forest)
    views = column_views(X, forest)
    if views is None:
        return open_rows(X, columns)
    chunk = Chunk(0, len(views[0]), lambda start, stop: [view[start:stop] for view in views])
    return Rows(chunk.n_rows, len(views), columns.names, lambda: iter([chunk]), X, columns)


# Types of which double precision holds every number.
_EXACT = nw.Float32, nw.Float64, nw.Int8, nw.Int16, nw.Int32, nw.UInt8, nw.UInt16, nw.UInt32


def column_views(X: Any, forest: PackedForest) -> list[NDArray[Any]] | None:
    """The columns of a Polars or Arrow table where they lie.

    None if a column has to be copied or needs a check: it has nulls, lies in pieces, is no column of training, holds
    categories, or numbers that the framework may refuse.
    """
    frame, conventions = nw.from_native(X, eager_only=True, pass_through=True), forest.conventions
    is_table = isinstance(frame, nw.DataFrame) and (
        frame.implementation.is_polars() or frame.implementation.is_pyarrow()
    )
    if not is_table or conventions.reading.refuses_infinite or conventions.categories or 0 in frame.shape:
        return None
    if frame.columns != (forest.feature_names or frame.columns) or len(frame.columns) != forest.n_features:
        return None
    views = [_view(frame[:, place]) for place in range(len(frame.columns))]
    return None if any(view is None for view in views) else views


def _view(column: nw.Series[Any]) -> Any:
    """A column as an array on the same memory; None if that cannot be, or double precision does not hold it."""
    native = column.to_native()
    is_arrow = hasattr(native, "num_chunks")
    if column.dtype not in _EXACT or column.null_count() or (native.num_chunks if is_arrow else native.n_chunks()) != 1:
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


class PlainRows:
    """Reads a few rows of a DataFrame or of lists as an array, for which the general checks would take too long.

    Frames mostly have the columns and the types of the frame before, whose readers are kept.

    Parameters
    ----------
    forest : PackedForest
        The forest that predicts.
    most_rows : int
        Only so many rows are read.
    """

    def __init__(self, forest: PackedForest, most_rows: int) -> None:
        self._columns, self._most_rows = columns_of(forest), most_rows
        self._codes_numbers = forest.conventions.codes_numbers
        # The names of the columns, their types, and their readers. One tuple, so that no thread sees half of a new one.
        self._last: tuple[Any, list[Any], Readers | None] = None, [], None

    def read(self, X: Any) -> NDArray[Any] | None:
        """The rows as floats; None if they are of another kind, too many, or need the general checks."""
        if isinstance(X, list | tuple):
            if self._codes_numbers:
                return None
            is_few = len(X) <= self._most_rows and all(isinstance(row, list | tuple) for row in X)
            return np.asarray(X) if is_few and len(set(map(len, X))) == 1 else None
        is_pandas = hasattr(X, "_iter_column_arrays")
        if not (is_pandas or hasattr(X, "get_columns")) or not 0 < len(X) <= self._most_rows:
            return None
        types, (names, types_before, readers) = list(X.dtypes), self._last
        same_names = X.columns.equals(names) if is_pandas else isinstance(names, list) and X.columns == names
        if not same_names or not _are_same(types, types_before):
            readers = _readers(X, types, self._columns)
            self._last = X.columns, types, readers
        if readers is None:
            return None
        if is_pandas and not readers:
            return X.to_numpy(dtype=np.float64)  # np.asarray takes fifty times as long
        # The public ways to the columns of pandas take ten times as long.
        columns = list(X._iter_column_arrays() if is_pandas else zip(*X.rows(), strict=True))
        for place, reader in readers.items():
            columns[place] = reader(columns[place])
        return np.array(columns, dtype=np.float64).T


def _are_same(types: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether types of columns are the same; those of pandas' categories are equal too if their codes differ."""
    return all(a is b or (a == b and not hasattr(a, "ordered")) for a, b in zip(types, others, strict=True))


def _readers(X: Any, types: Sequence[Any], columns: Columns) -> Readers | None:
    """What reads the columns that hold no numbers; None if names or types need the general checks.

    These also tell what is wrong, so nothing is refused here.
    """
    names, is_pandas = [str(name) for name in X.columns], hasattr(X, "iloc")
    if is_pandas:
        kinds = [_KINDS.get(dtype.kind if isinstance(dtype, np.dtype) else dtype.name, "other") for dtype in types]
    else:
        kinds = [kind_of(nw.from_native(column, series_only=True)) for column in X.get_columns()]
    if "other" in kinds or len(set(names)) < len(names):
        return None
    readers: Readers = {}
    with suppress(ValueError):
        if places_of(names, len(names), columns, warns=False) is not None:
            return None
        coders = coders_by_place(names, kinds, columns.conventions)
        for place, kind in enumerate(kinds):
            codes_of = coders.get(place)
            if is_pandas and kind == "category":
                readers[place] = _coder_of(types[place].categories, codes_of)
            elif codes_of is not None:
                readers[place] = partial(coded_values, codes_of=codes_of)
            elif kind != "number":
                return None
        return readers
    return None


def _coder_of(categories: Any, codes_of: CodesOf | None) -> Callable[[Any], Floats]:
    """Reads columns of pandas with these categories; their own codes count if there is no ``codes_of``."""
    codes = np.arange(len(categories)) if codes_of is None else codes_of(categories.tolist())
    code = np.append(codes, np.nan)  # a missing value has the code -1
    return lambda column: code[column.codes]
