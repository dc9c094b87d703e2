"""A model as an additive tree ensemble: raw score = base + Σ leaf values (averaged in a forest), output = link(score).

Forests, AdaBoost and boosted trees of every framework are read into one `TreeEnsemble`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Floats, Int64s
from rfsize.models.columns import Columns
from rfsize.models.conventions import Conventions
from rfsize.models.link import Link


class Missing(IntEnum):
    """Kind of a split, by what it does with missing values; compiled loops distinguish these kinds."""

    AS_ZERO = 0  # a missing value counts as zero
    ZERO_RIGHT = 1  # missing values and zeros go right
    ZERO_LEFT = 2
    NAN_RIGHT = 3  # missing values go right
    NAN_LEFT = 4
    CATEGORY = 5  # the split tests membership of a set of categories


_TYPES: dict[str, Any] = {"threshold": np.float64, "missing": np.uint8, "missing_goes_left": np.bool_}
_TYPES |= dict.fromkeys(("n_nodes", "left", "right", "feature"), np.int64)


@dataclass(frozen=True)
class TreeNodes:
    """All nodes of all trees, tree after tree; each tree begins with its root.

    Children are numbered within their tree. Trees are ordered by iteration, then by parallel tree, then by class.
    Arrays of other types than these are converted, but for ``value``.

    Attributes
    ----------
    n_nodes : ndarray of int64, shape (n_trees,)
        Number of nodes of each tree.
    left, right : ndarray of int64, shape (n_nodes,)
        Children, -1 at leaves. A value of at most the threshold goes left. At a categorical split, the categories in
        the split's set go left.
    feature : ndarray of int64, shape (n_nodes,)
        Column that an inner node tests.
    threshold : ndarray of float64, shape (n_nodes,)
        Value that an inner node compares the column with.
    missing : ndarray of uint8, shape (n_nodes,)
        Kind of an inner node's split, see `Missing`.
    missing_goes_left : ndarray of bool, shape (n_categorical,)
        Whether a missing value goes left, for each categorical split in the order of the nodes.
    categories_left : list of ndarray of int64
        Set of categories of each categorical split, in the same order.
    value : ndarray of float32 or float64, shape (n_nodes, n_scores)
        At leaves, what the tree adds to the sum: one score, or one for each class. The precision is the one in which
        the framework adds.
    """

    n_nodes: Int64s
    left: Int64s
    right: Int64s
    feature: NDArray[Any]
    threshold: Floats
    missing: NDArray[Any]
    missing_goes_left: NDArray[Any]
    categories_left: list[Int64s]
    value: NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """A model as arrays: raw score = base + Σ leaf values (their mean, if averaged), prediction = link(raw score).

    Attributes
    ----------
    nodes : TreeNodes
        The trees.
    trees_per_iteration : int
        1, or the number of classes if each tree scores one class.
    classes : ndarray, shape (n_classes,)
        Class labels; empty for regression.
    n_features : int
        Number of columns.
    feature_names : list of str or None
        Names of the columns; None if they have none.
    conventions : Conventions
        How rows are read, and how scores become predictions.
    cover : ndarray of float64, shape (n_nodes,)
        Number, or summed hessian, of the training rows that reached each leaf, as the model stores it; 0 if it does
        not store it.
    parallel_trees : int
        Number of trees, or of sets of ``trees_per_iteration`` trees, that one iteration adds. More than one only in
        models that XGBoost boosted with ``num_parallel_tree``, where an iteration is a round.
    """

    nodes: TreeNodes
    trees_per_iteration: int
    classes: NDArray[Any]
    n_features: int
    feature_names: list[str] | None
    conventions: Conventions
    cover: Floats
    parallel_trees: int = 1

    @property
    def n_trees(self) -> int:
        """Number of iterations."""
        return self.nodes.n_nodes.size // (self.trees_per_iteration * self.parallel_trees)

    @property
    def n_scores(self) -> int:
        """Number of scores: 1, or one for each class."""
        return int(self.tree_scores.shape[1]) if self.tree_scores.ndim > 1 else self.trees_per_iteration

    @property
    def link(self) -> Link:
        """Turns raw scores into predictions."""
        return Link(self.conventions.link, self.conventions.slope)

    @property
    def columns(self) -> Columns:
        """The columns of training."""
        return Columns(self.feature_names, self.n_features, self.conventions)

    @cached_property
    def tree_start(self) -> Int64s:
        """Root of each tree, shape (n_trees, parallel_trees * trees_per_iteration)."""
        start = np.cumsum(self.nodes.n_nodes) - self.nodes.n_nodes
        return start.reshape(self.n_trees, -1)

    @property
    def tree_of_node(self) -> Int64s:
        """Number of each node's tree, in the order of `nodes`, shape (n_nodes,)."""
        return np.repeat(np.arange(self.nodes.n_nodes.size), self.nodes.n_nodes)

    @property
    def output_of_node(self) -> Int64s:
        """The score that each node's tree adds to, 0 if trees add to all scores, shape (n_nodes,)."""
        return self.tree_of_node % self.trees_per_iteration

    @cached_property
    def has_cover(self) -> Bools:
        """Whether a node is a leaf of a tree with splits, whose cover can prove bags, shape (n_nodes,)."""
        return (self.nodes.left == -1) & np.repeat(self.nodes.n_nodes > 1, self.nodes.n_nodes)

    @cached_property
    def tree_scores(self) -> NDArray[np.floating[Any]]:
        """Raw score of an ensemble of each node's tree alone, shape (n_nodes,) or (n_nodes, n_classes).

        Where two classes have two scores, as in scikit-learn's trees, it is that of class 1.
        """
        value, conventions = self.nodes.value, self.conventions
        of_sum = value * value.dtype.type(_factor(self, self.n_trees))
        if conventions.base:
            base = np.array(conventions.base, dtype=value.dtype)
            of_sum = of_sum + (base if value.shape[1] > 1 else base[self.output_of_node][:, None])
        if of_sum.shape[1] > 1 and len(self.classes) > 2:
            return of_sum
        return np.ascontiguousarray(of_sum[:, -1])

    def votes(self, threshold: float) -> NDArray[Any]:
        """Class index that the tree of each leaf votes for, shape (n_nodes,); empty if no single tree votes."""
        if not len(self.classes) or self.trees_per_iteration > 1:
            return np.zeros(0, dtype=np.int64)
        if self.tree_scores.ndim > 1:
            return self.tree_scores.argmax(axis=1)
        if self.nodes.value.shape[1] > 1 and threshold == 0.5:  # so that rounded ties are decided as by each tree
            return self.nodes.value.argmax(axis=1)
        return np.asarray(self.link.predicted(np.asarray(self.tree_scores))) > threshold

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the scores of the leaves in the order of the trees; it identifies the model."""
        is_leaf = (self.nodes.left == -1).reshape(-1, *[1] * (self.tree_scores.ndim - 1))
        scores = np.where(is_leaf, self.tree_scores, 0)
        digest = hashlib.sha256(str(scores.shape).encode())
        for array in (self.tree_start, scores):
            digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def raw_score(self, sums: NDArray[Any], n_trees: int) -> NDArray[Any]:
        """The raw score of the first ``n_trees`` iterations from the sums of their leaf values, shape (…, n_scores)."""
        base = np.array(self.conventions.base or 0.0, dtype=self.nodes.value.dtype)
        return np.asarray(base + sums / self.conventions.divisor_of(n_trees))


def partial_scores(
    trees: TreeEnsemble, leaf: NDArray[Any], value: NDArray[np.floating[Any]] | None = None
) -> NDArray[np.floating[Any]]:
    """Raw scores of the first 1, …, n iterations, shape (n_rows, n, n_scores), of trees that are added up.

    They are added in the order and the precision of the framework. ``leaf`` is as `Model.apply` returns it, of the
    first n iterations. ``value`` replaces `TreeNodes.value`.
    """
    value = trees.nodes.value if value is None else value
    value = value if trees.tree_scores.ndim > 1 else value[:, -1:]
    added = value[leaf].reshape(len(leaf), leaf.shape[1] * trees.parallel_trees, trees.n_scores)
    added[:, 0] += np.array(trees.conventions.base or 0.0, dtype=value.dtype)
    sums = np.cumsum(added, axis=1)[:, trees.parallel_trees - 1 :: trees.parallel_trees]
    if trees.conventions.divisor == 1.0:
        return sums
    # What AdaBoost's trees add at most, over all classes: a tree may give one of two to all rows.
    weights = np.maximum.reduceat(trees.nodes.value.max(axis=1), trees.tree_start[:, 0])
    return sums / np.cumsum(weights)[: leaf.shape[1], None]


def repeats_one_tree(trees: TreeEnsemble) -> bool:
    """Whether all iterations hold the same trees, as if training sampled nothing; False for a single one."""
    nodes, n_trees = trees.nodes, trees.n_trees
    if n_trees == 1 or (nodes.left == -1).all() or np.ptp(nodes.n_nodes.reshape(n_trees, -1), axis=0).any():
        return False
    arrays = (nodes.left, nodes.right, nodes.feature, nodes.threshold, nodes.value, trees.cover)
    by_iteration = (array.reshape(n_trees, -1) for array in arrays)
    return all((iterations == iterations[0]).all() for iterations in by_iteration)


def values_of_scores(trees: TreeEnsemble, scores: Floats, n_trees: int) -> NDArray[np.floating[Any]]:
    """What leaves with other scores of single trees add to the sum, in a model of ``n_trees`` such trees.

    ``scores`` are of the shape of `TreeEnsemble.tree_scores`, and the result is of that of `TreeNodes.value`.
    """
    value = trees.nodes.value
    return ((scores - _tree_base(trees)) / _factor(trees, n_trees)).astype(value.dtype).reshape(value.shape)


def scores_of_values(trees: TreeEnsemble, values: NDArray[np.floating[Any]], n_trees: int) -> NDArray[np.floating[Any]]:
    """Scores of single trees whose leaves add these values, see `values_of_scores`."""
    scores = values.reshape(trees.tree_scores.shape) * values.dtype.type(_factor(trees, n_trees))
    return np.asarray(_tree_base(trees) + scores)


def _factor(trees: TreeEnsemble, n_trees: int) -> float:
    """What makes a leaf value the score of its tree alone, in a model of ``n_trees`` such iterations."""
    conventions = trees.conventions
    return 1.0 if conventions.averages else n_trees * (trees.parallel_trees / conventions.divisor)


def _tree_base(trees: TreeEnsemble) -> NDArray[np.floating[Any]]:
    """Score before any tree, for each entry of `TreeEnsemble.tree_scores`."""
    base = np.zeros(trees.n_scores, dtype=trees.nodes.value.dtype)
    base[:] = trees.conventions.base or 0.0
    return base if trees.tree_scores.ndim > 1 else base[trees.output_of_node]


@dataclass(frozen=True)
class LeafIds:
    """The leaves that a block of rows reaches.

    Attributes
    ----------
    leaf : ndarray of int64, shape (n_rows, n_trees, trees_per_iteration)
        Node that each row reaches in each tree, an index into ``table``.
    table : ndarray of float, shape (n_nodes,) or (n_nodes, n_scores)
        Score of each node: `TreeEnsemble.tree_scores`, or the scores of members that are no trees.
    """

    leaf: Int64s
    table: NDArray[np.floating[Any]]

    @classmethod
    def of_scores(cls, scores: Floats) -> LeafIds:
        """The scores of members that are no trees, shape (n_rows, n_trees, n_scores), as if each were a leaf."""
        n_rows, n_trees, n_scores = scores.shape
        table = scores.reshape(-1, n_scores)
        leaf = np.arange(n_rows * n_trees).reshape(n_rows, n_trees, 1)
        return cls(leaf, table if n_scores > 1 else table[:, 0])

    @property
    def scores(self) -> NDArray[np.floating[Any]]:
        """Raw scores of single trees, shape (n_rows, n_trees, n_scores)."""
        return self.table[self.leaf[:, :, 0]] if self.table.ndim > 1 else self.table[self.leaf]

    @cached_property
    def in_double(self) -> Floats:
        """``table`` in double precision, for compiled loops, shape (n_nodes, n_scores of a tree)."""
        return np.ascontiguousarray(self.table, dtype=np.float64).reshape(len(self.table), -1)

    def take(self, rows: Any) -> LeafIds:
        """The leaves of some of the rows."""
        return LeafIds(self.leaf[rows], self.table)
