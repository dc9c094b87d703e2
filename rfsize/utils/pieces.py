"""Rows that are read piece by piece, because they do not fit into memory together."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rfsize.utils.rows import booleans_as_numbers, column_names, form_of, frame_of, in_memory, joined, picked, sliced
from rfsize.utils.typing import Int64s
from rfsize.utils.words import printable

# Numbers in a piece if the source does not fix its size: 64 MB in double precision.
_CELLS = 1 << 23

# The name that pandas gives to an index without one.
_INDEX = re.compile(r"__index_level_\d+__")

# Pieces kept in memory, because a block of rows can begin in one piece and end in the next.
_KEPT = 2


class Pieces(ABC):
    """Rows of one table, with one piece in memory at a time.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    names : list of str or None
        Names of the features, if they have any.
    ends : ndarray of int64, shape (n_pieces,)
        Number of rows up to the end of each piece.
    in_some : dict of str to str
        Names of columns that only some pieces have, and where each is missing, as far as the source tells beforehand.
    """

    shape: tuple[int, int]
    names: list[str] | None = None
    in_some: Mapping[str, str] = MappingProxyType({})
    ends: Int64s

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Any]] = deque(maxlen=_KEPT)
        self._form: Any = None
        self._reading = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The state without the parts that reading finds again."""
        again = {"_kept", "_reading", "_large", "_categories"}
        return {name: value for name, value in vars(self).items() if name not in again}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Pieces.__init__(self)
        vars(self).update(state)

    @abstractmethod
    def load(self, piece: int) -> Any:
        """The rows of a piece, in a form that the frameworks take."""

    def only(self, places: list[int]) -> Pieces:
        """The same rows; without the columns at other places, if the source need not read them."""
        return self

    def read(self, start: int, stop: int) -> Any:
        """Rows ``start`` to ``stop``, in memory. Reading forwards loads each piece once."""
        if not 0 <= start < stop <= self.shape[0]:
            raise ValueError(f"rows {start} to {stop} are asked for of {self.shape[0]}")
        first, last = np.searchsorted(self.ends, (start, stop - 1), side="right")
        with self._reading:
            parts = [self._cut(int(piece), start, stop) for piece in range(first, last + 1)]
        return joined(parts)

    def pick(self, rows: Int64s) -> Any:
        """Some rows, by their ascending numbers."""
        parts = []
        for piece, stop in enumerate(self.ends):
            begin = self._start(piece)
            here = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, stop)] - begin
            if here.size:
                with self._reading:
                    parts.append(picked(self._held(piece), here))
        return joined(parts)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each piece, and the number of its first row."""
        for piece in range(len(self.ends)):
            with self._reading:
                rows = self._held(piece)
            yield self._start(piece), rows

    def _start(self, piece: int) -> int:
        return int(self.ends[piece - 1]) if piece else 0

    def _cut(self, piece: int, start: int, stop: int) -> Any:
        begin, rows = self._start(piece), self._held(piece)
        first, last = max(start - begin, 0), min(stop, int(self.ends[piece])) - begin
        return rows if (first, last) == (0, rows.shape[0]) else sliced(rows, first, last)

    def _held(self, piece: int) -> Any:
        for number, rows in self._kept:
            if number == piece:
                return rows
        rows = self._checked(piece, self.load(piece))
        self._kept.append((piece, rows))
        return rows

    def _checked(self, piece: int, rows: Any) -> Any:
        """The rows of a piece in plain form. All pieces must have the form of the first."""
        rows = in_memory(rows)
        expected = int(self.ends[piece]) - self._start(piece), self.shape[1]
        if rows.shape != expected:
            raise ValueError(
                f"piece {piece} of X has shape {tuple(rows.shape)} where {expected} was expected: its source must "
                "give the same rows each time that it is read"
            )
        self._check_form(piece, form_of(rows))
        return rows

    def _check_form(self, piece: int, form: Any) -> None:
        """Raise ``ValueError`` if pieces differ in form."""
        if self._form not in (None, form):
            raise ValueError(
                f"piece {piece} of X has {form}, and the pieces before it have {self._form}: all must have the "
                "same columns, of the same kinds and with the same categories"
            )
        self._form = form


class PiecesElsewhere(Pieces):
    """Pieces that lie elsewhere, such as on the workers of a cluster, and are processed there."""

    @abstractmethod
    def each(self, work: Callable[..., Any], *options: Any) -> Iterator[Any]:
        """The results of ``work(number of the first row, rows, *options)`` for each piece, in order."""

    @abstractmethod
    def each_of_its_own(
        self, work: Callable[..., Any], sent: Any, of_rows: Callable[[range], Any], *, what: str
    ) -> Iterator[Any]:
        """The results of ``work(rows, sent, of_rows(numbers of the rows))`` for each piece, in order."""

    @abstractmethod
    def here(self, values: Any) -> Any:
        """Labels or weights of the rows, brought to this process."""

    @abstractmethod
    def layout(self, machines: Any) -> Any:
        """Which machine held which rows during training."""


class OfSequences(Pieces):
    """The rows of LightGBM ``Sequence`` objects, one after another."""

    def __init__(self, sequences: Sequence[Any]) -> None:
        super().__init__()
        lengths = [len(rows) for rows in sequences]
        if not sequences or 0 in lengths:
            raise ValueError(f"X has Sequences of {lengths} rows: give at least one, and none that is empty")
        width = np.asarray(sequences[0][0]).size
        step = max(1, _CELLS // max(1, width))
        self._places = [
            (rows, start, min(start + step, length))
            for rows, length in zip(sequences, lengths, strict=True)
            for start in range(0, length, step)
        ]
        self.ends = np.cumsum([stop - start for _, start, stop in self._places])
        self.shape = int(self.ends[-1]), width

    def load(self, piece: int) -> Any:
        """A slice of one Sequence."""
        sequence, start, stop = self._places[piece]
        return np.asarray(sequence[start:stop])


class OfBatches(Pieces):
    """The rows of a list of tables: arrays, DataFrames, sparse matrices or Arrow tables, in order."""

    def __init__(self, batches: Sequence[Any]) -> None:
        super().__init__()
        self._batches = batches
        self.names = column_names(batches[0])
        self.ends, self.shape = _laid_out([batch.shape for batch in batches])

    def load(self, piece: int) -> Any:
        """One of the tables."""
        return self._batches[piece]


def _laid_out(shapes: Sequence[tuple[int, ...]]) -> tuple[Int64s, tuple[int, int]]:
    """The ends of batches, and the shape of all rows together."""
    wrong = [shape for shape in shapes if len(shape) != 2 or not shape[0]]
    if wrong:
        raise ValueError(f"X holds a batch of shape {wrong[0]}: give batches of rows and features, none of them empty")
    ends = np.cumsum([shape[0] for shape in shapes])
    return ends, (int(ends[-1]), int(shapes[0][1]))


class OfParquet(Pieces):
    """The rows of a Parquet file, or of all Parquet files of a folder in the order of their names.

    A piece is a row group, or a part of a large row group. Only columns that all files have are read; the index that
    pandas stores without a name is none of them.
    """

    _large: _LargeGroup | None = None

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        fragments = list(dataset.get_fragments())
        if not all(hasattr(fragment, "split_by_row_group") for fragment in fragments):
            raise ValueError("X is a dataset of other files than Parquet: give its rows as an Arrow table, or a folder")
        self._groups = [group for fragment in fragments for group in fragment.split_by_row_group()]
        if not any(group.row_groups[0].num_rows for group in self._groups):
            raise ValueError("X has no rows: there are none in these Parquet files")
        self._of_dataset, self._of_files = dataset.schema, _schemas(fragments)
        columns = {fragment.path: _columns_in(fragment) for fragment in fragments}
        every = dict.fromkeys(name for names in (dataset.schema.names, *columns.values()) for name in names)
        lacking = {name: next((path for path, names in columns.items() if name not in names), None) for name in every}
        self.in_some = {name: path for name, path in lacking.items() if path is not None}
        self._divide([name for name in dataset.schema.names if lacking[name] is None and not _INDEX.fullmatch(name)])

    @classmethod
    def at(cls, path: Path) -> OfParquet:
        """The rows of a file or a folder."""
        if not path.exists():
            raise FileNotFoundError(f"X names {path}, which does not exist: give a Parquet file or a folder of them")
        try:
            from pyarrow import dataset
        except ImportError:
            raise ValueError(f"reading {path} needs pyarrow: pip install rfsize[files]") from None
        try:
            files = dataset.dataset(path, format="parquet")
        except (ValueError, OSError) as error:
            raise ValueError(
                f"X names {path}, which is neither a Parquet file nor a folder of them ({error}); read other files "
                "first, and give their rows"
            ) from error
        return cls(files)

    @classmethod
    def in_memory(cls, file: Any) -> OfParquet:
        """The rows of a file object."""
        from pyarrow import dataset

        parquet = dataset.ParquetFileFormat()
        fragment = parquet.make_fragment(file)
        return cls(dataset.FileSystemDataset([fragment], fragment.physical_schema, parquet))

    def only(self, places: list[int]) -> OfParquet:
        """The rows with only some of their columns. The other columns are not read."""
        part = copy(self)
        Pieces.__init__(part)  # drops kept rows, which have all columns
        part._divide([(self.names or [])[place] for place in places])
        return part

    def frame(self) -> Any:
        """All rows in one pandas DataFrame, whatever they hold."""
        import pyarrow as pa

        rows = pa.concat_tables([group.to_table(schema=self._schema(), columns=self.names) for group in self._groups])
        gaps = {name for name in rows.column_names if rows[name].null_count}
        return booleans_as_numbers(rows.unify_dictionaries(), gaps).to_pandas(ignore_metadata=True)

    def _schema(self) -> Any:
        """The types that hold the values of all files."""
        import pyarrow as pa

        return pa.schema([self._field(name) for name in self.names or ()])

    def _fields(self, name: str) -> list[Any]:
        """A field of each type that a column has in the files."""
        fields = [schema.field(name) for schema in (self._of_dataset, *self._of_files) if name in schema.names]
        return list({str(field.type): field for field in fields}.values())

    def _field(self, name: str) -> Any:
        """The column in the type that holds the values of all files."""
        import pyarrow as pa

        fields = self._fields(name)
        if len(fields) == 1 or all(pa.types.is_dictionary(field.type) for field in fields):
            return fields[0]
        try:
            schemas = [pa.schema([field.with_nullable(True).remove_metadata()]) for field in fields]
            return pa.unify_schemas(schemas, promote_options="permissive").field(name)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise ValueError(
                f"column '{printable(name)}' of X is of the types {sorted(str(field.type) for field in fields)} in "
                "different files: write it with one type, or leave it out"
            ) from None

    def _divide(self, names: list[str]) -> None:
        """Take the rows with these columns, in pieces."""
        self.names, self._step = names, max(1, _CELLS // max(1, len(names)))
        self._places = []
        for group in self._groups:
            n_rows = group.row_groups[0].num_rows
            step = self._step if self._is_stored_so(group) else max(1, n_rows)
            self._places += [(group, start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        self.ends = np.cumsum([stop - start for _, start, stop in self._places])
        self.shape = int(self.ends[-1]), len(names)

    @cached_property
    def _categories(self) -> dict[str, list[Any]]:
        """The categories of each categorical column, in order of appearance. Files can have different categories."""
        import pyarrow as pa

        schema = self._schema()
        names = [name for name in schema.names if pa.types.is_dictionary(schema.field(name).type)]
        found: dict[str, dict[Any, None]] = {name: {} for name in names}
        for group in self._groups if names else ():
            for batch in group.to_batches(schema=schema, columns=names):
                for name in names:
                    found[name].update(dict.fromkeys(batch.column(name).dictionary.to_pylist()))
        return {name: list(known) for name, known in found.items()}

    def _is_stored_so(self, group: Any) -> bool:
        """Whether a file stores all columns in the common type. A folder's name may hold some columns."""
        stored = set(group.physical_schema.names)
        return all(name in stored and len(self._fields(name)) == 1 for name in self.names or ())

    def load(self, piece: int) -> Any:
        """An Arrow table; or a DataFrame if there are categories, because frameworks take these from nothing else."""
        rows = self._stored(piece)
        if not self._categories:
            return rows
        frame = frame_of(rows)
        return frame.assign(**{name: frame[name].cat.set_categories(known) for name, known in self._categories.items()})

    def _stored(self, piece: int) -> Any:
        group, start, stop = self._places[piece]
        if stop - start == group.row_groups[0].num_rows:
            return group.to_table(schema=self._schema(), columns=self.names)
        if self._large is None or self._large.group is not group:
            self._large = _LargeGroup(group, self.names, self._step)
        return self._large.rows_from(start)


