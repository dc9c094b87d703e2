"""The goal that you name by ``metric``, ``alpha`` and ``tolerance``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.sizing.goals.base import Answer, Goal
from rfsize.sizing.goals.deviation import DEVIATIONS, DeviationGoal
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.goals.metric import MetricGoal
from rfsize.sizing.named_metrics import MetricLike, check_metric, goes_by_labels, one_name
from rfsize.utils.validation import refuse_unused

# Of the standard deviation of y, how far numbers may be off where no tolerance is given.
_OF_NUMBERS = 0.05


@dataclass(frozen=True)
class UsualGoal(Goal):
    """The labels of a classifier, or the numbers of a regressor; which of them is known with the forest.

    Attributes
    ----------
    tolerance : float or None
        How far off numbers may be; by default 5 % of the standard deviation of ``y``.
    """

    tolerance: float | None = None

    name = "auto"
    level = 0.0
    title = aim = easier = axis = ""

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> Goal:
        if n_classes:
            refuse_unused(
                "labels are equal on a share alpha of the rows. Leave it out, or give metric='probabilities' or a "
                "metric, which take a tolerance",
                tolerance=self.tolerance,
            )
            return LabelGoal(confidence=self.confidence)
        if self.tolerance is not None:
            return DeviationGoal("scores", self.tolerance, confidence=self.confidence)
        if y is None:
            raise ValueError(
                "it is not known how near the numbers of this regression forest shall be: give y, whose standard "
                "deviation says it (5 % of it), or metric='scores' with a tolerance in the unit of y"
            )
        # Of a y that is the same everywhere any tolerance will do.
        tolerance = _OF_NUMBERS * float(np.std(np.asarray(y, dtype=np.float64))) or 1.0
        return DeviationGoal("scores", tolerance, confidence=self.confidence)

    def answer(self, outputs: TreeOutputs) -> Answer:
        return self.checked(len(outputs.classes), outputs.y).answer(outputs)


def goal_of(metric: MetricLike, tolerance: float | None, *, confidence: float | None = None, **of_labels: Any) -> Goal:
    """The goal that a user names; ``of_labels`` are options that only labels have, None where they were not given.

    Raises
    ------
    ValueError
        If the options do not go together, or one of them is none.
    """
    metric = one_name(metric)
    given = {name: value for name, value in of_labels.items() if value is not None}
    chosen = {name: value for name, value in given.items() if name != "threshold"}
    if metric == "auto" and not chosen:
        return UsualGoal(tolerance, confidence=confidence)
    if metric in ("auto", "labels"):
        if tolerance is not None:
            raise ValueError(
                "tolerance is for metric='probabilities', 'scores' or a metric; labels are equal on a share alpha of "
                "the rows. Leave out one of the two"
            )
        return LabelGoal(**chosen, confidence=confidence)
    is_metric = metric not in DEVIATIONS
    if is_metric:
        check_metric(metric)
        if goes_by_labels(metric):
            given.pop("threshold", None)
    refuse_unused(
        f"with metric={metric!r} tolerance says how far off it may be. Leave out {' and '.join(given)}", **given
    )
    if tolerance is None:
        raise ValueError(f"metric={metric!r} needs a tolerance, such as tolerance=0.01: how far off it may be")
    if is_metric:
        return MetricGoal(metric, tolerance, confidence=confidence)
    return DeviationGoal(str(metric), tolerance, confidence=confidence)


def any_goal(metric: MetricLike) -> Goal:
    """A goal of a metric, to tell the loss of forests of any size, which does not depend on its level."""
    return goal_of(metric, None if one_name(metric) in ("auto", "labels") else 1.0)
