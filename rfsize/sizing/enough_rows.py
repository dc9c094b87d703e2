"""As many rows as T* needs: where rows are many, the noise of the trees is what makes it uncertain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.memory import MemoryLimit
from rfsize.sizing.base import Report
from rfsize.utils import matrix
from rfsize.utils.validation import choice, one_per_row, whole

# Rows that "auto" begins with, and how many times as many it draws next.
_FIRST, _GROW = 10_000, 4
# So many times as many rows halve the noise of rows. Where an interval keeps more than this share of its width, the
# noise of trees dominates.
_KEPT = 0.9

# What makes a report of a forest on rows; it is told their truth and their weights, where these are known, by name.
Asked = Callable[..., Report]


def report_on_enough_rows(
    report: Asked, forest: ForestOnRows, y: Any, sample_weight: Any, max_rows: int | str, limit: MemoryLimit | None
) -> Report:
    """The report on so many rows, drawn at random, or with "auto" on as many as narrow its interval.

    Those that would be too many for the ``limit`` are not drawn.

    Raises
    ------
    ValueError
        If ``max_rows`` is neither, or the rows are those of training, or may take more memory than the limit.
    """
    if forest.bags is not None:
        raise ValueError(
            "max_rows draws some of the rows, and out of bag all take part in the proof of the bags: leave max_rows "
            "out, or give rows that the forest was not trained on"
        )
    if not isinstance(max_rows, str):
        return _on_drawn(report, forest, y, sample_weight, whole("max_rows", max_rows, at_least=1), limit)
    choice("max_rows", max_rows, ("auto",), "; or give a number of rows")
    n_rows, width = _FIRST, math.inf
    while True:
        found = _on_drawn(report, forest, y, sample_weight, n_rows, limit)
        low, high = found.interval
        before, width = width, math.log(high / low)
        if n_rows >= forest.n_rows or _KEPT * before < width < math.inf:
            return found
        n_rows *= _GROW


def _on_drawn(
    report: Asked, forest: ForestOnRows, y: Any, sample_weight: Any, n_rows: int, limit: MemoryLimit | None
) -> Report:
    if limit is not None:
        limit.check(forest.adapter, min(n_rows, forest.n_rows), oob=False)
    known = {"y": y, "sample_weight": sample_weight}
    if n_rows >= forest.n_rows:
        return report(forest, **known)
    drawn = np.sort(np.random.default_rng(0).choice(forest.n_rows, n_rows, replace=False))
    known = {
        name: None if values is None else one_per_row(values, forest.n_rows)[drawn] for name, values in known.items()
    }
    return report(forest.on(matrix.pick(forest.X, drawn)), **known)
