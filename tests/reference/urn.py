"""The urn's masses and priors as sums over the final tallies, in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction


def urn_masses(prior: list[Fraction], asked: int, count: int) -> tuple[Fraction, Fraction]:
    """P(``count`` of the first ``asked`` votes are for class 1, and class 0, or 1, wins), as sums over the tallies."""
    n_trees = len(prior) - 1
    wins = [Fraction(0), Fraction(0)]
    for tally, weight in enumerate(prior):
        if count <= tally and asked - count <= n_trees - tally:
            ways = math.comb(tally, count) * math.comb(n_trees - tally, asked - count)
            wins[2 * tally > n_trees] += weight * Fraction(ways, math.comb(n_trees, asked))
    return wins[0], wins[1]


def ternary_masses(prior: dict[tuple[int, ...], Fraction], counts: tuple[int, ...]) -> list[Fraction]:
    """P(the first votes are ``counts``, and class k wins), for each of three classes."""
    wins = [Fraction(0)] * 3
    for tally, weight in prior.items():
        ways = math.prod(math.comb(full, some) for full, some in zip(tally, counts, strict=True))
        wins[tally.index(max(tally))] += weight * Fraction(ways, math.comb(sum(tally), sum(counts)))
    return wins


def smoothed(
    histogram: dict[tuple[int, ...], float], tallies: list[tuple[int, ...]], reach: int = 2
) -> dict[tuple[int, ...], float]:
    """Every tally's weight spread evenly over the tallies at most ``reach`` votes of any class away."""
    spread = dict.fromkeys(tallies, 0.0)
    for tally, weight in histogram.items():
        window = [other for other in tallies if max(abs(a - b) for a, b in zip(tally, other, strict=True)) <= reach]
        for other in window:
            spread[other] += weight / len(window)
    total = sum(spread.values())
    return {tally: weight / total for tally, weight in spread.items()}


def scaled_tally(votes_of_class: int, asked: int, n_trees: int) -> int:
    """The whole number nearest to the fraction of ``n_trees``, halves downwards."""
    return math.ceil(Fraction(votes_of_class * n_trees, asked) - Fraction(1, 2))
