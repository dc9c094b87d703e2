"""The noise that all rows share because the same trees predict them, block by block and row by row."""

from __future__ import annotations

import math

import numpy as np


def variance_of_votes(votes: np.ndarray, size: int, loss: float) -> float:
    """Variance of the log disagreement of forests of a size that rows share because the same trees predict them.

    ``votes`` for two classes, by block, have the shape (n_rows, n_blocks, 2); ``loss`` is the mean disagreement. The
    votes of a block that is left out are replaced by as many of all trees. What this changes is added up to first
    order, less what each row has of it on its own. Measured margins know the normal law only as well as their votes do.
    """
    n_rows, n_blocks, _ = votes.shape
    moved, own = [0.0] * n_blocks, 0.0
    for row in range(n_rows):
        all_votes = votes[row].sum(axis=0)
        margin, known = math.tan(angle(all_votes)), 1.0 / math.sqrt(1.0 / size + 1.0 / all_votes.sum())
        slope = known * math.exp(-0.5 * (known * margin) ** 2) / math.sqrt(2.0 * math.pi) * (1.0 + margin**2) / n_rows
        kept = [all_votes - left + left.sum() * all_votes / all_votes.sum() for left in votes[row]]
        angles = [angle(counts) for counts in kept]
        for block in range(n_blocks):
            change = slope * (angles[block] - sum(angles) / n_blocks)
            moved[block], own = moved[block] + change, own + change**2
    return (n_blocks - 1) / n_blocks * max(sum(total**2 for total in moved) - own, 0.0) / loss**2


def angle(counts: np.ndarray) -> float:
    """How far votes for two classes are from a tie, on the scale on which their noise is constant."""
    return math.pi / 2.0 - 2.0 * math.asin(math.sqrt(counts.min() / counts.sum()))


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
