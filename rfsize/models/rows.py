"""Rows of any kind, read forwards in chunks that fit into memory, as the numbers that a model was trained on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import issparse

from rfsize._util import Int64s
from rfsize.models.bags import Layout
from rfsize.models.columns import Columns, Read, checked, coded_numbers, coders_of, encoder, frame_of, places_of
from rfsize.models.streams import Stream, batches_of, dataset_at, of_batches, of_files, of_sequences

_ADVICE = "leave such columns out, or convert them to numbers"


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows in memory.

    Attributes
    ----------
    start : int
        Number of the first row among all rows.
    n_rows : int
        Number of rows.
    read : callable
        Takes the numbers ``start`` and ``stop``, counted within the chunk, and returns these rows: a float array, a
        compressed sparse row matrix, or what only the members themselves can read. Threads may call it at once.
    """

    start: int
    n_rows: int
    read: Callable[[int, int], Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one kind, checked against the columns of training.

    Attributes
    ----------
    n_rows, n_features : int
        Number of rows, and of columns as given.
    names : list of str or None
        Names of the columns as given; None if they have none.
    chunks : callable
        Begins to read: the chunks, in order. Rows in memory are one chunk.
    source
        The rows as given.
    columns : Columns or None
        The columns of training; None if the rows were opened without a model.
    is_stream : bool
        Whether the rows are not in memory.
    is_encoded : bool
        Whether the chunks hold the numbers of training, which trees as arrays can walk on. Only the framework reads the
        others: a DMatrix, and rows of members that are no trees.
    """

    n_rows: int
    n_features: int
    names: list[str] | None
    chunks: Callable[[], Iterator[Chunk]] = field(repr=False)
    source: Any = field(repr=False)
    columns: Columns | None = None
    is_stream: bool = False
    is_encoded: bool = True

    def pick(self, numbers: Int64s) -> Rows:
        """Some rows in memory, by their ascending numbers."""
        parts = []
        for chunk in self.chunks():
            here = numbers - chunk.start
            here = here[(here >= 0) & (here < chunk.n_rows)]
            if here.size:
                parts.append(rows_at(chunk.read(int(here[0]), int(here[-1]) + 1), here - here[0]))
        return in_memory(joined(parts), self.columns, encoded=self.is_encoded, names=self.names)


class ForwardReader:
    """Reads rows ``start`` to ``stop``, with one chunk in memory at a time; to go back begins the chunks anew."""

    def __init__(self, rows: Rows | DistributedRows) -> None:
        self._rows, self._chunk = rows, Chunk(0, 0, lambda start, stop: None)
        self._chunks: Iterator[Chunk] = iter(())

    def read(self, start: int, stop: int) -> Any:
        if start < self._chunk.start or not self._chunk.n_rows:
            self._chunks = self._rows.chunks()
            self._chunk = next(self._chunks)
        parts = []
        while start < stop:
            while (end := self._chunk.start + self._chunk.n_rows) <= start:
                self._chunk = next(self._chunks)
            last = min(stop, end)
            parts.append(self._chunk.read(start - self._chunk.start, last - self._chunk.start))
            start = last
        return joined(parts)


class DistributedRows(ABC):
    """Rows that lie elsewhere, such as on the workers of a cluster, and are processed there.

    Attributes
    ----------
    n_rows, n_features : int
    """

    n_rows: int
    n_features: int

    @abstractmethod
    def each(
        self, work: Callable[..., Any], *sent: Any, own: Callable[[range], tuple[Any, ...]] = lambda _: (), what: str
    ) -> Iterator[Any]:
        """The results of ``work(numbers of the rows, rows, *sent, *own(numbers))`` for each part, in order.

        ``sent`` is the same for all parts. If it takes long, a progress bar names ``what``.
        """

    @abstractmethod
    def here(self, values: Any) -> Any:
        """Labels, weights or groups of the rows, brought to this process."""

    @abstractmethod
    def layout(self, machines: Any) -> Layout:
        """Which machine held which rows during training."""

    @abstractmethod
    def pick(self, numbers: Int64s) -> Rows:
        """Some rows, brought here, by their ascending numbers."""

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """The rows, brought here part by part."""


def lies_elsewhere(X: Any) -> bool:
    """Whether rows lie on Dask's workers."""
    # Types of Dask, of a framework's module for Dask, or of `rfsize.dask`. Compare names, so as not to import Dask for
    # nothing.
    return any("dask" in kind.__module__.split(".")[:2] for kind in type(X).__mro__)


def refuse_dmatrix(X: Any) -> None:
    """Raise ``ValueError`` for a DMatrix, which only models of XGBoost read."""
    if hasattr(X, "num_row"):
        raise ValueError("X is an XGBoost DMatrix, which only XGBoost can read: give the rows as an array or DataFrame")


def n_rows_of(X: Any) -> int:
    """Number of rows of what a framework trains on."""
    if X is None:
        raise ValueError("X is missing: give the rows to train on")
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def open_rows(X: Any, columns: Columns | None = None) -> Rows:
    """Open rows of any kind.

    Parameters
    ----------
    X : array_like, DataFrame, sparse matrix, Arrow table, DMatrix, path, Dataset, Sequence, DataIter or list of batches
        Rows in memory; or a Parquet file, a folder of them, a `pyarrow.dataset.Dataset`, `lightgbm.Sequence` objects,
        an `xgboost.DataIter`, or a list of tables, which are read in chunks.
    columns : Columns, optional
        The columns of training. Columns of ``X`` are then found by name, checked by kind, and encoded as at training.

    Raises
    ------
    ValueError
        If ``X`` is missing, is no matrix, has no rows, or holds anything but numbers and categories; or if its columns
        are not those of training. For rows in chunks: when the chunk is read, unless the source tells it before.
    """
    if isinstance(X, Rows):
        return X if columns is None or X.columns == columns else open_rows(X.source, columns)
    stream = stream_of(X)
    if stream is not None:
        return _opened(stream, X, columns)
    X = plain_rows(X, takes_text=_reads_itself(columns))
    chunk, names = _chunk(X, columns, 0)
    is_encoded = not (hasattr(X, "num_row") or _reads_itself(columns))
    return Rows(chunk.n_rows, _shape(X)[1], names, lambda: iter([chunk]), X, columns, is_encoded=is_encoded)


def stream_of(X: Any) -> Stream | None:
    """The stream of a source that is read in chunks; None for rows in memory."""
    if isinstance(X, (str, Path)):
        return of_files(dataset_at(Path(X)))
    if hasattr(X, "shape"):  # in a table, any attribute can be a column
        return None
    if hasattr(X, "get_fragments"):  # a dataset of Arrow
        return of_files(X)
    parts = X if isinstance(X, (list, tuple)) else [X]
    if parts and all(hasattr(part, "batch_size") and hasattr(part, "__getitem__") for part in parts):
        return of_sequences(parts)
    if isinstance(X, (list, tuple)) and X and all(len(getattr(part, "shape", ())) == 2 for part in X):
        return of_batches(lambda: iter(parts))
    return of_batches(lambda: batches_of(X)) if hasattr(X, "next") and hasattr(X, "reset") else None


def _opened(stream: Stream, X: Any, columns: Columns | None) -> Rows:
    """The rows of a stream, with the columns of training; ``X`` is the source."""
    places = None if columns is None else places_of(stream.names, stream.n_features, columns)
    needed = None if places is None or stream.names is None else [stream.names[place] for place in places]

    def chunks() -> Iterator[Chunk]:
        start = 0
        for number, table in enumerate(stream.tables(needed)):
            try:
                table = plain_rows(table, takes_text=_reads_itself(columns))
                chunk, _ = _chunk(table, columns, start, warns=False)
            except ValueError as error:
                raise ValueError(f"in piece {number} of X, counted from 0, {error}") from error
            start += chunk.n_rows
            yield chunk
        if start != stream.n_rows:
            given = f"{stream.n_rows:,} rows when it was opened, and now {start:,}"
            raise ValueError(f"X gave {given}: its source must give the same rows each time that it is read")

    is_encoded = not _reads_itself(columns)
    return Rows(stream.n_rows, stream.n_features, stream.names, chunks, X, columns, True, is_encoded)


def in_memory(X: Any, columns: Columns | None, *, encoded: bool, names: list[str] | None = None) -> Rows:
    """Rows in memory that were read from others; ``encoded`` if they hold the numbers of training."""
    chunk = _as_given(X, 0)
    return Rows(chunk.n_rows, _shape(X)[1], names, lambda: iter([chunk]), X, columns, is_encoded=encoded)


def _reads_itself(columns: Columns | None) -> bool:
    """Whether members that are no trees read the rows themselves."""
    return columns is not None and columns.conventions is None


def _chunk(X: Any, columns: Columns | None, start: int, *, warns: bool = True) -> tuple[Chunk, list[str] | None]:
    """Rows in plain form as a chunk, and the names of their columns."""
    frame = frame_of(X)
    names = None if frame is None else [str(name) for name in frame.columns]
    places = None if columns is None else places_of(names, _shape(X)[1], columns, warns=warns)
    if frame is not None and places is not None:
        frame = frame[:, places]
    if columns is not None and _reads_itself(columns):
        if frame is not None:  # members that were trained without names would warn of these
            X = np.asarray(X) if columns.names is None else frame.to_native()
        return _as_given(X, start), names
    if hasattr(X, "num_row"):
        return _as_given(X, start), names
    read = _array_reader(X, columns) if frame is None else encoder(frame, columns)
    return Chunk(start, X.shape[0], checked(read, columns)), names


def _array_reader(X: Any, columns: Columns | None) -> Read:
    """Reads an array or a sparse matrix as numbers."""
    conventions = None if columns is None else columns.conventions
    if conventions is not None and conventions.codes_numbers and conventions.categories and not issparse(X):
        places = list(conventions.category_features or ())
        coders = coders_of([str(place) for place in range(X.shape[1])], places, conventions)

        def coded(start: int, stop: int) -> Any:
            values = X[start:stop].astype(np.float64)
            for place, codes_of in zip(places, coders, strict=True):
                values[:, place] = coded_numbers(values[:, place], codes_of)
            return values

        return coded
    if issparse(X) or (X.dtype in (np.float32, np.float64) and X.flags.aligned):
        return lambda start, stop: X[start:stop]
    # Most frameworks read all other types in single precision.
    in_double = X.dtype == np.float64 or (conventions is not None and conventions.reading.integers_in_double)
    return lambda start, stop: X[start:stop].astype(np.float64 if in_double else np.float32)


def _as_given(X: Any, start: int) -> Chunk:
    """Rows that are handed on as they are."""
    return Chunk(start, _shape(X)[0], lambda first, last: rows_at(X, slice(first, last)))


def rows_at(X: Any, rows: Any) -> Any:
    """Some rows of rows in memory, in the same form; a slice or numbers."""
    if hasattr(X, "num_row"):  # an XGBoost DMatrix
        return X.slice(np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    frame = frame_of(X)
    return X[rows] if frame is None else frame[rows].to_native()


def joined(parts: Sequence[Any]) -> Any:
    """Join rows that have the same form."""
    if len(parts) == 1:
        return parts[0]
    if issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    if frame_of(parts[0]) is not None:
        return nw.concat([nw.from_native(part, eager_only=True) for part in parts]).to_native()
    return np.concatenate(parts)


def _shape(X: Any) -> tuple[int, ...]:
    return tuple(X.shape) if hasattr(X, "shape") else (X.num_row(), X.num_col())


def plain_rows(X: Any, *, takes_text: bool = False) -> Any:
    """``X`` as a non-empty matrix that every framework reads as the same numbers; arrays may hold text on request.

    Frameworks would read some arrays in different ways, or wrongly without a warning. So arrays are brought into native
    byte order, and sparse matrices hold one float for each entry.
    """
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError("X is a list of rows of different lengths: give one number for each feature") from None
    if not (hasattr(X, "shape") or hasattr(X, "num_row")):
        kind = f"{type(X).__module__}.{type(X).__qualname__}"
        raise ValueError(f"X is a {kind}: give an array, a DataFrame (collect() a LazyFrame), or a sparse matrix")
    X = X.tocsr() if issparse(X) else X
    shape = _shape(X)
    if len(shape) != 2:
        raise ValueError(f"X has the shape {shape}: give one row as X.reshape(1, -1), or as X.iloc[[0]]")
    if 0 in shape:
        raise ValueError(f"X has no {'rows' if shape[0] == 0 else 'columns'}: give at least one")
    names = Counter(map(str, X.columns) if hasattr(X, "iloc") else ())
    if repeated := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"X has several columns with the names {repeated}: give each column a name of its own")
    if issparse(X):
        return _plain_sparse(X)
    return _plain_array(X, takes_text) if isinstance(X, np.ndarray) else X


def _plain_array(X: NDArray[Any], takes_text: bool) -> NDArray[Any]:
    """The array of numbers without a mask, in native byte order."""
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.getmaskarray(X).any():
            raise ValueError("X is a masked array, and the frameworks would read masked values: give X.filled(np.nan)")
        X = X.data
    if takes_text and X.dtype.kind in "OUS":
        return X
    if X.dtype.kind == "O":
        return _floats(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X is an array of {X.dtype}, and must hold numbers: {_ADVICE}")
    return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))


