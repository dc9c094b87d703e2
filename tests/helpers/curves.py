"""Intervals of what estimates might also have come out as."""

from __future__ import annotations

from rfsize.estimation.intervals import Curves


def interval_of(curves: Curves, alpha: float) -> tuple[int | float, int | float]:
    """95 % interval of T*(α)."""
    return curves.quantile(alpha, 0.025), curves.quantile(alpha, 0.975)