def _columns_in(fragment: Any) -> set[str]:
    """Names of the columns that a file holds, or that the names of its folders tell."""
    from pyarrow import dataset

    return {*fragment.physical_schema.names, *dataset.get_partition_keys(fragment.partition_expression)}


def _schemas(fragments: Sequence[Any]) -> list[Any]:
    """The different schemas of files."""
    schemas: list[Any] = []
    for fragment in fragments:
        stored = fragment.physical_schema.remove_metadata()
        if stored not in schemas:
            schemas.append(stored)
    return schemas


class _LargeGroup:
    """A large row group, decoded one part after another, and only as far as it is read."""

    def __init__(self, group: Any, names: list[str] | None, step: int) -> None:
        self.group, self._names, self._step = group, names, step
        self._next = 0
        self._parts: Iterator[Any] = iter(())
        self._begin()

    def rows_from(self, start: int) -> Any:
        """The part that begins at row ``start``."""
        if start < self._next:
            self._begin()
        for part in self._parts:
            begin, self._next = self._next, self._next + part.num_rows
            if begin == start:
                return part
        raise ValueError(
            f"a row group of X has no part that begins at its row {start:,}: the file has changed since it was first "
            "read, or is damaged"
        )

    def _begin(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        # Without a buffer size, pyarrow would read the columns of the whole row group at once.
        file = parquet.ParquetFile(self.group.open(), buffer_size=1 << 20, pre_buffer=False)
        batches = file.iter_batches(self._step, [self.group.row_groups[0].id], self._names)
        self._next, self._parts = 0, (pa.Table.from_batches([batch]).select(self._names) for batch in batches)


class OfIterator(Pieces):
    """The batches of an `xgboost.DataIter`, in order. To go back, it is read again from the beginning.

    A first pass over all batches counts the rows.
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source, self._next = source, 0
        source.reset()
        shapes: list[tuple[int, ...]] = []
        while (rows := self._batch()) is not None:
            if not shapes:
                self.names = column_names(rows)
            shapes.append(np.shape(rows))
        if not shapes:
            raise ValueError(f"X has no rows: {type(source).__name__} gives no batch after its reset()")
        self.ends, self.shape = _laid_out(shapes)
        self._next = len(shapes)

    def load(self, piece: int) -> Any:
        """A batch. If it does not follow the last one, the batches before it are read again."""
        if piece < self._next:
            self._source.reset()
            self._next = 0
        rows = None
        while self._next <= piece:
            rows = self._batch()
            self._next += 1
            if rows is None:
                raise ValueError(f"X gave {len(self.ends)} batches when it was first read, and now {self._next - 1}")
        return rows

    def _batch(self) -> Any:
        """The next batch, None after the last."""
        given: list[Any] = []

        def take(data: Any = None, **_: Any) -> None:
            given.append(data)

        goes_on = self._source.next(take)
        return given[0] if goes_on and given else None


def pieces_of(X: Any) -> Pieces | None:
    """The pieces of ``X`` if it yields rows piece by piece; else None."""
    if isinstance(X, Pieces):
        return X
    if isinstance(X, (str, Path)):
        return OfParquet.at(Path(X))
    if hasattr(X, "shape"):  # in a table, any attribute can be a column
        return None
    if hasattr(X, "get_fragments"):  # a dataset of Arrow
        return OfParquet(X)
    sequences = X if isinstance(X, (list, tuple)) else [X]
    if sequences and all(hasattr(part, "batch_size") and hasattr(part, "__getitem__") for part in sequences):
        return OfSequences(sequences)
    if isinstance(X, (list, tuple)) and X and all(len(getattr(part, "shape", ())) == 2 for part in X):
        return OfBatches(X)
    return OfIterator(X) if hasattr(X, "next") and hasattr(X, "reset") else None
