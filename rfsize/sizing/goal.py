"""Goal: which size of a forest is looked for."""

from __future__ import annotations

from dataclasses import dataclass

from rfsize.estimation.hard import ESTIMATORS
from rfsize.utils.validation import choice, share
from rfsize.voting.outputs import VOTINGS


@dataclass(frozen=True)
class Goal:
    """T*(α) of a rule of voting, by an estimator; raises ``ValueError`` where one of them is none.

    Attributes
    ----------
    alpha, voting, estimator
        As in `rfsize.size`.
    """

    alpha: float = 0.99
    voting: str = "hard"
    estimator: str = "auto"

    def __post_init__(self) -> None:
        share("alpha", self.alpha)
        choice("voting", self.voting, VOTINGS)
        choice("estimator", self.estimator, ESTIMATORS)
