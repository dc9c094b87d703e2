"""Averaged scores once more, row by row and tree by tree, in plain floats."""

from __future__ import annotations

import math
from statistics import fmean, stdev


def leads(trees: list[list[float]], cut: float) -> list[float]:
    """Mean over standard deviation of the winner's scores less each rival's, in the order of the classes.

    ``trees`` holds the scores that each tree gives one row; a single one is that of class 1, won by exceeding the cut.
    """
    if len(trees[0]) == 1:
        sign = 1.0 if fmean(score for (score,) in trees) > cut else -1.0
        return [_ratio([sign * (score - cut) for (score,) in trees])]
    means = [fmean(column) for column in zip(*trees, strict=True)]
    winner = means.index(max(means))
    rivals = [index for index in range(len(means)) if index != winner]
    return [_ratio([tree[winner] - tree[rival] for tree in trees]) for rival in rivals]


def _ratio(ahead: list[float]) -> float:
    spread = stdev(ahead)
    return fmean(ahead) / spread if spread > 0.0 else math.inf


def disagreement(rows: list[list[float]], n_trees: int) -> float:
    """Mean over rows of one minus the product over the rivals of Φ(√T·lead)."""
    return fmean(
        1.0 - math.prod(1.0 - 0.5 * math.erfc(lead * math.sqrt(n_trees / 2.0)) for lead in leads) for leads in rows
    )


def size(rows: list[list[float]], alpha: float) -> int:
    """The smallest odd number of trees that agrees with the limit on a share α of the rows, tried one by one."""
    n_trees = 1
    while disagreement(rows, n_trees) > 1.0 - alpha:
        n_trees += 2
    return n_trees


def losing_votes(lead: float, asked: int) -> float:
    """Votes for the rival, of so many, whose mean as ±1 is as many times their standard deviation, by bisection."""
    low, high = 0.0, 0.5
    for _ in range(200):
        fraction = (low + high) / 2.0
        ahead = [1.0 - 2.0 * fraction, math.sqrt(asked / (asked - 1) * 4.0 * fraction * (1.0 - fraction))]
        low, high = (low, fraction) if ahead[0] < lead * ahead[1] else (fraction, high)
    return asked * low
