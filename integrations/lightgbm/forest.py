"""LightGBM random forests: their votes, their bags, and truncation."""

from __future__ import annotations

import copy
import re
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.lightgbm.bags import LightGbmBags, leading_bags, rebuilt_bags, seed_dependence, shared_bags
from rfsize.integrations.lightgbm.leaf_labels import leaf_labels
from rfsize.integrations.lightgbm.merging import loaded, trees_of, with_trees
from rfsize.integrations.lightgbm.model_text import SHRUNK_NOTE, ForestText, are_soft, conventions, tree_table
from rfsize.integrations.lightgbm.parameters import TREE_COUNT_NAMES
from rfsize.models.bags import Bags, Layout
from rfsize.models.columns import Categorical
from rfsize.models.damage import refuse
from rfsize.models.ensemble import Conventions, TreeNodes
from rfsize.models.identical import refuse_identical
from rfsize.models.leaves import Leaves
from rfsize.models.model import Forest
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.utils.validation import class_indices, one_per_row, sample_weights

_SAMPLED = "bagging_freq=1, bagging_fraction=0.632, and a feature_fraction that leaves some columns out"


class LightGbmForest(Forest):
    """A `lightgbm.Booster` in rf mode, by itself or inside a fitted estimator."""

    framework = "LightGBM"
    spaces_become_underscores = True

    def __init__(self, model: Any, *, casts_votes: bool = True) -> None:
        self._model = model
        self.booster = booster_of(model)
        if self.booster.num_trees() == 0:
            raise NotAForestError("the LightGBM model has no trees: train it first")
        self._forest = ForestText.read(self.booster.model_to_string(), casts_votes=casts_votes)
        self.link = self._forest.link
        n_outputs = self._forest.n_outputs
        self.n_trees = len(self._forest.leaf_value) // n_outputs
        if not self._forest.is_bagged:
            refuse_identical(self._forest.members(), _are_alike, _SAMPLED)
        self.n_features = self.booster.num_feature()
        names = self.booster.feature_name()
        self.feature_names = None if names == [f"Column_{index}" for index in range(len(names))] else names
        n_classes = self._forest.n_classes
        self.classes = np.asarray(getattr(model, "classes_", np.arange(n_classes)))
        if len(self.classes) != n_classes:
            raise NotAForestError(self._other_classes(n_classes))
        self.is_pruned = SHRUNK_NOTE in self._forest.parameters
        self.leaves = self._leaf_table()
        self.shared_bags = shared_bags(self._forest)
        self.seed_dependence = seed_dependence(self._forest)

    def _other_classes(self, n_classes: int) -> str:
        if n_classes:
            return f"the model knows only the class {self.classes.tolist()}; there is nothing to vote on"
        return (
            f"the {type(self._model).__name__} was trained with objective='{self._forest.header['objective']}', which "
            "predicts numbers and no probabilities of classes: train it with objective='binary' or 'multiclass', or "
            "give model.booster_, which predicts the numbers"
        )

    @property
    def output(self) -> str:
        is_classifier = hasattr(self._model, "classes_")
        return super().output if is_classifier or not self.classes.size else "probabilities"

    def _leaf_table(self) -> Leaves:
        forest = self._forest
        sizes = np.array([value.size for value in forest.leaf_value])
        raw = np.concatenate(forest.leaf_value)
        return Leaves(
            offset=(np.cumsum(sizes) - sizes).reshape(self.n_trees, forest.n_outputs),
            score=np.asarray(self.link.predicted(raw)) if forest.n_outputs == 1 else raw,
            raw=raw,
            mass=np.concatenate(forest.leaf_count),
            provable=np.repeat(sizes > 1, sizes),
        )

    @property
    def n_bytes(self) -> int:
        return len(self.booster.model_to_string().encode())

    def check(self, X: Any) -> Any:
        if hasattr(X, "num_row"):
            raise ValueError(
                "X is an XGBoost DMatrix, which LightGBM does not take; give the rows as an array or DataFrame"
            )
        return super().check(X)

    def leaf_index(self, X: Any) -> NDArray[Any]:
        leaf = np.asarray(self.booster.predict(X, pred_leaf=True, num_iteration=self.n_trees))
        if leaf.size == 0 or leaf.size % (self.n_trees * self._forest.n_outputs):
            refuse(f"LightGBM does not say which leaves of its {self.n_trees} trees the rows reach")
        return leaf.reshape(-1, self.n_trees, self._forest.n_outputs).astype(np.int64, copy=False)

    def tree_table(self, threshold: float) -> TreeNodes:
        return tree_table(self._forest, self.leaves.raw, self.leaf_votes(threshold))

    @property
    def conventions(self) -> Conventions:
        return conventions(self._forest)

    @property
    def categorical(self) -> Categorical:
        return self.conventions.categorical

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> LightGbmBags:
        n_rows = layout.n_rows
        if seed is not None or subsample is not None:
            raise InbagError(
                "a LightGBM model stores its own bagging_seed and bagging_fraction: leave out seed and subsample"
            )
        balanced = any(float(self._forest.parameters.get(f"{sign}_bagging_fraction", 1)) < 1 for sign in ("pos", "neg"))
        bags = rebuilt_bags(self._forest, layout, self._positive(y, n_rows) if balanced and y is not None else None)
        if y is not None:
            bags.labels = leaf_labels(self._forest, self.classes, y, sample_weight, n_rows)
        return bags

    def leading_bags(self, n_rows: int) -> Bags | None:
        return leading_bags(self._forest, n_rows)

    def _positive(self, y: Any, n_rows: int) -> Bools:
        """Which training labels LightGBM took as positive."""
        if hasattr(self._model, "classes_") or not np.array_equal(self.classes, (0, 1)):
            return class_indices(self.classes, y, n_rows) > 0
        labels = one_per_row(y, n_rows)
        try:
            label = labels.astype(np.float64)
        except ValueError:
            raise ValueError("y must hold the numbers that the Booster was trained on, found text") from None
        return label > 0

    def truth(self, y: Any) -> Any:
        """The labels of a Booster: the class indices, or the sign for a binary objective, as in training."""
        if hasattr(self._model, "classes_") or not self.classes.size:
            return y
        labels = np.asarray(y).ravel()
        if labels.dtype.kind not in "biuf" or not np.isfinite(labels).all():
            return y
        truth = self._forest.truth(labels)
        if are_soft(self._forest, truth):
            raise ValueError(
                "y holds soft labels, between 0 and 1, and metrics compare predictions with classes: leave y out, and "
                "size labels by alpha, or metric='probabilities' with a tolerance"
            )
        return truth

    def first(self, n_trees: int) -> Any:
        return self.with_booster(loaded(self.booster.model_to_string(num_iteration=n_trees)))

    def select(self, members: Int64s, raw: Floats | None) -> Any:
        text = self.booster.model_to_string()
        stored, trees = trees_of(text), np.arange(self.leaves.offset.size).reshape(self.leaves.offset.shape)[members]
        if "\nparameters:\n" not in text:
            raise NotAForestError(
                "the LightGBM model's text has no parameters, so rfsize cannot see whether the forest was shrunk: "
                "give the model as lightgbm.train or Booster.save_model made it"
            )
        kept = [
            stored[tree] if raw is None else self._rescored(stored[tree], tree, raw) for tree in trees.ravel().tolist()
        ]
        return self.with_booster(loaded(with_trees(text, kept, SHRUNK_NOTE)))

    def _rescored(self, text: str, tree: int, raw: Floats) -> str:
        """The text of a tree with other leaf values."""
        first = int(self.leaves.offset.ravel()[tree])
        values = raw[first : first + self._forest.leaf_value[tree].size]
        return re.sub(r"(?m)^leaf_value=.*$", f"leaf_value={' '.join(map(repr, values.tolist()))}", text, count=1)

    def with_booster(self, booster: lgb.Booster) -> Any:
        """A new model of the caller's type that holds ``booster``, which has other trees and is otherwise like this."""
        if self._model is self.booster:
            return booster
        model = copy.copy(self._model)
        model._other_params = dict(model._other_params)  # copied, because set_params changes it
        n_trees = booster.current_iteration()
        given = TREE_COUNT_NAMES & model.get_params().keys()
        model.set_params(**dict.fromkeys(given, n_trees))
        model._Booster = booster
        model._best_iteration = n_trees
        return model

    def training_data(self, X: Any, label: NDArray[Any], sample_weight: Any) -> lgb.Dataset:
        """The training rows of a classifier with ``label`` (class indices), in the form that `lightgbm.train` takes."""
        weight = None if sample_weight is None else sample_weights(sample_weight, len(label))
        if self._model.class_weight is not None:
            of_class = compute_sample_weight(self._model.class_weight, self.classes[label])
            weight = of_class if weight is None else weight * of_class
        return lgb.Dataset(X, label, weight=weight, free_raw_data=False)


def _are_alike(trees: list[str], others: list[str]) -> bool:
    """Whether the trees of two members have the same splits, the same leaves, and the same numbers of rows in them."""
    return trees == others and not all(tree.startswith("num_leaves=1\n") for tree in trees)


def booster_of(model: Any) -> lgb.Booster:
    """The booster of a model; `NotAForestError` if it has none."""
    if isinstance(model, lgb.CVBooster):
        raise NotAForestError(
            "a CVBooster holds several forests: size or score each of cvbooster.boosters on the rows that it was "
            "trained on, or give all of them to rfsize.compile"
        )
    if isinstance(model, lgb.Booster):
        return model
    if isinstance(model, lgb.LGBMModel):
        return model.booster_
    raise NotAForestError(f"a {type(model).__name__} is no model; give a lightgbm.Booster or a fitted LGBMClassifier")
