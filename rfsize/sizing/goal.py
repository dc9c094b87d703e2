"""Goal: which size of a growing forest is looked for, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass

from rfsize.sizing.size_report import ESTIMATORS, SizeReport
from rfsize.utils.validation import choice, share
from rfsize.voting.outputs import VOTINGS, TreeOutputs


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

    def report(self, outputs: TreeOutputs, *, available: int, source: str) -> SizeReport:
        """How near a forest of ``available`` trees is to it; raises as `SizeReport.of`."""
        return SizeReport.of(
            outputs,
            alpha=self.alpha,
            available=available,
            source=source,
            voting=self.voting,
            estimator=self.estimator,
        )


def next_look(report: SizeReport) -> int:
    """Trees at which to estimate the size of a forest that is too small again: min(T*, twice its trees).

    That is figure 3 of Hernández-Lobato et al. 2013.
    """
    # T* may lie below the trees at hand where these have too few votes to tell.
    wanted = report.n_trees if report.n_trees > report.available else 2 * report.available
    return int(min(wanted, 2 * report.available))
