"""Forests that can be compiled, each trained once: every way to add scores up and to link them, on wild rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers import models
from helpers.models import own_predict

TREES, FEATURES = models.N_TREES, 6
TYPES = ["q", "q", "q", "c", "q", "q"]
NAMES = np.array(["elm", "ash", "oak"])  # not in the order of their indices

LIGHTGBM: dict[str, Any] = models.LIGHTGBM | {"feature_fraction": 0.8, "num_leaves": 15, "min_data_in_leaf": 5}
LIGHTGBM |= {"min_data_per_group": 5, "cat_smooth": 1.0}
XGBOOST: dict[str, Any] = models.XGBOOST | {"max_cat_to_onehot": 4}
WRAPPER: dict[str, Any] = models.WRAPPER
ONE_ROUND: dict[str, Any] = models.ONE_ROUND
VECTORS = ONE_ROUND | {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
LOGISTIC = ONE_ROUND | {"objective": "binary:logistic"}
SKLEARN: dict[str, Any] = {"n_estimators": TREES, "random_state": 3}


def wild(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Rows with missing values, zeros of both signs, denormals, huge numbers, few values, and categories."""
    X = rng.normal(size=(n_rows, FEATURES))
    X[:, 1] = rng.integers(-3, 4, n_rows)
    X[:, 2] = rng.choice([0.0, -0.0, 1e-36, -1e-36, 1e-35, 2e-35, 1e-3, -1.0, 5e-324], n_rows)
    X[:, 3] = rng.integers(0, 40, n_rows)
    X[:, 4] = np.exp(rng.uniform(-80, 80, n_rows))
    X[rng.random(X.shape) < 0.15] = np.nan
    return X


def signal_of(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    clean = np.nan_to_num(X, posinf=3.0, neginf=-3.0)
    return clean[:, 0] + np.isnan(X[:, 1]) + (clean[:, 3] % 7 > 3) + 0.3 * clean[:, 1] + 0.5 * rng.normal(size=len(X))


def classes_of(signal: np.ndarray, n_classes: int) -> np.ndarray:
    return np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))


@cache
def training() -> tuple[np.ndarray, np.ndarray]:
    """Training rows and the signal that their targets follow."""
    rng = np.random.default_rng(0)
    X = wild(rng, 700)
    return X, signal_of(X, rng)


def fresh_rows(n_rows: int, seed: int = 1) -> np.ndarray:
    """Rows as those of training, and categories that training did not see."""
    rng = np.random.default_rng(seed)
    X = wild(rng, n_rows)
    X[: min(n_rows, 20), 3] = rng.choice([41.0, 1e6, -0.5, 39.9], min(n_rows, 20))
    return X


def lightgbm(objective: str, y: Any, n_trees: int = TREES, X: Any = None, **params: Any) -> lgb.Booster:
    data = lgb.Dataset(training()[0] if X is None else X, y, categorical_feature=[3], params={"verbose": -1})
    return lgb.train({**LIGHTGBM, "objective": objective, **params}, data, n_trees)


def matrix(X: Any, y: Any = None) -> xgb.DMatrix:
    return xgb.DMatrix(X, y, feature_types=TYPES, enable_categorical=True)


def xgboost(objective: str, y: Any, X: Any = None, **params: Any) -> xgb.Booster:
    data = matrix(training()[0] if X is None else X, y)
    return xgb.train({**XGBOOST, "objective": objective, **params}, data, 1)


class Kind(NamedTuple):
    """How to train a model of ``n_classes`` (0 for a regression) from X, class indices and a number."""

    n_classes: int
    train: Callable[[Any, Any, Any], Any]
    is_exact: bool = True  # no link of the C library's between sums and predictions


def _lacking_classes(X: Any, y: Any, _: Any) -> Any:
    """Not every scikit-learn leaves a class out where its rows are, so some trees are trained without it."""
    forest = BaggingClassifier(**SKLEARN).fit(X, y)
    for member, lacks in ((2, 0), (5, 1), (20, 2)):
        forest.estimators_[member] = DecisionTreeClassifier(random_state=0).fit(X[y != lacks], y[y != lacks])
    return forest


