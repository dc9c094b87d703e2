"""The leaves of all trees of a forest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Bools, Floats, Int64s


@dataclass(frozen=True)
class Leaves:
    """The leaves of all trees in one flat table.

    A *member* is what casts one vote: one tree, or the K trees of one iteration of a multiclass forest,
    each of which scores one class. A member that is no tree has a leaf for each class that it may answer.

    Attributes
    ----------
    offset : ndarray of int64, shape (n_members, n_outputs)
        Where each tree's leaves begin in the table; ``n_outputs`` is 1 for two classes, else K.
    score : ndarray of float, shape (n_leaves,) or (n_leaves, n_classes)
        What the leaf's tree predicts alone: for two classes the probability of class 1, else the score
        of its class, or of every class where one tree scores all of them.
    raw : ndarray of float, same shape
        The score before the link.
    mass : ndarray of float, shape (n_leaves,)
        The training rows that the model says reached the leaf: their number, or their summed hessian.
    provable : ndarray of bool, shape (n_leaves,)
        Whether ``mass`` can be compared with rebuilt bags.
    """

    offset: Int64s
    score: NDArray[np.floating[Any]]
    raw: NDArray[np.floating[Any]]
    mass: Floats
    provable: Bools

    @property
    def n_scores(self) -> int:
        """Scores of a member: 1, or one for each class."""
        return self.raw.shape[1] if self.raw.ndim > 1 else self.offset.shape[1]

    @property
    def digest(self) -> str:
        """SHA-256 of the leaves' scores in the order of the trees, by which a forest is told from others."""
        found = hashlib.sha256(str(self.raw.shape).encode())
        for array in (self.offset, self.raw):
            found.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
        return found.hexdigest()

    def raw_scores(self, leaf: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Scores before the link of the leaves that rows reach, shape (n_rows, n_members, n_scores)."""
        return self.raw[leaf[:, :, 0]] if self.raw.ndim > 1 else self.raw[leaf]

    def tree_of_leaf(self) -> Int64s:
        """Flat index (member-major) of the tree that each leaf belongs to."""
        order = np.argsort(self.offset, axis=None)
        ends = np.append(self.offset.ravel()[order][1:], len(self.score))
        return np.repeat(order, ends - self.offset.ravel()[order])
