"""Forests of every framework and objective that can be compiled, what they predict themselves, and their trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier

from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.models.framework import read_forest

TREES = 21
LIGHTGBM = {
    "boosting_type": "rf",
    "n_estimators": TREES,
    "subsample": 0.6,
    "subsample_freq": 1,
    "colsample_bytree": 0.6,
    "num_leaves": 15,
    "random_state": 3,
    "n_jobs": 1,
    "verbose": -1,
}
XGBOOST = {
    "n_estimators": 1,
    "num_parallel_tree": TREES,
    "learning_rate": 1,
    "subsample": 0.6,
    "colsample_bynode": 0.6,
    "max_depth": 4,
    "random_state": 3,
    "n_jobs": 1,
}
SKLEARN = {"n_estimators": TREES, "random_state": 3}


def number(data: Data) -> np.ndarray:
    """A target for regression."""
    return data.X[:, 0] + data.X[:, 1] * data.X[:, 2]


def _lgb_number(objective: str, **params: Any) -> Callable[[Data], Any]:
    def train(data: Data) -> Any:
        y = np.abs(number(data)) + 0.1 if objective in ("poisson", "gamma", "tweedie") else number(data)
        return lgb.LGBMRegressor(objective=objective, **LIGHTGBM, **params).fit(data.X, y)

    return train


def _xgb_number(objective: str, **params: Any) -> Callable[[Data], Any]:
    def train(data: Data) -> Any:
        y = number(data) if objective == "reg:squarederror" else np.abs(number(data)) + 0.1
        return xgb.XGBRegressor(objective=objective, **XGBOOST, **params).fit(data.X, y)

    return train


CLASSIFIERS: dict[str, Callable[[Data], Any]] = {
    "lgb booster": lambda data: train_lightgbm(data.X, data.y, TREES),
    "lgb booster of three": lambda data: train_lightgbm(data.X, data.three, TREES, objective="multiclass", num_class=3),
    "lgb cross entropy": lambda data: train_lightgbm(data.X, data.y, TREES, objective="cross_entropy"),
    "lgb binary": lambda data: lgb.LGBMClassifier(**LIGHTGBM).fit(data.X, data.y),
    "lgb text": lambda data: lgb.LGBMClassifier(**LIGHTGBM).fit(data.X, np.array(["b", "a", "c"])[data.three]),
    "lgb one vs all": lambda data: lgb.LGBMClassifier(objective="multiclassova", **LIGHTGBM).fit(data.X, data.three),
    "xgb booster": lambda data: train_xgboost(data.X, data.y, TREES),
    "xgb booster of three": lambda data: train_xgboost(
        data.X, data.three, TREES, objective="multi:softprob", num_class=3
    ),
    "xgb uneven": lambda data: xgb.XGBClassifier(base_score=0.23, **XGBOOST).fit(data.X, data.y),
    "xgb three": lambda data: xgb.XGBClassifier(**XGBOOST).fit(data.X, data.three),
    "xgb multi-output": lambda data: xgb.XGBClassifier(
        multi_strategy="multi_output_tree", tree_method="hist", **XGBOOST
    ).fit(data.X, data.three),
    "random forest": lambda data: RandomForestClassifier(**SKLEARN).fit(data.X, data.y),
    "random forest of three": lambda data: RandomForestClassifier(min_samples_leaf=3, **SKLEARN).fit(
        data.X, data.three
    ),
    "extra-trees": lambda data: ExtraTreesClassifier(max_depth=6, **SKLEARN).fit(
        data.X, np.array(["no", "so", "yes"])[data.three]
    ),
    "bagging": lambda data: BaggingClassifier(max_features=0.6, **SKLEARN).fit(data.X, np.array(["no", "yes"])[data.y]),
    "bags that miss a class": lambda data: _bags_that_miss_a_class(data),
}
REGRESSORS: dict[str, Callable[[Data], Any]] = {
    "lgb regression": _lgb_number("regression"),
    "lgb square roots": _lgb_number("regression", reg_sqrt=True),
    "lgb poisson": _lgb_number("poisson"),
    "lgb gamma": _lgb_number("gamma"),
    "lgb tweedie": _lgb_number("tweedie"),
    "lgb l1": _lgb_number("regression_l1"),
    "lgb quantile": _lgb_number("quantile", alpha=0.3),
    "xgb regression": _xgb_number("reg:squarederror"),
    "xgb uneven regression": _xgb_number("reg:squarederror", base_score=0.37),
    "xgb poisson": _xgb_number("count:poisson", base_score=1.7),
    "xgb gamma": _xgb_number("reg:gamma"),
    "xgb tweedie": _xgb_number("reg:tweedie"),
    "random forest regression": lambda data: RandomForestRegressor(**SKLEARN).fit(data.X, number(data)),
    "extra-trees regression": lambda data: ExtraTreesRegressor(max_depth=6, **SKLEARN).fit(data.X, number(data)),
    "bagging regression": lambda data: BaggingRegressor(max_features=0.6, **SKLEARN).fit(data.X, number(data)),
}


def _bags_that_miss_a_class(data: Data) -> Any:
    """Not every scikit-learn leaves a class out where its rows are, so some trees are trained without it."""
    forest = BaggingClassifier(**SKLEARN).fit(data.X, data.three)
    for member, missed in ((2, 0), (5, 1), (20, 2)):
        X, y = data.X[data.three != missed], data.three[data.three != missed]
        forest.estimators_[member] = DecisionTreeClassifier(random_state=0).fit(X, y)
    return forest


def own_values(model: Any, X: Any) -> np.ndarray:
    """Probabilities or numbers that the framework predicts."""
    if isinstance(model, xgb.Booster):
        X = xgb.DMatrix(X, enable_categorical=True)
    found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.asarray(found)


def own_labels(model: Any, X: Any, threshold: float = 0.5) -> np.ndarray:
    """Labels that the framework predicts."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X))
    values = own_values(model, X)
    return values.argmax(axis=1) if values.ndim == 2 else (values > threshold).astype(int)


def takes_missing(model: Any) -> bool:
    """Whether the framework takes missing values, at whatever feature."""
    return isinstance(model, lgb.Booster | lgb.LGBMModel | xgb.Booster | xgb.XGBModel)


def tree_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """Scores of each tree alone, as stop tables see them, shape (n, T, n_scores)."""
    adapter = read_forest(model, casts_votes=False)
    return adapter.leaves.raw_scores(adapter.leaf_index(adapter.check(X)) + adapter.leaves.offset)


Models = Callable[[str], Any]
"""Trained models by their names."""


def fresh(rows: np.ndarray) -> np.ndarray:
    """Rows to calibrate with."""
    return np.random.default_rng(21).normal(size=(3000, rows.shape[1]))


def answers(fast: Any) -> Callable[..., Any]:
    """What gives the labels of a compiled forest, or the numbers of a regression."""
    return fast.predict_labels if len(fast.classes) else fast.predict
