"""Teaches rfsize the forests of baggedtrees."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from baggedtrees import BaggedTrees
from numpy.typing import NDArray

from rfsize.exceptions import NotAForestError
from rfsize.models.bags import Bags, Layout
from rfsize.models.ensemble import Conventions, Missing, Reading, TreeNodes
from rfsize.models.framework import Framework
from rfsize.models.leaves import Leaves
from rfsize.models.link import Link
from rfsize.models.model import Forest


class BaggedTreesBags(Bags):
    """The bags, drawn again from the seed; a leaf's row count proves them."""

    advice = "Give the training rows, all of them, in the order of training."

    def __init__(self, model: BaggedTrees, n_rows: int) -> None:
        self.n_rows = n_rows
        bags = [model.bag(number, n_rows) for number in range(len(model.trees_))]
        self._drawn = np.stack(bags, axis=1)

    def take(self, start: int, stop: int) -> NDArray[np.bool_]:
        return self._drawn[start:stop, :, None]

    def row_mass(self, start: int, stop: int) -> NDArray[np.float64]:
        return np.ones((stop - start, 1, 1))

    def contradicted(self, leaves: Leaves, rebuilt: Any) -> NDArray[np.bool_]:
        return np.asarray(rebuilt != leaves.mass)


class BaggedTreesForest(Forest):
    """A fitted `BaggedTrees`."""

    framework = "baggedtrees"
    feature_names = None
    link = Link("identity")  # it predicts the mean of its trees' shares as they are

    def __init__(self, model: BaggedTrees) -> None:
        self.booster = model
        self.n_trees, self.n_features = len(model.trees_), model.n_features_in_
        self.classes = model.classes_
        # Inner nodes stand in the table too, so that a leaf's number is its place.
        self._n_nodes = np.array([len(tree.left) for tree in model.trees_])
        share = np.concatenate([tree.share for tree in model.trees_])
        score = share if len(self.classes) > 2 else share[:, 1]
        self._left = np.concatenate([tree.left for tree in model.trees_])
        self.leaves = Leaves(
            offset=(np.cumsum(self._n_nodes) - self._n_nodes)[:, None],
            score=score,
            raw=score,
            mass=np.concatenate([tree.n_rows for tree in model.trees_]).astype(np.float64),
            provable=self._left == -1,
        )

    def leaf_index(self, X: Any) -> NDArray[np.int64]:
        return self.booster.apply(np.asarray(X))[:, :, None]

    def first(self, n_trees: int) -> BaggedTrees:
        model = copy.copy(self.booster)
        model.trees_, model.n_trees = model.trees_[:n_trees], n_trees
        return model

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> BaggedTreesBags:
        return BaggedTreesBags(self.booster, layout.n_rows)

    def tree_table(self, threshold: float) -> TreeNodes:
        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(tree, name) for tree in self.booster.trees_])

        return TreeNodes(
            n_nodes=self._n_nodes,
            left=self._left,
            right=joined("right"),
            feature=joined("feature"),
            threshold=joined("threshold"),
            missing=np.full(self._left.size, Missing.NAN_RIGHT, dtype=np.uint8),
            missing_is_member=np.zeros(0, dtype=np.bool_),
            members=[],
            value=self.leaves.raw.reshape(self._left.size, -1).astype(np.float64),
            vote=self.leaf_votes(threshold).astype(np.uint16),
        )

    @property
    def conventions(self) -> Conventions:
        # Values are compared as they are; only NaN is missing, and only 0 is zero.
        reading = Reading(single_precision=False, missing=np.nan, zero_within=-1.0, lowest_category=-1.0)
        return Conventions(framework=self.framework, reading=reading, link=self.link.kind)


class BaggedTreesIntegration(Framework):
    """What the entry point names."""

    framework = "baggedtrees"

    def adapt(self, model: Any, *, casts_votes: bool = True) -> BaggedTreesForest:
        if not isinstance(model, BaggedTrees) or not hasattr(model, "trees_"):
            raise NotAForestError(f"found a {type(model).__name__}; give a BaggedTrees after fit")
        return BaggedTreesForest(model)


integration = BaggedTreesIntegration()
