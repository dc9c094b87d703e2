"""Permutation importances one column at a time, by predictions of the framework on permuted rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rfsize.statistics.curve import SEED


def donors(n_rows: int, n_sets: int, place: int) -> np.ndarray:
    """The row that each row takes the columns of a set from, as rfsize draws it."""
    generator = np.random.default_rng([SEED, 0])
    order = generator.permutation(n_rows)
    shift = int(generator.integers(1, n_rows, size=n_sets)[place])
    donor = {int(row): int(order[(at + shift) % n_rows]) for at, row in enumerate(order)}
    return np.array([donor[row] for row in range(n_rows)])


def shuffled(X: np.ndarray, columns: Sequence[int], n_sets: int, place: int) -> np.ndarray:
    """``X`` with some columns from the donors of the rows."""
    rows = X.copy()
    rows[:, columns] = X[donors(len(X), n_sets, place)][:, columns]
    return rows


def of_forest(
    scores: Callable[[np.ndarray], np.ndarray],
    metric: Callable[[np.ndarray, np.ndarray], float],
    X: np.ndarray,
    y: np.ndarray,
    seen: np.ndarray,
    sets: list[list[int]],
) -> np.ndarray:
    """What a metric of mean scores gains by shuffled columns, (n_sets,).

    ``scores`` are of each tree on rows, (n_rows, n_trees, n_scores), and ``seen`` has that shape or 1 in place of
    n_scores.
    """
    is_oob = ~seen
    is_known = is_oob.any(axis=1).all(axis=1)

    def value(rows: np.ndarray) -> float:
        mean = (scores(rows) * is_oob).sum(axis=1) / np.maximum(is_oob.sum(axis=1), 1)
        return metric(y[is_known], mean[is_known])

    now = value(X)
    return np.array([value(shuffled(X, columns, len(sets), place)) - now for place, columns in enumerate(sets)])


def row_variance(lost: np.ndarray, donor: np.ndarray, cluster: np.ndarray) -> float:
    """Variance of a sum over rows and their donors, by all pairs of rows: they vary together by each common cluster."""
    pairs, n_clusters, total = np.stack([cluster, cluster[donor]], axis=1), len(np.unique(cluster)), 0.0
    for mine, loss in zip(pairs, lost, strict=True):
        n_common = (pairs[:, :, None] == mine).sum(axis=(1, 2))
        total += loss * float(lost @ n_common)
    return total * n_clusters / (n_clusters - 1.0) - float(lost @ lost)
