"""Small real models of every kind, good and bad ones, each trained once when a test first takes it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rfsize

ROWS, TREES = 300, 40
LIGHTGBM: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1}
LIGHTGBM |= {"feature_fraction": 0.8, "num_leaves": 7, "num_threads": 1, "verbosity": -1, "seed": 3}
XGBOOST: dict[str, Any] = {"objective": "binary:logistic", "num_parallel_tree": TREES, "subsample": 0.632}
XGBOOST |= {"learning_rate": 1, "max_depth": 3, "nthread": 1, "seed": 3}
WRAPPER: dict[str, Any] = {"boosting_type": "rf", "n_estimators": TREES, "subsample": 0.632, "subsample_freq": 1}
WRAPPER |= {"num_leaves": 7, "colsample_bytree": 0.8, "n_jobs": 1, "verbose": -1, "random_state": 3}
ONE_ROUND: dict[str, Any] = {"n_estimators": 1, "num_parallel_tree": TREES, "subsample": 0.632, "learning_rate": 1}
ONE_ROUND |= {"max_depth": 3, "n_jobs": 1, "random_state": 3}
SHALLOW: dict[str, Any] = {"n_estimators": TREES, "max_depth": 4, "random_state": 3}
THREE_CLASSES = {"objective": "multiclass", "num_class": 3}


class Kinds:
    """Training rows, fresh rows, and a model of each kind.

    Parameters
    ----------
    folder : Path
        Where files may be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self.X, self.fresh = rng.normal(size=(ROWS, 4)), rng.normal(size=(ROWS // 2, 4))
        score = self.X[:, 0] + self.X[:, 1] + rng.normal(size=ROWS)
        self.y, self.three, self.number = (score > 0).astype(int), np.digitize(score, [-1, 1]), score
        self.fresh_y = (self.fresh[:, 0] + self.fresh[:, 1] > 0).astype(int)
        self.weights = rng.uniform(0.5, 2, size=ROWS)
        self.frame = pd.DataFrame(self.X, columns=list("abcd"))

    def train_lightgbm(self, y: Any = None, X: Any = None, n_trees: int = TREES, **params: Any) -> lgb.Booster:
        data = lgb.Dataset(self.X if X is None else X, self.y if y is None else y)
        return lgb.train(LIGHTGBM | params, data, n_trees)

    def train_xgboost(self, y: Any = None, X: Any = None, weight: Any = None, rounds: int = 1, **params: Any) -> Any:
        data = xgb.DMatrix(self.X if X is None else X, self.y if y is None else y, weight=weight)
        return xgb.train(XGBOOST | params, data, rounds)

    # Forests

    @cached_property
    def lightgbm(self) -> lgb.Booster:
        return self.train_lightgbm()

    @cached_property
    def lightgbm_named(self) -> lgb.Booster:
        return self.train_lightgbm(X=self.frame)

    @cached_property
    def lightgbm_three(self) -> lgb.Booster:
        return self.train_lightgbm(self.three, **THREE_CLASSES)

    @cached_property
    def lightgbm_regression(self) -> lgb.Booster:
        return self.train_lightgbm(self.number, objective="regression")

    @cached_property
    def lightgbm_classifier(self) -> Any:
        return lgb.LGBMClassifier(**WRAPPER).fit(self.X, self.y)

    @cached_property
    def lightgbm_regressor(self) -> Any:
        return lgb.LGBMRegressor(**WRAPPER).fit(self.X, self.number)

    @cached_property
    def xgboost(self) -> xgb.Booster:
        return self.train_xgboost()

    @cached_property
    def xgboost_three(self) -> xgb.Booster:
        return self.train_xgboost(self.three, objective="multi:softprob", num_class=3)

    @cached_property
    def xgboost_regression(self) -> xgb.Booster:
        return self.train_xgboost(self.number, objective="reg:squarederror")

    @cached_property
    def xgboost_weighted(self) -> xgb.Booster:
        return self.train_xgboost(weight=self.weights)

    @cached_property
    def xgboost_loaded(self) -> xgb.Booster:
        """Its file keeps neither seed nor subsample."""
        loaded = xgb.Booster()
        loaded.load_model(self.xgboost.save_raw("json"))
        return loaded

    @cached_property
    def xgboost_classifier(self) -> Any:
        return xgb.XGBClassifier(**ONE_ROUND).fit(self.X, self.y)

    @cached_property
    def xgboost_regressor(self) -> Any:
        return xgb.XGBRegressor(**ONE_ROUND).fit(self.X, self.number)

    @cached_property
    def random_forest(self) -> Any:
        return RandomForestClassifier(**SHALLOW).fit(self.X, self.y)

    @cached_property
    def random_forest_regressor(self) -> Any:
        return RandomForestRegressor(**SHALLOW).fit(self.X, self.number)

    @cached_property
    def extra_trees(self) -> Any:
        """Every tree sees every row."""
        return ExtraTreesClassifier(**SHALLOW).fit(self.X, self.three)

    @cached_property
    def extra_trees_bootstrap(self) -> Any:
        return ExtraTreesClassifier(**SHALLOW, bootstrap=True).fit(self.X, self.three)

    @cached_property
    def bagging(self) -> Any:
        return BaggingClassifier(n_estimators=TREES, random_state=3).fit(self.X, self.y)

    @cached_property
    def bagging_neighbours(self) -> Any:
        return BaggingClassifier(KNeighborsClassifier(), n_estimators=TREES, random_state=3).fit(self.X, self.y)

    # What rfsize itself made

    @cached_property
    def compiled(self) -> Any:
        return rfsize.compile(self.lightgbm)

    @cached_property
    def compiled_regression(self) -> Any:
        return rfsize.compile(self.xgboost_regression)

    @cached_property
    def right_sized(self) -> Any:
        forest = RandomForestClassifier(max_depth=4, random_state=3)
        return rfsize.RightSizedClassifier(forest, alpha=0.9, max_trees=200).fit(self.X, self.y)

    @cached_property
    def right_sized_regressor(self) -> Any:
        forest = RandomForestRegressor(max_depth=4, random_state=3)
        return rfsize.RightSizedRegressor(forest, tolerance=0.3, max_trees=200).fit(self.X, self.number)

    # No forests

    @cached_property
    def lightgbm_boosted(self) -> lgb.Booster:
        return self.train_lightgbm(boosting="gbdt", n_trees=5)

    @cached_property
    def xgboost_boosted(self) -> xgb.Booster:
        return self.train_xgboost(rounds=3, num_parallel_tree=1)

    @cached_property
    def adaboost(self) -> Any:
        return AdaBoostClassifier(n_estimators=5, random_state=3).fit(self.X, self.y)

    @cached_property
    def gradient_boosting(self) -> Any:
        return GradientBoostingClassifier(n_estimators=5, random_state=3).fit(self.X, self.y)

    @cached_property
    def histogram_boosting(self) -> Any:
        return HistGradientBoostingClassifier(max_iter=5, random_state=3).fit(self.X, self.y)

    @cached_property
    def logistic_regression(self) -> Any:
        return LogisticRegression().fit(self.X, self.y)

    @cached_property
    def pipeline(self) -> Any:
        return make_pipeline(StandardScaler(), RandomForestClassifier(**SHALLOW)).fit(self.X, self.y)

    @cached_property
    def unfitted(self) -> Any:
        return RandomForestClassifier(**SHALLOW)

    @cached_property
    def unfitted_lightgbm(self) -> Any:
        return lgb.LGBMClassifier(**WRAPPER)

    @cached_property
    def text(self) -> Any:
        return "model.txt"

    @cached_property
    def nothing(self) -> Any:
        return None
