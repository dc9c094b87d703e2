"""The rows of a Dask collection: blocks that lie on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.pieces import Pieces
from rfsize.utils.table import in_memory, joined, picked


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
        lengths = _lengths(X, self.client)
        if not lengths.sum():
            raise ValueError("X has no rows")
        # Partitions that a filter has emptied say nothing.
        self._parts = [part for part, length in zip(_parts(X), lengths, strict=True) if length]
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
        from dask import delayed

        sent = self.client.scatter(sent, broadcast=True, hash=False)
        starts, on_worker = np.append(0, self.ends[:-1]), delayed(work, pure=False)
        # Of blocks that are read when they are asked for, a worker holds those alone that it works on.
        tasks = self.client.compute(
            [
                on_worker(part, range(int(start), int(stop)), sent, *options)
                for part, start, stop in zip(self._parts, starts, self.ends, strict=True)
            ]
        )
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
        return self._client.compute(self._parts[piece]).result()

    def pick(self, rows: NDArray[np.int64]) -> Any:
        """Some rows, which alone are brought here."""
        from dask import delayed

        starts, on_worker = np.append(0, self.ends[:-1]), delayed(_picked)
        here = np.split(rows, np.searchsorted(rows, self.ends[:-1]))
        some = [
            on_worker(part, numbers - start)
            for part, numbers, start in zip(self._parts, here, starts, strict=True)
            if numbers.size
        ]
        return joined(self._client.gather(self._client.compute(some)))


def _parts(X: Any) -> list[Any]:
    """The blocks of rows, each as a task that is not begun."""
    parts = X.to_delayed()
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)


def _lengths(X: Any, client: Any) -> NDArray[np.int64]:
    """Rows of each block; where these are not known, all are read for it, of a DataFrame one column of each."""
    if hasattr(X, "map_blocks"):
        known = np.array(X.chunks[0], dtype=np.float64)
        if not np.isnan(known).any():
            return known.astype(np.int64)
        from dask import delayed

        found = client.gather(client.compute([delayed(len)(part) for part in _parts(X)]))
    else:
        found = client.compute(X[list(X.columns[:1])].map_partitions(len, meta=(None, np.int64))).result()
    return np.array(found, dtype=np.int64)


def _picked(block: Any, rows: NDArray[np.int64]) -> Any:
    return picked(in_memory(block), rows)


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
