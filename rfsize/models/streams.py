"""Sources of rows that are read forwards in chunks: Parquet files, Sequences, DataIters and lists of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rfsize.models.columns import frame_of

# Numbers in a chunk if the source does not fix its size: 64 MB in double precision.
_CELLS = 1 << 23


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that are read in chunks, any number of times.

    Attributes
    ----------
    n_rows, n_features : int
    names : list of str or None
    tables : callable
        Begins to read: tables in memory, in order. It takes the names of the columns that are needed, or None for all.
    """

    n_rows: int
    n_features: int
    names: list[str] | None
    tables: Callable[[list[str] | None], Iterator[Any]]


def of_sequences(sequences: Sequence[Any]) -> Stream:
    """The rows of LightGBM's ``Sequence`` objects, one after another."""
    lengths = [len(rows) for rows in sequences]
    if 0 in lengths:
        raise ValueError(f"X has Sequences of {lengths} rows: give none that is empty")
    width = np.asarray(sequences[0][0]).size
    step = max(1, _CELLS // max(1, width))

    def tables(_: Any) -> Iterator[Any]:
        for rows, length in zip(sequences, lengths, strict=True):
            for start in range(0, length, step):
                yield np.asarray(rows[start : min(start + step, length)])

    return Stream(sum(lengths), width, None, tables)


def of_batches(batches: Callable[[], Iterator[Any]]) -> Stream:
    """The rows of tables in memory, or of an iterator of them; a first pass counts the rows."""
    n_rows, width, names = 0, 0, None
    for batch in batches():
        shape = np.shape(batch) if not hasattr(batch, "shape") else batch.shape
        if len(shape) != 2 or not shape[0]:
            raise ValueError(f"X holds a batch of shape {tuple(shape)}: give batches of rows and features, none empty")
        if not n_rows:
            frame = frame_of(batch)
            width, names = int(shape[1]), None if frame is None else [str(name) for name in frame.columns]
        n_rows += int(shape[0])
    if not n_rows:
        raise ValueError("X has no rows: it gives no batch")
    return Stream(n_rows, width, names, lambda _: batches())


def batches_of(source: Any) -> Iterator[Any]:
    """The batches of an `xgboost.DataIter`."""
    source.reset()
    given: list[Any] = []

    def take(data: Any = None, **_: Any) -> None:
        given.append(data)

    while source.next(take) and given:
        yield given.pop()
        given.clear()


def dataset_at(path: Path) -> Any:
    """The Parquet files of a path as a dataset of Arrow."""
    if not path.exists():
        raise FileNotFoundError(f"X names {path}, which does not exist: give a Parquet file or a folder of them")
    try:
        from pyarrow import dataset
    except ImportError:
        raise ValueError(f"reading {path} needs pyarrow: pip install rfsize[files]") from None
    try:
        return dataset.dataset(path, format="parquet")
    except (ValueError, OSError) as error:
        raise ValueError(f"X names {path}, which is no Parquet file or folder ({error}): give such a path") from error


def of_files(files: Any) -> Stream:
    """The rows of a dataset of Parquet files; without the index that pandas stores without a name."""
    import pyarrow as pa
    from pyarrow import dataset

    n_rows, fragments = files.count_rows(), list(files.get_fragments())
    if not n_rows:
        raise ValueError("X has no rows: there are none in these files")
    schemas = [fragment.physical_schema.remove_metadata() for fragment in fragments]
    keys = {key for part in fragments for key in dataset.get_partition_keys(part.partition_expression)}
    columns = [{*schema.names, *keys} for schema in schemas]
    if differing := sorted({*files.schema.names}.union(*columns).difference(set.intersection(*columns))):
        raise ValueError(f"only some files of X have the columns {differing}: write all files with the same columns")
    try:
        nullable = [pa.schema([entry.with_nullable(True) for entry in schema]) for schema in (files.schema, *schemas)]
        schema = pa.unify_schemas([entry.remove_metadata() for entry in nullable], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"files of X store a column in different types ({error}): write it with one type") from error
    files, names = files.replace_schema(schema), [n for n in schema.names if not n.startswith("__index_level_")]
    # Without a buffered stream, pyarrow would hold the columns of a whole row group.
    options = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)

    def tables(needed: list[str] | None) -> Iterator[Any]:
        read = names if needed is None else needed
        size = max(1, _CELLS // max(1, len(read)))
        batches = files.to_batches(
            columns=read, batch_size=size, batch_readahead=1, fragment_readahead=1, fragment_scan_options=options
        )
        return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)

    return Stream(n_rows, len(names), names, tables)
