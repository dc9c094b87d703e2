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
    size = len(members)
    missing = size * (score.mean(axis=1) - score[:, members].mean(axis=1))
    return least_squares(leaf[:, members], missing, np.ones(len(leaf)), fresh_leaf[:, members]) / size


def least_squares(leaf: np.ndarray, missing: np.ndarray, weight: np.ndarray, fresh_leaf: np.ndarray) -> np.ndarray:
    """Changes of the sum of K trees on fresh rows, shape (n_fresh,), where d minimises Σ w·(m − Z·d)² + K/3·‖d‖².

    Of the leaves that rows reach in the K trees, shape (n_rows, K), and what the sum of each row misses.
    """
    size = leaf.shape[1]
    names = {pair: place for place, pair in enumerate({(tree, of) for tree in range(size) for of in leaf[:, tree]})}

    def reached(leaves: np.ndarray) -> np.ndarray:
        marks = np.zeros((len(leaves), len(names)))
        for tree in range(size):
            for row, of in enumerate(leaves[:, tree]):
                if (tree, of) in names:
                    marks[row, names[tree, of]] = 1.0
        return marks

    marks = reached(leaf)
    weighted = marks.T * weight
    change = np.linalg.solve(weighted @ marks + size / 3.0 * np.eye(len(names)), weighted @ missing)
    return reached(fresh_leaf) @ change
