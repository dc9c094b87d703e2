"""Clients of Dask: the one that is in use, and what is to be had of them."""

from __future__ import annotations

from typing import Any

import numpy as np

# So long it may take until there is a worker: a nanny starts its own anew.
SECONDS_WITHOUT_WORKERS = 60.0


def client_in_use(client: Any) -> Any:
    """The client given, or the one in use.

    Raises
    ------
    ValueError
        If there is none.
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
    """Values in this process."""
    if not hasattr(values, "compute"):
        return values
    return np.asarray(client_in_use(client).compute(values).result())
