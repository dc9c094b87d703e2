"""What blocks of trees say, added up one tree and one row at a time."""

from __future__ import annotations

import numpy as np

N_BLOCKS, N_FIRST = 20, 74


def of_shared_bags(label: np.ndarray, score: np.ndarray, inbag: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    """Of trees that each cast a vote: labels, (n_trees, n_rows), scores, (n_trees, n_rows, n_scores), and bags."""
    n_trees, n_rows, n_scores = score.shape
    votes = np.zeros((n_rows, N_BLOCKS, n_classes), dtype=int)
    total, squares = np.zeros((2, n_rows, N_BLOCKS, n_scores))
    asked = np.zeros((n_rows, N_BLOCKS, 1), dtype=int)
    first = np.zeros((n_rows, N_FIRST, n_scores))
    for tree in range(n_trees):
        for row in range(n_rows):
            if not inbag[tree, row]:
                block, place = tree % N_BLOCKS, asked[row].sum()
                if place < N_FIRST:
                    first[row, place] = score[tree, row]
                votes[row, block, label[tree, row]] += 1
                total[row, block] += score[tree, row]
                squares[row, block] += score[tree, row] ** 2
                asked[row, block, 0] += 1
    return {"votes": votes, "total": total, "squares": squares, "asked": asked, "first": first}
