"""An estimate is a curve: a loss over ensemble sizes, with replicates as other rows and other trees would give it.

The loss at T, its interval and the quantiles of T* have one implementation, here. Of a loss that is known exactly,
`theory.smallest_size` gives T*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from rfsize import theory
from rfsize._util import Caution, Floats, Int64s
from rfsize.statistics.criterion import Criterion

REPLICATES = 200
SEED = 2013  # fixed: the same votes give the same interval

COVERAGE = 0.95
"""How often an interval contains the true value."""

TAIL = (1.0 - COVERAGE) / 2.0

ROUNDING = 1e-9  # of sizes that are read from a curve

_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_ZERO = 1e-300  # a loss below this is 0, and has no logarithm
_MANY_ROWS = 5000
_GROUPS_PER_FACTOR = 32.0  # groups of similar rows per factor of e in loss


def odd_sizes(sizes: Floats) -> Int64s:
    """The odd sizes closest to these: with an even number of votes, a majority can be tied."""
    return np.unique(2 * (sizes // 2.0).astype(np.int64) + 1)


SIZES: Int64s = np.union1d(np.arange(1, 100), odd_sizes(2.0 ** np.arange(6.75, math.log2(theory.MAX_TREES), 0.25)))
"""Ensemble sizes of curves: each up to 99, then odd sizes, four for each doubling."""


class Curve(Protocol):
    """What a report asks of a loss over ensemble sizes: `LossCurve` estimates it, `CertifiedCurve` counts it."""

    def at(self, n_trees: int) -> float:
        """Loss of forests of ``n_trees`` trees."""

    def interval(self, n_trees: int) -> tuple[float, float]:
        """95 % interval of that loss."""

    def size(self, level: float) -> int | float:
        """The smallest size whose loss is at most ``level``; ``math.inf`` if there is none."""

    def size_quantile(self, level: float, share: float) -> int | float:
        """The size that `size` does not exceed with a probability of ``share``."""


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The expected loss against an unlimited forest, over ensemble size.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_sizes,)
        Ensemble sizes, ascending.
    loss : ndarray of float, shape (n_sizes,)
        Expected loss.
    replicates : ndarray of float, shape (n_replicates, n_sizes)
        The loss as other rows and other trees would give it. Without replicates the interval is not known, and
        `interval` and `size_quantile` give the estimate itself.
    is_odd : bool
        Whether sizes that are enough are odd, so that votes never tie.
    """

    sizes: Int64s
    loss: Floats
    replicates: Floats
    is_odd: bool = False

    def at(self, n_trees: float) -> float:
        """Loss of forests of ``n_trees`` trees, interpolated on logarithmic axes."""
        return float(self._at(n_trees, self.loss[None])[0])

    def interval(self, n_trees: float) -> tuple[float, float]:
        """95 % interval of the loss."""
        return self.quantile(n_trees, TAIL), self.quantile(n_trees, 1.0 - TAIL)

    def quantile(self, n_trees: float, share: float) -> float:
        """The loss that forests of ``n_trees`` trees do not exceed with a probability of ``share``."""
        if not len(self.replicates):
            return self.at(n_trees)
        return float(np.quantile(self._at(n_trees, self.replicates), share))

    def size(self, level: float) -> int | float:
        """The smallest size whose loss is at most ``level``; ``math.inf`` if there is none."""
        return self._whole(float(crossing(self.sizes, self.loss[None], level)[0]))

    def size_quantile(self, level: float, share: float) -> int | float:
        """The quantile of `size` over the replicates: a share ``share`` of them has at most this size."""
        if not len(self.replicates):
            return self.size(level)
        return self._whole(quantile_of(crossing(self.sizes, self.replicates, level), share))

    def _at(self, n_trees: float, curves: Floats) -> Floats:
        values = np.exp(interpolated([n_trees], self.sizes, np.log(np.maximum(curves, _ZERO))))[:, 0]
        return np.where(values > 2.0 * _ZERO, values, 0.0)

    def _whole(self, size: float) -> int | float:
        if not math.isfinite(size):
            return math.inf
        step = 2 if self.is_odd else 1
        return max(1, step * math.ceil((size - 1.0) / step - ROUNDING) + 1)


