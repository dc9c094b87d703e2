"""The smooth estimate of vote fractions once more, as slowly and plainly as possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize


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


def smooth_shares(rows: list[tuple[int, int]], below: list[float]) -> np.ndarray:
    """Share of the rows with a fraction up to each of ``below``, under the density averaged over its smoothness.

    Rows are votes for class 1 and all votes. For each strength of the penalty the density is the most probable one; it
    counts by its marginal likelihood (Laplace), times a log-normal prior of the strength.
    """
    theta = (np.arange(400) + 0.5) / 800
    splines = np.array([[cubic_spline(i, x) + cubic_spline(19 - i, x) for i in range(10)] for x in theta.tolist()])
    likelihood = np.array([[folded_binomial(*row, fraction(x)) for x in theta.tolist()] for row in rows])

    def density(half: np.ndarray) -> np.ndarray:
        height = np.exp(splines @ half)
        return height / height.sum()

    logs, shares = [], []
    for strength in 10.0 ** np.arange(1.0, -3.1, -0.5):

        def surprise(half: np.ndarray, strength: float = strength) -> float:
            return smooth_penalty(half.tolist(), strength) / 2 - float(np.log(likelihood @ density(half)).sum())

        best = minimize(surprise, np.zeros(10), method="BFGS", options={"gtol": 1e-6})
        penalty = curvature(lambda half, strength=strength: smooth_penalty(half.tolist(), strength) / 2, np.zeros(10))
        logdets = [np.linalg.slogdet(of)[1] for of in (penalty, curvature(surprise, best.x))]
        logs.append(-best.fun + (logdets[0] - logdets[1]) / 2 - math.log(strength) ** 2 / 2)
        shares.append([density(best.x)[[fraction(x) <= pi for x in theta]].sum() for pi in below])
    weight = np.exp(np.array(logs) - max(logs))
    return np.asarray(weight @ np.array(shares) / weight.sum())


def curvature(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Second derivatives by differences."""
    unit = np.eye(len(at)) * step
    return np.array(
        [
            [
                (function(at + a + b) - function(at + a - b) - function(at - a + b) + function(at - a - b))
                / (4 * step**2)
                for b in unit
            ]
            for a in unit
        ]
    )


def fraction(theta: float) -> float:
    """Vote fraction at a place on the arcsine scale."""
    return math.sin(math.pi / 2 * theta) ** 2


def folded_binomial(count: int, n_votes: int, pi: float) -> float:
    """Likelihood of a vote fraction or its mirror image, up to a factor."""
    return float(pi**count * (1 - pi) ** (n_votes - count) + pi ** (n_votes - count) * (1 - pi) ** count)


def peak(masses: dict[float, float], rows: list[tuple[int, int]]) -> float:
    """Twice the gain in log-likelihood by a share of rows at one half, beside given probabilities of vote fractions."""
    smooth = [sum(mass * folded_binomial(*row, pi) for pi, mass in masses.items()) for row in rows]
    ratio = [folded_binomial(*row, 0.5) / of for row, of in zip(rows, smooth, strict=True)]
    return 2 * max(
        sum(math.log(1 - share + share * r) for r in ratio) for share in np.linspace(0.0, 0.95, 951).tolist()
    )
