"""Few trees that predict as all do: the leaves that rows reach, an order of the trees, and refitted leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from rfsize._util import Floats, Int64s
from rfsize.counting.task import Task
from rfsize.models.ensemble import TreeEnsemble, rounded_as_stored
from rfsize.models.rows import DistributedRows
from rfsize.statistics.first_trees import Comparison, sizes_tried

STEP = 1.1
"""The expected loss grows by this factor from one size that is tried to the next; see `sizes_tried`."""

# Leaves are refitted if a forest changes more than this part of the labels that may change. Larger forests change fewer
# labels and need no refitting. One row in so many is held out, to see whether refitting helps.
_WORTH_REFITTING, _HELD_OUT = 0.25, 5

# Ridge penalty for each tree. It is multiplied by K, because the noise in the K-fold difference grows with the number K
# of trees, while the expected change of each tree stays the same. Then where conjugate gradients stop.
_RIDGE, _PRECISION, _MOST_STEPS = 1.0 / 3.0, 5e-2, 200

# Most rows × trees whose leaves are kept, at four bytes each: from more rows a random part is drawn. Then most scores
# that are held at a time.
_MOST_CELLS, _CELLS_TOGETHER = 50_000_000, 1 << 22


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves that rows reach in every tree, so that any trees can predict them with other scores of the leaves.

    Attributes
    ----------
    trees : TreeEnsemble
        The trees of the whole forest.
    leaf : ndarray of int32, shape (n_rows, n_members, n_outputs)
        Indices into the table of all leaves.
    number : ndarray of int64, shape (n_rows,)
        Index of each row among the rows that the user gave.
    """

    trees: TreeEnsemble
    leaf: NDArray[np.int32]
    number: Int64s

    def __len__(self) -> int:
        return len(self.leaf)

    def take(self, rows: Int64s) -> Leaves:
        """Select rows by their index here."""
        return Leaves(self.trees, self.leaf[rows], self.number[rows])

    @cached_property
    def whole(self) -> Floats:
        """Mean scores of all trees, shape (n_rows, n_scores)."""
        return self.mean(np.arange(self.trees.n_trees))

    @property
    def hashes(self) -> Int64s:
        """A hash of the leaves that each row reaches in all trees, shape (n_rows,)."""
        leaf = self.leaf.reshape(len(self), -1)
        return leaf.astype(np.int64) @ np.random.default_rng(0).integers(-(2**62), 2**62, leaf.shape[1])

    def mean(self, members: Int64s, leaf_scores: NDArray[Any] | None = None) -> Floats:
        """Mean scores of some trees, shape (n_rows, n_scores); with other scores of all leaves, if they are given."""
        mean = np.empty((len(self), self.trees.n_scores))
        for rows in self.blocks(len(members)):
            mean[rows] = self.scores(rows, members, leaf_scores).mean(axis=1)
        return mean

    def scores(self, rows: slice, members: Int64s, leaf_scores: NDArray[Any] | None = None) -> Floats:
        """Scores of each of some trees on some of the rows, shape (n, n_members, n_scores)."""
        leaf_scores = self.trees.tree_scores if leaf_scores is None else leaf_scores
        leaf = self.leaf[rows][:, members]
        return np.asarray(leaf_scores[leaf[:, :, 0]] if leaf_scores.ndim > 1 else leaf_scores[leaf], dtype=np.float64)

    def blocks(self, n_members: int) -> list[slice]:
        """Ranges of rows whose scores are held at a time."""
        step = max(1, _CELLS_TOGETHER // (n_members * self.trees.n_scores))
        return [slice(start, start + step) for start in range(0, len(self), step)]


def leaves_of(task: Task) -> Leaves:
    """The leaves of all rows, or of a random part if there are too many rows to keep."""
    if isinstance(task.X, DistributedRows):
        raise ValueError(
            "shrink takes rows in memory or in a folder, found rows on workers: give a part of them in memory"
        )
    trees = task.forest.ensemble
    assert trees is not None
    shape = trees.tree_start.shape
    most, drawn = max(1, _MOST_CELLS // math.prod(shape)), np.arange(task.n_rows)
    if task.n_rows > most:
        drawn = np.sort(np.random.default_rng(0).choice(task.n_rows, most, replace=False))
    leaf = np.empty((len(drawn), *shape), dtype=np.int32)
    for batch in task.walk.batches("leaves of rows"):
        first, last = np.searchsorted(drawn, (batch.rows.start, batch.rows.stop))
        leaf[first:last] = batch.leaves.leaf[drawn[first:last] - batch.rows.start]
    return Leaves(trees, leaf, drawn)


def order_of_trees(rows: Leaves) -> Int64s:
    """Choose trees one after another, so that their mean score comes nearest to the mean score of all trees.

    The distance is the sum of squares over the rows. This is ordered bagging (Martínez-Muñoz and Suárez 2006) with the
    predictions of the whole forest in place of the labels.
    """
    n_trees = rows.trees.n_trees
    products = np.zeros((n_trees, n_trees))  # of the deviations of two trees from the mean, over all rows
    for block in rows.blocks(n_trees):
        deviation = rows.scores(block, np.arange(n_trees)) - rows.whole[block][:, None]
        for of_score in np.moveaxis(deviation, 2, 0):
            products += of_score.T @ of_score
    own, with_chosen = np.diagonal(products), np.zeros(n_trees)
    is_left, order = np.ones(n_trees, dtype=np.bool_), np.empty(n_trees, dtype=np.int64)
    for place in range(n_trees):
        order[place] = np.argmin(np.where(is_left, own + 2.0 * with_chosen, np.inf))
        is_left[order[place]] = False
        with_chosen += products[order[place]]
    return order


def refitted(rows: Leaves, members: Int64s) -> NDArray[Any]:
    """Scores of all leaves as a model stores them, where those of some trees are refitted to the mean of all trees.

    Let Z be the matrix of ones and zeros that marks which leaves the rows reach in the K trees. Let f be the mean score
    of all trees, and p the mean score of the K trees. The changes d of the leaves' scores minimise

        ‖K (f − p) − Z d‖² + K/3 ‖d‖².

    Conjugate gradients solve this for each score. Leaves that no row reaches keep their scores. This is the leaf
    refinement of Buschjäger and Morik (2021), but by least squares, and to the forest's predictions instead of labels.
    """
    scores = rows.trees.tree_scores.astype(np.float64)
    missing = len(members) * (rows.whole - rows.mean(members))
    has_own_trees = scores.ndim == 1 and rows.trees.trees_per_iteration > 1  # each score
    for score, of_score in enumerate(missing.T):
        leaf = np.ascontiguousarray(rows.leaf[:, members, score if has_own_trees else 0])
        change = _least_squares(leaf, len(scores), of_score, _RIDGE * len(members))
        if scores.ndim > 1:
            scores[:, score] += change
        else:
            scores += change
    return rounded_as_stored(rows.trees, scores, len(members))


def _least_squares(leaf: NDArray[np.int32], n_leaves: int, missing: Floats, ridge: float) -> Floats:
    """Changes of the leaves' scores that bring the sums over the leaves of each row near to what is missing."""
    starts = np.arange(0, leaf.size + 1, leaf.shape[1])
    marks = sparse.csr_array((np.ones(leaf.size, dtype=np.float32), leaf.ravel(), starts), shape=(len(leaf), n_leaves))
    by_leaf, penalty = marks.T, np.float32(ridge)
    diagonal = marks.sum(axis=0) + penalty

    def normal(change: NDArray[np.float32]) -> NDArray[np.float32]:
        change = change.astype(np.float32, copy=False)
        return np.asarray(by_leaf @ (marks @ change) + penalty * change)

    operator = LinearOperator((n_leaves, n_leaves), matvec=normal, dtype=np.float32)
    inverse = LinearOperator((n_leaves, n_leaves), matvec=lambda change: change / diagonal, dtype=np.float32)
    # It is safe to stop early: `_refit_helps` and the certificate measure the result on other rows.
    change, _ = cg(operator, by_leaf @ missing.astype(np.float32), rtol=_PRECISION, maxiter=_MOST_STEPS, M=inverse)
    return np.asarray(change, dtype=np.float64)


def most_trees_to_refit(rows: Leaves, order: Int64s, comparison: Comparison, level: float) -> int:
    """The largest size at which leaves are refitted; 0 if that does not help.

    ``level`` is the share of the answers that may change.
    """
    is_held_out = np.arange(len(rows)) % _HELD_OUT == 0
    held_out, others = rows.take(np.flatnonzero(is_held_out)), rows.take(np.flatnonzero(~is_held_out))
    for size in sizes_tried(len(order), STEP).tolist():
        plain = held_out.mean(order[:size])
        if comparison.differ(plain, held_out.whole).mean() > _WORTH_REFITTING * level:
            fitted = held_out.mean(order[:size], refitted(others, order[:size])) if len(others) else plain
            errors = [np.square(mean - held_out.whole).sum() for mean in (fitted, plain)]
            return size if errors[0] < errors[1] else 0
    return 0
