"""The bisection that finds T*: the smallest forest whose mean disagreement is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from rfsize.theory.arguments import MAX_TREES, checked_alpha, single

# A confidence that equals an agreement up to rounding counts as reached.
ROUNDING = 1e-12


def smallest_odd(mean_disagreement: Callable[[int], float], alpha: float, guess: int = 1) -> int | float:
    """The smallest odd size at which a decreasing function of the size is at most 1 − α.

    Parameters
    ----------
    mean_disagreement : callable
        Of an odd size up to `MAX_TREES`.
    alpha : float
        Confidence α, strictly between 0 and 1.
    guess : int, default 1
        Where to begin to look; a good one saves evaluations.

    Returns
    -------
    int or float
        ``math.inf`` where no size up to `MAX_TREES` is enough.

    Raises
    ------
    ValueError
        If α is out of range.

    Examples
    --------
    >>> from rfsize.theory import smallest_odd
    >>> smallest_odd(lambda n_trees: 1.0 / n_trees, alpha=0.98)
    51
    """
    allowed = (1.0 - single("alpha", checked_alpha(alpha))) * (1.0 + ROUNDING)
    # Sizes are 2h + 1; ``low`` is known to be too small, ``high`` to be enough.
    last = (MAX_TREES - 1) // 2
    low, high = -1, last + 1
    at_low, at_high = math.inf, 0.0
    half, stride = min(max((guess - 1) // 2, 0), last), 1.0
    while high - low > 1:
        value = mean_disagreement(2 * half + 1)
        if value <= allowed:
            high, at_high = half, value
        else:
            low, at_low = half, value
        if low == last:
            return math.inf
        if high > last:
            half, stride = min(math.ceil((low + 1) * 2.0**stride), last), stride + 1.0
        elif low < 0:
            half, stride = math.floor(high / 2.0**stride), stride + 1.0
        else:
            half = _between(low, high, at_low, at_high, allowed)
    return 2 * high + 1


def _between(low: int, high: int, at_low: float, at_high: float, allowed: float) -> int:
    """Where a power law through both ends falls to what is allowed, kept a tenth of the way off either end."""
    lower, upper = math.log(low + 0.5), math.log(high + 0.5)
    place = 0.5
    if at_high > 0.0:
        place = math.log(at_low / allowed) / math.log(at_low / at_high)
    found = math.exp(lower + min(max(place, 0.1), 0.9) * (upper - lower))
    return min(max(round(found - 0.5), low + 1), high - 1)