THREE = {"num_class": 3}
KINDS = {
    "lgb binary": Kind(2, lambda X, y, z: lightgbm("binary", y), False),
    "lgb cross entropy": Kind(2, lambda X, y, z: lightgbm("cross_entropy", y), False),
    "lgb softmax": Kind(3, lambda X, y, z: lightgbm("multiclass", y, **THREE), False),
    "lgb one-vs-all": Kind(3, lambda X, y, z: lightgbm("multiclassova", y, **THREE), False),
    "lgb classifier": Kind(2, lambda X, y, z: lgb.LGBMClassifier(**WRAPPER).fit(X, NAMES[y]), False),
    "lgb regression": Kind(0, lambda X, y, z: lightgbm("regression", z)),
    "lgb square roots": Kind(0, lambda X, y, z: lightgbm("regression", z, reg_sqrt=True)),
    "lgb quantile": Kind(0, lambda X, y, z: lightgbm("quantile", z, alpha=0.3)),
    "lgb poisson": Kind(0, lambda X, y, z: lightgbm("poisson", np.exp(z)), False),
    "xgb logistic": Kind(2, lambda X, y, z: xgboost("binary:logistic", y, base_score=0.2), False),
    "xgb softprob": Kind(3, lambda X, y, z: xgboost("multi:softprob", y, **THREE), False),
    "xgb softmax": Kind(3, lambda X, y, z: xgb.XGBClassifier(objective="multi:softmax", **ONE_ROUND).fit(X, y), False),
    "xgb vectors": Kind(3, lambda X, y, z: xgb.XGBClassifier(**VECTORS).fit(X, y), False),
    "xgb classifier": Kind(2, lambda X, y, z: xgb.XGBClassifier(**ONE_ROUND).fit(X, y), False),
    "xgb regressor of classes": Kind(2, lambda X, y, z: xgb.XGBRegressor(**LOGISTIC).fit(X, y), False),
    "xgb regression": Kind(0, lambda X, y, z: xgboost("reg:squarederror", z, base_score=0.37)),
    "xgb shares": Kind(0, lambda X, y, z: xgboost("reg:logistic", 1 / (1 + np.exp(-z))), False),
    "xgb gamma": Kind(0, lambda X, y, z: xgboost("reg:gamma", np.exp(z)), False),
    "random forest": Kind(2, lambda X, y, z: RandomForestClassifier(**SKLEARN).fit(X, y)),
    "random forest of three": Kind(
        3, lambda X, y, z: RandomForestClassifier(min_samples_leaf=3, **SKLEARN).fit(X, NAMES[y])
    ),
    "extra-trees": Kind(2, lambda X, y, z: ExtraTreesClassifier(max_depth=6, **SKLEARN).fit(X, y)),
    "bagging": Kind(2, lambda X, y, z: BaggingClassifier(max_features=0.6, **SKLEARN).fit(X, NAMES[y])),
    "bagging, classes lacking": Kind(3, _lacking_classes),
    "threshold": Kind(
        2, lambda X, y, z: FixedThresholdClassifier(RandomForestClassifier(**SKLEARN), threshold=0.3).fit(X, y), False
    ),
    "random forest regression": Kind(0, lambda X, y, z: RandomForestRegressor(**SKLEARN).fit(X, z)),
    "bagging regression": Kind(0, lambda X, y, z: BaggingRegressor(max_features=0.6, **SKLEARN).fit(X, z)),
    "adaboost": Kind(
        3, lambda X, y, z: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), **SKLEARN).fit(X, NAMES[y]), False
    ),
    "adaboost, stumps": Kind(2, lambda X, y, z: AdaBoostClassifier(**SKLEARN).fit(X, y), False),
}
CLASSIFIERS = [name for name, kind in KINDS.items() if kind.n_classes]
REGRESSORS = [name for name, kind in KINDS.items() if not kind.n_classes]


