"""Metrics: how many trees keep a metric within a tolerance of its value in an unlimited forest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfsize._util import Caution, Int64s, how_many, positive
from rfsize.counting.coverage import too_many_without_votes
from rfsize.counting.outputs import TreeOutputs, predictor_of, sums_of
from rfsize.estimation.intervals import COVERAGE, TAIL
from rfsize.exceptions import LabelsOnlyWarning
from rfsize.sizing.clipping import cautions_of_rows, cautions_of_size
from rfsize.sizing.goals.base import Answer, Goal, GoalWithin, Loss
from rfsize.sizing.goals.deviation import scores_of
from rfsize.sizing.loss import MetricLoss, metric_loss
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import (
    METRICS,
    MetricLike,
    check_direction,
    goes_by_labels,
    is_metric,
    judge_of,
    predictions_for,
)
from rfsize.sizing.paired import AUC_LOSS, RELATIVE_LOSS
from rfsize.sizing.words import metric_in_words

# Every quarter of the trees must predict rows of each kind, or the loss of smaller forests cannot be measured.
_FEWEST_VOTES = 40

# With fewer rows outside the largest class, a note says how many there are. With fewer than _FEWEST_RANKED, out-of-bag
# rows do not tell what a ranking loses: each is predicted by trees that lack one row of its class, itself.
_FEW_ROWS, _FEWEST_RANKED = 100, 50

# The tolerances that a warning about a forest cut for its labels advises.
_TOLERANCE = {"auc": 0.001, "log_loss": 0.001, "brier": 0.0005}
# If only an upper bound of the loss is known, it must exceed the limit by this factor, since the loss is often half the
# bound. And the quantile at which the loss of small forests counts as sure.
_BOUND, _LEAST = 2.0, 0.05


@dataclass(frozen=True)
class MetricGoal(GoalWithin):
    """Keep a metric or scorer within a tolerance: expected to be no worse than this in an unlimited forest."""

    names = METRICS

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
        judge, blocks = judge_of("log_loss", outputs), sums_of(outputs).blocks
        rows, scores = blocks.rows, blocks.scores
        predicted = predictor_of(outputs).predictions(scores.mean)
        clipped = cautions_of_rows(judge, rows[scores.asked > 0], predicted[scores.asked > 0], outputs.n_trees)
        of_probabilities = "brier" if clipped else "log_loss"
        return (of_probabilities, "auc") if len(outputs.classes) == 2 else (of_probabilities,)

    @property
    def aim(self) -> str:
        return f"keep the {metric_in_words(self.name)} within {self.level_in_words} of an unlimited forest's"

    @property
    def axis(self) -> str:
        return f"{metric_in_words(self.name)} is expected to be worse by"

    @property
    def of_labels(self) -> bool:
        return self.metric == "accuracy"

    @property
    def fewest_votes(self) -> int:
        return _FEWEST_VOTES

    def answer(self, outputs: TreeOutputs) -> MetricAnswer:
        """The loss of the metric, estimated from smaller forests of the trees at hand.

        Raises
        ------
        NotAForestError
            If only votes are known.
        FewVotesError
            If too few trees predicted a row.
        ValueError
            If ``y`` is missing, if the metric is no number, or if it is unknown whether larger is better.
        """
        scores_of(outputs, self.metric)
        blocks = sums_of(outputs).blocks
        judge = judge_of(self.metric, outputs)
        check_direction(judge)
        predicted = predictions_for(outputs, judge)
        lost = metric_loss(blocks, judge, predicted, outputs.groups.units)
        unasked = int(np.count_nonzero((blocks.n_scored.sum(axis=1) == 0).any(axis=1)))
        lacks_votes = outputs.groups.index is not None and too_many_without_votes(unasked, len(blocks.rows))
        n_few = _few_rows(outputs, blocks.rows[judge.weight[blocks.rows] > 0.0])
        answer = MetricAnswer(self, judge, lost, n_few, lacks_votes)
        if judge.by_order and outputs.source == "oob" and n_few is not None and n_few < _FEWEST_RANKED:
            answer.too_few = (
                f"{how_many(n_few, 'row')} outside the largest class are too few to size the "
                f"{metric_in_words(judge.name)} out of bag, which takes {_FEWEST_RANKED}: give validation rows, or "
                "take metric='brier'"
            )
            answer.n_trees = math.inf
        answer.cautions = cautions_of_size(judge, blocks, predicted, int(min(answer.n_trees, outputs.n_trees)))
        return answer


def refuse_soft_labels(goal: Goal) -> None:
    """Raise ``ValueError`` if a goal compares predictions with labels that are probabilities of class 1."""
    if isinstance(goal, MetricGoal):
        raise ValueError(
            f"metric={goal.name!r} compares predictions with classes, and the labels are soft, between 0 and 1: give "
            "alpha alone, which sizes labels, or metric='probabilities' with a tolerance"
        )


def _few_rows(outputs: TreeOutputs, rows: Int64s) -> int | None:
    """The number of rows (or groups) outside the largest class, if it is small; otherwise None."""
    if not len(outputs.classes):
        return None
    _, label, counts = np.unique(np.asarray(outputs.y)[rows], return_inverse=True, return_counts=True)
    others = rows[label != counts.argmax()]
    units = outputs.groups.units
    n_others = len(others) if units is None else len(np.unique(units[others]))
    return n_others if n_others < _FEW_ROWS else None


class MetricAnswer(Answer):
    """The loss of a metric in forests of any size.

    Attributes
    ----------
    now : float
        The metric of the trees at hand; out of bag, of the trees that can predict each row.
    lost : MetricLoss
    larger_is_better : bool
    """

    goal: MetricGoal

    too_few: str | None = None
    """Why the rows are too few; None if they are not."""

    def __init__(self, goal: MetricGoal, judge: Metric, lost: MetricLoss, n_few: int | None, lacks_votes: bool) -> None:
        self.goal, self.lost, self.lacks_votes, self._n_few = goal, lost, lacks_votes, n_few
        self.now, self._sign = lost.value, "−" if judge.larger_is_better else "+"
        self.larger_is_better = bool(judge.larger_is_better)
        self._words = metric_in_words(judge.name)
        self.n_rows, self.n_dropped, self.votes_per_row = lost.n_rows, lost.n_dropped, lost.votes_per_row
        self.n_trees = self.size_at(goal.tolerance)

    @property
    def is_bound(self) -> bool:
        return not self.lost.is_significant and 1 < self.n_trees < math.inf

    @property
    def measured(self) -> tuple[tuple[float, float], ...]:
        # Measured against all trees at hand; the law adds the loss of these against an unlimited forest.
        behind = self.value(round(self.lost.asked))
        return tuple((one.n_trees, one.loss + behind) for one in self.lost.measured[-2:])

    def size_at(self, level: float) -> int | float:
        tolerance = positive("tolerance", level)
        if self.lacks_votes or self.lost.is_bent or self.lost.is_reversed or self.too_few:
            return math.inf
        return self.lost.size(tolerance, self._quantile)

    def quantile(self, share_below: float) -> int | float:
        return self.lost.size(self.goal.tolerance, share_below)

    def value(self, n_trees: int) -> float:
        return float(self.lost.loss(n_trees, self._quantile))

    @property
    def _quantile(self) -> float:
        """The quantile of the loss that `value` gives: the median, or an upper bound if the loss is not significant."""
        return 0.5 if self.lost.is_significant else COVERAGE

    def interval(self, n_trees: int) -> tuple[float, float]:
        return float(self.lost.loss(n_trees, TAIL)), float(self.lost.loss(n_trees, 1.0 - TAIL))

    def loss(self, n_trees: int) -> Loss:
        return super().loss(n_trees)._replace(spread=self.lost.of_a_tree / math.sqrt(n_trees))

    def said(self, n_trees: int) -> str:
        value, (low, high), *_ = self.loss(n_trees)
        worse = f"{'' if self.lost.is_significant else 'at most '}{value:.2g} worse than an unlimited forest's"
        return f"{self._words} is expected to be {worse} ({low:.2g} to {high:.2g}); all trees reach {self.now:.4g}"

    def in_short(self, n_trees: int) -> str:
        value = self.value(n_trees)
        if value == 0.0:
            return f"{self._words} unchanged"
        return f"{self._words} {self._sign}{value:.2g}{'' if self.lost.is_significant else ' at most'}"

    def cannot_tell(self, available: int) -> str | None:
        if self.too_few:
            return self.too_few
        if self.lost.is_reversed:
            return (
                f"on these rows the {self._words} gets worse with more trees, so they do not tell how many are enough: "
                "give more rows, or validation rows"
            )
        if not self.lost.is_bent:
            return None
        enough = available * self.lost.enough_to_tell
        unit = 10.0 ** (math.floor(math.log10(enough)) - 1)
        return (
            f"the {self._words} still improves too much with each tree to estimate its limit: train at least "
            f"{int(math.ceil(enough / unit) * unit):,} trees"
        )

    def notes(self) -> list[str]:
        found = []
        if not self.lost.is_significant:
            found.append(
                f"half of the trees lose too little {self._words} to measure, so this size is an upper bound (95 %); "
                "more rows may lower it"
            )
        if self._n_few is not None:
            rows = "1 row is" if self._n_few == 1 else f"{self._n_few} rows are"
            found.append(
                f"only {rows} outside the largest class, so a smaller forest may lose more {self._words} than this "
                f"report says: give at least {_FEW_ROWS} such rows"
            )
        return found

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
        lost, measured, sign = self.value(n_trees), float(self.lost.loss(n_trees, _LEAST)), self._sign
        if self.lost.is_significant:
            return (True, f"{sign}{lost:.2g}") if lost > most else None
        if measured > most:
            return True, f"{sign}{measured:.2g} to {sign}{lost:.2g}"
        return (False, f"{sign}{lost:.2g} at most") if lost > _BOUND * most else None

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.now}
