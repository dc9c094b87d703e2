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

from rfsize._util import Floats, Int64s
from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.model import (
    PRUNED,
    SINGLE_PRECISION,
    SklearnModel,
    check_outputs,
    classes_of,
    ensemble_of,
    is_tree,
    leaves_of_members,
    names_of,
    unnamed,
)
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.ensemble import Missing, TreeEnsemble, TreeNodes
from rfsize.models.framework import reading
from rfsize.models.model import Model, boosted
from rfsize.models.rows import Rows

GRADIENT = (GradientBoostingClassifier, GradientBoostingRegressor)
BOOSTED = (AdaBoostClassifier, *GRADIENT, HistGradientBoostingClassifier, HistGradientBoostingRegressor)

# Link and slope of each loss. Of several classes, log_loss has a softmax.
_LINKS = {"log_loss": ("logistic", 1.0), "exponential": ("logistic", 2.0)}
_LINKS |= dict.fromkeys(("gamma", "poisson"), ("exp", 1.0))
_LINKS |= dict.fromkeys(("squared_error", "absolute_error", "huber", "quantile"), ("identity", 1.0))

# GradientBoostingClassifier predicts class 1 from a score of 0 on.
_JUST_BELOW_ZERO = float(np.nextafter(0.0, -1.0))


def read_boosted(model: Any) -> Model:
    """A fitted AdaBoostClassifier, GradientBoosting or HistGradientBoosting model.

    Raises
    ------
    NotAForestError
        If its trees are not an additive ensemble with a link that rfsize knows.
    """
    check_is_fitted(model)
    check_outputs(model)
    with reading("scikit-learn 1.6 to 1.9"):  # parts of gradient boosting have no public names
        if isinstance(model, AdaBoostClassifier):
            return AdaBoost(model, _adaboost_ensemble(model))
        if isinstance(model, GRADIENT):
            return GradientBoosting(model, _gradient_ensemble(model))
        return HistGradientBoosting(model, _histogram_ensemble(model))


def why_no_forest(model: Any) -> str:
    """Why a boosted model has no T*, and what works."""
    return boosted(f"this is a {type(model).__name__}", "train a RandomForest and size that")


class AdaBoost(SklearnModel):
    """A boosted model; here an AdaBoostClassifier (SAMME) of decision trees, which vote with weights."""

    ensemble: TreeEnsemble
    refits = False  # its leaves vote

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        self.booster, self.ensemble, self.is_pruned = model, ensemble, hasattr(model, PRUNED)
        self.why_no_forest = why_no_forest(model)

    def apply(self, X: Any) -> NDArray[np.int64]:
        return leaves_of_members(self.booster, X)[:, :, None] + self.ensemble.tree_start


class GradientBoosting(AdaBoost):
    """A GradientBoostingClassifier or GradientBoostingRegressor."""

    refits = True

    def apply(self, X: Any) -> NDArray[np.int64]:
        leaf = np.asarray(unnamed(self.booster).apply(X), dtype=np.int64)
        return leaf.reshape(-1, *self.ensemble.tree_start.shape) + self.ensemble.tree_start

    def part(self, trees: Int64s) -> Any:
        model = copy.copy(self.booster)
        for name in {"estimators_", "train_score_", "oob_improvement_", "oob_scores_"} & vars(model).keys():
            setattr(model, name, getattr(model, name)[trees])
        if hasattr(model, "oob_score_"):
            model.oob_score_ = model.oob_scores_[-1]
        model.n_estimators = model.n_estimators_ = len(trees)
        return model


class HistGradientBoosting(AdaBoost):
    """A HistGradientBoostingClassifier or HistGradientBoostingRegressor."""

    refits = True

    def open(self, X: Any) -> Rows:
        rows = super().open(X)
        if issparse(rows.source):
            raise ValueError(f"X is sparse, which {type(self.booster).__name__} does not take: give X.toarray()")
        return rows

    def apply(self, X: Any) -> NDArray[np.int64]:
        model, rows = self.booster, X[:, _own_order(self.booster)].astype(np.float64)
        of_columns = model._bin_mapper.make_known_categories_bitsets()
        leaf = [
            [_numbered(tree).predict(rows, *of_columns, n_threads=1) for tree in iteration]
            for iteration in model._predictors
        ]
        return np.moveaxis(np.array(leaf).astype(np.int64), 2, 0) + self.ensemble.tree_start

    def part(self, trees: Int64s) -> Any:
        model = copy.copy(self.booster)
        model._predictors = [model._predictors[tree] for tree in trees]
        for name in ("train_score_", "validation_score_"):  # the first is that before any tree
            setattr(model, name, getattr(model, name)[: len(trees) + 1])
        model.max_iter = len(trees)
        return model

    def set_leaves(self, model: Any, values: list[list[Floats]]) -> None:
        pairs = (zip(*of_iteration, strict=True) for of_iteration in zip(model._predictors, values, strict=True))
        model._predictors = [[_with_values(tree, added) for tree, added in iteration] for iteration in pairs]


def _numbered(tree: Any) -> Any:
    """A tree of a HistGradientBoosting model that predicts the number of the leaf."""
    return _with_values(tree, np.arange(len(tree.nodes)))


def _with_values(tree: Any, values: NDArray[Any]) -> Any:
    """A tree of a HistGradientBoosting model with other values of the nodes."""
    changed = copy.copy(tree)
    changed.nodes = tree.nodes.copy()
    changed.nodes["value"] = values
    return changed


# Reading