def takes_missing(name: str) -> bool:
    """Whether the kind is fed rows with missing values; of scikit-learn's, some versions take them, some do not."""
    return name.startswith(("lgb", "xgb"))


def rows_for(name: str, n_rows: int) -> np.ndarray:
    X = fresh_rows(n_rows)
    return X if takes_missing(name) else np.nan_to_num(X)


@cache
def model(name: str) -> Any:
    kind, (X, signal) = KINDS[name], training()
    return kind.train(X if takes_missing(name) else np.nan_to_num(X), classes_of(signal, kind.n_classes or 2), signal)


def calibrated(name: str, **options: Any) -> rfsize.StopTable:
    """A table on rows that :func:`rows_for` gives to no test."""
    return rfsize.StopTable.calibrate(model(name), rows_for(name, 5000)[3000:], **{"alpha": 0.9, **options})


def own_proba(model: Any, X: Any) -> np.ndarray:
    """Probabilities that the framework predicts, shape (n_rows, n_classes)."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X))
    share = own_predict(model, X)
    return share if share.ndim == 2 else np.stack([1 - share, share], axis=1)


def own_labels(model: Any, X: Any) -> np.ndarray:
    """Labels that the framework predicts, or those of its probabilities."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X))
    share = own_proba(model, X)
    return share.argmax(axis=1) if share.shape[1] > 2 else (own_predict(model, X) > 0.5).astype(int)


def tree_scores(model: Any, X: Any) -> np.ndarray:
    """Scores of each tree alone by the framework, shape (n_rows, n_trees, n_scores); one of two classes."""
    return np.moveaxis(models.single_trees(model, X), 0, 1)


def assert_batches_agree(method: Callable[..., Any], X: np.ndarray) -> None:
    """Rows get the same answers, by the same trees, in batches of every size."""
    expected, trees = method([X[: len(X) // 2], X[len(X) // 2 :]], return_trees=True)  # the way of many rows
    for size in (1, 2, 16, 17, 500, 512, 513):
        for rows in (slice(size), slice(size, 2 * size)):
            actual, n_used = method(X[rows], return_trees=True)
            assert actual.dtype == expected.dtype
            assert np.array_equal(actual, expected[rows])
            assert np.array_equal(method(X[rows]), actual)
            assert np.array_equal(n_used, trees[rows])


def assert_same_bits(actual: np.ndarray, own: np.ndarray, *, is_exact: bool) -> None:
    """Equal, but for the last bits of a link that the mathematics library of the platform rounds."""
    assert (actual.dtype, actual.shape) == (own.dtype, own.shape)
    if own.dtype.kind != "f":
        actual, own, is_exact = (actual != own).astype(float), np.zeros(own.shape), True
    units = np.abs(actual - own) / np.spacing(np.maximum(np.abs(own), 0.25))
    assert units.max() <= (0 if is_exact else 8)


def with_leaves(booster: lgb.Booster | xgb.Booster, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """The booster whose leaves of each tree have other values."""
    if isinstance(booster, lgb.Booster):
        text = re.sub(r"tree_sizes=.*\n", "", booster.model_to_string())
        return lgb.Booster(model_str=re.sub(r"(?m)(?<=^leaf_value=).*", lambda old: _changed(old[0], change), text))
    document = json.loads(booster.save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        values = np.array(tree["split_conditions"])
        is_leaf = np.array(tree["left_children"]) == -1
        values[is_leaf] = change(values[is_leaf])
        tree["split_conditions"] = values.tolist()
    return xgb.Booster(model_file=bytearray(json.dumps(document).encode()))


def _changed(numbers: str, change: Callable[[np.ndarray], np.ndarray]) -> str:
    return " ".join(map(repr, change(np.array(numbers.split(), dtype=float)).tolist()))
