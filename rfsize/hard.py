"""Hard voting: the ways to estimate agreement of majority votes from counted votes, and which of them to take.

Averaged over problems, the smooth estimate is the nearer one from 50 trees as from 1000 (benchmarks/estimator.py). The
exception is forests whose trees are of two minds on some rows, as many of each: no smooth density has such a peak at
1/2.
"""

from __future__ import annotations

from collections.abc import Callable

from rfsize import mixture
from rfsize.contests import SmoothContests
from rfsize.estimate import Estimate
from rfsize.fractions import plug_in
from rfsize.mixture import SmoothFractions, VoteCells
from rfsize.votes import Votes

# Twice a log-likelihood ratio: where no row is tied, one set of votes in 400 has a larger one by chance.
MOST_PEAKED = 8.0

_PEAKED = "the votes show more rows at a tie than a smooth density has, and T* may be far larger than any estimate says"


def smooth(votes: Votes) -> Estimate:
    """Densities fitted to the votes of all rows; raises ``ValueError`` where no row has a vote."""
    found: SmoothFractions | SmoothContests
    if len(votes.classes) == 2:
        found = SmoothFractions(mixture.fit(VoteCells.of(votes.histogram())))
    else:
        found = SmoothContests.of(votes)
    if not is_followed(found.peak):
        found.caveat = _PEAKED
    return found


def automatic(votes: Votes) -> Estimate:
    """The smooth estimate, unless the votes have a peak at 1/2 that it cannot follow: then the plug-in estimate."""
    found = smooth(votes)
    if found.caveat is None:
        return found
    found = plug_in(votes)
    found.caveat = _PEAKED
    return found


def is_followed(peak: float) -> bool:
    """Whether a smooth density follows votes with such a peak at 1/2, see `rfsize.mixture.Density`."""
    return peak <= MOST_PEAKED


ESTIMATORS: dict[str, Callable[[Votes], Estimate]] = {"auto": automatic, "plugin": plug_in, "smooth": smooth}
