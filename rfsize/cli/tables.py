"""Tables of the command line: rows from CSV and Parquet, read by Arrow piece by piece, and predictions."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any

from rfsize._files import written_whole
from rfsize._util import did_you_mean, rows_bar
from rfsize.counting.groups import WORDS
from rfsize.models.columns import Columns, places_of
from rfsize.models.streams import Stream, dataset_at, of_files

STDIO = Path("-")
"""Stands for standard input as a table to read, and for standard output as a table to write."""

_ENDINGS = (".csv", ".csv.gz", ".parquet")
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"  # the first bytes of such files
_BLOCK = 1 << 22  # bytes of CSV in a piece
_NULLS = ["None", "<NA>"]  # that pandas writes or reads, besides those of Arrow


class Table:
    """A table of rows: a file, a folder of Parquet files, or standard input, which is copied to a temporary file.

    Parameters
    ----------
    path : Path
        The file or folder, or `STDIO`.

    Raises
    ------
    ValueError
        If the name shows no known format, or pandas or pyarrow is missing.
    """

    def __init__(self, path: Path) -> None:
        import_pandas(str(path))
        self._path, self._stdin, self._is_parquet = path, None, path.is_dir() or path.name.lower().endswith(".parquet")
        if path == STDIO:
            self._stdin = tempfile.TemporaryFile()  # noqa: SIM115 - kept until the table is read
            shutil.copyfileobj(sys.stdin.buffer, self._stdin)
            self._stdin.seek(0)
            self._is_parquet = self._stdin.read(len(_PARQUET)) == _PARQUET
        elif not path.is_dir() and not path.name.lower().endswith(_ENDINGS):
            raise ValueError(f"{path} is not a known kind of table; give {', '.join(_ENDINGS)}")

    def __str__(self) -> str:
        return "standard input" if self._path == STDIO else str(self._path)

    def read(self, numbers_stay: Collection[str] = ()) -> Any:
        """All rows as a pandas DataFrame; whole numbers stay what they are in these columns.

        Raises
        ------
        ValueError
            If the table cannot be read.
        """
        import pyarrow as pa

        with self._readable():
            pieces = self._parquet().tables(None) if self._is_parquet else self._csv(numbers_stay)
            return _frame(pa.concat_tables(list(pieces)).unify_dictionaries())

    def pieces(self, columns: Columns) -> Iterator[Any]:
        """The rows as pandas DataFrames with the columns of training, piece by piece.

        Raises
        ------
        ValueError
            If the table cannot be read, or has other columns than at training.
        """
        with self._readable(), rows_bar("predicting", None) as bar:
            if self._is_parquet:
                rows = self._parquet()
                places, names = places_of(rows.names, rows.n_features, columns, rows.lacking), rows.names or []
                tables = rows.tables(None if places is None else [names[place] for place in places])
            else:
                tables = self._csv(categories_of(columns))
            for table in tables:
                yield as_trained(_frame(table), columns)
                bar.update(table.num_rows)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        from pyarrow import ArrowException

        try:
            yield
        except (EOFError, zlib.error, OSError, ArrowException) as error:
            raise ValueError(f"{self} could not be read: {' '.join(str(error).split())}") from error

    def _parquet(self) -> Stream:
        if self._stdin is None:
            return of_files(dataset_at(self._path))
        from pyarrow import dataset

        kind = dataset.ParquetFileFormat()
        file = kind.make_fragment(self._stdin)
        return of_files(dataset.FileSystemDataset([file], file.physical_schema, kind))

    def _csv(self, numbers_stay: Collection[str]) -> Iterator[Any]:
        """Arrow tables of some megabytes each. The first of them decides the type of each column."""
        import pyarrow as pa
        from pyarrow import csv

        options: dict[str, Any] = {"parse_options": csv.ParseOptions(newlines_in_values=True)}
        options["read_options"] = csv.ReadOptions(block_size=_BLOCK)
        nulls = {"strings_can_be_null": True, "null_values": [*csv.ConvertOptions().null_values, *_NULLS]}
        with ExitStack() as stack:
            file: IO[bytes] = self._stdin or stack.enter_context(self._path.open("rb"))
            file.seek(0)
            is_zipped = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            text = gzip.GzipFile(fileobj=file) if is_zipped else file
            head = pa.BufferReader(text.read(2 * _BLOCK))
            schema = csv.open_csv(head, convert_options=csv.ConvertOptions(**nulls), **options).schema
            twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
            if twice:
                raise ValueError(f"the header of {self} names the columns {twice} twice: give each its own name")
            text.seek(0)
            types = {field.name: _type_to_read(field, numbers_stay) for field in schema}
            converting = csv.ConvertOptions(column_types=types, **nulls)
            reader = csv.open_csv(text, convert_options=converting, **options)
            batches = (pa.Table.from_batches([batch]) for batch in reader if batch.num_rows)
            yield next(batches, reader.schema.empty_table())
            yield from batches


def _type_to_read(field: Any, numbers_stay: Collection[str]) -> Any:
    """The type of a column in all pieces: whole numbers may have a fraction further down, and dates are text."""
    from pyarrow import float64, string, types

    if types.is_temporal(field.type):
        return string()
    is_number = types.is_integer(field.type) or types.is_null(field.type)
    return float64() if is_number and field.name not in numbers_stay else field.type


def check_columns(frame: Any, names: Sequence[str], table: Table, purpose: str = "") -> None:
    """``ValueError`` if the table lacks one of the columns; ``purpose`` says what they are for."""
    for name in names:
        if name not in frame.columns:
            near = did_you_mean(name, list(map(str, frame.columns)))
            raise ValueError(f"{table} has no column '{name}'{purpose}{near}; it has {list(frame.columns)}")


def pop_groups(X: Any, groups: str | None, table: Table) -> Any:
    """Take the column of groups out of the table, and return the groups; a word such as "copies" stays a word."""
    if groups is None or (groups in WORDS and groups not in X.columns):
        return groups
    check_columns(X, [groups], table, f" of groups, and the words are {' and '.join(WORDS)}")
    return X.pop(groups).to_numpy()


def with_categories(X: Any) -> Any:
    """The table to train on: columns of text are categorical."""
    texts = X.select_dtypes(include=["object", "string"]).columns
    return X.astype(dict.fromkeys(texts, "category"))


def align_columns(X: Any, columns: Columns) -> Any:
    """The columns of a DataFrame that have the names of training, in their order."""
    places = places_of([str(name) for name in X.columns], X.shape[1], columns)
    return X if places is None else X.iloc[:, places]


def categories_of(columns: Columns) -> list[str]:
    """Names of the features that were categorical at training."""
    features = None if columns.conventions is None else columns.conventions.category_features
    return [] if features is None or columns.names is None else [columns.names[feature] for feature in features]


def as_trained(X: Any, columns: Columns) -> Any:
    """The columns that a forest was trained on, found by name if both have names.

    Columns that were categorical at training become categorical again, whatever type the reader gave them.
    """
    X = align_columns(X, columns)
    if columns.conventions is None:
        return X
    if columns.conventions.category_features is None:
        return with_categories(X)
    return X.astype({X.columns[feature]: "category" for feature in columns.conventions.category_features})


def _frame(table: Any) -> Any:
    """An Arrow table as a pandas DataFrame; booleans with gaps, which would become objects, become numbers."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_boolean(field.type) and table.column(place).null_count:
            table = table.set_column(place, field.name, table.column(place).cast(pa.float64()))
    return table.to_pandas(ignore_metadata=True)


