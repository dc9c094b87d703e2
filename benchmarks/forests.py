"""The forests that several benchmarks train, with their usual settings."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

BAGGED = {
    "5-NN, bagged": KNeighborsClassifier(),
    "logistic regression, bagged": make_pipeline(StandardScaler(), LogisticRegression()),
    "perceptron, bagged": make_pipeline(StandardScaler(), Perceptron()),
    "stumps, bagged": DecisionTreeClassifier(max_depth=1),
}
FRAMEWORKS = ("LightGBM", "XGBoost", "XGBoost, vector leaves", "random forest", "extra-trees", *BAGGED)

# Trees on all features, grown until each leaf has one class.
UNPRUNED: dict[str, dict[str, Any]] = {
    "LightGBM": {
        "boosting": "rf",
        "bagging_freq": 1,
        "num_leaves": 4096,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 0.0,
        "min_data_in_bin": 1,
        "max_bin": 511,
        "verbosity": -1,
    },
    "XGBoost": {"max_depth": 0, "min_child_weight": 0.0, "reg_lambda": 1e-6, "max_bin": 512},
}


def prepared(framework: str, X: np.ndarray, y: np.ndarray, seed: int, **more: Any) -> tuple[dict[str, Any], Any]:
    """Parameters and training data of unpruned trees, with LightGBM or XGBoost."""
    n_classes = int(y.max()) + 1
    params = {**UNPRUNED[framework], **more, "seed": seed}
    if framework == "LightGBM":
        objective = {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
        return params | objective, lgb.Dataset(X, y, params={"verbosity": -1}, free_raw_data=False)
    objective = {"objective": "binary:logistic"}
    if n_classes > 2:
        # One tree, and so one bag, for all classes.
        objective = {"objective": "multi:softprob", "num_class": n_classes, "multi_strategy": "multi_output_tree"}
    return params | objective, xgb.DMatrix(X, y)


def forest(framework: str, n_trees: int, seed: int, columns: float) -> Any:
    """An untrained forest with the usual settings of a random forest; LightGBM samples ``columns`` by tree."""
    if framework in BAGGED:
        return BaggingClassifier(BAGGED[framework], n_trees, random_state=seed)
    if framework == "random forest":
        return RandomForestClassifier(n_trees, random_state=seed)
    if framework == "extra-trees":
        return ExtraTreesClassifier(n_trees, bootstrap=True, random_state=seed)
    if framework == "LightGBM":
        return LGBMClassifier(
            boosting_type="rf",
            n_estimators=n_trees,
            subsample=0.632,
            subsample_freq=1,
            colsample_bytree=columns,
            min_child_samples=5,
            random_state=seed,
            n_jobs=1,
            verbose=-1,
        )
    return XGBClassifier(
        n_estimators=1,
        num_parallel_tree=n_trees,
        learning_rate=1.0,
        subsample=0.632,
        colsample_bynode=0.2,
        reg_lambda=1e-5,
        max_depth=10,
        random_state=seed,
        n_jobs=1,
        multi_strategy="multi_output_tree" if framework == "XGBoost, vector leaves" else None,
    )


def train_lightgbm(X: np.ndarray, y: np.ndarray, trees: int, leaves: int, **objective: Any) -> Any:
    params: dict[str, Any] = {
        "objective": "binary",
        "boosting": "rf",
        "bagging_fraction": 0.632,
        "bagging_freq": 1,
        "feature_fraction_bynode": 0.5,
        "num_leaves": leaves,
        "verbose": -1,
        "seed": 1,
        **objective,
    }
    return lgb.train(params, lgb.Dataset(X, y), trees)


def train_xgboost(X: np.ndarray, y: np.ndarray, trees: int, leaves: int, **objective: Any) -> Any:
    params: dict[str, Any] = {
        "objective": "binary:logistic",
        "num_parallel_tree": trees,
        "subsample": 0.632,
        "colsample_bynode": 0.5,
        "eta": 1.0,
        "max_depth": 0,
        "max_leaves": leaves,
        "grow_policy": "lossguide",
        "seed": 1,
        **objective,
    }
    return xgb.train(params, xgb.QuantileDMatrix(X, y), 1)
