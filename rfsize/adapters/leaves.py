"""The leaves of all trees of a forest, what members answer on rows, and what the labels of training make of leaves."""

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

    A *member* is what casts one vote: one tree, or the K trees of one iteration of a multiclass forest,
    each of which scores one class. Members that are no trees have no leaves, see `Answers`.

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

    @classmethod
    def nothing(cls, n_members: int, n_scores: int) -> Leaves:
        """Those of members that are no trees."""
        return cls.of_scores(n_members, np.zeros((0, n_scores)))

    @classmethod
    def of_scores(cls, n_members: int, scores: Floats) -> Leaves:
        """A table that holds an answer of a member that is no tree in each place, shape (n_answers, n_scores)."""
        table = scores if scores.shape[1] > 1 else scores[:, 0]
        n = len(table)
        offset = np.zeros((n_members, 1), dtype=np.int64)
        return cls(offset, table, table, np.zeros(n), np.zeros(n, dtype=np.bool_))

    @cached_property
    def in_double(self) -> Floats:
        """``raw`` as compiled loops read it, shape (n_leaves, n_scores of a tree)."""
        return np.ascontiguousarray(self.raw, dtype=np.float64).reshape(len(self.raw), -1)

    def raw_scores(self, leaf: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Scores before the link of the leaves that rows reach, shape (n_rows, n_members, n_scores)."""
        return self.raw[leaf[:, :, 0]] if self.raw.ndim > 1 else self.raw[leaf]

    def tree_of_leaf(self) -> Int64s:
        """Flat index (member-major) of the tree that each leaf belongs to."""
        order = np.argsort(self.offset, axis=None)
        ends = np.append(self.offset.ravel()[order][1:], len(self.score))
        return np.repeat(order, ends - self.offset.ravel()[order])


@dataclass(frozen=True)
class Answers:
    """What the members of a forest answer on a block of rows.

    Attributes
    ----------
    leaf : ndarray of int64, shape (n_rows, n_members, n_outputs)
        The answer of each tree: the leaf that the row reaches, as an index into the table.
    leaves : Leaves
        The table: of trees, all leaves of the forest; of other members, what each of them scores on each row.
    """

    leaf: Int64s
    leaves: Leaves

    @classmethod
    def of_scores(cls, scores: Floats) -> Answers:
        """Of members that are no trees, shape (n_rows, n_members, n_scores)."""
        n_rows, n_members, n_scores = scores.shape
        leaf = np.arange(n_rows * n_members).reshape(n_rows, n_members, 1)
        return cls(leaf, Leaves.of_scores(n_members, scores.reshape(-1, n_scores)))

    @property
    def raw(self) -> NDArray[np.floating[Any]]:
        """Scores before the link, shape (n_rows, n_members, n_scores)."""
        return self.leaves.raw_scores(self.leaf)

    def take(self, rows: Any) -> Answers:
        """Those on some of the rows."""
        return Answers(self.leaf[rows], self.leaves)


@dataclass(frozen=True)
class LeafLabels:
    """Sums over the rows of a bag that reach a leaf, as labels give them and as the model's leaf implies them.

    An integration makes them where the formula of its leaves is simple, and leaves them out elsewhere.

    Attributes
    ----------
    target : ndarray of float64, shape (n_rows, 1) or (n_rows, n_outputs)
        What a row of unit weight adds, such as the distance of its label from what was predicted before any tree.
    stored : ndarray of float64, shape (n_leaves,)
        Sum of weight × target that the leaf's value implies; NaN where it implies none.
    stored_weight : ndarray of float64, shape (n_leaves,)
        Sum of the weights, as the model has it.
    weight : callable or None
        Weights of rows ``start`` to ``stop``, shape (rows, n_members or 1, 1); None where they are the masses that
        prove the bags.
    error : ndarray of float64, shape (n_leaves,), or float
        How far off ``stored`` may be, beside the rounding of sums.
    """

    target: Floats
    stored: Floats
    stored_weight: Floats
    weight: Callable[[int, int], Floats] | None = None
    error: Floats | float = 0.0

    def part(self, start: int, stop: int) -> LeafLabels:
        """What rows ``start`` to ``stop`` add; what the leaves imply, which no row adds to, is left behind."""
        nothing = np.zeros(0)
        weights = None if self.weight is None else self.weight(start, stop)
        weight = None if weights is None else lambda first, last: weights[first:last]
        return LeafLabels(self.target[start:stop], nothing, nothing, weight)


def known_truth(classes: NDArray[Any], y: Any, n_rows: int) -> NDArray[Any] | None:
    """Index into ``classes`` of each label, or without classes numbers; None where some are not the model's.

    Raises
    ------
    ValueError
        If there is not one label for each row.
    """
    label = one_per_row(y, n_rows)
    try:
        return training_labels(classes, label, n_rows)
    except (TypeError, ValueError):
        return None


def kept_as_single(label: NDArray[Any], n_outputs: int) -> Floats:
    """Labels as a framework of single precision keeps them, or whether each is an output's; (n_rows, n_outputs)."""
    kept = label.astype(np.float32)
    target = kept if n_outputs == 1 else kept[:, None] == np.arange(n_outputs)
    return target.astype(np.float64).reshape(len(label), -1)
