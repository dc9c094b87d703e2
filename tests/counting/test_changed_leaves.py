"""Leaves that were changed after training, which counts of rows cannot tell, and labels can."""

from __future__ import annotations

import copy
import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.forests import LIGHTGBM, XGBOOST, Data
from helpers.outputs import votes_of
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.models.framework import read_forest

CHANGED = "the leaves differ from what their bags and the labels y give"
MULTICLASS = {"lightgbm": {"objective": "multiclass", "num_class": 3}, "xgboost": {"objective": "multi:softprob"}}


def of_lightgbm(X: Any, y: Any, weight: Any = None, **params: Any) -> lgb.Booster:
    return lgb.train({**LIGHTGBM, **params}, lgb.Dataset(X, y, weight=weight, params={"verbose": -1}), 9)


def of_xgboost(X: Any, y: Any, weight: Any = None, base_margin: Any = None, **params: Any) -> xgb.Booster:
    dtrain = xgb.DMatrix(X, y, weight=weight, base_margin=base_margin)
    return xgb.train({**XGBOOST, "num_parallel_tree": 9, **params}, dtrain, 1)


def inbag(model: Any, X: Any, y: Any, **bags: Any) -> np.ndarray:
    return ForestOnRows.of(read_forest(model, casts_votes=False), X, y, oob=True, **bags).inbag()


def share(X: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-X[:, 0]))


FORESTS = {
    "lightgbm": (of_lightgbm, "y", {}),
    "lightgbm, sigmoid": (of_lightgbm, "y", {"sigmoid": 2.0, "lambda_l2": 3.0}),
    "lightgbm, from zero": (of_lightgbm, "y", {"boost_from_average": False}),
    "lightgbm, cross entropy": (of_lightgbm, "share", {"objective": "cross_entropy"}),
    "lightgbm, three classes": (of_lightgbm, "three", {"objective": "multiclass", "num_class": 3}),
    "lightgbm, one against all": (of_lightgbm, "three", {"objective": "multiclassova", "num_class": 3}),
    "lightgbm, regression": (of_lightgbm, "numbers", {"objective": "regression"}),
    "xgboost": (of_xgboost, "y", {}),
    "xgboost, eta": (of_xgboost, "y", {"eta": 0.1, "reg_lambda": 7.0, "base_score": 0.2}),
    "xgboost, share": (of_xgboost, "share", {"objective": "reg:logistic"}),
    "xgboost, three classes": (of_xgboost, "three", {"objective": "multi:softprob", "num_class": 3}),
    "xgboost, counts": (of_xgboost, "three", {"objective": "count:poisson"}),
    "xgboost, regression": (of_xgboost, "numbers", {"objective": "reg:squarederror"}),
}

# Where the formula is another, labels are not compared.
OTHERS = {
    "alpha": (of_xgboost, "y", {"reg_alpha": 1.0}),
    "max_delta_step": (of_xgboost, "y", {"max_delta_step": 0.2}),
    "lambda_l1": (of_lightgbm, "y", {"lambda_l1": 1.0}),
    "path_smooth": (of_lightgbm, "y", {"path_smooth": 5.0}),
    "is_unbalance": (of_lightgbm, "y", {"is_unbalance": True}),
    "quantised": (of_lightgbm, "y", {"use_quantized_grad": True}),
    "median": (of_lightgbm, "numbers", {"objective": "regression_l1"}),
    "monotone": (of_lightgbm, "y", {"monotone_constraints": [1, 0, 0, 0, 0, 0, 0, 0]}),
}


def labels_of(what: str, data: Data) -> np.ndarray:
    numbers = {"share": share(data.X), "numbers": 1000.0 + 5.0 * data.X[:, 0] ** 3}
    return numbers[what] if what in numbers else getattr(data, what)


@pytest.mark.parametrize("name", FORESTS | OTHERS)
def test_labels_of_training_are_taken(name: str, data: Data) -> None:
    train, what, params = (FORESTS | OTHERS)[name]
    y, weight = labels_of(what, data), np.random.default_rng(0).exponential(size=len(data.X)) ** 2
    model = train(data.X, y, **params)
    assert inbag(model, data.X, y).any()
    weighted = train(data.X, y, weight, **params)
    assert inbag(weighted, data.X, y, sample_weight=weight).any()
    if train is of_lightgbm:  # whose bags need no weights; without them labels tell nothing
        assert np.array_equal(inbag(weighted, data.X, y), inbag(weighted, data.X, None))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORESTS)
