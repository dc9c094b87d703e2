"""How far rows are from a tie: the vote counts of two classes, or standardized margins of votes or averaged scores.

A forest predicts the class with the most votes or the highest averaged score (of two classes, class 1 if its score
exceeds a cut). On one tree, the class that wins in the limit leads over a rival by a random amount with mean μ and
standard deviation σ. By the central limit theorem, T trees keep it ahead with probability Φ(√T·μ/σ). The row's
*margin* over the rival is μ/σ. Votes are scores of 0 and 1, so that majority votes of several classes have margins too.

All rows are predicted by the same trees, so their errors go together. Blocks of trees are independent draws: estimates
without one block after the other show the noise that rows share. They also include the noise of each row by itself,
which estimates know from the variances of the rows; `own_share` says how large that part is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Floats, Int64s
from rfsize.counting.sums import Blocks, Scores, leading, where
from rfsize.counting.votes import two_leaders
from rfsize.statistics.density import VoteCells

# Rounding error of a difference that is 0 (and of a variance, which is computed as a difference), relative to the
# scores.
_ROUNDING = 1e-12

_LEAST = 1e-300

Sample = NDArray[Any] | Scores
"""Rows with counted votes, shape (n_rows, n_classes), or with the trees' scores."""


class Margins(NamedTuple):
    """Standardized margins of the leading class, or of one class, over each rival.

    Attributes
    ----------
    margin : ndarray of float, shape (n_rows, n_rivals)
        μ/σ, negative if the rival leads; infinite if all trees agree exactly.
    n_trees : ndarray of int32, shape (n_rows,)
        Number of trees that the margin was measured on, at least 2.
    folded : bool
        Whether the margins are those of the leading class, so that their true sign is not known.
    """

    margin: Floats
    n_trees: NDArray[np.int32]
    folded: bool


def measured(sample: Sample, cut: float, label: int | None = None) -> VoteCells | Margins:
    """How far the rows are from a tie, or from where class ``label`` leads, on those that enough trees predicted.

    Of votes for two classes each row has a cell of its own.

    Raises
    ------
    ValueError
        If a score is not finite.
    """
    if isinstance(sample, Scores):
        return _score_margins(sample, cut, label)
    n_votes = sample.sum(axis=1)
    if sample.shape[1] > 2:
        return _vote_margins(sample[n_votes > 1], label)
    losing = sample.min(axis=1) if label is None else sample[:, 1 - label]
    losing, n_votes = losing[n_votes > 0], n_votes[n_votes > 0]
    return VoteCells(losing, n_votes, np.ones(len(losing)), label is None)


def _vote_margins(counts: NDArray[Any], label: int | None) -> Margins:
    n_trees, row = counts.sum(axis=1), np.arange(len(counts))
    leader = two_leaders(counts)[0] if label is None else np.full(len(row), label)
    top = counts[row, leader][:, None]
    rivals = np.arange(counts.shape[1]) != leader[:, None]
    behind = counts[rivals].reshape(len(counts), -1)
    n = n_trees[:, None].astype(np.float64)
    lead = (top - behind) / n
    variance = ((top + behind) / n - lead**2) * n / (n - 1.0)
    # A class without votes is no rival: the normal law would let it win now and then.
    return Margins(np.where(behind > 0, _ratio(lead, variance, 1.0, 0.0), np.inf), n_trees, label is None)


def _score_margins(scores: Scores, cut: float, label: int | None = None) -> Margins:
    scores = scores.take(scores.n_votes > 1)
    if not scores.are_finite():
        raise ValueError("the trees' scores must be finite: a leaf of the model holds NaN or an infinite number")
    if scores.n_scores == 1:
        ahead = np.abs(scores.mean - cut) if label is None else (scores.mean - cut) * (2 * label - 1)
        return Margins(_ratio(ahead, scores.covariance(0, 0)[:, None], abs(cut), 0.0), scores.n_votes, label is None)
    row = np.arange(len(scores))
    leader = leading(scores.mean, cut) if label is None else np.full(len(row), label)
    margin = np.empty((len(scores), scores.n_scores - 1))
    top = scores.mean.max(axis=1) if label is None else scores.mean[:, label]
    own = scores.covariance(leader, leader)
    for place in range(scores.n_scores - 1):
        rival = place + (place >= leader)
        behind = top - scores.mean[row, rival]
        apart = own + scores.covariance(rival, rival)
        variance = apart - 2.0 * scores.covariance(leader, rival)
        margin[:, place] = _ratio(behind, variance, np.abs(top), apart)
    return Margins(margin, scores.n_votes, label is None)


def _ratio(mean: Floats, variance: Floats, level: Floats | float, apart: Floats | float) -> Floats:
    """μ/σ; infinite if all trees agree but for rounding."""
    level = np.maximum(np.abs(mean), level)
    same = variance <= (_ROUNDING * level) ** 2 + _ROUNDING * apart
    return np.where(same, np.copysign(np.inf, mean), mean / np.sqrt(np.where(same, 1.0, variance)))


# Parts of the trees


