"""Scores of the trees that left a row out, tree by tree and row by row."""

from __future__ import annotations

import numpy as np


def left_out(score: np.ndarray, inbag: np.ndarray) -> list[np.ndarray]:
    """Scores of each row's members, one array of shape (n_members, n_classes) a row.

    ``score`` has the shape (n_trees, n_rows, n_classes), ``inbag`` (n_classes, n_trees, n_rows): of each class the
    trees that left the row out, in their order, make the members.
    """
    n_trees, n_rows, n_classes = score.shape
    members = []
    for row in range(n_rows):
        of_class = []
        for k in range(n_classes):
            of_class.append([score[tree, row, k] for tree in range(n_trees) if not inbag[k, tree, row]])
        members.append(np.array(list(zip(*of_class, strict=False))).reshape(-1, n_classes))
    return members


def counts(members: list[np.ndarray]) -> np.ndarray:
    """Votes of each row's members for the class of their highest score."""
    return np.array([[sum(vote.argmax() == k for vote in votes) for k in range(votes.shape[1])] for votes in members])
