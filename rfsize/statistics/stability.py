"""How alike the importances of two forests with different seeds are, predicted from the trees of one forest.

Importances are means over blocks of trees, and the blocks are independent draws. Let v_b be the losses of block b for
each column, and let μ and Σ be the mean and covariance of v_b over blocks of t trees. The importances of a forest of T
trees are then about normal with mean μ and covariance Σ·t/T. Drawing two such forests shows how alike they are.

μ is not known. The importances of the forest at hand hold noise, which makes columns look more different than they
are. So rfsize draws μ from its posterior distribution. The prior is a mixture of normal distributions around 0, in
units of the standard error of each column, fitted to all columns: M. Stephens (2017). "False discovery rates: a new
deal." Biostatistics 18(2), 275-294.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from rfsize._util import Bools, Floats, Int64s
from rfsize.statistics.curve import REPLICATES, SEED, LossCurve, jackknife_error

SIZES = np.unique(np.round(2.0 ** np.arange(0.0, 20.5, 0.5))).astype(np.int64)
"""Ensemble sizes for which the instability of importances is predicted."""

_DRAWS = 100  # pairs of forests
_N_PARTS = 10  # of the blocks, for the jackknife
_SPREADS = 2.0 ** np.arange(-3.0, 10.0)  # standard deviations in the mixture, in standard errors of a column
_STEPS = 100  # iterations that fit the mixture
_LEAST = 1e-12  # losses are at least this large, so that they have a logarithm

# Takes the importances of two forests, each of shape (n_draws, n_columns); returns how alike they are in each draw.
Similarity = Callable[[Floats, Floats], Floats]


def instability(block_losses: Floats, trees_per_block: float, similarity: Similarity) -> LossCurve:
    """How much the importances of two forests with different seeds differ, over their size.

    Parameters
    ----------
    block_losses : ndarray of float64, shape (n_blocks, n_columns)
        Losses of one forest by block of trees.
    trees_per_block : float
        Trees in a block.
    similarity : callable
        How alike the importances of two forests are, at most 1.

    Returns
    -------
    LossCurve
        1 minus the expected similarity. The replicates are quantiles of the logarithm, whose error is the jackknife's
        over parts of the blocks.
    """
    n_blocks = len(block_losses)
    part = np.arange(n_blocks) % min(_N_PARTS, n_blocks)
    curves = np.array(
        [_curve(block_losses, part != leaving, trees_per_block, similarity) for leaving in range(-1, part.max() + 1)]
    )
    logs = np.log(np.maximum(curves, _LEAST))
    quantiles = student.ppf((np.arange(REPLICATES) + 0.5) / REPLICATES, part.max())
    replicates = np.exp(logs[0] + np.outer(quantiles, jackknife_error(logs[1:])))
    return LossCurve(SIZES, np.exp(logs[0]), np.minimum(replicates, 1.0))


def rank_correlation(first: Floats, second: Floats) -> Floats:
    """Spearman's rank correlation in each draw; 1 if all importances of one forest are equal."""
    ranks = (rankdata(importances, axis=1) for importances in (first, second))
    a, b = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.where(scale > 0.0, (a * b).sum(axis=1) / np.where(scale > 0.0, scale, 1.0), 1.0)


def share_in_common(top: int) -> Similarity:
    """Make a function for the share of the ``top`` most important columns that two forests have in common."""

    def share(first: Floats, second: Floats) -> Floats:
        return np.asarray((_is_among_top(first, top) & _is_among_top(second, top)).sum(axis=1) / top)

    return share


def _is_among_top(importances: Floats, top: int) -> Bools:
    mask = np.zeros(importances.shape, dtype=np.bool_)
    np.put_along_axis(mask, np.argsort(-importances, axis=1, kind="stable")[:, :top], True, axis=1)
    return mask


def _curve(block_losses: Floats, used: Bools, trees_per_block: float, similarity: Similarity) -> Floats:
    """1 minus the similarity at each size, estimated from the ``used`` blocks of the forest."""
    losses = block_losses[used]
    value, n_blocks = losses.mean(axis=0), len(losses)
    deviation = (losses - value) / np.sqrt(n_blocks - 1.0)
    error = np.sqrt((deviation**2).sum(axis=0) / n_blocks)
    # The seed is fixed, so that all calls and all sizes use the same draws and differ only by the trees.
    generator = np.random.default_rng(SEED)
    component, normal = generator.random((_DRAWS, len(value))), generator.standard_normal((_DRAWS, len(value)))
    noise = generator.standard_normal((2, _DRAWS, len(used)))[:, :, used] @ deviation
    mean = _posterior(value, error, component, normal)
    scale = np.sqrt(trees_per_block / SIZES)
    return np.array([1.0 - similarity(mean + by * noise[0], mean + by * noise[1]).mean() for by in scale])


def _posterior(value: Floats, error: Floats, uniform: Floats, normal: Floats) -> Floats:
    """Draws of the noise-free importances, shape (n_draws, n_columns).

    The ``uniform`` numbers choose a component of the mixture, and the ``normal`` numbers a value in it.
    """
    is_noisy = error > 0.0
    score = value[is_noisy] / error[is_noisy]
    spread = np.sqrt(1.0 + _SPREADS**2)
    density = np.exp(-0.5 * (score[:, None] / spread) ** 2) / spread
    weight = np.full(len(_SPREADS), 1.0 / len(_SPREADS))
    membership = density
    for _ in range(_STEPS):
        membership = density * weight + 1e-300
        membership /= membership.sum(axis=1, keepdims=True)
        weight = membership.mean(axis=0) if len(score) else weight
    component: Int64s = (uniform[:, is_noisy, None] > np.cumsum(membership, axis=1)).sum(axis=2)
    shrinkage = 1.0 - 1.0 / spread[np.minimum(component, len(spread) - 1)] ** 2
    draws = np.tile(value, (len(uniform), 1))
    draws[:, is_noisy] = error[is_noisy] * (shrinkage * score + np.sqrt(shrinkage) * normal[:, is_noisy])
    return draws
