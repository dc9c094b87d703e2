"""What forests of a few trees lose, by drawing them: halves and quarters of a forest tell nothing of one tree.

The trees that are kept one by one of a row, N of them, are dealt at random into forests of 1, 2, 3, … trees, again and
again. Each row is asked only of trees that may vote on it, so that out of bag the forests of two rows need not be of
the same trees. What a deal's forests lose against all N of its trees is, as with halves, free of what the single trees
add to first order: what one forest gains by it another loses. The idea that forests within the forest at hand tell what
smaller ones are worth is that of L. Mentch and G. Hooker (2016). "Quantifying uncertainty in random forests via
confidence intervals and hypothesis tests." Journal of Machine Learning Research 17(26), 1-41.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rfsize.estimation.base import SEED
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import of_smaller_forests
from rfsize.utils.matrix import CELLS_PER_BLOCK
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import TreeBlocks

SIZES = (1, 2, 3, 5, 9, 19, 37)

Predicted = Callable[[Floats], Floats]

_FORESTS, _FORESTS_OF_ROWS = 24, 4  # drawn of each size at least, and those of which each row's influence is asked
_FEW_ROWS = 0.05  # share of the rows that may have fewer trees than are dealt
_ROW_GROUPS = 20  # left out in turn of a metric without influence
# What no estimate follows: that of single trees may scatter among forests of other seeds by so much of itself.
_UNFOLLOWED = 0.1


class Rung(NamedTuple):
    """What forests of a size lose.

    Attributes
    ----------
    n_trees : float
        Their trees.
    loss : float
        What they lose against a larger forest, in the mean.
    noise : float
        Standard error of it, for other rows and other trees.
    against : float
        Trees of the larger forest.
    """

    n_trees: float
    loss: float
    noise: float
    against: float


def rungs(
    blocks: TreeBlocks, judge: Metric, predicted: Predicted, units: Int64s | None = None, *, below: float
) -> list[Rung]:
    """What forests of `SIZES` lose, of as many as are less than ``below`` and half of the trees kept.

    Parameters
    ----------
    blocks, judge, predicted, units
        As of `loss.metric_loss`.
    below : float
        Sizes from which on blocks of trees tell.
    """
    kept = _Kept.of(blocks, judge, predicted)
    sizes = [size for size in SIZES if size < below and 2 * size <= kept.n_trees]
    return kept.rungs(judge, sizes, units) if sizes else []


@dataclass(frozen=True, eq=False)
class _Kept:
    """Trees that are known one by one, on rows that all have as many.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Numbers of the rows.
    score : ndarray of float64, shape (n_rows, n_trees, n_scores)
    predicted : callable
        What the forest predicts from mean scores.
    """

    rows: Int64s
    score: Floats
    predicted: Predicted

    @classmethod
    def of(cls, blocks: TreeBlocks, judge: Metric, predicted: Predicted) -> _Kept:
        """As many trees as nearly all rows that count have."""
        some = np.flatnonzero(judge.weight[blocks.rows] > 0.0)
        most = judge.most_rows(1 + len(SIZES) * 2 * _FORESTS, max(blocks.first.shape[2], 2))
        some = some[:: 1 if most is None else -(-len(some) // most)]
        n_first = blocks.n_first[some].min(axis=1)
        n_trees = int(np.quantile(n_first, _FEW_ROWS, method="lower"))
        some = some[n_first >= n_trees]
        return cls(blocks.rows[some], blocks.first[some, :n_trees], predicted)

    @property
    def n_trees(self) -> int:
        """Trees dealt."""
        return self.score.shape[1]

    def rungs(self, judge: Metric, sizes: list[int], units: Int64s | None) -> list[Rung]:
        """What forests of these sizes lose against all trees, by as many deals as it takes to see many of each."""
        generator = np.random.default_rng(SEED)
        deals = [self._deals(size, generator) for size in sizes]
        worse = -1.0 if judge.larger_is_better else 1.0
        judge = of_smaller_forests(judge)
        flat = [deal for of_size in deals for deal in of_size]
        whole = np.ones((1, self.n_trees))
        values = worse * self._values(judge, np.concatenate([whole, *flat]))
        lost = np.split(values[1:] - values[0], np.cumsum([len(deal) for deal in flat])[:-1])
        scatter = self._scatter_of_rows(judge, [of_size[0][:_FORESTS_OF_ROWS] for of_size in deals], units)
        found = []
        for size, of_size, of_rows in zip(sizes, deals, scatter, strict=True):
            means = np.array([lost.pop(0).mean() for _ in of_size])
            of_trees = means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
            noise = math.sqrt(of_rows + of_trees + (_UNFOLLOWED * means.mean()) ** 2)
            found.append(Rung(float(size), float(means.mean()), noise, float(self.n_trees)))
        return found

    def _deals(self, size: int, generator: np.random.Generator) -> list[Floats]:
        """Which trees are in each of the forests of a deal, shape (n_forests, n_trees)."""
        n_forests = self.n_trees // size
        deals = []
        for _ in range(-(-_FORESTS // n_forests)):
            forest = generator.permutation(self.n_trees) // size
            deals.append((forest == np.arange(n_forests)[:, None]).astype(np.float64))
        return deals

    def _values(self, judge: Metric, in_forest: Floats) -> Floats:
        """The metric of several forests, the first of which is that of all trees."""
        measuring = judge.start(len(in_forest), self._predictions(slice(None), in_forest[:1])[0])
        width = max(self.score.shape[2], 2)
        step = max(1, CELLS_PER_BLOCK // (len(in_forest) * width))
        for start in range(0, len(self.rows), step):
            rows = slice(start, start + step)
            measuring.add(self.rows[rows], self._predictions(rows, in_forest))
        return measuring.conclude()

    def _predictions(self, rows: slice, in_forest: Floats) -> Floats:
        """What forests predict of some rows, shape (n_forests, n_rows, n_outputs)."""
        score = self.score[rows]
        flat = score.transpose(1, 0, 2).reshape(self.n_trees, -1)
        mean = (in_forest @ flat) / in_forest.sum(axis=1, keepdims=True)
        return self.predicted(mean.reshape(len(in_forest), len(score), -1))

    def _scatter_of_rows(self, judge: Metric, some: list[Floats], units: Int64s | None) -> list[float]:
        """Variance of what the forests of each size lose, as the rows, or groups of them, might have been others."""
        _, unit = np.unique(self.rows if units is None else units[self.rows], return_inverse=True)
        whole = self._predictions(slice(None), np.ones((1, self.n_trees)))[0]
        now = judge.influence(self.rows, whole)
        found = []
        for forests in some:
            if now is None:
                found.append(
                    self._scatter_by_trying(judge, whole, self._predictions(slice(None), forests[:1])[0], unit)
                )
                continue
            added = np.zeros(len(self.rows))
            for forest in forests:
                influence = judge.influence(self.rows, self._predictions(slice(None), forest[None])[0])
                assert influence is not None
                added += (influence - now) / len(forests)
            found.append(float(np.sum(np.bincount(unit, weights=added) ** 2)))
        return found

    def _scatter_by_trying(self, judge: Metric, whole: Floats, part: Floats, unit: Int64s) -> float:
        """The same by leaving out groups of rows in turn."""
        left_out = np.random.default_rng(SEED).permutation(int(unit.max()) + 1)[unit] % _ROW_GROUPS
        lost = []
        for group in range(_ROW_GROUPS):
            kept = left_out != group
            lost.append(judge.value(self.rows[kept], part[kept]) - judge.value(self.rows[kept], whole[kept]))
        return float(np.var(lost)) * (_ROW_GROUPS - 1.0)
