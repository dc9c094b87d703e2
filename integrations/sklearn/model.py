"""Scikit-learn's forests and bagging, whose trees are independent draws, as arrays; and threshold classifiers."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.validation import check_array, check_is_fitted

from rfsize._util import Bools, Floats, Int64s, sample_weights
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.sklearn.bags import BAGGING, SklearnBags, n_training_rows, part_of, why_no_bags
from rfsize.models.bags import Bags, Layout
from rfsize.models.columns import Columns
from rfsize.models.conventions import Conventions, Reading
from rfsize.models.ensemble import Missing, TreeEnsemble, TreeNodes
from rfsize.models.estimators import allows_nan
from rfsize.models.framework import read_model
from rfsize.models.link import Link
from rfsize.models.model import Forest, Model, Wrapper, wrapped_by
from rfsize.models.rows import stream_of

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor, *BAGGING)
# Where models of scikit-learn keep the model inside them, which alone is a tree ensemble.
_INSIDE = {
    GridSearchCV: "best_estimator_",
    RandomizedSearchCV: "best_estimator_",
    CalibratedClassifierCV: "calibrated_classifiers_[0].estimator",
    TransformedTargetRegressor: "regressor_",
}
THRESHOLD_CLASSIFIERS = (FixedThresholdClassifier, TunedThresholdClassifierCV)
PRUNED = "rfsize_shrunk_"
"""Name of the attribute that marks a pruned ensemble."""

SINGLE_PRECISION = Reading(single_precision=True, refuses_infinite=True, refuses_missing=True)

# Most draws (rows × trees) that are worth making to see whether fresh rows are training rows.
_MOST_DRAWN = 50_000_000

_SEVERAL_OUTPUTS = "the model predicts several columns of y: train one model for each, as sklearn.multioutput does"

# How far two probabilities that add up to 1 may be from that sum, once they are rounded.
_ROUNDED = 2.0 * float(np.finfo(np.float64).eps)


def read_forest(model: Any) -> SklearnForest:
    """A fitted forest or bagging ensemble.

    Raises
    ------
    NotAForestError
        If it predicts several outputs or a single class.
    """
    check_is_fitted(model)
    check_outputs(model)
    return SklearnForest(model) if all(map(is_tree, model.estimators_)) else SklearnBagging(model)


def check_outputs(model: Any) -> None:
    """Raise `NotAForestError` if a model predicts several labels or numbers at once, or a single class."""
    classes, members = getattr(model, "classes_", [0, 1]), getattr(model, "estimators_", [None])
    if np.ndim(classes[0]) > 0 or getattr(members[0], "n_outputs_", 1) > 1:
        raise NotAForestError(_SEVERAL_OUTPUTS)
    if len(classes) == 1:
        raise NotAForestError(f"the model knows one class only, {classes[0]}: train it on two or more")


def why_unread(model: Any) -> str:
    """Why rfsize reads no trees from an object of scikit-learn, and what to give."""
    name = type(model).__name__
    usual = "best_estimator_" if hasattr(model, "best_estimator_") else None  # of another library's search
    inside = next((attribute for kind, attribute in _INSIDE.items() if isinstance(model, kind)), usual)
    if inside is not None:
        return f"a {name} holds a model, once it is fitted: give model.{inside}"
    if any(base.__module__.startswith("rfsize.") for base in type(model).__mro__):
        return f"the {name} is not fitted: fit it first, which grows its forest"
    return f"rfsize does not read a {name}: train a random forest, bagging or gradient boosting of trees"


class SklearnModel(Model):
    """A model of scikit-learn, whose trees can be chosen and given other leaves."""

    framework = "scikit-learn"

    def first(self, n_trees: int) -> Any:
        return self.part(np.arange(n_trees))

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        model = self.part(trees)
        if leaf_values is not None:
            start = self._arrays.tree_start
            values = np.split(leaf_values[:, 0], start.ravel()[1:])
            numbers = np.arange(len(values)).reshape(start.shape)[trees]
            self.set_leaves(model, [[values[number] for number in iteration] for iteration in numbers])
        setattr(model, PRUNED, True)
        return model

    def part(self, trees: Int64s) -> Any:
        """A copy of the model with some of its iterations."""
        return part_of(self.booster, trees)

    def set_leaves(self, model: Any, values: list[list[Floats]]) -> None:
        """Replace what the nodes of each tree add, iteration by iteration, in a copy of the model."""
        model.estimators_ = copy.deepcopy(model.estimators_)
        for estimator, added in zip(np.ravel(model.estimators_), chain.from_iterable(values), strict=True):
            estimator.tree_.value[:, 0, 0] = added / getattr(model, "learning_rate", 1.0)


class SklearnForest(SklearnModel, Forest):
    """A random forest, extremely randomised trees, or bagging over decision trees.

    Parameters
    ----------
    model : RandomForestClassifier, ExtraTreesRegressor, BaggingClassifier, …
        Fitted to one label or number per row.
    """

    sampled_by = "bootstrap=True, or max_features below the number of columns"

    def __init__(self, model: Any) -> None:
        self.booster, self.is_pruned = model, hasattr(model, PRUNED)
        self.ensemble = self._read()
        # Class shares lie between 0 and 1. Refitted shares clipped to this range lean to the middle: log loss rises.
        self.refits = not len(classes_of(model))

    def _read(self) -> TreeEnsemble | None:
        model, n_classes = self.booster, len(classes_of(self.booster))
        reading = SINGLE_PRECISION._replace(refuses_missing=not allows_nan(model.estimators_[0]))
        # Both of two classes are kept: scikit-learn compares their rounded sums.
        value = np.concatenate([_class_shares(estimator, n_classes) for estimator in model.estimators_])
        return ensemble_of(model, model.estimators_, value, Conventions("scikit-learn", reading, "identity"))

    def apply(self, X: Any) -> NDArray[np.int64]:
        if isinstance(self.booster, BAGGING):
            leaf = leaves_of_members(self.booster, X)
        else:
            leaf = np.asarray(unnamed(self.booster).apply(X))
        return leaf[:, :, None] + self._arrays.tree_start

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> SklearnBags:
        if seed is not None or subsample is not None:
            raise ValueError("a scikit-learn ensemble keeps its own seeds: leave out seed and subsample")
        why = why_no_bags(self.booster)
        if why is not None:
            raise InbagError(why)
        n_rows = n_training_rows(self.booster)
        if layout.n_rows != n_rows:
            raise InbagError(f"X has {layout.n_rows} rows, training had {n_rows}: give all training rows, in order")
        return SklearnBags(self, sample_weights(sample_weight, layout.n_rows))

    def leading_bags(self, n_rows: int) -> Bags | None:
        n_rows = n_training_rows(self.booster) or 0
        if why_no_bags(self.booster) is not None or n_rows * self.n_trees > _MOST_DRAWN:
            return None
        return SklearnBags(self, np.ones(n_rows))


class SklearnBagging(SklearnForest):
    """Bagging over any learner that is no decision tree.

    A member's scores are its class probabilities. A classifier without probabilities scores 1 for the class that it
    predicts and 0 for the others. The averaged scores are then vote fractions, as in scikit-learn's own
    ``predict_proba``. At a threshold other than 0.5, these vote fractions decide the labels.
    """

    n_trees: int = 0
    n_features: int = 0
    feature_names: list[str] | None = None
    classes: NDArray[Any] = np.zeros(0)
    n_scores: int = 1
    link = Link("identity")

    def _read(self) -> None:
        model, self.classes, self.feature_names = self.booster, classes_of(self.booster), names_of(self.booster)
        self.n_trees, self.n_features = len(model.estimators_), int(model.n_features_in_)
        self.n_scores = len(self.classes) if len(self.classes) > 2 else 1
        has_votes_only = self.classes.size > 0 and not hasattr(model.estimators_[0], "predict_proba")
        self.voting = "hard" if has_votes_only else "soft"

    @property
    def columns(self) -> Columns:
        # The members may read anything.
        return Columns(self.feature_names, self.n_features, None)

    def voting_at(self, threshold: float) -> str:
        return self.voting if threshold == 0.5 else "soft"

    def apply(self, X: Any) -> NDArray[np.int64]:
        member = type(self.booster.estimators_[0]).__name__
        raise NotAForestError(f"the members are no decision trees but {member}s: cut the ensemble with rfsize.truncate")

    def tree_scores(self, X: Any, inbag: Bools | None = None) -> Floats:
        X = check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
        wanted = np.ones((X.shape[0], self.n_trees), dtype=np.bool_) if inbag is None else ~inbag[:, :, 0]
        by_member = Parallel(n_jobs=self.booster.n_jobs)(
            delayed(_member_scores)(member, _some_columns(X[rows], columns), len(self.classes))
            for member, columns, rows in zip(
                self.booster.estimators_, used_columns(self.booster), wanted.T, strict=True
            )
            if rows.any()
        )
        scores = np.zeros((*wanted.shape, self.n_scores))
        for member, of_member in zip(np.flatnonzero(wanted.any(axis=0)), by_member, strict=True):
            scores[wanted[:, member], member] = of_member
        return scores


def _member_scores(member: Any, X: Any, n_classes: int) -> Floats:
    """A member's scores, shape (rows, n_scores); a function, so that workers receive only the member."""
    if not n_classes:
        numbers = np.asarray(member.predict(X), dtype=np.float64).reshape(X.shape[0], -1)
        if numbers.shape[1] > 1:
            raise NotAForestError(_SEVERAL_OUTPUTS)
        return numbers
    shares = np.zeros((X.shape[0], n_classes))
    if hasattr(member, "predict_proba"):
        # The member's bag may lack classes. Like scikit-learn, ignore columns beyond the classes in the bag.
        known = np.asarray(member.classes_, dtype=np.intp)
        shares[:, known] = member.predict_proba(X)[:, : len(known)]
    else:
        shares[np.arange(len(shares)), _class_indices(member.predict(X), n_classes)] = 1.0
    return shares if n_classes > 2 else shares[:, 1:]


