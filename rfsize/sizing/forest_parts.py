"""Forests of some of the trees at hand: what they predict, how much they lose, and how that scatters over the rows.

Halves and quarters of a forest do not show the loss of a single tree, so forests of a few trees are drawn. For each
row, the outputs of N single trees are kept. These trees are dealt at random into forests of 1, 2, 3, … trees, again and
again. Only trees that can vote on a row predict it, so out of bag two rows may get different trees. As with halves, the
mean loss of a deal's forests against all N trees is free of what single trees add to first order: what one forest
gains, another loses. Measuring smaller forests within the forest at hand is an idea of L. Mentch and G. Hooker (2016).
"Quantifying uncertainty in random forests via confidence intervals and hypothesis tests." Journal of Machine Learning
Research 17(26), 1-41.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import CELLS_PER_BLOCK, Floats, Int64s
from rfsize.counting.part_sums import N_BLOCKS, Blocks
from rfsize.estimation.intervals import SEED
from rfsize.estimation.shared_trees import weighted_sums
from rfsize.exceptions import RfsizeError
from rfsize.sizing.metrics import Metric, value_or_nan

Predicted = Callable[[Floats], Floats]
"""Makes a forest's predictions from mean scores, in the form that a metric takes."""

SIZES = (1, 2, 3, 5, 9, 19, 37)

_FORESTS, _FORESTS_OF_ROWS = 24, 4  # fewest forests of each size, and how many of them compute each row's influence
_FEW_ROWS = 0.05  # share of the rows that may have fewer trees than are dealt
# Scatter between seeds that the estimate does not include, as a share of what single trees lose.
_UNFOLLOWED = 0.1

# For a metric without influence: into how many groups the rows are divided, to leave out one at a time, and which part
# of the forests is tried (one in _TRIED).
_ROW_GROUPS, _TRIED = 20, 3


