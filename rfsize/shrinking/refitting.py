"""Refit the leaves of a few trees, so that they predict nearly what the whole forest predicts."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from rfsize._util import Floats, Int64s
from rfsize.shrinking.leaves_of_rows import LeavesOfRows

# Ridge penalty for each tree. It is multiplied by K, because the noise in the K-fold difference grows with the number K
# of trees, while the expected change of each tree stays the same.
_RIDGE = 1.0 / 3.0

_PRECISION, _MOST_STEPS = 5e-2, 200  # of the conjugate gradients


def refitted(rows: LeavesOfRows, members: Int64s) -> Floats:
    """Scores of all leaves, where the leaves of some trees are refitted to the mean scores of all trees on the rows.

    Let Z be the matrix of ones and zeros that marks which leaves the rows reach in the K trees. Let f be the mean score
    of all trees, and p the mean score of the K trees. The changes d of the leaves' scores minimise

        ‖K (f − p) − Z d‖² + K/3 ‖d‖².

    Conjugate gradients solve this for each score. Leaves that no row reaches keep their scores. This is the leaf
    refinement of Buschjäger and Morik (2021), but by least squares, and to the forest's predictions instead of labels.
    """
    raw = rows.ensemble.tree_scores.astype(np.float64)
    missing = len(members) * (rows.whole - rows.mean(members))
    several = raw.ndim == 1 and rows.ensemble.trees_per_iteration > 1  # each score has its own trees
    in_leaves = None if several else rows.in_leaves(members, 0)
    for score, of_score in enumerate(missing.T):
        reached = rows.in_leaves(members, score) if in_leaves is None else in_leaves
        change = _least_squares(reached, of_score, _RIDGE * len(members))
        if raw.ndim > 1:
            raw[:, score] += change
        else:
            raw += change
    return raw


def _least_squares(reached: sparse.csr_array, missing: Floats, ridge: float) -> Floats:
    missing = missing.astype(np.float32)
    diagonal = reached.sum(axis=0) + np.float32(ridge)
    back, shape = reached.T, (reached.shape[1],) * 2
    normal = LinearOperator(shape, matvec=partial(_normal, reached, back, np.float32(ridge)), dtype=np.float32)
    inverse = LinearOperator(shape, matvec=lambda of: of / diagonal, dtype=np.float32)
    # It is safe to stop early: `_pays` and the certificate measure the result on other rows.
    found, _ = cg(normal, back @ missing, rtol=_PRECISION, maxiter=_MOST_STEPS, M=inverse)
    return np.asarray(found, dtype=np.float64)


def _normal(
    reached: sparse.csr_array, back: sparse.csc_array, ridge: np.float32, change: NDArray[np.float32]
) -> NDArray[np.float32]:
    change = change.astype(np.float32, copy=False)
    return np.asarray(back @ (reached @ change) + ridge * change)
