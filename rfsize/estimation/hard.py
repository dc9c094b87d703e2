"""Hard voting: how to estimate the agreement of majority votes from counted votes.

Averaged over problems, the smooth estimate of T*(0.99) is more accurate than the plug-in estimate, from 50 trees and
from 1000; for T*(0.95) both are about equal (benchmarks/estimator.py). There is one exception: if on some rows exactly
half of the trees vote for each class, no smooth density follows the peak at 1/2.
"""

from __future__ import annotations

from collections.abc import Callable

from rfsize.counting.votes import Votes
from rfsize.estimation import deconvolution
from rfsize.estimation.base import Estimate
from rfsize.estimation.deconvolution import SmoothFractions, VoteCells
from rfsize.estimation.pairwise import SmoothPairs
from rfsize.estimation.plugin import plug_in


def smooth(votes: Votes) -> Estimate:
    """The smooth estimate: densities fitted to the votes of all rows; ``ValueError`` if no row has a vote."""
    found: SmoothFractions | SmoothPairs
    if len(votes.classes) == 2:
        found = SmoothFractions(deconvolution.fit_density(VoteCells.of(votes.histogram())))
    else:
        found = SmoothPairs.of(votes)
    found.caveat = deconvolution.peak_caveat(found.peak, "votes")
    return found


def smooth_or_plug_in(votes: Votes) -> Estimate:
    """The smooth estimate, or the plug-in estimate if the votes have a peak at 1/2."""
    return smooth(votes).unless_doubted(lambda: plug_in(votes))


ESTIMATORS: dict[str, Callable[[Votes], Estimate]] = {"auto": smooth_or_plug_in, "plugin": plug_in, "smooth": smooth}
