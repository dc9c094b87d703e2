"""Where the last bits decide: ties that rounding makes, margins of no trees, and numbers that are read coarsely."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from inference.test_c_source import InC, needs_compiler
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data


def softmax_of(margins: tuple[float, ...], objective: str) -> xgb.Booster:
    """One tree of one leaf for each class."""
    X, y = np.arange(12.0)[:, None], np.arange(12) % len(margins)
    params = {
        "objective": objective,
        "num_class": len(margins),
        "gamma": 1e9,
        "eta": 1,
        "base_score": 0.0,
        "nthread": 1,
    }
    document = json.loads(xgb.train(params, xgb.DMatrix(X, y), 1).save_raw("json"))
    for tree, margin in zip(document["learner"]["gradient_booster"]["model"]["trees"], margins, strict=True):
        tree["base_weights"][0] = tree["split_conditions"][0] = margin
    return xgb.Booster(model_file=bytearray(json.dumps(document).encode()))


def of_softmax(folder: Path, n_rows: int) -> dict[str, Callable[[], np.ndarray]]:
    model, X = softmax_of((-0.4, -0.18000004, -0.18), "multi:softmax"), np.zeros((n_rows, 1))
    fast = rfsize.compile(model, n_jobs=1)
    fast.save(folder / "softmax.npz")
    return {
        "compiled": lambda: fast.predict(X),
        "saved": lambda: rfsize.load(folder / "softmax.npz").predict(X),
        "XGBoost": lambda: model.predict(xgb.DMatrix(X)),
    }


@pytest.mark.parametrize("n_rows", [1, 40])
def test_the_largest_margin_is_the_label_of_softmax(n_rows: int, tmp_path: Path) -> None:
    for found in of_softmax(tmp_path, n_rows).values():
        assert found().tolist() == [2] * n_rows
    # Its probabilities, which are equal once they are rounded, are what other objectives go by.
    probable, X = softmax_of((-0.4, -0.18000004, -0.18), "multi:softprob"), np.zeros((n_rows, 1))
    probability = probable.predict(xgb.DMatrix(X))
    assert (probability[:, 1] == probability[:, 2]).all()
    fast = rfsize.compile(probable, n_jobs=1)
    assert fast.forest.conventions.labels_of_scores is False
    assert fast.predict_proba(X).argmax(axis=1).tolist() == [1] * n_rows


@needs_compiler
def test_and_in_c(tmp_path: Path) -> None:
    fast = rfsize.compile(softmax_of((-0.4, -0.18000004, -0.18), "multi:softmax"))
    assert InC(fast, tmp_path).labels(np.zeros((5, 1)))[0].tolist() == [2] * 5


@pytest.mark.parametrize("objective", ["count:poisson", "reg:tweedie", "reg:gamma", "binary:logistic", "reg:logistic"])
def test_sums_begin_where_those_of_xgboost_do(objective: str, data: Data) -> None:
    """A logarithm that is one unit off moves all predictions: NumPy's was, for up to a quarter of base scores."""
    params = {"objective": objective, "num_parallel_tree": 8, "subsample": 0.6, "max_depth": 3, "eta": 1, "nthread": 1}
    logistic = objective.endswith("logistic")
    dtrain, rows = xgb.DMatrix(data.X, data.y + (not logistic)), data.fresh[:100]
    for base_score in np.random.default_rng(0).uniform(0.02, 0.98 if logistic else 50.0, size=20):
        model = xgb.train(params | {"base_score": base_score}, dtrain, 1)
        fast = rfsize.compile(model, n_jobs=1)
        np.testing.assert_array_equal(_margins(model, fast, rows), model.predict(xgb.DMatrix(rows), output_margin=True))
        found = fast.predict_proba(rows)[:, 1] if fast.classes.size else fast.predict(rows)
        # The exponential is the C library's of each: equal where both go by the same one.
        np.testing.assert_array_max_ulp(found.astype(np.float32), model.predict(xgb.DMatrix(rows)), maxulp=2)


def _margins(model: xgb.Booster, fast: rfsize.CompiledForest, rows: np.ndarray) -> np.ndarray:
    """Sums of the leaves that rows reach, in their order, from what the compiled forest begins with."""
    total = np.repeat(fast.forest.start, len(rows))
    leaf = model.predict(xgb.DMatrix(rows), pred_leaf=True).astype(int)
    for tree, reached in zip(trees_of(model), leaf.T, strict=True):
        total = total + np.array(tree["split_conditions"], dtype=np.float32)[reached]
    return total


def trees_of(model: xgb.Booster) -> list[dict[str, Any]]:
    return json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "scikit-learn"])
def test_arrays_of_objects_are_read_in_single_precision(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(2**24 - 6, 2**24 + 9, 400), rng.normal(size=400)]
    y = ((X[:, 0] > 2**24) | (X[:, 1] > 1)).astype(int)
    if kind == "lightgbm":
        params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbosity": -1}
        params |= {"num_threads": 1, "min_data_in_leaf": 1, "min_data_in_bin": 1}
        model = lgb.train(params, lgb.Dataset(X, y), 21)
        expected: Callable[[Any], np.ndarray] = model.predict
    elif kind == "xgboost":
        forest = {"n_estimators": 1, "num_parallel_tree": 21, "subsample": 0.6, "learning_rate": 1, "n_jobs": 1}
        model = xgb.XGBClassifier(**forest).fit(X, y)
        expected = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    else:
        model = RandomForestClassifier(21, random_state=0).fit(X, y)
        expected = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    fast = rfsize.compile(model, n_jobs=1)
    objects = X.astype(object)
    objects[:5, 1] = None
    for rows in (objects, X, X.astype(np.int64), X.astype(np.float32), X.astype(np.longdouble), X.astype(bool)):
        if kind == "scikit-learn" and rows is objects:
            rows = rows[5:]
        np.testing.assert_allclose(fast.predict_proba(rows)[:, 1], expected(rows), rtol=1e-6, err_msg=str(rows.dtype))
        assert rfsize.tree_outputs(model, rows).votes == fast.votes(rows)
