"""The rows of a Dask collection, in blocks on the workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from rfsize._util import how_many, rows_bar
from rfsize.dask.clients import client_in_use, here
from rfsize.models.bags import Layout
from rfsize.models.columns import Columns, places_of
from rfsize.models.framework import framework_of
from rfsize.models.model import Forest
from rfsize.models.rows import Chunk, DistributedRows, Rows, in_memory, joined, open_rows


def checked_collection(X: Any) -> Any:
    """A Dask array of two dimensions whose chunks hold whole rows, or a Dask DataFrame.

    Raises
    ------
    ValueError
        If ``X`` is neither.
    """
    import dask.array as da
    from dask.base import is_dask_collection

    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features, found a Dask array of {X.ndim}")
        return X.rechunk({1: -1})
    if is_dask_collection(X) and hasattr(X, "map_partitions") and hasattr(X, "columns"):
        return X
    raise ValueError(
        f"X is a {type(X).__module__}.{type(X).__qualname__}; rfsize.dask takes Dask arrays and DataFrames, and rfsize "
        "itself takes rows in memory, or in pieces"
    )


class BlocksOnWorkers(DistributedRows):
    """The blocks of rows of a Dask collection: to work on where they lie, or to bring to this process.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix
        The rows.
    client : distributed.Client or None
        The client of the workers; by default the client that is in use.
    columns : Columns
        The columns of training, to which each block is brought on its worker.

    Raises
    ------
    ValueError
        If ``X`` is no such collection or has no rows, or if there is no client.
    """

    def __init__(self, X: Any, client: Any, columns: Columns) -> None:
        self.client = client_in_use(client)
        self._collection_kind = type(X).__name__
        framework = framework_of(X)
        training = None if framework is None else framework.training
        self._collection = None if training is None else training.held_on_workers(X)
        if self._collection is None:
            X = with_columns(checked_collection(X), columns)
            parts, self.lengths = parts_of(X), _lengths(X, self.client)
        else:
            parts = self._collection.parts
            self.lengths = _lengths_of(parts, self.client)
        self.n_rows, self.n_features = int(self.lengths.sum()), columns.n_features
        if not self.n_rows:
            raise ValueError("X has no rows: give at least one")
        self.columns = columns
        # A filter may have emptied some partitions.
        self._parts = [part for part, length in zip(parts, self.lengths, strict=True) if length]
        self.ends = np.cumsum(self.lengths[self.lengths > 0])

    def layout(self, machines: Sequence[Sequence[int]] | None) -> Layout:
        """Which machine held which rows: as a framework's collection stores it, or by the partitions of each machine.

        By default one machine held all rows.

        Raises
        ------
        ValueError
            If ``machines`` is given although the collection stores it, or does not name each partition once.
        """
        if self._collection is not None:
            if machines is not None:
                raise ValueError(
                    f"X is a {self._collection_kind}, which stores the rows of each worker: leave layout out"
                )
            machines = self._collection.machines
        if machines is None:
            return Layout.alone(self.n_rows)
        return Layout.of_parts(self.lengths, machines)

    def here(self, values: Any) -> Any:
        return here(values, self.client)

    def tell_missing(self, forest: Forest, missing: float | None) -> None:
        """Tell a forest which value means missing in a framework's collection, besides NaN.

        Raises
        ------
        ValueError
            If ``missing`` is given although the collection stores it.
        """
        if self._collection is None:
            return
        if missing is not None:
            raise ValueError(
                f"X is a {self._collection_kind}, which was made with its own missing value: leave missing out"
            )
        if not math.isnan(self._collection.missing):
            forest.read_as_missing(self._collection.missing)

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        """Number of the first row of each block, and of the first row after the block."""
        return list(pairwise([0, *map(int, self.ends)]))

    def each_with(
        self, work: Callable[..., Any], sent: Any, of_rows: Callable[[range], Any], *, what: str
    ) -> Iterator[Any]:
        """Yield the result of ``work(block, sent, of_rows(numbers of its rows))`` for each block, in order.

        ``sent`` is sent to each worker once, the result of ``of_rows`` with the task of its block. If it takes long, a
        progress bar names ``what``.
        """
        sent = self.client.scatter(sent, broadcast=True, hash=False)
        rows = [range(*bounds) for bounds in self._bounds]
        own = [(len(numbers), work, sent, of_rows(numbers)) for numbers in rows]
        with rows_bar(what, self.n_rows) as bar:
            for numbers, result in zip(rows, _each(self.client, _worked, self._parts, own), strict=True):
                bar.update(len(numbers))
                yield result

    def each(self, work: Callable[..., Any], *options: Any) -> Iterator[Any]:
        """Yield the result of ``work(number of the first row, rows, *options)`` for each block, run on its worker.

        ``options`` are sent to each worker once.
        """
        sent = self.client.scatter(options, broadcast=True, hash=False) if options else []
        own = [(stop - start, _worked_from, work, start, *sent) for start, stop in self._bounds]
        yield from _each(self.client, _worked, self._parts, own)

    def pick(self, numbers: NDArray[np.int64]) -> Rows:
        """Some rows; only these are brought to this process."""
        here = np.split(numbers, np.searchsorted(numbers, self.ends[:-1]))
        places = [place for place, of_block in enumerate(here) if of_block.size]
        own = [(self._length(place), _picked, self.columns, here[place] - self._bounds[place][0]) for place in places]
        parts = list(_each(self.client, _worked, [self._parts[place] for place in places], own))
        return in_memory(joined(parts), self.columns, encoded=True, names=None)

    def chunks(self) -> Iterator[Chunk]:
        """The blocks, brought to this process one by one."""
        for part, (start, stop) in zip(self._parts, self._bounds, strict=True):
            block = as_said(self.client.compute(part).result(), stop - start)
            yield replace(open_rows(block, self.columns).whole(), start=start)

    def _length(self, place: int) -> int:
        start, stop = self._bounds[place]
        return stop - start


def with_columns(X: Any, columns: Columns) -> Any:
    """The collection with the columns of training in their order, if both have names."""
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    places = places_of(names, int(X.shape[1]), columns)
    return X if places is None else X[[X.columns[place] for place in places]]


def _worked(part: Any, n_rows: int, work: Callable[..., Any], *options: Any) -> Any:
    """On a worker: the result of the work on a block whose number of rows is checked."""
    return work(as_said(part, n_rows), *options)


def _worked_from(part: Any, work: Callable[..., Any], first: int, *options: Any) -> Any:
    return work(first, part, *options)


def _picked(part: Any, columns: Columns, numbers: NDArray[np.int64]) -> Any:
    """On a worker: some rows of a block, as the numbers of training."""
    return open_rows(part, columns).pick(numbers).source


def parts_of(X: Any) -> list[Any]:
    """The blocks of rows, each as a task that has not started."""
    parts = X.to_delayed()
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)


def _each(client: Any, work: Callable[..., Any], parts: list[Any], own: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the result of ``work(block, *own)`` for each block, in order.

    If blocks are read lazily, a worker holds only the blocks that it is working on.
    """
    from dask import delayed

    on_worker, name = delayed(work), f"rfsize-{work.__name__.strip('_').replace('_', '-')}-{uuid4().hex}"
    tasks = client.compute(
        [
            on_worker(part, *more, dask_key_name=(name, number))
            for number, (part, more) in enumerate(zip(parts, own, strict=True))
        ]
    )
    for number, task in enumerate(tasks):
        try:
            result = task.result()
        except KeyError as error:
            raise ValueError(
                f"a partition of X lacks columns that the collection says it has ({error.args[0]}): write all of its "
                "files with the same columns"
            ) from error
        yield result
        tasks[number] = None  # the workers need not keep it any longer