def _class_indices(predicted: NDArray[Any], n_classes: int) -> Int64s:
    index = np.asarray(predicted).astype(np.int64)
    if index.min() < 0 or index.max() >= n_classes or np.any(index != predicted):
        raise ValueError(f"members predict {np.unique(predicted)[:9]}, not only indices of {n_classes} classes")
    return index


# Trees


def ensemble_of(
    model: Any, estimators: Any, value: Floats, conventions: Conventions, trees_per_iteration: int = 1
) -> TreeEnsemble:
    """The decision trees of a model as arrays; ``value`` has a row for each node of ``estimators``."""
    trees = [estimator.tree_ for estimator in estimators]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    columns = getattr(model, "estimators_features_", [np.arange(model.n_features_in_)] * len(trees))
    # Leaves have a feature of -2.
    features = [np.asarray(used)[np.maximum(tree.feature, 0)] for tree, used in zip(trees, columns, strict=True)]
    nodes = TreeNodes(
        n_nodes=np.array([tree.node_count for tree in trees]),
        left=joined("children_left"),
        right=joined("children_right"),
        feature=np.concatenate(features),
        threshold=joined("threshold"),
        missing=np.where(joined("missing_go_to_left"), Missing.NAN_LEFT, Missing.NAN_RIGHT),
        missing_goes_left=np.zeros(0),
        categories_left=[],
        value=value,
    )
    cover, n_features = joined("n_node_samples").astype(np.float64), int(model.n_features_in_)
    return TreeEnsemble(nodes, trees_per_iteration, classes_of(model), n_features, names_of(model), conventions, cover)


