"""Small real forests of each framework, trained alike and once, and what their trees say by the framework itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from scipy.special import expit, softmax
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.models import single_trees

FRAMEWORKS = ("lightgbm", "xgboost", "sklearn")
LIGHTGBM: dict[str, Any] = {"boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "feature_fraction": 0.7}
LIGHTGBM |= {"num_leaves": 15, "num_threads": 1, "verbose": -1, "seed": 3}
XGBOOST: dict[str, Any] = {"subsample": 0.632, "colsample_bynode": 0.7, "eta": 1, "max_depth": 5, "nthread": 1}
XGBOOST |= {"seed": 3}
OBJECTIVES = {
    "lightgbm": {0: "regression", 2: "binary", 3: "multiclass"},
    "xgboost": {0: "reg:squarederror", 2: "binary:logistic", 3: "multi:softprob"},
}


def problem(n_rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of six columns, and their truth: two or three classes, or a number."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=n_rows)
    return X, {"two": (signal > 0.3).astype(int), "three": np.digitize(signal, [-0.5, 0.7]), "number": signal}


X, Y = problem(600, 7)
FRESH, TRUTH = problem(800, 8)


@cache
def model(framework: str, task: str = "two", n_trees: int = 60) -> Any:
    """A forest trained on X and ``Y[task]``; shared, so it must not be changed."""
    return train(framework, X, Y[task], n_trees)


def params_for(framework: str, y: np.ndarray, **params: Any) -> dict[str, Any]:
    """Parameters of a forest of LightGBM or XGBoost: numbers are regressed, whole numbers are classes."""
    n_classes = 0 if y.dtype.kind == "f" else len(np.unique(y))
    several = {"num_class": n_classes} if n_classes > 2 else {}
    objective = OBJECTIVES[framework][min(n_classes, 3)]
    return {**(LIGHTGBM if framework == "lightgbm" else XGBOOST), "objective": objective, **several, **params}


def data_for(framework: str, X: Any, y: Any, weight: Any = None) -> Any:
    """The training data of LightGBM or XGBoost."""
    if framework == "lightgbm":
        return lgb.Dataset(X, y, weight=weight, free_raw_data=False)
    return xgb.DMatrix(X, y, weight=weight, enable_categorical=True)


def train(framework: str, X: Any, y: Any, n_trees: int = 60, *, weight: Any = None, **params: Any) -> Any:
    if framework == "sklearn":
        kind = RandomForestRegressor if y.dtype.kind == "f" else RandomForestClassifier
        return kind(n_trees, **{"min_samples_leaf": 5, "random_state": 3, **params}).fit(X, y, weight)
    settings, data = params_for(framework, y, **params), data_for(framework, X, y, weight)
    if framework == "lightgbm":
        return lgb.train(settings, data, n_trees)
    return xgb.train({"num_parallel_tree": n_trees, **settings}, data, 1)


def predicted(model: Any, X: Any) -> np.ndarray:
    """The framework's own: numbers, or the probability of each class."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    probability = np.asarray(model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X), dtype=float)
    return np.column_stack([1.0 - probability, probability]) if is_of_two_classes(model) else probability


def is_of_two_classes(model: Any) -> bool:
    if isinstance(model, lgb.Booster):
        return model.dump_model(num_iteration=1)["objective"].split()[0] == "binary"
    return isinstance(model, xgb.Booster) and '"binary:' in model.save_config()


def tree_scores(model: Any, X: Any) -> np.ndarray:
    """What each tree alone scores, shape (n_rows, n_trees, n_scores): raw scores, or probabilities of scikit-learn."""
    if isinstance(model, lgb.Booster | xgb.Booster):
        return np.moveaxis(single_trees(model, X), 0, 1)
    scores = [getattr(tree, "predict_proba", tree.predict)(X) for tree in model.estimators_]
    return np.stack([score.reshape(len(X), -1) for score in scores], axis=1)


def probabilities(model: Any, mean: np.ndarray) -> np.ndarray:
    """Of each class, from mean scores of shape (n_rows, n_scores); of a booster with a logistic link or softmax."""
    if not isinstance(model, lgb.Booster | xgb.Booster):
        return mean
    return softmax(mean, axis=1) if mean.shape[1] > 1 else np.column_stack([expit(-mean), expit(mean)])


def n_trees_of(forest: Any) -> int:
    return rfsize.tree_outputs(forest, FRESH[:2]).n_trees
