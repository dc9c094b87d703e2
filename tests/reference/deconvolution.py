"""The smooth estimate of vote fractions once more, as slowly and plainly as possible."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np


def cubic_spline(index: int, x: float, n_splines: int = 20, degree: int = 3) -> float:
    """B-spline on even knots, by the recursion of Cox and de Boor."""
    step = 1 / (n_splines - 3)
    start = (index - 3) * step
    if degree == 0:
        return float(start <= x < start + step)
    rising = (x - start) / (degree * step)
    falling = (start + (degree + 1) * step - x) / (degree * step)
    return rising * cubic_spline(index, x, n_splines, degree - 1) + falling * cubic_spline(
        index + 1, x, n_splines, degree - 1
    )


def smooth_penalty(half: list[float], strength: float) -> float:
    """Squares of the coefficients' first and second differences, and of their values: minus twice the log-prior."""
    whole = [*half, *half[::-1]]
    first = [after - before for before, after in pairwise(whole)]
    second = [after - before for before, after in pairwise(first)]
    return strength * (sum(d * d for d in first) + 4 * sum(d * d for d in second)) + 1e-3 * sum(b * b for b in half)


def smooth_log_posterior(
    half: list[float], rows: list[tuple[int, int]], strength: float, order: int = 0, points: int = 100
) -> float:
    """Of votes for class 1 and trees asked, under a density that is exp of a spline symmetric about one half."""
    theta = [(place + 0.5) / (2 * points) for place in range(points)]
    whole = [*half, *half[::-1]]
    density = [(1 - 2 * x) ** order * math.exp(sum(b * cubic_spline(i, x) for i, b in enumerate(whole))) for x in theta]
    total = 0.0
    for count, asked in rows:
        likelihood = sum(f * folded_binomial(count, asked, fraction(x)) for x, f in zip(theta, density, strict=True))
        total += math.log(likelihood / sum(density))
    return total - smooth_penalty(half, strength) / 2


def fraction(theta: float) -> float:
    """Vote fraction at a place on the arcsine scale."""
    return math.sin(math.pi / 2 * theta) ** 2


def folded_binomial(count: int, asked: int, pi: float) -> float:
    """Likelihood of a vote fraction or its mirror image, up to a factor."""
    return float(pi**count * (1 - pi) ** (asked - count) + pi ** (asked - count) * (1 - pi) ** count)


def peak(masses: dict[float, float], rows: list[tuple[int, int]]) -> float:
    """Twice the gain in log-likelihood by a share of rows at one half, beside given probabilities of vote fractions."""
    best = 0.0
    for share in np.linspace(0.0, 0.95, 951).tolist():
        gain = 0.0
        for count, asked in rows:
            smooth = sum(mass * folded_binomial(count, asked, pi) for pi, mass in masses.items())
            gain += math.log(1 - share + share * folded_binomial(count, asked, 0.5) / smooth)
        best = max(best, gain)
    return 2 * best


def mean_given(pi: float, masses: dict[float, float], rows: list[tuple[int, int]], values: list[float]) -> float:
    """Mean of a value that each row has, over rows weighted by the probability of a vote fraction given their votes."""
    weights = [
        masses[pi]
        * folded_binomial(count, asked, pi)
        / sum(mass * folded_binomial(count, asked, other) for other, mass in masses.items())
        for count, asked in rows
    ]
    return sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)


def ranked_pairs(counts: list[list[int]], rank: int) -> list[tuple[int, int]]:
    """Votes for the class of a rank, the leader's being 0, and for either of the two, of each row."""
    pairs = []
    for row in counts:
        in_order = sorted(row, reverse=True)
        pairs.append((in_order[rank], in_order[0] + in_order[rank]))
    return pairs
