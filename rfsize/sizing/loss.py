"""What a metric loses for want of trees: the expected loss against the infinite forest, from the trees at hand.

The loss of T trees goes as c/(T + d): it comes from the variance of the averaged scores, c/T, and bends where these are
so few that the metric can hardly get worse. Smaller forests are at hand within the forest: halves and quarters of its
trees share their trees with the whole, so that what they lose against it hardly scatters. With n trees they lose, in
the mean, c·(1/(n/2 + d) − 1/(n + d)) and c·(1/(n/4 + d) − 1/(n + d)). Their ratio, 3 where nothing bends, tells d, and
then either tells c. A training row asks only the trees that did not see it: n is then theirs, and 1/(n + d) the mean
over the rows.

The trees come in `N_BLOCKS` blocks, which are dealt into four quarters at random again and again; two quarters are a
half. To first order, what the trees of a half add to the metric its other half takes away, and so it is with quarters.
What is left is quadratic in the trees' deviations, as a sample variance over blocks is: a deal tells of 3 of its 19
degrees of freedom, which says how uncertain the mean over deals is of other trees. Which rows are at hand matters too:
the influence of each row on what halves and quarters lose says how much.

The law is not asked about forests smaller than quarters, from which it would be trusted far from where it was measured:
where it says that halves lose nothing, a single tree may lose much. Such forests are drawn (see `few_trees`). Between
sizes that were measured the loss is a straight line over 1/T, and from halves on the law continues it.

Where few rows are outside the largest class, the rows that a smaller forest gets wrong may not be among them, and out
of bag each is judged by trees that saw even fewer of its class: a ranking hardly better than chance then seems to lose
nothing by a single tree. If halves do not tell the loss of such rows from none, the loss is taken as the most that it
may be, at all sizes, and halves that seem better than all trees are taken to be as good.

The law is of the mean over forests. What one forest has of a metric moves from seed to seed by s/√T, to first order,
which leaving out one block after the other tells, by the jackknife (B. Efron and C. Stein (1981). "The jackknife
estimate of variance." The Annals of Statistics 9(3), 586-596). Out of bag, where n of the T trees are asked about a
row, n²/T of them are asked about both of two rows, so that what these have in common moves the metric as it does with
all trees; what each row has of its own moves it T/n times as much. That is what remains of the jackknife where each row
leaves out its blocks in an order of its own.
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
from rfsize.estimation.intervals import COVERAGE, SEED
from rfsize.estimation.shared_trees import weighted_sums
from rfsize.exceptions import FewVotesError
from rfsize.sizing.forest_parts import ForestParts, Measured, Predicted, losses_of_few_trees
from rfsize.sizing.metrics import Metric, no_weight, value_of
from rfsize.sizing.named_metrics import of_smaller_forests
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import N_BLOCKS, TreeBlocks

FEWEST_ASKED = 20
FEW_ROWS = 100
"""Rows outside the largest class that tell what a metric loses; measured by `benchmarks/few_rows.py`."""

_DEALS, _DEALS_OF_ROWS = 24, 6  # the last of which each row's influence is asked
_DEGREES = 3.0 / (N_BLOCKS - 1)  # that a deal has of all
_PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
_FORESTS = len(_PAIRS) + 4  # of a deal
_HALVES, _QUARTERS = 1, 2
_ALL = np.ones((1, N_BLOCKS))
# The forest at hand comes first, around which a metric may be taken to second order.
_ALL_AND_WITHOUT_ONE = np.concatenate([_ALL, 1.0 - np.eye(N_BLOCKS)])
_ALL_ASKED, _TURNS = 0.99, 2  # share of the trees that nearly all rows ask, and orders of the blocks of each row
_FEWEST_ROWS = 0.5  # share of the rows that all quarters must know

# How bent a law is trusted, as d/n, how uncertain log c may be, and how many standard errors tell a loss from none.
_MOST_BENT, _MOST_UNSURE, _SIGNIFICANT = 0.6, 0.5, 2.0
# What no estimate follows of log c: trees that are not quite independent, laws that bend a little otherwise.
_UNFOLLOWED = 0.1
_STEP = 1e-4  # of derivatives


class Law(NamedTuple):
    """The expected loss c/(T + d) of a forest of T trees."""

    c: float
    d: float

    def loss(self, n_trees: float) -> float:
        """Expected loss of so many trees."""
        return self.c / (n_trees + self.d)


@dataclass(frozen=True)
class MetricLoss:
    """The expected loss of a metric over the number of trees.

    Attributes
    ----------
    value : float
        The metric of the trees at hand.
    law : Law
        The loss of T trees; of a loss that is not significant, c is the most that it may be (95 %), and d is 0. Of
        one that bends too much for c to be known, the least that bends so.
    bend : float
        The d by which halves and quarters lose what they do.
    noise : float
        Standard error of log c.
    is_significant : bool
        Whether the loss of halves is more than their noise.
    asked, votes_per_row : float
        Trees at hand asked about a row, as harmonic mean and as mean.
    measured : tuple of Measured
        What smaller forests lose, from the smallest up; the last are quarters and halves of the trees.
    n_rows, n_dropped : int
        Rows that it was measured on, and others that some quarter has no tree to ask about.
    of_a_tree : float
        By what the metric of a forest of T trees moves from seed to seed, times √T: a standard deviation.
    few : int or None
        Rows outside the largest class, where they are fewer than `FEW_ROWS`.
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
    few: int | None

    @property
    def is_bent(self) -> bool:
        """Whether the law bends too much at the trees at hand for c to be known."""
        return self.is_significant and self.bend > _MOST_BENT * self.asked

    @property
    def enough_to_tell(self) -> float:
        """How many times the trees at hand would tell c where the law bends too much."""
        return float(np.clip(2.0 * self.bend / (_MOST_BENT * self.asked), 2.0, 10.0))

    def at(self, quantile: float) -> Law:
        """The law at a quantile of what c may be; of a loss that is not significant, between 0 and its most."""
        if not self.is_significant:
            return self.law if quantile >= 0.5 else Law(0.0, 0.0)
        return Law(self.law.c * math.exp(self.noise * float(ndtri(quantile))), self.law.d)

    def loss(self, n_trees: int | Int64s, quantile: float = 0.5) -> Floats:
        """The expected loss of a number of trees, or a quantile of what it may be; more trees never lose more."""
        law, trees = self.at(quantile), np.asarray(n_trees, dtype=np.float64)
        sizes, losses = self._known(law, quantile)
        between = np.interp(1.0 / trees, 1.0 / sizes[::-1], losses[::-1])
        below = losses[0] * sizes[0] / trees
        return np.where(trees < sizes[0], below, np.where(trees < sizes[-1], between, law.c / (trees + law.d)))

    def size(self, tolerance: float, quantile: float = 0.5) -> int | float:
        """The smallest forest within the tolerance, of those that were measured or are larger."""
        law = self.at(quantile)
        within = theory.smallest_size(
            lambda n_trees: float(self.loss(n_trees, quantile)), tolerance, guess=law.c / tolerance - law.d
        )
        return max(within, math.ceil(self.measured[0].n_trees))

    def _known(self, law: Law, quantile: float) -> tuple[Floats, Floats]:
        """Sizes, from the smallest up to halves, and what they lose: no less than larger ones."""
        is_most = self.few is not None and not self.is_significant and quantile >= 0.5
        away, (*smaller, halves) = float(ndtri(max(quantile, COVERAGE) if is_most else quantile)), self.measured
        losses = [one.loss + away * one.noise + law.loss(one.against) for one in smaller]
        sizes = np.array([one.n_trees for one in self.measured])
        return sizes, np.maximum.accumulate([law.loss(halves.n_trees), *losses[::-1]])[::-1]


