"""Ranges of rows worked on by several threads at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


def each_range(work: Callable[[int, int], _Result], rows: int, step: int, *, n_jobs: int = -1) -> list[_Result]:
    """What ``work`` returns of each ``step`` rows, from start to stop, in their order; -1 is a thread per core."""
    starts = range(0, rows, step)
    threads = min(effective_threads(n_jobs), len(starts)) if len(starts) > 1 else 1
    if threads == 1:
        return [work(start, min(start + step, rows)) for start in starts]
    # Threads do not outlive the call: a pool that did would be dead after a fork.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda start: work(start, min(start + step, rows)), starts))


def effective_threads(n_jobs: int) -> int:
    """Threads that ``n_jobs`` asks for, -1 for one per core."""
    # joblib knows the cores of a container, and that its own workers should not start more threads.
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
