"""The rows of a Dask collection: blocks that lie on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from rfsize.utils.pieces import Pieces

# So long a worker that is paused keeps the others waiting.
_SECONDS_FOR_PAUSED = 1.0
# So long it may take until there is a worker: a nanny starts its own anew.
SECONDS_WITHOUT_WORKERS = 60.0


def is_collection(X: Any) -> bool:
    """Whether something is one of Dask's collections."""
    from dask.base import is_dask_collection

    return bool(is_dask_collection(X))


def checked_collection(X: Any) -> Any:
    """A Dask array of two dimensions whose chunks hold whole rows, or a Dask DataFrame.

    Raises
    ------
    ValueError
        If ``X`` is neither.
    """
    import dask.array as da

    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features, found a Dask array of {X.ndim}")
        return X.rechunk({1: -1})
    if is_collection(X) and hasattr(X, "map_partitions") and hasattr(X, "columns"):
        return X
    raise ValueError(
        f"X is a {type(X).__module__}.{type(X).__qualname__}; rfsize.dask takes Dask arrays and DataFrames, and rfsize "
        "itself takes rows in memory, or in pieces"
    )


class BlocksOnWorkers:
    """The blocks of rows of a Dask collection, each worked on where it lies.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        The rows.
    client : distributed.Client or None
        Where they lie; by default the client that is in use.

    Raises
    ------
    ValueError
        If ``X`` is no such collection, has no rows, or there is no client.
    """

    def __init__(self, X: Any, client: Any) -> None:
        self.client = _client(client)
        X = checked_collection(X)
        self._parts = _computed(X, self.client)
        lengths = np.array(self.client.gather(self.client.map(len, self._parts, pure=False)), dtype=np.int64)
        if not lengths.sum():
            raise ValueError("X has no rows")
        # Partitions that a filter has emptied say nothing.
        self._parts = [part for part, length in zip(self._parts, lengths, strict=True) if length]
        self.ends: NDArray[np.int64] = np.cumsum(lengths[lengths > 0])
        self.n_features = int(X.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return int(self.ends[-1])

    def each(self, work: Callable[..., Any], sent: Any, *options: Any) -> Iterator[Any]:
        """What ``work(block, numbers of its rows, sent, *options)`` returns of each block, in their order.

        ``sent`` is sent to each worker once.
        """
        sent = self.client.scatter(sent, broadcast=True, hash=False)
        starts = np.append(0, self.ends[:-1])
        tasks = [
            self.client.submit(work, part, range(int(start), int(stop)), sent, *options, pure=False)
            for part, start, stop in zip(self._parts, starts, self.ends, strict=True)
        ]
        for number, task in enumerate(tasks):
            yield task.result()
            tasks[number] = None  # the workers need not keep it any longer

    def pieces(self) -> Pieces:
        """The rows as what reads them to this process, a block at a time."""
        return _FromWorkers(self.client, self._parts, self.ends, self.n_features)


class _FromWorkers(Pieces):
    """The rows of futures."""

    def __init__(self, client: Any, parts: list[Any], ends: NDArray[np.int64], n_features: int) -> None:
        super().__init__()
        self._client, self._parts, self.ends = client, parts, ends
        self.shape = int(ends[-1]), n_features

    def load(self, piece: int) -> Any:
        """One block, brought here."""
        return self._client.gather(self._parts[piece])


class RowsForWorkers:
    """Rows that workers are sent, all of them to each.

    Parameters
    ----------
    client : distributed.Client
        Of the workers.
    X : dask.array.Array, dask.dataframe.DataFrame, or rows in memory
        The rows.

    Attributes
    ----------
    n_rows : int or None
        How many they are; None where that is known when they are computed.

    Raises
    ------
    ValueError
        If ``X`` is neither.
    """

    def __init__(self, client: Any, X: Any) -> None:
        self._client = client
        in_memory = not is_collection(X)
        if not in_memory:
            X = checked_collection(X)
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(
                f"data is a {type(X).__module__}.{type(X).__qualname__}; workers are sent Dask arrays and DataFrames, "
                "and arrays, DataFrames and sparse matrices of this process, of rows and features: give these, and "
                "label and weight beside them"
            )
        self.n_rows = int(X.shape[0]) if isinstance(X.shape[0], Integral) else None
        self._here, self._parts = ([X], []) if in_memory else ([], _computed(X, client))

    def sent_to(self, more: Any, address: str) -> list[Any]:
        """The futures of something more, and of the rows, on their way to the worker of an address."""
        sent = self._client.scatter([more, *self._here], workers=[address], hash=False, timeout=_SECONDS_FOR_PAUSED)
        return [*sent, *self._parts]


def _computed(X: Any, client: Any) -> list[Any]:
    """The futures of the parts of a collection, in their order."""
    parts = X.to_delayed()
    return client.compute(list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts))


def joined(parts: Sequence[Any]) -> Any:
    """The rows of all parts, in their order."""
    if len(parts) == 1:
        return parts[0]
    if issparse(parts[0]):
        return vstack(parts, format="csr")
    if hasattr(parts[0], "columns"):
        from dask.dataframe.dispatch import concat

        return concat(list(parts))
    return np.concatenate(parts)


def here(values: Any, client: Any) -> Any:
    """Values in this process."""
    return np.asarray(client.compute(values).result()) if hasattr(values, "compute") else values


def checked_client(client: Any) -> Any:
    """A client that is connected to workers, and waits for answers.

    Raises
    ------
    ValueError
        If it is none.
    RuntimeError
        If there are no workers, and none come in time.
    """
    from distributed import Client, TimeoutError

    if not isinstance(client, Client):
        raise ValueError(
            f"client is a {type(client).__module__}.{type(client).__qualname__}; give the distributed.Client whose "
            "workers are to train, on one machine distributed.Client()"
        )
    if client.asynchronous:
        raise ValueError("the client is asynchronous, and training waits for its workers: give one that is not")
    if client.status != "running":
        raise ValueError(f"the client is {client.status}: make another, distributed.Client()")
    try:
        client.wait_for_workers(1, timeout=SECONDS_WITHOUT_WORKERS)
    except TimeoutError:
        raise RuntimeError(
            f"Dask has had no worker for {SECONDS_WITHOUT_WORKERS:.0f} seconds: start some, each with memory for "
            "all rows"
        ) from None
    return client


def _client(client: Any) -> Any:
    """The client given, or the one in use."""
    from distributed import default_client

    if client is not None:
        return client
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "there is no Dask client: make one, distributed.Client(), or give client=; on one machine "
            "distributed.Client(processes=False) will do"
        ) from None
