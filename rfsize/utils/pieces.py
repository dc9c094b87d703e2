"""Rows that are read piece by piece, because they do not fit into memory together."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rfsize.utils.rows import column_names, form_of, in_memory, joined, only, picked, sliced
from rfsize.utils.typing import Int64s

# Numbers in a piece if the source does not fix its size: 64 MB in double precision.
_CELLS = 1 << 23

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
    """

    shape: tuple[int, int]
    names: list[str] | None = None
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
        """The rows with only some of their columns, by their places."""
        return _SomeColumns(self, places)

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


class _SomeColumns(Pieces):
    """Some columns of pieces with named columns."""

    def __init__(self, source: Pieces, places: list[int]) -> None:
        super().__init__()
        assert source.names is not None
        self._source, self._places = source, places
        self.names, self.ends = [source.names[place] for place in places], source.ends
        self.shape = source.shape[0], len(places)

    def load(self, piece: int) -> Any:
        """These columns of a piece."""
        return only(self._source.load(piece), self._places)


class PiecesElsewhere(Pieces):
    """Pieces that lie elsewhere, such as on the workers of a cluster, and are processed there."""

    @abstractmethod
    def each(self, work: Callable[..., Any], *options: Any) -> Iterator[Any]:
        """The results of ``work(number of the first row, rows, *options)`` for each piece, in order."""


class OfSequences(Pieces):
    """The rows of LightGBM ``Sequence`` objects, one after another."""

    def __init__(self, sequences: Sequence[Any]) -> None:
        super().__init__()
        lengths = [len(one) for one in sequences]
        if not sequences or 0 in lengths:
            raise ValueError(f"X has Sequences of {lengths} rows: give at least one, and none that is empty")
        width = np.asarray(sequences[0][0]).size
        step = max(1, _CELLS // max(1, width))
        self._places = [
            (one, start, min(start + step, length))
            for one, length in zip(sequences, lengths, strict=True)
            for start in range(0, length, step)
        ]
        self.ends = np.cumsum([stop - start for _, start, stop in self._places])
        self.shape = int(self.ends[-1]), width

    def load(self, piece: int) -> Any:
        """A slice of one Sequence."""
        sequence, start, stop = self._places[piece]
        return np.asarray(sequence[start:stop])


class OfParquet(Pieces):
    """The rows of a Parquet file, or of all Parquet files of a folder in the order of their names.

    A piece is a row group, or a part of a large row group.
    """

    _large: _LargeGroup | None = None

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self._groups = [group for fragment in dataset.get_fragments() for group in fragment.split_by_row_group()]
        self._schema = dataset.schema
        if not any(group.row_groups[0].num_rows for group in self._groups):
            raise ValueError("X has no rows: there are none in these Parquet files")
        self._divide(list(dataset.schema.names))

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
            return cls(dataset.dataset(path, format="parquet"))
        except (ValueError, OSError) as error:
            raise ValueError(
                f"X names {path}, which is neither a Parquet file nor a folder of them ({error}); read other files "
                "first, and give their rows"
            ) from error

    def only(self, places: list[int]) -> OfParquet:
        """The rows with only some of their columns. The other columns are not read."""
        found = copy(self)
        Pieces.__init__(found)  # drops kept rows, which have all columns
        found._divide([(self.names or [])[place] for place in places])
        return found

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

        names = [name for name in self.names or () if pa.types.is_dictionary(self._schema.field(name).type)]
        found: dict[str, dict[Any, None]] = {name: {} for name in names}
        for group in self._groups if names else ():
            for batch in group.to_batches(schema=self._schema, columns=names):
                for name in names:
                    found[name].update(dict.fromkeys(batch.column(name).dictionary.to_pylist()))
        return {name: list(known) for name, known in found.items()}

    def _is_stored_so(self, group: Any) -> bool:
        """Whether a file has all columns in the common type. It may lack some, or its folder's name may hold them."""
        stored = group.physical_schema
        return all(
            stored.get_field_index(name) >= 0 and stored.field(name).type == self._schema.field(name).type
            for name in self.names or ()
        )

    def load(self, piece: int) -> Any:
        """An Arrow table; or a DataFrame if there are categories, because frameworks take these from nothing else."""
        rows = self._stored(piece)
        if not self._categories:
            return rows
        frame = _without_gaps_in_booleans(rows).to_pandas(ignore_metadata=True)
        return frame.assign(**{name: frame[name].cat.set_categories(known) for name, known in self._categories.items()})

    def _stored(self, piece: int) -> Any:
        group, start, stop = self._places[piece]
        if stop - start == group.row_groups[0].num_rows:
            return group.to_table(schema=self._schema, columns=self.names)
        if self._large is None or self._large.group is not group:
            self._large = _LargeGroup(group, self.names, self._step)
        return self._large.rows_from(start)


def _without_gaps_in_booleans(rows: Any) -> Any:
    """An Arrow table with booleans as numbers, because pandas would turn booleans with gaps into objects."""
    import pyarrow as pa

    fields = [pa.field(field.name, pa.float64()) if pa.types.is_boolean(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


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
        self.ends = np.cumsum([shape[0] for shape in shapes])
        self.shape = int(self.ends[-1]), int(shapes[0][1])
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
    if sequences and all(hasattr(one, "batch_size") and hasattr(one, "__getitem__") for one in sequences):
        return OfSequences(sequences)
    return OfIterator(X) if hasattr(X, "next") and hasattr(X, "reset") else None