def test_other_labels_are_refused(name: str, weighted: bool, data: Data) -> None:
    train, what, params = FORESTS[name]
    y = labels_of(what, data)
    weight = np.random.default_rng(0).exponential(size=len(data.X)) if weighted else None
    model, other = train(data.X, y, weight, **params), y.copy()
    rows = np.flatnonzero(inbag(model, data.X, y, sample_weight=weight).any(axis=0))
    one = rows[np.argmax(np.abs(y[rows] - y[rows[0]]))]
    other[[rows[0], one]] = y[[one, rows[0]]]
    with pytest.raises(rfsize.exceptions.InbagError, match=CHANGED):
        inbag(model, data.X, other, sample_weight=weight)


@pytest.mark.parametrize("name", ["lightgbm", "lightgbm, three classes"])
def test_a_refitted_booster_is_refused(name: str, data: Data) -> None:
    train, what, params = FORESTS[name]
    y = labels_of(what, data)
    refitted = train(data.X, y, **params).refit(data.X, y)
    assert inbag(refitted, data.X, None).any()  # the counts are those of training
    for call in (votes_of, rfsize.size, rfsize.truncate):
        with pytest.raises(rfsize.exceptions.InbagError, match=rf"{CHANGED}.*refit"):
            call(refitted, data.X, y, oob=True)


def test_one_leaf_that_was_set_is_refused(data: Data) -> None:
    model = of_lightgbm(data.X, data.y)
    model.set_leaf_output(4, 2, model.get_leaf_output(4, 2) + 0.05)
    with pytest.raises(rfsize.exceptions.InbagError, match=rf"{CHANGED}.*in 1 of 9 trees, the first of them tree 4"):
        inbag(model, data.X, data.y)


def test_boosting_that_calls_itself_a_forest_is_refused(data: Data) -> None:
    boosted = of_lightgbm(data.X, data.y, boosting="gbdt", learning_rate=0.1)
    text = boosted.model_to_string().replace("\nfeature_names=", "\naverage_output\nfeature_names=", 1)
    relabelled = lgb.Booster(model_str=text.replace("[boosting: gbdt]", "[boosting: rf]"))
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"trees have weights, \[0\.1"):
        rfsize.tree_outputs(relabelled, data.X)


def test_a_margin_of_squared_error_is_refused(data: Data) -> None:
    y, margin = data.X[:, 0], np.full(len(data.X), 2.0)
    model = of_xgboost(data.X, y, base_margin=margin, objective="reg:squarederror")
    assert inbag(model, data.X, None).any()
    with pytest.raises(rfsize.exceptions.InbagError, match=rf"{CHANGED}.*base_margin"):
        inbag(model, data.X, y)


