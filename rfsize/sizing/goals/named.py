"""The goal that a user names by ``metric``, ``alpha`` and ``tolerance``, and the default goal."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from numpy.typing import ArrayLike

from rfsize._util import choice, refuse_unused
from rfsize.counting.outputs import TreeOutputs
from rfsize.sizing.goals.base import Answer, Goal, GoalWithin
from rfsize.sizing.goals.certified import CertifiedGoal
from rfsize.sizing.goals.deviation import DeviationGoal, tolerance_of_numbers
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.goals.metric import MetricGoal
from rfsize.sizing.named_metrics import MetricLike, one_name, other_names


@dataclass(frozen=True)
class UsualGoal(Goal):
    """The default goal: the labels of a classifier, or the numbers of a regressor.

    Attributes
    ----------
    tolerance : float or None
        How far numbers may move; by default 5 % of the standard deviation of ``y``.
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

    def answer(self, outputs: TreeOutputs) -> Answer:
        return self.checked(len(outputs.classes), outputs.y).answer(outputs)


GOALS: tuple[type[Goal], ...] = (UsualGoal, LabelGoal, DeviationGoal, MetricGoal)
"""All kinds of goals against an unlimited forest. To add a kind, name it here and nowhere else."""

NAMES = tuple(name for kind in GOALS for name in kind.names)
"""All names that ``metric`` takes, besides scikit-learn's scorers."""


TARGETS = ("limit", "forest")


def goal_of(metric: MetricLike, tolerance: float | None, *, target: Any = "limit", **options: Any) -> Goal:
    """The goal that a user names; options are None if they were not given.

    Raises
    ------
    ValueError
        If the options do not go together, or one of them is not valid.
    """
    named = {"tolerance": tolerance, **options}
    given = {name: _plain(value) for name, value in named.items() if value is not None}
    metric = one_name(metric)
    choice("target", target, TARGETS)
    kind = _kind(metric)  # raises if it is no metric
    return (kind if target == "limit" else CertifiedGoal).named(metric, **given)


def _plain(value: Any) -> Any:
    """A NumPy number as a Python number, which prints as the user typed it and which ``json`` can write."""
    return float(value) if type(value) not in (bool, int, float) and isinstance(value, Real) else value


def any_goal(metric: MetricLike) -> Goal:
    """A goal of a metric at any level, for the losses of forests, which do not depend on the level."""
    metric = one_name(metric)
    kind = _kind(metric)
    return kind.named(metric, **({"tolerance": 1.0} if issubclass(kind, GoalWithin) else {}))


def listed_beside(outputs: TreeOutputs) -> tuple[str, ...]:
    """Names of the goals whose losses a report lists in addition to its own."""
    return tuple(name for kind in GOALS for name in kind.beside(outputs))


def _kind(metric: MetricLike) -> type[Goal]:
    for kind in GOALS:
        if kind.is_named(metric):
            return kind
    if isinstance(metric, str) and "importance" in metric:
        raise ValueError(
            f"metric={metric!r} takes more than the trees' predictions: columns must be permuted. Call "
            "rfsize.oob_importance(model, X, y).size(top=10), which says with how many trees the ten best columns "
            "stay the same"
        )
    advice = "; or a scikit-learn scorer, by its name or from sklearn.metrics.make_scorer"
    choice("metric", metric, NAMES, advice, others=other_names())
    raise AssertionError(metric)
