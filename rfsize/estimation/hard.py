"""Hard voting: the ways to estimate agreement of majority votes from counted votes, and which of them to take.

Averaged over problems, the smooth estimate of T*(0.99) is the nearer one from 50 trees as from 1000, and that of
T*(0.95) about as near as the other (benchmarks/estimator.py). The exception is forests whose trees are of two minds on
some rows, as many of each: no smooth density has such a peak at 1/2.
"""

from __future__ import annotations

from collections.abc import Callable

from rfsize.estimation import deconvolution
from rfsize.estimation.base import Estimate
from rfsize.estimation.deconvolution import SmoothFractions, VoteCells
from rfsize.estimation.pairwise import SmoothPairs
from rfsize.estimation.plugin import plug_in
from rfsize.voting.votes import Votes


def smooth(votes: Votes) -> Estimate:
    """Densities fitted to the votes of all rows; raises ``ValueError`` where no row has a vote."""
    found: SmoothFractions | SmoothPairs
    if len(votes.classes) == 2:
        found = SmoothFractions(deconvolution.fit_density(VoteCells.of(votes.histogram())))
    else:
        found = SmoothPairs.of(votes)
    found.caveat = deconvolution.peak_caveat(found.peak, "votes")
    return found


def smooth_or_plug_in(votes: Votes) -> Estimate:
    """The smooth estimate, unless the votes have a peak at 1/2 that it cannot follow: then the plug-in estimate."""
    return smooth(votes).unless_doubted(lambda: plug_in(votes))


ESTIMATORS: dict[str, Callable[[Votes], Estimate]] = {"auto": smooth_or_plug_in, "plugin": plug_in, "smooth": smooth}
