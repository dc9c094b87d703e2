"""Processes ranges of rows in several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


def each_range(work: Callable[[int, int], _Result], rows: int, step: int, *, n_jobs: int = -1) -> list[_Result]:
    """The results of ``work(start, stop)`` for every ``step`` rows, in order; ``n_jobs=-1`` is one thread per core."""
    starts = range(0, rows, step)
    threads = min(effective_threads(n_jobs), len(starts)) if len(starts) > 1 else 1
    if threads == 1:
        return [work(start, min(start + step, rows)) for start in starts]
    # The threads end with the call, because a lasting pool would be dead after a fork.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda start: work(start, min(start + step, rows)), starts))


def effective_threads(n_jobs: int) -> int:
    """Number of threads for ``n_jobs``; -1 means one per core."""
    # joblib knows the cores of a container, and starts no more threads in its own workers.
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
