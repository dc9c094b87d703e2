"""The search for the bagging fraction of estimators."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import rfsize
from helpers.classifiers import KINDS
from helpers.forests import LIGHTGBM, XGBOOST, Data

DRAWS_MORE = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
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


def test_the_default_grid_is_that_of_the_paper(data: Data) -> None:
    """From 0.1 to 1.2 draws with replacement for each row, where scikit-learn draws more than all rows."""
    forest = RandomForestClassifier(max_depth=3, random_state=0)
    found = searched(forest, data.X[:ROWS], data.y[:ROWS], fractions=None, n_trees=50)
    ratios = rfsize.theory.ratio_with_replacement(found.curve["fraction"])
    assert ratios.tolist() == pytest.approx((np.arange(1, 13 if DRAWS_MORE else 11) / 10).tolist())


@pytest.mark.skipif(not DRAWS_MORE, reason="scikit-learn draws at most all rows before 1.9")
@pytest.mark.parametrize(
    "forest",
    [
        RandomForestClassifier(max_samples=1.2, random_state=0),
        RandomForestClassifier(max_samples=int(1.2 * ROWS), random_state=0),
        BaggingClassifier(max_samples=int(1.2 * ROWS), random_state=0),
    ],
)
def test_more_draws_than_rows(forest: Any, data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    found = searched(forest, X, y, rule="keep", fractions=[0.5], n_trees=50)
    assert found.own == pytest.approx(12 / 22)
    assert found.curve["fraction"].tolist() == pytest.approx([0.5, 12 / 22])
    fitted = clone(forest).set_params(n_estimators=50).fit(X, y)
    outputs = rfsize.tree_outputs(fitted, X, y, oob=True)
    seen = outputs.votes.asked > 0
    error = (outputs.predict_labels(fill=-1) != y)[seen].mean()
    assert found.curve["error"][1] == pytest.approx(error, abs=2 / ROWS)


def test_a_fraction_of_which_too_few_votes_would_come_is_left_out(data: Data) -> None:
    """Of a row in the bag of nearly all trees, 40 trees say next to nothing."""
    X, y = data.X[:ROWS], data.y[:ROWS]
    forest = BaggingClassifier(max_samples=0.95, bootstrap=False, random_state=0)
    found = searched(forest, X, y, rule="keep", n_trees=40)
    assert found.left_out == (0.95,)
    assert found.curve["fraction"].tolist() == [0.2, 0.4]
    assert found.best in (0.2, 0.4)
    assert "0.950" in str(found)
    assert found.to_dict()["left_out"] == [0.95]
    with pytest.raises(rfsize.exceptions.FewVotesError, match="fractions"):
        searched(forest, X, y, fractions=[0.9, 0.95], n_trees=40)


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
