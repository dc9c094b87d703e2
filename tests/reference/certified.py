"""The fewest first trees that rows certify to answer as all trees do, size by size."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom


def sizes_tried(n_trees: int) -> list[int]:
    """From all trees but one to a single tree; each next size makes √(1/t − 1/T) about 5 % larger."""
    sizes = [n_trees - 1] if n_trees > 1 else []
    while sizes and sizes[-1] > 1:
        apart = 1.05**2 * (1.0 / sizes[-1] - 1.0 / n_trees)
        sizes.append(min(sizes[-1] - 1, math.ceil(1.0 / (apart + 1.0 / n_trees))))
    return sizes


def fewest(differs: np.ndarray, group: np.ndarray, alpha: float, confidence: float, average: str) -> int:
    """The last size before the first that fails.

    Of ``differs``, whether the first 1, 2, … trees answer a row otherwise than all, shape (n_rows, T). A size fails if
    so few rows of a group differ with a chance of more than 1 − confidence where 1 − α of all rows do (Clopper and
    Pearson); with "micro", all rows are one group. A group without rows certifies nothing.
    """
    n_trees = differs.shape[1]
    groups = [np.ones(len(differs), dtype=bool)] if average == "micro" else [group == of for of in np.unique(group)]
    kept = n_trees
    for size in sizes_tried(n_trees):
        chances = [binom.cdf(differs[rows, size - 1].sum(), rows.sum(), 1.0 - alpha) for rows in groups]
        if max(chances) > 1.0 - confidence:
            break
        kept = size
    return kept
