"""How many trees it takes until importances hardly change with the seed: the goal, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rfsize._util import in_percent, share
from rfsize.counting.outputs import TreeOutputs
from rfsize.sizing.goals.base import Answer, Goal
from rfsize.sizing.named_metrics import MetricLike
from rfsize.statistics.curve import Estimate


@dataclass(frozen=True, eq=False)
class ImportanceGoal(Goal):
    """The goal that a forest with another seed has nearly the same order of importances.

    Attributes
    ----------
    estimate : Estimate
        How alike forests of any size are.
    alpha : float
        Rank correlation that two forests must reach. With ``top``, the share of the ``top`` most important columns that
        both must have in common.
    top : int or None
        How many of the most important columns to compare; None compares the order of all.
    """

    estimate: Estimate
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
        """The answer, which needs no outputs."""
        return ImportanceAnswer(self)


class ImportanceAnswer(Answer):
    """How alike the importances of two forests of any size are."""

    goal: ImportanceGoal
    against = "a forest of another seed"
    lacks_votes = False

    def __init__(self, goal: ImportanceGoal) -> None:
        self.goal, self._estimate = goal, goal.estimate
        self.n_rows, self.n_dropped, self.votes_per_row = goal.estimate.n_rows, 0, goal.estimate.votes_per_row
        self.n_trees = self.size_at(goal.alpha)

    def size_at(self, level: float) -> int | float:
        return self._estimate.curve.size(1.0 - share("alpha", level))

    def quantile(self, share_below: float) -> int | float:
        return self._estimate.curve.size_quantile(self.goal.level, share_below)

    def value(self, n_trees: int) -> float:
        return self._estimate.curve.at(n_trees)

    def interval(self, n_trees: int) -> tuple[float, float]:
        return self._estimate.curve.interval(n_trees)

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
        return str(self._estimate.why_infinite)

    def notes(self) -> list[str]:
        return list(self._estimate.notes)
