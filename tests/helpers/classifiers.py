"""Classifiers of every kind of forest, as `RightSizedClassifier` takes them."""

from __future__ import annotations

from typing import Any

from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from xgboost import XGBRFClassifier


def lightgbm(**params: Any) -> LGBMClassifier:
    settings = {"subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.6, "num_leaves": 15}
    return LGBMClassifier(boosting_type="rf", **{**settings, "n_jobs": 1, "verbose": -1, **params})


def xgboost(**params: Any) -> XGBRFClassifier:
    return XGBRFClassifier(**{"n_jobs": 1, "max_depth": 5, "random_state": 0, **params})


KINDS = {
    "lightgbm": lightgbm(),
    "xgboost": xgboost(),
    "random forest": RandomForestClassifier(random_state=0),
    "extra-trees": ExtraTreesClassifier(random_state=0),
    "bagging": BaggingClassifier(random_state=0),
    "bagging of others": BaggingClassifier(LogisticRegression(), max_samples=0.5, random_state=0),
}
