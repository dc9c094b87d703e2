"""Deviation: how far a forest's predictions are from the infinite forest's, on their own scale.

On one row the mean score of T trees is a draw with the mean μ of the infinite forest's and the covariance Σ/T of one
tree's scores over T; by the central limit theorem it is nearly normal. Draws of it go through the link that the
framework predicts by, so that nothing is made linear. Where a row has several predictions, one for each class, its
deviation is the largest of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from rfsize import theory
from rfsize.estimation.base import REPLICATES, SEED
from rfsize.utils.matrix import CELLS_PER_BLOCK
from rfsize.utils.typing import Floats
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.links import Link
from rfsize.voting.scores import Scores

SHARE_BEYOND = 0.05  # of the rows, beyond the 95th percentile


_DRAWS = 1 << 17  # over all rows


_FEWEST_DRAWS = 2  # on each


# Sizes around T* at which the bootstrap knows the deviation, and groups of rows per factor of e in it.
_FACTORS = 2.0 ** np.arange(-2.0, 2.5, 0.5)


_GROUPS_PER_FACTOR = 32.0


_ANY_SIZE = 100  # deviations of which tell about where others are


_LEAST = float(np.finfo(np.float64).smallest_subnormal)


_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


_LARGEST_SCORE = 1e60


class Deviation(NamedTuple):
    """How far predictions are from the infinite forest's.

    Attributes
    ----------
    rms : float
        Root mean square over rows and forests.
    p95 : float
        95th percentile of its absolute value over rows and forests.
    """

    rms: float
    p95: float


class Deviations:
    """Deviations of forests of any size, from the scores of some trees.

    Parameters
    ----------
    scores : Scores
        Of rows that two trees or more have scored.
    link : Link
        From mean scores to what deviates.
    noise : float
        Standard error of the mean squared deviation as a share of it, from the trees.
    """

    def __init__(self, scores: Scores, link: Link, noise: float = 0.0) -> None:
        self._link, self._noise = link, noise
        self._mean = scores.mean[:, None, :]
        self._limit = link.predicted(self._mean)
        draws = max(_FEWEST_DRAWS, -(-_DRAWS // len(scores)))
        self._drawn = _drawn(scores, draws)

    def _by_draw(self, n_trees: float) -> Floats:
        """Absolute deviations of forests of ``n_trees``, shape (n_rows, n_draws)."""
        predicted = self._link.predicted(self._mean + self._drawn / math.sqrt(n_trees))
        return np.abs(predicted - self._limit).max(axis=2)

    def at(self, n_trees: float) -> Deviation:
        """Deviation of a forest of ``n_trees``."""
        found = self._by_draw(n_trees)
        return Deviation(
            math.sqrt(np.mean(found**2)), float(np.quantile(found, 1.0 - SHARE_BEYOND, method="inverted_cdf"))
        )

    def sizes(self, tolerance: float) -> Sizes:
        """The smallest forests within ``tolerance``; ``math.inf`` where no size is."""

        def by_rms(n_trees: int) -> bool:
            return math.sqrt(np.mean(self._by_draw(n_trees) ** 2)) <= tolerance

        def by_p95(n_trees: int) -> bool:
            return bool(np.mean(self._by_draw(n_trees) > tolerance) <= SHARE_BEYOND)

        # Both deviations fall about as 1/√T. The product of floats is infinite where ** would overflow.
        ratios = (deviation / tolerance for deviation in self.at(_ANY_SIZE))
        guesses = (_ANY_SIZE * ratio * ratio for ratio in ratios)
        return Sizes(*(_smallest(of, guess) for of, guess in zip((by_rms, by_p95), guesses, strict=True)))

    def replicates(self, tolerance: float, size: int | float) -> Floats:
        """The size within ``tolerance``, found to be ``size``, as it might also have come out, shape (REPLICATES,).

        Rows are drawn again with replacement, and the squared deviations, which sizes are proportional to, are as
        uncertain as the trees leave them.
        """
        around = np.maximum(min(size, theory.MAX_TREES) * _FACTORS, 1.0)
        square, beyond = np.empty((2, len(self._mean), len(around)))
        for index, n_trees in enumerate(around):
            found = self._by_draw(n_trees)
            square[:, index], beyond[:, index] = np.mean(found**2, axis=1), np.mean(found > tolerance, axis=1)
        # Rows that deviate alike at one size do so at the others.
        middle = np.maximum(square[:, len(around) // 2], _LEAST)
        _, group = np.unique(np.floor(np.log(middle) * _GROUPS_PER_FACTOR), return_inverse=True)
        rows = np.bincount(group)
        sums = [np.stack([np.bincount(group, weights=column) for column in of.T]) for of in (square, beyond)]
        rng = np.random.default_rng(SEED)
        drawn = rng.multinomial(rows.sum(), rows / rows.sum(), size=REPLICATES) / rows
        by_rms, by_p95 = (drawn @ of.T / rows.sum() for of in sums)
        sizes = np.maximum(_crossing(around, np.sqrt(by_rms), tolerance), _crossing(around, by_p95, SHARE_BEYOND))
        return np.asarray(np.maximum(sizes * np.exp(self._noise * rng.standard_normal(REPLICATES)), 1.0))


class Sizes(NamedTuple):
    """The smallest forests whose deviation is within a tolerance.

    Attributes
    ----------
    rms : int or float
        By the root mean square.
    p95 : int or float
        By the 95th percentile over rows.
    """

    rms: int | float
    p95: int | float


def noise_of_trees(blocks: TreeBlocks, link: Link) -> float:
    """Standard error of the mean squared deviation as a share of it, since all rows are asked of the same trees.

    The mean square is a sum of what blocks of trees add to it, which are independent draws; one of them may deviate on
    many rows at once. To first order in the link, each prediction by its own score.
    """
    n_blocks = blocks.n_filled
    if n_blocks < 2:
        return 0.0
    asked = np.maximum(blocks.asked.sum(axis=1, keepdims=True), 1)
    mean = blocks.total.sum(axis=1, keepdims=True) / asked
    weight = link.steepness(mean) ** 2 / asked
    squares = blocks.squares - 2.0 * mean * blocks.total + mean**2 * blocks.asked
    by_block = np.sum(weight * squares, axis=(0, 2))
    # Blocks need not hold as many trees each.
    expected = np.sum(weight * squares.sum(axis=1, keepdims=True) / asked * blocks.asked, axis=(0, 2))
    total = by_block.sum()
    scatter = n_blocks / (n_blocks - 1.0) * np.sum((by_block - expected) ** 2)
    return float(math.sqrt(scatter) / total) if total > 0.0 else 0.0


def check_scale(scores: Scores) -> None:
    """``ValueError`` where products of four scores would overflow or vanish."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(scores.scatter.max(initial=0.0) / np.maximum(scores.asked.max(initial=1), 1))
        largest = float(np.maximum(np.abs(scores.mean).max(initial=0.0), spread))
    if not (largest == 0.0 or 1.0 / _LARGEST_SCORE <= largest <= _LARGEST_SCORE):
        raise ValueError(
            f"the trees' scores reach {largest:.3g}, beyond what deviations are computed of ({1.0 / _LARGEST_SCORE:g} "
            f"to {_LARGEST_SCORE:g}): train on the target in other units"
        )


