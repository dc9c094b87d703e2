"""Few trees that predict as all do: the leaves that rows reach, an order of the trees, and refitted leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from rfsize._util import Floats, Int64s
from rfsize.counting.task import Task
from rfsize.models.ensemble import TreeEnsemble, partial_scores, scores_of_values, values_of_scores
from rfsize.models.model import Forest
from rfsize.models.rows import DistributedRows
from rfsize.statistics.first_trees import Comparison, sizes_tried

# The expected loss grows by this factor from one size that is tried to the next, see `sizes_tried`: of trees that are
# chosen, and of boosted trees.
_STEP_OF_MEANS, _STEP_OF_SUMS = 1.1, 1.05

# Leaves are refitted if a forest changes more than this part of the labels that may change. Larger forests change fewer
# labels and need no refitting. Forests that change so many times more are too small for refitting to save them. One row
# in so many is held out, to see whether refitting helps.
_WORTH_REFITTING, _TOO_SMALL, _HELD_OUT = 0.25, 4.0, 5

# Ridge penalty for each tree. It is multiplied by K, because the noise in the K-fold difference grows with the number K
# of trees, while the expected change of each tree stays the same. (Boosted models lose as much with any penalty from 1
# to 100.) Then where conjugate gradients stop.
_RIDGE, _PRECISION, _MOST_STEPS = 1.0 / 3.0, 5e-2, 200

# Most rows × trees whose leaves are kept, at four bytes each: from more rows a random part is drawn. Then most scores
# that are held at a time.
_MOST_CELLS, _CELLS_TOGETHER = 50_000_000, 1 << 22


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves that rows reach in every tree, so that any trees can predict them with other values of the leaves.

    Attributes
    ----------
    trees : TreeEnsemble
        The trees of the whole model.
    adds_up : bool
        Whether the trees are boosted and add up, so that only the first iterations make a smaller model. A forest
        averages the scores of its trees.
    leaf : ndarray of int32, shape (n_rows, n_members, n_outputs)
        Indices into the table of all leaves.
    number : ndarray of int64, shape (n_rows,)
        Index of each row among the rows that the user gave.
    """

    trees: TreeEnsemble
    adds_up: bool
    leaf: NDArray[np.int32]
    number: Int64s

    def __len__(self) -> int:
        return len(self.leaf)

    def take(self, rows: Int64s) -> Leaves:
        """Select rows by their index here."""
        return replace(self, leaf=self.leaf[rows], number=self.number[rows])

    @cached_property
    def whole(self) -> Floats:
        """Raw scores of all trees, shape (n_rows, n_scores)."""
        return self.raw_scores(np.arange(self.trees.n_trees))

    @property
    def sizes(self) -> list[int]:
        """Numbers of trees to try, from many to few."""
        sizes = sizes_tried(self.trees.n_trees, _STEP_OF_SUMS if self.adds_up else _STEP_OF_MEANS)
        return [int(size) for size in sizes]

    @property
    def hashes(self) -> Int64s:
        """A hash of the leaves that each row reaches in all trees, shape (n_rows,)."""
        leaf = self.leaf.reshape(len(self), -1)
        return leaf.astype(np.int64) @ np.random.default_rng(0).integers(-(2**62), 2**62, leaf.shape[1])

    def raw_scores(self, members: Int64s, leaf_values: NDArray[Any] | None = None) -> Floats:
        """Raw scores of some trees, shape (n_rows, n_scores); with other values of all leaves, if they are given."""
        raw, n_trees, leaf_scores = np.empty((len(self), self.trees.n_scores)), len(members), None
        if leaf_values is not None and not self.adds_up:
            leaf_scores = scores_of_values(self.trees, leaf_values, n_trees)
        for rows in self.blocks(n_trees):
            if self.adds_up:
                raw[rows] = partial_scores(self.trees, self.leaf[rows, :n_trees], leaf_values)[:, -1]
            else:
                raw[rows] = self.scores(rows, members, leaf_scores).mean(axis=1)
        return raw

    def scores(self, rows: slice, members: Int64s, leaf_scores: NDArray[Any] | None = None) -> Floats:
        """Scores of each of some trees of a forest on some of the rows, shape (n, n_members, n_scores)."""
        leaf_scores = self.trees.tree_scores if leaf_scores is None else leaf_scores
        leaf = self.leaf[rows][:, members]
        return np.asarray(leaf_scores[leaf[:, :, 0]] if leaf_scores.ndim > 1 else leaf_scores[leaf], dtype=np.float64)

    def blocks(self, n_members: int) -> list[slice]:
        """Ranges of rows whose scores are held at a time."""
        step = max(1, _CELLS_TOGETHER // (n_members * self.trees.parallel_trees * self.trees.n_scores))
        return [slice(start, start + step) for start in range(0, len(self), step)]


def leaves_of(task: Task) -> Leaves:
    """The leaves of all rows, or of a random part if there are too many rows to keep."""
    if isinstance(task.X, DistributedRows):
        raise ValueError("shrink takes no rows on workers: give a part of them in memory")
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
    return Leaves(trees, not isinstance(task.forest, Forest), leaf, drawn)


def order_of_trees(rows: Leaves) -> Int64s:
    """Choose trees one after another, so that their mean score comes nearest to the mean score of all trees.

    The distance is the sum of squares over the rows. This is ordered bagging (Martínez-Muñoz and Suárez 2006) with the
    predictions of the whole forest in place of the labels. Boosted trees stay in their order, since each corrects those
    before it.
    """
    n_trees = rows.trees.n_trees
    if rows.adds_up:
        return np.arange(n_trees)
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
    """Values of all leaves as a model stores them, where those of some trees are refitted to the scores of all trees.

    Let Z be the matrix of ones and zeros that marks which leaves the rows reach in the K trees. Let f be the raw score
    of all trees, and p that of the K trees: means of a forest, whose leaves hold scores of single trees, and sums of
    boosted trees. The changes d of what the leaves hold minimise

        ‖K (f − p) − Z d‖² + K/3 ‖d‖² in a forest, and ‖W (f − p − Z d)‖² + K/3 ‖d‖² in a boosted model.

    The weights W² are the root of the link's slope at f, at most 1. For later trees move the scores of rows far from a
    tie most, where that changes neither labels nor probabilities. Conjugate gradients solve this for each score. Leaves
    that no row reaches keep their values. This is the leaf refinement of Buschjäger and Morik (2021), but by least
    squares, and to the model's predictions instead of labels.
    """
    trees, n_trees = rows.trees, len(members)
    stored = trees.nodes.value if rows.adds_up else trees.tree_scores
    held = stored.astype(np.float64).reshape(len(stored), -1)
    missing, weight = rows.whole - rows.raw_scores(members), np.ones_like(rows.whole)
    if rows.adds_up:
        slope = trees.link.steepness(rows.whole)
        weight = np.sqrt(slope / slope.max()) if slope.max() > 0.0 else weight
    else:
        missing *= n_trees
    leaf = rows.leaf[:, members].reshape(len(rows), -1, trees.trees_per_iteration)
    for score in range(missing.shape[1]):  # which has trees of its own, or its column of the leaves
        of_trees = np.ascontiguousarray(leaf[:, :, score % leaf.shape[2]])
        change = _least_squares(of_trees, len(held), missing[:, score], weight[:, score], _RIDGE * n_trees)
        held[:, score % held.shape[1]] += change
    refit = held.reshape(stored.shape)
    return refit.astype(stored.dtype) if rows.adds_up else values_of_scores(trees, refit, n_trees)


def _least_squares(leaf: NDArray[np.int32], n_leaves: int, missing: Floats, weight: Floats, ridge: float) -> Floats:
    """Changes of the leaves' scores that bring the sums over the leaves of each row near to what is missing."""
    starts, root = np.arange(0, leaf.size + 1, leaf.shape[1]), np.sqrt(weight).astype(np.float32)
    marks = sparse.csr_array((np.repeat(root, leaf.shape[1]), leaf.ravel(), starts), shape=(len(leaf), n_leaves))
    by_leaf, penalty = marks.T, np.float32(ridge)
    diagonal = by_leaf @ root + penalty

    def normal(change: NDArray[np.float32]) -> NDArray[np.float32]:
        change = change.astype(np.float32, copy=False)
        return np.asarray(by_leaf @ (marks @ change) + penalty * change)

    operator = LinearOperator((n_leaves, n_leaves), matvec=normal, dtype=np.float32)
    inverse = LinearOperator((n_leaves, n_leaves), matvec=lambda change: change / diagonal, dtype=np.float32)
    # It is safe to stop early: `most_trees_to_refit` and the certificate measure the result on other rows.
    wanted = by_leaf @ (root * missing.astype(np.float32))
    change, _ = cg(operator, wanted, rtol=_PRECISION, maxiter=_MOST_STEPS, M=inverse)
    return np.asarray(change, dtype=np.float64)


def held_out_of(rows: Leaves) -> tuple[Leaves, Leaves]:
    """The rows without a part that is held out, to see whether refitting helps; and this part."""
    is_held_out = np.arange(len(rows)) % _HELD_OUT == 0
    return rows.take(np.flatnonzero(~is_held_out)), rows.take(np.flatnonzero(is_held_out))


def most_trees_to_refit(rows: Leaves, held_out: Leaves, order: Int64s, comparison: Comparison, level: float) -> int:
    """The largest size at which leaves are refitted; 0 if that does not help, by the predictions of rows held out.

    ``level`` is the share of the answers that may change.
    """
    predictions = comparison.predictor.predictions
    by_all = predictions(held_out.whole)
    for size in rows.sizes if len(rows) else ():
        plain = held_out.raw_scores(order[:size])
        lost = comparison.differ(plain, held_out.whole).mean() / level
        if lost > _WORTH_REFITTING:
            fitted = held_out.raw_scores(order[:size], refitted(rows, order[:size]))
            errors = [np.square(predictions(score) - by_all).sum() for score in (fitted, plain)]
            if errors[0] < errors[1]:
                return size
        if lost > _TOO_SMALL:
            return 0
    return 0
