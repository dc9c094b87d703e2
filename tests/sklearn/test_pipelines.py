"""Pipelines: their steps transform the rows, the last step is sized and cut, and what is cut is a pipeline again."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder
from xgboost import XGBClassifier

import rfsize
from rfsize.sklearn import RightSizedClassifier

N_TRAIN = 400
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(1000, 3)), columns=["age", "fare", "size"])
X["city"] = pd.Series(RNG.choice(["rome", "oslo", "bonn"], len(X))).astype("category")
Y = ((X["age"] + X["fare"] + (X["city"] == "oslo") + RNG.normal(size=len(X)) / 2) > 0).to_numpy().astype(int)
X.loc[::17, "age"] = np.nan
TRAIN, NEW, OF_TRAIN, OF_NEW = X[:N_TRAIN], X[N_TRAIN:], Y[:N_TRAIN], Y[N_TRAIN:]

LAST = {
    "scikit-learn": RandomForestClassifier(60, random_state=0),
    "LightGBM": LGBMClassifier(boosting_type="rf", n_estimators=60, subsample=0.5, subsample_freq=1, verbose=-1),
    "XGBoost": XGBClassifier(
        n_estimators=1, num_parallel_tree=60, learning_rate=1, subsample=0.5, colsample_bynode=0.6, random_state=0
    ),
}
FOREST = LAST["scikit-learn"]


def steps() -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_column_transformer(
        (numbers, ["age", "fare", "size"]), (OneHotEncoder(sparse_output=False), ["city"])
    ).set_output(transform="pandas")


@cache
def fitted(*last: Any) -> Any:
    return clone(make_pipeline(steps(), *last)).fit(TRAIN, OF_TRAIN)


@pytest.fixture(params=LAST)
def pipeline(request: pytest.FixtureRequest) -> Any:
    return fitted(LAST[request.param])


def test_outputs_are_those_of_the_last_step(pipeline: Any) -> None:
    last, rows = pipeline[-1], pipeline[:-1].transform(NEW)
    assert rfsize.tree_outputs(pipeline, NEW).votes == rfsize.tree_outputs(last, rows).votes
    rows = pipeline[:-1].transform(TRAIN)
    assert np.array_equal(rfsize.inbag(pipeline, TRAIN), rfsize.inbag(last, rows))
    score = rfsize.oob_score(pipeline, TRAIN, OF_TRAIN, metric="auc")
    assert score.value == rfsize.oob_score(last, rows, OF_TRAIN, metric="auc").value
    options = {"oob": True, "alpha": 0.9}
    assert rfsize.size(pipeline, TRAIN, **options).n_trees == rfsize.size(last, rows, **options).n_trees


def test_what_is_cut_is_a_pipeline_and_the_other_does_not_change(pipeline: Any) -> None:
    before = pickle.dumps(pipeline)
    small = rfsize.truncate(pipeline, n_trees=7)
    shrunk, report = rfsize.shrink(pipeline, NEW, alpha=0.9)
    assert rfsize.truncate(pipeline, max_bytes=10**8).predict(NEW).tolist() == pipeline.predict(NEW).tolist()
    own = rfsize.truncate(pipeline[-1], n_trees=7)
    assert small.predict(NEW).tolist() == own.predict(pipeline[:-1].transform(NEW)).tolist()
    assert isinstance(shrunk, Pipeline)
    assert rfsize.compile(shrunk[-1]).n_trees == report.n_kept
    small.fit(NEW.assign(age=9.0), OF_NEW)
    assert pickle.dumps(pipeline) == before


def test_table_stops_rows_of_the_last_step(pipeline: Any) -> None:
    table = rfsize.StopTable.calibrate(pipeline, NEW, alpha=0.9)
    fast = rfsize.compile(pipeline[-1], table)
    labels, n_used = fast.predict(pipeline[:-1].transform(NEW), return_trees=True)
    assert (labels == pipeline.predict(NEW)).mean() >= 0.9
    assert n_used.mean() < 60


def test_model_may_lie_deeper() -> None:
    deep = fitted("passthrough", make_pipeline(StandardScaler(), FOREST))
    outputs = rfsize.tree_outputs(deep, NEW)
    assert rfsize.truncate(outputs, alpha=0.9)[-1][0] is not deep[-1][0]
    assert rfsize.truncate(deep, n_trees=3)[-1][-1].n_estimators == 3
    alone = make_pipeline(clone(FOREST)).fit(NEW[["fare"]], OF_NEW)
    assert rfsize.truncate(alone, n_trees=2).predict(NEW[["fare"]]).shape == OF_NEW.shape
    cut = FixedThresholdClassifier(fitted(FOREST), threshold=0.3).fit(TRAIN, OF_TRAIN)
    inside = fitted(FixedThresholdClassifier(FOREST, threshold=0.3))
    assert rfsize.tree_outputs(cut, NEW).votes == rfsize.tree_outputs(inside, NEW).votes
    small, other = (rfsize.truncate(model, n_trees=3) for model in (cut, inside))
    assert small.predict(NEW).tolist() == other.predict(NEW).tolist()
    grown = fitted(RightSizedClassifier(FOREST, alpha=0.9))
    assert isinstance(rfsize.truncate(grown, n_trees=2)[-1], RightSizedClassifier)


def test_boosted_trees_at_the_end() -> None:
    boosted = fitted(GradientBoostingClassifier(n_estimators=40, random_state=0))
    small = rfsize.truncate(boosted, NEW, alpha=0.9)
    assert small[-1].n_estimators < 40
    assert (small.predict(NEW) == boosted.predict(NEW)).mean() >= 0.9


ENCODED = make_pipeline(make_column_transformer((TargetEncoder(), ["city"]), ("passthrough", ["fare"])), FOREST)
SEARCH = GridSearchCV(LAST["scikit-learn"], {"max_features": [1]}, cv=2)
REFUSED = {
    "ends with no model": (lambda: rfsize.size(fitted("passthrough"), NEW), "passthrough"),
    "ends with a step": (lambda: rfsize.size(fitted(StandardScaler()), NEW), "StandardScaler"),
    "unfitted": (lambda: rfsize.size(make_pipeline(steps(), RandomForestClassifier()), NEW), "not fitted"),
    "unfitted step": (lambda: rfsize.size(make_pipeline(steps(), fitted(FOREST)[-1]), NEW), "steps"),
    "a column is missing": (lambda: rfsize.size(fitted(FOREST), NEW[["age", "city"]]), "fare"),
    "made rows": (lambda: rfsize.size(fitted(FOREST), fitted(FOREST)[:-1].transform(NEW)), "steps"),
    "rows in pieces": (lambda: rfsize.size(fitted(FOREST), [NEW[:50], NEW[50:]]), "pieces"),
    "compile": (lambda: rfsize.compile(fitted(FOREST)), r"pipeline\[-1\]"),
    "grow": (lambda: rfsize.grow(make_pipeline(steps(), RandomForestClassifier()), TRAIN, OF_TRAIN), "RightSized"),
    "add trees": (lambda: rfsize.grow(fitted(FOREST), TRAIN, OF_TRAIN), r"pipeline\[-1\]"),
    "cv": (lambda: rfsize.tree_outputs(make_pipeline(steps(), LAST["XGBoost"]), X, Y, cv=2), "Pipeline"),
    "other rows in training": (lambda: rfsize.size(ENCODED.fit(TRAIN, OF_TRAIN), TRAIN, oob=True), "training rows"),
    "search": (lambda: rfsize.size(SEARCH, NEW), "best_estimator_"),
    "calibration": (lambda: rfsize.size(CalibratedClassifierCV(fitted(FOREST)), NEW), "calibrated_classifiers_"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_says_what_to_do(case: str) -> None:
    call, named = REFUSED[case]
    with pytest.raises(ValueError, match=named):
        call()