def _drawn(scores: Scores, draws: int) -> Floats:
    """Draws of one tree's scores around their mean, shape (n_rows, draws, n_scores), as normal variates."""
    n_rows, n_scores = scores.mean.shape
    if n_scores == 1:
        # The quantiles of as many equal parts, at another place in each row's parts.
        place = np.arange(draws) + ((np.arange(n_rows) + 0.5) * _GOLDEN % 1.0)[:, None]
        return np.asarray(np.sqrt(scores.covariance(0, 0))[:, None] * ndtri(place / draws))[:, :, None]
    drawn = np.random.default_rng(SEED).standard_normal((n_rows, draws, n_scores))
    step = max(1, CELLS_PER_BLOCK // n_scores**2)
    for start in range(0, n_rows, step):
        rows = np.arange(start, min(start + step, n_rows))
        drawn[rows] @= _root_of_covariance(scores.take(rows)).transpose(0, 2, 1)
    return drawn


def _root_of_covariance(scores: Scores) -> Floats:
    """Lower triangular root of each row's covariance of the classes' scores, shape (n_rows, n_scores, n_scores)."""
    n_scores = scores.n_scores
    covariance = np.empty((len(scores), n_scores, n_scores))
    for one in range(n_scores):
        for other in range(n_scores):
            covariance[:, one, other] = scores.covariance(one, other)
    # Less trees than classes leave it singular, and so do scores that add up to a constant.
    least = np.trace(covariance, axis1=1, axis2=2) * 1e-9 + 1e-200
    return np.asarray(np.linalg.cholesky(covariance + least[:, None, None] * np.eye(n_scores)))


def _smallest(is_within: Callable[[int], bool], guess: float) -> int | float:
    """The smallest forest within, of which larger ones are too; ``math.inf`` beyond the largest searched for."""
    low = high = math.ceil(min(max(guess, 1.0), theory.MAX_TREES))
    step = max(1, high // 16)
    while low > 0 and is_within(low):
        low, high, step = low - step, low, 2 * step
    while not is_within(high):
        if high == theory.MAX_TREES:
            return math.inf
        low, high, step = high, min(high + step, theory.MAX_TREES), 2 * step
    low = max(low, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_within(middle) else (middle, high)
    return high


def _crossing(sizes: Floats, curves: Floats, target: float) -> Floats:
    """Sizes at which falling curves, shape (n_curves, n_sizes), cross a target; nearly straight lines in logarithms."""
    falling = -np.log(np.maximum(np.minimum.accumulate(curves, axis=1), _LEAST))
    return np.array([np.exp(np.interp(-math.log(target), of, np.log(sizes), right=np.inf)) for of in falling])
