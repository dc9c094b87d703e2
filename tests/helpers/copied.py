"""Problems whose training rows have copies."""

from __future__ import annotations

import numpy as np

Rows = tuple[np.ndarray, np.ndarray]


def continuous(n_rows: int, seed: int = 0) -> Rows:
    """Eight numbers and a noisy label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 8))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows) > 0.3).astype(int)


def of_few_values(n_rows: int, seed: int = 0) -> Rows:
    """Twelve answers, yes or no, and a label that goes by four of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    yes = rng.random((n_rows, 12)) < np.linspace(0.2, 0.5, 12) + np.where(np.arange(12) < 4, 0.25, 0.0) * y[:, None]
    return yes.astype(float), y


def popular(n_rows: int, seed: int = 0) -> Rows:
    """Ten numbers and a noisy label; a third of the rows are of sixty items, some of which come far more often."""
    items = np.random.default_rng(8).normal(size=(60, 10))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 10))
    bought = rng.random(n_rows) < 0.35
    X[bought] = items[np.minimum(rng.geometric(0.06, bought.sum()) - 1, 59)]
    return X, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-1.5 * (X[:, 0] + X[:, 1] - X[:, 2])))).astype(int)


def twice(X: np.ndarray, y: np.ndarray) -> Rows:
    """Every row and its copy, in another order."""
    order = np.random.default_rng(1).permutation(2 * len(X)) % len(X)
    return X[order], y[order]
