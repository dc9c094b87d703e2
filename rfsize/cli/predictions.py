"""Rows and predictions in files, piece by piece, for the command line."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from rfsize.cli.tables import imported_pandas, load_table
from rfsize.inference.layout import Forest
from rfsize.utils import matrix
from rfsize.utils.matrix import SECONDS_BEFORE_PROGRESS

_ROWS_PER_PIECE = 100_000


def pieces(path: Path) -> Iterator[Any]:
    """The rows of a table, some at a time, with a progress bar when it takes long; nothing is made categorical.

    Raises
    ------
    ValueError
        If the file cannot be read, or its kind is not known.
    """
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        found = _csv_pieces(path)
    elif name.endswith(".parquet"):
        found = _parquet_pieces(path)
    else:
        X, _ = load_table(path, None)
        found = (X[start : start + _ROWS_PER_PIECE] for start in range(0, len(X), _ROWS_PER_PIECE))
    with tqdm(desc="predicting", unit=" rows", unit_scale=True, delay=SECONDS_BEFORE_PROGRESS, leave=False) as bar:
        while True:
            try:
                piece = next(found, None)
            except (EOFError, zlib.error, OSError, UnicodeDecodeError) as error:
                raise ValueError(f"{path} could not be read: {error}") from error
            if piece is None:
                return
            yield piece
            bar.update(len(piece))


def _csv_pieces(path: Path) -> Iterator[Any]:
    with imported_pandas(path).read_csv(path, chunksize=_ROWS_PER_PIECE) as reader:
        yield from reader


def _parquet_pieces(path: Path) -> Iterator[Any]:
    imported_pandas(path)
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_PER_PIECE):
            yield batch.to_pandas()


def features_of_forest(forest: Forest, piece: Any) -> Any:
    """The columns of a piece that ``forest`` was trained on, found by name where both have names.

    Columns that were categorical at training become so again, whatever a reader took their values for.
    """
    if not hasattr(piece, "columns"):
        return piece
    conventions = forest.conventions
    if forest.feature_names is not None:
        underscores = conventions.spaces_become_underscores
        piece = matrix.select(piece, forest.feature_names, spaces_become_underscores=underscores)
    elif not conventions.categories:
        return piece.to_numpy()
    categorical = {piece.columns[feature]: "category" for feature in conventions.category_features or ()}
    return piece.astype(categorical)


@contextmanager
def prediction_writer(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes columns to a CSV or Parquet file, piece after piece.

    Raises
    ------
    ValueError
        If the name of the file ends otherwise.
    """
    pandas = imported_pandas(path)
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        writer: Any = None

        def write(columns: dict[str, Any]) -> None:
            nonlocal writer
            piece = pyarrow.table(columns)
            writer = writer or pyarrow.parquet.ParquetWriter(path, piece.schema)
            writer.write_table(piece)

        try:
            yield write
        finally:
            if writer is not None:
                writer.close()
        return
    if path.suffix != ".csv":
        raise ValueError(f"predictions are written to a .csv or .parquet file, found {path}")
    with path.open("w", encoding="utf-8", newline="") as file:
        yield lambda columns: pandas.DataFrame(columns).to_csv(file, index=False, header=file.tell() == 0)
