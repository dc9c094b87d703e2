"""Scikit-learn's forests and bagging ensembles: their votes, their bags, their trees, and truncation."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    BaseEnsemble,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.validation import check_array, check_is_fitted

from rfsize.adapters.base import Adapter, Bags, Leaves
from rfsize.adapters.trees import Conventions, Missing, Reading, TreeTable
from rfsize.errors import InbagError, NotAForestError
from rfsize.integrations.sklearn_training import SklearnInTraining
from rfsize.utils.matrix import n_rows
from rfsize.utils.tags import allows_nan
from rfsize.utils.validation import class_indices, sample_weights
from rfsize.voting.links import Link

_BAGGING = (BaggingClassifier, BaggingRegressor)
_REGRESSORS = (RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor)

# What an ensemble keeps of each member, and what it measured of all of them at the end of its fit.
_OF_EACH = {"estimators_", "estimators_features_", "_seeds"}
_OF_THE_WHOLE = {"oob_score_", "oob_decision_function_"}


class SklearnBags(Bags):
    """The samples that scikit-learn draws again from the seeds it stored; a byte for each row and member.

    Parameters
    ----------
    ensemble : SklearnEnsemble
        A fitted ensemble that leaves rows out.
    weight : ndarray of float64, shape (n_rows,)
        Sample weights; where the members are trees, which prove it, rows without any are in no bag.
    """

    def __init__(self, ensemble: SklearnEnsemble, weight: NDArray[np.float64]) -> None:
        self.n_rows = len(weight)
        self.need_proof = ensemble.are_trees
        drawn = np.zeros((self.n_rows, ensemble.n_trees, 1), dtype=np.uint8)
        for member in range(ensemble.n_trees):
            # One by one: all at once they take eight bytes a row.
            (samples,) = _part(ensemble.booster, slice(member, member + 1)).estimators_samples_
            drawn[:, member, 0] = np.minimum(np.bincount(samples, minlength=self.n_rows), 255)
        if ensemble.are_trees:
            drawn[weight == 0.0] = 0
        self._drawn = drawn
        # Trees that were given weights count a row once, those that were given the rows as often as it was drawn.
        roots = ensemble.leaves.mass[ensemble.leaves.offset[:, 0]]
        self._counts_once = not np.array_equal(roots, drawn.sum(axis=(0, 2), dtype=np.int64))

    def take(self, start: int, stop: int) -> NDArray[np.bool_]:
        return self._drawn[start:stop] > 0

    def row_mass(self, start: int, stop: int) -> NDArray[np.float64]:
        drawn = self._drawn[start:stop]
        return (drawn > 0 if self._counts_once else drawn).astype(np.float64)

    def contradicted(self, leaves: Leaves, rebuilt: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(leaves.mass != rebuilt)

    @property
    def advice(self) -> str:
        return (
            "Give the training rows themselves, all of them and in the order of training, and sample_weight where the "
            "forest was trained with weights of zero. Before scikit-learn 1.8, trees count rows with missing values "
            "in other leaves than they send them to."
        )


class SklearnEnsemble(Adapter):
    """A fitted ensemble of scikit-learn.

    Parameters
    ----------
    model : RandomForestClassifier, ExtraTreesClassifier or BaggingClassifier
        Fitted to one label per row.

    Attributes
    ----------
    are_trees : bool
        Whether the members are trees, which can be compiled, and whose leaves prove the bags.
    """

    framework = "scikit-learn"
    are_trees: ClassVar[bool]

    link = Link("identity")

    def __init__(self, model: Any) -> None:
        self.booster = model
        self.n_trees = len(model.estimators_)
        self.n_features = int(model.n_features_in_)
        names = getattr(model, "feature_names_in_", None)
        self.feature_names = None if names is None else [str(name) for name in names]
        self.classes = np.asarray(getattr(model, "classes_", ()))
        # Columns that each member takes; None where it takes all.
        self._features: list[Any] = list(getattr(model, "estimators_features_", [None] * self.n_trees))

    def check(self, X: Any) -> Any:
        if hasattr(X, "column_names"):
            raise ValueError("X is an Arrow table, which scikit-learn does not take: give X.to_pandas()")
        X = super().check(X)
        # Without the names that the ensemble was not trained with, scikit-learn does not warn of them.
        return _array(X) if hasattr(X, "iloc") and self.feature_names is None else X

    def bags(self, n_rows: int, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> SklearnBags:
        if seed is not None or subsample is not None:
            raise ValueError("a scikit-learn ensemble keeps its own seeds: leave out seed and subsample")
        if n_rows != self.booster._n_samples:
            raise InbagError(
                f"the ensemble was trained on {self.booster._n_samples} rows, but X has {n_rows}: give all training "
                "rows, in the order of training"
            )
        if self.no_bags is not None:
            raise InbagError(self.no_bags)
        return SklearnBags(self, sample_weights(sample_weight, n_rows))

    @property
    def no_bags(self) -> str | None:
        """Why no row is out of bag, None where some are."""
        model = self.booster
        if isinstance(model, _BAGGING) and len(model._seeds) != self.n_trees:
            return (
                f"scikit-learn kept the samples of {len(model._seeds)} of the {self.n_trees} members only, as it does "
                "when warm_start adds some: fit all of them at once, let rfsize.grow add them, or give validation "
                "rows and leave oob=False"
            )
        if model.bootstrap or (isinstance(model, _BAGGING) and model._max_samples < model._n_samples):
            return None
        return (
            "every member was trained on all rows, so no row is out of bag: train with bootstrap=True, or give "
            "validation rows"
        )

    def part(self, members: slice) -> SklearnEnsemble:
        """The ensemble of some of the members, with lists of its own."""
        return type(self)(_part(self.booster, members))

    def truncated(self, n_trees: int) -> Any:
        return _part(self.booster, slice(n_trees))

    def with_booster(self, booster: Any) -> Any:
        return booster

    def in_training(self, X: Any, y: Any, sample_weight: Any, threshold: float) -> SklearnInTraining:
        return SklearnInTraining(self, X, y, class_indices(self.classes, y, n_rows(X)), sample_weight, threshold)


class SklearnForest(SklearnEnsemble):
    """Trees: a random forest, extremely randomised trees, or bagging over decision trees."""

    are_trees = True

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._trees = [tree.tree_ for tree in model.estimators_]
        sizes = np.array([tree.node_count for tree in self._trees])
        self._probability = np.concatenate([self._of_classes(tree) for tree in model.estimators_])
        score = self._probability if len(self.classes) > 2 else self._probability[:, -1]
        is_leaf = np.concatenate([tree.children_left for tree in self._trees]) == -1
        self.leaves = Leaves(
            offset=(np.cumsum(sizes) - sizes)[:, None],
            score=score,
            raw=score,
            mass=np.concatenate([tree.n_node_samples for tree in self._trees]).astype(np.float64),
            provable=is_leaf & np.repeat(sizes > 1, sizes),
        )

    def _of_classes(self, tree: Any) -> NDArray[np.float64]:
        """Class probabilities at each node, of which a bag may have lacked some; or the mean of a regression tree."""
        value = tree.tree_.value[:, 0]
        if value.shape[1] == len(self.classes) or not self.classes.size:
            return np.asarray(value)
        of_all = np.zeros((len(value), len(self.classes)))
        of_all[:, np.asarray(tree.classes_, dtype=np.intp)] = value
        return of_all

    def leaf_index(self, X: Any) -> NDArray[Any]:
        if not isinstance(self.booster, _BAGGING):
            return np.asarray(self.booster.apply(X))[:, :, None]
        X = _array(X)
        index = Parallel(n_jobs=self.booster.n_jobs, prefer="threads")(
            delayed(tree.apply)(_columns(X, features))
            for tree, features in zip(self.booster.estimators_, self._features, strict=True)
        )
        return np.stack(index, axis=1)[:, :, None]

    def leaf_votes(self, threshold: float) -> NDArray[Any]:
        # Each tree's own argmax, whatever rounding makes of a tie.
        return self._probability.argmax(axis=1) if threshold == 0.5 else super().leaf_votes(threshold)

    def tree_table(self, threshold: float) -> TreeTable:
        left = self._joined("children_left")
        goes_left = self._joined("missing_go_to_left").astype(np.bool_)
        return TreeTable(
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
            value=self.leaves.raw.reshape(left.size, -1).astype(np.float64),
            vote=self.leaf_votes(threshold).astype(np.uint16),
        )

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


class SklearnBagging(SklearnEnsemble):
    """Bagging over any classifiers: a member answers with a class."""

    are_trees = False
    averages_scores = False

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        # Scikit-learn averages the members' probabilities where these have any.
        self.predict_obeys = "soft" if hasattr(model.estimators_[0], "predict_proba") else "hard"
        n_classes = len(self.classes)
        # All members share one leaf for each class.
        self.leaves = Leaves(
            offset=np.zeros((self.n_trees, 1), dtype=np.int64),
            score=np.eye(n_classes),
            raw=np.eye(n_classes),
            mass=np.zeros(n_classes),
            provable=np.zeros(n_classes, dtype=np.bool_),
        )

    def leaf_index(self, X: Any) -> NDArray[Any]:
        X = _array(X)
        answers = Parallel(n_jobs=self.booster.n_jobs)(
            delayed(member.predict)(_columns(X, features))
            for member, features in zip(self.booster.estimators_, self._features, strict=True)
        )
        index, n_classes = np.stack(answers, axis=1).astype(np.int64)[:, :, None], len(self.classes)
        if index.min() < 0 or index.max() >= n_classes:
            raise ValueError(
                f"members of the ensemble answer {index.min()} to {index.max()}, which are not all indices of its "
                f"{n_classes} classes: such an answer is no vote; let the members answer with a class on every row"
            )
        return index

    def tree_table(self, threshold: float) -> TreeTable:
        raise NotAForestError(_no_trees(self.booster))

    @property
    def conventions(self) -> Conventions:
        raise NotAForestError(_no_trees(self.booster))


def adapt(model: Any, *, casts_votes: bool = True) -> Adapter:
    """The adapter of a scikit-learn ensemble; raises `NotAForestError` where there is none that ``casts_votes``."""
    if not casts_votes and isinstance(model, _REGRESSORS):
        return _adapt_regressor(model)
    if not isinstance(model, (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier)):
        raise NotAForestError(_why_not(model))
    check_is_fitted(model)
    if np.ndim(model.classes_[0]) > 0:
        raise NotAForestError("the ensemble predicts several labels at once; train one for each")
    if len(model.classes_) < 2:
        raise NotAForestError(f"the ensemble knows one class only, {model.classes_[0]!r}: there is nothing to vote on")
    return SklearnForest(model) if all(map(is_tree, model.estimators_)) else SklearnBagging(model)


def _adapt_regressor(model: Any) -> Adapter:
    check_is_fitted(model)
    if not all(map(is_tree, model.estimators_)):
        raise NotAForestError(
            f"the members of the {type(model).__name__} are no regression trees; rfsize sizes what trees predict"
        )
    if model.estimators_[0].n_outputs_ > 1:
        raise NotAForestError("the ensemble predicts several numbers at once; train one for each")
    return SklearnForest(model)


def is_tree(member: Any) -> bool:
    """Whether a member answers as its leaves do: a decision tree that no subclass makes answer otherwise."""
    kind = DecisionTreeRegressor if is_regressor(member) else DecisionTreeClassifier
    return isinstance(member, kind) and all(
        getattr(type(member), name) is getattr(kind, name)
        for name in ("apply", "predict", "predict_proba")
        if hasattr(kind, name)
    )


def _part(model: Any, members: slice) -> Any:
    model = copy.copy(model)
    for name in _OF_THE_WHOLE & vars(model).keys():
        delattr(model, name)
    if len(getattr(model, "_seeds", model.estimators_)) != len(model.estimators_):
        model._seeds = model._seeds[:0]  # which members they belong to is not known
    for name in _OF_EACH & vars(model).keys():
        setattr(model, name, getattr(model, name)[members])
    model.n_estimators = len(model.estimators_)
    return model


def _array(X: Any) -> Any:
    """Rows as the members of a bagging ensemble take them."""
    return check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)


def _columns(X: Any, features: Any) -> Any:
    return X if features is None or np.array_equal(features, np.arange(X.shape[1])) else X[:, features]


def _no_trees(model: Any) -> str:
    member = type(model.estimators_[0]).__name__
    return f"the members of the ensemble are no decision trees but {member}s, which cannot be compiled"


def _why_not(model: Any) -> str:
    name = type(model).__name__
    if hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        return (
            f"found a {name}; give the fitted model inside: pipeline[-1] (and the rows that the other steps make), "
            "search.best_estimator_"
        )
    if is_regressor(model):
        sized = ": size it by what it predicts, with criterion='score' and a tolerance"
        return f"found a {name}, whose members cast no votes{sized if isinstance(model, _REGRESSORS) else ''}"
    if isinstance(model, AdaBoostClassifier):
        return (
            f"found an {name}, whose members are no independent draws: each is trained on the errors of those before "
            "and has a weight of its own, so that there is no infinite ensemble for T*(α) to agree with. Stop it where "
            "the remaining weight cannot change the label: rfsize.compile(model) for decision trees, for others "
            "rfsize.StopTable.lossless(model.estimator_weights_, n_classes=…).apply(votes of the members)"
        )
    if isinstance(model, BaseEnsemble):
        return (
            f"found a {name}, whose members are not independent draws of one kind; T*(α) needs a random forest, "
            "extremely randomised trees or bagging"
        )
    return (
        f"found a {name}; rfsize sizes RandomForestClassifier, ExtraTreesClassifier and BaggingClassifier of "
        "scikit-learn, and forests of LightGBM and XGBoost"
    )
