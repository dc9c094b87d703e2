"""Clopper–Pearson: what disagreements on some rows tell of all rows like them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats


def tested(differing: NDArray[Any], rows: NDArray[Any], average: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Disagreements and rows of all that is bounded by itself."""
    if average == "micro":
        return differing.sum(axis=0, keepdims=True), rows.sum(keepdims=True)
    return differing[rows > 0], rows[rows > 0]


def bounds(differing: NDArray[Any], rows: NDArray[Any], confidence: float) -> Floats:
    """Clopper–Pearson upper bounds of the shares that differ, each at this confidence."""
    from scipy.stats import beta

    with np.errstate(invalid="ignore"):
        found = beta.ppf(confidence, np.asarray(differing) + 1, np.asarray(rows) - differing)
    return np.where(np.asarray(differing) >= rows, 1.0, found)


_FAR = 10.0  # standard deviations


@lru_cache(maxsize=256)
def most_disagreements(rows: int, alpha: float, confidence: float) -> int:
    """The most disagreements among so many rows whose bound is 1 − α at most; −1 where not even none has it."""
    from scipy.stats import beta

    # At a confidence below a half bounds are below what was seen, but never by so much.
    expected = rows * (1.0 - alpha)
    few = np.arange(min(rows, int(expected + _FAR * (1.0 + math.sqrt(expected))) + 1))
    return int(np.count_nonzero(beta.ppf(confidence, few + 1, rows - few) <= 1.0 - alpha)) - 1


def fewest_rows(alpha: float, confidence: float) -> int:
    """The fewest rows that can certify α: αⁿ ≤ 1 − confidence."""
    rows = math.ceil(math.log(1.0 - confidence) / math.log(alpha))
    while most_disagreements(rows, alpha, confidence) < 0:  # where rounding decides
        rows += 1
    return rows
