"""Each kind of forest that trains: compiled and read from its file it predicts the same, or it is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
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

import rfsize
from helpers.forests import Data
from rfsize.exceptions import NotAForestError

ROWS = 300
XGBOOST = {
    "n_estimators": 1,
    "num_parallel_tree": 6,
    "max_depth": 4,
    "learning_rate": 1,
    "subsample": 0.632,
    "colsample_bynode": 0.7,
    "random_state": 0,
    "n_jobs": 1,
}
LIGHTGBM = {
    "boosting_type": "rf",
    "n_estimators": 6,
    "num_leaves": 8,
    "subsample": 0.6,
    "subsample_freq": 1,
    "n_jobs": 1,
    "verbose": -1,
}
OF_NUMBERS = {
    "xgboost": (
        *("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror"),
        *("reg:quantileerror", "count:poisson", "reg:tweedie"),
    ),
    "lightgbm": ("regression", "l1", "huber", "fair", "poisson", "quantile", "mape", "tweedie"),
}
OF_CLASSES = {
    "xgboost": {"binary:logistic": 2, "reg:logistic": 2, "multi:softprob": 3, "multi:softmax": 3},
    "lightgbm": {"binary": 2, "multiclass": 3, "multiclassova": 3},
}


def classifier(framework: str, objective: str) -> Any:
    options = {"quantile_alpha": 0.5} if objective == "reg:quantileerror" else {}
    if framework == "xgboost":
        return xgb.XGBClassifier(objective=objective, **XGBOOST, **options)
    return lgb.LGBMClassifier(objective=objective, **LIGHTGBM)


def regressor(framework: str, objective: str) -> Any:
    options = {"quantile_alpha": 0.5} if objective == "reg:quantileerror" else {}
    if framework == "xgboost":
        return xgb.XGBRegressor(objective=objective, **XGBOOST, **options)
    return lgb.LGBMRegressor(objective=objective, **LIGHTGBM)


SKLEARN = {"n_estimators": 6, "max_depth": 4, "random_state": 0}
CLASSIFIERS = {
    **{
        f"{framework} {objective}": (classifier(framework, objective), n_classes)
        for framework, objectives in OF_CLASSES.items()
        for objective, n_classes in objectives.items()
    },
    "random forest": (RandomForestClassifier(**SKLEARN), 3),
    "extra-trees": (ExtraTreesClassifier(**SKLEARN), 2),
    "bagging": (BaggingClassifier(n_estimators=6, random_state=0), 3),
    "AdaBoost": (AdaBoostClassifier(n_estimators=6, random_state=0), 3),
    "threshold": (FixedThresholdClassifier(RandomForestClassifier(**SKLEARN), threshold=0.3), 2),
}
REGRESSORS = {
    **{f"{framework} {name}": regressor(framework, name) for framework, names in OF_NUMBERS.items() for name in names},
    "random forest": RandomForestRegressor(**SKLEARN),
    "bagging": BaggingRegressor(n_estimators=6, random_state=0),
}


def saved(fast: rfsize.CompiledForest, folder: Path) -> rfsize.CompiledForest:
    fast.save(folder / "forest.npz")
    return rfsize.load(folder / "forest.npz")


@pytest.mark.parametrize(("estimator", "n_classes"), CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_classifiers(estimator: Any, n_classes: int, data: Data, tmp_path: Path) -> None:
    model = estimator.fit(data.X[:ROWS], (data.y if n_classes == 2 else data.three)[:ROWS])
    fast = rfsize.compile(model)
    for compiled in (fast, saved(fast, tmp_path)):
        for rows in (data.fresh, data.fresh[:3]):
            assert compiled.predict(rows).tolist() == model.predict(rows).tolist()
            assert compiled.predict_proba(rows) == pytest.approx(model.predict_proba(rows), abs=1e-12)


@pytest.mark.parametrize("estimator", REGRESSORS.values(), ids=REGRESSORS)
def test_regressors(estimator: Any, data: Data, tmp_path: Path) -> None:
    model = estimator.fit(data.X[:ROWS], np.exp(data.X[:ROWS, 0]))
    fast = rfsize.compile(model)
    for compiled in (fast, saved(fast, tmp_path)):
        assert compiled.predict(data.fresh) == pytest.approx(model.predict(data.fresh), rel=1e-6)


def test_probabilities_of_softmax_to_the_last_bit(data: Data) -> None:
    """The estimator takes SciPy's softmax of the margins; with `multi:softprob` XGBoost takes its own."""
    for objective in ("multi:softmax", "multi:softprob"):
        model = xgb.XGBClassifier(objective=objective, **XGBOOST).fit(data.X, data.three)
        fast = rfsize.compile(model)
        for rows in (data.fresh, data.fresh[:1], data.fresh[:16], data.fresh[:17]):
            assert fast.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()


@pytest.mark.parametrize(
    ("framework", "objective"),
    [(framework, objective) for framework, objectives in OF_NUMBERS.items() for objective in objectives],
)
def test_a_classifier_whose_objective_predicts_numbers_is_refused_by_it(
    framework: str, objective: str, data: Data
) -> None:
    model = classifier(framework, objective).fit(data.X[:ROWS], data.y[:ROWS])
    told = {"l1": "regression_l1"}.get(objective, objective)
    for call in (rfsize.compile, lambda model: rfsize.size(model, data.fresh)):
        with pytest.raises(NotAForestError, match=told):
            call(model)
    booster = model.get_booster() if framework == "xgboost" else model.booster_
    own = booster.predict(xgb.DMatrix(data.fresh) if framework == "xgboost" else data.fresh)
    assert rfsize.compile(booster).predict(data.fresh) == pytest.approx(own, rel=1e-6)


def test_a_file_that_could_not_be_read_again_is_not_written(data: Data, tmp_path: Path) -> None:
    """Here leaves whose shares of classes somebody changed to numbers that are no shares."""
    model = RandomForestClassifier(3, random_state=0).fit(data.X, data.y)
    tree = model.estimators_[0].tree_
    tree.value[tree.children_left == -1] *= 2.0
    fast = rfsize.compile(model)
    for compiled in (fast, rfsize.compile([model, model])):
        with pytest.raises(ValueError, match=r"forest\.npz"):
            compiled.save(tmp_path / "forest.npz")
        assert not list(tmp_path.iterdir())
