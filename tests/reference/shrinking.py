"""Trees chosen and leaves refitted to predict as a whole forest does: by trying every tree, and by a dense system."""

from __future__ import annotations

import numpy as np


def order_of_trees(score: np.ndarray, most: int) -> list[int]:
    """Trees one after another, so that the mean of the chosen comes nearest to the mean of all.

    Of scores of shape (n_rows, n_trees, n_scores).
    """
    whole, chosen = score.mean(axis=1), []
    for _ in range(most):
        left = [tree for tree in range(score.shape[1]) if tree not in chosen]
        apart = [np.square(score[:, [*chosen, tree]].mean(axis=1) - whole).sum() for tree in left]
        chosen.append(left[int(np.argmin(apart))])
    return chosen


def refitted(score: np.ndarray, leaf: np.ndarray, members: list[int], fresh_leaf: np.ndarray) -> np.ndarray:
    """Changes of the mean score of the members on fresh rows, shape (n_fresh,), of one score.

    Of scores and leaves of all trees, shape (n_rows, n_trees), and leaves of fresh rows. The changes d of the leaves'
    scores minimise ‖K·(f − p) − Z·d‖² + K/3·‖d‖², where f and p are the means of all trees and of the K members.
    """
    names = {pair: place for place, pair in enumerate({(tree, of) for tree in members for of in leaf[:, tree]})}

    def reached(leaves: np.ndarray) -> np.ndarray:
        marks = np.zeros((len(leaves), len(names)))
        for tree in members:
            for row, of in enumerate(leaves[:, tree]):
                if (tree, of) in names:
                    marks[row, names[tree, of]] = 1.0
        return marks

    marks, size = reached(leaf), len(members)
    missing = size * (score.mean(axis=1) - score[:, members].mean(axis=1))
    change = np.linalg.solve(marks.T @ marks + size / 3.0 * np.eye(len(names)), marks.T @ missing)
    return reached(fresh_leaf) @ change / size
