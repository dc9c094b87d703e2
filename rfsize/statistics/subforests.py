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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from rfsize._util import Floats, Int64s
from rfsize.counting.outputs import TreeOutputs, sums_of
from rfsize.counting.sums import N_BLOCKS
from rfsize.statistics.curve import SEED
from rfsize.statistics.metrics import Metric, values_of
from rfsize.statistics.named_metrics import predictions_for
from rfsize.statistics.row_errors import unit_terms

SIZES = (1, 2, 3, 5, 9, 19, 37)
"""Sizes of forests of few trees."""

_FORESTS, _FORESTS_OF_ROWS = 24, 4  # fewest forests of each size, and how many of them compute each row's influence
_CELLS, _CELLS_OF_SCORES = 1 << 18, 1 << 22  # numbers that are predicted at a time, and that are averaged at a time
_FEW_ROWS = 0.05  # share of the rows that may have fewer trees than are dealt
# Scatter between seeds that the estimate does not include, as a share of what single trees lose.
_MODEL_ERROR = 0.1
# For a metric without influence, the scatter over rows is that of one forest in so many, and by so many groups of rows.
_EVALUATED, GROUPS_OF_MANY = 3, 20


@dataclass(frozen=True, eq=False)
class ForestParts:
    """Scores of parts of a forest on rows, by which a metric is measured; a part is a block of trees or a single tree.

    Attributes
    ----------
    metric : Metric
    predictions_of : callable
        Makes predictions from mean scores, in the form that the metric takes.
    rows, clusters : ndarray of int64, shape (n_rows,)
        Numbers of the rows, as in the truth of the metric, and the cluster of each.
    total : ndarray of float64, shape (n_parts, n_rows, n_scores)
        Sums of the scores of the trees of each part.
    n_scored : ndarray of float64, shape (n_parts, n_rows, 1 or n_scores)
        Number of trees that scored.
    """

    metric: Metric
    predictions_of: Callable[[Floats], Floats]
    rows: Int64s
    clusters: Int64s
    total: Floats
    n_scored: Floats

    @classmethod
    def of(cls, outputs: TreeOutputs, metric: Metric, on: Int64s, total: Floats, n_scored: Floats) -> ForestParts:
        """From scores on the rows of the blocks with these numbers."""
        rows = sums_of(outputs).blocks.rows[on]
        clusters = outputs.groups.units_of(rows)
        arrays = np.ascontiguousarray(total), np.ascontiguousarray(n_scored)  # or each product of them copies them
        return cls(metric, predictions_for(outputs, metric), rows, clusters, *arrays)

    @classmethod
    def of_blocks(cls, outputs: TreeOutputs, metric: Metric, forests: Floats) -> ForestParts:
        """The blocks, on the rows with a weight on which each of the ``forests`` of blocks has a tree."""
        blocks, on = sums_of(outputs).blocks, weighted(outputs, metric)
        n_scored = blocks.n_scored[on].swapaxes(0, 1).astype(np.float64)
        has_trees = (np.tensordot(forests, n_scored, 1) > 0.0).all(axis=(0, 2))
        on = on[has_trees]
        return cls.of(outputs, metric, on, blocks.total[on].swapaxes(0, 1), n_scored[:, has_trees])

    @classmethod
    def of_trees(cls, outputs: TreeOutputs, metric: Metric) -> ForestParts:
        """Single trees: as many as nearly all rows with a weight have, on the rows that have as many."""
        blocks, on = sums_of(outputs).blocks, weighted(outputs, metric)
        n_first = blocks.n_first[on].min(axis=1)
        n_trees = int(np.quantile(n_first, _FEW_ROWS, method="lower"))
        on = on[n_first >= n_trees]
        return cls.of(outputs, metric, on, blocks.first[on, :n_trees].swapaxes(0, 1), np.ones((n_trees, 1, 1)))

    @cached_property
    def whole(self) -> Floats:
        """The predictions of all parts together, shape (n_rows, n_outputs)."""
        return self.predictions_of(self.means(np.ones((1, len(self.total)))))[0]

    def means(self, forests: Floats) -> Floats:
        """The mean scores of forests, shape (n_forests, n_rows, n_scores).

        ``forests`` says which parts are in each, shape (n_forests, n_parts).
        """
        return np.asarray(np.tensordot(forests, self.total, 1) / np.tensordot(forests, self.n_scored, 1))

    def rotated(self, first: Int64s) -> ForestParts:
        """The same, where each row has another part ``first``; the others follow in turn."""
        order = ((first + np.arange(len(self.total))[:, None]) % len(self.total))[:, :, None]
        total, n_scored = (np.take_along_axis(of_parts, order, axis=0) for of_parts in (self.total, self.n_scored))
        return replace(self, total=total, n_scored=n_scored)

    def values(self, forests: Floats) -> Floats:
        """The metric of each forest, shape (n_forests,); ``forests`` as in `means`."""
        return np.concatenate([values_of(self.metric, self.rows, predicted) for predicted in self._in_turn(forests)])

    def row_covariance(self, kinds: list[Floats]) -> Floats:
        """Covariance of the losses of forests of several kinds, over other rows or clusters of rows.

        ``kinds`` are the forests of each kind, as in `means`; their losses are averaged. Returns an array of
        shape (n_kinds, n_kinds).
        """

        def terms(predicted: Iterable[Floats]) -> Floats:
            return unit_terms(self.metric, self.rows, predicted, self.clusters, GROUPS_OF_MANY)

        now, lost = terms([self.whole]), []
        for forests in kinds:
            few = forests if self.metric.influence is not None else forests[: max(1, len(forests) // _EVALUATED)]
            lost.append((terms(chain.from_iterable(self._in_turn(few))) - now).mean(axis=0))
        return np.asarray(np.array(lost) @ np.array(lost).T)

    def _in_turn(self, forests: Floats) -> Iterator[Floats]:
        """The predictions of a few forests at a time, so that they stay in the processor's cache.

        They are made from mean scores of many forests at a time, because each product reads the scores of all parts.
        """

        def in_steps(of_forests: Floats, cells: int) -> Iterator[Floats]:
            step = max(1, cells // self.whole.size)
            return (of_forests[start : start + step] for start in range(0, len(of_forests), step))

        for many in in_steps(forests, _CELLS_OF_SCORES):
            yield from (self.predictions_of(mean) for mean in in_steps(self.means(many), _CELLS))


def weighted(outputs: TreeOutputs, metric: Metric) -> Int64s:
    """Numbers of the rows of the blocks to which a metric gives a weight."""
    return np.flatnonzero(metric.weight[sums_of(outputs).blocks.rows] > 0.0)


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

    def at(self, z: Any) -> Any:
        """The loss so many standard errors away from the measured one, or from 0 if smaller forests seem better."""
        return max(0.0, self.loss) + z * self.error


def losses_of_few_trees(
    outputs: TreeOutputs, metric: Metric, below: float, sizes: Sequence[int]
) -> list[SubforestLoss]:
    """The losses of forests of 1, 2, 3, … trees.

    Parameters
    ----------
    outputs : TreeOutputs
    metric : Metric
    below : float
        The size from which on blocks of trees show the loss.
    sizes : sequence of int
        Numbers of trees; of these, the ones below ``below`` and up to half of the trees kept are measured.
    """
    trees = ForestParts.of_trees(outputs, metric)
    n_trees = len(trees.total)
    sizes = [size for size in sizes if size < below and 2 * size <= n_trees]
    if not sizes:
        return []
    generator = np.random.default_rng(SEED)
    by_size = [_deals(n_trees, size, generator) for size in sizes]
    deals = [deal for of_size in by_size for deal in of_size]
    values = metric.worse * trees.values(np.concatenate([np.ones((1, n_trees)), *deals]))
    by_deal = iter(np.split(values[1:] - values[0], np.cumsum([len(deal) for deal in deals])[:-1]))
    of_rows = np.diag(trees.row_covariance([of_size[0][:_FORESTS_OF_ROWS] for of_size in by_size]))
    losses = []
    for size, of_size, row_variance in zip(sizes, by_size, of_rows, strict=True):
        means = np.array([next(by_deal).mean() for _ in of_size])
        of_trees = means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
        error = math.sqrt(row_variance + of_trees + (_MODEL_ERROR * means.mean()) ** 2)
        losses.append(SubforestLoss(float(size), float(means.mean()), error, float(n_trees)))
    return losses


def mean_of_subforests(outputs: TreeOutputs, metric: Metric, n_trees: int) -> float:
    """The mean of a metric over forests of ``n_trees`` of the trees; many trees are taken in blocks."""
    generator, trees = np.random.default_rng(SEED), ForestParts.of_trees(outputs, metric)
    if 2 * n_trees <= len(trees.total):
        return float(trees.values(np.concatenate(_deals(len(trees.total), n_trees, generator))).mean())
    votes_per_row = max(1.0, float(sums_of(outputs).blocks.n_scored.sum(axis=1).mean()))
    n_blocks = min(N_BLOCKS, max(1, round(N_BLOCKS * n_trees / votes_per_row)))
    place = generator.permuted(np.tile(np.arange(N_BLOCKS), (_FORESTS, 1)), axis=1)
    forests = (place < n_blocks).astype(np.float64)
    parts = ForestParts.of_blocks(outputs, metric, forests)
    return float(parts.values(forests).mean()) if len(parts.rows) else math.nan


def _deals(n_trees: int, size: int, generator: np.random.Generator) -> list[Floats]:
    """Which trees are in each forest of a deal, shape (n_forests, n_trees)."""
    n_forests = n_trees // size
    deals = []
    for _ in range(-(-_FORESTS // n_forests)):
        forest = generator.permutation(n_trees) // size
        deals.append((forest == np.arange(n_forests)[:, None]).astype(np.float64))
    return deals
