"""How alike the importances of two forests with different seeds are, predicted from the trees of one forest.

Importances are means over trees, and trees are independent draws. Let v_t be the losses of tree t for each column, and
let μ and Σ be the mean and covariance of v_t over trees. The importances of a forest of T trees are then about normal
with mean μ and covariance Σ/T. Drawing two such forests shows how alike they are, at any T.

μ is not known. The importances of the forest at hand hold noise, which makes columns look more different than they
are. So rfsize draws μ from its posterior distribution. The prior is a mixture of normal distributions around 0, in
units of the standard error of each column, fitted to all columns: M. Stephens (2017). "False discovery rates: a new
deal." Biostatistics 18(2), 275-294.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rfsize._util import Floats, Int64s
from rfsize.estimation.intervals import SEED
from rfsize.importance.measured import Measured

SIZES = np.unique(np.round(2.0 ** np.arange(0.0, 20.5, 0.5))).astype(np.int64)
"""Ensemble sizes for which the likeness of two forests is predicted."""

_DRAWS = 100  # pairs of forests
N_PARTS = 10  # of the trees, for the jackknife
_SPREADS = 2.0 ** np.arange(-3.0, 10.0)  # standard deviations in the mixture, in standard errors of a column
_STEPS = 100  # iterations that fit the mixture

# Takes the importances of two forests, each of shape (n_draws, n_columns); returns how alike they are in each draw.
Likeness = Callable[[Floats, Floats], Floats]


def rank_correlation(one: Floats, other: Floats) -> Floats:
    """Spearman's rank correlation in each draw; 1 if all importances of one forest are equal."""
    ranks = [rankdata(each, axis=1) for each in (one, other)]
    first, second = (each - each.mean(axis=1, keepdims=True) for each in ranks)
    scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return np.where(scale > 0.0, (first * second).sum(axis=1) / np.where(scale > 0.0, scale, 1.0), 1.0)


def share_in_common(top: int) -> Likeness:
    """Make a function for the share of the ``top`` most important columns that two forests have in common."""

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
    """How much two forests with different seeds differ, for each size in `SIZES`.

    Attributes
    ----------
    expected : ndarray of float64, shape (n_sizes,)
        1 minus how alike two forests are.
    without : ndarray of float64, shape (N_PARTS, n_sizes)
        ``expected`` as estimated without each part of the trees, for the jackknife.
    """

    expected: Floats
    without: Floats

    @classmethod
    def of(cls, measured: Measured, likeness: Likeness) -> Unlikeness:
        """Estimate from the losses of one forest."""
        n_parts = len(measured.of_parts)
        part = np.arange(n_parts) % min(N_PARTS, n_parts)
        curves = [_curve(measured, likeness, part != out) for out in range(-1, part.max() + 1)]
        return cls(curves[0], np.stack(curves[1:]))


def _curve(measured: Measured, likeness: Likeness, used: np.ndarray) -> Floats:
    """1 minus the likeness at each size, estimated from the ``used`` parts of the forest."""
    parts = measured.of_parts[used]
    value, n_parts = parts.mean(axis=0), len(parts)
    away = (parts - value) / np.sqrt(n_parts - 1.0)
    error = np.sqrt((away**2).sum(axis=0) / n_parts)
    # The seed is fixed, so that all calls and all sizes use the same draws and differ only by the trees.
    generator = np.random.default_rng(SEED)
    which, beyond = generator.random((_DRAWS, parts.shape[1])), generator.standard_normal((_DRAWS, parts.shape[1]))
    noise = generator.standard_normal((2, _DRAWS, len(used)))[:, :, used] @ away
    mean = _posterior(value, error, which, beyond)
    at = np.sqrt(measured.trees_per_part / SIZES)
    return np.array([1.0 - likeness(mean + by * noise[0], mean + by * noise[1]).mean() for by in at])


def _posterior(value: Floats, error: Floats, which: Floats, beyond: Floats) -> Floats:
    """Draws of the noise-free importances, shape (n_draws, n_columns).

    The uniform numbers ``which`` choose a component of the mixture, and the normal numbers ``beyond`` a value in it.
    """
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
