"""Reads tables of rows from files and from standard input, for the command line."""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from rfsize.cli.csv_rows import csv_pieces
from rfsize.counting.groups import WORDS
from rfsize.models.columns import Columns, places_of
from rfsize.models.rows import Stream, dataset_at, of_files

STANDARD = Path("-")
"""Stands for standard input as a table to read, and for standard output as a table to write."""

_ENDINGS = {".csv": "csv", ".csv.gz": "csv.gz", ".parquet": "parquet"}
FORMATS = tuple(_ENDINGS.values())

_DAMAGE = (EOFError, zlib.error, OSError, UnicodeDecodeError)


class Table(NamedTuple):
    """A table of rows: a file, a folder of Parquet files, or standard input, which can be read once.

    Attributes
    ----------
    path : Path
        The file or folder, or `STANDARD`.
    format : str
        One of `FORMATS`.
    """

    path: Path
    format: str

    @classmethod
    def of(cls, path: Path, format_: str | None) -> Table:
        """The table at ``path``, with the format by its name. For standard input the default is CSV.

        A folder holds Parquet files, which are read in the order of their names.

        Raises
        ------
        ValueError
            If the name shows no known format.
        """
        if path == STANDARD:
            return cls(path, format_ or "csv")
        if path.is_dir():
            return cls(path, "parquet")
        kind = next((kind for ending, kind in _ENDINGS.items() if path.name.lower().endswith(ending)), None)
        if kind is None:
            raise ValueError(f"{path} is not a known kind of table; give {', '.join(_ENDINGS)}")
        return cls(path, kind)

    def __str__(self) -> str:
        return "standard input" if self.path == STANDARD else str(self.path)

    def csv(self, n_rows: int | None = None) -> Iterator[Any]:
        """The rows of CSV, ``n_rows`` at a time or all at once."""
        source = sys.stdin.buffer if self.path == STANDARD else self.path
        pandas, is_zipped = imported_pandas(self), self.format == "csv.gz"
        return csv_pieces(pandas, source, str(self), n_rows=n_rows, is_zipped=is_zipped)

    def parquet(self) -> Stream:
        """The rows of Parquet as Arrow tables; from standard input all of them are held in memory."""
        imported_pandas(self)
        if self.path != STANDARD:
            return of_files(dataset_at(self.path))
        from pyarrow import dataset

        kind = dataset.ParquetFileFormat()
        file = kind.make_fragment(io.BytesIO(sys.stdin.buffer.read()))
        return of_files(dataset.FileSystemDataset([file], file.physical_schema, kind))

    def parquet_frame(self) -> Any:
        """All rows of Parquet in one pandas DataFrame, whatever they hold."""
        import pyarrow as pa

        return frame_of(pa.concat_tables(self.parquet().tables(None)).unify_dictionaries())


def load_table(table: Table, target: str | None, *, may_lack: bool = False) -> tuple[Any, Any]:
    """Features and, if ``target`` names a column, labels.

    Parameters
    ----------
    table : Table
    target : str or None
    may_lack : bool, default False
        Whether the target may be missing, as in new rows.

    Returns
    -------
    X : pandas.DataFrame
        Every column but the target.
    y : pandas.Series or None
        The target.

    Raises
    ------
    ValueError
        If the table cannot be read, or the target is not in it.
    """
    frame = readable(table, lambda: next(table.csv()) if table.format != "parquet" else table.parquet_frame())
    if target is not None and target not in frame.columns:
        if not may_lack:
            raise ValueError(f"{table} has no column '{target}'{meant(target, frame)}; it has {list(frame.columns)}")
        target = None
    return frame, None if target is None else frame.pop(target)


def readable(table: Table, read: Callable[[], Any]) -> Any:
    """What ``read`` returns; ``ValueError`` if the table is damaged."""
    try:
        return read()
    except _DAMAGE as error:
        raise ValueError(f"{table} could not be read: {error}") from error


def meant(name: str, names: Collection[Any]) -> str:
    """The words "(did you mean …?)" with the nearest name; empty if no name is near."""
    near = get_close_matches(name.lower(), [str(known).lower() for known in names], 1)
    return f" (did you mean '{next(known for known in names if str(known).lower() == near[0])}'?)" if near else ""


def without(X: Any, names: Sequence[str], table: Table) -> Any:
    """The table without some columns; ``ValueError`` if it has no column of such a name."""
    unknown = [name for name in names if name not in X.columns]
    if unknown:
        raise ValueError(
            f"{table} has no columns {unknown} to drop{meant(str(unknown[0]), X.columns)}; it has {list(X.columns)}"
        )
    return X.drop(columns=list(names)) if names else X


def taken_out(X: Any, groups: str | None, table: Table) -> tuple[Any, Any]:
    """The table without the column of groups, and the groups; a word such as "copies" is returned as it is.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    if groups is None or (groups in WORDS and groups not in X.columns):
        return X, groups
    if groups not in X.columns:
        raise ValueError(
            f"{table} has no column '{groups}' of groups{meant(groups, X.columns)}; it has {list(X.columns)}, and the "
            f"words are {' and '.join(WORDS)}"
        )
    return X.drop(columns=groups), X[groups].to_numpy()


def with_categories(X: Any) -> Any:
    """The table to train on: columns of text are categorical."""
    texts = X.select_dtypes(include=["object", "string"]).columns
    return X.astype(dict.fromkeys(texts, "category"))


def by_name(X: Any, columns: Columns) -> Any:
    """The columns of a DataFrame that have the names of training, in their order."""
    places = places_of([str(name) for name in X.columns], X.shape[1], columns)
    return X if places is None else X.iloc[:, places]


def frame_of(table: Any) -> Any:
    """An Arrow table as a pandas DataFrame; booleans with gaps, which would become objects, become numbers."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_boolean(field.type) and table.column(place).null_count:
            table = table.set_column(place, field.name, table.column(place).cast(pa.float64()))
    return table.to_pandas(ignore_metadata=True)


def as_trained(X: Any, columns: Columns) -> Any:
    """The columns that a forest was trained on, found by name if both have names.

    Columns that were categorical at training become categorical again, whatever type the reader gave them.
    """
    X = by_name(X, columns)
    if columns.conventions is None:
        return X
    features = columns.conventions.category_features
    if features is None:
        return with_categories(X)
    return X.astype({X.columns[feature]: "category" for feature in features})


def imported_pandas(table: Table | str) -> Any:
    try:
        import pandas
    except ImportError:
        raise ValueError(f"reading or writing {table} needs pandas: pip install rfsize[files]") from None
    return pandas
