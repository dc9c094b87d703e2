"""The older rules for the number of trees, size by size."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from scipy.stats import binomtest, chi2


def prefix_majority(votes: list[int], voters: list[bool]) -> list[int | None]:
    """Winner after each tree among the votes that count; ties to the lowest class, None without a vote."""
    winners: list[int | None] = []
    for n in range(1, len(votes) + 1):
        cast = [vote for vote, counts in zip(votes[:n], voters, strict=False) if counts]
        winners.append(min(set(cast), key=lambda k: (-cast.count(k), k)) if cast else None)
    return winners


def mcnemar(b: int, c: int, exact: bool = False) -> float:
    """Two-sided p of rows that only one of the two gets right. In the paper, fewer than 20 are equality."""
    if b == c or (b + c < 20 and not exact):
        return 1.0
    if b + c < 20:
        return float(binomtest(b, b + c, 0.5).pvalue)
    return float(chi2.sf((abs(b - c) - 1) ** 2 / (b + c), df=1))


def mcnemar_sizes(
    votes: np.ndarray, y: np.ndarray, sizes: list[int], exact: bool = False
) -> dict[tuple[int, int], tuple[float, bool]]:
    """p, and whether the larger is the better, of all pairs of sizes."""
    winners = [prefix_majority(row, [True] * len(row)) for row in votes.tolist()]
    results = {}
    for m in sizes:
        for n in sizes:
            b = sum(row[m - 1] == label != row[n - 1] for row, label in zip(winners, y.tolist(), strict=True))
            c = sum(row[n - 1] == label != row[m - 1] for row, label in zip(winners, y.tolist(), strict=True))
            results[m, n] = (mcnemar(b, c, exact), c > b)
    return results


def mcnemar_size(votes: np.ndarray, y: np.ndarray, sizes: list[int], level: float, exact: bool = False) -> int:
    """The smallest size that no larger one beats."""
    pairs = mcnemar_sizes(votes, y, sizes, exact)

    def beats(n: int, m: int) -> bool:
        p, better = pairs[m, n]
        return p < level and better

    return next(m for m in sizes if not any(beats(n, m) for n in sizes if n > m))


def prefix_accuracy(votes: np.ndarray, y: np.ndarray, inbag: np.ndarray | None) -> list[Fraction]:
    """Accuracy of the first 1, 2, … trees, on the rows on which any of them may vote."""
    out = np.ones(votes.shape, dtype=bool) if inbag is None else ~inbag.T
    winners = [prefix_majority(row, may) for row, may in zip(votes.tolist(), out.tolist(), strict=True)]
    results = []
    for n in range(votes.shape[1]):
        known = [(row[n], label) for row, label in zip(winners, y.tolist(), strict=True) if row[n] is not None]
        results.append(Fraction(sum(winner == label for winner, label in known), len(known)))
    return results


def banfield(accuracy: list[Fraction], window: int, batch: int) -> tuple[int, int | None]:
    """The size chosen, and the trees grown when the rule stopped (None where the trees ran out)."""
    smoothed = []
    for n in range(1, len(accuracy) + 1):
        last = accuracy[max(0, n - window) : n]
        smoothed.append(sum(last) / len(last))
    starts = range(0, len(accuracy) - batch + 1, batch)
    for before, start in pairwise(starts):
        if max(smoothed[start : start + batch]) <= max(smoothed[before : before + batch]):
            return max(range(before, before + batch), key=lambda i: (accuracy[i], -i)) + 1, start + batch
    return max(range(starts[-1], starts[-1] + batch), key=lambda i: (accuracy[i], -i)) + 1, None
