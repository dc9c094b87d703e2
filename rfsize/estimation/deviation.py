"""Deviation: how far a forest's predictions are from those of the infinite forest, on the scale of the predictions.

On one row, the mean score of T trees is a random vector with the mean μ of the infinite forest and the covariance Σ/T,
where Σ is the covariance of one tree's scores. By the central limit theorem it is nearly normal. Draws of it pass
through the framework's own link from scores to predictions, without linearisation. If a row has one prediction for each
class, its deviation is the largest of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from rfsize import theory
from rfsize._util import CELLS_PER_BLOCK, Floats
from rfsize.counting.part_sums import Blocks, Scores
from rfsize.estimation.intervals import REPLICATES, SEED, crossing, means_of_drawn_rows
from rfsize.models.link import Link

SHARE_BEYOND = 0.05  # of the rows, beyond the 95th percentile

_DRAWS, _FEWEST_DRAWS = 1 << 17, 2  # draws over all rows, and fewest draws on each row
_FACTORS = 2.0 ** np.arange(-2.0, 2.5, 0.5)  # sizes around T* at which the bootstrap computes the deviation
_ANY_SIZE = 100  # the deviations of this size give a first guess of the size
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_LARGEST_SCORE = 1e60


class Deviation(NamedTuple):
    """How far predictions are from those of the infinite forest.

    Attributes
    ----------
    rms : float
        Root mean square of the deviation over rows and forests.
    p95 : float
        95th percentile of the absolute deviation over rows and forests.
    """

    rms: float
    p95: float


class Deviations:
    """Deviations of forests of any size, from the scores of some trees.

    Parameters
    ----------
    scores : Scores
        Scores of rows that at least two trees predicted.
    link : Link
        The link from mean scores to predictions.
    noise : float
        Relative standard error of the mean squared deviation, over other trees.
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

    def sizes(self, tolerance: float) -> tuple[int | float, int | float]:
        """The smallest sizes within ``tolerance``, by either deviation; ``math.inf`` if there is none."""

        def rms(n_trees: int) -> float:
            return math.sqrt(np.mean(self._by_draw(n_trees) ** 2))

        def beyond(n_trees: int) -> float:
            return float(np.mean(self._by_draw(n_trees) > tolerance))

        # Both deviations fall about like 1/√T. A product of floats becomes infinite; ** would raise an OverflowError.
        by_rms, by_p95 = (_ANY_SIZE * ratio * ratio for ratio in (found / tolerance for found in self.at(_ANY_SIZE)))
        return (
            theory.smallest_size(rms, tolerance, guess=by_rms),
            theory.smallest_size(beyond, SHARE_BEYOND, guess=by_p95),
        )

    def replicates(self, tolerance: float, size: int | float) -> Floats:
        """Replicates of the size within ``tolerance``, whose estimate is ``size``; shape (REPLICATES,).

        Rows are drawn with replacement. The squared deviations, to which sizes are proportional, get the noise of the
        trees.
        """
        around = np.maximum(min(size, theory.MAX_TREES) * _FACTORS, 1.0)
        square, beyond = np.empty((2, len(self._mean), len(around)))
        for index, n_trees in enumerate(around):
            found = self._by_draw(n_trees)
            square[:, index], beyond[:, index] = np.mean(found**2, axis=1), np.mean(found > tolerance, axis=1)
        rng, alike = np.random.default_rng(SEED), np.maximum(square[:, len(around) // 2], _LEAST)
        drawn = means_of_drawn_rows(np.hstack([square, beyond]), np.ones(len(square)), alike, rng)
        by_rms, by_p95 = np.hsplit(drawn, 2)
        sizes = np.maximum(crossing(around, np.sqrt(by_rms), tolerance), crossing(around, by_p95, SHARE_BEYOND))
        return np.asarray(np.maximum(sizes * np.exp(self._noise * rng.standard_normal(REPLICATES)), 1.0))


def noise_of_trees(blocks: Blocks, link: Link) -> float:
    """Relative standard error of the mean squared deviation, which arises because all rows ask the same trees.

    The mean square is a sum over blocks of trees. Blocks are independent draws, but one block may deviate on many rows
    at once. The link is taken to first order, each prediction by its own score.
    """
    blocks = blocks.apart
    n_blocks = blocks.n_filled
    if n_blocks < 2:
        return 0.0
    asked = np.maximum(blocks.n_scored.sum(axis=1, keepdims=True), 1)
    mean = blocks.total.sum(axis=1, keepdims=True) / asked
    weight = link.steepness(mean) ** 2 / asked
    squares = blocks.squares - 2.0 * mean * blocks.total + mean**2 * blocks.n_scored
    by_block = np.sum(weight * squares, axis=(0, 2))
    # Blocks may hold different numbers of trees.
    expected = np.sum(weight * squares.sum(axis=1, keepdims=True) / asked * blocks.n_scored, axis=(0, 2))
    total = by_block.sum()
    scatter = n_blocks / (n_blocks - 1.0) * np.sum((by_block - expected) ** 2)
    return float(math.sqrt(scatter) / total) if total > 0.0 else 0.0


def check_scale(scores: Scores) -> None:
    """``ValueError`` if products of four scores would overflow or vanish."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(scores.scatter.max(initial=0.0) / np.maximum(scores.asked.max(initial=1), 1))
        largest = float(np.maximum(np.abs(scores.mean).max(initial=0.0), spread))
    if not (largest == 0.0 or 1.0 / _LARGEST_SCORE <= largest <= _LARGEST_SCORE):
        raise ValueError(
            f"the trees' scores reach {largest:.3g}, and rfsize computes deviations only of scores from "
            f"{1.0 / _LARGEST_SCORE:g} to {_LARGEST_SCORE:g}: train on the target in other units"
        )


def _drawn(scores: Scores, draws: int) -> Floats:
    """Normal draws of one tree's scores around their mean, shape (n_rows, draws, n_scores)."""
    n_rows, n_scores = scores.mean.shape
    if n_scores == 1:
        # One quantile in each of ``draws`` equal parts, shifted from row to row.
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
    # The covariance is singular if there are fewer trees than classes, or if scores add up to a constant.
    least = np.trace(covariance, axis1=1, axis2=2) * 1e-9 + 1e-200
    return np.asarray(np.linalg.cholesky(covariance + least[:, None, None] * np.eye(n_scores)))
