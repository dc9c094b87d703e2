"""Size a forest on some of many rows, drawn at random: beyond them, only the noise of the trees makes T* uncertain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfsize._util import choice, one_per_row, whole
from rfsize.counting.collect import outputs_of
from rfsize.counting.outputs import with_warnings
from rfsize.counting.task import Task, brought_here
from rfsize.counting.training_rows import warning_of_training_rows
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, sized

AUTO = 100_000
"""Number of rows that "auto" draws."""


def sized_on_enough_rows(goal: Goal, task: Task, y: Any, max_rows: int | str) -> Report:
    """The report on ``max_rows`` random rows; "auto" draws `AUTO` of them.

    Raises
    ------
    ValueError
        If ``max_rows`` is neither a number nor "auto", or the rows are training rows.
    """
    if task.bags is not None:
        raise ValueError(
            "max_rows draws some of the rows, and out of bag the proof of the bags needs all of them: leave "
            "max_rows out, or give rows that the forest was not trained on"
        )
    if isinstance(max_rows, str):
        choice("max_rows", max_rows, ("auto",), "; or give a number of rows")
        max_rows = AUTO
    n_rows, y = whole("max_rows", max_rows, at_least=1), brought_here(task.X, y)
    of_rows = warning_of_training_rows(task, y)
    if n_rows < task.n_rows:
        drawn = np.sort(np.random.default_rng(0).choice(task.n_rows, n_rows, replace=False))
        y = None if y is None else one_per_row(y, task.n_rows)[drawn]
        task = replace(task, X=task.X.pick(drawn))
    return sized(with_warnings(outputs_of(task).with_truth(y), *of_rows), goal)
