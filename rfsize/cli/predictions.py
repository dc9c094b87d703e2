"""Reads rows and writes predictions piece by piece, for the command line."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO

from rfsize.adapters.columns import known_columns
from rfsize.cli.tables import STANDARD, Table, csv_rows, imported_pandas, load_table
from rfsize.utils import matrix
from rfsize.utils.files import written_whole
from rfsize.utils.progress import rows_bar
from rfsize.walking.layout import Forest

_ROWS_PER_PIECE = 100_000


def pieces(table: Table) -> Iterator[Any]:
    """The rows of a table, piece by piece, with a progress bar if it takes long. No column becomes categorical.

    Raises
    ------
    ValueError
        If the table cannot be read.
    """
    if table.format in {"csv", "csv.gz"}:
        found = csv_rows(table, table.stream(), _ROWS_PER_PIECE)
    elif table.format == "parquet":
        found = _parquet_pieces(table)
    else:
        X = matrix.as_rows(load_table(table, None)[0])
        found = (X[start : start + _ROWS_PER_PIECE] for start in range(0, len(X), _ROWS_PER_PIECE))
    with rows_bar("predicting", None) as bar:
        while True:
            try:
                piece = next(found, None)
            except (EOFError, zlib.error, OSError, UnicodeDecodeError) as error:
                raise ValueError(f"{table} could not be read: {error}") from error
            if piece is None:
                return
            yield piece
            bar.update(len(piece))


def _parquet_pieces(table: Table) -> Iterator[Any]:
    imported_pandas(table)
    import pyarrow.dataset
    import pyarrow.parquet

    held = table.held()
    if isinstance(held, Path) and held.is_dir():
        for batch in pyarrow.dataset.dataset(held, format="parquet").to_batches(batch_size=_ROWS_PER_PIECE):
            if batch.num_rows:
                yield batch.to_pandas()
        return
    with pyarrow.parquet.ParquetFile(held) as file:
        for batch in file.iter_batches(_ROWS_PER_PIECE):
            yield batch.to_pandas()


def features_of_forest(forest: Forest, piece: Any) -> Any:
    """The columns of a piece that ``forest`` was trained on, found by name if both have names.

    Columns that were categorical at training become categorical again, whatever type the reader gave them.
    """
    if not hasattr(piece, "columns"):
        return piece
    conventions = forest.conventions
    if forest.feature_names is not None:
        underscores = conventions.spaces_become_underscores
        piece = known_columns(piece, forest.feature_names, spaces_become_underscores=underscores)
    elif not conventions.categories:
        return piece.to_numpy()
    categorical = {piece.columns[feature]: "category" for feature in conventions.category_features or ()}
    return piece.astype(categorical)


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