def metric_loss(
    blocks: TreeBlocks, judge: Metric, predicted: Predicted, units: Int64s | None = None, few: int | None = None
) -> MetricLoss:
    """What a metric loses for want of trees.

    Parameters
    ----------
    blocks : TreeBlocks
        What blocks of the trees say of rows, which are numbered as the metric's truth is.
    judge : Metric
        One that is known to be better when larger, or when smaller.
    predicted : callable
        What the forest predicts from mean scores, as the metric takes it.
    units : ndarray of int64, optional
        Numbers of the groups that the rows of the metric's truth belong to; each its own by default.
    few : int, optional
        As of `MetricLoss`.

    Raises
    ------
    FewVotesError
        If rows were asked of too few trees.
    ValueError
        If the metric is no number.
    """
    parts = _DealtBlocks.dealt(blocks.laid_over(), judge, predicted)
    by_deal = parts.losses(judge)
    of_rows = parts.scatter_of_rows(of_smaller_forests(judge), parts.kinds(_DEALS_OF_ROWS), units)
    covariance = np.cov(by_deal.T) * (_DEGREES + 1.0 / len(by_deal)) + of_rows
    halves, quarters = (float(lost) for lost in by_deal.mean(axis=0))
    is_significant = bool(halves > _SIGNIFICANT * math.sqrt(covariance[0, 0]) and quarters > 0.0)
    noise, bend, most_bent = math.inf, 0.0, _MOST_BENT * parts.mean_asked[0]
    law = parts.fit(halves, quarters) if min(halves, quarters) > 0.0 else Law(0.0, 0.0)
    if is_significant:
        slopes = _slopes(lambda of: math.log(parts.fit(*of).c), np.array([halves, quarters]))
        noise = math.hypot(_root(float(slopes @ covariance @ slopes)), _UNFOLLOWED)
        is_significant = noise <= _MOST_UNSURE or law.d > most_bent
    if not is_significant:
        tail = float(ndtri(COVERAGE))
        least = -math.inf if few is None else 0.0
        most = max(0.0, max(halves, least) + tail * math.sqrt(covariance[0, 0]))
        law = Law(most / parts.lost_by(_HALVES, min(law.d, most_bent)), 0.0)
    elif law.d > most_bent:
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
        few=few,
    )


