"""XGBoost models as rfsize reads them: boosted trees, and forests of one round of parallel trees."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from scipy.special import expit

from rfsize._util import Floats, Int64s, class_indices, one_per_row, sample_weights, share, whole
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.xgboost.bags import (
    ADAPTIVE,
    CONSTANT_HESSIAN,
    DrawnBags,
    XgboostBags,
    candidate_seeds,
    read_bag_seeds,
    row_hessian,
    smoothed_cover,
    why_not_rebuilt,
    write_bag_seeds,
)
from rfsize.integrations.xgboost.model_json import (
    VOTING,
    booster_of_trees,
    confused_columns,
    document,
    is_dart,
    leaf_values,
    read_ensemble,
    reading_of,
    reason,
    refuse_other_models,
    scores_per_leaf,
    tree_model,
    tree_order,
    with_leaf_values,
)
from rfsize.models.bags import FRESH_ROWS, Layout
from rfsize.models.ensemble import TreeEnsemble
from rfsize.models.framework import reading
from rfsize.models.model import Forest, LearningRate, Model, Output, boosted
from rfsize.models.rows import Rows, open_rows

_PRUNED = "rfsize_shrunk"  # attribute of a booster
_SAMPLINGS = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
_FOREST = "num_parallel_tree=100, learning_rate=1, subsample=0.632, colsample_bynode=0.6"
_RATE_OF_ONE = 0.005  # learning rates as near to 1 as this count as 1


class XgboostModel(Model):
    """The trees of an `xgboost.Booster`, by itself or inside a fitted estimator.

    An iteration is a round, as ``iteration_range`` counts it: ``num_parallel_tree`` trees of each class. Of an
    estimator that stopped early, only the rounds up to ``best_iteration`` count, as in its own ``predict``.

    Attributes
    ----------
    booster : Booster
        The booster that holds the trees.
    missing : float
        Value in rows that means missing, besides NaN.
    tree_of : ndarray of int64, shape (n_trees, trees of an iteration)
        Number in the booster of each tree of the ensemble.
    settings : dict
        The settings of the training that the booster stores; a file does not keep them.
    """

    framework = "XGBoost"
    _counts_rounds: ClassVar[bool] = True
    booster: xgb.Booster
    ensemble: TreeEnsemble

    def __init__(self, model: Any, learner: dict[str, Any], why_no_forest: str) -> None:
        self._model, self.booster, self.why_no_forest = model, booster_of(model), why_no_forest
        stored = getattr(model, "missing", None)
        self.missing = math.nan if stored is None else float(stored)
        self.settings: dict[str, Any] = json.loads(self.booster.save_config())["learner"]
        self.is_pruned = self.booster.attr(_PRUNED) is not None
        self._objective = learner["objective"]["name"]
        self._objective_settings = learner["objective"]
        self._encoded_categories = tree_model(learner).get("cats", {}).get("enc", [])
        best = None if model is self.booster else getattr(model, "best_iteration", None)  # None without early stopping
        order = tree_order(learner)[: None if best is None else best + 1]
        parallel = order.shape[1] if self._counts_rounds else 1
        self.ensemble = read_ensemble(learner, order, self.missing, _classes(model, learner), parallel)
        self.tree_of = order.reshape(self.ensemble.n_trees, -1)

    @property
    def output(self) -> Output:
        if hasattr(self._model, "classes_") or not self.classes.size:
            return super().output
        return "class numbers" if self._objective in ("multi:softmax", "binary:hinge") else "probabilities"

    @property
    def n_bytes(self) -> int:
        return len(self.booster.save_raw("ubj"))

    def apply(self, X: Any) -> NDArray[np.int64]:
        return self.leaf_ids(self.booster.predict(self.matrix(X), pred_leaf=True))

    def leaf_ids(self, leaf: NDArray[Any]) -> NDArray[np.int64]:
        """XGBoost's output with ``pred_leaf``, one column per tree, in the form of `apply`."""
        by_tree: NDArray[np.int64] = leaf.reshape(len(leaf), -1)[:, self.tree_of].astype(np.int64)
        return by_tree + self.ensemble.tree_start

    def native_rows(self, X: Any) -> Any:
        return self.matrix(X) if self._model is self.booster else X

    def matrix(self, X: Any) -> xgb.DMatrix:
        """Rows as a DMatrix, with the names and the missing value of the model."""
        if isinstance(X, xgb.DMatrix):
            return X
        if hasattr(X, "iloc") and self.feature_names is None:
            # A model without names reads columns by position, and a DMatrix does not allow all names.
            X = X.set_axis([f"f{index}" for index in range(X.shape[1])], axis=1)
        names = {}
        if not (hasattr(X, "columns") or hasattr(X, "column_names")):
            names = {"feature_names": self.booster.feature_names, "feature_types": self.booster.feature_types}
        try:
            return xgb.DMatrix(X, missing=self.missing, enable_categorical=True, **names)
        except xgb.core.XGBoostError as error:  # infinite numbers, for instance
            raise ValueError(f"XGBoost does not take the rows X: {reason(error)}") from error

    def read_as_missing(self, missing: float) -> None:
        if not isinstance(missing, Real) or isinstance(missing, bool):
            raise ValueError(f"missing must be a number, found {missing!r}")
        if self._model is not self.booster and not np.array_equal(missing, self.missing, equal_nan=True):
            raise ValueError(f"the model was fitted with missing={self.missing!r}, and stores it: leave missing out")
        self.missing = self.given_missing = float(missing)
        conventions = replace(self.ensemble.conventions, reading=reading_of(self.missing))
        self.ensemble = replace(self.ensemble, conventions=conventions)

    def open(self, X: Any) -> Rows:
        X = self.own_rows(X)
        if isinstance(X, xgb.DMatrix):
            self._check_dmatrix(X)
        rows = open_rows(X, self.columns)
        confused = confused_columns(self._encoded_categories, self.feature_names, X)
        if confused:
            raise ValueError(
                f"XGBoost confuses names that are not ASCII, in the columns {confused} of X: give a pandas DataFrame "
                "with the categories of training in their order"
            )
        return rows

    def _check_dmatrix(self, X: xgb.DMatrix) -> None:
        if not holds_rows(X):
            raise ValueError(f"X is a {type(X).__name__}, binned or on disk: give rows as an array or DataFrame")
        if X.get_base_margin().size:
            raise ValueError("X has a base_margin, which moves every tree's vote: give the rows without one")
        if self.given_missing is not None:
            raise ValueError("X is a DMatrix, which was made with its own missing value: leave missing out")
        # A slice does not keep the missing value, but it keeps which of its numbers were missing.
        if not math.isnan(self.missing) and (X.get_data().data == np.float32(self.missing)).any():
            raise ValueError(
                f"X is a DMatrix in which {self.missing:g} is a number, and means missing to the model: make it as "
                f"xgboost.DMatrix(X, missing={self.missing:g})"
            )

    def first(self, n_trees: int) -> Any:
        booster = self.booster[:n_trees]
        booster.set_attr(best_iteration=None, best_score=None)
        return self.with_booster(booster)

    def select(self, trees: Int64s, leaf_values: NDArray[Any] | None = None) -> Any:
        n_trees, n_outputs, learner = len(trees), self.ensemble.trees_per_iteration, document(self.booster)
        value, number, stored = self.ensemble.nodes.value, self.tree_of.ravel(), tree_model(learner)["trees"]
        if leaf_values is not None:
            value = leaf_values
        elif not self._counts_rounds:
            value = _rescaled(value, self.n_trees / n_trees)
        values = np.split(value, self.ensemble.tree_start.ravel()[1:])
        places = np.arange(number.size).reshape(self.tree_of.shape)[trees].ravel()
        chosen = [with_leaf_values(stored[number[place]], values[place]) for place in places]
        rounds, parallel = (n_trees, self.tree_of.shape[1] // n_outputs) if self._counts_rounds else (1, n_trees)
        booster = booster_of_trees(self.booster, learner, chosen, (rounds, parallel, n_outputs))
        write_bag_seeds(booster, None)
        booster.set_attr(**{_PRUNED: "1"})
        return self.with_booster(booster)

    def with_booster(self, booster: Any) -> Any:
        """A new model of the caller's type that holds ``booster``, which has other trees and is otherwise like this."""
        if self._model is self.booster:
            return booster
        model, name, n_trees = copy.copy(self._model), "n_estimators", booster.num_boosted_rounds()
        if not self._counts_rounds:
            config = json.loads(booster.save_config())["learner"]["gradient_booster"]["gbtree_model_param"]
            name, n_trees = tree_count_parameter(model), int(config["num_parallel_tree"])
        setattr(model, name, n_trees)
        model._Booster = booster
        return model


class XgboostForest(XgboostModel, Forest):
    """One round of parallel trees, each an iteration of its own, whose mean the booster predicts."""

    _counts_rounds = False
    sampled_by = "subsample=0.632 and colsample_bynode=0.6"

    def __init__(self, model: Any, learner: dict[str, Any], why_no_forest: str = "") -> None:
        super().__init__(model, learner, why_no_forest)
        self._grown = self.settings["gradient_booster"]["tree_train_param"]
        self._base = np.array(self.ensemble.conventions.base, dtype=np.float32)
        self.has_bags_by_class = self.ensemble.trees_per_iteration > 1
        if any(float(self._grown.get(name, 1.0)) < 1.0 for name in _SAMPLINGS):  # else a file may have lost them
            self.learning_rate = learning_rate(float(self._grown["learning_rate"]), self._objective, self._base)
        updater = self.settings["gradient_booster"]["gbtree_train_param"]["updater"]
        if updater == "grow_histmaker" and float(self._grown["subsample"]) < 1.0:
            self.shared_bags = f"T* may be too small, because {why_not_rebuilt(self.settings)}"

    def first(self, n_trees: int) -> Any:
        return self.with_booster(booster_of_forests([(self.booster, self.tree_of[:n_trees], self.drawn_bags())]))

    def training_data(self, X: Any, label: NDArray[Any], sample_weight: Any) -> xgb.DMatrix:
        if isinstance(X, xgb.DMatrix):
            raise ValueError("X is a DMatrix, and classifiers are not fitted on one: give the rows that its fit took")
        data = self.matrix(X)
        data.set_info(label=label, weight=None if sample_weight is None else sample_weights(sample_weight, len(label)))
        return data

    # Bags

    def bags(
        self, layout: Layout, y: Any, sample_weight: Any, seed: int | None, subsample: float | None
    ) -> XgboostBags:
        self.refuse_other_sampling()
        # One array per XGBoost version that may have trained the forest, likeliest first.
        covers = [self._row_weights(layout.n_rows, y, sample_weight)]
        if y is not None and self._objective in ADAPTIVE:
            label = one_per_row(y, layout.n_rows).astype(np.float64)
            covers.insert(0, smoothed_cover(self._objective, float(self._base[0]), label, covers[0]))
        likeliest = None
        for drawn, row_cover in itertools.product(self._possible_bags(seed, subsample), covers):
            bags = XgboostBags(layout, self.tree_of, drawn, row_cover, self._hessian)
            if bags.sizes_fit(self.ensemble.cover[self.ensemble.tree_start]):
                return bags
            likeliest = likeliest or bags
        if likeliest is None:
            raise InbagError(
                "the model says subsample=1: train with less, or if a file lost it, go on with "
                f"rfsize.tree_outputs(model, X, y, oob=True, seed=..., subsample=...), or take {FRESH_ROWS}"
            )
        if y is None and self._objective in ADAPTIVE:
            raise InbagError(f"leaves of '{self._objective}' depend on labels: give y, or take {FRESH_ROWS}")
        likeliest.fit = False  # its proof says what is wrong
        return likeliest

    def refuse_other_sampling(self) -> None:
        """Raise `InbagError` if the bags of such trees cannot be rebuilt, or the trees cannot prove them."""
        if self._objective not in CONSTANT_HESSIAN:
            raise InbagError(
                f"no stored sums prove the bags of '{self._objective}', but those of "
                f"{', '.join(sorted(CONSTANT_HESSIAN))}: train with one of them, or take {FRESH_ROWS}"
            )
        why = why_not_rebuilt(self.settings)
        if why is None and not self.ensemble.cover.any():
            why = (
                "trees that score all classes keep no sums of their rows before XGBoost 3.2: train with XGBoost 3.2, "
                "or with multi_strategy='one_output_per_tree'"
            )
        if why is not None:
            raise InbagError(f"{why}, or take {FRESH_ROWS}")

    def _row_weights(self, n_rows: int, y: Any, sample_weight: Any) -> Floats:
        weight, loss = sample_weights(sample_weight, n_rows), self._objective_settings.get("reg_loss_param", {})
        of_class_1 = float(loss.get("scale_pos_weight", 1))
        if of_class_1 == 1.0:
            return weight
        if y is None:
            raise InbagError(f"scale_pos_weight={of_class_1:g} weighs bags by labels: give y, or take {FRESH_ROWS}")
        return np.where(class_indices(self.classes, y, n_rows) == 1, of_class_1, 1.0) * weight

    @property
    def _hessian(self) -> Floats:
        """Hessian of a row of unit weight before any tree, for the trees of each output; NaN where it is not known."""
        step = self._objective_settings.get("poisson_regression_param", {}).get("max_delta_step", 0.7)
        hessian = row_hessian(self._objective, self._base, float(step))
        several = self.ensemble.trees_per_iteration < self._base.size  # trees that score all classes store their sum
        return hessian.sum(keepdims=True) if several else hessian

    @property
    def row_cover(self) -> Floats:
        hessian = self._hessian
        return np.where(np.isnan(hessian), 1.0, hessian)  # as of squared error

    def leading_bags(self, n_rows: int) -> XgboostBags | None:
        drawn, layout = self.drawn_bags(), Layout.alone(n_rows)
        return drawn and XgboostBags(layout, self.tree_of, drawn, np.ones(n_rows), self._hessian)

    def drawn_bags(self) -> DrawnBags | None:
        """How the bags were drawn, as stored in the booster and not proven; None if it does not store it."""
        return next(self._possible_bags(None, None), None) if why_not_rebuilt(self.settings) is None else None

    def _possible_bags(self, seed: int | None, subsample: float | None) -> Iterator[DrawnBags]:
        """Ways in which the bags may have been drawn, the likeliest first; empty if the booster stores nothing."""
        is_from_file = seed is not None or subsample is not None
        if not is_from_file and (stored := read_bag_seeds(self.booster, self.tree_of.size)) is not None:
            yield stored
        fraction = float(self._grown.get("subsample", 1.0)) if subsample is None else share("subsample", subsample)
        if fraction == 1.0:
            return
        first = int(self.settings["generic_param"]["seed"]) if seed is None else whole("seed", seed, at_least=-(2**63))
        for tree_seed in candidate_seeds(first, self.ensemble, self.tree_of, self._grown, is_from_file=is_from_file):
            yield DrawnBags(fraction, tree_seed)


def read(model: Any) -> XgboostModel:
    """A trained booster or estimator; `XgboostForest` if it holds one round of parallel trees.

    Raises
    ------
    NotAForestError
        If it has no trees, or rfsize does not read its kind of trees or objective.
    """
    learner = document(booster_of(model))
    with reading("XGBoost 2.1 to 3.4"):
        refuse_other_models(learner)
        why_no_forest = _why_no_forest(learner)
        return XgboostForest(model, learner) if not why_no_forest else XgboostModel(model, learner, why_no_forest)


def forest_of(model: Any) -> XgboostForest:
    """Read a model that must be a forest; `NotAForestError` if it is none."""
    forest = read(model)
    if not isinstance(forest, XgboostForest):
        raise NotAForestError(forest.why_no_forest)
    return forest


def booster_of(model: Any) -> xgb.Booster:
    """The booster of a model; `NotAForestError` if it has none."""
    if isinstance(model, xgb.Booster):
        return model
    if isinstance(model, xgb.XGBModel):
        return model.get_booster()
    raise NotAForestError(f"a {type(model).__name__} is no model: give an xgboost.Booster or a fitted XGBClassifier")


def _why_no_forest(learner: dict[str, Any]) -> str:
    """Why the trees are not independent draws, and what to do; empty if they are."""
    n_rounds = len(tree_order(learner))
    if n_rounds > 1 or is_dart(learner):
        how = f"for {n_rounds} rounds" if n_rounds > 1 else "with booster='dart'"
        return boosted_rounds(f"the XGBoost model was boosted {how}")
    is_logitraw = learner["objective"]["name"] == "binary:logitraw"
    return "the forest has the objective 'binary:logitraw': train it with 'binary:logistic'" if is_logitraw else ""


def boosted_rounds(what: str) -> str:
    """Why a model that is, or would be, boosted is no forest, and what to do."""
    return boosted(what, f"train the trees in one round, by n_estimators=1 or num_boost_round=1 with {_FOREST}")


def tree_count_parameter(estimator: Any) -> str:
    """The parameter for the number of parallel trees. Only in the random forests it is n_estimators.

    The class is checked by its name, because XGBoost 3.4 deprecates XGBRFClassifier and XGBRFRegressor.
    """
    kinds = {kind.__name__ for kind in type(estimator).__mro__}
    return "n_estimators" if kinds & {"XGBRFClassifier", "XGBRFRegressor"} else "num_parallel_tree"


def holds_rows(data: xgb.DMatrix) -> bool:
    """Whether rows can be taken out: they are neither binned nor in external memory."""
    if isinstance(data, xgb.QuantileDMatrix):
        return False
    try:
        data.slice([0])
    except xgb.core.XGBoostError:
        return False
    return True


# A booster, the numbers of the trees to take, shape (n_trees, n_outputs), and how the bags of all its trees were drawn.
ForestPart = tuple[xgb.Booster, Int64s, DrawnBags | None]


def booster_of_forests(parts: Sequence[ForestPart]) -> xgb.Booster:
    """A new booster that predicts the mean of trees of one or several forests, which differ in their trees alone.

    Names, attributes and settings of the training come from the first forest. The seeds of the bags are noted if they
    are known for all trees.
    """
    n_trees, n_outputs = sum(len(tree_of) for _, tree_of, _ in parts), parts[0][1].shape[1]
    trees: list[dict[str, Any]] = []
    learners = [document(booster) for booster, _, _ in parts]
    for learner, (_, tree_of, _) in zip(learners, parts, strict=True):
        stored, width = tree_model(learner)["trees"], scores_per_leaf(learner)
        scale = len(stored) // n_outputs / n_trees
        for tree in (stored[number] for number in tree_of.ravel()):
            trees.append(with_leaf_values(tree, _rescaled(leaf_values(tree, width), scale)))
    booster = booster_of_trees(parts[0][0], learners[0], trees, (1, n_trees, n_outputs))
    drawn, note = [bags for _, _, bags in parts if bags is not None], None
    if len(drawn) == len(parts):
        seeds = [bags.tree_seed[tree_of] for bags, (_, tree_of, _) in zip(drawn, parts, strict=True)]
        note = DrawnBags(drawn[0].subsample, np.concatenate(seeds).T.ravel())
    write_bag_seeds(booster, note)
    return booster


def _rescaled(value: NDArray[np.float32], scale: float) -> NDArray[np.float32]:
    return (value.astype(np.float64) * scale).astype(np.float32)


def _classes(model: Any, learner: dict[str, Any]) -> NDArray[Any]:
    objective, n_classes = learner["objective"]["name"], max(2, int(learner["learner_model_param"]["num_class"]))
    if objective not in VOTING and hasattr(model, "classes_"):
        raise NotAForestError(f"'{objective}' predicts no classes: train a 'binary:logistic', or give get_booster()")
    classes = np.asarray(getattr(model, "classes_", np.arange(n_classes if objective in VOTING else 0)))
    # The type that predict of an estimator returns.
    return classes.astype(np.int32) if hasattr(model, "fit") and objective == "multi:softmax" else classes


# The learning rate


def learning_rate(rate: float, objective: str, margins: NDArray[np.float32]) -> LearningRate | None:
    """The effect of a learning rate on a forest whose trees begin at ``margins``; None for a rate of 1.

    Only with 1 is a forest the mean of its trees, but XGBoost's default is 0.3: each tree learns a step from
    base_score, and its leaves store the learning rate times this step.
    """
    if abs(rate - 1.0) <= _RATE_OF_ONE:
        return None
    keeps = None
    if objective in VOTING:
        # The threshold at which labels do not depend on the learning rate; several classes have none but this.
        keeps = float(expit(np.float64(margins[0]))) if margins.size == 1 else 0.5 if np.ptp(margins) == 0.0 else None
    moved, wrong = ("squeezed towards", "small") if rate < 1.0 else ("stretched away from", "large")
    labels = "" if keeps is None else f" (labels above a threshold of {keeps:.3g} stay the same)"
    return LearningRate(
        f"the forest was trained with learning_rate={rate:.3g}, so its predictions are {moved} base_score, and T* and "
        f"losses by anything but labels come out too {wrong}{labels}. Train with learning_rate=1",
        keeps,
    )
