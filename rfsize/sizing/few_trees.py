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
from typing import NamedTuple

import numpy as np

from rfsize.estimation.intervals import SEED
from rfsize.sizing.forest_parts import ForestParts, Predicted
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import of_smaller_forests
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import TreeBlocks

SIZES = (1, 2, 3, 5, 9, 19, 37)

_FORESTS, _FORESTS_OF_ROWS = 24, 4  # drawn of each size at least, and those of which each row's influence is asked
_FEW_ROWS = 0.05  # share of the rows that may have fewer trees than are dealt
# Scatter among forests of other seeds that no estimate follows, as a share of what the single trees lose.
_UNFOLLOWED = 0.1


class Measured(NamedTuple):
    """What forests of a size were measured to lose.

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


def losses_of_few_trees(
    blocks: TreeBlocks, judge: Metric, predicted: Predicted, units: Int64s | None = None, *, below: float
) -> list[Measured]:
    """What forests of `SIZES` lose, of as many as are less than ``below`` and half of the trees kept.

    Parameters
    ----------
    blocks, judge, predicted, units
        As of `loss.metric_loss`.
    below : float
        Sizes from which on blocks of trees tell.
    """
    trees = _kept(blocks, judge, predicted)
    n_trees = trees.total.shape[1]
    sizes = [size for size in SIZES if size < below and 2 * size <= n_trees]
    if not sizes:
        return []
    generator = np.random.default_rng(SEED)
    dealt = [_deals(n_trees, size, generator) for size in sizes]
    judge, flat = of_smaller_forests(judge), [deal for deals in dealt for deal in deals]
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


def _kept(blocks: TreeBlocks, judge: Metric, predicted: Predicted) -> ForestParts:
    """Trees that are known one by one, as many as nearly all rows that count have, on rows that all have as many."""
    some = np.flatnonzero(judge.weight[blocks.rows] > 0.0)
    most = judge.most_rows(1 + len(SIZES) * 2 * _FORESTS, max(blocks.first.shape[2], 2))
    some = some[:: 1 if most is None else -(-len(some) // most)]
    n_first = blocks.n_first[some].min(axis=1)
    n_trees = int(np.quantile(n_first, _FEW_ROWS, method="lower"))
    some = some[n_first >= n_trees]
    return ForestParts(blocks.rows[some], blocks.first[some, :n_trees], np.ones((len(some), n_trees, 1)), predicted)


def _deals(n_trees: int, size: int, generator: np.random.Generator) -> list[Floats]:
    """Which trees are in each of the forests of a deal, shape (n_forests, n_trees)."""
    n_forests = n_trees // size
    deals = []
    for _ in range(-(-_FORESTS // n_forests)):
        forest = generator.permutation(n_trees) // size
        deals.append((forest == np.arange(n_forests)[:, None]).astype(np.float64))
    return deals
