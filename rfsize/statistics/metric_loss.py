"""The loss of a metric with T trees: how much worse it is expected to be than with infinitely many trees.

The loss is c/(T + d). It comes from the variance of the averaged scores, c/T, and flattens at small T, where the metric
can hardly get worse. Smaller forests within the forest measure it: halves and quarters of the trees. They share their
trees with the whole forest, so their loss against it hardly scatters. With n trees, the mean losses are
c·(1/(n/2 + d) − 1/(n + d)) and c·(1/(n/4 + d) − 1/(n + d)). Their ratio, which is 3 for d = 0, gives d, and then either
gives c. Out of bag, n is the number of trees that were not trained on a row, and 1/(n + d) is averaged over the rows.

The trees come in `N_BLOCKS` blocks. The blocks are dealt into four quarters at random, again and again; two quarters
make a half. To first order, what one half adds to the metric the other half takes away, and likewise for quarters. The
rest is quadratic in the trees' deviations, like a sample variance over the blocks, which has 19 degrees of freedom. One
deal covers 3 of them, so its variance is 19/3 times that of the mean over all deals; the scatter over deals lacks the
latter, and is 16/3 times as large. This gives the uncertainty of the mean over deals, for other trees. The influence of
each row on the losses of halves and quarters gives the uncertainty for other rows.

For forests smaller than quarters the law would be an extrapolation: it may say that halves lose nothing, while a single
tree loses much. Such forests are drawn instead (see `subforests`). Between the measured sizes the loss is linear in
1/T; from halves on, the law continues it.

If halves show no clear loss, rfsize takes the upper bound of the loss at all sizes. T times the loss grows with T, by
the law to c, so c is at least as large as by any measured size: its bound is the largest of the bounds by these. A loss
that cannot be told from 0 is thus bounded by its standard error, never by 0. If halves are clearly better than all
trees, the rows do not tell what trees add: out of bag, rows of a rare class are predicted by trees that saw even fewer
rows of their class, and more trees show this more clearly.

The law describes the mean over forests. The metric of one forest moves from seed to seed by s/√T, to first order. The
jackknife, which leaves out one block at a time, gives s (B. Efron and C. Stein (1981). "The jackknife estimate of
variance." The Annals of Statistics 9(3), 586-596). Out of bag, n of the T trees predict a row, and two rows have n²/T
of them in common. The variance that rows have in common is therefore as with all trees, but the variance of each row on
its own is T/n times as large. If each row leaves out the blocks in its own order, the jackknife gives only the latter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri

from rfsize import theory
from rfsize._util import Floats, Int64s
from rfsize.counting.outputs import TreeOutputs, sums_of
from rfsize.counting.sums import N_BLOCKS
from rfsize.exceptions import FewVotesError
from rfsize.statistics.curve import COVERAGE, SEED, jackknife_error
from rfsize.statistics.metrics import Metric
from rfsize.statistics.subforests import (
    SIZES,
    ForestParts,
    SubforestLoss,
    losses_of_few_trees,
    weighted,
)

MIN_VOTES = 20
"""Fewest votes of a row, on average, from which the law of the loss is fitted."""

_N_DEALS = 24  # how often the trees are dealt into halves and quarters
_DEALS_OF_ROWS = 4  # one deal in so many computes each row's influence
_DEGREES = 3.0 / (N_BLOCKS - 4)  # variance of the mean over all deals, by the scatter over deals
_PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))  # each after its complement
_FORESTS = len(_PAIRS) + 4  # of a deal
_HALVES, _QUARTERS = 1, 2
_ALL, WITHOUT_ONE = np.ones((1, N_BLOCKS)), 1.0 - np.eye(N_BLOCKS)
_NEARLY_ALL, _TURNS = 0.99, 2  # share of the scores that is nearly all, and orders of the blocks of each row
_FEWEST_ROWS = 0.5  # share of the rows that every quarter must predict

# Deals, sizes of few trees, and turns of a loss in brief; and how many rows outside the largest class are enough. On
# 15 problems with 20,000 rows this raised the standard error of log c by at most a quarter for log loss and RMSE, and
# by 10 % to 50 % for most AUCs (once to 2.2 times); the same losses were significant.
_IN_BRIEF, _ENOUGH_ROWS = (8, SIZES[::2], 1), 2500

# Up to which d/n a law is trusted; how uncertain log c may be; and how many standard errors make a loss significant.
_MAX_OFFSET, _MAX_ERROR, _SIGNIFICANT = 0.6, 0.5, 2.0
# Error of log c that the estimate does not include: trees not quite independent, laws of a slightly different form.
_MODEL_ERROR = 0.1
_STEP = 1e-4  # of derivatives


class Law(NamedTuple):
    """The expected loss c/(T + d) of a forest of T trees."""

    c: Any  # a number, or an array for several quantiles
    d: float

    def loss(self, n_trees: float) -> Any:
        """Expected loss of ``n_trees`` trees."""
        return self.c / (n_trees + self.d)


_NO_LAW = Law(0.0, 0.0)


@dataclass(frozen=True)
class MetricLoss:
    """The expected loss of a metric over the number of trees.

    Attributes
    ----------
    value : float
        The metric of the trees at hand.
    n_votes, votes_per_row : float
        Number of trees that predicted a row, as harmonic mean and as mean.
    measured : tuple of SubforestLoss
        Losses of smaller forests, smallest first; the last two are quarters and halves of the trees.
    n_rows, n_dropped : int
        Rows that were used, and rows left out because some quarter has no tree to predict them.
    worse : float
        The sign of the change when the metric gets worse; if it is unknown, of the change from all trees to halves.
    tree_error : float
        Standard error of ``value`` for other trees, from the differences of halves.
    law : Law
        The loss of T trees, if it is significant. If d is too large for c to be known, the law with the largest d that
        is trusted.
    tree_factor_needed : float
        How many times as many trees would determine c, if d is too large for the trees at hand; otherwise 1.
    error : float
        Standard error of log c.
    is_significant : bool
        Whether the loss of halves exceeds its noise.
    seed_sd : float
        Standard deviation of the metric from seed to seed, for a forest of T trees, times √T; NaN if it was not asked
        for.
    """

    value: float
    n_votes: float
    votes_per_row: float
    measured: tuple[SubforestLoss, ...]
    n_rows: int
    n_dropped: int
    worse: float
    tree_error: float
    law: Law = _NO_LAW
    tree_factor_needed: float = 1.0
    error: float = math.inf
    is_significant: bool = False
    seed_sd: float = math.nan

    @property
    def central(self) -> float:
        """The quantile of the loss that stands for it: the median, or if it is not significant its upper bound."""
        return 0.5 if self.is_significant else COVERAGE

    @property
    def is_reversed(self) -> bool:
        """Whether halves of the trees are clearly better than all trees."""
        halves = self.measured[-1]
        return halves.loss < -_SIGNIFICANT * halves.error

    def at(self, quantile: ArrayLike) -> Law:
        """The law at a quantile of c; if the loss is not significant, 0 below the median."""
        z = ndtri(quantile)
        if self.is_significant:
            return Law(self.law.c * np.exp(self.error * z), self.law.d)
        by_size = [measured.at(z) / (1.0 / measured.n_trees - 1.0 / measured.against) for measured in self.measured]
        return Law(np.where(np.less(quantile, 0.5), 0.0, np.max(by_size, axis=0, initial=0.0)), 0.0)

    def loss(self, n_trees: int | Int64s, quantile: ArrayLike = 0.5) -> Floats:
        """The expected loss of ``n_trees`` trees, or quantiles of it, shape (…, n_sizes); more trees lose no more."""
        law, z, trees = self.at(quantile), ndtri(quantile), np.asarray(n_trees, dtype=np.float64)
        *smaller, halves = self.measured
        measured = [of_size.at(z) + law.loss(of_size.against) for of_size in smaller]
        # Measured sizes, smallest first, up to halves, lose no less than larger ones.
        sizes = np.array([of_size.n_trees for of_size in self.measured])
        losses = np.maximum.accumulate([law.loss(halves.n_trees), *measured[::-1]])[::-1]
        shares = [np.interp(1.0 / trees, 1.0 / sizes[::-1], of_size[::-1]) for of_size in np.eye(len(sizes))]
        below = np.multiply.outer(losses[0] * sizes[0], 1.0 / trees)
        above = np.multiply.outer(law.c, 1.0 / (trees + law.d))
        return np.where(trees < sizes[0], below, np.where(trees < sizes[-1], losses.T @ np.array(shares), above))

    def size(self, tolerance: float, quantile: float = 0.5) -> int | float:
        """The smallest size within the tolerance; not below the smallest measured size."""
        law = self.at(quantile)

        def loss(n_trees: int) -> float:
            return float(self.loss(n_trees, quantile))

        within = theory.smallest_size(loss, tolerance, guess=law.c / tolerance - law.d)
        return max(within, math.ceil(self.measured[0].n_trees))

    def gain(self, n_trees: float) -> tuple[float, float]:
        """How much better the metric is expected to be if ``n_trees`` trees predict each row, and the standard error.

        By the law; if the loss is not significant, by what halves of the trees lose.
        """
        if n_trees <= self.n_votes:
            return 0.0, 0.0
        if self.is_significant:
            gain = self.law.loss(self.n_votes) - self.law.loss(n_trees)
            return gain, gain * self.error
        halves = self.measured[-1]
        share = (1.0 / self.n_votes - 1.0 / n_trees) / (1.0 / halves.n_trees - 1.0 / halves.against)
        return share * halves.loss, share * halves.error


def metric_loss(
    outputs: TreeOutputs, metric: Metric, *, of_all_sizes: bool = True, of_seeds: bool = True, in_brief: bool = False
) -> MetricLoss:
    """Measure how much a metric loses because a forest has too few trees.

    Parameters
    ----------
    outputs : TreeOutputs
        The trees' outputs on distinct rows.
    metric : Metric
        The metric with the truth of these rows.
    of_all_sizes : bool, default True
        Whether to measure forests of a few trees.
    of_seeds : bool, default True
        Whether to measure the scatter from seed to seed.
    in_brief : bool, default False
        Whether to measure fewer forests on fewer rows, in less than a third of the time.

    Raises
    ------
    FewVotesError
        If too few trees predicted the rows.
    ValueError
        If the metric is no number.
    """
    n_deals, sizes, n_turns = _IN_BRIEF if in_brief else (_N_DEALS, SIZES, _TURNS)
    blocks, deals, n_rows = sums_of(outputs).blocks, _deals(n_deals), len(weighted(outputs, metric))
    metric = _on_fewer_rows(outputs, metric) if in_brief else metric
    on = weighted(outputs, metric)
    votes_per_row = float(blocks.n_scored[on].sum(axis=1).mean()) if len(on) else 0.0
    parts = ForestParts.of_blocks(outputs, metric, _of_kinds(deals[1:])[1])
    has_enough = votes_per_row >= MIN_VOTES and blocks.n_filled == N_BLOCKS
    if len(on) and not (has_enough and len(parts.rows) >= _FEWEST_ROWS * len(on)):
        raise _too_few(blocks.n_trees, votes_per_row)
    votes, values = _Votes.of(parts, deals), parts.values(deals)
    of_halves, of_quarters = (of_kind.reshape(n_deals, -1) for of_kind in _of_kinds(values[1:] - values[0]))
    by_deal = _worse(metric, of_halves) * np.stack([of_halves.mean(axis=1), of_quarters.mean(axis=1)], axis=1)
    of_rows = parts.row_covariance(_of_kinds(deals[1 : 1 + n_deals // _DEALS_OF_ROWS * _FORESTS]))
    covariance = np.cov(by_deal.T) * (_DEGREES + 1.0 / n_deals) + of_rows
    halves, quarters = (float(loss) for loss in by_deal.mean(axis=0))
    more = _fitted(votes, halves, quarters, covariance)
    n_votes, n_half, n_quarter = votes.mean
    measured, seed_sd = [], math.nan
    if of_all_sizes:
        measured = losses_of_few_trees(outputs, metric, n_quarter, sizes)
    if of_seeds:
        seed_sd = _seed_sd(parts, outputs.n_trees, n_votes / outputs.n_trees * len(on) / n_rows, n_turns)
    measured.append(SubforestLoss(n_quarter, quarters, _root(covariance[1, 1]), n_votes))
    measured.append(SubforestLoss(n_half, halves, _root(covariance[0, 0]), n_votes))
    more |= {"n_votes": n_votes, "votes_per_row": votes_per_row, "seed_sd": seed_sd}
    return _loss(parts, values[0], of_halves, measured, len(on), **more)


def _on_fewer_rows(outputs: TreeOutputs, metric: Metric) -> Metric:
    """The metric on one in so many rows of each class that the smaller classes together keep as many as are enough.

    Of a regression, on one in so many rows in the order of their truth.
    """
    rows = sums_of(outputs).blocks.rows[weighted(outputs, metric)]
    truth = metric.truth[rows]
    largest = np.unique(truth, return_counts=True)[1].max(initial=0) if len(outputs.classes) else len(rows) // 2
    one_in = max(1, (len(rows) - largest) // _ENOUGH_ROWS)
    kept, weight = rows[np.argsort(truth, kind="stable")[::one_in]], np.zeros_like(metric.weight)
    weight[kept] = metric.weight[kept]
    return replace(metric, weight=weight)


def loss_of_halves(outputs: TreeOutputs, metric: Metric) -> MetricLoss:
    """The same from halves alone, for rows of so few trees that quarters say nothing: a law c/T that is a guess."""
    blocks = sums_of(outputs).blocks
    rng, n_filled = np.random.default_rng(SEED), blocks.n_filled
    first = np.stack([rng.permutation(n_filled) < n_filled // 2 for _ in range(_N_DEALS)])
    pairs = np.zeros((2 * _N_DEALS, blocks.n_scored.shape[1]))
    pairs[0::2, :n_filled], pairs[1::2, :n_filled] = first, ~first
    parts = ForestParts.of_blocks(outputs, metric, pairs)
    n_scored = parts.n_scored.sum(axis=0)
    n_votes, votes_per_row = float(1.0 / np.mean(1.0 / n_scored)), float(n_scored.mean())
    values = parts.values(np.concatenate([_ALL, pairs]))
    of_halves = values[1:] - values[0]
    by_deal = _worse(metric, of_halves) * of_halves.reshape(-1, 2).mean(axis=1)
    of_rows = parts.row_covariance([pairs[: len(_PAIRS)]])[0, 0]
    # Of the n - 1 degrees of freedom of the blocks, a deal of halves covers one.
    of_trees = by_deal.var(ddof=1) * (1.0 / max(n_filled - 2.0, 1.0) + 1.0 / _N_DEALS)
    halves = SubforestLoss(n_votes / 2.0, float(by_deal.mean()), _root(float(of_trees + of_rows)), n_votes)
    n_rows = len(weighted(outputs, metric))
    return _loss(parts, values[0], of_halves, [halves], n_rows, n_votes=n_votes, votes_per_row=votes_per_row)


def _loss(
    parts: ForestParts, value: float, of_halves: Floats, measured: Sequence[SubforestLoss], n_rows: int, **more: Any
) -> MetricLoss:
    """The record of what was measured on parts of ``n_rows`` rows; of the halves, each comes after its complement.

    ``more`` are further fields of `MetricLoss`.
    """
    pairs, worse = of_halves.reshape(-1, 2), _worse(parts.metric, of_halves)
    tree_error = float(np.sqrt(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2))) / 2.0
    more |= {"n_rows": len(parts.rows), "n_dropped": n_rows - len(parts.rows), "worse": worse, "tree_error": tree_error}
    return MetricLoss(float(value), measured=tuple(measured), **more)


def _worse(metric: Metric, changes: Floats) -> float:
    """See `MetricLoss.worse`."""
    return metric.worse if metric.larger_is_better is not None else float(np.sign(changes.mean())) or 1.0


def _fitted(votes: _Votes, halves: float, quarters: float, covariance: Floats) -> dict[str, Any]:
    """``law``, ``tree_factor_needed``, ``error`` and ``is_significant`` of `MetricLoss`."""
    is_significant = bool(halves > _SIGNIFICANT * math.sqrt(covariance[0, 0]) and quarters > 0.0)
    error, factor, largest = math.inf, 1.0, _MAX_OFFSET * votes.mean[0]
    law = votes.law(halves, quarters) if min(halves, quarters) > 0.0 else Law(0.0, 0.0)
    if is_significant:
        slopes = _slopes_of_log_c(votes, np.array([halves, quarters]))
        error = math.hypot(_root(float(slopes @ covariance @ slopes)), _MODEL_ERROR)
        is_significant = error <= _MAX_ERROR or law.d > largest
    if is_significant and law.d > largest:
        factor = float(np.clip(2.0 * law.d / largest, 2.0, 10.0))
        law = Law(halves / votes.loss_over_c(_HALVES, largest), largest)
    return {"law": law, "tree_factor_needed": factor, "error": error, "is_significant": is_significant}


def shared_error(blocks: ForestParts) -> float:
    """Standard error of the metric for other trees, without what each row has on its own."""
    return _root(_jackknife_variance(blocks) - _own_variance(blocks, _TURNS))


def _seed_sd(parts: ForestParts, n_trees: int, own: float, n_turns: int) -> float:
    """See `MetricLoss.seed_sd`; of ``n_trees`` trees at hand, whose blocks are taken in ``n_turns`` orders.

    ``own`` is the share that counts of what each row has on its own, which is too much out of bag and of fewer rows.
    """
    variance = _jackknife_variance(parts)
    if own < _NEARLY_ALL:
        alone = _own_variance(parts, n_turns)
        variance = max(variance - (1.0 - own) * alone, own * alone)
    return math.sqrt(n_trees * variance)


def _jackknife_variance(parts: ForestParts) -> float:
    """Variance of the metric from seed to seed, by leaving out each block in turn."""
    return float(jackknife_error(parts.values(WITHOUT_ONE))) ** 2


def _own_variance(parts: ForestParts, n_turns: int) -> float:
    """What each row has of this variance on its own: each leaves out the blocks in its own order."""
    rng, n_rows = np.random.default_rng(SEED), len(parts.rows)
    first = [rng.integers(N_BLOCKS, size=n_rows) for _ in range(n_turns)]
    return float(np.mean([_jackknife_variance(parts.rotated(of_row)) for of_row in first]))


class _Votes(NamedTuple):
    """How many trees predict a row: of all trees, halves and quarters, numbers of trees and the share with each."""

    numbers: list[Int64s]
    shares: list[Floats]

    @classmethod
    def of(cls, parts: ForestParts, deals: Floats) -> _Votes:
        n_scored, weight = np.tensordot(deals, parts.n_scored, 1), parts.metric.weight[parts.rows]
        numbers, shares = [], []
        for of_kind in (n_scored[:1], *_of_kinds(n_scored[1:])):
            of_rows = np.broadcast_to(weight[None, :, None], of_kind.shape).ravel() if np.ptp(weight) > 0.0 else None
            mass = np.bincount(of_kind.astype(np.int64).ravel(), weights=of_rows)
            numbers.append(np.flatnonzero(mass))
            shares.append(mass[numbers[-1]] / mass.sum())
        return cls(numbers, shares)

    @property
    def mean(self) -> list[float]:
        """Harmonic mean of the trees that predict a row, for all trees, halves and quarters."""
        return [1.0 / float(shares @ (1.0 / numbers)) for numbers, shares in zip(*self, strict=True)]

    def law(self, halves: float, quarters: float) -> Law:
        """The law that fits the losses of halves and quarters."""
        ratio, most = quarters / halves, 1e3 * self.mean[0]

        def ratio_at(d: float) -> float:
            return self.loss_over_c(_QUARTERS, d) / self.loss_over_c(_HALVES, d)

        if ratio >= ratio_at(0.0):
            d = 0.0
        elif ratio <= ratio_at(most):
            d = most
        else:
            d = float(brentq(lambda offset: ratio_at(offset) - ratio, 0.0, most, xtol=1e-9))
        return Law(halves / self.loss_over_c(_HALVES, d), d)

    def loss_over_c(self, kind: int, d: float) -> float:
        """The loss of halves, or of quarters, divided by c."""
        of_part, of_all = (self.shares[place] @ (1.0 / (self.numbers[place] + d)) for place in (kind, 0))
        return float(of_part - of_all)


@cache
def _deals(n_deals: int) -> Floats:
    """Which blocks are in each forest, shape (1 + n_deals × 10, N_BLOCKS).

    All trees, then six halves and four quarters of the first deal, of the second, ….
    """
    rng, forests = np.random.default_rng(SEED), [_ALL]
    for _ in range(n_deals):
        quarter = rng.permutation(N_BLOCKS) % 4
        quarters = np.array([quarter == number for number in range(4)], dtype=np.float64)
        forests += [np.array([quarters[first] + quarters[second] for first, second in _PAIRS]), quarters]
    return np.concatenate(forests)


def _of_kinds(forests: Floats) -> list[Floats]:
    """Split the rows of an array over the forests of deals: halves, quarters."""
    is_half = np.arange(len(forests)) % _FORESTS < len(_PAIRS)
    return [forests[is_half], forests[~is_half]]


def _slopes_of_log_c(votes: _Votes, losses: Floats) -> Floats:
    """Derivatives of log c by the losses of halves and of quarters."""

    def log_c(step: Floats) -> float:
        return math.log(votes.law(*(losses * (1.0 + step))).c)

    return np.array([log_c(step) - log_c(-step) for step in _STEP * np.eye(2)]) / (2.0 * _STEP * losses)


def _root(variance: float) -> float:
    """Standard deviation; rounding can make a variance of 0 negative."""
    return math.sqrt(max(variance, 0.0))


def _too_few(n_trees: int, votes_per_row: float) -> FewVotesError:
    """The error if too few trees predicted the rows."""
    # Twice what the mean suggests: some rows may have far fewer trees than the mean.
    enough = max(2 * n_trees, math.ceil(2.0 * MIN_VOTES * n_trees / max(votes_per_row, 1.0)))
    fault = f"{votes_per_row:.1f} trees per row, of {n_trees:,}, are too few to measure what a metric loses"
    return FewVotesError(f"{fault}: train at least {enough:,} trees, or give other rows", enough=enough)
