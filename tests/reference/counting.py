"""Votes counted one tree and one row at a time."""

from __future__ import annotations

import numpy as np


def winner(counts: np.ndarray) -> list[int]:
    """Index of the class with the most votes, the lowest where they tie."""
    return [max(range(len(row)), key=lambda index: (row[index], -index)) for row in counts.tolist()]


def votes(tree_labels: np.ndarray, n_classes: int, inbag: np.ndarray | None = None) -> np.ndarray:
    """Counts per row and class from each tree's label, shape (n_trees, n_rows)."""
    counts = np.zeros((tree_labels.shape[1], n_classes), dtype=int)
    for tree in range(tree_labels.shape[0]):
        for row in range(tree_labels.shape[1]):
            if inbag is None or not inbag[tree, row]:
                counts[row, tree_labels[tree, row]] += 1
    return counts
