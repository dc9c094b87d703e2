"""Out-of-bag predictions one row and one tree at a time."""

from __future__ import annotations

import numpy as np


def mean_scores(score: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Mean over the trees that did not see the row, (n_rows, n_scores); NaN where there is none.

    ``score`` has the shape (n_trees, n_rows, n_scores), ``seen`` that too, or 1 in place of n_scores.
    """
    n_trees, n_rows, n_scores = score.shape
    mean = np.full((n_rows, n_scores), np.nan)
    for row in range(n_rows):
        for k in range(n_scores):
            values = [
                float(score[tree, row, k]) for tree in range(n_trees) if not seen[tree, row, min(k, seen.shape[2] - 1)]
            ]
            if values:
                mean[row, k] = sum(values) / len(values)
    return mean
