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


def last_passing(differing: list[list[int]], rows: list[int], alpha: float, confidence: float, average: str) -> int:
    """Index of the last rule before the first that fails, −1 if there is none.

    ``differing`` holds for each rule how many rows of each group differ. A rule fails if so few rows of a group differ
    with a chance of more than 1 − confidence where 1 − α of all rows do (Clopper and Pearson). With "micro", all rows
    are one group. A group without rows certifies nothing.
    """
    for index, of_rule in enumerate(differing):
        groups = zip(of_rule, rows, strict=True) if average == "macro" else [(sum(of_rule), sum(rows))]
        if max(binom.cdf(count, n_rows, 1.0 - alpha) for count, n_rows in groups) > 1.0 - confidence:
            return index - 1
    return len(differing) - 1


def fewest(differs: np.ndarray, group: np.ndarray, alpha: float, confidence: float, average: str) -> int:
    """The last size before the first that fails.

    ``differs`` says whether the first 1, 2, … trees answer a row otherwise than all, shape (n_rows, T).
    """
    sizes, labels = sizes_tried(differs.shape[1]), np.unique(group).tolist()
    differing = [[int(differs[group == label, size - 1].sum()) for label in labels] for size in sizes]
    last = last_passing(differing, [int(np.sum(group == label)) for label in labels], alpha, confidence, average)
    return differs.shape[1] if last < 0 else sizes[last]
