"""Small real forests of LightGBM and XGBoost, and what each of their trees says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb

ROWS, TREES = 1500, 61


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    y: np.ndarray
    three: np.ndarray
    fresh: np.ndarray


LIGHTGBM = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.6,
    "num_leaves": 15,
    "seed": 3,
    "verbose": -1,
}

XGBOOST = {
    "objective": "binary:logistic",
    "subsample": 0.632,
    "colsample_bynode": 0.6,
    "eta": 1,
    "max_depth": 5,
    "seed": 3,
}


def train_lightgbm(X: Any, y: Any, trees: int = TREES, dataset: dict[str, Any] | None = None, **params: Any) -> Any:
    return lgb.train({**LIGHTGBM, **params}, lgb.Dataset(X, y, **(dataset or {})), trees)


def train_xgboost(X: Any, y: Any, trees: int = TREES, rounds: int = 1, **params: Any) -> Any:
    settings = {**XGBOOST, "num_parallel_tree": trees, **params}
    return xgb.train(settings, xgb.DMatrix(X, y, enable_categorical=True), rounds)


def predict(model: Any, X: Any) -> np.ndarray:
    """What the framework itself predicts."""
    if isinstance(model, xgb.Booster):
        return model.predict(xgb.DMatrix(X, enable_categorical=True))
    return model.predict(X) if isinstance(model, lgb.Booster) else model.predict_proba(X)[:, 1]


def raw_trees(model: Any, X: Any) -> np.ndarray:
    """Probability of class 1 that each tree alone gives, by the framework's own prediction, (n_trees, n_rows)."""
    if isinstance(model, lgb.Booster):
        return np.stack([model.predict(X, start_iteration=tree, num_iteration=1) for tree in range(model.num_trees())])
    return np.stack([predict(only_tree(model, tree), X) for tree in range(TREES)])


def only_tree(model: xgb.Booster, tree: int, n_classes: int = 1) -> xgb.Booster:
    """An XGBoost forest reduced to one tree (of each class), weighing as much as all of them."""
    document = json.loads(model.save_raw("json"))
    forest = document["learner"]["gradient_booster"]["model"]
    per_class = len(forest["trees"]) // n_classes
    kept = [forest["trees"][per_class * k + tree] for k in range(n_classes)]
    for k, one in enumerate(kept):
        one["id"] = k
        one["split_conditions"] = [
            value * per_class if left == -1 else value
            for value, left in zip(one["split_conditions"], one["left_children"], strict=True)
        ]
    forest.update(trees=kept, tree_info=list(range(n_classes)), iteration_indptr=[0, n_classes])
    forest["gbtree_model_param"].update(num_trees=str(n_classes), num_parallel_tree="1")
    alone = xgb.Booster()
    alone.load_model(bytearray(json.dumps(document).encode()))
    return alone
