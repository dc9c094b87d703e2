"""Reads tables of rows from files and from standard input, for the command line."""

from __future__ import annotations

import io
import math
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.columns import known_columns
from rfsize.cli.csv_rows import csv_pieces
from rfsize.utils.rows import column_names
from rfsize.voting.groups import WORDS

STANDARD = Path("-")
"""Stands for standard input as a table to read, and for standard output as a table to write."""

_ENDINGS = {".npy": "npy", ".npz": "npz", ".csv": "csv", ".csv.gz": "csv.gz", ".parquet": "parquet"}
FORMATS = tuple(_ENDINGS.values())

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DEFLATED = 1032  # the most bytes that one compressed byte can unpack to


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
        found = next((kind for ending, kind in _ENDINGS.items() if path.name.lower().endswith(ending)), None)
        if found is None:
            raise ValueError(f"{path} is not a known kind of table; give {', '.join(_ENDINGS)}")
        return cls(path, found)

    def __str__(self) -> str:
        return "standard input" if self.path == STANDARD else str(self.path)

    def held(self) -> Any:
        """The path of the file, or all of standard input in memory."""
        return io.BytesIO(sys.stdin.buffer.read()) if self.path == STANDARD else self.path

    def stream(self) -> Any:
        """The path of the file, or standard input as a stream."""
        return sys.stdin.buffer if self.path == STANDARD else self.path


def load_table(table: Table, target: str | None, *, may_lack: bool = False) -> tuple[Any, Any]:
    """Features and, if ``target`` names a column or array, labels.

    Parameters
    ----------
    table : Table
    target : str or None
    may_lack : bool, default False
        Whether the target may be missing, as in new rows.

    Returns
    -------
    X : ndarray or pandas.DataFrame
        Every column but the target; text columns of a DataFrame are categorical.
    y : ndarray, pandas.Series or None
        The target.

    Raises
    ------
    ValueError
        If the table cannot be read, or the target is not in it.
    """
    readers = {"npy": _from_npy, "npz": _from_npz, "csv": _from_csv, "csv.gz": _from_csv, "parquet": _from_parquet}
    try:
        return readers[table.format](table, target, may_lack)
    except (EOFError, zipfile.BadZipFile, zlib.error, OSError, UnicodeDecodeError, RuntimeError) as error:
        raise ValueError(f"{table} could not be read: {error}") from error


def _target_in(names: Collection[str], table: Table, target: str | None, may_lack: bool, what: str) -> str | None:
    if target is None or target in names:
        return target
    if may_lack:
        return None
    raise ValueError(f"{table} has no {what} '{target}'{meant(target, names)}; it has {list(names)}")


def meant(name: str, names: Collection[Any]) -> str:
    """The words "(did you mean …?)" with the nearest name; empty if no name is near."""
    near = get_close_matches(name.lower(), [str(each).lower() for each in names], 1)
    return f" (did you mean '{next(each for each in names if str(each).lower() == near[0])}'?)" if near else ""


def without(X: Any, names: Sequence[str], table: Table) -> Any:
    """The table without some columns; ``ValueError`` if it has no column of such a name."""
    columns = getattr(X, "columns", ())
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ValueError(
            f"{table} has no columns {unknown} to drop{meant(str(unknown[0]), columns)}; it has {list(columns)}"
        )
    return X.drop(columns=list(names)) if names else X


def taken_out(X: Any, groups: str | None, table: Table) -> tuple[Any, Any]:
    """The table without the column of groups, and the groups; a word such as "copies" is returned as it is.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    columns = getattr(X, "columns", ())
    if groups is None or (groups in WORDS and groups not in columns):
        return X, groups
    if groups not in columns:
        raise ValueError(
            f"{table} has no column '{groups}' of groups{meant(groups, columns)}; it has "
            f"{list(columns)}, and the words are "
            f"{' and '.join(WORDS)}"
        )
    return X.drop(columns=groups), X[groups].to_numpy()


def like_table(X: Any, other: Any) -> Any:
    """The columns of ``X`` that ``other`` has, in the order of ``other``, if both have names."""
    return known_columns(X, column_names(other))


def _from_npy(table: Table, target: str | None, may_lack: bool) -> tuple[Any, Any]:
    if target is not None and not may_lack:
        raise ValueError(
            f"{table} holds one array without column names, so --labels finds no column: give a table with names, "
            "or leave --labels out"
        )
    held = table.held()
    with held.open("rb") if isinstance(held, Path) else nullcontext(held) as file:
        if zipfile.is_zipfile(file):
            raise ValueError(f"{table} holds several arrays; name it .npz")
        return _array(table, file, file.seek(0, io.SEEK_END)), None


def _from_npz(table: Table, target: str | None, may_lack: bool) -> tuple[Any, Any]:
    with zipfile.ZipFile(table.held()) as archive:
        names = sorted(name[: -len(".npy")] for name in archive.namelist() if name.endswith(".npy"))
        target = _target_in(names, table, target, may_lack, "array")
        features = set(names) - {target, "y"}
        if "X" in features:
            features = {"X"}
        if len(features) != 1:
            raise ValueError(f"{table} must hold one array X of features (and labels y), found {names}")
        label = target or ("y" if "y" in names else None)
        return _member(table, archive, features.pop()), None if label is None else _member(table, archive, label)


def _member(table: Table, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """An array of an archive."""
    info = archive.getinfo(f"{name}.npy")
    if info.file_size > _DEFLATED * (info.compress_size + 1):
        raise ValueError(f"{table} could not be read: its array '{name}' claims to unpack to {info.file_size:,} bytes")
    with archive.open(info) as file:
        return _array(table, file, info.file_size)


def _array(table: Table, file: IO[bytes], n_bytes: int) -> NDArray[Any]:
    """The array in a file. No more memory is allocated than the file holds."""
    file.seek(0)
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError("it holds an array of records")
        shape, _, dtype = _HEADERS[version](file)
        claimed, found = math.prod(shape) * dtype.itemsize, n_bytes - file.tell()
        if min(shape, default=0) < 0 or (claimed > found and not dtype.hasobject):
            raise ValueError(f"it claims an array of shape {shape}, {claimed:,} bytes, and holds {found:,}")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{table} could not be read: {error}") from error


def _from_csv(table: Table, target: str | None, may_lack: bool) -> tuple[Any, Any]:
    (rows,) = csv_rows(table, table.held())
    return _columns(rows, table, target, may_lack)


def _from_parquet(table: Table, target: str | None, may_lack: bool) -> tuple[Any, Any]:
    return _columns(imported_pandas(table).read_parquet(table.held()), table, target, may_lack)


def csv_rows(table: Table, source: Any, n_rows: int | None = None) -> Iterator[Any]:
    """The rows of CSV from a path or a stream, ``n_rows`` at a time or all at once."""
    return csv_pieces(imported_pandas(table), source, str(table), n_rows=n_rows, is_zipped=table.format == "csv.gz")


def imported_pandas(table: Table | str) -> Any:
    try:
        import pandas
    except ImportError:
        raise ValueError(f"reading or writing {table} needs pandas: pip install rfsize[files]") from None
    return pandas


def _columns(frame: Any, table: Table, target: str | None, may_lack: bool) -> tuple[Any, Any]:
    target = _target_in(list(frame.columns), table, target, may_lack, "column")
    labels = None if target is None else frame.pop(target)
    texts = frame.select_dtypes(include=["object", "string"]).columns
    return frame.astype(dict.fromkeys(texts, "category")), labels
