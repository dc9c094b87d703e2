"""The leaves of all trees of a forest, the members' answers on rows, and leaf sums implied by the training labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.utils.validation import one_per_row, training_labels


@dataclass(frozen=True)
class Leaves:
    """The leaves of all trees in one flat table.

    A *member* casts one vote. It is one tree, or the K trees of one iteration of a multiclass forest, where each tree
    scores one class. Members that are not trees have no leaves, see `Answers`.

    Attributes
    ----------
    offset : ndarray of int64, shape (n_members, n_outputs)
        Index of each tree's first leaf in the table. ``n_outputs`` is the number of trees of a member: 1 or K.
    score : ndarray of float, shape (n_leaves,) or (n_leaves, n_classes)
        Prediction of the leaf's own tree. For two classes this is the probability of class 1. For more classes it is
        the score of the tree's class, or of every class if one tree scores all classes.
    raw : ndarray of float, same shape
        Score before the link.
    mass : ndarray of float, shape (n_leaves,)
        Number, or summed hessian, of the training rows that reached the leaf, as the model stores it.
    provable : ndarray of bool, shape (n_leaves,)
        Whether ``mass`` can be compared with the bags that rfsize rebuilds.
    """

    offset: Int64s
    score: NDArray[np.floating[Any]]
    raw: NDArray[np.floating[Any]]
    mass: Floats
    provable: Bools

    @property
    def n_scores(self) -> int:
        """Number of scores of a member: 1, or one for each class."""
        return self.raw.shape[1] if self.raw.ndim > 1 else self.offset.shape[1]

    @property
    def digest(self) -> str:
        """SHA-256 of the leaves' scores in the order of the trees; it identifies the forest."""
        found = hashlib.sha256(str(self.raw.shape).encode())
        for array in (self.offset, self.raw):
            found.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
        return found.hexdigest()

    @classmethod
    def nothing(cls, n_members: int, n_scores: int) -> Leaves:
        """The empty table of members that are not trees."""
        return cls.of_scores(n_members, np.zeros((0, n_scores)))

    @classmethod
    def of_scores(cls, n_members: int, scores: Floats) -> Leaves:
        """A table of the answers of members that are not trees; ``scores`` has shape (n_answers, n_scores)."""
        table = scores if scores.shape[1] > 1 else scores[:, 0]
        n = len(table)
        offset = np.zeros((n_members, 1), dtype=np.int64)
        return cls(offset, table, table, np.zeros(n), np.zeros(n, dtype=np.bool_))

    @cached_property
    def in_double(self) -> Floats:
        """``raw`` in double precision, for compiled loops, shape (n_leaves, n_scores of a tree)."""
        return np.ascontiguousarray(self.raw, dtype=np.float64).reshape(len(self.raw), -1)

    def raw_scores(self, leaf: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Scores, before the link, of the leaves that rows reach, shape (n_rows, n_members, n_scores)."""
        return self.raw[leaf[:, :, 0]] if self.raw.ndim > 1 else self.raw[leaf]

    def tree_of_leaf(self) -> Int64s:
        """Flat index of each leaf's tree; trees are counted member by member."""
        order = np.argsort(self.offset, axis=None)
        ends = np.append(self.offset.ravel()[order][1:], len(self.score))
        return np.repeat(order, ends - self.offset.ravel()[order])


@dataclass(frozen=True)
class Answers:
    """The answers of a forest's members on a block of rows.

    Attributes
    ----------
    leaf : ndarray of int64, shape (n_rows, n_members, n_outputs)
        Answer of each tree: the index in the table of the leaf that the row reaches.
    leaves : Leaves
        The table. For trees it holds all leaves of the forest, for other members the scores of each member on each row.
    """

    leaf: Int64s
    leaves: Leaves

    @classmethod
    def of_scores(cls, scores: Floats) -> Answers:
        """Answers of members that are not trees; ``scores`` has shape (n_rows, n_members, n_scores)."""
        n_rows, n_members, n_scores = scores.shape
        leaf = np.arange(n_rows * n_members).reshape(n_rows, n_members, 1)
        return cls(leaf, Leaves.of_scores(n_members, scores.reshape(-1, n_scores)))

    @property
    def raw(self) -> NDArray[np.floating[Any]]:
        """Scores before the link, shape (n_rows, n_members, n_scores)."""
        return self.leaves.raw_scores(self.leaf)

    def take(self, rows: Any) -> Answers:
        """The answers on some of the rows."""
        return Answers(self.leaf[rows], self.leaves)


@dataclass(frozen=True)
class LeafLabels:
    """Sums of labels over the bag's rows in each leaf, to compare with the sums that the leaf's stored value implies.

    An integration provides them if the formula of its leaf values is simple.

    Attributes
    ----------
    target : ndarray of float64, shape (n_rows, 1) or (n_rows, n_outputs)
        What a row of weight 1 adds to the sum, such as its label minus the prediction before any tree.
    stored : ndarray of float64, shape (n_leaves,)
        Sum of weight × target that the leaf's value implies; NaN if it implies none.
    stored_weight : ndarray of float64, shape (n_leaves,)
        Sum of the weights, as the model stores it.
    weight : callable or None
        Returns the weights of rows ``start`` to ``stop``, shape (rows, n_members or 1, 1). None if the weights are the
        masses that prove the bags.
    error : ndarray of float64, shape (n_leaves,), or float
        Largest error of ``stored``, in addition to the rounding of sums.
    """

    target: Floats
    stored: Floats
    stored_weight: Floats
    weight: Callable[[int, int], Floats] | None = None
    error: Floats | float = 0.0

    def part(self, start: int, stop: int) -> LeafLabels:
        """The targets and weights of rows ``start`` to ``stop``, without the sums that the leaves imply."""
        nothing = np.zeros(0)
        weights = None if self.weight is None else self.weight(start, stop)
        weight = None if weights is None else lambda first, last: weights[first:last]
        return LeafLabels(self.target[start:stop], nothing, nothing, weight)


def known_truth(classes: NDArray[Any], y: Any, n_rows: int) -> NDArray[Any] | None:
    """Index into ``classes`` of each label, or without classes the numbers; None if a label does not fit the model.

    Raises
    ------
    ValueError
        If the number of labels is not the number of rows.
    """
    label = one_per_row(y, n_rows)
    try:
        return training_labels(classes, label, n_rows)
    except (TypeError, ValueError):
        return None


def kept_as_single(label: NDArray[Any], n_outputs: int) -> Floats:
    """Labels rounded to single precision, or 1 for the output of the label's class, else 0; (n_rows, n_outputs)."""
    kept = label.astype(np.float32)
    target = kept if n_outputs == 1 else kept[:, None] == np.arange(n_outputs)
    return target.astype(np.float64).reshape(len(label), -1)
