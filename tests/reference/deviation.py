"""Deviations of predictions, and the bootstrap of trees, once more: slow and obvious."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def predicted(kind: str, score: Any) -> list[float]:
    """What a forest predicts from the mean scores of one row."""
    if kind == "softmax":
        total = sum(math.exp(of_class) for of_class in score)
        return [math.exp(of_class) / total for of_class in score]
    if kind in ("logistic", "one-vs-all"):
        return [1.0 / (1.0 + math.exp(-margin)) for margin in score]
    if kind == "exp":
        return [math.exp(log) for log in score]
    if kind == "square":
        return [math.copysign(root * root, root) for root in score]
    return list(score)


def deviations(kind: str, mean: Any, covariance: Any, n_trees: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Largest deviations of the predictions of one row by forests of ``n_trees`` normal scores."""
    limit = predicted(kind, mean)
    off = []
    for drawn in rng.multivariate_normal(mean, np.asarray(covariance) / n_trees, size=draws):
        off.append(max(abs(of_few - of_all) for of_few, of_all in zip(predicted(kind, drawn), limit, strict=True)))
    return np.array(off)


def noise_of_trees(kind: str, score: np.ndarray, may_vote: np.ndarray, n_blocks: int) -> float:
    """Standard error of the mean squared deviation as a share of it, from the trees one by one.

    Scores have the shape (n_rows, n_trees, n_scores), and ``may_vote`` says which trees did not see the row. What each
    tree adds to the variance of the predictions, whose slopes are tried, is that of the block that it is dealt to.
    """
    n_rows, n_trees, n_scores = score.shape
    added, due = np.zeros(n_blocks), np.zeros(n_blocks)
    for row in range(n_rows):
        its = [tree for tree in range(n_trees) if may_vote[row, tree]]
        if not its:
            continue
        mean = [float(np.mean([score[row, tree, k] for tree in its])) for k in range(n_scores)]
        for k in range(n_scores):
            up, down = (list(mean) for _ in range(2))
            up[k], down[k] = mean[k] + 1e-6, mean[k] - 1e-6
            slope = (predicted(kind, up)[k] - predicted(kind, down)[k]) / 2e-6
            squares = {tree: slope**2 * (score[row, tree, k] - mean[k]) ** 2 / len(its) for tree in its}
            for tree in its:
                added[tree % n_blocks] += squares[tree]
                due[tree % n_blocks] += sum(squares.values()) / len(its)
    filled = min(n_blocks, n_trees)
    return math.sqrt(filled / (filled - 1) * float(np.sum((added - due) ** 2))) / float(added.sum())