SKLEARN = {
    "forest": (RandomForestClassifier(9, random_state=0), "words"),
    "two classes": (RandomForestClassifier(9, random_state=0, max_samples=0.5, ccp_alpha=0.001), "y"),
    "extra": (ExtraTreesClassifier(9, random_state=0, bootstrap=True, max_depth=5), "three"),
    "bagging": (BaggingClassifier(DecisionTreeClassifier(max_depth=5), 9, random_state=0), "words"),
    "balanced": (RandomForestClassifier(9, random_state=0, class_weight="balanced"), "three"),
    "regression": (RandomForestRegressor(9, random_state=0, max_depth=6), "numbers"),
    "poisson": (RandomForestRegressor(9, random_state=0, max_depth=6, criterion="poisson"), "numbers"),
    "monotone": (RandomForestClassifier(9, random_state=0, monotonic_cst=[1, 0, 0, 0, 0, 0, 0, 0]), "y"),
    "median": (RandomForestRegressor(3, random_state=0, max_depth=3, criterion="absolute_error"), "numbers"),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learns_labels_of_training_are_taken(name: str, data: Data) -> None:
    estimator, what = SKLEARN[name]
    y = np.array(["low", "middle", "high"])[data.three] if what == "words" else labels_of(what, data)
    weight = np.random.default_rng(0).exponential(size=len(data.X))
    weight[:9] = 0.0
    assert inbag(copy.deepcopy(estimator).fit(data.X, y), data.X, y).any()
    weighted = copy.deepcopy(estimator).fit(data.X, y, sample_weight=weight)
    assert inbag(weighted, data.X, y, sample_weight=weight).any()


@pytest.mark.parametrize("name", ["forest", "two classes", "extra", "bagging", "regression", "poisson"])
def test_scikit_learns_changed_leaves_are_refused(name: str, data: Data) -> None:
    estimator, what = SKLEARN[name]
    y = np.array(["low", "middle", "high"])[data.three] if what == "words" else labels_of(what, data)
    model = copy.deepcopy(estimator).fit(data.X, y)
    with pytest.raises(rfsize.exceptions.InbagError, match=CHANGED):
        inbag(model, data.X, y[::-1])
    tree = model.estimators_[3].tree_
    leaf = int(np.flatnonzero(tree.children_left == -1)[0])
    tree.value[leaf, 0] = np.roll(tree.value[leaf, 0], 1) if tree.value.shape[2] > 1 else tree.value[leaf, 0] + 1.0
    with pytest.raises(rfsize.exceptions.InbagError, match=r"in 1 of 9 trees, the first of them tree 3"):
        inbag(model, data.X, y)


def test_labels_that_are_not_the_models_tell_nothing(data: Data, lgb_booster: Any, xgb_booster: Any) -> None:
    """A booster knows codes, and its user may give the words that they stand for."""
    words = np.array(["no", "yes"])[data.y]
    for model in (lgb_booster, xgb_booster):
        for y in (words, words.astype(object), data.y + 1, data.y.astype(str)):
            assert np.array_equal(rfsize.inbag(model, data.X, y), rfsize.inbag(model, data.X))
        with pytest.raises(ValueError, match="one label per row"):
            rfsize.inbag(model, data.X, data.y[:-1])


def test_trees_that_split_categories_tell_nothing(data: Data) -> None:
    X = data.X.copy()
    X[:, 0] = np.digitize(X[:, 0], np.linspace(-2, 2, 20))
    dataset = lgb.Dataset(X, data.y, categorical_feature=[0], params={"verbose": -1})
    model = lgb.train({**LIGHTGBM, "feature_fraction": 1.0}, dataset, 9)
    assert rfsize.inbag(model, X, data.y).any()


def test_a_file_is_compared_too(data: Data) -> None:
    model = of_xgboost(data.X, data.y, eta=0.1, reg_lambda=7.0)
    loaded = xgb.Booster()
    loaded.load_model(model.save_raw("json"))
    assert json.loads(loaded.save_config())["learner"]["gradient_booster"]["tree_train_param"]["eta"] != "0.1"
    told = {"seed": 3, "subsample": 0.632}
    assert rfsize.inbag(loaded, data.X, data.y, **told).any()
    with pytest.raises(rfsize.exceptions.InbagError, match=CHANGED):
        rfsize.inbag(loaded, data.X, data.y[::-1], **told)


@pytest.mark.parametrize("ridge", [0.01, 1000.0])
def test_trees_of_one_split_hardly_tell_their_gradients(ridge: float, data: Data) -> None:
    """Rounding makes much of the settings that are found from them; labels of training are taken all the same."""
    for seed in range(8):
        given = {"max_depth": 1, "eta": 0.05, "reg_lambda": ridge, "seed": seed, "num_parallel_tree": 30}
        assert inbag(of_xgboost(data.X, data.y, **given), data.X, data.y).any()


@pytest.mark.parametrize("reg_lambda", [0.0, 10.0, 1000.0])
def test_weights_of_a_small_sum_and_digits_that_are_cut_are_no_change(reg_lambda: float, data: Data) -> None:
    weight = np.random.default_rng(0).random(len(data.X))
    weight /= weight.sum()
    params = {**LIGHTGBM, "lambda_l2": reg_lambda, "sigmoid": 0.1234565, "min_sum_hessian_in_leaf": 0.0}
    model = lgb.train(params, lgb.Dataset(data.X, data.y, weight=weight), 9)
    assert rfsize.inbag(model, data.X, data.y, sample_weight=weight).any()


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_nearly_certain_classes_are_no_change(objective: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 5)), (rng.random(20_000) > 1e-3).astype(int)
    params = {"objective": objective, "subsample": 0.5, "num_parallel_tree": 8, "eta": 1, "min_child_weight": 0}
    several = {"num_class": 3} if objective == "multi:softprob" else {}
    model = xgb.train(params | several, xgb.DMatrix(X, y), 1)
    assert rfsize.inbag(model, X, y).any()


def test_infinite_rows_are_refused_by_a_value_error(data: Data) -> None:
    model = of_xgboost(data.X, data.y)
    with pytest.raises(ValueError, match=r"XGBoost does not take the rows X: .*inf"):
        rfsize.tree_outputs(model, np.full((3, data.X.shape[1]), np.inf))
