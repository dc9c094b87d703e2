"""How alike importances of forests of other seeds are, foretold from the trees of one forest.

Importances are means over trees that are drawn alike. With v_t what tree t loses by each column, Σ their covariance
over the trees and μ their mean, forests of T trees have importances that are drawn from a normal distribution of mean
μ and covariance Σ/T. Two such draws tell how alike two forests are, at any T. μ is not known: the importances of the
forest at hand hold noise, which makes columns look more different than they are. So μ is drawn from its posterior
distribution, in units of the standard error of each column, under a mixture of normal distributions around 0 that is
fitted to all columns: M. Stephens (2017). "False discovery rates: a new deal." Biostatistics 18(2), 275-294.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rfsize.estimation.intervals import SEED
from rfsize.importance.measured import Measured
from rfsize.utils.typing import Floats, Int64s

SIZES = np.unique(np.round(2.0 ** np.arange(0.0, 20.5, 0.5))).astype(np.int64)
"""Trees of the forests whose likeness is foretold."""

# Pairs of forests that are drawn, and parts of the trees without which all is estimated again.
_DRAWS, N_PARTS = 100, 10
_SPREADS = 2.0 ** np.arange(-3.0, 10.0)  # of the mixture, in standard errors
_STEPS = 100  # of its fit

# How alike two forests are in each of several draws, from their importances, each of shape (n_draws, n_columns).
Likeness = Callable[[Floats, Floats], Floats]


def rank_correlation(one: Floats, other: Floats) -> Floats:
    """Spearman's correlation of each row; 1 where all columns of one are equal."""
    ranks = [rankdata(each, axis=1) for each in (one, other)]
    first, second = (each - each.mean(axis=1, keepdims=True) for each in ranks)
    scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return np.where(scale > 0.0, (first * second).sum(axis=1) / np.where(scale > 0.0, scale, 1.0), 1.0)


def share_in_common(top: int) -> Likeness:
    """The share of the first so many columns that two forests have in common."""

    def share(one: Floats, other: Floats) -> Floats:
        first, second = (_is_first(each, top) for each in (one, other))
        return np.asarray((first & second).sum(axis=1) / top)

    return share


def _is_first(value: Floats, top: int) -> np.ndarray:
    found = np.zeros(value.shape, dtype=np.bool_)
    np.put_along_axis(found, np.argsort(-value, axis=1, kind="stable")[:, :top], True, axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Unlikeness:
    """How far from alike two forests of other seeds are, for each of `SIZES`.

    Attributes
    ----------
    expected : ndarray of float64, shape (n_sizes,)
        1 less how alike they are.
    without : ndarray of float64, shape (N_PARTS, n_sizes)
        The same without each part of the trees, for the jackknife.
    """

    expected: Floats
    without: Floats

    @classmethod
    def of(cls, measured: Measured, likeness: Likeness) -> Unlikeness:
        """Of forests of the kind of the one that was measured."""
        n_parts = len(measured.of_parts)
        part = np.arange(n_parts) % min(N_PARTS, n_parts)
        curves = [_curve(measured, likeness, part != out) for out in range(-1, part.max() + 1)]
        return cls(curves[0], np.stack(curves[1:]))


def _curve(measured: Measured, likeness: Likeness, used: np.ndarray) -> Floats:
    """1 less the likeness at each size, by some of the parts of the forest."""
    parts = measured.of_parts[used]
    value, n_parts = parts.mean(axis=0), len(parts)
    away = (parts - value) / np.sqrt(n_parts - 1.0)
    error = np.sqrt((away**2).sum(axis=0) / n_parts)
    # The same draws for all parts of the trees and all sizes.
    generator = np.random.default_rng(SEED)
    which, beyond = generator.random((_DRAWS, parts.shape[1])), generator.standard_normal((_DRAWS, parts.shape[1]))
    noise = generator.standard_normal((2, _DRAWS, len(used)))[:, :, used] @ away
    mean = _posterior(value, error, which, beyond)
    at = np.sqrt(measured.trees_per_part / SIZES)
    return np.array([1.0 - likeness(mean + by * noise[0], mean + by * noise[1]).mean() for by in at])


def _posterior(value: Floats, error: Floats, which: Floats, beyond: Floats) -> Floats:
    """Draws of what importances are without their noise, by uniform and by normal numbers, shape (n_draws, n)."""
    is_noisy = error > 0.0
    score = value[is_noisy] / error[is_noisy]
    spread = np.sqrt(1.0 + _SPREADS**2)
    density = np.exp(-0.5 * (score[:, None] / spread) ** 2) / spread
    weight = np.full(len(_SPREADS), 1.0 / len(_SPREADS))
    belongs = density
    for _ in range(_STEPS):
        belongs = density * weight + 1e-300
        belongs /= belongs.sum(axis=1, keepdims=True)
        weight = belongs.mean(axis=0) if len(score) else weight
    place: Int64s = (which[:, is_noisy, None] > np.cumsum(belongs, axis=1)).sum(axis=2)
    kept = 1.0 - 1.0 / spread[np.minimum(place, len(spread) - 1)] ** 2
    found = np.tile(value, (len(which), 1))
    found[:, is_noisy] = error[is_noisy] * (kept * score + np.sqrt(kept) * beyond[:, is_noisy])
    return found
