"""Size a forest on no more rows than needed: with many rows, only the noise of the trees makes T* uncertain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_rows import noting_training_rows
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, sized
from rfsize.utils import matrix
from rfsize.utils.validation import choice, one_per_row, whole

# "auto" begins with _FIRST rows, then takes _GROW times as many, which halves the noise of the rows.
_FIRST, _GROW = 10_000, 4
# If the interval then keeps more than this share of its width, the noise of the trees dominates.
_KEPT = 0.9


def sized_on_enough_rows(goal: Goal, forest: ForestOnRows, y: Any, max_rows: int | str) -> Report:
    """The report on ``max_rows`` random rows; with "auto", on as many rows as still narrow its interval.

    Raises
    ------
    ValueError
        If ``max_rows`` is neither a number nor "auto", or the rows are training rows.
    """
    if forest.bags is not None:
        raise ValueError(
            "max_rows draws some of the rows, and out of bag the proof of the bags needs all of them: leave "
            "max_rows out, or give rows that the forest was not trained on"
        )
    y = forest.here(y)
    noted = noting_training_rows(forest, y)

    def sized_on(n_rows: int) -> Report:
        """The report on this many rows, or on all."""
        some, truth = forest, y
        if n_rows < forest.n_rows:
            drawn = np.sort(np.random.default_rng(0).choice(forest.n_rows, n_rows, replace=False))
            truth = None if y is None else one_per_row(y, forest.n_rows)[drawn]
            some = forest.on(matrix.pick(forest.X, drawn))
        return sized(Evidence.of(some).with_truth(truth).noting(*noted), goal)

    if not isinstance(max_rows, str):
        return sized_on(whole("max_rows", max_rows, at_least=1))
    choice("max_rows", max_rows, ("auto",), "; or give a number of rows")
    n_rows, width = _FIRST, math.inf
    while True:
        found = sized_on(n_rows)
        low, high = found.interval
        before, width = width, math.log(high / low)
        if n_rows >= forest.n_rows or _KEPT * before < width < math.inf:
            return found
        n_rows *= _GROW
