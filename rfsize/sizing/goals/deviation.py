"""Probabilities and scores: how many trees predict within a tolerance of an unlimited forest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rfsize._util import Floats, positive
from rfsize.counting.coverage import too_many_without_votes
from rfsize.counting.outputs import TreeOutputs, sums_of
from rfsize.counting.part_sums import Scores
from rfsize.estimation.deviation import Deviations, check_scale, noise_of_trees
from rfsize.estimation.intervals import TAIL, quantile_of
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.models.link import Link
from rfsize.sizing.goals.base import Answer, GoalWithin
from rfsize.sizing.words import no_votes_advice

# The default tolerance of numbers, as a share of the standard deviation of y.
_OF_NUMBERS = 0.05


@dataclass(frozen=True)
class DeviationGoal(GoalWithin):
    """Predictions within a tolerance, both as root mean square and on 95 % of the rows."""

    names = ("probabilities", "scores")

    @classmethod
    def beside(cls, outputs: TreeOutputs) -> tuple[str, ...]:
        if outputs.scores is None or not outputs.scores.are_finite():
            return ()
        return ("probabilities",) if len(outputs.classes) else ("scores",)

    @property
    def aim(self) -> str:
        return f"give {self.name} within {self.level_in_words} of an unlimited forest's"

    @property
    def axis(self) -> str:
        return f"{self.name} are off by"

    def checked(self, n_classes: int, y: ArrayLike | None = None, *, in_training: bool = False) -> DeviationGoal:
        if self.name == "probabilities" and not n_classes:
            raise ValueError(
                "metric='probabilities' is for classification: size a regression forest by metric='scores'"
            )
        if self.name == "scores" and n_classes > 2 and in_training:
            raise ValueError(
                "metric='scores' of several classes is not known during training: LightGBM and XGBoost "
                "give scores only up to a number that all classes share. Take metric='probabilities', or "
                "size the finished forest"
            )
        return self

    def answer(self, outputs: TreeOutputs) -> DeviationAnswer:
        """How far predictions move, estimated from the scatter of the trees' scores on each row.

        Raises
        ------
        NotAForestError
            If only votes are known.
        FewVotesError
            If no row has the scores of two trees.
        ValueError
            If the scores are too large or too small to be multiplied.
        """
        scores, link = scores_of(outputs, self.name)
        if len(outputs.classes) and self.name == "scores":
            link = Link("identity")
        check_scale(scores)
        used = scores.take(scores.asked > 1)
        if not len(used):
            raise FewVotesError("no row has the scores of two trees" + no_votes_advice(outputs))
        noise = noise_of_trees(sums_of(outputs).blocks, link)
        n_dropped = len(scores) - len(used)
        lacks_votes = outputs.groups.index is not None and too_many_without_votes(n_dropped, len(scores))
        return DeviationAnswer(self, Deviations(used, link, noise), used, n_dropped, lacks_votes)


def scores_of(outputs: TreeOutputs, metric: Any) -> tuple[Scores, Link]:
    """The trees' scores, and the link from mean scores to predictions; `NotAForestError` if there are no scores."""
    if outputs.scores is None or outputs.predictor is None:
        raise NotAForestError(
            f"metric={metric!r} needs the trees' scores, and counted Votes have none: give rfsize.size the "
            "model and its rows, or size the labels"
        )
    return outputs.scores, outputs.predictor.link


class DeviationAnswer(Answer):
    """How far the predictions of forests of any size are from those of an unlimited forest."""

    goal: DeviationGoal

    def __init__(
        self, goal: DeviationGoal, deviations: Deviations, used: Scores, n_dropped: int, lacks_votes: bool
    ) -> None:
        self.goal, self._deviations = goal, deviations
        self.n_rows, self.n_dropped, self.lacks_votes = len(used), n_dropped, lacks_votes
        self.votes_per_row = float(used.asked.mean())
        self.n_trees = self.size_at(goal.tolerance)

    def size_at(self, level: float) -> int | float:
        tolerance = positive("tolerance", level)
        return math.inf if self.lacks_votes else max(self._deviations.sizes(tolerance))

    @cached_property
    def _replicates(self) -> Floats:
        return self._deviations.replicates(self.goal.tolerance, self.n_trees)

    def quantile(self, share_below: float) -> int | float:
        size = quantile_of(self._replicates, share_below)
        return math.ceil(size - 1e-9) if math.isfinite(size) else math.inf

    def value(self, n_trees: int) -> float:
        return max(self._deviations.at(n_trees))

    def interval(self, n_trees: int) -> tuple[float, float]:
        value = self.value(n_trees)
        if value == 0.0:
            return 0.0, 0.0
        # Sizes at which the deviation might have this value, with other rows and trees; it falls about like 1/√T.
        sizes = self._deviations.replicates(value, n_trees)
        low, high = (value * math.sqrt(float(size) / n_trees) for size in np.quantile(sizes, [TAIL, 1.0 - TAIL]))
        return low, high

    def said(self, n_trees: int) -> str:
        return f"95 % of {self.goal.name} are within {self.value(n_trees):.2g} of an unlimited forest's"

    def in_short(self, n_trees: int) -> str:
        return f"{self.goal.name} ±{self.value(n_trees):.2g}"


def tolerance_of_numbers(y: ArrayLike | None) -> float:
    """The default tolerance of numbers; ``ValueError`` if ``y`` is not known."""
    if y is None:
        raise ValueError(
            "a regression forest needs a tolerance: give y (the tolerance is then 5 % of its standard "
            "deviation), or metric='scores' with a tolerance in the unit of y"
        )
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("the forest is a regression, and y holds something other than numbers: give numbers") from None
    # If y is constant, any tolerance is reached.
    return _OF_NUMBERS * float(numbers.std() if numbers.size else 0.0) or 1.0
