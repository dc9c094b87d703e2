"""Regressors of every kind of forest, as `RightSizedRegressor` takes them, and numbers to predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from xgboost import XGBRegressor

from helpers.forests import Data


def lightgbm(**params: Any) -> LGBMRegressor:
    settings = {"subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.6, "num_leaves": 15}
    return LGBMRegressor(boosting_type="rf", **{**settings, "n_jobs": 1, "verbose": -1, **params})


def xgboost(**params: Any) -> XGBRegressor:
    settings = {"n_estimators": 1, "num_parallel_tree": 100, "learning_rate": 1, "subsample": 0.632, "max_depth": 5}
    sampling = {"colsample_bynode": 0.8, "reg_lambda": 1e-5, "random_state": 0}
    return XGBRegressor(**{**settings, **sampling, "n_jobs": 1, **params})


KINDS = {
    "lightgbm": lightgbm(),
    "xgboost": xgboost(),
    "random forest": RandomForestRegressor(max_depth=6, random_state=0),
    "extra-trees": ExtraTreesRegressor(max_depth=6, bootstrap=True, random_state=0),
    "bagging": BaggingRegressor(max_samples=0.5, random_state=0),
    "neighbours": BaggingRegressor(KNeighborsRegressor(), max_samples=0.5, random_state=0),
}


def numbers(data: Data) -> np.ndarray:
    """Numbers above 0, with noise."""
    noise = 0.2 * np.random.default_rng(1).normal(size=len(data.X))
    return np.exp(0.4 * data.X[:, 0] + 0.3 * data.X[:, 1] * data.X[:, 2] + noise)
