"""What you mean by no ``metric``: the labels of a classifier, or the numbers of a regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rfsize.counting.evidence import Evidence
from rfsize.sizing.goals.base import Answer, Goal
from rfsize.sizing.goals.deviation import DeviationGoal
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.named_metrics import MetricLike
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

    names = ("auto",)
    name = names[0]
    level = 0.0
    title = aim = easier = axis = ""

    @classmethod
    def named(cls, metric: MetricLike, **given: Any) -> Goal:
        if given.keys() - {"threshold", "tolerance", "confidence"}:
            return LabelGoal.named(metric, **given)
        given.pop("threshold", None)
        return cls(**given)

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
        return DeviationGoal("scores", tolerance_of_numbers(y), confidence=self.confidence)

    def answer(self, outputs: Evidence) -> Answer:
        return self.checked(len(outputs.classes), outputs.y).answer(outputs)


def tolerance_of_numbers(y: ArrayLike | None) -> float:
    """How far off numbers may be where no tolerance is given; ``ValueError`` where ``y`` is not known."""
    if y is None:
        raise ValueError(
            "a regression forest needs a tolerance: give y (the tolerance is then 5 % of its standard "
            "deviation), or metric='scores' with a tolerance in the unit of y"
        )
    # Of a y that is the same everywhere any tolerance will do.
    return _OF_NUMBERS * float(np.std(np.asarray(y, dtype=np.float64))) or 1.0
