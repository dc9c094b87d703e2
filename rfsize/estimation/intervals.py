"""Intervals: replicates of a loss over ensemble sizes, as other rows and trees would give it.

`rfsize.sizing.sized_forest` takes quantiles of the replicates for the interval of T*.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from rfsize import theory
from rfsize._util import Floats, Int64s

REPLICATES = 200
SEED = 2013  # fixed: the same votes give the same interval

COVERAGE = 0.95
"""How often an interval contains the true value."""

TAIL = (1.0 - COVERAGE) / 2.0

# Sizes around T* at which losses are computed, and how many groups of similar rows there are per factor of e in loss.
_FACTORS = 2.0 ** np.arange(-3.0, 4.0)
_GROUPS_PER_FACTOR = 32.0

_LEAST = float(np.finfo(np.float64).smallest_subnormal)


class Curves(NamedTuple):
    """Replicates of the mean disagreement over ensemble sizes.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_sizes,)
        Odd ensemble sizes.
    disagreement : ndarray of float, shape (n_replicates, n_sizes)
        Mean over all rows, in each replicate.
    """

    sizes: Int64s
    disagreement: Floats

    @classmethod
    def of_rows(cls, sizes: Int64s, by_row: Floats, rows: Floats) -> Curves:
        """Bootstrap over rows, from the disagreement of each row, which stands for ``rows`` rows."""
        alike = np.maximum(by_row[:, len(sizes) // 2], 1e-12)
        return cls(sizes, means_of_drawn_rows(by_row, rows, alike, np.random.default_rng(SEED)))

    def at(self, sizes: Int64s) -> Floats:
        """Disagreement at other sizes, interpolated: curves are nearly straight on logarithmic axes."""
        if np.array_equal(self.sizes, sizes):
            return self.disagreement
        logs = np.log(np.maximum(self.disagreement, 1e-300))
        found = between(sizes, self.sizes, logs)
        if len(self.sizes) > 1:  # beyond the known sizes, the curves go on straight
            at, known = np.log(sizes), np.log(self.sizes)
            for end, next_to_end, beyond in ((0, 1, at < known[0]), (-1, -2, at > known[-1])):
                slope = (logs[:, end] - logs[:, next_to_end]) / (known[end] - known[next_to_end])
                found[:, beyond] += slope[:, None] * (at[beyond] - known[end])
        return np.minimum(np.exp(found), 1.0)

    def wider(self, factor: float) -> Curves:
        """Curves with ``factor`` times the distance from their mean, in logarithms; a disagreement of 0 stays 0."""
        mean = np.maximum(self.disagreement.mean(axis=0), _LEAST)
        return self._replace(disagreement=np.minimum(mean * (self.disagreement / mean) ** factor, 1.0))

    def quantile(self, alpha: float, share: float) -> int | float:
        """The quantile of T*(α) over the replicates: a share ``share`` of them has a T* of at most this size."""
        found = crossing(self.sizes, self.disagreement, 1.0 - alpha)
        size = quantile_of(found, share)
        return 2 * math.ceil((size - 1.0) / 2.0 - 1e-9) + 1 if math.isfinite(size) else math.inf


def quantile_of(sizes: Floats, share: float) -> float:
    """A quantile of replicates of a size; further out than the replicates tell, as if their logarithms were normal."""
    most = 1.0 - 1.0 / len(sizes)
    inside = min(max(share, 1.0 - most), most)
    found = float(np.quantile(sizes, inside, method="inverted_cdf"))
    if share == inside or not math.isfinite(found):
        return found
    median = float(np.quantile(sizes, 0.5, method="inverted_cdf"))
    return median * (found / median) ** float(ndtri(share) / ndtri(inside))


def between(sizes: ArrayLike, known: ArrayLike, values: Floats) -> Floats:
    """Values at some sizes, by linear interpolation over log size along the last axis."""
    at, log_known = np.log(sizes), np.log(known)
    return np.asarray(np.apply_along_axis(lambda one: np.interp(at, log_known, one), -1, values))


def crossing(sizes: ArrayLike, curves: Floats, level: float) -> Floats:
    """Sizes at which falling curves, shape (n_curves, n_sizes), cross a level; interpolated in logarithms."""
    falling = -np.log(np.maximum(np.minimum.accumulate(curves, axis=1), _LEAST))
    return np.exp([np.interp(-math.log(level), of, np.log(sizes), right=np.inf) for of in falling])


def means_of_draws(values: Floats, rows: Floats, generator: np.random.Generator) -> Floats:
    """Bootstrap means over rows drawn with replacement, shape (REPLICATES, n).

    Parameters
    ----------
    values : ndarray of float, shape (n_groups, n)
        Means over the rows in each group.
    rows : ndarray of float, shape (n_groups,)
    generator : numpy.random.Generator
    """
    n_rows = round(rows.sum())
    return np.asarray(generator.multinomial(n_rows, rows / rows.sum(), size=REPLICATES) @ values / n_rows)


def means_of_drawn_rows(values: Floats, rows: Floats, alike: Floats, generator: np.random.Generator) -> Floats:
    """Bootstrap means from values of shape (n_rows, n); each value stands for ``rows`` rows.

    Rows with a similar number in ``alike`` (above 0) are merged: rows with equal losses at one size have about equal
    losses at the others.
    """
    _, group = np.unique(np.floor(np.log(alike) * _GROUPS_PER_FACTOR), return_inverse=True)
    in_group = np.bincount(group, weights=rows).astype(np.float64)
    sums = np.stack([np.bincount(group, weights=rows * column) for column in values.T], axis=1)
    return means_of_draws(sums / in_group[:, None], in_group, generator)


def spread_sizes() -> Int64s:
    """Odd ensemble sizes up to the largest that is searched, four for each doubling."""
    steps = np.arange(0.0, math.log2(theory.MAX_TREES), 0.25)
    return odd_sizes(2.0**steps)


def sizes_around(size: int | float, factors: Floats = _FACTORS) -> Int64s:
    """Odd ensemble sizes around a size, by default from an eighth of it to eight times."""
    return odd_sizes(min(size, theory.MAX_TREES // (2.0 * factors[-1])) * factors)


def odd_sizes(sizes: Floats) -> Int64s:
    """The odd sizes closest to these: with an even number of votes, a majority can be tied."""
    return np.unique(2 * (sizes // 2.0).astype(np.int64) + 1)
