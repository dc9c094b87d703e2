"""`RightSizedClassifier` and `RightSizedRegressor`: scikit-learn's own checks, the size that they find, their tools."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from lightgbm import LGBMClassifier, LGBMModel, LGBMRegressor
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, median_absolute_error
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from xgboost import XGBClassifier, XGBRegressor

import rfsize
from rfsize import RightSizedClassifier, RightSizedRegressor
from rfsize.exceptions import NotAForestError, NotConvergedWarning

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

_rng = np.random.default_rng(7)
X, FRESH = _rng.normal(size=(500, 6)), _rng.normal(size=(200, 6))
NUMBER = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * _rng.normal(size=500)
Y, THREE, WEIGHT = (NUMBER > 0.3).astype(int), np.digitize(NUMBER, [-0.5, 0.7]), np.where(NUMBER > 0.3, 5.0, 1.0)
NAMES = np.array(["violet", "amber", "olive"])  # not in the order of their indices

LIGHTGBM: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.6}
LIGHTGBM |= {"num_leaves": 15, "n_jobs": 1, "verbose": -1}
XGBOOST: dict[str, Any] = {"n_estimators": 1, "num_parallel_tree": 100, "learning_rate": 1, "subsample": 0.632}
XGBOOST |= {"max_depth": 4, "colsample_bynode": 0.8, "random_state": 0, "n_jobs": 1}
CLASSIFIERS: dict[str, Any] = {
    "lightgbm": LGBMClassifier(**LIGHTGBM),
    "xgboost": XGBClassifier(**XGBOOST),
    "random forest": RandomForestClassifier(max_depth=5, random_state=0),
    "extra-trees": ExtraTreesClassifier(max_depth=5, random_state=0),
    "bagging": BaggingClassifier(n_estimators=100, random_state=0),
    "bagging of others": BaggingClassifier(LogisticRegression(), n_estimators=100, max_samples=0.5, random_state=0),
}
REGRESSORS: dict[str, Any] = {
    "lightgbm": LGBMRegressor(**LIGHTGBM),
    "xgboost": XGBRegressor(**XGBOOST),
    "random forest": RandomForestRegressor(max_depth=5, random_state=0),
    "bagging": BaggingRegressor(n_estimators=100, random_state=0),
    "neighbours": BaggingRegressor(KNeighborsRegressor(), n_estimators=100, max_samples=0.5, random_state=0),
}
LIMITS: dict[str, Any] = {"alpha": 0.9, "min_trees": 40}


def classifier(kind: Any = "lightgbm", y: Any = Y, rows: Any = X, **options: Any) -> RightSizedClassifier:
    given = {name: options.pop(name) for name in ("sample_weight", "groups") if name in options}
    return RightSizedClassifier(CLASSIFIERS.get(str(kind), kind), **{**LIMITS, **options}).fit(rows, y, **given)


def regressor(kind: Any = "lightgbm", y: Any = NUMBER, **options: Any) -> RightSizedRegressor:
    given = {name: options.pop(name) for name in ("sample_weight", "groups") if name in options}
    options = {"tolerance": 0.2, "min_trees": 40, **options}
    return RightSizedRegressor(REGRESSORS.get(str(kind), kind), **options).fit(X, y, **given)


def n_trees(forest: Any) -> int:
    return rfsize.tree_outputs(forest, FRESH).n_trees


# ---------------------------------------------------------------------------------------------- scikit-learn's checks

# Bags are drawn for rows, so a row of weight two is not two rows; scikit-learn expects its own forests to fail them.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "bags are drawn for rows",
    "check_sample_weight_equivalence_on_sparse_data": "bags are drawn for rows",
    "check_regressors_train": "a forest of six trees fits worse",
}


def small(estimator: Any) -> Any:
    count = "num_parallel_tree" if isinstance(estimator, (XGBClassifier, XGBRegressor)) else "n_estimators"
    estimator = clone(estimator).set_params(**{count: 6})
    if isinstance(estimator, (LGBMClassifier, LGBMRegressor)):
        estimator.set_params(min_child_samples=1, min_data_in_bin=1)  # or it splits no node of a dozen rows
    return estimator


ALL = [
    *(RightSizedClassifier(small(kind), alpha=0.9, max_trees=6, min_trees=6) for kind in CLASSIFIERS.values()),
    *(RightSizedRegressor(small(kind), max_trees=6, min_trees=6) for kind in REGRESSORS.values()),
]


@pytest.mark.slow
@parametrize_with_checks(ALL, expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.skipif("__sklearn_tags__" not in vars(LGBMModel), reason="LightGBM has other tags before 4.6")
def test_tags_are_those_of_the_estimator() -> None:
    for kinds, right_sized in ((CLASSIFIERS, RightSizedClassifier), (REGRESSORS, RightSizedRegressor)):
        for estimator in (*kinds.values(), BaggingClassifier(GradientBoostingClassifier())):
            tags, own = get_tags(right_sized(estimator)), get_tags(estimator)
            assert tags.input_tags == own.input_tags
            assert tags.estimator_type == right_sized.__name__.lower().removeprefix("rightsized")


# ----------------------------------------------------------------------------------------------------------- the size


@pytest.mark.parametrize(
    ("kind", "of_numbers"),
    [*((kind, False) for kind in CLASSIFIERS if kind != "extra-trees"), *((kind, True) for kind in REGRESSORS)],
)
def test_they_are_the_forests_that_grow_grows(kind: str, of_numbers: bool) -> None:
    fit, estimator, y = (regressor, REGRESSORS[kind], NUMBER) if of_numbers else (classifier, CLASSIFIERS[kind], Y)
    before, model = repr(estimator.get_params()), fit(kind, min_trees=100, max_trees=500)
    report = model.report_
    assert repr(estimator.get_params()) == before
    assert (report.enough, report.source, model.oob_refusal_) == (True, "oob", None)
    assert model.n_trees_ == n_trees(model.estimator_) == report.n_kept
    assert model.score(X, y) > (0.4 if of_numbers else 0.75)
    goal: dict[str, Any] = {"metric": "scores", "tolerance": 0.2} if of_numbers else {"alpha": 0.9}
    grown, expected = rfsize.grow(estimator, X, y, **goal, max_trees=500)
    assert report.to_dict() == expected.to_dict()
    np.testing.assert_array_equal(model.predict(FRESH), grown.predict(FRESH))


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_cross_validated_trees_did_not_see_the_row(voting: str) -> None:
    forest = RandomForestClassifier(max_depth=4, random_state=1)
    model = classifier(forest, THREE, cv=3, voting=voting, sample_weight=1.0 + Y)
    available = model.report_.available
    assert model.report_.source == "cross-validation"
    whole = clone(forest).set_params(n_estimators=available)
    outputs = rfsize.tree_outputs(whole, X, THREE, cv=3, sample_weight=1.0 + Y)
    assert model.report_.n_trees == rfsize.size(outputs, alpha=0.9, voting=voting).n_trees
    alone = clone(forest).set_params(n_estimators=model.n_trees_).fit(X, THREE, 1.0 + Y)  # of all rows
    np.testing.assert_array_equal(model.predict_proba(FRESH), alone.predict_proba(FRESH))


def test_cross_validation_goes_on_until_the_trees_are_enough() -> None:
    for model in (
        classifier("random forest", cv=2, alpha=0.97, min_trees=11),
        regressor(cv=2, tolerance=0.08, min_trees=11),
    ):
        assert model.report_.enough
        assert 11 < model.n_trees_ <= model.report_.available


def test_a_fold_may_lack_a_class() -> None:
    y = np.where(np.arange(500) == 7, -1, Y)
    model = classifier("random forest", y, cv=2, voting="hard")
    assert model.predict_proba(FRESH).shape == (200, 3)
    assert model.report_.estimate.n_rows == 500
    assert (
        classifier("random forest", y, cv=2).report_.estimate.n_rows == 250
    )  # only these have scores that can be compared
    assert classifier("xgboost", y, cv=2).classes_.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("cv", [None, 2])
def test_too_few_trees_are_warned_of(cv: Any) -> None:
    for fit in (
        lambda: classifier(alpha=0.9999, max_trees=40, cv=cv),
        lambda: regressor(tolerance=1e-4, max_trees=40, cv=cv),
    ):
        with pytest.warns(NotConvergedWarning, match="40"):
            model = fit()
        assert model.n_trees_ == n_trees(model.estimator_) == 40


def test_the_number_of_trees_has_other_names() -> None:
    most = {"min_trees": 100, "max_trees": 100}
    assert classifier(LGBMClassifier(**LIGHTGBM, num_iterations=3), cv=2, **most).report_.available == 100
    model = classifier(XGBClassifier(**{**XGBOOST, "num_parallel_tree": 3}))
    assert model.n_trees_ == model.estimator_.num_parallel_tree
    assert model.estimator_.n_estimators == 1


def test_what_cannot_be_out_of_bag_is_cross_validated() -> None:
    """And says so; the next fit forgets it."""
    whole = RandomForestClassifier(max_depth=4, bootstrap=False, max_features=0.5, random_state=1)
    large_bags = XGBClassifier(**{**XGBOOST, "subsample": 0.98})
    no_split = LGBMClassifier(**{**LIGHTGBM, "min_child_samples": 300})
    in_all = LGBMClassifier(**{**LIGHTGBM, "subsample_freq": 0})
    for estimator in (in_all, whole, large_bags, no_split, CLASSIFIERS["extra-trees"]):
        model = classifier(estimator, Y, max_trees=60)
        assert model.report_.source == "cross-validation"
        assert model.n_trees_ == n_trees(model.estimator_) == model.report_.n_kept
        assert model.oob_refusal_
    assert model.set_params(estimator=CLASSIFIERS["random forest"]).fit(X, THREE).oob_refusal_ is None


def test_voting_and_threshold() -> None:
    """The size is of the labels that predict gives, or of those that are asked for."""
    forest = RandomForestClassifier(max_depth=4, random_state=1)
    sizes = {voting: classifier(forest, voting=voting, alpha=0.95).n_trees_ for voting in ("auto", "soft", "hard")}
    assert sizes["auto"] == sizes["soft"] != sizes["hard"]
    model = classifier("xgboost", threshold=0.3, min_trees=100)
    grown, report = rfsize.grow(CLASSIFIERS["xgboost"], X, Y, alpha=0.9, threshold=0.3)
    assert (model.n_trees_, model.report_.to_dict()) == (report.n_kept, report.to_dict())
    above = grown.predict_proba(FRESH)[:, 1] > 0.3
    assert model.predict(FRESH).tolist() == above.astype(int).tolist()
    assert (above != (grown.predict_proba(FRESH)[:, 1] > 0.5)).any()
    assert rfsize.compile(model).predict(FRESH).tolist() == model.predict(FRESH).tolist()
    cross_validated = classifier("extra-trees", threshold=0.3, alpha=0.9)
    share = cross_validated.predict_proba(FRESH)[:, 1]
    assert cross_validated.predict(FRESH).tolist() == (share > 0.3).astype(int).tolist()


def test_tolerances_of_regressors() -> None:
    model = regressor(tolerance=None)
    assert model.tolerance is None
    assert model.report_.criterion.tolerance == pytest.approx(0.05 * np.std(NUMBER), rel=0.01)
    kind = RandomForestRegressor(max_depth=3, random_state=0)
    sizes = [regressor(kind, factor * NUMBER, tolerance=None).n_trees_ for factor in (1.0, 1024.0)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    constant = regressor(kind, np.full(500, 2.0), tolerance=None)
    assert (constant.report_.criterion.tolerance, constant.n_trees_) == (1.0, 1)


@pytest.mark.parametrize("cv", [None, 2])
def test_metrics(cv: Any) -> None:
    model = classifier(metric="auc", alpha=None, tolerance=0.02, cv=cv)
    assert model.report_.enough
    assert model.report_.loss_at(model.n_trees_).value <= 0.02
    by_name = regressor(metric="neg_median_absolute_error", tolerance=0.05, cv=cv)
    scorer = make_scorer(median_absolute_error, greater_is_better=False)
    assert regressor(metric=scorer, tolerance=0.05, cv=cv).n_trees_ == by_name.n_trees_


# ------------------------------------------------------------------------------------------- labels, rows and weights


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("lightgbm", np.array(["no", "yes"])),
        ("xgboost", np.array(["no", "yes"], dtype=object)),
        ("lightgbm", np.array([False, True])),
        ("random forest", np.array([3.0, -7.0])),
    ],
)
def test_labels_come_back_as_they_were_given(kind: str, names: np.ndarray) -> None:
    model, labels = classifier(kind, names[Y]), classifier(kind).predict(FRESH)
    actual = model.predict(FRESH)
    assert model.classes_.tolist() == sorted(names.tolist())
    assert (actual.dtype, model.classes_.dtype) == (names.dtype, names.dtype)
    assert np.mean(actual == names[labels]) > 0.9
    assert model.predict_proba(FRESH).shape == (200, 2)


def test_tables_sparse_and_missing_rows() -> None:
    colour = pd.Categorical(np.array(["blue", "red"])[(X[:, 0] > 0).astype(int)])
    table = pd.DataFrame(X[:, 1:], columns=list("abcde")).assign(colour=colour)
    for kind in (CLASSIFIERS["lightgbm"], XGBClassifier(**XGBOOST, enable_categorical=True)):
        model = classifier(kind, rows=table)
        assert model.feature_names_in_.tolist() == [*"abcde", "colour"]
        assert model.score(table, Y) > 0.75
        with pytest.raises(ValueError, match="feature names"):
            model.predict(table[table.columns[::-1]])
    for kind in ("lightgbm", "xgboost"):
        rows, gaps = sp.csr_matrix(np.where(X > 0, X, 0.0)), np.where(X > 2, np.nan, X)
        for cv in (None, 2):
            model = classifier(kind, rows=rows, cv=cv)
            assert model.predict(rows.tocoo()).tolist() == model.predict(rows).tolist()
            assert np.mean(classifier(kind, rows=gaps, cv=cv).predict(gaps) == Y) > 0.75


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_weights_and_groups_reach_the_forest(kind: str) -> None:
    model = classifier(kind, sample_weight=WEIGHT, min_trees=100)
    grown = rfsize.grow(CLASSIFIERS[kind], X, Y, sample_weight=WEIGHT, alpha=0.9)[0]
    np.testing.assert_array_equal(model.predict_proba(FRESH), grown.predict_proba(FRESH))
    assert model.predict(FRESH).mean() > 0.05 + classifier(kind).predict(FRESH).mean()
    groups = np.arange(500) // 2
    for fit in (classifier, regressor):
        assert fit(kind, groups=groups, max_trees=100).report_.groups == "given"
        assert fit(kind, groups=groups, cv=3, max_trees=100).report_.groups == "given"


def test_importances_are_those_of_the_forest() -> None:
    for model in (classifier("xgboost"), regressor("random forest")):
        np.testing.assert_array_equal(model.feature_importances_, model.estimator_.feature_importances_)
    with pytest.raises(AttributeError, match="feature_importances_"):
        _ = classifier("bagging").feature_importances_


# --------------------------------------------------------------------------------------------------- as models of ours


def test_all_answer_in_the_words_of_the_labels() -> None:
    y, model = NAMES[THREE], classifier("xgboost", NAMES[THREE], alpha=0.97)
    inside, index = model.estimator_, np.searchsorted(model.classes_, y)
    for compiled in (rfsize.compile(model), rfsize.compile(model, rfsize.StopTable.calibrate(model, FRESH, alpha=0.9))):
        assert compiled.classes.tolist() == sorted(NAMES)
        assert np.mean(compiled.predict(FRESH) == model.predict(FRESH)) >= (0.85 if compiled.table else 1.0)
    outputs = rfsize.tree_outputs(model, X, oob=True)
    assert outputs.votes.classes.tolist() == sorted(NAMES)
    assert np.array_equal(outputs.votes.counts, rfsize.tree_outputs(inside, X, oob=True).votes.counts)
    assert np.array_equal(rfsize.inbag(model, X, y), rfsize.inbag(inside, X, index))
    labels = rfsize.oob_predict(model, X, fill="none")
    accuracy = np.mean(labels[labels != "none"] == y[labels != "none"])
    assert rfsize.oob_score(model, X, y).value == pytest.approx(accuracy)
    options: dict[str, Any] = {"oob": True, "metric": "brier", "tolerance": 0.02}
    assert rfsize.size(model, X, y, **options).n_trees == rfsize.size(inside, X, index, **options).n_trees


def test_cut_to_fewer_trees_it_is_another_estimator() -> None:
    for model in (classifier("xgboost", NAMES[THREE], alpha=0.97), regressor()):
        before = model.predict(FRESH)
        cut = rfsize.truncate(model, n_trees=4)
        assert (type(cut), cut.n_trees_, model.n_trees_ > 4) == (type(model), 4, True)
        alone = rfsize.truncate(model.estimator_, n_trees=4).predict(FRESH)
        assert cut.predict(FRESH).tolist() == (cut.classes_[alone] if hasattr(cut, "classes_") else alone).tolist()
        assert model.predict(FRESH).tolist() == before.tolist()
    for estimator in (model, clone(model)):
        with pytest.raises(NotAForestError, match="fit"):
            rfsize.grow(estimator, X, NUMBER)


# ----------------------------------------------------------------------------------------------- scikit-learn's tools


def test_it_must_be_fitted_first() -> None:
    for model in (RightSizedClassifier(CLASSIFIERS["xgboost"]), RightSizedRegressor(REGRESSORS["xgboost"])):
        with pytest.raises(NotFittedError):
            model.predict(X)
        for name in ("feature_importances_", "estimator_"):
            assert not hasattr(model, name)
    fitted = classifier("random forest", THREE)
    assert not hasattr(clone(fitted), "estimator_")
    fitted.fit(X[:, :3], Y)
    assert (fitted.classes_.tolist(), fitted.n_features_in_) == ([0, 1], 3)
    with pytest.raises(ValueError, match="features"):
        fitted.predict(FRESH)


def test_pipelines_searches_and_cross_validation() -> None:
    pipeline = make_pipeline(StandardScaler(), RightSizedClassifier(CLASSIFIERS["lightgbm"], alpha=0.8, min_trees=20))
    assert cross_val_score(pipeline, X, Y, cv=2).min() > 0.6
    assert cross_val_predict(pipeline, X, Y, cv=2, method="predict_proba").shape == (500, 2)
    grid = {"rightsizedclassifier__estimator__max_depth": [1, 5]}
    with joblib.parallel_backend("threading"):
        search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2, error_score="raise").fit(X, Y)
    alone = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert np.array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    best = search.best_estimator_[-1]
    assert best.estimator_.max_depth == search.best_params_["rightsizedclassifier__estimator__max_depth"]


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_it_can_be_stored(kind: str, tmp_path: Path) -> None:
    model = classifier(kind, NAMES[THREE])
    joblib.dump(model, tmp_path / "model.joblib")
    for other in (joblib.load(tmp_path / "model.joblib"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(FRESH), model.predict_proba(FRESH))
        assert other.predict(FRESH).tolist() == model.predict(FRESH).tolist()
        assert not hasattr(other, "report_")  # many times as large as the forest
    assert pickle.loads(pickle.dumps(model.report_)).to_dict() == model.report_.to_dict()
    assert rfsize.truncate(model, n_trees=1).report_ is model.report_


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_weights_are_routed_to_an_estimator_that_requests_them(kind: str) -> None:
    weighted, plain = (classifier(kind, **given).predict_proba(FRESH) for given in ({"sample_weight": WEIGHT}, {}))
    assert not np.array_equal(weighted, plain)
    with config_context(enable_metadata_routing=True):
        requests, declines = (
            RightSizedClassifier(clone(CLASSIFIERS[kind]).set_fit_request(sample_weight=wanted), **LIMITS)
            for wanted in (True, False)
        )
        actual = requests.fit(X, Y, sample_weight=WEIGHT).predict_proba(FRESH)
        np.testing.assert_array_equal(actual, weighted)
        with pytest.raises(TypeError, match="sample_weight"):
            declines.fit(X, Y, sample_weight=WEIGHT)
        with pytest.raises(ValueError, match="sample_weight"):
            classifier(kind, sample_weight=WEIGHT)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), requests)
        scaler, inside = pipeline.fit(X, Y, sample_weight=WEIGHT)
        requests.set_score_request(sample_weight=True)
        search = GridSearchCV(requests, {"alpha": [0.9]}, cv=2, error_score="raise").fit(X, Y, sample_weight=WEIGHT)
        np.testing.assert_array_equal(search.predict_proba(FRESH), weighted)
    again = classifier(kind, rows=scaler.transform(X), sample_weight=WEIGHT)
    scaled = scaler.transform(FRESH)
    np.testing.assert_array_equal(inside.predict_proba(scaled), again.predict_proba(scaled))
