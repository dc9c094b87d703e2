"""Forests grown by what else than labels they predict: probabilities, numbers, metrics."""

from __future__ import annotations

import re
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import make_scorer

import reference.metrics
import rfsize
from helpers.classifiers import KINDS as CLASSIFIERS
from helpers.forests import LIGHTGBM, XGBOOST, Data
from helpers.regressors import KINDS as REGRESSORS
from helpers.regressors import numbers

ROWS = 500
SCORE: dict[str, Any] = {"metric": "scores", "tolerance": 0.15}
OF_LIGHTGBM = ("regression", "regression_l1", "huber", "quantile", "poisson", "gamma", "tweedie")
OF_XGBOOST = ("reg:squarederror", "count:poisson", "reg:logistic")


def training(framework: str, y: Any, objective: str, data: Data, **params: Any) -> tuple[dict[str, Any], Any]:
    """Parameters and data of a framework's own training."""
    X = data.X[:ROWS]
    if framework == "lightgbm":
        return {**LIGHTGBM, "objective": objective, **params}, lgb.Dataset(X, y[:ROWS], free_raw_data=False)
    return {**XGBOOST, "objective": objective, **params}, xgb.DMatrix(X, y[:ROWS])


def target(objective: str, data: Data) -> np.ndarray:
    y = numbers(data)
    return np.round(3.0 * y) if objective == "count:poisson" else y / (1.0 + y) if objective == "reg:logistic" else y


# Of training, which is to be sure, and knows the labels, by which other metrics are told too.
_OTHERWISE = {"confidence", "beside", "warnings"}

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


def agrees(found: Any, expected: Any) -> bool:
    """Whether a report in training is that of the finished forest, but for how sure it is to be, and for rounding."""
    return all(
        alike(value, expected.to_dict()[name]) for name, value in found.to_dict().items() if name not in _OTHERWISE
    )