def classes_of(model: Any) -> NDArray[Any]:
    """Class labels of a model; empty for a regression."""
    return np.asarray(getattr(model, "classes_", ()))


def leaves_of_members(model: Any, X: Any) -> Int64s:
    """The leaf that each row reaches in each member of an ensemble, by the member, shape (n_rows, n_members)."""
    leaves = Parallel(n_jobs=getattr(model, "n_jobs", None), prefer="threads")(
        delayed(member.apply)(_some_columns(X, columns))
        for member, columns in zip(model.estimators_, used_columns(model), strict=True)
    )
    return np.stack(leaves, axis=1)


def _class_shares(estimator: Any, n_classes: int) -> Floats:
    """Probabilities of all classes at each node, 0 for classes that the bag lacks; or a regression tree's means."""
    value = estimator.tree_.value[:, 0]
    if not n_classes or value.shape[1] == n_classes:
        return np.asarray(value)
    shares = np.zeros((len(value), n_classes))
    shares[:, np.asarray(estimator.classes_, dtype=np.intp)] = value
    return shares


def is_tree(member: Any) -> bool:
    """Whether a member predicts what its leaves store: a decision tree, not a subclass that predicts otherwise."""
    kind = DecisionTreeRegressor if is_regressor(member) else DecisionTreeClassifier
    return isinstance(member, kind) and all(
        getattr(type(member), name) is getattr(kind, name)
        for name in ("apply", "predict", "predict_proba")
        if hasattr(kind, name)
    )


