"""Deviations of predictions, and the bootstrap of trees, once more: slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def predicted(kind: str, score: Any) -> list[float]:
    """What a forest predicts from the mean scores of one row."""
    if kind == "softmax":
        total = sum(math.exp(one) for one in score)
        return [math.exp(one) / total for one in score]
    if kind in ("logistic", "one-vs-all"):
        return [1.0 / (1.0 + math.exp(-one)) for one in score]
    if kind == "exp":
        return [math.exp(one) for one in score]
    if kind == "square":
        return [math.copysign(one * one, one) for one in score]
    return list(score)


def deviations(kind: str, mean: Any, covariance: Any, n_trees: int, draws: int) -> np.ndarray:
    """Largest deviations of the predictions of one row by forests of ``n_trees`` normal scores."""
    rng = np.random.default_rng(1)
    limit = predicted(kind, mean)
    found = []
    for drawn in rng.multivariate_normal(mean, np.asarray(covariance) / n_trees, size=draws):
        found.append(max(abs(one - other) for one, other in zip(predicted(kind, drawn), limit, strict=True)))
    return np.array(found)


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


def metric_gap(
    scores: np.ndarray,
    may_vote: np.ndarray,
    weights: np.ndarray,
    score_of: Callable[[np.ndarray], float],
    right: Callable[[np.ndarray], np.ndarray] | None = None,
    most: float = math.inf,
) -> tuple[float, float, tuple[float, float]]:
    """Value, change and interval of a metric of mean scores by the bootstrap of trees.

    Scores have the shape (n_rows, n_trees, n_scores), and ``may_vote`` says which trees did not see the row; where some
    did, the mean change is scaled to a forest of all trees. ``right`` says of each row whether its label is, where the
    metric is the share of those, and ``most`` is the largest value that the metric can have.
    """
    n_rows, n_trees, _ = scores.shape
    mean = np.array([scores[row, may_vote[row]].mean(axis=0) for row in range(n_rows)])
    at_hand, oob, changed = [], [], []
    for weight in weights:
        times = weight * may_vote
        drawn = np.einsum("rt,rtk->rk", times, scores) / np.maximum(times.sum(axis=1), 1)[:, None]
        n = may_vote.sum(axis=1)[:, None]
        away = np.where(times.any(axis=1)[:, None], drawn - mean, 0.0) * np.sqrt(n / (n - 1))
        small, large = mean + away, mean + away * np.sqrt(n / n_trees)
        oob.append(score_of(small))
        if right is not None:
            changed.append(right(small) != right(mean))
        at_hand.append(score_of(large))
    now = score_of(mean)
    value, change = now + np.mean(at_hand) - np.mean(oob), now - np.mean(at_hand)
    spread = np.array(oob) - np.mean(oob)
    if right is not None:
        chance = sum(np.mean(row) ** 2 for row in np.array(changed).T) / n_rows**2
        change *= max(0.0, 1.0 - chance / change**2)
        spread *= math.sqrt(1.0 + chance / max(np.var(spread), chance))
    low, high = change - np.quantile(spread, [0.975, 0.025])
    if value + high > most:
        low = min(low, np.mean(at_hand) - now + np.quantile(spread, 0.025))
    limit, low, high, value = (min(one, most) for one in (value + change, value + low, value + high, value))
    return value, limit - value, (low - value, high - value)
