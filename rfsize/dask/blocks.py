"""The rows of a Dask collection, in blocks on the workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from rfsize.dask.clients import client_in_use, here
from rfsize.models.bags import Layout
from rfsize.models.columns import Columns, rows_for
from rfsize.models.framework import framework_of
from rfsize.models.model import Forest
from rfsize.utils.pieces import PiecesElsewhere
from rfsize.utils.progress import rows_bar
from rfsize.utils.rows import form_of, joined, picked
from rfsize.utils.words import how_many


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


class BlocksOnWorkers(PiecesElsewhere):
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
        super().__init__()
        self.client = client_in_use(client)
        self._collection_kind = type(X).__name__
        framework = framework_of(X)
        training = None if framework is None else framework.training
        self._collection = None if training is None else training.held_on_workers(X)
        if self._collection is None:
            X = checked_collection(X)
            parts, n_features, self.lengths = parts_of(X), int(X.shape[1]), _lengths(X, self.client)
        else:
            parts, n_features = self._collection.parts, self._collection.n_features
            self.lengths = _lengths_of(parts, self.client)
        self.shape = int(self.lengths.sum()), n_features
        if not self.shape[0]:
            raise ValueError("X has no rows")
        from dask import delayed

        fitted = delayed(_fitted)
        # A filter may have emptied some partitions.
        self._parts = [
            fitted(part, int(length), columns) for part, length in zip(parts, self.lengths, strict=True) if length
        ]
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
            return Layout.alone(self.shape[0])
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

    def each_of_its_own(
        self, work: Callable[..., Any], sent: Any, of_rows: Callable[[range], Any], *, what: str
    ) -> Iterator[Any]:
        """Yield the result of ``work(block, sent, of_rows(numbers of its rows))`` for each block, in order.

        ``sent`` is sent to each worker once, the result of ``of_rows`` with the task of its block. If it takes long, a
        progress bar names ``what``.
        """
        sent = self.client.scatter(sent, broadcast=True, hash=False)
        rows = [range(*bounds) for bounds in self._bounds]
        own = [(sent, of_rows(some)) for some in rows]
        with rows_bar(what, self.shape[0]) as bar:
            for some, found in zip(rows, _each(self.client, work, self._parts, own), strict=True):
                bar.update(len(some))
                yield found

    def each(self, work: Callable[..., Any], *options: Any) -> Iterator[Any]:
        """Yield the result of ``work(number of the first row, rows, *options)`` for each block, run on its worker.

        ``options`` are sent to each worker once.
        """
        sent = self.client.scatter(options, broadcast=True, hash=False) if options else []
        own = [(work, start, *sent) for start, _ in self._bounds]
        for piece, (form, found) in enumerate(_each(self.client, _of_form, self._parts, own)):
            self._check_form(piece, form)
            yield found

    def load(self, piece: int) -> Any:
        """One block, brought to this process."""
        return self.client.compute(self._parts[piece]).result()

    def pick(self, rows: NDArray[np.int64]) -> Any:
        """Some rows; only these are brought to this process."""
        here = np.split(rows, np.searchsorted(rows, self.ends[:-1]))
        places = [place for place, numbers in enumerate(here) if numbers.size]
        own = [(here[place] - self._bounds[place][0],) for place in places]
        return joined(list(_each(self.client, picked, [self._parts[place] for place in places], own)))


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


def _fitted(part: Any, n_rows: int, columns: Columns) -> Any:
    """On a worker: a block with the columns of training."""
    return rows_for(as_said(part, n_rows), columns)


def _of_form(rows: Any, work: Callable[..., Any], first: int, *options: Any) -> tuple[Any, Any]:
    """On a worker: the form of a block, and the result of the work on it."""
    return form_of(rows), work(first, rows, *options)
