"""``predict`` of a compiled forest gives the kind of answer that the model's own ``predict`` gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.compiled_forests import LIGHTGBM, XGBOOST, fresh
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.exceptions import RfsizeWarning

THREE = {"num_class": 3}


def _words(data: Data) -> np.ndarray:
    return np.array(["ash", "elm"])[data.y]


MODELS: dict[str, Callable[[Data], Any]] = {
    "lgb binary": lambda data: train_lightgbm(data.X, data.y, 21),
    "lgb cross entropy": lambda data: train_lightgbm(data.X, data.y, 21, objective="cross_entropy"),
    "lgb multiclass": lambda data: train_lightgbm(data.X, data.three, 21, objective="multiclass", **THREE),
    "lgb two as multiclass": lambda data: train_lightgbm(data.X, data.y, 21, objective="multiclass", num_class=2),
    "lgb one-vs-all": lambda data: train_lightgbm(data.X, data.three, 21, objective="multiclassova", **THREE),
    "lgb numbers": lambda data: train_lightgbm(data.X, data.X[:, 0], 21, objective="regression"),
    "lgb classifier": lambda data: lgb.LGBMClassifier(**LIGHTGBM).fit(data.X, _words(data)),
    "lgb regressor of classes": lambda data: lgb.LGBMRegressor(objective="cross_entropy", **LIGHTGBM).fit(
        data.X, data.y
    ),
    "xgb binary": lambda data: train_xgboost(data.X, data.y, 21),
    "xgb softprob": lambda data: train_xgboost(data.X, data.three, 21, objective="multi:softprob", **THREE),
    "xgb softmax": lambda data: train_xgboost(data.X, data.three, 21, objective="multi:softmax", **THREE),
    "xgb numbers": lambda data: train_xgboost(data.X, data.X[:, 0], 21, objective="reg:squarederror"),
    "xgb classifier": lambda data: xgb.XGBClassifier(**XGBOOST).fit(data.X, data.y),
    "xgb softmax classifier": lambda data: xgb.XGBClassifier(objective="multi:softmax", **XGBOOST).fit(
        data.X, data.three
    ),
    "xgb regressor of classes": lambda data: xgb.XGBRegressor(objective="binary:logistic", **XGBOOST).fit(
        data.X, data.y
    ),
    "random forest": lambda data: RandomForestClassifier(21, random_state=0).fit(data.X, _words(data)),
}


def own_predict(model: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X))


@pytest.mark.parametrize("name", MODELS)
def test_the_model_s_own_answer(name: str, data: Data, tmp_path: Path) -> None:
    model = MODELS[name](data)
    fast = rfsize.compile(model)
    fast.save(tmp_path / "forest.npz")
    own = own_predict(model, data.fresh)
    for forest in (fast, rfsize.load(tmp_path / "forest.npz")):
        for rows in (slice(None), slice(3)):
            found, asked = forest.predict(data.fresh[rows], return_trees=True)
            assert (found.dtype, found.shape) == (own.dtype, own[rows].shape)
            if "xgb" in name and own.dtype == np.float32:  # whose link the platform rounds
                np.testing.assert_array_max_ulp(found, own[rows], maxulp=4)
            else:
                assert np.array_equal(found, own[rows])
            assert asked.shape == (len(found),)


@pytest.mark.parametrize("name", [name for name in MODELS if "numbers" not in name])
def test_labels_of_any_classifier(name: str, data: Data) -> None:
    model = MODELS[name](data)
    fast = rfsize.compile(model)
    labels, asked = fast.predict_labels(data.fresh, return_trees=True)
    assert np.array_equal(labels, fast.classes[fast.predict_proba(data.fresh).argmax(axis=1)])
    assert asked.mean() < fast.n_trees
    assert np.array_equal(fast.predict_labels(data.fresh[:3]), labels[:3])


@pytest.mark.parametrize("name", ["lgb classifier", "xgb classifier", "xgb softmax classifier", "random forest"])
def test_probabilities_have_the_precision_of_the_model_s_own(name: str, data: Data) -> None:
    model = MODELS[name](data)
    own = model.predict_proba(data.fresh)
    assert own.dtype == rfsize.compile(model).predict_proba(data.fresh).dtype
    assert own.dtype == rfsize.compile([model, model]).predict_proba(data.fresh).dtype


def asks_fewer(fast: rfsize.CompiledForest, X: np.ndarray) -> dict[str, bool]:
    """Whether methods ask fewer trees than without a table."""
    plain = rfsize.CompiledForest(fast.forest)
    asks = {}
    for name in ("predict", "predict_labels", "predict_proba"):
        with_table, without = (getattr(one, name)(X, return_trees=True)[1].mean() for one in (fast, plain))
        asks[name] = bool(with_table < without)
    return asks


@pytest.mark.parametrize("name", ["lgb binary", "xgb softprob", "xgb softmax", "lgb classifier", "random forest"])
def test_what_tables_act_on(name: str, data: Data) -> None:
    model = MODELS[name](data)
    X = fresh(data.fresh)
    gives_labels = "classifier" in name or "softmax" in name or name == "random forest"
    of_labels = rfsize.StopTable.calibrate(model, X, alpha=0.8)
    acts = {"predict": gives_labels, "predict_labels": True, "predict_proba": False}
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        fast = rfsize.compile(model, of_labels)
    in_vain = [warning for warning in given if issubclass(warning.category, RfsizeWarning)]
    assert ["predict_labels" in str(warning.message) for warning in in_vain] == [True] * (not gives_labels)
    assert asks_fewer(fast, data.fresh) == acts
    assert f"; on {'predict and ' * gives_labels}predict_labels: StopTable(" in repr(fast)
    near: Any = {"metric": "probabilities", "tolerance": 0.2, "alpha": 0.8}
    of_probabilities = rfsize.StopTable.calibrate(model, X, **near)
    acts = {"predict": not gives_labels, "predict_labels": False, "predict_proba": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RfsizeWarning)
        fast = rfsize.compile(model, of_probabilities)
    assert asks_fewer(fast, data.fresh) == acts
    assert f"; on {'predict and ' * (not gives_labels)}predict_proba: StopTable(" in repr(fast)


def test_the_table_of_a_regression(data: Data) -> None:
    model = MODELS["lgb numbers"](data)
    table = rfsize.StopTable.calibrate(model, fresh(data.fresh), metric="scores", tolerance=0.2, alpha=0.8)
    fast = rfsize.compile(model, table)
    assert "; predict gives numbers; on predict: StopTable(" in repr(fast)
    assert fast.predict(data.fresh, return_trees=True)[1].mean() < 21


def test_a_threshold_leaves_probabilities_alone(data: Data) -> None:
    model = MODELS["lgb binary"](data)
    fast = rfsize.compile(model, threshold=0.2)
    assert np.array_equal(fast.predict(data.fresh), model.predict(data.fresh))
    assert np.array_equal(fast.predict_labels(data.fresh), model.predict(data.fresh) > 0.2)
    assert "predict gives probabilities, predict_labels by averaged scores above 0.2" in repr(fast)
