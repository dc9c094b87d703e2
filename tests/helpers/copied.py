"""Problems whose training rows have copies."""

from __future__ import annotations

import numpy as np


def continuous(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight numbers and a noisy label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 8))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows) > 0.3).astype(int)


def twice(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every row and its copy, in another order."""
    order = np.random.default_rng(1).permutation(2 * len(X)) % len(X)
    return X[order], y[order]
