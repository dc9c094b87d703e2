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
tree loses much. Such forests are drawn instead (see `forest_parts`). Between the measured sizes the loss is linear in
1/T; from halves on, the law continues it.

If halves show no clear loss, rfsize takes the upper bound of the loss at all sizes. T times the loss grows with T, by
the law to c, so c is at least as large as by any measured size: its bound is the largest of the bounds by these. A loss
that cannot be told from 0 is thus bounded by its standard error, never by 0. If halves are clearly better than all
trees, the rows do not tell what trees add: out of bag, rows of a rare class are predicted by trees that saw even fewer
rows of their class, and more trees show this more clearly.

The law describes the mean over forests. The metric of one forest moves from seed to seed by s/√T, to first order. The
jackknife, which leaves out one block at a time, gives s (B. Efron and C. Stein (1981). "The jackknife estimate of
variance." The Annals of Statistics 9(3), 586-596). Out of bag, a row asks n of the T trees, and two rows have n²/T of
them in common. The variance that rows have in common is therefore as with all trees, but the variance of each row on
its own is T/n times as large. If each row leaves out the blocks in its own order, the jackknife gives only the latter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from rfsize import theory
from rfsize._util import Floats, Int64s
from rfsize.counting.part_sums import N_BLOCKS, Blocks
from rfsize.estimation.intervals import SEED
from rfsize.estimation.shared_trees import weighted_sums
from rfsize.exceptions import FewVotesError
from rfsize.sizing.forest_parts import ForestParts, Measured, Predicted, losses_of_few_trees
from rfsize.sizing.metrics import Metric, no_weight, value_of

FEWEST_ASKED = 20
_DEALS, _DEALS_OF_ROWS = 24, 6  # number of deals, and of those that compute each row's influence
_DEGREES = 3.0 / (N_BLOCKS - 4)  # variance of the mean over all deals, by the scatter over deals
_PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
_FORESTS = len(_PAIRS) + 4  # of a deal
_HALVES, _QUARTERS = 1, 2
_ALL = np.ones((1, N_BLOCKS))
# The forest at hand comes first: a metric may be expanded around it to second order.
_ALL_AND_WITHOUT_ONE = np.concatenate([_ALL, 1.0 - np.eye(N_BLOCKS)])
_ALL_ASKED, _TURNS = 0.99, 2  # share of the trees that nearly all rows ask, and orders of the blocks of each row
_FEWEST_ROWS = 0.5  # share of the rows that every quarter must predict

# Up to which d/n a law is trusted; how uncertain log c may be; and how many standard errors make a loss significant.
_MOST_BENT, _MOST_UNSURE, _SIGNIFICANT = 0.6, 0.5, 2.0
# Error of log c that the estimate does not include: trees not quite independent, laws of a slightly different form.
_UNFOLLOWED = 0.1
_STEP = 1e-4  # of derivatives


class Law(NamedTuple):
    """The expected loss c/(T + d) of a forest of T trees."""

    c: float
    d: float

    def loss(self, n_trees: float) -> float:
        """Expected loss of ``n_trees`` trees."""
        return self.c / (n_trees + self.d)


@dataclass(frozen=True)
class MetricLoss:
    """The expected loss of a metric over the number of trees.

    Attributes
    ----------
    value : float
        The metric of the trees at hand.
    law : Law
        The loss of T trees, if it is significant. If d is too large for c to be known, the law with the largest d that
        is trusted.
    bend : float
        The d that fits the losses of halves and quarters.
    noise : float
        Standard error of log c.
    is_significant : bool
        Whether the loss of halves exceeds its noise.
    asked, votes_per_row : float
        Number of trees that predicted a row, as harmonic mean and as mean.
    measured : tuple of Measured
        Losses of smaller forests, smallest first; the last two are quarters and halves of the trees.
    n_rows, n_dropped : int
        Rows that were used, and rows left out because some quarter has no tree to predict them.
    of_a_tree : float
        Standard deviation of the metric from seed to seed, for a forest of T trees, times √T.
    """

    value: float
    law: Law
    bend: float
    noise: float
    is_significant: bool
    asked: float
    votes_per_row: float
    measured: tuple[Measured, ...]
    n_rows: int
    n_dropped: int
    of_a_tree: float

    @property
    def is_bent(self) -> bool:
        """Whether d is too large, for the trees at hand, for c to be known."""
        return self.is_significant and self.bend > _MOST_BENT * self.asked

    @property
    def is_reversed(self) -> bool:
        """Whether halves of the trees are clearly better than all trees."""
        halves = self.measured[-1]
        return halves.loss < -_SIGNIFICANT * halves.noise

    @property
    def enough_to_tell(self) -> float:
        """How many times as many trees would determine c, if d is too large."""
        return float(np.clip(2.0 * self.bend / (_MOST_BENT * self.asked), 2.0, 10.0))

    def at(self, quantile: float) -> Law:
        """The law at a quantile of c; if the loss is not significant, 0 below the median."""
        away = float(ndtri(quantile))
        if self.is_significant:
            return Law(self.law.c * math.exp(self.noise * away), self.law.d)
        if quantile < 0.5:
            return Law(0.0, 0.0)
        return Law(max(0.0, *(one.c_at(away) for one in self.measured)), 0.0)

    def loss(self, n_trees: int | Int64s, quantile: float = 0.5) -> Floats:
        """The expected loss of ``n_trees`` trees, or a quantile of it; more trees never lose more."""
        law, trees = self.at(quantile), np.asarray(n_trees, dtype=np.float64)
        sizes, losses = self._known(law, quantile)
        between = np.interp(1.0 / trees, 1.0 / sizes[::-1], losses[::-1])
        below = losses[0] * sizes[0] / trees
        return np.where(trees < sizes[0], below, np.where(trees < sizes[-1], between, law.c / (trees + law.d)))

    def size(self, tolerance: float, quantile: float = 0.5) -> int | float:
        """The smallest size within the tolerance; not below the smallest measured size."""
        law = self.at(quantile)
        within = theory.smallest_size(
            lambda n_trees: float(self.loss(n_trees, quantile)), tolerance, guess=law.c / tolerance - law.d
        )
        return max(within, math.ceil(self.measured[0].n_trees))

    def _known(self, law: Law, quantile: float) -> tuple[Floats, Floats]:
        """Measured sizes, smallest first, up to halves, and their losses: no smaller than those of larger sizes."""
        away, (*smaller, halves) = float(ndtri(quantile)), self.measured
        losses = [one.at(away) + law.loss(one.against) for one in smaller]
        sizes = np.array([one.n_trees for one in self.measured])
        return sizes, np.maximum.accumulate([law.loss(halves.n_trees), *losses[::-1]])[::-1]


def metric_loss(blocks: Blocks, judge: Metric, predicted: Predicted, units: Int64s | None = None) -> MetricLoss:
    """Measure how much a metric loses because a forest has too few trees.

    Parameters
    ----------
    blocks : Blocks
        Scores of blocks of the trees on rows, which are numbered as in the truth of the metric.
    judge : Metric
        A metric whose direction is known.
    predicted : callable
        Makes predictions from mean scores, in the form that the metric takes.
    units : ndarray of int64, optional
        The group of each row of the metric's truth; by default each row is a group of its own.

    Raises
    ------
    FewVotesError
        If too few trees predicted the rows.
    ValueError
        If the metric is no number.
    """
    parts = _DealtBlocks.dealt(blocks, judge, predicted)
    by_deal = parts.losses(judge)
    of_rows = parts.scatter_of_rows(judge, parts.kinds(_DEALS_OF_ROWS), units)
    covariance = np.cov(by_deal.T) * (_DEGREES + 1.0 / len(by_deal)) + of_rows
    halves, quarters = (float(lost) for lost in by_deal.mean(axis=0))
    is_significant = bool(halves > _SIGNIFICANT * math.sqrt(covariance[0, 0]) and quarters > 0.0)
    noise, bend, most_bent = math.inf, 0.0, _MOST_BENT * parts.mean_asked[0]
    law = parts.fit(halves, quarters) if min(halves, quarters) > 0.0 else Law(0.0, 0.0)
    if is_significant:
        slopes = _slopes(lambda of: math.log(parts.fit(*of).c), np.array([halves, quarters]))
        noise = math.hypot(_root(float(slopes @ covariance @ slopes)), _UNFOLLOWED)
        is_significant = noise <= _MOST_UNSURE or law.d > most_bent
    if is_significant and law.d > most_bent:
        bend, law = law.d, Law(halves / parts.lost_by(_HALVES, most_bent), most_bent)
    whole, half, quarter = parts.mean_asked
    measured = losses_of_few_trees(blocks, judge, predicted, units, below=quarter)
    measured.append(Measured(quarter, quarters, _root(covariance[1, 1]), whole))
    measured.append(Measured(half, halves, _root(covariance[0, 0]), whole))
    return MetricLoss(
        value=value_of(judge, parts.rows, parts.whole),
        law=law,
        bend=bend,
        noise=noise,
        is_significant=is_significant,
        asked=whole,
        votes_per_row=parts.votes_per_row,
        measured=tuple(measured),
        n_rows=len(parts.rows),
        n_dropped=len(blocks.rows) - len(parts.rows),
        of_a_tree=parts.spread_of_a_tree(judge, blocks.n_trees),
    )


@dataclass(frozen=True, eq=False)
class _DealtBlocks(ForestParts):
    """Blocks of the trees, with halves and quarters of them, on the rows that all of these predicted.

    Attributes
    ----------
    in_part : ndarray of float64, shape (1 + n_deals × 10, N_BLOCKS)
        Which blocks are in each forest: all trees, then six halves and four quarters of the first deal, of the second,
        ….
    n_asked : list of (ndarray, ndarray)
        For all trees, halves and quarters: numbers of trees that predict a row, and the share of the rows with each.
    votes_per_row : float
        Mean number of trees that predicted a row.
    """

    in_part: Floats
    n_asked: list[tuple[Int64s, Floats]]
    votes_per_row: float

    @classmethod
    def dealt(cls, blocks: Blocks, judge: Metric, predicted: Predicted) -> _DealtBlocks:
        """Deal the blocks of trees again and again."""
        weight = judge.weight[blocks.rows]
        counts = weight > 0.0
        if not counts.any():
            raise no_weight()
        votes_per_row = float(blocks.n_scored[counts].sum(axis=1).mean())
        if votes_per_row < FEWEST_ASKED or blocks.n_filled < N_BLOCKS:
            raise _too_few(blocks.n_trees, votes_per_row)
        n_outputs = max(blocks.total.shape[2], 2)
        most = judge.most_rows(1 + _DEALS * _FORESTS, n_outputs)
        some = np.flatnonzero(counts)[:: 1 if most is None else -(-int(counts.sum()) // most)]
        in_part = _deals()
        asked = weighted_sums(blocks.n_scored[some], in_part)
        known = (asked > 0.0).all(axis=(0, 2))
        if known.mean() < _FEWEST_ROWS:
            raise _too_few(blocks.n_trees, votes_per_row)
        some, asked = some[known], asked[:, known]
        n_asked = [_shares(one, weight[some]) for one in (asked[:1], *_of_kinds(asked[1:]))]
        dealt = blocks.total[some], blocks.n_scored[some]
        return cls(blocks.rows[some], *dealt, predicted, in_part, n_asked, votes_per_row)

    @property
    def mean_asked(self) -> list[float]:
        """Harmonic mean of the trees that predict a row, for all trees, halves and quarters."""
        return [1.0 / float(shares @ (1.0 / numbers)) for numbers, shares in self.n_asked]

    def kinds(self, n_deals: int) -> list[Floats]:
        """Which blocks are in the halves and quarters of the first ``n_deals`` deals."""
        return _of_kinds(self.in_part[1 : 1 + n_deals * _FORESTS])

    def losses(self, judge: Metric) -> Floats:
        """Losses of the halves and quarters of each deal, shape (n_deals, 2)."""
        values = judge.worse * self.values(judge, self.in_part)
        return np.stack([of.reshape(_DEALS, -1).mean(axis=1) for of in _of_kinds(values[1:] - values[0])], axis=1)

    def spread_of_a_tree(self, judge: Metric, n_trees: int) -> float:
        """See `MetricLoss.of_a_tree`; ``n_trees`` is the number of trees at hand."""
        share, variance = self.mean_asked[0] / n_trees, self._jackknife(judge)
        if share < _ALL_ASKED:
            rng, n_rows = np.random.default_rng(SEED), len(self.rows)
            turns = [rng.integers(N_BLOCKS, size=n_rows) for _ in range(_TURNS)]
            alone = float(np.mean([self._jackknife(judge, turn) for turn in turns]))
            variance = max(variance - (1.0 - share) * alone, share * alone)
        return math.sqrt(n_trees * variance)

    def _jackknife(self, judge: Metric, turn: Int64s | None = None) -> float:
        """Jackknife variance of the metric, over forests without one block; ``turn`` is the first block of each row."""
        values = self.values(judge, _ALL_AND_WITHOUT_ONE, turn)[1:]
        return float(np.var(values)) * (N_BLOCKS - 1.0)

    def fit(self, halves: float, quarters: float) -> Law:
        """The law that fits the losses of halves and quarters."""
        ratio, most = quarters / halves, 1e3 * self.mean_asked[0]
        if ratio >= self.ratio(0.0):
            d = 0.0
        elif ratio <= self.ratio(most):
            d = most
        else:
            d = float(brentq(lambda bend: self.ratio(bend) - ratio, 0.0, most, xtol=1e-9))
        return Law(halves / self.lost_by(_HALVES, d), d)

    def ratio(self, d: float) -> float:
        """The loss of quarters divided by the loss of halves, by a law with this d."""
        return self.lost_by(_QUARTERS, d) / self.lost_by(_HALVES, d)

    def lost_by(self, kind: int, d: float) -> float:
        """The loss of halves, or of quarters, divided by c."""
        of_part, of_all = (shares @ (1.0 / (numbers + d)) for numbers, shares in (self.n_asked[kind], self.n_asked[0]))
        return float(of_part - of_all)


def _deals() -> Floats:
    """Which blocks are in each of the smaller forests; see `_DealtBlocks.in_part`."""
    rng, found = np.random.default_rng(SEED), [_ALL]
    for _ in range(_DEALS):
        quarter = rng.permutation(N_BLOCKS) % 4
        quarters = np.array([quarter == number for number in range(4)], dtype=np.float64)
        found += [np.array([quarters[one] + quarters[other] for one, other in _PAIRS]), quarters]
    return np.concatenate(found)


def _of_kinds(forests: Floats) -> list[Floats]:
    """Split the rows of an array over the forests of deals: halves, quarters."""
    is_half = np.arange(len(forests)) % _FORESTS < len(_PAIRS)
    return [forests[is_half], forests[~is_half]]


def _shares(asked: Floats, weight: Floats) -> tuple[Int64s, Floats]:
    """Numbers of trees asked, and the share of the weight with each number, over parts, rows and scores."""
    weights = np.broadcast_to(weight[None, :, None], asked.shape)
    found = np.bincount(asked.astype(np.int64).ravel(), weights=weights.ravel())
    numbers = np.flatnonzero(found)
    return numbers, found[numbers] / found.sum()


def _slopes(of: Callable[[Floats], float], at: Floats) -> Floats:
    """Derivatives of a function of several numbers above 0."""
    found = np.empty(len(at))
    for index, value in enumerate(at):
        up, down = at.copy(), at.copy()
        up[index], down[index] = value * (1.0 + _STEP), value * (1.0 - _STEP)
        found[index] = (of(up) - of(down)) / (2.0 * _STEP * value)
    return found


def _root(variance: float) -> float:
    """Standard deviation; rounding can make a variance of 0 negative."""
    return math.sqrt(max(variance, 0.0))


def _too_few(n_trees: int, votes_per_row: float) -> FewVotesError:
    """The error if too few trees predicted the rows."""
    # Twice what the mean suggests: some rows may ask far fewer trees than the mean.
    enough = max(2 * n_trees, math.ceil(2.0 * FEWEST_ASKED * n_trees / max(votes_per_row, 1.0)))
    return FewVotesError(
        f"{votes_per_row:.1f} trees per row, of {n_trees:,}, are too few to measure what a metric loses: train at "
        f"least {enough:,} trees, or give rows that the forest was not trained on",
        enough=enough,
    )
