"""Size a forest on some of many rows, drawn at random: beyond them, only the noise of the trees makes T* uncertain."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_rows import noting_training_rows
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, sized
from rfsize.utils.validation import choice, one_per_row, whole

AUTO = 100_000
"""Number of rows that "auto" draws."""


def sized_on_enough_rows(goal: Goal, forest: ForestOnRows, y: Any, max_rows: int | str) -> Report:
    """The report on ``max_rows`` random rows; "auto" draws `AUTO` of them.

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
    if isinstance(max_rows, str):
        choice("max_rows", max_rows, ("auto",), "; or give a number of rows")
        max_rows = AUTO
    n_rows, y = whole("max_rows", max_rows, at_least=1), forest.here(y)
    noted = noting_training_rows(forest, y)
    if n_rows < forest.n_rows:
        drawn = np.sort(np.random.default_rng(0).choice(forest.n_rows, n_rows, replace=False))
        y = None if y is None else one_per_row(y, forest.n_rows)[drawn]
        forest = forest.on(forest.X.pick(drawn))
    return sized(Evidence.of(forest).with_truth(y).noting(*noted), goal)