def _floats(X: NDArray[Any]) -> NDArray[np.float32]:
    """An array of objects as single-precision numbers, which every framework reads, with None as missing."""
    try:
        with np.errstate(over="ignore"):
            return X.astype(np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"X holds objects that are no numbers ({error}): {_ADVICE}") from None


def _plain_sparse(X: Any) -> Any:
    """The sparse matrix with one float for each stored entry. The caller's matrix is not changed."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X is a sparse matrix of {X.dtype}, and must hold numbers: {_ADVICE}")
    if X.dtype not in (np.float32, np.float64) or not X.dtype.isnative:
        # Whole numbers are read in single precision, as in arrays.
        X = X.astype(np.float64 if X.dtype.kind == "f" and X.dtype.itemsize > 4 else np.float32)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def for_training(X: Any) -> Any:
    """A Polars frame as a pandas frame, which every framework trains on; anything else unchanged."""
    frame = frame_of(X)
    if frame is None or not frame.implementation.is_polars():
        return X
    # Booleans with gaps would become objects in pandas.
    gaps = [name for name in frame.columns if frame[name].dtype == nw.Boolean and frame[name].null_count()]
    table = frame.with_columns(nw.col(name).cast(nw.Float64) for name in gaps).to_pandas()
    # From Polars 2 on, an Enum has an order in pandas, and LightGBM takes ordered categories for numbers.
    ordered = [name for name in table.columns if getattr(table[name].dtype, "ordered", False)]
    return table.assign(**{name: table[name].cat.as_unordered() for name in ordered})
