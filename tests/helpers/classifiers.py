"""Classifiers of every kind of forest, as `RightSizedClassifier` takes them."""

from __future__ import annotations

from typing import Any

from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier


def lightgbm(**params: Any) -> LGBMClassifier:
    settings = {"subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.6, "num_leaves": 15}
    return LGBMClassifier(boosting_type="rf", **{**settings, "n_jobs": 1, "verbose": -1, **params})


def xgboost(**params: Any) -> XGBClassifier:
    settings = {"n_estimators": 1, "num_parallel_tree": 100, "learning_rate": 1, "subsample": 0.8, "max_depth": 5}
    sampling = {"colsample_bynode": 0.8, "reg_lambda": 1e-5, "random_state": 0}
    return XGBClassifier(**{**settings, **sampling, "n_jobs": 1, **params})


KINDS = {
    "lightgbm": lightgbm(),
    "xgboost": xgboost(),
    "random forest": RandomForestClassifier(random_state=0),
    "extra-trees": ExtraTreesClassifier(random_state=0),
    "bagging": BaggingClassifier(random_state=0),
    "bagging of others": BaggingClassifier(LogisticRegression(), max_samples=0.5, random_state=0),
}