def alike(found: Any, expected: Any) -> bool:
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(alike(found[name], expected[name]) for name in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(found, str):  # with numbers in it, as warnings have
        words, numbers = _NUMBER.split(found), [float(one.replace(",", "")) for one in _NUMBER.findall(found)]
        of_expected = [float(one.replace(",", "")) for one in _NUMBER.findall(expected)]
        return words == _NUMBER.split(expected) and numbers == pytest.approx(of_expected, rel=1e-3)
    if isinstance(found, float) or (isinstance(found, int) and found > 1000):
        return bool(found == pytest.approx(expected, rel=1e-3, abs=1e-9))
    return bool(found == expected)


@pytest.mark.parametrize(
    ("framework", "objective"),
    [*(("lightgbm", name) for name in OF_LIGHTGBM), *(("xgboost", name) for name in OF_XGBOOST)],
)
def test_regression_forests_grow_to_their_size(framework: str, objective: str, data: Data) -> None:
    y = target(objective, data)
    params, dtrain = training(framework, y, objective, data)
    tolerance = 0.06 * float(np.std(y[:ROWS]))
    by: dict[str, Any] = {"metric": "scores", "tolerance": tolerance}
    booster, report = rfsize.grow(params, dtrain, **by)
    assert report.enough
    assert report.n_trees <= report._wanted <= report.available
    finished = rfsize.size(booster, data.X[:ROWS], oob=True, **by)
    assert finished.available == report._wanted
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        whole, early = rfsize.grow(
            params, dtrain, max_trees=60, min_trees=20, metric="scores", tolerance=1e-3 * tolerance
        )
    expected = rfsize.size(whole, data.X[:ROWS], oob=True, metric="scores", tolerance=1e-3 * tolerance)
    assert agrees(early, expected)
    assert early._answer._deviations.at(60) == pytest.approx(expected._answer._deviations.at(60), rel=1e-4)
    assert early._answer._deviations._noise == pytest.approx(expected._answer._deviations._noise, rel=1e-3)


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("by", [SCORE, {"metric": "rmse", "tolerance": 0.01}], ids=["score", "rmse"])
def test_the_report_is_that_of_the_finished_regressor(by: dict[str, Any], kind: str, data: Data) -> None:
    X, y = data.X[:ROWS], numbers(data)[:ROWS]
    hard = {**by, "tolerance": 1e-3 * by["tolerance"]}
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        grown, report = rfsize.grow(clone(REGRESSORS[kind]), X, y, max_trees=120, **hard)
    assert agrees(report, rfsize.size(grown, X, y, oob=True, **hard))
    small, report = rfsize.grow(clone(REGRESSORS[kind]), X, y, **by)
    assert report.enough
    assert rfsize.size(small, data.fresh, **SCORE).available == report.n_kept


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest", "bagging"])
@pytest.mark.parametrize(
    "by",
    [
        {"metric": "probabilities", "tolerance": 1e-3},
        {"metric": "scores", "tolerance": 1e-3},
        {"metric": "auc", "tolerance": 1e-7},
        {"metric": "neg_brier_score", "tolerance": 1e-7},
    ],
    ids=lambda by: by["metric"],
)
def test_the_report_is_that_of_the_finished_classifier(by: dict[str, Any], kind: str, data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        grown, report = rfsize.grow(clone(CLASSIFIERS[kind]), X, y, max_trees=120, **by)
    assert agrees(report, rfsize.size(grown, X, y, oob=True, **by))


@pytest.mark.parametrize(("metric", "tolerance"), [("probabilities", 0.1), ("log_loss", 0.02)])
def test_several_classes(metric: str, tolerance: float, framework: str, data: Data) -> None:
    by: dict[str, Any] = {"metric": metric, "tolerance": tolerance}
    objective = "multiclass" if framework == "lightgbm" else "multi:softprob"
    params, dtrain = training(framework, data.three, objective, data, num_class=3)
    booster, report = rfsize.grow(params, dtrain, **by)
    assert report.enough
    assert rfsize.tree_outputs(booster, data.fresh).votes.n_trees == report._wanted
    hard = {**by, "tolerance": 1e-3 * by["tolerance"]}
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        booster, report = rfsize.grow(params, dtrain, max_trees=120, **hard)
    expected = rfsize.size(booster, data.X[:ROWS], data.three[:ROWS], oob=True, **hard)
    # Deviations of several classes are those of a few draws on each row, and of what training tells of each class.
    assert agrees(report, expected) or metric == "probabilities"
    assert report.n_trees == pytest.approx(expected.n_trees, rel=0.03)


@pytest.mark.parametrize("named", ["auc", "a scorer"])
def test_validation_rows_and_their_truth(named: str, framework: str, data: Data) -> None:
    metric: Any = named
    if named == "a scorer":  # of a metric that does not take milliseconds a call, as scikit-learn's own do
        metric = make_scorer(reference.metrics.auc, response_method="predict_proba")
    params, dtrain = training(framework, data.y, "binary" if framework == "lightgbm" else "binary:logistic", data)
    X_val, y_val = data.X[ROWS:], data.y[ROWS:]
    by: dict[str, Any] = {"metric": metric, "tolerance": 0.004}
    booster, report = rfsize.grow(params, dtrain, **by, validation=(X_val, y_val))
    assert (report.source, report.n_rows) == ("rows given", len(X_val))
    assert report.enough
    assert rfsize.tree_outputs(booster, X_val).votes.n_trees == report._wanted
    with pytest.raises(ValueError, match="y is missing"):
        rfsize.grow(params, dtrain, **by, validation=X_val)[0]
    with pytest.raises(ValueError, match="1000 expected, 10 found"):
        rfsize.grow(params, dtrain, **by, validation=(X_val, y_val[:10]))[0]


def test_training_goes_on_where_too_few_trees_tell_a_metric(framework: str, data: Data) -> None:
    """A third of ten trees are asked about a row, and a metric takes twenty."""
    params, dtrain = training(framework, data.y, "binary" if framework == "lightgbm" else "binary:logistic", data)
    _, report = rfsize.grow(params, dtrain, min_trees=10, metric="auc", tolerance=0.05)
    assert report.enough
    assert 20 <= report.votes_per_row < 60
    with pytest.raises(rfsize.exceptions.FewVotesError, match="train at least"):
        rfsize.grow(params, dtrain, min_trees=10, max_trees=20, metric="auc", tolerance=0.05)


def test_a_finished_regression_forest_takes_more_trees(data: Data) -> None:
    X, y = data.X[:ROWS], numbers(data)[:ROWS]
    forest = RandomForestRegressor(20, max_depth=5, random_state=0).fit(X, y)
    more, report = rfsize.grow(forest, X, y, metric="scores", tolerance=0.08)
    assert len(more.estimators_) == report._wanted > 20 == len(forest.estimators_)
    assert np.array_equal(more.estimators_[3].predict(X), forest.estimators_[3].predict(X))
    assert rfsize.size(more, X, oob=True, metric="scores", tolerance=0.08).enough


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        ("regression", {"alpha": 0.9}, "cast no votes"),
        ("regression", {"metric": "scores"}, "needs a tolerance"),
        ("regression", {"metric": "probabilities", "tolerance": 0.1}, "is for classification"),
        ("regression", {"metric": "auc", "tolerance": 0.1}, "does not fit a regression forest: take one of rmse"),
        ("regression", {**SCORE, "alpha": 0.9}, "alpha would have no effect"),
        ("regression", {**SCORE, "confidence": 0.3}, "confidence must be at least 0.5"),
        ("binary", {"metric": "auc"}, "needs a tolerance"),
        ("binary", {"tolerance": 0.1}, "tolerance would have no effect"),
        ("binary", {"metric": "rmse", "tolerance": 0.1}, "does not fit a classification forest: take one of log_loss"),
        ("binary", {"metric": "nearness", "tolerance": 0.1}, "metric must be one of"),
        ("three", {"metric": "scores", "tolerance": 0.1}, "of several classes is not known during training"),
        ("three", {"metric": "auc", "tolerance": 0.1}, "is for two classes"),
    ],
)
def test_refusals(objective: str, options: dict[str, Any], message: str, framework: str, data: Data) -> None:
    names = {
        "lightgbm": {"regression": "regression", "binary": "binary", "three": "multiclass"},
        "xgboost": {"regression": "reg:squarederror", "binary": "binary:logistic", "three": "multi:softprob"},
    }
    y = {"regression": numbers(data), "binary": data.y, "three": data.three}[objective]
    several = {"num_class": 3} if objective == "three" else {}
    params, dtrain = training(framework, y, names[framework][objective], data, **several)
    with pytest.raises(ValueError, match=message):
        rfsize.grow(params, dtrain, max_trees=120, **options)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest"])
def test_scores_of_several_classes_are_not_told_to_estimators_either(kind: str, data: Data) -> None:
    with pytest.raises(ValueError, match="of several classes is not known during training"):
        rfsize.grow(clone(CLASSIFIERS[kind]), data.X, data.three, metric="scores", tolerance=0.1)


def test_names_of_classes_do_not_matter(data: Data) -> None:
    forest, by = RandomForestClassifier(max_depth=4, random_state=0), {"metric": "auc", "tolerance": 0.01}
    reports = []
    for y in (data.y[:ROWS], np.array(["no", "yes"])[data.y[:ROWS]]):
        for options in ({}, {"validation": (data.X[ROWS:], np.unique(y)[data.y[ROWS:]])}):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                report = rfsize.grow(forest, data.X[:ROWS], y, **by, **options)[1]
            assert list(report.loss_at(9, "labels").by_class) == np.unique(y).tolist()
            said = report.to_dict()
            said["beside"]["labels"].pop("by_class")
            reports.append(said)
    assert reports[:2] == reports[2:]
