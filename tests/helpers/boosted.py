"""Boosted classifiers of each framework, and what they predict by their first iterations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier

CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "LightGBM": lambda n: lgb.LGBMClassifier(n_estimators=n, verbosity=-1, subsample=0.8, subsample_freq=1),
    "XGBoost": lambda n: xgb.XGBClassifier(n_estimators=n, max_depth=3),
    "gradient": lambda n: GradientBoostingClassifier(n_estimators=n),
    "histogram": lambda n: HistGradientBoostingClassifier(max_iter=n),
    "AdaBoost": lambda n: AdaBoostClassifier(n_estimators=n),
}
STOPPING = {
    "LightGBM": lambda: lgb.LGBMClassifier(n_estimators=200, verbosity=-1, early_stopping_round=3, learning_rate=0.3),
    "XGBoost": lambda: xgb.XGBClassifier(n_estimators=200, early_stopping_rounds=3),
}


def classifier(name: str, n_trees: int, rows: np.ndarray, y: np.ndarray) -> Any:
    model = CLASSIFIERS[name](n_trees).set_params(random_state=0)
    return model.fit(rows, np.unique(y, return_inverse=True)[1])


def stopped_early(name: str, rows: np.ndarray, y: np.ndarray) -> tuple[Any, int]:
    """A model whose training stopped early, and its best number of iterations."""
    model = STOPPING[name]().set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer versions of LightGBM have another name for eval_set
        model.fit(rows[:300], y[:300], eval_set=[(rows[300:], y[300:])])
    return model, model.best_iteration_ if name == "LightGBM" else model.best_iteration + 1


def by_first_iterations(model: Any, rows: np.ndarray, n_trees: int) -> np.ndarray:
    """Probabilities by the first 1, 2, … iterations, shape (n_rows, n_trees, n_classes)."""
    if hasattr(model, "staged_predict_proba"):
        return np.stack(list(model.staged_predict_proba(rows)), axis=1)

    def first(n: int) -> dict[str, Any]:
        return {"iteration_range": (0, n)} if isinstance(model, xgb.XGBModel) else {"num_iteration": n}

    return np.stack([model.predict_proba(rows, **first(n)) for n in range(1, n_trees + 1)], axis=1)
