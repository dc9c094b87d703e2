"""Probabilities and scores: how far a forest's predictions are from those of the infinite forest.

On one row, the mean score of T trees is a random vector with the mean μ of the infinite forest and the covariance Σ/T,
where Σ is the covariance of one tree's scores. By the central limit theorem it is nearly normal. Draws of it pass
through the framework's own link from scores to predictions, without linearisation. If a row has one prediction for each
class, its deviation is the largest of them. The loss is the distance that 95 % of the deviations keep within, over rows
and forests.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from rfsize import theory
from rfsize._util import CELLS_PER_BLOCK, Floats
from rfsize.counting.coverage import FEWEST_VOTES
from rfsize.counting.outputs import TreeOutputs, predictor_of, sums_of
from rfsize.counting.sums import Blocks, Scores
from rfsize.exceptions import NotAForestError
from rfsize.models.link import Link
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import (
    REPLICATES,
    SEED,
    SIZES,
    Estimate,
    LossCurve,
    crossing,
    interpolated,
    means_of_drawn_rows,
    too_many_trees,
)
from rfsize.statistics.enough_votes import lacks_votes, no_votes_error, problem_of_votes

SHARE_BEYOND = 0.05
"""Share of the rows beyond the 95th percentile."""

_DRAWS, _FEWEST_DRAWS = 1 << 17, 2  # draws over all rows, and fewest draws on each row
_FACTORS = 2.0 ** np.arange(-2.0, 2.5, 0.5)  # sizes around T* at which rows are drawn with replacement
_COMPUTED = 4.0 ** np.arange(7)  # sizes whose deviation is computed; beyond, it falls like 1/√T
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_LARGEST_SCORE = 1e60

Deviations = Callable[[float], Floats]
"""Absolute deviations of forests of a size, shape (n_rows, n_draws)."""


def scores_of(outputs: TreeOutputs, metric: str) -> tuple[Scores, Link]:
    """The trees' scores, and the link from mean scores to predictions; `NotAForestError` if there are no scores."""
    if outputs.scores is None or outputs.predictor is None:
        raise NotAForestError(
            f"metric={metric!r} needs the trees' scores, and counted Votes have none: give rfsize.size the "
            "model and its rows, or size the labels"
        )
    is_score = metric == "scores" and len(outputs.classes) > 0
    return outputs.scores, Link("identity") if is_score else predictor_of(outputs).link


def estimate_predictions(outputs: TreeOutputs, criterion: Criterion, *, interval: bool = True) -> Estimate:
    """How far predictions move, estimated from the scatter of the trees' scores on each row.

    Parameters
    ----------
    outputs : TreeOutputs
        The trees' outputs on distinct rows.
    criterion : Criterion
        Of probabilities or scores. Without a tolerance, only the curve is estimated.
    interval : bool, default True
        Whether the interval is wanted too.

    Raises
    ------
    NotAForestError
        If only votes are known.
    FewVotesError
        If no row has the scores of two trees.
    ValueError
        If the scores are too large or too small to be multiplied.
    """
    scores, link = scores_of(outputs, criterion.name)
    _check_scale(scores)
    used = scores.take(scores.n_votes > 1)
    if not len(used):
        raise no_votes_error(outputs, "the scores of two trees")
    n_dropped, votes_per_row = len(scores) - len(used), float(used.n_votes.mean())
    lacks = lacks_votes(outputs, n_dropped, len(scores))
    deviations = _deviations(used, link)
    curve = _curve(deviations)
    tolerance = curve.at(outputs.n_trees) if criterion.tolerance is None else criterion.tolerance
    n_trees = math.inf if lacks else _size(deviations, curve, tolerance)
    if interval and tolerance > 0.0:
        error = _error_of_trees(sums_of(outputs).blocks, link)
        ratios = _replicates_of_size(deviations, tolerance, n_trees, error) / min(max(n_trees, 1), theory.MAX_TREES)
        curve = LossCurve(SIZES, curve.loss, curve.loss * np.sqrt(ratios)[:, None])
    return Estimate(
        curve,
        n_trees,
        n_rows=len(used),
        n_dropped=n_dropped,
        votes_per_row=votes_per_row,
        problem=problem_of_votes(outputs, votes_per_row, n_dropped, len(scores), fewest=FEWEST_VOTES, lacks=lacks),
        why_infinite=too_many_trees() if math.isinf(n_trees) else None,
    )


