"""RightSizedClassifier over every kind of forest, in scikit-learn's own checks and tools."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from lightgbm import LGBMClassifier
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from xgboost import XGBClassifier

import reference.counting
import rfsize
from helpers.classifiers import KINDS, lightgbm, xgboost
from helpers.forests import Data
from helpers.reports import as_sure
from helpers.sklearn_checks import WEIGHTS_AS_COPIES, failed_checks, passed_checks
from rfsize import RightSizedClassifier


@pytest.fixture(params=["lightgbm", "xgboost"])
def booster_kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


# ---------------------------------------------------------------------------------------------------------
# scikit-learn's own checks


def for_checks(estimator: Any, **params: Any) -> RightSizedClassifier:
    counted_as = "num_parallel_tree" if isinstance(estimator, XGBClassifier) else "n_estimators"
    estimator = clone(estimator).set_params(**{counted_as: 6})
    if isinstance(estimator, LGBMClassifier):
        # Rows by the dozen: with its own bounds LightGBM splits no node, and predicts one class only.
        estimator.set_params(min_child_samples=1, min_data_in_bin=1)
    return RightSizedClassifier(estimator, alpha=0.9, max_trees=6, min_trees=6, **params)


def test_scikit_learns_checks(kind: Any) -> None:
    """All pass, but for those that the forest alone does not pass either."""
    model = for_checks(kind)
    failed = failed_checks(model)
    assert failed <= WEIGHTS_AS_COPIES
    assert not passed_checks(model.estimator, failed)


def test_tags_are_those_of_the_estimator() -> None:
    for estimator in (*KINDS.values(), BaggingClassifier(GradientBoostingClassifier())):
        tags, expected = get_tags(RightSizedClassifier(estimator)), get_tags(estimator)
        # LightGBM before 4.6 does not say what it takes in the way of scikit-learn 1.6.
        assert tags.input_tags == expected.input_tags or isinstance(estimator, LGBMClassifier)
        assert tags.estimator_type == "classifier"
        assert not tags.no_validation
    lightgbms = get_tags(RightSizedClassifier(lightgbm())).input_tags
    assert (lightgbms.allow_nan, lightgbms.sparse) == (True, True)
    assert not get_tags(RightSizedClassifier(BaggingClassifier(GradientBoostingClassifier()))).input_tags.allow_nan


# ---------------------------------------------------------------------------------------------------------
# The size


def test_it_is_the_forest_that_grow_grows(booster_kind: Any, data: Data) -> None:
    model = RightSizedClassifier(booster_kind, alpha=0.97).fit(data.X, data.y)
    grown, report = rfsize.grow(booster_kind, data.X, data.y, alpha=0.97, voting="soft")
    assert model.report_._answer.voting == "soft"
    assert model.report_.to_dict() == report.to_dict()
    assert model.n_trees_ == rfsize.tree_outputs(model.estimator_, data.fresh).votes.n_trees == report._wanted
    assert (model.report_.source, model.oob_refusal_) == ("oob", None)
    assert np.array_equal(model.predict(data.fresh), grown.predict(data.fresh))
    assert np.array_equal(model.predict_proba(data.fresh), grown.predict_proba(data.fresh))


def test_every_kind_is_sized(kind: Any, data: Data) -> None:
    before = repr(kind.get_params())
    model = RightSizedClassifier(kind, alpha=0.9, min_trees=50).fit(data.X, data.y)
    assert repr(kind.get_params()) == before
    assert model.report_.enough
    assert model.n_trees_ == model.report_._wanted == rfsize.tree_outputs(model.estimator_, data.fresh).votes.n_trees
    assert model.report_.source == ("cross-validation" if isinstance(kind, ExtraTreesClassifier) else "oob")
    assert model.score(data.X, data.y) > 0.6


def test_a_higher_confidence_takes_more_trees(booster_kind: Any, data: Data) -> None:
    sizes = [RightSizedClassifier(booster_kind, alpha=alpha).fit(data.X, data.y).n_trees_ for alpha in (0.9, 0.98)]
    assert sizes[0] < sizes[1]


def test_cross_validated_votes_are_those_of_trees_that_did_not_see_the_row(data: Data) -> None:
    forest = RandomForestClassifier(max_depth=4, random_state=1)
    weight = 1.0 + data.y
    model = RightSizedClassifier(forest, alpha=0.9, cv=3, min_trees=25, voting="hard")
    model.fit(data.X, data.three, weight)
    expected = rfsize.Votes(
        reference.counting.cross_validated_votes(forest, data.X, data.three, weight, 3, model.report_.available)
    )
    found, expected_report = as_sure(model.report_), as_sure(rfsize.size(expected, alpha=0.9))
    # Counted votes know neither scores nor a model nor rows, nor how far rows err together, by which more are wanted.
    apart = {"source", "voting", "copied", "interval", "n_kept", "loss", "notes"}
    assert {name: found[name] for name in found if name not in apart} == {
        name: expected_report[name] for name in expected_report if name not in apart
    }
    (low, high), (expected_low, expected_high) = found["interval"], expected_report["interval"]
    assert low <= expected_low <= expected_high <= high
    assert expected_report["n_kept"] <= found["n_kept"] == model.n_trees_ <= high
    assert model.report_._answer.goal.voting == "hard"
    assert model.report_.source == "cross-validation"


def test_a_fold_may_lack_a_class(data: Data) -> None:
    forest = RandomForestClassifier(max_depth=2, random_state=1)
    y = np.where(np.arange(300) == 7, -1, data.y[:300])
    model = RightSizedClassifier(forest, alpha=0.8, cv=2, min_trees=15, voting="hard")
    with pytest.warns(UserWarning, match="only 1 member"):
        model.fit(data.X[:300], y, np.ones(300))
    counts = reference.counting.cross_validated_votes(forest, data.X[:300], y, np.ones(300), 2, model.report_.available)
    of_votes = rfsize.size(rfsize.Votes(counts, model.classes_), alpha=0.8)
    assert model.report_.n_trees == of_votes.n_trees
    assert model.predict_proba(data.fresh).shape == (len(data.fresh), 3)
    # XGBoost knows no class whose index it did not see.
    with pytest.warns(UserWarning, match="only 1 member"):
        RightSizedClassifier(xgboost(), alpha=0.8, cv=2, min_trees=15).fit(data.X[:300], y)


def test_cross_validation_goes_on_until_the_trees_are_enough(data: Data) -> None:
    model = RightSizedClassifier(lightgbm(), alpha=0.975, cv=2, min_trees=11).fit(data.X, data.y)
    assert model.report_.enough
    assert 11 < model.n_trees_ <= model.report_.available
    # The forest itself was trained on all rows.
    alone = lightgbm(n_estimators=model.n_trees_).fit(data.X, data.y)
    assert np.array_equal(model.predict_proba(data.fresh), alone.predict_proba(data.fresh))


@pytest.mark.parametrize("cv", [None, 2])
def test_too_few_trees_are_warned_of(cv: Any, booster_kind: Any, data: Data) -> None:
    model = RightSizedClassifier(booster_kind, alpha=0.999, max_trees=40, cv=cv)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="40 trees"):
        model.fit(data.X, data.y)
    assert model.n_trees_ == rfsize.tree_outputs(model.estimator_, data.fresh).votes.n_trees == 40


def test_the_number_of_trees_has_other_names(data: Data) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LightGBM's, of its alias
        alias = RightSizedClassifier(lightgbm(num_iterations=3), alpha=0.9, cv=2).fit(data.X, data.y)
    assert alias.report_.available == 100
    forest = XGBClassifier(n_estimators=1, num_parallel_tree=3, learning_rate=1, subsample=0.6, colsample_bynode=0.6)
    model = RightSizedClassifier(forest, alpha=0.95).fit(data.X, data.y)
    assert model.report_.available >= 100
    assert model.n_trees_ == model.estimator_.num_parallel_tree
    assert model.estimator_.n_estimators == 1


def test_bags_of_trees_that_cannot_split_cannot_be_proven(data: Data) -> None:
    """LightGBM leaves 20 rows to a leaf, so of 20 rows it makes no split."""
    y = np.arange(20) % 2
    model = RightSizedClassifier(lightgbm(), alpha=0.6).fit(data.X[:20], y)
    assert model.report_.source == "cross-validation"
    assert "no tree has more than one leaf" in model.oob_refusal_


# ---------------------------------------------------------------------------------------------------------
# Labels, rows and weights of all kinds

LABELS = {
    "text": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "bool": np.array([False, True]),
    "other numbers": np.array([3, 7], dtype=np.int8),
    "floats": np.array([-1.0, 2.0]),
}


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        *((labels, "lightgbm") for labels in LABELS),
        *(("objects", name) for name in KINDS if name != "lightgbm"),
    ],
)
def test_labels_come_back_as_they_were_given(labels: str, name: str, data: Data) -> None:
    kind, classes, limits = KINDS[name], LABELS[labels], {"alpha": 0.8, "min_trees": 20, "cv": 2}
    model = RightSizedClassifier(kind, **limits).fit(data.X, classes[data.y])
    numbered = clone(model).fit(data.X, data.y)
    found = model.predict(data.fresh)
    assert (model.classes_.dtype, found.dtype) == (classes.dtype, classes.dtype)
    assert np.array_equal(found, classes[numbered.predict(data.fresh)])
    assert model.predict_proba(data.fresh).shape == (len(data.fresh), 2)


def test_categories_of_a_table_reach_the_framework(data: Data) -> None:
    colour = np.array(["blue", "red"])[(data.X[:, 0] > 0).astype(int)]
    X = pd.DataFrame(data.X[:, 1:], columns=list("abcdefg")).assign(colour=pd.Categorical(colour))
    for estimator in (lightgbm(), xgboost(enable_categorical=True)):
        model = RightSizedClassifier(estimator, alpha=0.95).fit(X, data.y)
        assert model.feature_names_in_.tolist() == [*"abcdefg", "colour"]
        assert model.score(X, data.y) > 0.75  # without the colour it is 0.6
        assert model.predict(X.iloc[:1]).shape == (1,)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(X[X.columns[::-1]])
    assert RightSizedClassifier(lightgbm(), alpha=0.9, cv=2).fit(X, data.y).n_features_in_ == 8


def test_rows_may_be_sparse_or_missing_values(booster_kind: Any, data: Data) -> None:
    model = RightSizedClassifier(booster_kind, alpha=0.9)
    X = sp.csr_matrix(np.where(data.X > 0, data.X, 0.0))
    expected = model.fit(X, data.y).predict(X)
    assert np.array_equal(model.predict(X.tocoo()), expected)
    assert (expected == data.y).mean() > 0.7
    assert clone(model).set_params(cv=2).fit(X.tocoo(), data.y).n_features_in_ == 8
    holed = np.where(data.X > 2, np.nan, data.X)
    assert (model.fit(holed, data.y).predict(holed) == data.y).mean() > 0.7
    assert model.predict(holed[:1].tolist()).shape == (1,)


def test_weights_reach_the_forest(booster_kind: Any, data: Data) -> None:
    weight = np.where(data.y == 1, 5.0, 1.0)
    for voting in ("soft", "hard"):
        model = RightSizedClassifier(booster_kind, alpha=0.95, voting=voting).fit(data.X, data.y, weight)
        grown = rfsize.grow(booster_kind, data.X, data.y, alpha=0.95, voting=voting, sample_weight=weight)[0]
        assert np.array_equal(model.predict_proba(data.fresh), grown.predict_proba(data.fresh))
        assert model.predict(data.fresh).mean() > 0.05 + clone(model).fit(data.X, data.y).predict(data.fresh).mean()


REFUSED = {
    "one class": (lambda X, y: (X, 0 * y, None), "one class"),
    "numbers": (lambda X, y: (X, X[:, 0], None), "continuous"),
    "several labels": (lambda X, y: (X, np.column_stack([y, 1 - y]), None), "one forest for each column"),
    "no labels": (lambda X, y: (X, None, None), "requires y"),
    "missing label": (lambda X, y: (X, np.where(y, 1.0, np.nan), None), "NaN"),
    "mixed labels": (lambda X, y: (X, np.array(["a", None], dtype=object)[y], None), "types NoneType, str"),
    "few labels": (lambda X, y: (X, y[:9], None), "9 labels"),
    "one column too few": (lambda X, y: (X[:, 0], y, None), "1D array"),
    "weights of zero": (lambda X, y: (X, y, 0 * y), "sample_weight is zero for every row"),
    "negative weights": (lambda X, y: (X, y, y - 1.0), "non-negative"),
    "few weights": (lambda X, y: (X, y, [1.0]), "one finite, non-negative number per row"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_refused_data(what: str, booster_kind: Any, data: Data) -> None:
    make, message = REFUSED[what]
    X, y, weight = make(data.X[:100], np.arange(100) % 2)
    with pytest.raises(ValueError, match=message):
        RightSizedClassifier(booster_kind).fit(X, y, weight)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 1.0}, "alpha"),
        ({"max_trees": 0}, "max_trees"),
        ({"min_trees": 0.5}, "min_trees"),
        ({"cv": 1}, "cv must be a whole number"),
        ({"cv": [([0, 1, 2], [2, 3])]}, "hold out"),
        ({"cv": [(np.arange(0, 100, 2), np.arange(1, 100, 2))]}, r"of the class \[0\]"),
    ],
)
def test_refused_parameters(params: dict[str, Any], message: str, data: Data) -> None:
    model = RightSizedClassifier(lightgbm(), **params)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X[:100], np.arange(100) % 2)


def test_parameters_are_refused_before_anything_is_trained() -> None:
    with pytest.raises(ValueError, match="alpha"):
        RightSizedClassifier(lightgbm(), alpha=1.0).fit(None, None)


@pytest.mark.parametrize("cv", [None, 2])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), xgboost()),
        LGBMClassifier(verbose=-1),
        XGBClassifier(n_estimators=3),
        GradientBoostingClassifier(n_estimators=3),
        AdaBoostClassifier(n_estimators=3),
        XGBClassifier,
        None,
    ],
    ids=lambda estimator: getattr(estimator, "__name__", type(estimator).__name__),
)
def test_other_estimators_are_refused(estimator: Any, cv: Any, data: Data) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError):
        RightSizedClassifier(estimator, cv=cv, min_trees=5).fit(data.X[:100], data.y[:100])


def test_it_must_be_fitted_first(data: Data) -> None:
    model = RightSizedClassifier(xgboost(), alpha=0.9, max_trees=200)
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError):
            predict(data.X)
    fitted = model.fit(data.X, data.three)
    assert not hasattr(clone(fitted), "estimator_")
    fitted.fit(data.X[:, :3], data.y)
    assert (fitted.classes_.tolist(), fitted.n_features_in_) == ([0, 1], 3)
    with pytest.raises(ValueError, match="8 features"):
        fitted.predict(data.fresh)


# ---------------------------------------------------------------------------------------------------------
# scikit-learn's tools


def test_pipelines_searches_and_cross_validation(booster_kind: Any, data: Data) -> None:
    model = RightSizedClassifier(booster_kind, alpha=0.9, min_trees=20)
    pipeline = make_pipeline(StandardScaler(), model)
    assert cross_val_score(pipeline, data.X, data.y, cv=2).min() > 0.7
    assert cross_val_predict(pipeline, data.X, data.y, cv=2, method="predict_proba").shape == (len(data.y), 2)
    grid = {"rightsizedclassifier__alpha": [0.8, 0.9], "rightsizedclassifier__estimator__max_depth": [2, 5]}
    with joblib.parallel_backend("threading"):
        search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2, error_score="raise").fit(data.X, data.y)
    alone = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(data.X, data.y)
    assert np.array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    best = search.best_estimator_[-1]
    assert best.estimator_.max_depth == search.best_params_["rightsizedclassifier__estimator__max_depth"]
    assert best.report_.goal.alpha == search.best_params_["rightsizedclassifier__alpha"]


def test_it_can_be_stored(booster_kind: Any, data: Data, tmp_path: Path) -> None:
    model = RightSizedClassifier(booster_kind, alpha=0.9)
    model.fit(data.X, np.array(["no", "yes"])[data.y])
    joblib.dump(model, tmp_path / "model.joblib")
    for other in (joblib.load(tmp_path / "model.joblib"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(data.fresh), model.predict(data.fresh))
        assert np.array_equal(other.predict_proba(data.fresh), model.predict_proba(data.fresh))
        with pytest.raises(AttributeError, match="to_html"):
            other.report_  # noqa: B018
    assert b"Report" not in pickle.dumps(model)
    report = pickle.loads(pickle.dumps(model.report_))
    assert report.to_dict() == model.report_.to_dict()
    assert rfsize.truncate(model, n_trees=1).report_ is model.report_


def test_weights_are_routed_to_an_estimator_that_requests_them(booster_kind: Any, data: Data) -> None:
    weight = np.where(data.y == 1, 5.0, 1.0)
    limits = {"alpha": 0.9, "min_trees": 40}
    weighted = RightSizedClassifier(booster_kind, **limits).fit(data.X, data.y, weight).predict_proba(data.fresh)
    plain = RightSizedClassifier(booster_kind, **limits).fit(data.X, data.y).predict_proba(data.fresh)
    with config_context(enable_metadata_routing=True):
        asks = RightSizedClassifier(clone(booster_kind).set_fit_request(sample_weight=True), **limits)
        declines = RightSizedClassifier(clone(booster_kind).set_fit_request(sample_weight=False), **limits)
        found = asks.fit(data.X, data.y, sample_weight=weight).predict_proba(data.fresh)
        assert np.array_equal(found, weighted)
        with pytest.raises(TypeError, match="sample_weight"):
            declines.fit(data.X, data.y, sample_weight=weight)
        with pytest.raises(ValueError, match="sample_weight"):
            RightSizedClassifier(booster_kind, **limits).fit(data.X, data.y, sample_weight=weight)
        # Through a pipeline, and through a search whose score takes them too.
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asks)
        scaler, in_pipeline = pipeline.fit(data.X, data.y, sample_weight=weight)
        asks.set_score_request(sample_weight=True)
        search = GridSearchCV(asks, {"alpha": [0.9]}, cv=2, error_score="raise")
        found = search.fit(data.X, data.y, sample_weight=weight).predict_proba(data.fresh)
        assert np.array_equal(found, weighted)
    scaled, fresh = scaler.transform(data.X), scaler.transform(data.fresh)
    again = RightSizedClassifier(booster_kind, **limits).fit(scaled, data.y, weight)
    assert np.array_equal(in_pipeline.predict_proba(fresh), again.predict_proba(fresh))
    assert not np.array_equal(weighted, plain)