# Rows


def names_of(model: Any) -> list[str] | None:
    """Names of the columns of training; None if they had none."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def used_columns(model: Any) -> list[Any]:
    """The columns that each member was given; None for all."""
    return list(getattr(model, "estimators_features_", [None] * len(model.estimators_)))


def unnamed(model: Any) -> Any:
    """The model without names of columns, which batches of rows do not have: scikit-learn would warn."""
    model = copy.copy(model)
    vars(model).pop("feature_names_in_", None)
    return model


def _some_columns(X: Any, columns: Any) -> Any:
    return X if columns is None or np.array_equal(columns, np.arange(X.shape[1])) else X[:, columns]


# A pipeline or a threshold classifier around the model


def at_the_end_of(pipeline: Pipeline) -> Model:
    """The model that is the last step of a pipeline, whose other steps transform the rows.

    Raises
    ------
    NotAForestError
        If the last step is none that rfsize reads.
    """
    (name, last), before = pipeline.steps[-1], pipeline.steps[:-1]
    if not hasattr(last, "predict"):
        raise NotAForestError(f"the Pipeline ends with {last!r}, and rfsize reads one that ends with a tree ensemble")
    inside = read_model(last)

    def around(native: Any) -> Any:
        cut = copy.copy(pipeline)
        cut.steps = [*copy.deepcopy(before), (name, inside.wrapped(native))]  # another fit must not change the others
        return cut

    def transform(X: Any) -> Any:
        if stream_of(X) is not None:
            raise ValueError("X comes in pieces, and a Pipeline transforms rows in memory: give one table")
        try:
            X = pipeline[:-1].transform(X) if before else X
        except Exception as error:  # a step may be anyone's
            raise ValueError(f"the steps of the Pipeline cannot transform X ({error!r:.200}): give its rows") from error
        return X if inside.transform is None else inside.transform(X)

    wrapper = Wrapper(type(pipeline).__name__, around, inside.checked_threshold(None), transform)
    return wrapped_by(inside, wrapper, inside.classes)


def inside_threshold_classifier(model: Any) -> Model:
    """The model inside a FixedThresholdClassifier or TunedThresholdClassifierCV, which sets its decision threshold.

    Raises
    ------
    NotAForestError
        If the threshold is not a probability of one of two classes.
    """
    check_is_fitted(model)
    fitted = model.estimator_
    is_frozen = isinstance(fitted, FrozenEstimator)
    inside = read_model(fitted.estimator if is_frozen else fitted)

    def around(native: Any) -> Any:
        native = inside.wrapped(native)
        wrapper = copy.copy(model)
        wrapper.estimator_ = FrozenEstimator(native) if is_frozen else native
        # The constructor's estimator is saved too, and may hold the whole forest.
        frozen_before = isinstance(model.estimator, FrozenEstimator)
        wrapper.estimator = wrapper.estimator_ if frozen_before else clone(model.estimator)
        return wrapper

    wrapper = Wrapper(type(model).__name__, around, _threshold(model, inside.classes), inside.transform)
    return wrapped_by(inside, wrapper, inside.classes)


def _threshold(model: Any, classes: NDArray[Any]) -> float:
    """Probability of the second class above which a threshold classifier predicts that class."""
    name = type(model).__name__
    if model.response_method == "decision_function":
        raise NotAForestError(f"the {name} decides by a decision_function: set response_method='predict_proba'")
    is_tuned = isinstance(model, TunedThresholdClassifierCV)
    positive = model._curve_scorer._get_pos_label() if is_tuned else model.pos_label
    given = model.best_threshold_ if is_tuned else model.threshold
    threshold = 0.5 if isinstance(given, str) else float(given)
    if not 0.0 < threshold < 1.0:
        raise NotAForestError(f"threshold {threshold:g} of the {name} leaves one class: set one between 0 and 1")
    # scikit-learn predicts the positive class also if its probability equals the threshold.
    if positive is None or positive == classes[1]:
        return float(np.nextafter(threshold, 0.0))
    return 1.0 - threshold + _ROUNDED
