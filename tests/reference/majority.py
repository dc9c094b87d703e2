"""The formulas of two classes as sums of the binomial."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def class_probability(n_trees: int, pi: float) -> float:
    """Equation (7) as a sum of the binomial, in exact integers."""
    return float(_majority(n_trees, pi))


def disagreement(n_trees: int, pi: float) -> float:
    """One minus equation (9); the infinite forest predicts class 1 where π > 1/2."""
    class_1 = _majority(n_trees, pi)
    return float(1 - class_1 if pi > 0.5 else class_1)


def _majority(n_trees: int, pi: float) -> Fraction:
    numerator, denominator = pi.as_integer_ratio()
    ways = sum(
        math.comb(n_trees, votes) * numerator**votes * (denominator - numerator) ** (n_trees - votes)
        for votes in range(n_trees // 2 + 1, n_trees + 1)
    )
    return Fraction(ways, denominator**n_trees)


def ensemble_size(alpha: float, pis: list[float], largest: int = 2001) -> float:
    """T*(α) by trying every odd size."""
    for n_trees in range(1, largest + 1, 2):
        if np.mean([1.0 - disagreement(n_trees, pi) for pi in pis]) >= alpha - 1e-14:
            return n_trees
    return math.inf
