"""The search for the bagging fraction of estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import rfsize
from helpers.classifiers import KINDS
from helpers.forests import LIGHTGBM, XGBOOST, Data

NAMES = np.array(["no", "yes"])
ROWS, TREES, FEW = 400, 35, {"fractions": [0.2, 0.4], "n_trees": 35, "rule": "best", "progress": False}


def searched(estimator: Any, X: Any, y: Any, **options: Any) -> rfsize.FractionSearch:
    return rfsize.select_bagging_fraction(estimator, X, y, **{**FEW, **options})


def test_estimators_of_frameworks_are_searched_as_their_parameters(framework: str, data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, ROWS)
    if framework == "lightgbm":
        settings = {name: value for name, value in LIGHTGBM.items() if name not in ("objective", "boosting")}
        estimator: Any = lgb.LGBMClassifier(boosting_type="rf", **settings)
        dtrain: Any = lgb.Dataset(X, y, weight=weight)
    else:
        estimator = xgb.XGBClassifier(n_estimators=1, learning_rate=1, **XGBOOST)
        dtrain = xgb.DMatrix(X, y, weight=weight)
    found = searched(estimator, X, y, sample_weight=weight)
    expected = rfsize.select_bagging_fraction(
        LIGHTGBM if framework == "lightgbm" else {**XGBOOST, "eta": 1}, dtrain, **FEW
    )
    assert found.curve["error"].tolist() == pytest.approx(expected.curve["error"].tolist(), abs=1e-12)
    assert (found.best, found.n_rows) == (expected.best, expected.n_rows)
    assert found.params.get_params()["subsample"] == found.best
    grown, report = rfsize.grow(found.params, X, y, alpha=0.8, sample_weight=weight)
    assert report.n_kept == rfsize.tree_outputs(grown, X).n_trees


@pytest.mark.parametrize("bootstrap", [True, False])
def test_ensembles_of_scikit_learn_are_judged_as_forests_that_are_fitted_at_once(bootstrap: bool, data: Data) -> None:
    """Rows that are drawn with replacement are as many as the fraction is worth."""
    X, y = data.X[:ROWS], NAMES[data.y[:ROWS]]
    kind = (
        RandomForestClassifier(max_depth=5, random_state=7)
        if bootstrap
        else BaggingClassifier(bootstrap=False, random_state=7)
    )
    found = searched(kind, X, y)
    rows = {0.2: 100, 0.4: 267} if bootstrap else {0.2: 80, 0.4: 160}
    forests = [clone(kind).set_params(n_estimators=TREES, max_samples=n).fit(X, y) for n in rows.values()]
    outputs = [rfsize.tree_outputs(forest, X, y, oob=True) for forest in forests]
    common = np.all([one.votes.asked > 0 for one in outputs], axis=0)
    wrong = [(one.predict_labels(fill="none") != y)[common].mean() for one in outputs]
    assert found.curve["error"].tolist() == pytest.approx(wrong, abs=1e-12)
    assert found.n_rows == np.count_nonzero(common)
    assert found.params.max_samples == rows[found.best]
    assert kind.get_params() == {**found.params.get_params(), "max_samples": kind.max_samples}
    with pytest.raises(NotFittedError):
        found.params.predict(X)


@pytest.mark.parametrize(
    ("estimator", "own"),
    [
        (RandomForestClassifier(), 0.5),
        (RandomForestClassifier(max_samples=100), 0.2),
        (RandomForestClassifier(max_samples=0.25), 0.2),
        (BaggingClassifier(bootstrap=False, max_samples=0.25), 0.25),
        (lgb.LGBMClassifier(boosting_type="rf", subsample=0.25, subsample_freq=1, verbose=-1), 0.25),
        (lgb.LGBMClassifier(boosting_type="rf", bagging_fraction=0.25, subsample_freq=1, verbose=-1), 0.25),
        (xgb.XGBClassifier(n_estimators=1, num_parallel_tree=5, subsample=0.25, learning_rate=1), 0.25),
        (xgb.XGBClassifier(n_estimators=1, num_parallel_tree=5, learning_rate=1), None),
    ],
)
def test_the_fraction_that_an_estimator_names(estimator: Any, own: float | None, data: Data) -> None:
    found = searched(estimator, data.X[:ROWS], data.y[:ROWS], rule="keep")
    assert found.own == (None if own is None else pytest.approx(own))


def test_scorers_see_the_labels_and_numbers_that_were_given(data: Data) -> None:
    X, y = data.X[:ROWS], NAMES[data.y[:ROWS]]
    by_name = searched(KINDS["lightgbm"], X, y, metric="f1_macro")
    by_index = searched(KINDS["lightgbm"], X, data.y[:ROWS], metric="f1_macro")
    assert by_name.curve["score"].tolist() == by_index.curve["score"].tolist()
    numbers = searched(RandomForestRegressor(max_depth=4, random_state=0), X, X[:, 0] + X[:, 1])
    assert not numbers.of_labels
    assert (numbers.curve["error"] < np.var(X[:, 0] + X[:, 1])).all()


def test_a_search_is_taken_up_again(data: Data, tmp_path: Path) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    forest = RandomForestClassifier(max_depth=4)
    first = searched(forest, X, y, resume=tmp_path / "search.zip")
    again = searched(forest, X, y, resume=tmp_path / "search.zip")
    assert str(again) == str(first)
    assert again.curve["seconds"].tolist() == first.curve["seconds"].tolist()
    with pytest.raises(ValueError, match="a search with other params"):
        searched(RandomForestClassifier(max_depth=5), X, y, resume=tmp_path / "search.zip")


def test_the_default_grid_draws_no_more_than_there_are_rows(data: Data) -> None:
    forest = RandomForestClassifier(max_depth=3, random_state=0)
    found = searched(forest, data.X[:ROWS], data.y[:ROWS], fractions=None, n_trees=24)
    assert (len(found.curve), found.curve["fraction"].max()) == (10, 0.5)


def test_bagging_over_other_learners_is_judged_by_their_probabilities(data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    bagging = BaggingClassifier(LogisticRegression(), max_features=0.5, random_state=0)
    found = searched(bagging, X, y, fractions=[0.1, 0.3])
    for one in found.curve:
        ratio = rfsize.theory.ratio_with_replacement(one["fraction"])
        model = clone(bagging).set_params(n_estimators=TREES, max_samples=round(ratio * ROWS), oob_score=True)
        assert one["error"] == pytest.approx(1.0 - model.fit(X, y).oob_score_, abs=1e-12)
    assert found.n_dropped == 0


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        ("random forest", {"fractions": [0.6]}, ValueError, "fractions up to 0.5"),
        ("random forest", {"y": None}, ValueError, "y is missing"),
        ("extra-trees", {}, rfsize.exceptions.InbagError, "bootstrap=True"),
    ],
)
def test_refused(kind: str, options: dict[str, Any], error: type[Exception], message: str, data: Data) -> None:
    y = options.pop("y", data.y[:ROWS])
    with pytest.raises(error, match=message):
        searched(KINDS[kind], data.X[:ROWS], y, **options)


def test_what_is_no_estimator_of_trees_is_refused(data: Data) -> None:
    for thing in (np.zeros(3), "rf", BaggingClassifier):
        with pytest.raises(ValueError, match="or an estimator of trees"):
            searched(thing, data.X[:ROWS], data.y[:ROWS])
    with pytest.raises(ValueError, match="labels and weights are in the Dataset or DMatrix"):
        searched(LIGHTGBM, lgb.Dataset(data.X, data.y), data.y)
