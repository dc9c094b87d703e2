"""Reads rows and writes predictions piece by piece, for the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO

from rfsize._files import written_whole
from rfsize._util import rows_bar
from rfsize.cli.tables import STANDARD, Table, as_trained, frame_of, imported_pandas, readable
from rfsize.models.columns import Columns, places_of

_ROWS_PER_PIECE = 100_000


def pieces(table: Table, columns: Columns) -> Iterator[Any]:
    """The rows of a table with the columns of training, piece by piece, with a progress bar if it takes long.

    Raises
    ------
    ValueError
        If the table cannot be read, or has other columns than at training.
    """
    with rows_bar("predicting", None) as bar:
        rows = _csv_pieces(table, columns) if table.format != "parquet" else _parquet_pieces(table, columns)
        while (piece := readable(table, lambda: next(rows, None))) is not None:
            yield piece
            bar.update(len(piece))


def _csv_pieces(table: Table, columns: Columns) -> Iterator[Any]:
    return (as_trained(piece, columns) for piece in table.csv(_ROWS_PER_PIECE))


def _parquet_pieces(table: Table, columns: Columns) -> Iterator[Any]:
    rows = table.parquet()
    places, names = places_of(rows.names, rows.n_features, columns, rows.lacking), rows.names or []
    pieces_of_file = rows.tables(None if places is None else [names[place] for place in places])
    return (as_trained(frame_of(piece), columns) for piece in pieces_of_file)


PREDICTION_FORMATS = ("csv", "parquet")


def prediction_format(path: Path, format_: str | None) -> str:
    """The format of a file of predictions, by its name. For standard output the user names it, and CSV is the default.

    Raises
    ------
    ValueError
        If the name ends in neither .csv nor .parquet.
    """
    if path == STANDARD:
        return format_ or "csv"
    if path.suffix not in {".csv", ".parquet"}:
        raise ValueError(f"predictions are written to a .csv or .parquet file, found {path}")
    return path.suffix[1:]


@contextmanager
def prediction_writer(path: Path, format_: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes columns, piece after piece, to standard output or to a file that appears only if all went well."""
    with ExitStack() as stack:
        if path == STANDARD:
            file: BinaryIO = sys.stdout.buffer
            stack.callback(file.flush)
        else:
            file = stack.enter_context(stack.enter_context(written_whole(path)).open("wb"))
        yield _csv_writer(file) if format_ == "csv" else _parquet_writer(file, stack)


def _csv_writer(file: BinaryIO) -> Callable[[dict[str, Any]], None]:
    pandas, headers = imported_pandas("predictions"), chain([True], repeat(False))

    def write(columns: dict[str, Any]) -> None:
        file.write(pandas.DataFrame(columns).to_csv(index=False, header=next(headers)).encode("utf-8"))

    return write


def _parquet_writer(file: BinaryIO, stack: ExitStack) -> Callable[[dict[str, Any]], None]:
    import pyarrow
    import pyarrow.parquet

    writer: Any = None

    def write(columns: dict[str, Any]) -> None:
        nonlocal writer
        piece = pyarrow.table(columns)
        if writer is None:
            writer = stack.enter_context(pyarrow.parquet.ParquetWriter(file, piece.schema))
        writer.write_table(piece)

    return write
