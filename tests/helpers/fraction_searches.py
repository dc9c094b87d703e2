"""Searches for the bagging fraction on a part of the data."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import rfsize
from helpers.forests import LIGHTGBM, Data
from rfsize.training.bagging_fraction import select_bagging_fraction

GRID = (0.2, 0.45, 0.7)
TREES = 35
ROWS = 400
XGBOOST = {"objective": "binary:logistic", "colsample_bynode": 0.6, "max_depth": 5, "seed": 3}


def given(
    framework: str, X: np.ndarray, y: np.ndarray, weight: Any = None, **params: Any
) -> tuple[dict[str, Any], Any]:
    """Parameters and training data of a framework."""
    if framework == "lightgbm":
        return {**LIGHTGBM, **params}, lgb.Dataset(X, y, weight=weight, free_raw_data=False)
    return {**XGBOOST, **params}, xgb.DMatrix(X, y, weight=weight)


def search(framework: str, data: Data, fractions: Any = GRID, **options: Any) -> rfsize.FractionSearch:
    params, dtrain = given(framework, data.X[:ROWS], data.y[:ROWS])
    return select_bagging_fraction(params, dtrain, fractions=fractions, **{"n_trees": TREES, "rule": "best", **options})


def accuracy(estimator: Any, X: Any, y: Any) -> float:
    return float(np.mean(estimator.predict(X) == y))


def losses(counted: list[rfsize.Votes], y: np.ndarray) -> np.ndarray:
    """Whether the majority errs, on the rows that all forests have votes for."""
    voted = np.all([votes.asked > 0 for votes in counted], axis=0)
    return np.array([(votes.winner() != y)[voted] for votes in counted], dtype=float)


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