@dataclass(frozen=True, eq=False)
class ForestParts:
    """Scores of parts of a forest on rows; a part is a block of trees or a single tree.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Numbers of the rows, as in the truth of a metric.
    total : ndarray of float64, shape (n_rows, n_parts, n_scores)
        Sums of the scores of the trees of each part.
    asked : ndarray, shape (n_rows, n_parts, 1 or n_scores)
        Trees that were asked for each of the scores.
    predicted : callable
    """

    rows: Int64s
    total: Floats
    asked: NDArray[np.generic]
    predicted: Predicted

    @cached_property
    def whole(self) -> Floats:
        """The predictions of all parts together, shape (n_rows, n_outputs)."""
        return self._predictions(slice(None), np.ones((1, self.total.shape[1])))[0]

    def values(self, judge: Metric, forests: Floats, turn: Int64s | None = None) -> Floats:
        """The metric of several forests; the first is the whole forest.

        Parameters
        ----------
        judge : Metric
        forests : ndarray of float, shape (n_forests, n_parts)
            Which parts are in each forest.
        turn : ndarray of int64, shape (n_rows,), optional
            Which part comes first on each row; the others follow in turn.
        """
        measuring = judge.start(len(forests), self.whole)
        step = max(1, CELLS_PER_BLOCK // (len(forests) * max(self.total.shape[2], self.whole.shape[1])))
        for start in range(0, len(self.rows), step):
            rows = slice(start, start + step)
            measuring.add(self.rows[rows], self._predictions(rows, forests, turn))
        return measuring.conclude()

    def scatter_of_rows(self, judge: Metric, kinds: list[Floats], units: Int64s | None) -> Floats:
        """Covariance of the losses of forests of several kinds, over other rows or groups of rows.

        Parameters
        ----------
        judge : Metric
        kinds : list of ndarray of float, shape (n_forests, n_parts)
            Forests of each kind; their losses are averaged.
        units : ndarray of int64 or None
            The group of each row of the metric's truth; None if each row is a group of its own.

        Returns
        -------
        ndarray of float, shape (n_kinds, n_kinds)
        """
        _, unit = np.unique(self.rows if units is None else units[self.rows], return_inverse=True)
        now = judge.influence(self.rows, self.whole)
        if now is None:
            return self._scatter_by_trying(judge, kinds, unit)
        lost, at_once = np.zeros((len(kinds), len(self.rows))), max(1, CELLS_PER_BLOCK // self.whole.size)
        for of_kind, forests in zip(lost, kinds, strict=True):
            for start in range(0, len(forests), at_once):
                for predictions in self._predictions(slice(None), forests[start : start + at_once]):
                    added = judge.influence(self.rows, predictions)
                    assert added is not None
                    of_kind += (added - now) / len(forests)
        by_unit = np.stack([np.bincount(unit, weights=of_kind) for of_kind in lost])
        return np.asarray(by_unit @ by_unit.T)

    def _scatter_by_trying(self, judge: Metric, kinds: list[Floats], unit: Int64s) -> Floats:
        """The same covariance, by leaving out groups of rows in turn."""
        left_out = np.random.default_rng(SEED).permutation(int(unit.max()) + 1)[unit] % _ROW_GROUPS
        tried = (self._predictions(slice(None), forests[: max(1, len(forests) // _TRIED)]) for forests in kinds)
        predicted: list[Iterable[Floats]] = [[self.whole], *tried]
        found = []
        for group in range(_ROW_GROUPS):
            kept = left_out != group
            whole, *values = (
                [value_or_nan(judge, self.rows[kept], forest[kept]) for forest in forests] for forests in predicted
            )
            found.append([np.mean(of_kind) - whole[0] for of_kind in values])
        lost = np.array(found)
        lost = lost[np.isfinite(lost).all(axis=1)]  # without a group, a rare class may be missing
        if len(lost) < 2:
            raise RfsizeError("the metric has no value on most parts of the rows: give more rows of each class")
        return np.atleast_2d(np.cov(lost.T)) * (_ROW_GROUPS - 1.0) ** 2 / _ROW_GROUPS

    def _predictions(self, rows: slice, forests: Floats, turn: Int64s | None = None) -> Floats:
        """The predictions of forests on some rows, shape (n_forests, n_rows, n_outputs)."""
        total, asked = self.total[rows], self.asked[rows]
        if turn is not None:
            n_parts = total.shape[1]
            order = (turn[rows][:, None, None] + np.arange(n_parts)[:, None]) % n_parts
            total, asked = np.take_along_axis(total, order, axis=1), np.take_along_axis(asked, order, axis=1)
        return self.predicted(weighted_sums(total, forests) / weighted_sums(asked, forests))


class Measured(NamedTuple):
    """The measured loss of forests of one size.

    Attributes
    ----------
    n_trees : float
        Number of their trees.
    loss : float
        Their mean loss against a larger forest.
    noise : float
        Standard error of the loss, for other rows and other trees.
    against : float
        Number of trees of the larger forest.
    """

    n_trees: float
    loss: float
    noise: float
    against: float

    def at(self, away: float) -> float:
        """The loss so many standard errors away from the measured one, or from 0 if smaller forests seem better."""
        return max(0.0, self.loss) + away * self.noise

    def c_at(self, away: float) -> float:
        """The c of a loss c/T that agrees with `at`."""
        return self.at(away) / (1.0 / self.n_trees - 1.0 / self.against)


def losses_of_few_trees(
    blocks: Blocks, judge: Metric, predicted: Predicted, units: Int64s | None = None, *, below: float
) -> list[Measured]:
    """The losses of forests of `SIZES` that are smaller than ``below`` and than half of the trees kept.

    Parameters
    ----------
    blocks, judge, predicted, units
        As in `loss.metric_loss`.
    below : float
        The size from which on blocks of trees show the loss.
    """
    trees = _kept(blocks, judge, predicted)
    n_trees = trees.total.shape[1]
    sizes = [size for size in SIZES if size < below and 2 * size <= n_trees]
    if not sizes:
        return []
    generator = np.random.default_rng(SEED)
    dealt = [_deals(n_trees, size, generator) for size in sizes]
    flat = [deal for deals in dealt for deal in deals]
    values = judge.worse * trees.values(judge, np.concatenate([np.ones((1, n_trees)), *flat]))
    lost = np.split(values[1:] - values[0], np.cumsum([len(deal) for deal in flat])[:-1])
    scatter = np.diag(trees.scatter_of_rows(judge, [deals[0][:_FORESTS_OF_ROWS] for deals in dealt], units))
    found = []
    for size, deals, of_rows in zip(sizes, dealt, scatter, strict=True):
        means = np.array([lost.pop(0).mean() for _ in deals])
        of_trees = means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
        noise = math.sqrt(of_rows + of_trees + (_UNFOLLOWED * means.mean()) ** 2)
        found.append(Measured(float(size), float(means.mean()), noise, float(n_trees)))
    return found


def mean_of_smaller_forests(blocks: Blocks, judge: Metric, predicted: Predicted, n_trees: int) -> float:
    """The mean of a metric over forests of ``n_trees`` of the trees; many trees are taken in blocks."""
    generator, trees = np.random.default_rng(SEED), _kept(blocks, judge, predicted)
    if 2 * n_trees <= trees.total.shape[1]:
        forests = np.concatenate(_deals(trees.total.shape[1], n_trees, generator))
        return float(trees.values(judge, forests).mean())
    blocks = blocks
    n_blocks = min(N_BLOCKS, max(1, round(N_BLOCKS * n_trees / max(1.0, float(blocks.n_scored.sum(axis=1).mean())))))
    place = generator.permuted(np.tile(np.arange(N_BLOCKS), (_FORESTS, 1)), axis=1)
    forests = (place < n_blocks).astype(np.float64)
    some = np.flatnonzero(
        (judge.weight[blocks.rows] > 0.0) & (weighted_sums(blocks.n_scored, forests) > 0.0).all((0, 2))
    )
    if not len(some):
        return math.nan
    dealt = ForestParts(blocks.rows[some], blocks.total[some], blocks.n_scored[some], predicted)
    return float(dealt.values(judge, forests).mean())


def _kept(blocks: Blocks, judge: Metric, predicted: Predicted) -> ForestParts:
    """Single trees: as many as nearly all counting rows have, on the rows that have as many."""
    some = np.flatnonzero(judge.weight[blocks.rows] > 0.0)
    most = judge.most_rows(1 + len(SIZES) * 2 * _FORESTS, max(blocks.first.shape[2], 2))
    some = some[:: 1 if most is None else -(-len(some) // most)]
    n_first = blocks.n_first[some].min(axis=1)
    n_trees = int(np.quantile(n_first, _FEW_ROWS, method="lower"))
    some = some[n_first >= n_trees]
    return ForestParts(blocks.rows[some], blocks.first[some, :n_trees], np.ones((len(some), n_trees, 1)), predicted)


def _deals(n_trees: int, size: int, generator: np.random.Generator) -> list[Floats]:
    """Which trees are in each forest of a deal, shape (n_forests, n_trees)."""
    n_forests = n_trees // size
    deals = []
    for _ in range(-(-_FORESTS // n_forests)):
        forest = generator.permutation(n_trees) // size
        deals.append((forest == np.arange(n_forests)[:, None]).astype(np.float64))
    return deals
