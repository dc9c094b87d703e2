"""What size of a forest is looked for: that of its labels, or of what else it predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rfsize.counting.tree_outputs import VOTINGS, TreeOutputs
from rfsize.errors import NotAForestError
from rfsize.estimation.hard import ESTIMATORS
from rfsize.sizing.named_metrics import MetricLike, check_metric, goes_by_labels, one_name
from rfsize.utils.validation import choice, positive, refuse_unused, share
from rfsize.voting.links import Link
from rfsize.voting.scores import Scores

_DEVIATIONS = ("probability", "score")
AVERAGES = ("micro", "macro")


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A size of a forest; raises ``ValueError`` where a part of it is none.

    Attributes
    ----------
    sure : float or None
        How sure it must be that a forest in training is large enough, before it ends: its size is then the upper end of
        a one-sided interval. None asks for T* itself.
    """

    sure: float | None = None

    @property
    def of_labels(self) -> bool:
        """Whether it goes by nothing but labels."""
        return False

    def __post_init__(self) -> None:
        if self.sure is not None and share("sure", self.sure) < 0.5:
            raise ValueError(
                f"sure must be at least 0.5, which asks for T* itself, found {self.sure!r}: a forest that is more "
                "likely too small than not is none to stop at"
            )


@dataclass(frozen=True)
class LabelGoal(Goal):
    """T*(α) of a rule of voting, by an estimator.

    Attributes
    ----------
    alpha, voting, estimator, average
        As in `rfsize.size`.
    """

    alpha: float = 0.99
    voting: str = "auto"
    estimator: str = "auto"
    average: str = "micro"

    @property
    def of_labels(self) -> bool:
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        share("alpha", self.alpha)
        choice("voting", self.voting, VOTINGS)
        choice("estimator", self.estimator, ESTIMATORS)
        choice("average", self.average, AVERAGES)


@dataclass(frozen=True)
class DeviationGoal(Goal):
    """The smallest forest whose predictions are near enough to the infinite forest's.

    Attributes
    ----------
    criterion : {"probability", "score"}
        What is predicted.
    tolerance : float
        How far off it may be.
    """

    criterion: str
    tolerance: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("tolerance", self.tolerance)


@dataclass(frozen=True)
class MetricGoal(Goal):
    """The smallest forest whose metric is expected to be near enough to the infinite forest's.

    Attributes
    ----------
    criterion : str or callable
        The metric, or a scorer.
    tolerance : float
        How much worse it may be.
    """

    criterion: MetricLike
    tolerance: float

    @property
    def of_labels(self) -> bool:
        return self.criterion == "accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metric(self.criterion)
        positive("tolerance", self.tolerance)


def goal_of(criterion: MetricLike, tolerance: float | None, *, sure: float | None = None, **of_labels: Any) -> Goal:
    """The goal that a user names; ``of_labels`` are options that only labels have, None where they were not given.

    Raises
    ------
    ValueError
        If the options do not go together, or one of them is none.
    """
    criterion = one_name(criterion)
    is_metric = criterion != "label" and criterion not in _DEVIATIONS
    if is_metric:
        check_metric(criterion)
    given = {name: value for name, value in of_labels.items() if value is not None}
    if criterion == "label":
        if tolerance is not None:
            raise ValueError(
                "tolerance is for criterion='probability', 'score' or a metric; labels agree on a share alpha of the "
                "rows"
            )
        return LabelGoal(**{name: value for name, value in given.items() if name != "threshold"}, sure=sure)
    if is_metric and goes_by_labels(criterion):
        given.pop("threshold", None)
    refuse_unused(
        f"with criterion={criterion!r} tolerance says how far off predictions may be. Leave out {' and '.join(given)}",
        **given,
    )
    if tolerance is None:
        raise ValueError(f"criterion={criterion!r} needs a tolerance, such as tolerance=0.01: how far off it may be")
    if is_metric:
        return MetricGoal(criterion, tolerance, sure=sure)
    return DeviationGoal(str(criterion), tolerance, sure=sure)


def any_goal(metric: MetricLike) -> Goal:
    """A goal of what is named, to tell the loss of forests of any size, which does not depend on its level."""
    return goal_of(metric, None if one_name(metric) == "label" else 1.0)


def scores_of(outputs: TreeOutputs, criterion: Any) -> tuple[Scores, Link]:
    """The trees' scores, and what makes predictions of their means; `NotAForestError` where there are none."""
    if outputs.scores is None or outputs.link is None:
        raise NotAForestError(
            f"the members of the ensemble are no trees, and only their votes are read; criterion={criterion!r} is for "
            "trees: size the labels"
        )
    return outputs.scores, outputs.link


def check_goal(goal: Goal, n_classes: int, *, in_training: bool = False) -> None:
    """Raise where a forest of so many classes, 0 of regression, cannot reach a goal.

    Raises
    ------
    NotAForestError
        If it is a goal of labels, and there are none.
    ValueError
        If it is one of what the forest does not predict, or not tell while it is trained.
    """
    if isinstance(goal, LabelGoal) and not n_classes:
        raise NotAForestError(
            "the trees of a regression forest cast no votes, of which T*(α) is: say how near its predictions are to be "
            "to the infinite forest's, by criterion='score' and a tolerance in the unit of y"
        )
    if not isinstance(goal, DeviationGoal):
        return
    if goal.criterion == "probability" and not n_classes:
        raise ValueError(
            "criterion='probability' is for classification; a regression forest is sized by criterion='score'"
        )
    if goal.criterion == "score" and n_classes > 2 and in_training:
        raise ValueError(
            "criterion='score' of several classes is not told while a forest is trained, where scores are known but "
            "for a number that all classes share: take criterion='probability', or size the finished forest"
        )
