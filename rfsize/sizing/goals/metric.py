"""Metrics: how many trees keep a metric within a tolerance of its value in an unlimited forest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfsize.counting.outputs import TreeOutputs, predictor_of, sums_of
from rfsize.exceptions import LabelsOnlyWarning
from rfsize.sizing.goals.base import Answer, Goal, GoalWithin, Loss
from rfsize.sizing.paired import AUC_LOSS, RELATIVE_LOSS
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import Estimate, LossCurve
from rfsize.statistics.metric_estimate import MetricDetails, estimate_metric
from rfsize.statistics.metrics import (
    METRICS,
    MetricLike,
    clipping_of_rows,
    goes_by_labels,
    is_metric,
    label_of,
    metric_of,
)
from rfsize.utils.validation import positive
from rfsize.utils.warn import Caution

# Every quarter of the trees must predict rows of each kind, or the loss of smaller forests cannot be measured.
_FEWEST_VOTES = 40

# The tolerances that a warning about a forest cut for its labels advises.
_TOLERANCE = {"auc": 0.001, "log_loss": 0.001, "brier": 0.0005}
# If only an upper bound of the loss is known, it must exceed the limit by this factor, since the loss is often half the
# bound. And the quantile at which the loss of small forests counts as sure.
_BOUND, _LEAST = 2.0, 0.05


@dataclass(frozen=True)
class MetricGoal(GoalWithin):
    """Keep a metric or scorer within a tolerance: expected to be no worse than this in an unlimited forest."""

    names = tuple(METRICS)

    @classmethod
    def is_named(cls, metric: MetricLike) -> bool:
        return is_metric(metric)

    @classmethod
    def named(cls, metric: MetricLike, **given: Any) -> Goal:
        if goes_by_labels(metric):
            given.pop("threshold", None)
        return super().named(metric, **given)

    @classmethod
    def beside(cls, outputs: TreeOutputs) -> tuple[str, ...]:
        """See `Goal.beside`; no metric if the truth or the trees' scores are not known.

        The Brier score replaces the log loss if the latter is clipped on some row.
        """
        if outputs.y is None or outputs.scores is None or not outputs.scores.are_finite():
            return ()
        if not len(outputs.classes):
            return ("rmse",)
        metric, blocks = metric_of("log_loss", outputs), sums_of(outputs).blocks
        rows, scores = blocks.rows, blocks.scores
        predicted = predictor_of(outputs).predictions(scores.mean)
        clipped = clipping_of_rows(metric, rows[scores.asked > 0], predicted[scores.asked > 0], outputs.n_trees)
        of_probabilities = "brier" if clipped else "log_loss"
        return (of_probabilities, "auc") if len(outputs.classes) == 2 else (of_probabilities,)

    @property
    def aim(self) -> str:
        return f"keep the {label_of(self.name)} within {self.level_in_words} of an unlimited forest's"

    @property
    def axis(self) -> str:
        return f"{label_of(self.name)} is expected to be worse by"

    @property
    def of_labels(self) -> bool:
        return self.metric == "accuracy"

    @property
    def fewest_votes(self) -> int:
        return _FEWEST_VOTES

    def answer(self, outputs: TreeOutputs) -> MetricAnswer:
        """The loss of the metric, estimated from smaller forests of the trees at hand; raises as `estimate_metric`."""
        return MetricAnswer(self, estimate_metric(outputs, Criterion(self.metric, tolerance=self.tolerance)))


def refuse_soft_labels(goal: Goal) -> None:
    """Raise ``ValueError`` if a goal compares predictions with labels that are probabilities of class 1."""
    if isinstance(goal, MetricGoal):
        raise ValueError(
            f"metric={goal.name!r} compares predictions with classes, and the labels are soft, between 0 and 1: give "
            "alpha alone, which sizes labels, or metric='probabilities' with a tolerance"
        )


class MetricAnswer(Answer):
    """The loss of the metric in forests of any size."""

    goal: MetricGoal

    def __init__(self, goal: MetricGoal, estimate: Estimate) -> None:
        self.goal, self.estimate, self.lacks_votes = goal, estimate, False
        assert isinstance(estimate.details, MetricDetails)
        self.details = estimate.details
        self.now, self._sign = self.details.value, "−" if self.details.larger_is_better else "+"
        self._words = self.details.label
        self.n_rows, self.n_dropped, self.votes_per_row = estimate.n_rows, estimate.n_dropped, estimate.votes_per_row
        self.n_trees, self.cautions = estimate.n_trees, estimate.warnings

    @property
    def is_bound(self) -> bool:
        return self.estimate.is_bound

    @property
    def measured(self) -> tuple[tuple[float, float], ...]:
        return self.details.measured

    def size_at(self, level: float) -> int | float:
        tolerance = positive("tolerance", level)
        return math.inf if self.estimate.problem else self.estimate.curve.size(tolerance)

    def quantile(self, share_below: float) -> int | float:
        return self.estimate.curve.size_quantile(self.goal.tolerance, share_below)

    def value(self, n_trees: int) -> float:
        return self.estimate.curve.at(n_trees)

    def interval(self, n_trees: int) -> tuple[float, float]:
        return self.estimate.curve.interval(n_trees)

    def loss(self, n_trees: int) -> Loss:
        return super().loss(n_trees)._replace(spread=self.details.seed_sd / math.sqrt(n_trees))

    def said(self, n_trees: int) -> str:
        value, (low, high), *_ = self.loss(n_trees)
        worse = f"{'' if self.details.is_significant else 'at most '}{value:.2g} worse than an unlimited forest's"
        return f"{self._words} is expected to be {worse} ({low:.2g} to {high:.2g}); all trees reach {self.now:.4g}"

    def in_short(self, n_trees: int) -> str:
        value = self.value(n_trees)
        if value == 0.0:
            return f"{self._words} unchanged"
        return f"{self._words} {self._sign}{value:.2g}{'' if self.details.is_significant else ' at most'}"

    def cannot_tell(self, available: int) -> str | None:
        return self.estimate.problem

    def notes(self) -> list[str]:
        return list(self.estimate.notes)

    def harm(self, n_trees: int, *, of_a_rare_class: bool) -> Caution | None:
        name, is_ranking = self.goal.name, self.goal.name == "auc"
        if name not in _TOLERANCE or not (is_ranking or of_a_rare_class):
            return None
        lost = self._too_much(n_trees, AUC_LOSS if is_ranking else RELATIVE_LOSS * self.now)
        if lost is None:
            return None
        surely, by_how_much = lost
        advice = {"metric": name, "tolerance": _TOLERANCE[name]}
        suffer = "suffer" if surely else "may suffer"
        if is_ranking:
            suffers = "suffers" if surely else suffer
            text = f"ranking {suffers}: {self._words} {by_how_much}; size it"
        else:
            text = f"probabilities {suffer}: {self._words} {by_how_much} (all trees: {self.now:.3g}); size them"
        return Caution.advising(LabelsOnlyWarning, text, **advice)

    def _too_much(self, n_trees: int, most: float) -> tuple[bool, str] | None:
        """Whether ``n_trees`` trees surely lose more than ``most``, and how much in words; None if they do not.

        If halves of the trees show no clear loss, small forests may still show one; for the others only a bound is
        known.
        """
        curve = self.estimate.curve
        assert isinstance(curve, LossCurve)
        at_least = LossCurve(curve.sizes, np.quantile(curve.replicates, _LEAST, axis=0), curve.replicates[:0])
        lost, measured, sign = self.value(n_trees), at_least.at(n_trees), self._sign
        if self.details.is_significant:
            return (True, f"{sign}{lost:.2g}") if lost > most else None
        if measured > most:
            return True, f"{sign}{measured:.2g} to {sign}{lost:.2g}"
        return (False, f"{sign}{lost:.2g} at most") if lost > _BOUND * most else None

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.now}
