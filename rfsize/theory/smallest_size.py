"""The one search for T*: the smallest forest whose expected loss is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from rfsize.theory.arguments import MAX_TREES

ROUNDING = 1e-12
"""By how much of itself a loss may exceed the level, and counts as within it."""


def smallest_size(loss: Callable[[int], float], level: float, *, guess: float = 1, odd: bool = False) -> int | float:
    """The smallest ensemble size whose loss is at most ``level``, if the loss falls with the size.

    Parameters
    ----------
    loss : callable
        The loss as a function of the size, up to `MAX_TREES`.
    level : float
        The largest loss allowed, above 0.
    guess : int or float, default 1
        Where to begin to look; a good guess saves evaluations.
    odd : bool, default False
        Consider odd sizes only, so that the majority of two classes is never a tie.

    Returns
    -------
    int or float
        ``math.inf`` where no size up to `MAX_TREES` is enough.

    Raises
    ------
    ValueError
        If the level is not above 0.

    Examples
    --------
    >>> from rfsize.theory import smallest_size
    >>> smallest_size(lambda n_trees: 1.0 / n_trees, 0.03)
    34
    >>> smallest_size(lambda n_trees: 1.0 / n_trees, 0.03, odd=True)
    35
    """
    if not level > 0.0:
        raise ValueError(f"level must be above 0, which only the infinite forest reaches; found {level!r}")
    allowed, step = level * (1.0 + ROUNDING), 2 if odd else 1
    # Sizes are step·k + 1; ``low`` is known to be too small, ``high`` to be enough.
    last = (MAX_TREES - 1) // step
    low, high = -1, last + 1
    at_low, at_high = math.inf, 0.0
    place = int(min(max((min(guess, MAX_TREES) - 1) // step, 0), last))
    doublings = 1.0
    while high - low > 1:
        value = loss(step * place + 1)
        if value <= allowed:
            high, at_high = place, value
        else:
            low, at_low = place, value
        if low == last:
            return math.inf
        if high > last:
            place, doublings = min(math.ceil((low + 1) * 2.0**doublings), last), doublings + 1.0
        elif low < 0:
            place, doublings = math.floor(high / 2.0**doublings), doublings + 1.0
        else:
            place = _between(low, high, at_low, at_high, allowed)
    return step * high + 1


def _between(low: int, high: int, at_low: float, at_high: float, allowed: float) -> int:
    """Where a power law through both ends falls to what is allowed, kept a tenth of the way off either end."""
    lower, upper = math.log(low + 0.5), math.log(high + 0.5)
    way = 0.5
    if at_high > 0.0:
        way = math.log(at_low / allowed) / math.log(at_low / at_high)
    found = math.exp(lower + min(max(way, 0.1), 0.9) * (upper - lower))
    return min(max(round(found - 0.5), low + 1), high - 1)
