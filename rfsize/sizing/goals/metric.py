"""Metrics: how many trees keep a metric within a tolerance of an unlimited forest's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfsize.counting.representative import too_many_untold
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.sizing.chances import cautions_of, chances_in_blocks
from rfsize.sizing.goals.base import TAIL, Answer, Goal, Loss, within_reach
from rfsize.sizing.goals.deviation import scores_of
from rfsize.sizing.loss import MetricLoss, metric_loss
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import METRIC_WORDS, MetricLike, check_metric, judge_of, predictions_for
from rfsize.utils.validation import positive
from rfsize.utils.warn import Caution

# Rows of some kind must be known to quarters of the trees, all of them, to tell what a metric loses by fewer.
_FEWEST_VOTES = 40


@dataclass(frozen=True)
class MetricGoal(Goal):
    """A metric that is expected to be worse than an unlimited forest's by no more than a tolerance.

    Attributes
    ----------
    metric : str or callable
        The metric, or a scorer of scikit-learn's.
    tolerance : float
        How much worse it may be.
    """

    metric: MetricLike
    tolerance: float

    easier = "a larger tolerance"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metric(self.metric)
        positive("tolerance", self.tolerance)

    @property
    def name(self) -> str:
        return self.metric if isinstance(self.metric, str) else getattr(self.metric, "__name__", "scorer")

    @property
    def level(self) -> float:
        return self.tolerance

    @property
    def options(self) -> dict[str, Any]:
        return {"metric": self.metric, "tolerance": self.tolerance}

    @property
    def title(self) -> str:
        return f"T*({self.name} within {self.asked})"

    @property
    def aim(self) -> str:
        return f"keep the {_in_words(self.name)} within {self.asked} of an unlimited forest's"

    @property
    def axis(self) -> str:
        return f"{_in_words(self.name)} is expected to be worse by"

    @property
    def of_labels(self) -> bool:
        return self.metric == "accuracy"

    @property
    def fewest_votes(self) -> int:
        return _FEWEST_VOTES

    def answer(self, outputs: TreeOutputs) -> MetricAnswer:
        """What the metric loses, by what smaller forests of the trees at hand lose.

        Raises
        ------
        NotAForestError
            If the members are no trees.
        FewVotesError
            If too few trees were asked about a row.
        ValueError
            If ``y`` is missing, the metric is no number, or it is not known whether it is better when larger.
        """
        scores_of(outputs, self.metric)
        blocks = outputs.blocks
        assert blocks is not None
        judge = judge_of(self.metric, outputs)
        if judge.larger_is_better is None:
            raise ValueError(
                f"the callable {judge.name!r} does not say whether more of it is better: give a scorer, "
                "sklearn.metrics.make_scorer(..., greater_is_better=...), which does"
            )
        found = metric_loss(blocks, judge, predictions_for(outputs, judge), outputs.units)
        cautions = cautions_of(judge, chances_in_blocks(judge, blocks))
        unasked = int(np.count_nonzero((blocks.asked.sum(axis=1) == 0).any(axis=1)))
        untold = outputs.groups.index is not None and too_many_untold(unasked, len(blocks.rows))
        return MetricAnswer(self, judge, found, cautions, untold)


def usual_metrics(outputs: TreeOutputs) -> tuple[str, ...]:
    """The metrics that a report about something else lists; none where the truth or the trees' scores are not known.

    The Brier score takes the place of a logarithmic loss that may be infinite because leaves hold rows of some classes
    only.
    """
    if outputs.y is None or outputs.blocks is None or outputs.scores is None or not outputs.scores.are_finite():
        return ()
    if not len(outputs.classes):
        return ("rmse",)
    judge = judge_of("log_loss", outputs)
    is_infinite = chances_in_blocks(judge, outputs.blocks).doubt(judge.name) is not None
    of_probabilities = "brier" if is_infinite else "log_loss"
    return (of_probabilities, "auc") if len(outputs.classes) == 2 else (of_probabilities,)


def _in_words(name: str) -> str:
    return METRIC_WORDS.get(name, name)


class MetricAnswer(Answer):
    """What a metric loses in forests of any size.

    Attributes
    ----------
    now : float
        The metric of the trees at hand; out of bag, of those that each row may ask.
    lost : MetricLoss
    cautions : tuple of Caution
        Warnings about the metric itself, such as that it may be infinite on other rows.
    """

    goal: MetricGoal

    def __init__(
        self, goal: MetricGoal, judge: Metric, found: MetricLoss, cautions: tuple[Caution, ...], untold: bool
    ) -> None:
        self.goal, self.lost, self.cautions, self.untold = goal, found, cautions, untold
        self.name, self.now, self._sign = judge.name, found.value, "−" if judge.larger_is_better else "+"
        self.n_rows, self.n_dropped, self.votes_per_row = found.n_rows, found.n_dropped, found.votes_per_row
        self.n_trees = self.size_at(goal.tolerance)

    @property
    def is_bound(self) -> bool:
        return not self.lost.is_told and math.isfinite(self.n_trees)

    @property
    def measured(self) -> tuple[tuple[float, float], ...]:
        # They are measured against all trees at hand, of which the rest is the law's.
        behind = self.value(round(self.lost.asked))
        return tuple((part.asked, part.loss + behind) for part in (self.lost.quarters, self.lost.halves))

    def size_at(self, level: float) -> int | float:
        tolerance = positive("tolerance", level)
        return math.inf if self.untold or self.lost.is_bent else within_reach(self.lost.size(tolerance))

    def quantile(self, share_below: float) -> int | float:
        return within_reach(self.lost.size(self.goal.tolerance, share_below))

    def value(self, n_trees: int) -> float:
        return float(self.lost.loss(n_trees))

    def interval(self, n_trees: int) -> tuple[float, float]:
        return float(self.lost.loss(n_trees, TAIL)), float(self.lost.loss(n_trees, 1.0 - TAIL))

    def loss(self, n_trees: int) -> Loss:
        return super().loss(n_trees)._replace(spread=self.lost.of_a_tree / math.sqrt(n_trees))

    def said(self, n_trees: int) -> str:
        value, (low, high), *_ = self.loss(n_trees)
        worse = f"{'' if self.lost.is_told else 'at most '}{value:.2g} worse than an unlimited forest's"
        return f"{_in_words(self.name)} {self.now:.4g}, expected to be {worse} ({low:.2g} to {high:.2g})"

    def in_short(self, n_trees: int) -> str:
        value = self.value(n_trees)
        if value == 0.0:
            return f"{_in_words(self.name)} unchanged"
        return f"{_in_words(self.name)} {self._sign}{value:.2g}{'' if self.lost.is_told else ' at most'}"

    def cannot_tell(self, available: int) -> str | None:
        if not self.lost.is_bent:
            return None
        enough = available * self.lost.enough_to_tell
        unit = 10.0 ** (math.floor(math.log10(enough)) - 1)
        return (
            f"the {_in_words(self.name)} gains so much by more trees that its loss does not yet fall as 1/T: train at "
            f"least {int(math.ceil(enough / unit) * unit):,} trees to tell"
        )

    def notes(self) -> list[str]:
        if self.lost.is_told:
            return []
        return [
            f"halves of the trees lose too little {_in_words(self.name)} to be told from nothing, so that the size is "
            "what the largest loss that the rows allow would take (95 %): more rows may make it smaller"
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.now}
