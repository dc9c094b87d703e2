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
from rfsize._util import Floats, blocks
from rfsize.counting.coverage import FEWEST_VOTES, no_votes_error, problem_of_votes
from rfsize.counting.outputs import TreeOutputs, predictor_of, sums_of
from rfsize.counting.sums import Blocks, Scores
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
    is_brief,
    means_of_drawn_rows,
)
from rfsize.statistics.named_metrics import no_scores_error

SHARE_BEYOND = 0.05
"""Share of the rows beyond the 95th percentile."""

_DRAWS, _DRAWS_IN_BRIEF, _FEWEST_DRAWS = 1 << 17, 1 << 15, 2  # draws over all rows, and fewest draws on each row
_ROWS_IN_BRIEF = 20_000  # beside another loss; the noise of the trees hides that of more rows
_LEVELS = 2.0 ** np.arange(-1.0, 1.25, 0.25)  # multiples of the loss at which rows beyond are counted
_COMPUTED = 4.0 ** np.arange(7)  # sizes whose deviation is computed; beyond, it falls like 1/√T
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_LARGEST_SCORE = 1e60

Deviations = Callable[[float], Floats]
"""Absolute deviations of forests of a size, shape (n_rows, n_draws)."""


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
    scores = outputs.scores
    if scores is None or outputs.predictor is None:
        raise no_scores_error(criterion.name)
    link = predictor_of(outputs).link_to(criterion.name)
    _check_scale(scores)
    used = scores.take(scores.n_votes > 1)
    if not len(used):
        raise no_votes_error(outputs, "the scores of two trees")
    n_rows, votes_per_row, draws = len(used), float(used.n_votes.mean()), _DRAWS
    n_dropped = len(scores) - n_rows
    problem, lacks = problem_of_votes(outputs, votes_per_row, n_dropped, len(scores), FEWEST_VOTES)
    if is_brief(criterion, n_rows):
        draws = _DRAWS_IN_BRIEF
        if n_rows > _ROWS_IN_BRIEF:
            used = used.take(np.sort(np.random.default_rng(SEED).choice(n_rows, _ROWS_IN_BRIEF, replace=False)))
    deviations = _deviations(used, link, draws)
    curve = _curve(deviations, _error_of_trees(sums_of(outputs).blocks, link) if interval else None)
    n_trees: int | float = math.inf
    if criterion.tolerance is not None and not lacks:

        def beyond(size: int) -> float:
            return float(np.mean(deviations(size) > criterion.level))

        n_trees = theory.smallest_size(beyond, SHARE_BEYOND, guess=curve.size(criterion.level))
    return Estimate(curve, n_trees, n_rows, n_dropped, votes_per_row, problem)


def _deviations(scores: Scores, link: Link, draws: int) -> Deviations:
    """Deviations of forests of any size, from the scores of rows that at least two trees predicted."""
    mean = scores.mean[:, None, :]
    limit = link.predicted(mean)
    drawn = _drawn(scores, max(_FEWEST_DRAWS, -(-draws // len(scores))))
    return lambda n_trees: np.abs(link.predicted(mean + drawn / math.sqrt(n_trees)) - limit).max(axis=2)


def _curve(deviations: Deviations, error: float | None) -> LossCurve:
    """The 95th percentile of the deviations over sizes.

    With the `_error_of_trees` there are replicates: rows are drawn with replacement, and the noise of the trees is
    added to the squared deviations.
    """
    loss, beyond, alike = np.zeros(len(_COMPUTED)), [], np.zeros(0)
    for index, size in enumerate(_COMPUTED):
        deviation = deviations(size)
        loss[index] = np.quantile(deviation, 1.0 - SHARE_BEYOND, method="inverted_cdf")
        if error is not None:
            deviation = np.ascontiguousarray(deviation.T)  # means over draws take far less time like this
            beyond += [np.mean(deviation > level, axis=0) for level in loss[index] * _LEVELS]
            alike = np.maximum(np.mean(deviation**2, axis=0), _LEAST)
    if error is None:
        return LossCurve(SIZES, _at_sizes(loss[None])[0], np.zeros((0, len(SIZES))))
    generator = np.random.default_rng(SEED)
    drawn = means_of_drawn_rows(np.stack(beyond, axis=1), alike, generator)
    by_size = np.split(drawn, len(_COMPUTED), axis=1)
    ratios = np.stack([np.minimum(crossing(_LEVELS, part, SHARE_BEYOND), _LEVELS[-1]) for part in by_size], axis=1)
    ratios *= np.exp(0.5 * error * generator.standard_normal((REPLICATES, 1)))
    return LossCurve(SIZES, _at_sizes(loss[None])[0], _at_sizes(loss * ratios))


def _at_sizes(losses: Floats) -> Floats:
    """Losses at `SIZES` from those at the computed sizes: they fall about like 1/√T, and the rest varies little."""
    return interpolated(SIZES, _COMPUTED, losses * np.sqrt(_COMPUTED)) / np.sqrt(SIZES)


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
        bounds = f"not within {1.0 / _LARGEST_SCORE:g} and {_LARGEST_SCORE:g}"
        raise ValueError(f"the trees' scores reach {largest:.3g}, {bounds}: train on the target in other units")


def _drawn(scores: Scores, draws: int) -> Floats:
    """Normal draws of one tree's scores around their mean, shape (n_rows, draws, n_scores)."""
    n_rows, n_scores = scores.mean.shape
    if n_scores == 1:
        # One quantile in each of ``draws`` equal parts, shifted from row to row.
        place = np.arange(draws) + ((np.arange(n_rows) + 0.5) * _GOLDEN % 1.0)[:, None]
        return np.asarray(np.sqrt(scores.covariance(0, 0))[:, None] * ndtri(place / draws))[:, :, None]
    drawn = np.random.default_rng(SEED).standard_normal((n_rows, draws, n_scores))
    for start, stop in blocks(n_rows, n_scores**2, what="scores"):
        rows = slice(start, stop)
        covariance = scores.take(rows).covariances()
        # The covariance is singular if there are fewer trees than classes, or if scores add up to a constant.
        least = np.trace(covariance, axis1=1, axis2=2) * 1e-9 + 1e-200
        root = np.linalg.cholesky(covariance + least[:, None, None] * np.eye(n_scores))
        drawn[rows] = drawn[rows] @ root.transpose(0, 2, 1)
    return drawn
