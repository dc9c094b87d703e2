"""How many trees it takes until importances hardly change with the seed: the goal, and its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from rfsize.counting.outputs import TreeOutputs
from rfsize.estimation.intervals import TAIL, between, crossing
from rfsize.sizing.goals.base import Answer, Goal
from rfsize.sizing.named_metrics import MetricLike
from rfsize.statistics.stability import SIZES, instability, rank_correlation, share_in_common
from rfsize.utils.typing import Floats
from rfsize.utils.validation import share
from rfsize.utils.words import in_percent

if TYPE_CHECKING:
    from rfsize.api.importance import Importances

_LEAST = 1e-12  # losses are at least this large, so that they have a logarithm


@dataclass(frozen=True, eq=False)
class ImportanceGoal(Goal):
    """The goal that a forest with another seed has nearly the same order of importances.

    Attributes
    ----------
    of : Importances
        The importances of the forest at hand.
    alpha : float
        Rank correlation that two forests must reach. With ``top``, the share of the ``top`` most important columns that
        both must have in common.
    top : int or None
        How many of the most important columns to compare; None compares the order of all.
    """

    of: Importances
    alpha: float = 0.95
    top: int | None = None

    is_of_predictions = False
    takes_alpha = True

    def __post_init__(self) -> None:
        super().__post_init__()
        share("alpha", self.alpha)

    @classmethod
    def named(cls, metric: MetricLike, **given: Any) -> Goal:
        return cls(**given)

    @property
    def is_share(self) -> bool:  # type: ignore[override]
        return self.top is not None

    @property
    def name(self) -> str:
        return "importance"

    @property
    def level(self) -> float:
        return 1.0 - self.alpha

    @property
    def level_in_words(self) -> str:
        return f"{self.alpha:g}" if self.top is None else in_percent(self.alpha)

    @property
    def options(self) -> dict[str, Any]:
        return {"alpha": self.alpha} if self.top is None else {"alpha": self.alpha, "top": self.top}

    @property
    def title(self) -> str:
        if self.top is None:
            return f"T*(rank correlation {self.level_in_words})"
        return f"T*({self.level_in_words} of the first {self.top})"

    @property
    def aim(self) -> str:
        if self.top is None:
            return f"order the columns as a forest of another seed does, by a rank correlation of {self.level_in_words}"
        return f"have {self.level_in_words} of the first {self.top} columns in common with a forest of another seed"

    easier = "a lower alpha"

    @property
    def axis(self) -> str:
        if self.top is None:
            return "1 less the rank correlation of two forests"
        return f"of the first {self.top} columns, two forests differ in"

    def answer(self, outputs: TreeOutputs) -> Answer:
        """The answer from ``of``, which already holds what the outputs say."""
        return self.answered()

    def answered(self) -> ImportanceAnswer:
        """The answer, which needs no outputs."""
        likeness = rank_correlation if self.top is None else share_in_common(self.top)
        blocks = self.of.block_losses
        return ImportanceAnswer(self, *instability(blocks, self.of.available / len(blocks), likeness))


class ImportanceAnswer(Answer):
    """How alike the importances of two forests of any size are.

    The intervals come from the jackknife over parts of the trees, on the logarithm of sizes and losses.
    """

    goal: ImportanceGoal
    against = "a forest of another seed"
    n_dropped, lacks_votes = 0, False

    def __init__(self, goal: ImportanceGoal, expected: Floats, without: Floats) -> None:
        self.goal, self._expected, self._without = goal, expected, without
        self.n_rows, self.votes_per_row = goal.of.n_rows, goal.of.votes_per_row
        self.n_trees = self.size_at(goal.alpha)

    def size_at(self, level: float) -> int | float:
        return _whole(self._crossing(self._expected[None], level)[0])

    def quantile(self, share_below: float) -> int | float:
        found = self._crossing(self._expected[None], self.goal.alpha)[0]
        if not math.isfinite(found):
            return 1 if share_below < 0.5 else math.inf
        without = np.log(self._crossing(self._without, self.goal.alpha))
        error = _jackknife(without) if np.isfinite(without).all() else math.inf
        if not math.isfinite(error):
            return 1 if share_below < 0.5 else math.inf
        return _whole(found * math.exp(error * float(student.ppf(share_below, len(without) - 1.0))))

    def value(self, n_trees: int) -> float:
        return float(_at(n_trees, self._expected))

    def interval(self, n_trees: int) -> tuple[float, float]:
        error = _jackknife(np.log(_at(n_trees, self._without)))
        off = math.exp(error * float(student.ppf(1.0 - TAIL, len(self._without) - 1.0)))
        return self.value(n_trees) / off, min(self.value(n_trees) * off, 1.0)

    def said(self, n_trees: int) -> str:
        alike = 1.0 - self.value(n_trees)
        low, high = (1.0 - end for end in reversed(self.interval(n_trees)))
        if self.goal.top is None:
            return f"importances of two such forests have a rank correlation of {alike:.3f} ({low:.3f} to {high:.3f})"
        top = self.goal.top
        return (
            f"two such forests have {top * alike:.1f} of the first {top} columns in common ({top * low:.1f} to "
            f"{top * high:.1f})"
        )

    def in_short(self, n_trees: int) -> str:
        return f"importances unlike by {self.value(n_trees):.2g}"

    def why_infinite(self) -> str:
        return f"more than {SIZES[-1]:,} trees would be needed, since some columns matter equally"

    def notes(self) -> list[str]:
        is_noise = np.array([column.is_noise for column in self.goal.of.columns])
        told = int(np.count_nonzero(~is_noise))
        if self.goal.top is not None or told in (0, len(is_noise)):
            return []
        return [
            f"{len(is_noise) - told} of {len(is_noise)} columns may be noise, and their order takes the most "
            f"trees: size(top={told}) is about the other columns only"
        ]

    def _crossing(self, curves: Floats, alpha: float) -> Floats:
        return np.array(crossing(SIZES, curves, 1.0 - share("alpha", alpha)))


def _at(n_trees: int, curves: Floats) -> Floats:
    """Read curves at a size, with straight lines between known sizes on logarithmic scales."""
    return np.exp(between(n_trees, SIZES, np.log(np.maximum(curves, _LEAST))))


def _jackknife(without: Floats) -> float:
    """Standard error of an estimate, from its values without each part of the trees."""
    return math.sqrt((len(without) - 1.0) * float(without.var()))


def _whole(size: float) -> int | float:
    return max(1, math.ceil(size - 1e-9)) if math.isfinite(size) else math.inf
