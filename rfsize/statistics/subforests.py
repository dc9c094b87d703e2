"""Sub-forests, of some of the trees at hand: their predictions, their losses, and how these scatter over the rows.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import CELLS_PER_BLOCK, Floats, Int64s
from rfsize.counting.sums import N_BLOCKS, Blocks
from rfsize.statistics.curve import SEED
from rfsize.statistics.metrics import Metric, replicates_of, value_of, value_or_nan
from rfsize.statistics.row_errors import delete_group_covariance, without_groups

Predictions = Callable[[Floats], Floats]
"""Makes a forest's predictions from mean scores, in the form that a metric takes."""

_SIZES = (1, 2, 3, 5, 9, 19, 37)
_FORESTS, _FORESTS_OF_ROWS = 24, 4  # fewest forests of each size, and how many of them compute each row's influence
_FEW_ROWS = 0.05  # share of the rows that may have fewer trees than are dealt
# Scatter between seeds that the estimate does not include, as a share of what single trees lose.
_MODEL_ERROR = 0.1
_EVALUATED = 3  # for a metric without influence, the scatter over rows is that of one forest in so many


@dataclass(frozen=True, eq=False)
class ForestParts:
    """Scores of parts of a forest on rows; a part is a block of trees or a single tree.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Numbers of the rows, as in the truth of a metric.
    total : ndarray of float64, shape (n_rows, n_parts, n_scores)
        Sums of the scores of the trees of each part.
    n_scored : ndarray, shape (n_rows, n_parts, 1 or n_scores)
        Number of trees that scored.
    predictions_of : callable
    """

    rows: Int64s
    total: Floats
    n_scored: NDArray[np.generic]
    predictions_of: Predictions

    @cached_property
    def whole(self) -> Floats:
        """The predictions of all parts together, shape (n_rows, n_outputs)."""
        return self.predictions(slice(None), np.ones((1, self.total.shape[1])))[0]

    def predictions(self, rows: slice, forests: Floats, first: Int64s | None = None) -> Floats:
        """The predictions of forests on some rows, shape (n_forests, n_rows, n_outputs).

        Parameters
        ----------
        rows : slice
        forests : ndarray of float, shape (n_forests, n_parts)
            Which parts are in each forest.
        first : ndarray of int64, shape (n_rows,), optional
            Which part comes first on each row; the others follow in turn.
        """
        total, n_scored = self.total[rows], self.n_scored[rows]
        if first is not None:
            n_parts = total.shape[1]
            order = (first[rows][:, None, None] + np.arange(n_parts)[:, None]) % n_parts
            total, n_scored = np.take_along_axis(total, order, axis=1), np.take_along_axis(n_scored, order, axis=1)
        return self.predictions_of(weighted_sums(total, forests) / weighted_sums(n_scored, forests))

    def values(self, metric: Metric, forests: Floats, first: Int64s | None = None) -> Floats:
        """The metric of several forests; arguments as of `predictions`."""
        if metric.replicates is None:  # it takes all rows at once, so one forest after another
            return np.array([value_of(metric, self.rows, predicted) for predicted in self._one_by_one(forests, first)])
        step = max(1, CELLS_PER_BLOCK // (len(forests) * max(self.total.shape[2], self.whole.shape[1])))
        slices = [slice(start, start + step) for start in range(0, len(self.rows), step)]
        blocks = ((rows, self.predictions(rows, forests, first)) for rows in slices)
        return replicates_of(metric, self.rows, blocks)

    def row_covariance(self, metric: Metric, kinds: list[Floats], clusters: Int64s | None) -> Floats:
        """Covariance of the losses of forests of several kinds, over other rows or clusters of rows.

        Parameters
        ----------
        metric : Metric
        kinds : list of ndarray of float, shape (n_forests, n_parts)
            Forests of each kind; their losses are averaged.
        clusters : ndarray of int64 or None
            The cluster of each row of the metric's truth; None if each row is one of its own.

        Returns
        -------
        ndarray of float, shape (n_kinds, n_kinds)
        """
        of_rows = self.rows if clusters is None else clusters[self.rows]
        if metric.influence is None:
            return self._covariance_without_groups(metric, kinds, of_rows)
        truth, weight = metric.truth[self.rows], metric.weight[self.rows]
        now = metric.influence(truth, self.whole, weight)
        lost = np.zeros((len(kinds), len(self.rows)))
        for of_kind, forests in zip(lost, kinds, strict=True):
            for predicted in self._one_by_one(forests):
                of_kind += (metric.influence(truth, predicted, weight) - now) / len(forests)
        _, cluster = np.unique(of_rows, return_inverse=True)
        by_cluster = np.stack([np.bincount(cluster, weights=of_kind) for of_kind in lost])
        return np.asarray(by_cluster @ by_cluster.T)

    def _covariance_without_groups(self, metric: Metric, kinds: list[Floats], clusters: Int64s) -> Floats:
        """The same covariance, by leaving out groups of rows in turn."""
        without = without_groups(clusters)

        def values(forests: Floats) -> Floats:
            """Mean of the metric of the forests, without each group of rows, shape (n_groups,)."""
            by_forest = [
                [value_or_nan(metric, self.rows[on], predicted[on]) for on in without]
                for predicted in self._one_by_one(forests)
            ]
            return np.asarray(np.mean(by_forest, axis=0))

        whole = values(np.ones((1, self.total.shape[1])))
        losses = [values(forests[: max(1, len(forests) // _EVALUATED)]) - whole for forests in kinds]
        return delete_group_covariance(np.stack(losses, axis=1))

    def _one_by_one(self, forests: Floats, first: Int64s | None = None) -> Iterator[Floats]:
        """The predictions of each forest on all rows, shape (n_rows, n_outputs)."""
        at_once = max(1, CELLS_PER_BLOCK // self.whole.size)
        for start in range(0, len(forests), at_once):
            yield from self.predictions(slice(None), forests[start : start + at_once], first)


def parts_with(blocks: Blocks, metric: Metric, predictions_of: Predictions, forests: Floats) -> ForestParts:
    """The blocks of a forest as parts, on the rows with a weight on which each of the forests of blocks has a tree."""
    has_trees = (weighted_sums(blocks.n_scored, forests) > 0.0).all(axis=(0, 2))
    on = np.flatnonzero((metric.weight[blocks.rows] > 0.0) & has_trees)
    return ForestParts(blocks.rows[on], blocks.total[on], blocks.n_scored[on], predictions_of)


# Forests of few trees


class SubforestLoss(NamedTuple):
    """The measured loss of sub-forests of one size.

    Attributes
    ----------
    n_trees : float
        Number of their trees.
    loss : float
        Their mean loss against a larger forest.
    error : float
        Standard error of the loss, for other rows and other trees.
    against : float
        Number of trees of the larger forest.
    """

    n_trees: float
    loss: float
    error: float
    against: float

    def at(self, z: float) -> float:
        """The loss so many standard errors away from the measured one, or from 0 if smaller forests seem better."""
        return max(0.0, self.loss) + z * self.error

    def c_at(self, z: float) -> float:
        """The c of a loss c/T that agrees with `at`."""
        return self.at(z) / (1.0 / self.n_trees - 1.0 / self.against)


def losses_of_few_trees(
    blocks: Blocks, metric: Metric, predictions_of: Predictions, clusters: Int64s | None = None, *, below: float
) -> list[SubforestLoss]:
    """The losses of forests of 1, 2, 3, … trees, smaller than ``below`` and than half of the trees kept.

    Parameters
    ----------
    blocks, metric, predictions_of, clusters
        As in `metric_loss.metric_loss`.
    below : float
        The size from which on blocks of trees show the loss.
    """
    trees = _single_trees(blocks, metric, predictions_of)
    n_trees = trees.total.shape[1]
    sizes = [size for size in _SIZES if size < below and 2 * size <= n_trees]
    if not sizes:
        return []
    generator = np.random.default_rng(SEED)
    by_size = [_deals(n_trees, size, generator) for size in sizes]
    deals = [deal for of_size in by_size for deal in of_size]
    values = metric.worse * trees.values(metric, np.concatenate([np.ones((1, n_trees)), *deals]))
    by_deal = iter(np.split(values[1:] - values[0], np.cumsum([len(deal) for deal in deals])[:-1]))
    of_rows = np.diag(trees.row_covariance(metric, [of_size[0][:_FORESTS_OF_ROWS] for of_size in by_size], clusters))
    losses = []
    for size, of_size, row_variance in zip(sizes, by_size, of_rows, strict=True):
        means = np.array([next(by_deal).mean() for _ in of_size])
        of_trees = means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
        error = math.sqrt(row_variance + of_trees + (_MODEL_ERROR * means.mean()) ** 2)
        losses.append(SubforestLoss(float(size), float(means.mean()), error, float(n_trees)))
    return losses


def mean_of_subforests(blocks: Blocks, metric: Metric, predictions_of: Predictions, n_trees: int) -> float:
    """The mean of a metric over forests of ``n_trees`` of the trees; many trees are taken in blocks."""
    generator, trees = np.random.default_rng(SEED), _single_trees(blocks, metric, predictions_of)
    if 2 * n_trees <= trees.total.shape[1]:
        forests = np.concatenate(_deals(trees.total.shape[1], n_trees, generator))
        return float(trees.values(metric, forests).mean())
    votes_per_row = max(1.0, float(blocks.n_scored.sum(axis=1).mean()))
    n_blocks = min(N_BLOCKS, max(1, round(N_BLOCKS * n_trees / votes_per_row)))
    place = generator.permuted(np.tile(np.arange(N_BLOCKS), (_FORESTS, 1)), axis=1)
    forests = (place < n_blocks).astype(np.float64)
    parts = parts_with(blocks, metric, predictions_of, forests)
    return float(parts.values(metric, forests).mean()) if len(parts.rows) else math.nan


def _single_trees(blocks: Blocks, metric: Metric, predictions_of: Predictions) -> ForestParts:
    """Single trees: as many as nearly all counting rows have, on the rows that have as many."""
    on = np.flatnonzero(metric.weight[blocks.rows] > 0.0)
    n_first = blocks.n_first[on].min(axis=1)
    n_trees = int(np.quantile(n_first, _FEW_ROWS, method="lower"))
    on = on[n_first >= n_trees]
    return ForestParts(blocks.rows[on], blocks.first[on, :n_trees], np.ones((len(on), n_trees, 1)), predictions_of)


def _deals(n_trees: int, size: int, generator: np.random.Generator) -> list[Floats]:
    """Which trees are in each forest of a deal, shape (n_forests, n_trees)."""
    n_forests = n_trees // size
    deals = []
    for _ in range(-(-_FORESTS // n_forests)):
        forest = generator.permutation(n_trees) // size
        deals.append((forest == np.arange(n_forests)[:, None]).astype(np.float64))
    return deals


def weighted_sums(of_blocks: NDArray[Any], weights: Floats) -> Floats:
    """Sums over the blocks, shape (n_draws, n_rows, n), of an array of shape (n_rows, n_blocks, n).

    ``weights`` has shape (n_draws, n_blocks).
    """
    n_rows, n_blocks, n = of_blocks.shape
    by_block = of_blocks.transpose(1, 0, 2).reshape(n_blocks, -1)
    return np.asarray((weights @ by_block).reshape(len(weights), n_rows, n))
