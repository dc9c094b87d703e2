"""What the trees score on each row, one tree and row at a time, and whether `Scores` say the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.scores import Scores


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