def import_pandas(name: str) -> Any:
    """pandas, once it is known that pyarrow is there too; ``ValueError`` names the table that needs them."""
    try:
        import pandas
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ValueError(f"reading or writing {name} needs {error.name}: pip install rfsize[files]") from None
    return pandas


@contextmanager
def prediction_writer(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes columns, piece after piece: CSV to standard output, or a file that appears only if all went well.

    Raises
    ------
    ValueError
        If the name of the file ends in neither .csv nor .parquet.
    """
    if path != STDIO and path.suffix not in {".csv", ".parquet"}:
        raise ValueError(f"predictions are written to a .csv or .parquet file, found {path}")
    pandas, headers, parquet = import_pandas("predictions"), chain([True], repeat(False)), None
    with ExitStack() as stack:
        file: Any = sys.stdout.buffer
        stack.callback(sys.stdout.buffer.flush)
        if path != STDIO:
            file = stack.enter_context(stack.enter_context(written_whole(path)).open("wb"))

        def write(columns: dict[str, Any]) -> None:
            nonlocal parquet
            if path.suffix != ".parquet":
                file.write(pandas.DataFrame(columns).to_csv(index=False, header=next(headers)).encode("utf-8"))
                return
            import pyarrow.parquet

            piece = pyarrow.table(columns)
            if parquet is None:
                parquet = stack.enter_context(pyarrow.parquet.ParquetWriter(file, piece.schema))
            parquet.write_table(piece)

        yield write
