"""Two settings compared, next to plain arithmetic of the frameworks' own predictions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    make_scorer,
    roc_auc_score,
    root_mean_squared_error,
)

import reference.metrics
import rfsize
from helpers.lookup import regressor, rows_of
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, model, predicted, train

WEAK = {"lightgbm": {"num_leaves": 2}, "xgboost": {"max_depth": 1}, "sklearn": {"max_depth": 1}}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def pair(request: pytest.FixtureRequest) -> list[Any]:
    return [model(request.param), train(request.param, X, Y["two"], **WEAK[request.param])]


def outputs(forest: Any, *, oob: bool = False, task: str = "two") -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(forest, X if oob else FRESH, (Y if oob else TRUTH)[task], oob=oob)


def forest_of(y: np.ndarray = Y["two"], n_trees: int = 60, **params: Any) -> Any:
    return RandomForestClassifier(n_trees, **{"min_samples_leaf": 5, "random_state": 0, **params}).fit(X, y)


def test_values_are_those_of_the_frameworks(pair: list[Any]) -> None:
    """The interval of forests as they are is that of the differences of the rows' losses."""
    both, shares = [outputs(of) for of in pair], [predicted(of, FRESH)[:, 1] for of in pair]
    for metric, score in {"auc": roc_auc_score, "brier": brier_score_loss}.items():
        result = rfsize.compare(*both, metric=metric)
        assert result.values == pytest.approx([score(TRUTH["two"], share) for share in shares], abs=1e-6)
        assert result.at_hand.value == pytest.approx(result.values[0] - result.values[1])  # fresh rows ask all trees
    losses = [(share - TRUTH["two"]) ** 2 for share in shares]
    of_rows = np.std(losses[0] - losses[1], ddof=1) / math.sqrt(len(FRESH))
    low, high = result.at_hand.interval
    # Student's quantile is a little larger.
    assert (high - low) / 2.0 == pytest.approx(norm.ppf(0.975) * of_rows, rel=0.02)
    assert (low + high) / 2.0 == pytest.approx(result.at_hand.value)


def test_rows_that_train_each_other_widen_the_interval() -> None:
    """Out of bag a quarter is added to the variance over rows; the gain by trees adds little to it here."""
    both = [outputs(forest_of(n_trees=400, max_features=of), oob=True) for of in (1, 3)]
    losses = [(of.predict_proba(fill=0.0)[:, 1] - Y["two"]) ** 2 for of in both]
    of_rows = np.std(losses[0] - losses[1], ddof=1) / math.sqrt(len(X))
    half = np.ptp(rfsize.compare(*both, metric="brier").at_hand.interval) / 2.0
    assert half == pytest.approx(norm.ppf(0.975) * math.sqrt(1.25) * of_rows, rel=0.05)


def test_the_better_setting_is_named(pair: list[Any]) -> None:
    both = [outputs(of, oob=True) for of in pair]
    for metric, is_more in {"brier": False, "auc": True}.items():
        result, swapped = rfsize.compare(*both, metric=metric), rfsize.compare(*both[::-1], metric=metric)
        assert (result.at_hand.better, swapped.at_hand.better) == ("first", "second")
        assert (result.at_hand.value > 0) == (result.limit.value > 0) == is_more
        assert swapped.at_hand.value == pytest.approx(-result.at_hand.value)


def test_settings_scatter_by_what_trees_add_to_all_rows() -> None:
    """Each tree is off by 1, a number of its own and one of each row: the rows have the last in their scatter."""
    rng = np.random.default_rng(0)
    truth, n_trees = rng.normal(size=3000), 200
    of_trees = [rng.permutation(norm.ppf((np.arange(n_trees) + 0.5) / n_trees)) for _ in range(2)]
    score = [truth[:, None] + 1.0 + of + rng.normal(size=(len(truth), n_trees)) for of in of_trees]
    both = [rfsize.tree_outputs(regressor(of), rows_of(truth), truth) for of in score]
    result = rfsize.compare(*both, metric="rmse")
    assert result.limit is not None
    halves = [np.ptp(of.interval) / 2.0 for of in (result.at_hand, result.limit)]
    assert math.sqrt(halves[1] ** 2 - halves[0] ** 2) == pytest.approx(1.96 * math.sqrt(2.0 / n_trees), rel=0.25)


def test_known_law_of_the_limit() -> None:
    """Trees off by numbers of variance 4: of T of them the mean square is 4/T more than that of infinitely many."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=2000)
    score = truth[:, None] + rng.normal(size=(2000, 1)) + 2.0 * rng.normal(size=(2000, 120))
    both = [rfsize.tree_outputs(regressor(score[:, :of]), rows_of(truth), truth) for of in (40, 120)]

    def squares(estimator: Any, rows: Any, y: Any) -> float:
        return -float(np.mean((estimator.predict(rows) - y) ** 2))

    result = rfsize.compare(*both, metric=squares)
    assert -result.at_hand.value == pytest.approx(4 / 40 - 4 / 120, rel=0.4)
    assert result.limit.interval[0] < 0.0 < result.limit.interval[1]


def test_numbers_and_scorers() -> None:
    both = [train("sklearn", X, Y["number"], max_depth=of) for of in (None, 2)]
    of = [outputs(forest, task="number") for forest in both]
    result = rfsize.compare(*of, metric="rmse")
    truth = [root_mean_squared_error(TRUTH["number"], forest.predict(FRESH)) for forest in both]
    assert result.values == pytest.approx(truth)
    assert (result.at_hand.better, rfsize.compare(*of).metric) == ("first", "r2")
    by_scorer = rfsize.compare(*of, metric=make_scorer(reference.metrics.rmse, greater_is_better=False))
    assert by_scorer.at_hand.value == pytest.approx(-result.at_hand.value)
    widths = [np.ptp(of.at_hand.interval) for of in (result, by_scorer)]
    assert widths[1] == pytest.approx(widths[0], rel=0.3)  # by the bootstrap


def test_frameworks_labels_and_learners_may_differ() -> None:
    names = np.array(["no", "yes"])[Y["two"]]
    named = rfsize.tree_outputs(forest_of(names), X, names, oob=True)
    result = rfsize.compare(outputs(model("lightgbm"), oob=True), named, metric="auc")
    assert result.n_rows + result.n_dropped == len(X)
    bagged = BaggingClassifier(LogisticRegression(), 60, oob_score=True, random_state=0).fit(X, Y["two"])
    result = rfsize.compare(outputs(bagged, oob=True), outputs(forest_of(), oob=True))
    assert result.values[0] == pytest.approx(bagged.oob_score_)


def test_cross_validated_outputs_are_compared() -> None:
    forests = [RandomForestClassifier(40, max_depth=of, random_state=0) for of in (None, 1)]
    result = rfsize.compare(*(rfsize.tree_outputs(of, X, Y["two"], cv=3) for of in forests), metric="brier")
    assert (result.source, result.at_hand.better) == ("cross-validation", "first")


def test_scorers_weigh_the_rows() -> None:
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    forests = [forest_of(max_features=of) for of in (1, 3)]
    both = [rfsize.tree_outputs(of, X, Y["two"], oob=True, sample_weight=weight) for of in forests]
    result = rfsize.compare(*both, metric="balanced_accuracy")
    expected = [balanced_accuracy_score(Y["two"], of.predict_labels(), sample_weight=weight) for of in both]
    assert result.values == pytest.approx(expected, abs=1e-9)