def _deviations(scores: Scores, link: Link) -> Deviations:
    """Deviations of forests of any size, from the scores of rows that at least two trees predicted."""
    mean = scores.mean[:, None, :]
    limit = link.predicted(mean)
    drawn = _drawn(scores, max(_FEWEST_DRAWS, -(-_DRAWS // len(scores))))
    return lambda n_trees: np.abs(link.predicted(mean + drawn / math.sqrt(n_trees)) - limit).max(axis=2)


def _curve(deviations: Deviations) -> LossCurve:
    """The 95th percentile of the deviations over sizes, without replicates."""
    computed = [_percentile(deviations(float(size))) for size in _COMPUTED]
    # It falls about like 1/√T: what is left of it changes slowly.
    level = np.array(computed) * np.sqrt(_COMPUTED)
    loss = interpolated(SIZES, _COMPUTED, level[None])[0] / np.sqrt(SIZES)
    return LossCurve(SIZES, loss, np.zeros((0, len(SIZES))))


def _percentile(deviation: Floats) -> float:
    return float(np.quantile(deviation, 1.0 - SHARE_BEYOND, method="inverted_cdf"))


def _size(deviations: Deviations, curve: LossCurve, tolerance: float) -> int | float:
    """The smallest size of which 95 % of the deviations are within the tolerance."""
    if tolerance == 0.0:  # the loss of the forest at hand, whose trees all agree
        return 1

    def beyond(n_trees: int) -> float:
        return float(np.mean(deviations(n_trees) > tolerance))

    return theory.smallest_size(beyond, SHARE_BEYOND, guess=float(curve.size(tolerance)))


def _replicates_of_size(deviations: Deviations, tolerance: float, size: int | float, error: float) -> Floats:
    """Replicates of the size within the tolerance, whose estimate is ``size``; shape (REPLICATES,).

    Rows are drawn with replacement. The squared deviations, to which sizes are proportional, get the noise of the
    trees.
    """
    around = np.maximum(min(size, theory.MAX_TREES) * _FACTORS, 1.0)
    by_size = [deviations(n_trees) for n_trees in around]
    beyond = np.stack([np.mean(deviation > tolerance, axis=1) for deviation in by_size], axis=1)
    alike = np.maximum(np.mean(by_size[len(around) // 2] ** 2, axis=1), _LEAST)
    generator = np.random.default_rng(SEED)
    drawn = means_of_drawn_rows(beyond, np.ones(len(beyond)), alike, generator)
    sizes = np.minimum(crossing(around, drawn, SHARE_BEYOND), around[-1])
    return np.asarray(np.maximum(sizes * np.exp(error * generator.standard_normal(REPLICATES)), 1.0))


def _error_of_trees(blocks: Blocks, link: Link) -> float:
    """Relative standard error of the mean squared deviation, because the same trees predict all rows.

    The jackknife over blocks of trees. The link is taken to first order, each prediction by its own score.
    """
    blocks = blocks.apart
    filled = np.flatnonzero(blocks.n_scored.any(axis=(0, 2)))
    if len(filled) < 2:
        return 0.0
    n_scored = np.maximum(blocks.n_scored.sum(axis=1, keepdims=True), 1)
    mean = blocks.total.sum(axis=1, keepdims=True) / n_scored
    weight = link.steepness(mean) ** 2 / n_scored
    squares = blocks.squares - 2.0 * mean * blocks.total + mean**2 * blocks.n_scored
    by_block = np.sum(weight * squares, axis=(0, 2))
    # Blocks may hold different numbers of trees.
    expected = np.sum(weight * squares.sum(axis=1, keepdims=True) / n_scored * blocks.n_scored, axis=(0, 2))
    total = by_block.sum()
    scatter = len(filled) / (len(filled) - 1.0) * np.sum((by_block - expected) ** 2)
    return float(math.sqrt(scatter) / total) if total > 0.0 else 0.0


def _check_scale(scores: Scores) -> None:
    """``ValueError`` if products of four scores would overflow or vanish."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(scores.scatter.max(initial=0.0) / np.maximum(scores.n_votes.max(initial=1), 1))
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
    for first in range(n_scores):
        for second in range(n_scores):
            covariance[:, first, second] = scores.covariance(first, second)
    # The covariance is singular if there are fewer trees than classes, or if scores add up to a constant.
    least = np.trace(covariance, axis1=1, axis2=2) * 1e-9 + 1e-200
    return np.asarray(np.linalg.cholesky(covariance + least[:, None, None] * np.eye(n_scores)))
