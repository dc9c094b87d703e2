"""Scikit-learn's forests and bagging ensembles: their votes, their bags, their trees, and truncation."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from rfsize.integrations.sklearn.ensemble import (
    BAGGING,
    SHRUNK,
    SklearnBags,
    SklearnEnsemble,
    as_array,
    part_of,
    some_columns,
)
from rfsize.integrations.sklearn.leaf_labels import leaf_labels
from rfsize.models.bags import Layout
from rfsize.models.columns import Categorical
from rfsize.models.ensemble import Conventions, Missing, Reading, TreeNodes
from rfsize.models.identical import refuse_identical
from rfsize.models.leaves import Leaves
from rfsize.utils.tags import allows_nan
from rfsize.utils.typing import Floats, Int64s

_SAMPLED = "bootstrap=True, or max_features below the number of columns"
_OF_NODES = ("children_left", "feature", "threshold", "value", "weighted_n_node_samples")


class SklearnForest(SklearnEnsemble):
    """Trees: a random forest, extremely randomised trees, or bagging over decision trees."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._trees = [tree.tree_ for tree in model.estimators_]
        sizes = np.array([tree.node_count for tree in self._trees])
        self._node_values = np.concatenate([self._of_classes(tree) for tree in model.estimators_])
        score = self._node_values if len(self.classes) > 2 else np.ascontiguousarray(self._node_values[:, -1])
        is_leaf = np.concatenate([tree.children_left for tree in self._trees]) == -1
        self.leaves = Leaves(
            offset=(np.cumsum(sizes) - sizes)[:, None],
            score=score,
            raw=score,
            mass=np.concatenate([tree.n_node_samples for tree in self._trees]).astype(np.float64),
            provable=is_leaf & np.repeat(sizes > 1, sizes),
        )

    @classmethod
    def sampled(cls, model: Any) -> SklearnForest:
        """The forest of a fitted ensemble; `NotAForestError` if nothing was sampled and all trees are the same."""
        forest = cls(model)
        if forest.no_bags is not None:
            refuse_identical(zip(forest._trees, forest._features, strict=True), _are_alike, _SAMPLED)
        return forest

    def _of_classes(self, tree: Any) -> Floats:
        """Probabilities of all classes at each node, 0 for classes missing in the bag; or a regression tree's means."""
        value = tree.tree_.value[:, 0]
        if value.shape[1] == len(self.classes) or not self.classes.size:
            return np.asarray(value)
        of_all = np.zeros((len(value), len(self.classes)))
        of_all[:, np.asarray(tree.classes_, dtype=np.intp)] = value
        return of_all

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> SklearnBags:
        bags = super().bags(layout, y, sample_weight, seed, subsample)
        if y is not None:
            weight = self._joined("weighted_n_node_samples").astype(np.float64)
            bags.labels = leaf_labels(self.booster, self.leaves, self._node_values, weight, bags, y, sample_weight)
        return bags

    def leaf_index(self, X: Any) -> NDArray[Any]:
        if not isinstance(self.booster, BAGGING):
            return np.asarray(self._asked_for(X).apply(X))[:, :, None]
        X = as_array(X)
        index = Parallel(n_jobs=self.booster.n_jobs, prefer="threads")(
            delayed(tree.apply)(some_columns(X, features))
            for tree, features in zip(self.booster.estimators_, self._features, strict=True)
        )
        return np.stack(index, axis=1)[:, :, None]

    def _asked_for(self, X: Any) -> Any:
        """The forest, without feature names if the rows have none: scikit-learn would warn at each block of rows."""
        if hasattr(X, "columns") or self.feature_names is None:
            return self.booster
        unnamed = copy.copy(self.booster)
        del unnamed.feature_names_in_
        return unnamed

    def leaf_votes(self, threshold: float) -> NDArray[Any]:
        # Each tree's own argmax, so that rounded ties are decided as scikit-learn decides them.
        return self._node_values.argmax(axis=1) if threshold == 0.5 else super().leaf_votes(threshold)

    def tree_table(self, threshold: float) -> TreeNodes:
        left = self._joined("children_left")
        goes_left = self._joined("missing_go_to_left").astype(np.bool_)
        return TreeNodes(
            n_nodes=np.array([tree.node_count for tree in self._trees]),
            left=left,
            right=self._joined("children_right"),
            feature=np.concatenate(
                [
                    # Leaves have a feature of -2.
                    tree.feature if features is None else np.asarray(features)[np.maximum(tree.feature, 0)]
                    for tree, features in zip(self._trees, self._features, strict=True)
                ]
            ).astype(np.int64),
            threshold=self._joined("threshold"),
            missing=np.where(goes_left, Missing.NAN_LEFT, Missing.NAN_RIGHT).astype(np.uint8),
            missing_is_member=np.zeros(0, dtype=np.bool_),
            members=[],
            # At 0.5, keep both of two classes: scikit-learn compares their rounded sums. Else class 1 is enough.
            value=self._node_values if threshold == 0.5 else self._node_values[:, 1:],
            vote=self.leaf_votes(threshold).astype(np.uint16),
        )

    def select(self, members: Int64s, raw: NDArray[Any] | None) -> Any:
        model = part_of(self.booster, members)
        if raw is not None:
            model.estimators_ = [self._rescored(int(member), raw) for member in members]
        setattr(model, SHRUNK, True)
        return model

    @property
    def refits(self) -> bool:
        # Class shares lie between 0 and 1. Refitted shares clipped to this range lean to the middle: log loss rises.
        return not self.classes.size

    def _rescored(self, member: int, raw: Floats) -> Any:
        """A copy of a regression tree with the values of ``raw`` at its leaves."""
        tree = copy.deepcopy(self.booster.estimators_[member])
        first, is_leaf = int(self.leaves.offset[member, 0]), tree.tree_.children_left == -1
        tree.tree_.value[is_leaf, 0, 0] = raw[first : first + tree.tree_.node_count][is_leaf]
        return tree

    @property
    def categorical(self) -> Categorical:
        return Categorical()

    def _joined(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in self._trees])

    @property
    def conventions(self) -> Conventions:
        return Conventions(
            framework=self.framework,
            reading=Reading(single_precision=True, missing=np.nan, zero_within=-1.0, lowest_category=-1.0),
            link=self.link.kind,
            refuses_infinite=True,
            refuses_missing=not allows_nan(self.booster.estimators_[0]),
        )


def _are_alike(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether two trees, and the columns that they use, are the same."""
    (tree, features), (another, of_another) = one, other
    same = all(np.array_equal(getattr(tree, name), getattr(another, name)) for name in _OF_NODES)
    return same and tree.node_count > 1 and np.array_equal(features, of_another)


def is_tree(member: Any) -> bool:
    """Whether a member predicts what its leaves store: a decision tree, not a subclass that predicts otherwise."""
    kind = DecisionTreeRegressor if is_regressor(member) else DecisionTreeClassifier
    return isinstance(member, kind) and all(
        getattr(type(member), name) is getattr(kind, name)
        for name in ("apply", "predict", "predict_proba")
        if hasattr(kind, name)
    )
