"""Dask clients: find the one in use, check it, and bring values here."""

from __future__ import annotations

from typing import Any

import numpy as np

# How long to wait for a worker: a nanny restarts a lost one.
SECONDS_WITHOUT_WORKERS = 60.0


def client_in_use(client: Any) -> Any:
    """The given client, or the one in use.

    Raises
    ------
    ValueError
        If no client is given or in use.
    """
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


def checked_client(client: Any) -> Any:
    """The client, once it is checked: it must be connected, synchronous, and have workers.

    Raises
    ------
    ValueError
        If it is no connected, synchronous client.
    RuntimeError
        If there are no workers, and none join in time.
    """
    from distributed import Client, TimeoutError

    if not isinstance(client, Client):
        raise ValueError(
            f"client is a {type(client).__module__}.{type(client).__qualname__}; give the distributed.Client whose "
            "workers are to train, on one machine distributed.Client()"
        )
    if client.asynchronous:
        raise ValueError("the client is asynchronous, and training waits for its workers: give a synchronous client")
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


def here(values: Any, client: Any) -> Any:
    """The values, computed and brought to this process."""
    if not hasattr(values, "compute"):
        return values
    return np.asarray(client_in_use(client).compute(values).result())
