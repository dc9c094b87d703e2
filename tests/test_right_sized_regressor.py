"""RightSizedRegressor over every kind of forest, in scikit-learn's own checks and tools."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer, median_absolute_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from xgboost import XGBRegressor

import rfsize
from helpers.classifiers import KINDS as CLASSIFIERS
from helpers.forests import Data
from helpers.regressors import KINDS, lightgbm, numbers, xgboost
from helpers.reports import same
from helpers.sklearn_checks import WEIGHTS_AS_COPIES, failed_checks, passed_checks
from rfsize import RightSizedClassifier, RightSizedRegressor
from rfsize.counting.scores import Scores

ROWS = 500
OOB_OR_CV: list[dict[str, Any]] = [{}, {"cv": 2}]


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def fitted(estimator: Any, data: Data, tolerance: float | None = 0.1, **options: Any) -> RightSizedRegressor:
    fit = {name: options.pop(name) for name in ("sample_weight", "groups") if name in options}
    model = RightSizedRegressor(estimator, tolerance=tolerance, **options)
    return model.fit(data.X[:ROWS], numbers(data)[:ROWS], **fit)


# ---------------------------------------------------------------------------------------------------------
# scikit-learn's own checks


def for_checks(estimator: Any) -> RightSizedRegressor:
    counted_as = "num_parallel_tree" if isinstance(estimator, XGBRegressor) else "n_estimators"
    estimator = clone(estimator).set_params(**{counted_as: 6})
    if isinstance(estimator, LGBMRegressor):
        # Rows by the dozen: with its own bounds LightGBM splits no node, and predicts the mean only.
        estimator.set_params(min_child_samples=1, min_data_in_bin=1)
    return RightSizedRegressor(estimator, max_trees=6, min_trees=6)


def test_scikit_learns_checks(kind: Any) -> None:
    """All pass, but for those that the forest alone does not pass either."""
    model = for_checks(kind)
    failed = failed_checks(model)
    assert failed <= WEIGHTS_AS_COPIES | {"check_regressors_train"}
    assert not passed_checks(model.estimator, failed)


def test_tags_are_those_of_the_estimator() -> None:
    for estimator in KINDS.values():
        tags, expected = get_tags(RightSizedRegressor(estimator)), get_tags(estimator)
        # LightGBM before 4.6 does not say what it takes in the way of scikit-learn 1.6.
        assert tags.input_tags == expected.input_tags or isinstance(estimator, LGBMRegressor)
        assert tags.estimator_type == "regressor"


# ---------------------------------------------------------------------------------------------------------
# The size


def test_it_is_the_forest_that_grow_grows(kind: Any, data: Data) -> None:
    model = fitted(kind, data)
    X, y = data.X[:ROWS], numbers(data)[:ROWS]
    grown, report = rfsize.grow(
        clone(kind).set_params(**dict.fromkeys(model_counts(kind), 100)), X, y, metric="scores", tolerance=0.1
    )
    assert (model.report_.source, model.oob_refusal_) == ("oob", None)
    assert same(model.report_.to_dict(), report.to_dict())
    assert model.report_.enough
    assert model.n_trees_ == model.report_._wanted == n_trees(model.estimator_, data)
    assert np.array_equal(model.predict(data.fresh), grown.predict(data.fresh))
    assert model.score(X, y) > 0.4


def model_counts(estimator: Any) -> list[str]:
    return ["num_parallel_tree"] if isinstance(estimator, XGBRegressor) else ["n_estimators"]


def n_trees(forest: Any, data: Data) -> int:
    return rfsize.size(forest, data.fresh, metric="scores", tolerance=1.0).available


def test_the_default_tolerance_is_a_share_of_the_scatter(data: Data) -> None:
    y = numbers(data)[:ROWS]
    model = fitted(lightgbm(), data, None)
    assert model.tolerance_ == model.report_.goal.level == 0.05 * np.std(y)
    assert model.tolerance is None
    in_other_units = RightSizedRegressor(RandomForestRegressor(max_depth=3, random_state=0))
    sizes = [clone(in_other_units).fit(data.X[:ROWS], factor * y).n_trees_ for factor in (1.0, 1024.0)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    constant = RightSizedRegressor(RandomForestRegressor(max_depth=3), min_trees=30).fit(data.X[:60], np.full(60, 2.0))
    assert (constant.tolerance_, constant.n_trees_) == (1.0, 1)


def test_a_smaller_tolerance_takes_more_trees(data: Data) -> None:
    assert fitted(lightgbm(), data, 0.2).n_trees_ < fitted(lightgbm(), data, 0.08).n_trees_


def test_predictions_are_as_near_as_was_asked_for(data: Data) -> None:
    """Next to a forest of another seed that is many times larger."""
    X, y = data.X[:ROWS], numbers(data)[:ROWS]
    forest = RandomForestRegressor(max_depth=6, max_features=0.5, random_state=0)
    model = RightSizedRegressor(forest, tolerance=0.05).fit(X, y)
    limit = clone(forest).set_params(n_estimators=1500, random_state=1).fit(X, y)
    assert np.sqrt(np.mean((model.predict(data.fresh) - limit.predict(data.fresh)) ** 2)) <= 0.05


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(max_depth=4, random_state=1),
        RandomForestRegressor(max_depth=4, bootstrap=False, max_features=0.5, random_state=1),
        ExtraTreesRegressor(max_depth=4, random_state=1),
    ],
)
def test_cross_validated_scores_are_those_of_trees_that_did_not_see_the_row(estimator: Any, data: Data) -> None:
    X, y, weight = data.X[:ROWS], numbers(data)[:ROWS], 1.0 + data.y[:ROWS]
    model = RightSizedRegressor(estimator, tolerance=0.15, cv=3, min_trees=25).fit(X, y, weight)
    trees = model.report_.available
    alone = np.zeros((trees, ROWS, 1))
    for train, held_out in KFold(3).split(X):
        part = clone(estimator).set_params(n_estimators=trees).fit(X[train], y[train], weight[train])
        alone[:, held_out, 0] = [tree.predict(X[held_out]) for tree in part.estimators_]
    scores = Scores.of(alone.transpose(1, 0, 2))
    assert model.report_.source == "cross-validation"
    variance = scores.covariance(0, 0).mean()
    assert model.report_._answer._deviations.at(1).rms ** 2 == pytest.approx(variance, rel=0.03)
    # The forest itself was trained on all rows.
    whole = clone(estimator).set_params(n_estimators=model.n_trees_).fit(X, y, weight)
    assert np.array_equal(model.predict(data.fresh), whole.predict(data.fresh))


def test_without_bootstrap_it_is_cross_validated_and_says_so(data: Data) -> None:
    forest = RandomForestRegressor(max_depth=4, bootstrap=False, max_features=0.5, random_state=1)
    model = fitted(forest, data, 0.15)
    assert model.report_.source == "cross-validation"
    assert "trained on all rows" in model.oob_refusal_
    for name in ("oob_prediction_", "oob_score_"):
        with pytest.raises(AttributeError, match=f"no {name}: .*sized by cross-validation"):
            getattr(model, name)


@pytest.mark.parametrize("where", OOB_OR_CV, ids=str)
def test_too_few_trees_are_warned_of(where: dict[str, Any], data: Data) -> None:
    model = RightSizedRegressor(lightgbm(), tolerance=1e-3, max_trees=40, **where)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="40 trees"):
        model.fit(data.X[:ROWS], numbers(data)[:ROWS])
    assert model.n_trees_ == n_trees(model.estimator_, data) == 40


# ---------------------------------------------------------------------------------------------------------
# By a metric


@pytest.mark.parametrize("where", OOB_OR_CV, ids=str)
@pytest.mark.parametrize("metric", ["r2", "rmse", "neg_median_absolute_error"])
def test_metrics(metric: str, where: dict[str, Any], data: Data) -> None:
    model = fitted(lightgbm(), data, 0.02, metric=metric, **where)
    report = model.report_
    assert isinstance(report, rfsize.Report)
    assert report.goal.name == metric
    assert report.source == ("cross-validation" if where else "oob")
    assert report.enough
    assert report.loss_at(model.n_trees_).value <= 0.02
    assert model.n_trees_ == report._wanted == n_trees(model.estimator_, data)
    assert model.tolerance_ == 0.02


def test_a_scorer_is_as_good_as_its_name(data: Data) -> None:
    named = fitted(xgboost(), data, 0.02, metric="neg_median_absolute_error")
    scorer = make_scorer(median_absolute_error, greater_is_better=False)
    assert fitted(xgboost(), data, 0.02, metric=scorer).n_trees_ == named.n_trees_


def test_weights_count_in_metrics(data: Data) -> None:
    X, y, weight = data.X[:ROWS], numbers(data)[:ROWS], np.where(data.X[:ROWS, 0] > 0, 5.0, 0.2)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        model = fitted(xgboost(), data, 1e-6, metric="rmse", sample_weight=weight, max_trees=120)
    outputs = rfsize.tree_outputs(model.estimator_, X, y, oob=True, sample_weight=weight)
    expected = rfsize.size(outputs, metric="rmse", tolerance=1e-6)
    assert model.report_._answer.now == pytest.approx(expected._answer.now)
    assert model.report_.n_trees == pytest.approx(expected.n_trees, rel=1e-3)


# ---------------------------------------------------------------------------------------------------------
# Out of bag


@pytest.mark.parametrize("weighted", [False, True])
def test_out_of_bag_predictions_are_those_of_the_forest(weighted: bool, kind: Any, data: Data) -> None:
    X, y = data.X[:ROWS], numbers(data)[:ROWS]
    weight = np.random.default_rng(0).integers(1, 3, ROWS).astype(float) if weighted else None
    # Weights draw bags unevenly, so that it takes trees for every row to have votes.
    model = fitted(kind, data, 0.1 if weighted else 0.2, sample_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NoVotesWarning)
        expected = rfsize.tree_outputs(model.estimator_, X, y, oob=True, sample_weight=weight).predict()
    np.testing.assert_array_equal(model.oob_prediction_, expected)
    known = ~np.isnan(expected)
    known_weight = None if weight is None else weight[known]
    assert model.oob_score_ == r2_score(y[known], expected[known], sample_weight=known_weight)
    assert pickle.loads(pickle.dumps(model)).oob_score_ == model.oob_score_


def test_out_of_bag_predictions_are_scikit_learns(data: Data) -> None:
    model = fitted(RandomForestRegressor(max_depth=6, random_state=0), data)
    own = clone(model.estimator_).set_params(oob_score=True).fit(data.X[:ROWS], numbers(data)[:ROWS])
    np.testing.assert_allclose(model.oob_prediction_, own.oob_prediction_, rtol=1e-12)
    assert model.oob_score_ == pytest.approx(own.oob_score_, rel=1e-12)


def test_groups(data: Data) -> None:
    groups = np.arange(ROWS) // 2
    model = fitted(lightgbm(subsample=0.3), data, 0.2, groups=groups)
    assert model.report_.groups == "given"
    expected = rfsize.oob_predict(model.estimator_, data.X[:ROWS], groups=groups, fill=np.nan)
    np.testing.assert_array_equal(model.oob_prediction_, expected)
    held_out = fitted(lightgbm(), data, 0.2, groups=groups, cv=3)
    assert held_out.report_.groups == "given"


# ---------------------------------------------------------------------------------------------------------
# Rows, tools, refusals


def test_categories_of_a_table_reach_the_framework(data: Data) -> None:
    colour = np.array(["blue", "red"])[(data.X[:, 0] > 0).astype(int)]
    X = pd.DataFrame(data.X[:, 1:], columns=list("abcdefg")).assign(colour=pd.Categorical(colour))
    y = numbers(data)
    for estimator in (lightgbm(), xgboost(enable_categorical=True)):
        model = RightSizedRegressor(estimator, tolerance=0.2).fit(X, y)
        assert model.feature_names_in_.tolist() == [*"abcdefg", "colour"]
        others = X.drop(columns="colour")
        assert model.score(X, y) > RightSizedRegressor(estimator, tolerance=0.2).fit(others, y).score(others, y)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(X[X.columns[::-1]])


def test_pipelines_searches_and_cross_validation(data: Data) -> None:
    X, y = data.X[:ROWS], numbers(data)[:ROWS]
    pipeline = make_pipeline(StandardScaler(), RightSizedRegressor(lightgbm(), tolerance=0.2, min_trees=20))
    assert cross_val_score(pipeline, X, y, cv=2).min() > 0.3
    grid = {"rightsizedregressor__tolerance": [0.1, 0.3], "rightsizedregressor__estimator__max_depth": [2, 5]}
    best = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y).best_estimator_[-1]
    assert best.estimator_.max_depth == 5
    with pytest.raises(ValueError, match="the number of trees is what fit finds"):
        best.set_params(estimator__n_estimators=10)


def test_it_must_be_fitted_first(data: Data) -> None:
    model = RightSizedRegressor(lightgbm())
    with pytest.raises(NotFittedError):
        model.predict(data.X)
    for name in ("oob_prediction_", "oob_score_", "feature_importances_"):
        assert not hasattr(model, name)
    found = fitted(lightgbm(), data)
    np.testing.assert_array_equal(found.feature_importances_, found.estimator_.feature_importances_)


@pytest.mark.parametrize("cv", [None, 2])
@pytest.mark.parametrize(
    "estimator",
    [
        *CLASSIFIERS.values(),
        GradientBoostingRegressor(),
        LinearRegression(),
        LGBMRegressor(),
        XGBRegressor(),
        make_pipeline(StandardScaler(), RandomForestRegressor()),
        None,
    ],
)
def test_other_estimators_are_refused(estimator: Any, cv: Any, data: Data) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError):
        fitted(estimator, data, cv=cv, min_trees=5)


def test_regressors_are_no_classifiers(kind: Any, data: Data) -> None:
    for options in ({}, {"metric": "auc", "tolerance": 0.01}, {"cv": 5}):
        with pytest.raises(rfsize.exceptions.NotAForestError, match="predicts numbers: give it to RightSizedRegressor"):
            RightSizedClassifier(kind, **options).fit(data.X, data.y)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="predicts labels: give it to RightSizedClassifier"):
        RightSizedRegressor(RandomForestClassifier()).fit(data.X, data.y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be a positive number"),
        ({"metric": "rmse", "tolerance": None}, "needs a tolerance"),
        ({"metric": "labels", "tolerance": None}, "cast no votes"),
        ({"metric": "probabilities"}, "is for classification"),
        ({"metric": "auc"}, "metric='auc' does not fit a regression forest: take one of rmse, mae, r2"),
        ({"metric": "near"}, "metric must be one of"),
        ({"confidence": 0.4}, "confidence must be at least 0.5"),
        ({"max_trees": 0}, "max_trees must be"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str, data: Data) -> None:
    for cv in (None, 2):
        with pytest.raises(ValueError, match=message):
            fitted(lightgbm(), data, **{"cv": cv, "min_trees": 40, **options})


def test_numbers_that_are_none(data: Data) -> None:
    model, X, y = RightSizedRegressor(lightgbm()), data.X[:60], numbers(data)[:60]
    for wrong, message in [
        (None, "requires y"),
        (np.stack([y, y], axis=1), "y has 2 columns"),
        (y[:50], "X has 60 rows and y 50 numbers"),
        (np.where(y > 2.0, np.nan, y), "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(X, wrong)
