"""Scores of trees once more, tree by tree and row by row, and whether `Scores` say the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.counting.scores import Scores


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
    return np.array([[sum(vote.argmax() == k for vote in one) for k in range(one.shape[1])] for one in members])


def assert_scores(
    found: Scores, alone: np.ndarray, may_vote: np.ndarray, *, up_to_constant: bool = False, **tolerance: Any
) -> None:
    """Whether mean and covariance are those of the scores ``alone``, (n_trees, n_rows, n_scores), that may vote.

    Scores of a softmax are known up to a constant for each row and tree, so they are centred first; so is the
    covariance of what was ``found``, by the projection that centring is.
    """
    n_scores = alone.shape[2]
    centre = np.eye(n_scores) - up_to_constant / n_scores
    one, other = np.triu_indices(n_scores)
    for row in range(alone.shape[1]):
        heard = [tree @ centre for tree, asked in zip(alone[:, row], may_vote[:, row], strict=True) if asked]
        assert found.asked[row] == len(heard)
        mean = sum(heard, np.zeros(n_scores)) / max(len(heard), 1)
        scatter = sum((np.outer(score - mean, score - mean) for score in heard), np.zeros((n_scores, n_scores)))
        told = np.zeros((n_scores, n_scores))
        told[one, other] = told[other, one] = found.scatter[row]
        np.testing.assert_allclose(found.mean[row] @ centre, mean, **tolerance)
        np.testing.assert_allclose(centre @ told @ centre, scatter, **tolerance)