def place_of(sizes: Int64s, n_trees: int) -> int:
    """Where a size stands among the sizes that were tried, ascending; ``ValueError`` if it was not."""
    place = int(np.searchsorted(sizes, n_trees))
    if place == len(sizes) or sizes[place] != n_trees:
        known, advice = ", ".join(map(str, sizes.tolist())), f"give one of these, or shrink by n_trees={n_trees}"
        raise ValueError(f"the report knows this loss of {known} trees, found {n_trees}: {advice}")
    return place


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimator says about forests of any size.

    Attributes
    ----------
    curve : Curve
        The loss over ensemble size.
    n_trees : int or float
        The smallest size that meets the criterion; ``math.inf`` if none is known to.
    n_rows, n_dropped : int
        Rows that were used, and rows left out because too few trees could predict them.
    votes_per_row : float
        Mean number of trees that predicted a row.
    problem : str or None
        Why the trees at hand do not tell `n_trees`, and what to do; None if they do.
    why_infinite : str
        Why no size is enough, if none is.
    is_bound : bool
        Whether `n_trees` is only an upper bound.
    notes : tuple of str
        Notes that a report adds.
    warnings : tuple of Caution
        Warnings about the loss itself.
    details : Any
        Further numbers of this kind of estimate, as `LabelDetails`.
    """

    curve: Curve
    n_trees: int | float
    n_rows: int
    n_dropped: int
    votes_per_row: float
    problem: str | None = None
    why_infinite: str = f"more than {theory.MAX_TREES - 1:,} trees would be needed"
    is_bound: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[Caution, ...] = ()
    details: Any = None

    @property
    def has_interval(self) -> bool:
        """Whether it tells an interval; training does without where it decides nothing."""
        return not isinstance(self.curve, LossCurve) or len(self.curve.replicates) > 0


def is_brief(criterion: Criterion, n_rows: int) -> bool:
    """Whether fewer draws are enough: of a loss that is only reported beside another, on so many rows that they cost.

    Its own report has a tolerance, and the other losses of a report have none.
    """
    return criterion.tolerance is None and n_rows > _MANY_ROWS


def averaged(curves: Sequence[LossCurve], weights: Floats) -> LossCurve:
    """The weighted mean of curves over the same sizes, of rows of several kinds.

    The replicates of the kinds are combined independently, although all were drawn with one seed.
    """
    if len(curves) == 1:
        return curves[0]
    generator = np.random.default_rng(SEED)
    replicates = np.stack([generator.permutation(curve.replicates) for curve in curves])
    loss = weights @ np.stack([curve.loss for curve in curves])
    return LossCurve(curves[0].sizes, loss, np.tensordot(weights, replicates, axes=1), curves[0].is_odd)


def wider(replicates: Floats, factor: float | Floats) -> Floats:
    """Replicates with ``factor`` times the distance from their mean, in logarithms; a loss of 0 stays 0."""
    mean = np.maximum(replicates.mean(axis=0), _LEAST)
    return np.asarray(np.minimum(mean * (replicates / mean) ** factor, 1.0))


def quantile_of(sizes: Floats, share: float) -> float:
    """A quantile of replicates of a size; further out than the replicates tell, as if their logarithms were normal."""
    most = 1.0 - 1.0 / len(sizes)
    inside = min(max(share, 1.0 - most), most)
    quantile = float(np.quantile(sizes, inside, method="inverted_cdf"))
    median = float(np.quantile(sizes, 0.5, method="inverted_cdf"))
    if share == inside or not (math.isfinite(quantile) and math.isfinite(median)):
        return quantile
    return median * (quantile / median) ** float(ndtri(share) / ndtri(inside))


def interpolated(sizes: ArrayLike, known: ArrayLike, values: Floats) -> Floats:
    """Values at some sizes, shape (n, n_sizes), by linear interpolation over log size along the last axis."""
    at, log_known = np.log(sizes), np.log(known)
    return np.stack([np.interp(at, log_known, row) for row in values])


def crossing(sizes: ArrayLike, curves: Floats, level: float) -> Floats:
    """Sizes at which falling curves, shape (n_curves, n_sizes), cross a level; interpolated in logarithms."""
    falling = -np.log(np.maximum(np.minimum.accumulate(curves, axis=1), _LEAST))
    return np.exp([np.interp(-math.log(level), row, np.log(sizes), right=np.inf) for row in falling])


def means_of_drawn_rows(values: Floats, alike: Floats, generator: np.random.Generator) -> Floats:
    """Means of values, shape (n_rows, n), over rows drawn with replacement, shape (REPLICATES, n).

    Rows with a similar number in ``alike`` (above 0) are merged: rows with equal losses at one size have about equal
    losses at the others.
    """
    _, group = np.unique(np.floor(np.log(alike) * _GROUPS_PER_FACTOR), return_inverse=True)
    in_group, n_rows = np.bincount(group).astype(np.float64), len(alike)
    means = np.stack([np.bincount(group, weights=column) for column in values.T], axis=1) / in_group[:, None]
    return np.asarray(generator.multinomial(n_rows, in_group / n_rows, size=REPLICATES) @ means / n_rows)


def jackknife_error(without: Floats) -> Floats:
    """Standard error of estimates, from their values without each block of trees, shape (n_blocks, ...).

    B. Efron, C. Stein (1981). "The jackknife estimate of variance." The Annals of Statistics 9(3), 586-596.
    """
    return np.sqrt((len(without) - 1.0) * without.var(axis=0))
