"""Scores for the leaves of few trees with which these answer as the whole forest does."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.utils.typing import Floats, Int64s

# How much a change of a leaf costs, for each tree: each of K trees is expected to be off by the same, and the noise in
# the K-fold difference that they are to make up grows with K.
_RIDGE = 1.0 / 3.0

_PRECISION, _MOST_STEPS = 5e-2, 200


def refitted(rows: LeavesOfRows, members: Int64s) -> Floats:
    """The scores of all leaves, of which those of some trees are refitted to the mean scores of all trees on the rows.

    With the leaves Z that the rows reach in K trees (ones and zeros), the mean f of all trees and the mean p of these,
    the changes d of the leaves' scores minimise

        ‖K (f − p) − Z d‖² + K/3 ‖d‖²,

    which is solved by conjugate gradients for each score. Leaves that no row reaches keep their scores. It is the leaf
    refinement of Buschjäger and Morik (2021), by exact least squares towards the forest and not towards labels.
    """
    raw = rows.adapter.leaves.raw.astype(np.float64)
    missing = len(members) * (rows.whole - rows.mean(members))
    several = raw.ndim == 1 and rows.adapter.leaves.offset.shape[1] > 1  # trees for each score
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
    # How far it came where it ends early is measured with the rest, on rows that it did not see.
    found, _ = cg(normal, back @ missing, rtol=_PRECISION, maxiter=_MOST_STEPS, M=inverse)
    return np.asarray(found, dtype=np.float64)


def _normal(
    reached: sparse.csr_array, back: sparse.csc_array, ridge: np.float32, change: NDArray[np.float32]
) -> NDArray[np.float32]:
    change = change.astype(np.float32, copy=False)
    return np.asarray(back @ (reached @ change) + ridge * change)
