"""Scikit-learn's boosted trees as additive ensembles: AdaBoost, GradientBoosting and HistGradientBoosting."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils.validation import check_is_fitted

from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.model import (
    PRUNED,
    READING,
    check_classes,
    is_tree,
    leaves_of_members,
    names_of,
    nodes_of,
    part_of,
    without_unneeded_names,
)
from rfsize.models.ensemble import Conventions, Missing, Reading, TreeEnsemble, TreeNodes
from rfsize.models.model import Model
from rfsize.models.rows import Rows
from rfsize.utils.typing import Floats, Int64s

GRADIENT = (GradientBoostingClassifier, GradientBoostingRegressor)
HISTOGRAM = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
BOOSTED = (AdaBoostClassifier, *GRADIENT, *HISTOGRAM)

# Link and slope of each loss. Of several classes, log_loss has a softmax.
_LINKS = {"log_loss": ("logistic", 1.0), "exponential": ("logistic", 2.0), "gamma": ("exp", 1.0)}
_LINKS |= {"poisson": ("exp", 1.0)}
_LINKS |= dict.fromkeys(("squared_error", "absolute_error", "huber", "quantile"), ("identity", 1.0))

# GradientBoostingClassifier predicts class 1 from a score of 0 on.
_JUST_BELOW_ZERO = float(np.nextafter(0.0, -1.0))

# Parts of a HistGradientBoosting model, and of the nodes of its trees, that have no public name.
_PRIVATE = ("_predictors", "_baseline_prediction", "_preprocessor", "_preprocess_X")
_OF_NODES = {"value", "count", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "is_leaf"}
_OF_NODES |= {"is_categorical", "bitset_idx"}


def read_boosted(model: Any) -> Model:
    """A fitted AdaBoostClassifier, GradientBoosting or HistGradientBoosting model.

    Raises
    ------
    NotAForestError
        If its trees are not an additive ensemble with a link that rfsize knows.
    """
    check_is_fitted(model)
    check_classes(getattr(model, "classes_", None))
    if isinstance(model, AdaBoostClassifier):
        return AdaBoost(model, _of_adaboost(model))
    if isinstance(model, GRADIENT):
        return GradientBoosting(model, _of_gradient_boosting(model))
    return HistGradientBoosting(model, _of_histogram_boosting(model))


def why_no_forest(name: str) -> str:
    """Why a boosted model has no T*, and what works."""
    return (
        f"each tree of a {name} corrects those before it, so the trees are not independent draws and there is no T*: "
        "predict faster with rfsize.compile(model), or train a RandomForest and size that"
    )


class AdaBoost(Model):
    """A boosted model of scikit-learn, whose members are decision trees that vote with weights (SAMME)."""

    framework = "scikit-learn"
    ensemble: TreeEnsemble
    refits = False

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        self.booster, self.ensemble = model, ensemble
        self.is_pruned = hasattr(model, PRUNED)
        self.why_no_forest = why_no_forest(type(model).__name__)

    def apply(self, X: Any) -> NDArray[np.int64]:
        return leaves_of_members(self.booster, X)[:, :, None] + self.ensemble.tree_start

    def first(self, n_trees: int) -> Any:
        return part_of(self.booster, slice(n_trees))

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        if leaf_values is not None:
            raise NotAForestError("trees of AdaBoost add their weights, so leaves take no other scores: select trees")
        model = part_of(self.booster, trees)
        setattr(model, PRUNED, True)
        return model


class GradientBoosting(AdaBoost):
    """A GradientBoostingClassifier or GradientBoostingRegressor."""

    refits = True

    def apply(self, X: Any) -> NDArray[np.int64]:
        leaf = np.asarray(without_unneeded_names(self.booster, X).apply(X), dtype=np.int64)
        return leaf.reshape(-1, *self.ensemble.tree_start.shape) + self.ensemble.tree_start

    def first(self, n_trees: int) -> Any:
        model = copy.copy(self.booster)
        for name in {"estimators_", "train_score_", "oob_improvement_", "oob_scores_"} & vars(model).keys():
            setattr(model, name, getattr(model, name)[:n_trees])
        if hasattr(model, "oob_score_"):
            model.oob_score_ = model.oob_scores_[-1]
        model.n_estimators = model.n_estimators_ = n_trees
        return model

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        model = self.first(len(trees))
        model.estimators_ = self.booster.estimators_[trees]
        if leaf_values is not None:
            model.learning_rate, model.estimators_ = 1.0, copy.deepcopy(model.estimators_)
            values = self.ensemble.leaf_values(leaf_values, len(trees))
            for tree, start in zip(model.estimators_.flat, self.ensemble.tree_start[trees].flat, strict=True):
                is_leaf = tree.tree_.children_left == -1
                tree.tree_.value[is_leaf, 0, 0] = values[start : start + len(is_leaf)][is_leaf]
        setattr(model, PRUNED, True)
        return model


class HistGradientBoosting(AdaBoost):
    """A HistGradientBoostingClassifier or HistGradientBoostingRegressor."""

    refits = True

    def open(self, X: Any) -> Rows:
        if issparse(X):
            raise ValueError(f"X is sparse, which {type(self.booster).__name__} does not take: give X.toarray()")
        return super().open(X)

    def apply(self, X: Any) -> NDArray[np.int64]:
        rows = X[:, _own_order(self.booster)]
        leaf = [[_leaves_of(predictor, rows) for predictor in iteration] for iteration in self.booster._predictors]
        return np.moveaxis(np.array(leaf, dtype=np.int64), 2, 0) + self.ensemble.tree_start

    def first(self, n_trees: int) -> Any:
        model = copy.copy(self.booster)
        model._predictors = model._predictors[:n_trees]
        for name in {"train_score_", "validation_score_"} & vars(model).keys():
            setattr(model, name, getattr(model, name)[: n_trees + 1])  # the first is that before any tree
        model.max_iter = n_trees
        return model

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        model = self.first(len(trees))
        model._predictors = [self.booster._predictors[tree] for tree in trees]
        if leaf_values is not None:
            model._predictors = copy.deepcopy(model._predictors)
            values = self.ensemble.leaf_values(leaf_values, len(trees))
            predictors = (predictor for iteration in model._predictors for predictor in iteration)
            for predictor, start in zip(predictors, self.ensemble.tree_start[trees].flat, strict=True):
                nodes = predictor.nodes
                nodes["value"] = np.where(nodes["is_leaf"], values[start : start + len(nodes)].ravel(), nodes["value"])
        setattr(model, PRUNED, True)
        return model


def _leaves_of(predictor: Any, rows: Floats) -> Int64s:
    """The leaf that each row reaches, by the model's own nodes; categories of ``rows`` are coded as in training."""
    nodes, at = predictor.nodes, np.zeros(len(rows), dtype=np.int64)
    while True:
        moving = np.flatnonzero(nodes["is_leaf"][at] == 0)
        if not moving.size:
            return at
        node = nodes[at[moving]]
        value = rows[moving, node["feature_idx"]]
        goes_left = value <= node["num_threshold"]
        is_category = node["is_categorical"] == 1
        code = np.where(np.isnan(value), 0, value)[is_category].astype(np.uint8)
        words = predictor.raw_left_cat_bitsets[node["bitset_idx"][is_category], code // 32]
        goes_left[is_category] = words >> code % 32 & 1
        goes_left = np.where(np.isnan(value), node["missing_go_to_left"] == 1, goes_left)
        at[moving] = np.where(goes_left, node["left"], node["right"])


# Reading


def _of_adaboost(model: Any) -> TreeEnsemble:
    """A tree adds its weight to the class that it votes for, and takes weight / (K − 1) from each other class.

    The sums, in the order of the trees and divided by the sum of the weights, are the model's decision function.
    """
    members, name = model.estimators_, type(model).__name__
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise NotAForestError(
            f"a {name} of algorithm='SAMME.R' adds logarithms of probabilities, which rfsize does not read: train with "
            "algorithm='SAMME'"
        )
    if not all(map(is_tree, members)):
        raise NotAForestError(
            f"the members of this {name} are no decision trees but {type(members[0]).__name__}s: give their votes to "
            "rfsize.StopTable.lossless(model.estimator_weights_, n_classes=…).apply"
        )
    classes, weights, total = model.classes_, model.estimator_weights_, float(np.sum(model.estimator_weights_))
    if not 0.0 < total < np.inf:
        raise NotAForestError(f"the weights of this {name} add up to {total:g}: train members with some weight")

    def added(member: Any, weight: float) -> Floats:
        voted = np.searchsorted(classes, member.classes_)[member.tree_.value[:, 0].argmax(axis=1)]
        return np.where(voted[:, None] == np.arange(len(classes)), weight, -1 / (len(classes) - 1) * weight)

    value = np.concatenate([added(member, weight) for member, weight in zip(members, weights, strict=False)])
    conventions = Conventions(
        framework="scikit-learn",
        reading=READING,
        link="logistic" if len(classes) == 2 else "softmax",
        # The score of two classes is half of the decision function, which is the difference of two scores.
        slope=2.0 if len(classes) == 2 else 1.0 / (len(classes) - 1),
        averages=False,
        divisor=total,
        refuses_infinite=True,
        refuses_missing=True,
        labels_of_scores=True,
    )
    trees = [member.tree_ for member in members]
    return _ensemble_of(model, nodes_of(trees, value), conventions, [tree.n_node_samples for tree in trees])


def _of_gradient_boosting(model: Any) -> TreeEnsemble:
    name, n_features = type(model).__name__, int(model.n_features_in_)
    if model.init is not None and model.init != "zero":
        raise NotAForestError(
            f"this {name} begins with a {type(model.init).__name__} (init), whose predictions rfsize does not read: "
            "train with init=None or init='zero'"
        )
    if not hasattr(model, "_raw_predict_init"):
        raise NotAForestError(_unknown_version(name, "_raw_predict_init"))
    base = model._raw_predict_init(np.zeros((1, n_features), dtype=np.float32))[0]
    link, slope = _link_of(model)
    conventions = Conventions(
        framework="scikit-learn",
        reading=READING,
        link=link,
        slope=slope,
        base=tuple(base.tolist()),
        averages=False,
        refuses_infinite=True,
        refuses_missing=True,
        labels_of_scores=True,
        cut=_JUST_BELOW_ZERO if link == "logistic" else 0.0,
    )
    trees = [estimator.tree_ for estimator in model.estimators_.flat]
    value = model.learning_rate * np.concatenate([tree.value[:, 0] for tree in trees])
    return _ensemble_of(model, nodes_of(trees, value), conventions, [tree.n_node_samples for tree in trees], len(base))


def _of_histogram_boosting(model: Any) -> TreeEnsemble:
    name = type(model).__name__
    for private in _PRIVATE:
        if not hasattr(model, private):
            raise NotAForestError(_unknown_version(name, private))
    predictors = [predictor for iteration in model._predictors for predictor in iteration]
    missing = _OF_NODES - set(predictors[0].nodes.dtype.names)
    if missing:
        raise NotAForestError(_unknown_version(name, f"nodes[{sorted(missing)[0]!r}]"))
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    is_leaf, is_category = nodes["is_leaf"] == 1, nodes["is_categorical"] == 1
    is_category &= ~is_leaf
    coded = _coded_columns(model)
    goes_left = nodes["missing_go_to_left"] == 1
    kind = np.where(goes_left, Missing.NAN_LEFT, Missing.NAN_RIGHT)
    table = TreeNodes(
        n_nodes=np.array([len(predictor.nodes) for predictor in predictors]),
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        feature=_own_order(model)[nodes["feature_idx"]],
        threshold=nodes["num_threshold"].astype(np.float64),
        missing=np.where(is_category, Missing.CATEGORY, kind).astype(np.uint8),
        missing_goes_left=goes_left[is_category],
        categories_left=_categories_left(predictors),
        value=nodes["value"].astype(np.float64)[:, None],
    )
    link, slope = _link_of(model)
    conventions = Conventions(
        framework="scikit-learn",
        reading=Reading(single_precision=False, missing=np.nan, zero_within=-1.0, lowest_category=-1.0),
        link=link,
        slope=slope,
        base=tuple(np.ravel(model._baseline_prediction).astype(np.float64).tolist()),
        averages=False,
        reads_by_column=True,
        unknown_category_is_missing=True,
        labels_of_scores=True,
        codes_numbers=True,
        integers_in_double=True,
        categories=_categories_of(model) if coded.size else (),
        category_features=tuple(coded.tolist()),
    )
    return _ensemble_of(model, table, conventions, [nodes["count"]], len(model._predictors[0]))


def _coded_columns(model: Any) -> Int64s:
    """The categorical columns whose values the model replaces by codes."""
    return np.flatnonzero(model.is_categorical_) if model._preprocessor is not None else np.zeros(0, dtype=np.int64)


def _own_order(model: Any) -> Int64s:
    """The columns in the model's own order: categorical ones come first."""
    coded = _coded_columns(model)
    return np.append(coded, np.delete(np.arange(model.n_features_in_), coded)).astype(np.int64)


def _categories_of(model: Any) -> tuple[tuple[Any, ...], ...]:
    """The categories of each categorical column in the order of their codes; a missing one has no code."""
    of_columns = model._preprocessor.named_transformers_["encoder"].categories_
    return tuple(
        tuple(category for category in categories.tolist() if category is not None and category == category)
        for categories in of_columns
    )


def _categories_left(predictors: list[Any]) -> list[Int64s]:
    """Codes of the categories that go left at each categorical split."""
    sets = []
    for predictor in predictors:
        nodes = predictor.nodes
        index = nodes["bitset_idx"][(nodes["is_categorical"] == 1) & (nodes["is_leaf"] == 0)]
        bits = np.ascontiguousarray(predictor.raw_left_cat_bitsets[index], dtype="<u4").view(np.uint8)
        sets += [np.flatnonzero(row) for row in np.unpackbits(bits, axis=1, bitorder="little")]
    return sets


def _link_of(model: Any) -> tuple[str, float]:
    """Name and slope of the link of a model's loss; `NotAForestError` for losses of other authors."""
    if not isinstance(model.loss, str) or model.loss not in _LINKS:
        raise NotAForestError(
            f"rfsize does not know the link of loss={model.loss!r}: train with one of {', '.join(sorted(_LINKS))}"
        )
    return ("softmax", 1.0) if len(getattr(model, "classes_", ())) > 2 else _LINKS[model.loss]


def _unknown_version(name: str, part: str) -> str:
    return f"this {name} has no {part}, as the versions 1.6 to 1.9 of scikit-learn have: train with one of these"


def _ensemble_of(
    model: Any, nodes: TreeNodes, conventions: Conventions, cover: list[NDArray[Any]], per_iteration: int = 1
) -> TreeEnsemble:
    return TreeEnsemble(
        nodes=nodes,
        trees_per_iteration=per_iteration,
        classes=np.asarray(getattr(model, "classes_", ())),
        n_features=int(model.n_features_in_),
        feature_names=names_of(model),
        conventions=conventions,
        cover=np.concatenate(cover).astype(np.float64),
    )
