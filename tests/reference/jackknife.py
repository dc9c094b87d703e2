"""The noise that all rows share because the same trees predict them, block by block and row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def own_share(margin: list[float], change: np.ndarray, n_trees: list[float], weight: list[float], size: int) -> float:
    """Share of the variance that is due to each row by itself; what blocks change has the shape (n_rows, n_blocks)."""
    own, together = 0.0, [0.0] * change.shape[1]
    for row in range(len(margin)):
        known = 1.0 / math.sqrt(1.0 / size + 1.0 / max(n_trees[row], 1.0))
        slope = weight[row] * known * math.exp(-0.5 * min(known * margin[row], 30.0) ** 2)
        for block in range(change.shape[1]):
            own += (slope * change[row, block]) ** 2
            together[block] += slope * change[row, block]
    return min(1.0, own / sum(total**2 for total in together))


def variance_of_votes(votes: np.ndarray, size: int, loss: Callable[[list[float]], float]) -> float:
    """Variance of the log disagreement of forests of a size, by the jackknife over blocks of trees, less the own share.

    ``votes`` for two classes, by block, have the shape (n_rows, n_blocks, 2); ``loss`` is the mean disagreement of rows
    with these vote fractions. The votes of a block that is left out are replaced by as many of all trees.
    """
    n_rows, n_blocks, _ = votes.shape
    logs, margins, n_trees, change = [], [], [], np.zeros((n_rows, n_blocks))
    for block in range(n_blocks):
        fractions = []
        for row in range(n_rows):
            all_votes, left_out = votes[row].sum(axis=0), votes[row, block]
            kept = all_votes - left_out + left_out.sum() * all_votes / all_votes.sum()
            fractions.append(float(kept.min() / kept.sum()))
        logs.append(math.log(loss(fractions)))
    for row in range(n_rows):
        all_votes = votes[row].sum(axis=0)
        n, winner = float(all_votes.sum()), int(all_votes.argmax())
        lead = float(all_votes[winner] - all_votes[1 - winner])
        margins.append(lead / n)
        n_trees.append(n)
        for block in range(n_blocks):
            ahead = float(votes[row, block, winner] - votes[row, block, 1 - winner])
            change[row, block] = (ahead - votes[row, block].sum() * lead / n) / n
    jackknife = (n_blocks - 1) * float(np.var(logs))
    return jackknife * (1.0 - own_share(margins, change, n_trees, [1.0] * n_rows, size))


def sampling_variance(
    score: np.ndarray,
    may_score: np.ndarray,
    drawn: np.ndarray,
    slope: list[float],
    units: list[int],
    *,
    even: bool,
) -> tuple[float, float]:
    """What another training set brings to one prediction of one row, without the Monte Carlo bias; and that bias.

    Scores have the shape (n_trees, n_scores). Which trees may score the row, (n_trees, n_bags), and whether the
    training rows were drawn, (n_trees, n_rows, n_bags), have one bag for each score or for all.
    """
    n_trees, n_rows, n_bags = drawn.shape
    means, spreads = drawn.mean(axis=0), drawn.var(axis=0, ddof=1)
    effect, bias = dict.fromkeys(units, 0.0), 0.0
    for bag in range(n_bags):
        scores = [bag] if n_bags > 1 else range(score.shape[1])
        trees = [tree for tree in range(n_trees) if may_score[tree, bag]]
        values = [sum(slope[k] * float(score[tree, k]) for k in scores) for tree in trees]
        centre = sum(values) / len(values)
        variance = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
        for row in range(n_rows):
            mean, spread = float(means[row, bag]), float(spreads[row, bag])
            factor = float(means.sum() / spreads.sum()) if even else mean / spread if spread > 0.0 else 0.0
            moved = [float(drawn[tree, row, bag]) * (value - centre) for tree, value in zip(trees, values, strict=True)]
            effect[units[row]] += factor * sum(moved) / len(trees)
            bias += factor**2 * spread * variance * (len(trees) - 1) / len(trees) ** 2
    return sum(value**2 for value in effect.values()) - bias, bias
