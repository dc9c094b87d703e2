"""The urn's masses and priors as sums over the final tallies, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def urn_masses(prior: list[Fraction], n_votes: int, count: int) -> tuple[Fraction, Fraction]:
    """P(``count`` of the first ``asked`` votes are for class 1, and class 0, or 1, wins), as sums over the tallies."""
    n_trees = len(prior) - 1
    wins = [Fraction(0), Fraction(0)]
    for tally, weight in enumerate(prior):
        if count <= tally and n_votes - count <= n_trees - tally:
            ways = math.comb(tally, count) * math.comb(n_trees - tally, n_votes - count)
            wins[2 * tally > n_trees] += weight * Fraction(ways, math.comb(n_trees, n_votes))
    return wins[0], wins[1]


def tally_masses(prior: dict[tuple[int, ...], Fraction], counts: list[int]) -> list[Fraction]:
    """P(the first votes have these counts, and class k wins), for each k, as sums over the final tallies."""
    wins = [Fraction(0)] * len(counts)
    for tally, weight in prior.items():
        ways = math.prod(math.comb(*pair) for pair in zip(tally, counts, strict=True))
        wins[tally.index(max(tally))] += weight * Fraction(ways, math.comb(sum(tally), sum(counts)))
    return wins


def redrawn(prior: dict[tuple[int, ...], Fraction], n_redrawn: int) -> dict[tuple[int, ...], Fraction]:
    """Votes taken back at random, and as many drawn anew, each class with the weight of its votes so far plus one."""
    for step in [-1] * n_redrawn + [1] * n_redrawn:
        moved: dict[tuple[int, ...], Fraction] = {}
        for tally, weight in prior.items():
            shares = [count + (step > 0) for count in tally]
            for label, share in enumerate(shares):
                if share:
                    other = tuple(count + step * (index == label) for index, count in enumerate(tally))
                    moved[other] = moved.get(other, Fraction(0)) + weight * Fraction(share, sum(shares))
        prior = moved
    return prior


def by_ones(prior: list[Fraction]) -> dict[tuple[int, ...], Fraction]:
    """A prior over the votes for class 1, as one over the tallies of two classes."""
    return {(len(prior) - 1 - ones, ones): weight for ones, weight in enumerate(prior)}


def smoothed(histogram: Sequence[int | Fraction]) -> list[Fraction]:
    """rfsize's smoothing: the weight of each tally is spread evenly over the tallies at most two votes away."""
    spread = [Fraction(0)] * len(histogram)
    for tally, weight in enumerate(histogram):
        window = [other for other in range(len(histogram)) if abs(other - tally) <= 2]
        for other in window:
            spread[other] += Fraction(weight, len(window))
    return [weight / sum(spread) for weight in spread]


def smoothed_by_the_authors(histogram: list[int]) -> list[Fraction]:
    """The authors' smoothing: a moving average whose window of five shrinks symmetrically at the ends."""
    last = len(histogram) - 1
    means = []
    for tally in range(last + 1):
        reach = min(2, tally, last - tally)
        window = histogram[tally - reach : tally + reach + 1]
        means.append(Fraction(sum(window), len(window)))
    return [mean / sum(means) for mean in means]


def tallies_of(rows: list[tuple[int, int]], n_trees: int) -> list[int]:
    """How many rows have each number of ``n_trees`` votes for class 1, with their own votes scaled and rounded."""
    tallies = [scaled_tally(of_class, zero + of_class, n_trees) for zero, of_class in rows if zero + of_class]
    return [tallies.count(tally) for tally in range(n_trees + 1)]


def scaled_tally(votes_of_class: int, n_votes: int, n_trees: int) -> int:
    """The whole number nearest to the fraction of ``n_trees``, halves downwards."""
    return math.ceil(Fraction(votes_of_class * n_trees, n_votes) - Fraction(1, 2))


def pair_tallies_of(rows: list[tuple[int, ...]], n_trees: int) -> list[Fraction]:
    """The same of the two leading classes of each row, in both orders with half of its weight."""
    tallies = [Fraction(0)] * (n_trees + 1)
    for row in rows:
        second, first = sorted(row)[-2:]
        tally = scaled_tally(second, first + second, n_trees)
        tallies[tally] += Fraction(1, 2)
        tallies[n_trees - tally] += Fraction(1, 2)
    return tallies