def _conventions(link: str, slope: float, reading: Reading = SINGLE_PRECISION, **others: Any) -> Conventions:
    return Conventions("scikit-learn", reading, link, slope, averages=False, labels_of_scores=True, **others)


def _adaboost_ensemble(model: Any) -> TreeEnsemble:
    """A tree adds its weight to the class that it votes for, and takes weight / (K − 1) from each other class.

    The sums, in the order of the trees and divided by the sum of the weights, are the model's decision function.
    """
    members, name = model.estimators_, type(model).__name__
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise NotAForestError(f"in a {name} of algorithm='SAMME.R' trees cast no votes: train with algorithm='SAMME'")
    if not all(map(is_tree, members)):
        raise NotAForestError(f"the {name} is of {type(members[0]).__name__}s, no decision trees: train it on trees")
    classes, weights, total = model.classes_, model.estimator_weights_, float(np.sum(model.estimator_weights_))
    if not 0.0 < total < np.inf:
        raise NotAForestError(f"the weights of this {name} add up to {total:g}: train members with some weight")

    def added(member: Any, weight: float) -> Floats:
        voted = np.searchsorted(classes, member.classes_)[member.tree_.value[:, 0].argmax(axis=1)]
        return np.where(voted[:, None] == np.arange(len(classes)), weight, -1 / (len(classes) - 1) * weight)

    value = np.concatenate([added(member, weight) for member, weight in zip(members, weights, strict=False)])
    # The score of two classes is half of the decision function, which is the difference of two scores.
    link, slope = ("logistic", 2.0) if len(classes) == 2 else ("softmax", 1.0 / (len(classes) - 1))
    return ensemble_of(model, members, value, _conventions(link, slope, divisor=total))


def _gradient_ensemble(model: Any) -> TreeEnsemble:
    if model.init is not None and model.init != "zero":
        raise NotAForestError(f"rfsize does not read the init {type(model.init).__name__}: train with init=None")
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0].tolist()
    link, slope = _link_of(model)
    conventions = _conventions(link, slope, base=tuple(base), cut=_JUST_BELOW_ZERO if link == "logistic" else 0.0)
    members = model.estimators_.ravel()
    value = model.learning_rate * np.concatenate([member.tree_.value[:, 0] for member in members])
    return ensemble_of(model, members, value, conventions, trees_per_iteration=len(base))


def _histogram_ensemble(model: Any) -> TreeEnsemble:
    predictors = [predictor for iteration in model._predictors for predictor in iteration]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    is_leaf, goes_left = nodes["is_leaf"] == 1, nodes["missing_go_to_left"] == 1
    is_category = (nodes["is_categorical"] == 1) & ~is_leaf
    coded = _coded_columns(model)
    kind = np.where(goes_left, Missing.NAN_LEFT, Missing.NAN_RIGHT)
    table = TreeNodes(
        n_nodes=np.array([len(predictor.nodes) for predictor in predictors]),
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),  # from unsigned numbers
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        feature=_own_order(model)[nodes["feature_idx"]],
        threshold=nodes["num_threshold"],
        missing=np.where(is_category, Missing.CATEGORY, kind),
        missing_goes_left=goes_left[is_category],
        categories_left=[codes for predictor in predictors for codes in _categories_left(predictor)],
        value=nodes["value"].astype(np.float64)[:, None],
    )
    conventions = _conventions(
        *_link_of(model),
        reading=Reading(single_precision=False, reads_by_column=True, integers_in_double=True),
        base=tuple(np.ravel(model._baseline_prediction).tolist()),
        unknown_category_is_missing=True,
        codes_numbers=bool(coded.size),
        categories=_categories_of(model) if coded.size else (),
        category_features=tuple(coded.tolist()),
    )
    cover, columns = nodes["count"].astype(np.float64), (int(model.n_features_in_), names_of(model))
    return TreeEnsemble(table, len(model._predictors[0]), classes_of(model), *columns, conventions, cover)


def _coded_columns(model: Any) -> Int64s:
    """The categorical columns, whose values the model replaces by codes."""
    return np.flatnonzero(model._preprocessor is not None and model.is_categorical_)


def _own_order(model: Any) -> Int64s:
    """The columns in the model's own order: categorical ones come first."""
    coded = _coded_columns(model)
    return np.append(coded, np.delete(np.arange(model.n_features_in_), coded))


def _categories_of(model: Any) -> tuple[tuple[Any, ...], ...]:
    """The categories of each categorical column in the order of their codes; a missing one has no code."""
    of_columns = model._preprocessor.named_transformers_["encoder"].categories_
    return tuple(
        tuple(value for value in values.tolist() if value is not None and value == value) for values in of_columns
    )


def _categories_left(predictor: Any) -> list[Int64s]:
    """Codes of the categories that go left at each categorical split of a tree."""
    nodes = predictor.nodes
    index = nodes["bitset_idx"][(nodes["is_categorical"] == 1) & (nodes["is_leaf"] == 0)]
    bits = np.ascontiguousarray(predictor.raw_left_cat_bitsets[index], dtype="<u4").view(np.uint8)
    return [np.flatnonzero(row) for row in np.unpackbits(bits, axis=1, bitorder="little")]


def _link_of(model: Any) -> tuple[str, float]:
    """Name and slope of the link of a model's loss; `NotAForestError` for losses of other authors."""
    if not isinstance(model.loss, str) or model.loss not in _LINKS:
        raise NotAForestError(f"rfsize does not know the link of loss={model.loss!r}: train with {', '.join(_LINKS)}")
    return ("softmax", 1.0) if len(classes_of(model)) > 2 else _LINKS[model.loss]
