"""Goal: which size of a forest is looked for."""

from __future__ import annotations

from dataclasses import dataclass

from rfsize.estimation.hard import ESTIMATORS
from rfsize.utils.validation import choice, share
from rfsize.voting.outputs import VOTINGS

AVERAGES = ("micro", "macro")


@dataclass(frozen=True)
class Goal:
    """T*(α) of a rule of voting, by an estimator; raises ``ValueError`` where one of them is none.

    Attributes
    ----------
    alpha, voting, estimator, average
        As in `rfsize.size`.
    sure : float or None
        How sure it must be that a forest in training has T*(α) trees, before it ends: its size is then the upper end of
        a one-sided interval. None asks for T*(α) itself.
    """

    alpha: float = 0.99
    voting: str = "hard"
    estimator: str = "auto"
    average: str = "micro"
    sure: float | None = None

    def __post_init__(self) -> None:
        share("alpha", self.alpha)
        if self.sure is not None and share("sure", self.sure) < 0.5:
            raise ValueError(
                f"sure must be at least 0.5, which asks for T* itself, found {self.sure!r}: a forest that is more "
                "likely too small than not is none to stop at"
            )
        choice("voting", self.voting, VOTINGS)
        choice("estimator", self.estimator, ESTIMATORS)
        choice("average", self.average, AVERAGES)
