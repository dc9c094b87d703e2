"""Teaches rfsize the forests of baggedtrees."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from baggedtrees import BaggedTrees

from rfsize.exceptions import NotAForestError
from rfsize.models.bags import Bags
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.ensemble import Missing, TreeEnsemble, TreeNodes
from rfsize.models.framework import Framework
from rfsize.models.model import Forest

# Values are compared as they are; only NaN is missing, and only 0 is zero. A forest predicts the mean of its leaves.
CONVENTIONS = Conventions("baggedtrees", Reading(single_precision=False), "identity")


class BaggedTreesForest(Forest):
    """A fitted `BaggedTrees`."""

    framework = "baggedtrees"

    def __init__(self, model: BaggedTrees) -> None:
        self.booster = model
        left, right, feature, threshold, share, n_rows = (
            np.concatenate([getattr(tree, name) for tree in model.trees_])
            for name in ("left", "right", "feature", "threshold", "share", "n_rows")
        )
        missing = np.full(left.size, Missing.NAN_RIGHT)
        n_nodes = np.array([len(tree.left) for tree in model.trees_])
        nodes = TreeNodes(n_nodes, left, right, feature, threshold, missing, np.zeros(0), [], value=share)
        columns = {"n_features": model.n_features_in_, "feature_names": None, "conventions": CONVENTIONS}
        self.ensemble = TreeEnsemble(nodes, 1, model.classes_, **columns, cover=n_rows.astype(np.float64))

    def apply(self, X: Any) -> Any:
        return self.booster.apply(X)[:, :, None] + self.ensemble.tree_start

    def first(self, n_trees: int) -> BaggedTrees:
        model = copy.copy(self.booster)
        model.trees_, model.n_trees = model.trees_[:n_trees], n_trees
        return model

    def bags(self, layout: Any, y: Any, sample_weight: Any, seed: Any, subsample: Any) -> Bags:
        return BaggedTreesBags(self.booster, layout.n_rows)


class BaggedTreesBags(Bags):
    """The bags, drawn again from the seed; the row counts of the leaves prove them."""

    def __init__(self, model: BaggedTrees, n_rows: int) -> None:
        self.n_rows = n_rows
        self._drawn = np.stack([model.bag(number, n_rows) for number in range(len(model.trees_))], axis=1)

    def take(self, start: int, stop: int) -> Any:
        return self._drawn[start:stop, :, None]


class BaggedTreesFramework(Framework):
    """What the entry point names."""

    name = "baggedtrees"

    def read(self, model: Any) -> BaggedTreesForest:
        if not isinstance(model, BaggedTrees) or not hasattr(model, "trees_"):
            raise NotAForestError(f"a {type(model).__name__} is no fitted forest: give a BaggedTrees after fit")
        return BaggedTreesForest(model)


framework = BaggedTreesFramework()