def _lengths(X: Any, client: Any) -> NDArray[np.int64]:
    """Number of rows of each block. If it is unknown, all blocks are read; of a DataFrame, one column."""
    if hasattr(X, "map_blocks"):
        known = np.array(X.chunks[0], dtype=np.float64)
        return _lengths_of(parts_of(X), client) if np.isnan(known).any() else known.astype(np.int64)
    found = client.compute(X[list(X.columns[:1])].map_partitions(len, meta=(None, np.int64))).result()
    return np.array(found, dtype=np.int64)


def _lengths_of(parts: list[Any], client: Any) -> NDArray[np.int64]:
    return np.array(list(_each(client, _n_rows, parts, [()] * len(parts))), dtype=np.int64)


def _n_rows(part: Any) -> int:
    """On a worker: number of rows of a block, which may be sparse."""
    return int(part.shape[0])


def as_said(part: Any, n_rows: int) -> Any:
    """A block, once its number of rows is checked: Dask itself does not notice if its collection states a wrong one.

    Raises
    ------
    ValueError
        If the block has another number of rows than the collection states.
    """
    if part.shape[0] != n_rows:
        raise ValueError(
            f"a chunk or partition of X has {how_many(part.shape[0], 'row')}, and the collection says {n_rows:,}: "
            "make X with its true chunks, or with math.nan where you do not know them"
        )
    return part