@dataclass(frozen=True, eq=False)
class _DealtBlocks(ForestParts):
    """Blocks of the trees, and their halves and quarters, on the rows that all of these were asked about.

    Attributes
    ----------
    in_part : ndarray of float64, shape (1 + n_deals × 10, N_BLOCKS)
        Which blocks are in all trees, in the six halves and four quarters of the first deal, of the second, ….
    n_asked : list of (ndarray, ndarray)
        Of all trees, halves and quarters: how many trees are asked, and by what share of the rows.
    votes_per_row : float
        Mean of the trees at hand asked about a row.
    """

    in_part: Floats
    n_asked: list[tuple[Int64s, Floats]]
    votes_per_row: float

    @classmethod
    def dealt(cls, blocks: TreeBlocks, judge: Metric, predicted: Predicted) -> _DealtBlocks:
        """Deal the blocks of trees again and again."""
        weight = judge.weight[blocks.rows]
        counts = weight > 0.0
        if not counts.any():
            raise no_weight()
        votes_per_row = float(blocks.asked[counts].sum(axis=1).mean())
        if votes_per_row < FEWEST_ASKED or blocks.n_filled < N_BLOCKS:
            raise _too_few(blocks.n_trees, votes_per_row)
        n_outputs = max(blocks.total.shape[2], 2)
        most = judge.most_rows(1 + _DEALS * _FORESTS, n_outputs)
        some = np.flatnonzero(counts)[:: 1 if most is None else -(-int(counts.sum()) // most)]
        in_part = _deals()
        asked = weighted_sums(blocks.asked[some], in_part)
        known = (asked > 0.0).all(axis=(0, 2))
        if known.mean() < _FEWEST_ROWS:
            raise _too_few(blocks.n_trees, votes_per_row)
        some, asked = some[known], asked[:, known]
        n_asked = [_shares(one, weight[some]) for one in (asked[:1], *_of_kinds(asked[1:]))]
        dealt = blocks.total[some], blocks.asked[some]
        return cls(blocks.rows[some], *dealt, predicted, in_part, n_asked, votes_per_row)

    @property
    def mean_asked(self) -> list[float]:
        """Trees asked about a row, as harmonic mean, of all trees, halves and quarters."""
        return [1.0 / float(shares @ (1.0 / numbers)) for numbers, shares in self.n_asked]

    def kinds(self, n_deals: int) -> list[Floats]:
        """Which blocks are in the halves, and in the quarters, of the first deals."""
        return _of_kinds(self.in_part[1 : 1 + n_deals * _FORESTS])

    def losses(self, judge: Metric) -> Floats:
        """What the halves and the quarters of each deal lose, shape (n_deals, 2)."""
        values = judge.worse * self.values(of_smaller_forests(judge), self.in_part)
        return np.stack([of.reshape(_DEALS, -1).mean(axis=1) for of in _of_kinds(values[1:] - values[0])], axis=1)

    def spread_of_a_tree(self, judge: Metric, n_trees: int) -> float:
        """See `MetricLoss.of_a_tree`; ``n_trees`` are at hand."""
        share, variance = self.mean_asked[0] / n_trees, self._jackknife(judge)
        if share < _ALL_ASKED:
            rng, n_rows = np.random.default_rng(SEED), len(self.rows)
            turns = [rng.integers(N_BLOCKS, size=n_rows) for _ in range(_TURNS)]
            alone = float(np.mean([self._jackknife(judge, turn) for turn in turns]))
            variance = max(variance - (1.0 - share) * alone, share * alone)
        return math.sqrt(n_trees * variance)

    def _jackknife(self, judge: Metric, turn: Int64s | None = None) -> float:
        """The variance of the metric that forests without one block tell, each row's first one being its ``turn``."""
        values = self.values(judge, _ALL_AND_WITHOUT_ONE, turn)[1:]
        return float(np.var(values)) * (N_BLOCKS - 1.0)

    def fit(self, halves: float, quarters: float) -> Law:
        """The law by which halves and quarters lose so much."""
        ratio, most = quarters / halves, 1e3 * self.mean_asked[0]
        if ratio >= self.ratio(0.0):
            d = 0.0
        elif ratio <= self.ratio(most):
            d = most
        else:
            d = float(brentq(lambda bend: self.ratio(bend) - ratio, 0.0, most, xtol=1e-9))
        return Law(halves / self.lost_by(_HALVES, d), d)

    def ratio(self, d: float) -> float:
        """What quarters lose in units of what halves do."""
        return self.lost_by(_QUARTERS, d) / self.lost_by(_HALVES, d)

    def lost_by(self, kind: int, d: float) -> float:
        """What halves, or quarters, lose in units of c."""
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
    """What is known of the forests of deals, of the halves and of the quarters."""
    is_half = np.arange(len(forests)) % _FORESTS < len(_PAIRS)
    return [forests[is_half], forests[~is_half]]


def _shares(asked: Floats, weight: Floats) -> tuple[Int64s, Floats]:
    """Numbers of trees asked, and by what share of the weight, over parts, rows and scores."""
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
    """Standard deviation; a variance of 0 may be rounded to less."""
    return math.sqrt(max(variance, 0.0))


def _too_few(n_trees: int, votes_per_row: float) -> FewVotesError:
    """What to say of rows that too few trees were asked about."""
    # Some rows may be asked of far fewer trees than the mean, so that more of these take more than their number tells.
    enough = max(2 * n_trees, math.ceil(2.0 * FEWEST_ASKED * n_trees / max(votes_per_row, 1.0)))
    return FewVotesError(
        f"{votes_per_row:.1f} trees per row, of {n_trees:,}, are too few to measure what a metric loses: train at "
        f"least {enough:,} trees, or give rows that the forest was not trained on",
        enough=enough,
    )
