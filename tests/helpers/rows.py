"""Rows in every form that rfsize takes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import xgboost as xgb
from scipy import sparse


class Slices(lgb.Sequence):
    """A Sequence that counts the rows read of it."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.n_read, self.batch_size = rows, 0, 37

    def __getitem__(self, index: Any) -> np.ndarray:
        rows = self.rows[index]
        self.n_read += len(rows) if rows.ndim == 2 else 0
        return rows

    def __len__(self) -> int:
        return len(self.rows)


class Batches(xgb.DataIter):
    """A DataIter over tables of any kind, and what else a `DMatrix` takes of each; it counts how often it is begun."""

    def __init__(self, batches: list[Any], cache: Any = None, **others: list[Any]) -> None:
        self.batches, self.others, self.place, self.n_begun = batches, others, 0, 0
        super().__init__(cache_prefix=cache)

    def next(self, input_data: Callable[..., Any]) -> bool:
        if self.place == len(self.batches):
            return False
        input_data(data=self.batches[self.place], **{name: parts[self.place] for name, parts in self.others.items()})
        self.place += 1
        return True

    def reset(self) -> None:
        self.place, self.n_begun = 0, self.n_begun + 1


def parquet(table: pd.DataFrame, folder: Path) -> Path:
    """A folder of three files, in row groups of 23 rows."""
    folder = folder / "parts"
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(split(table)):
        part.to_parquet(folder / f"{number}.parquet", index=False, row_group_size=23)
    return folder


def one_parquet(table: pd.DataFrame, folder: Path) -> Path:
    table.to_parquet(folder / "rows.parquet", index=False, row_group_size=23)
    return folder / "rows.parquet"


def memory_map(rows: np.ndarray, folder: Path) -> Any:
    np.save(folder / "rows.npy", rows)
    return np.load(folder / "rows.npy", mmap_mode="r")


def unaligned(rows: np.ndarray) -> np.ndarray:
    numbers = np.frombuffer(b"\0" + rows.tobytes(), np.uint8)[1:].view(np.float64)
    return numbers.reshape(rows.shape)


def twice(rows: np.ndarray) -> Any:
    """A sparse matrix that stores each number as two halves."""
    entries = sparse.csr_matrix(rows)
    return sparse.csr_matrix((np.repeat(entries.data / 2, 2), np.repeat(entries.indices, 2), entries.indptr * 2))


def stored(rows: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A sparse matrix that stores its numbers otherwise."""
    entries = sparse.csr_matrix(rows)
    entries.data = change(entries.data)
    return entries


def split(rows: Any) -> list[Any]:
    cuts = [0, 1, len(rows) // 2, len(rows)]
    return [rows[start:stop] for start, stop in pairwise(cuts)]


# Of an array of double precision without names.
ARRAYS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "by columns": lambda X, _: np.asfortranarray(X),
    "every other": lambda X, _: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda X, _: X[::-1].copy()[::-1],
    "unaligned": lambda X, _: unaligned(X),
    "list": lambda X, _: X.tolist(),
    "tuples": lambda X, _: tuple(map(tuple, X)),
    "objects": lambda X, _: X.astype(object),
    "big-endian": lambda X, _: X.astype(">f8"),
    "long double": lambda X, _: X.astype(np.longdouble),
    "unmasked": lambda X, _: np.ma.masked_array(X, mask=False),
    "memory map": memory_map,
    "sparse rows": lambda X, _: sparse.csr_matrix(X),
    "sparse columns": lambda X, _: sparse.csc_array(X),
    "sparse coordinates": lambda X, _: sparse.coo_array(X),
    "sparse halves": lambda X, _: twice(X),
    "sparse big-endian": lambda X, _: stored(X, lambda data: data.astype(">f8")),
    "sparse unaligned": lambda X, _: stored(X, unaligned),
    "batches": lambda X, _: split(X),
    "Sequence": lambda X, _: Slices(X),
    "Sequences": lambda X, _: [Slices(part) for part in split(X)],
    "DataIter": lambda X, _: Batches(split(X)),
    "DataIter of sparse": lambda X, _: Batches([sparse.csr_matrix(part) for part in split(X)]),
    "nameless Parquet": lambda X, folder: parquet(pd.DataFrame(X).rename(columns=str), folder),
}
# Of a frame with the names of training.
FRAMES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda table, _: table,
    "other index": lambda table, _: table.set_index(np.arange(len(table))[::-1] * 3),
    "Arrow": lambda table, _: pa.Table.from_pandas(table, preserve_index=False),
    "Polars": lambda table, _: polars.from_pandas(table),
    "Parquet file": one_parquet,
    "Parquet folder": parquet,
    "its name": lambda table, folder: str(parquet(table, folder)),
    "dataset": lambda table, folder: pyarrow.dataset.dataset(parquet(table, folder)),
    "frames": lambda table, _: split(table),
    "Arrow tables": lambda table, _: [pa.Table.from_pandas(part, preserve_index=False) for part in split(table)],
    "Polars frames": lambda table, _: [polars.from_pandas(part) for part in split(table)],
    "DataIter of frames": lambda table, _: Batches(split(table)),
}
