"""Times calls. Needs only NumPy, so that the environments of other tools can run it too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

# Calls on few rows come in bursts; the first calls of a burst are not counted, because caches are cold.
_FEW, _NOT_COUNTED = 1000, 5


def seconds_of(predict: Callable[[Any], Any], X: Any, n_rows: int, starts: Sequence[int]) -> list[float]:
    """Seconds of calls on ``n_rows`` rows each, from each of the rows ``starts``; an array or a DataFrame."""
    rows = getattr(X, "iloc", X)
    blocks = [rows[start : start + n_rows] for start in starts]
    for block in blocks[:_NOT_COUNTED] if n_rows < _FEW else ():
        predict(block)
    taken = []
    for block in blocks:
        started = time.perf_counter()
        predict(block)
        taken.append(time.perf_counter() - started)
    return taken
