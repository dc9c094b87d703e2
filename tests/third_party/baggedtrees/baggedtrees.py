"""A framework that rfsize does not know: bagged trees, in plain NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass
class Tree:
    """Nodes as they were made; left is -1 at leaves, values up to the threshold go left."""

    feature: list[int] = dataclasses.field(default_factory=list)
    threshold: list[float] = dataclasses.field(default_factory=list)
    left: list[int] = dataclasses.field(default_factory=list)
    right: list[int] = dataclasses.field(default_factory=list)
    share: list[NDArray[np.float64]] = dataclasses.field(default_factory=list)  # by class
    n_rows: list[int] = dataclasses.field(default_factory=list)


class BaggedTrees:
    """A forest of trees, each grown on rows drawn without replacement."""

    def __init__(self, n_trees: int = 25, fraction: float = 0.6, seed: int = 0) -> None:
        self.n_trees, self.fraction, self.seed = n_trees, fraction, seed

    def fit(self, X: Any, y: Any) -> BaggedTrees:
        self.n_features_in_ = X.shape[1]
        self.classes_, label = np.unique(y, return_inverse=True)
        self.trees_ = []
        for number in range(self.n_trees):
            rows, rng = self.bag(number, len(X)), np.random.default_rng([number, 1])
            self.trees_.append(Tree())
            self._grow(self.trees_[-1], X[rows], label[rows], 4, rng)
        return self

    def bag(self, number: int, n_rows: int) -> NDArray[np.bool_]:
        """The rows that tree ``number`` is grown on."""
        return np.random.default_rng([self.seed, number]).random(n_rows) < self.fraction

    def _grow(self, tree: Tree, X: Any, label: Any, depth: int, rng: Any) -> int:
        node, feature = len(tree.left), int(rng.integers(X.shape[1]))
        threshold = float(np.median(X[:, feature]))
        goes_left = X[:, feature] <= threshold
        counts = np.bincount(label, minlength=len(self.classes_))
        node_of = (feature, threshold, -1, -1, counts / max(len(label), 1), len(label))
        for values, value in zip(vars(tree).values(), node_of, strict=True):
            values.append(value)
        if depth > 0 and 0 < goes_left.sum() < len(label) and counts.max() < len(label):
            sides = [(X[side], label[side]) for side in (goes_left, ~goes_left)]
            tree.left[node] = self._grow(tree, *sides[0], depth - 1, rng)
            tree.right[node] = self._grow(tree, *sides[1], depth - 1, rng)
        return node

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of each tree that each row reaches, shape (n_rows, n_trees)."""
        leaves = np.zeros((len(X), len(self.trees_)), dtype=np.int64)
        for column, tree in zip(leaves.T, self.trees_, strict=True):
            for row, values in enumerate(X):
                while tree.left[node := column[row]] >= 0:
                    goes_left = values[tree.feature[node]] <= tree.threshold[node]
                    column[row] = (tree.left if goes_left else tree.right)[node]
        return leaves

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The mean of the trees' shares."""
        leaf = self.apply(X)
        by_tree = zip(leaf.T, self.trees_, strict=True)
        return np.mean([np.array(tree.share)[nodes] for nodes, tree in by_tree], axis=0)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the largest mean share."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
