"""Permutation importances one tree and one column at a time, by predictions of the framework on permuted rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rfsize.estimation.intervals import SEED


def donors(rows: np.ndarray, number: int, n_sets: int, place: int) -> list[int]:
    """The row that each of the rows takes the columns of a set from, as rfsize draws it."""
    generator = np.random.default_rng([SEED, number])
    order = generator.permutation(rows)
    shift = int(generator.integers(1, len(rows), size=n_sets)[place])
    donor = {int(row): int(order[(at + shift) % len(rows)]) for at, row in enumerate(order)}
    return [donor[int(row)] for row in rows]


def permuted(X: np.ndarray, rows: np.ndarray, columns: Sequence[int], number: int, n_sets: int, place: int) -> object:
    """Some rows of ``X``, array or frame, in which columns come from their donors."""
    from_row = donors(rows, number, n_sets, place)
    if hasattr(X, "iloc"):
        found = X.iloc[rows].reset_index(drop=True)
        for column in columns:
            found.isetitem(column, X.iloc[from_row, column].reset_index(drop=True))
        return found
    found = X[rows].copy()
    found[:, list(columns)] = X[from_row][:, list(columns)]
    return found


def of_trees(
    predict: Callable[[int, object], np.ndarray],
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    X: np.ndarray,
    y: np.ndarray,
    inbag: np.ndarray,
    sets: list[list[int]],
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Mean over trees of what each loses on its own out-of-bag rows, (n_sets,); ``predict`` is of a tree on rows."""
    weight = np.ones(len(y)) if weight is None else weight
    lost = []
    for tree, seen in enumerate(inbag):
        rows = np.flatnonzero(~seen)
        every = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
        now = np.average(loss(predict(tree, every), y[rows]), weights=weight[rows])
        lost.append(
            [
                np.average(
                    loss(predict(tree, permuted(X, rows, columns, tree, len(sets), place)), y[rows]),
                    weights=weight[rows],
                )
                - now
                for place, columns in enumerate(sets)
            ]
        )
    return np.array(lost)


def of_forest(
    scores: Callable[[object], np.ndarray],
    metric: Callable[[np.ndarray, np.ndarray], float],
    X: np.ndarray,
    y: np.ndarray,
    seen: np.ndarray,
    sets: list[list[int]],
) -> np.ndarray:
    """What a metric of mean scores gains by permuted columns, (n_sets,).

    ``scores`` are of each tree on rows, (n_rows, n_trees, n_scores), and ``seen`` has that shape or 1 in place of
    n_scores.
    """

    def value(rows: object) -> float:
        asked = ~seen
        mean = (scores(rows) * asked).sum(axis=1) / np.maximum(asked.sum(axis=1), 1)
        known = asked.any(axis=1).all(axis=1)
        return metric(y[known], mean[known])

    every = np.arange(len(y))
    now = value(X)
    return np.array(
        [value(permuted(X, every, columns, 0, len(sets), place)) - now for place, columns in enumerate(sets)]
    )
