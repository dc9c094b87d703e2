"""The search for T*: the smallest ensemble size with a small enough expected loss."""

from __future__ import annotations

import math
from collections.abc import Callable

from rfsize.theory.arguments import MAX_TREES

ROUNDING = 1e-12
"""Relative tolerance: a loss of up to (1 + ROUNDING) times the level counts as small enough."""


def smallest_size(loss: Callable[[int], float], level: float, *, guess: float = 1, odd: bool = False) -> int | float:
    """Find the smallest ensemble size with a loss of at most ``level``, if the loss falls with the size.

    Parameters
    ----------
    loss : callable
        Function of the size that returns the loss, for sizes up to `MAX_TREES`.
    level : float
        The largest loss allowed, above 0.
    guess : int or float, default 1
        Size to try first. A good guess saves calls of ``loss``.
    odd : bool, default False
        Try odd sizes only, so that votes for two classes never tie.

    Returns
    -------
    int or float
        The size, or ``math.inf`` if even `MAX_TREES` trees are too few.

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
        raise ValueError(f"level must be above 0, which only an unlimited forest reaches; found {level!r}")
    allowed, step = level * (1.0 + ROUNDING), 2 if odd else 1
    # Sizes are step·k + 1. The size at ``low`` is too small; the size at ``high`` is enough.
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
    """Next size to try: where a power law through both ends reaches the allowed loss.

    The size stays a tenth of the way off either end, so that the search always gets shorter.
    """
    lower, upper = math.log(low + 0.5), math.log(high + 0.5)
    way = 0.5
    if at_high > 0.0:
        way = math.log(at_low / allowed) / math.log(at_low / at_high)
    found = math.exp(lower + min(max(way, 0.1), 0.9) * (upper - lower))
    return min(max(round(found - 0.5), low + 1), high - 1)