def without_block(blocks: Blocks, block: int, *, of_scores: bool) -> Sample:
    """The rows of the blocks as all trees but those of one block predict them.

    As many average votes replace those of the block, since ties depend on whether the number of votes is even.
    """
    if of_scores:
        return scores_of_blocks(blocks, np.arange(blocks.votes.shape[1]) != block)
    votes = blocks.votes[:, block]
    n_votes = np.maximum(blocks.counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(blocks.counts - votes + votes.sum(axis=1, keepdims=True) / n_votes * blocks.counts)


def halves(blocks: Blocks, *, of_scores: bool) -> list[Sample]:
    """The rows of the blocks as each half of the blocks predicts them."""
    even = np.arange(blocks.votes.shape[1]) % 2 == 0
    if of_scores:
        return [scores_of_blocks(blocks, half) for half in (even, ~even)]
    return [blocks.votes[:, half].sum(axis=1, dtype=np.int32) for half in (even, ~even)]


def scores_of_blocks(blocks: Blocks, kept: Bools) -> Scores:
    """Scores of the trees in some of the blocks, with the covariance over all trees."""
    weight = kept.astype(np.float64)
    by_score = np.einsum("rbs,b->rs", blocks.n_scored, weight)
    n_trees = by_score.min(axis=1).astype(np.int32)
    freedom = np.maximum(n_trees - 1, 0) / np.maximum(blocks.scores.n_votes - 1, 1)
    mean = np.einsum("rbs,b->rs", blocks.total, weight) / np.maximum(by_score, 1)
    return replace(blocks.scores, n_votes=n_trees, mean=mean, scatter=blocks.scores.scatter * freedom[:, None])


class MarginChanges(NamedTuple):
    """The margin of each row over its nearest rival, and how much each block of trees changes it.

    Attributes
    ----------
    margin : ndarray of float, shape (n_rows,)
        Mean lead, divided by the standard deviation of one tree's lead.
    change : ndarray of float, shape (n_rows, n_blocks)
        How much each block adds to the margin, compared with the same number of average trees.
    n_trees : ndarray of float, shape (n_rows,)
        Number of trees that predicted the row.
    weight : ndarray of float, shape (n_rows,)
        Weight of the row in the mean over the rows.
    """

    margin: Floats
    change: Floats
    n_trees: Floats
    weight: Floats


def changes_of_margins(blocks: Blocks, cut: float, weight: float, *, of_scores: bool) -> MarginChanges:
    """How much the blocks of trees change the margins, on rows that at least two trees predicted.

    ``weight`` is that of all these rows together.
    """
    blocks = where(blocks, blocks.scores.n_votes > 1).apart
    n_rows = len(blocks.rows)
    changes = _changes_of_scores(blocks, cut) if of_scores else _changes_of_votes(blocks)
    return MarginChanges(*changes, np.full(n_rows, weight / max(n_rows, 1)))


def _changes_of_votes(blocks: Blocks) -> tuple[Floats, Floats, Floats]:
    counts, row = blocks.counts, np.arange(len(blocks.rows))
    leader, rival = two_leaders(counts)
    ahead, behind = counts[row, leader], counts[row, rival]
    n_votes = np.maximum(counts.sum(axis=1), 1)
    scale = 1.0 / np.sqrt(np.maximum(ahead + behind, 1) * n_votes)
    votes = blocks.votes.astype(np.float64)
    total, of_block = votes.sum(axis=1, keepdims=True), votes.sum(axis=2, keepdims=True)
    beyond = votes - of_block * total / np.maximum(total.sum(axis=2, keepdims=True), 1.0)
    change = beyond[row, :, leader] - beyond[row, :, rival]
    return (ahead - behind) * scale, change * scale[:, None], n_votes.astype(np.float64)


def _changes_of_scores(blocks: Blocks, cut: float) -> tuple[Floats, Floats, Floats]:
    scores, row = blocks.scores, np.arange(len(blocks.rows))
    n_scored = np.maximum(blocks.n_scored.sum(axis=1), 1)
    mean = blocks.total.sum(axis=1) / n_scored
    beyond = (blocks.total - blocks.n_scored * mean[:, None]) / n_scored[:, None]
    margin, n_trees, _ = _score_margins(scores, cut)
    if scores.n_scores == 1:
        variance, change = scores.covariance(0, 0), beyond[:, :, 0] * np.sign(scores.mean - cut)
    else:
        # If rivals are equal but for the last bits, the class number decides, as it does for leaders.
        leader, least = leading(scores.mean, cut), margin.min(axis=1, keepdims=True)
        nearest = (margin <= least + _ROUNDING * (1.0 + least)).argmax(axis=1)
        rival = nearest + (nearest >= leader)
        variance = scores.covariance(leader, leader) + scores.covariance(rival, rival)
        variance -= 2.0 * scores.covariance(leader, rival)
        change = beyond[row, :, leader] - beyond[row, :, rival]
    certain = np.isinf(margin.min(axis=1)) | ~(variance > 0.0)
    change = np.where(certain[:, None], 0.0, change / np.sqrt(np.where(certain, 1.0, variance))[:, None])
    return margin.min(axis=1), change, n_trees.astype(np.float64)


def own_share(changes: MarginChanges, sizes: Int64s) -> Floats:
    """Share of the variance of the disagreement that is due to each row by itself, shape (n_sizes,).

    A row is weighted by how much a change of its margin changes the disagreement at that size, near a tie. For forests
    larger than the number of trees that predicted it, the margin is not known well enough for that size.
    """
    squares = (changes.change**2).sum(axis=1)
    shares = []
    for size in sizes:
        known = np.sqrt(1.0 / (1.0 / size + 1.0 / np.maximum(changes.n_trees, 1.0)))
        weight = np.exp(-0.5 * np.minimum(known * changes.margin, 30.0) ** 2) * known * changes.weight
        together = ((weight @ changes.change) ** 2).sum()
        shares.append(min(1.0, float(weight**2 @ squares) / max(together, _LEAST)))
    return np.array(shares)
