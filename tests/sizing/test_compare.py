"""Two settings compared, next to plain arithmetic of the frameworks' own predictions."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, make_scorer, roc_auc_score, root_mean_squared_error

import rfsize
from helpers.forests import Data, predict, train_lightgbm, train_xgboost
from rfsize.sizing.noise import noise_of_rows

ROWS, TREES = 800, 80


def sklearn_forest(X: Any, y: Any, trees: int = TREES, **params: Any) -> Any:
    return RandomForestClassifier(trees, **{"min_samples_leaf": 5, "random_state": 0, **params}).fit(X, y)


TRAINS = {"lightgbm": train_lightgbm, "xgboost": train_xgboost, "sklearn": sklearn_forest}
WEAK = {"lightgbm": {"num_leaves": 2}, "xgboost": {"max_depth": 1}, "sklearn": {"max_depth": 1}}


@pytest.fixture(scope="module")
def train_and_fresh(data: Data) -> tuple[np.ndarray, ...]:
    return data.X[:ROWS], data.y[:ROWS], data.X[ROWS:], data.y[ROWS:]


@pytest.fixture(scope="module", params=TRAINS)
def pair(request: pytest.FixtureRequest, train_and_fresh: tuple[np.ndarray, ...]) -> list[Any]:
    X, y, *_ = train_and_fresh
    train = TRAINS[request.param]
    return [train(X, y, TREES), train(X, y, TREES, **WEAK[request.param])]


def outputs(model: Any, X: Any, y: Any, **options: Any) -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(model, X, y, **options)


def test_values_are_those_of_the_frameworks(pair: list[Any], train_and_fresh: tuple[np.ndarray, ...]) -> None:
    *_, X, y = train_and_fresh
    for metric, score in {"log_loss": log_loss, "auc": roc_auc_score}.items():
        found = rfsize.compare(*(outputs(one, X, y) for one in pair), metric=metric)
        assert found.values == pytest.approx([score(y, predict(one, X)) for one in pair], abs=1e-6)
        assert found.at_hand.value == pytest.approx(found.values[0] - found.values[1])  # fresh rows ask all trees


def test_the_better_setting_is_named(pair: list[Any], train_and_fresh: tuple[np.ndarray, ...]) -> None:
    X, y, *_ = train_and_fresh
    of = [outputs(one, X, y, oob=True) for one in pair]
    for metric, is_more in {"brier": False, "auc": True}.items():
        found, swapped = rfsize.compare(*of, metric=metric), rfsize.compare(*of[::-1], metric=metric)
        assert (found.at_hand.better, swapped.at_hand.better) == ("first", "second")
        assert found.limit is not None
        assert (found.at_hand.value > 0) == (found.limit.value > 0) == is_more
        assert swapped.at_hand.value == pytest.approx(-found.at_hand.value)
        assert str(found).startswith("the first setting has the better")


def test_rows_are_paired(pair: list[Any], train_and_fresh: tuple[np.ndarray, ...]) -> None:
    """The interval is that of the differences of the rows' losses, and of the trees' noise."""
    *_, X, y = train_and_fresh
    first, second = (outputs(one, X, y) for one in pair)
    found = rfsize.compare(first, second, metric="brier")
    losses = [(predict(one, X) - y) ** 2 for one in pair]
    of_rows = np.std(losses[0] - losses[1], ddof=1) / math.sqrt(len(y))
    spreads = [rfsize.size(one, metric="brier", tolerance=1.0).loss_at(TREES).spread for one in (first, second)]
    wide = norm.ppf(0.975) * math.hypot(of_rows, *(float(one or 0.0) for one in spreads))
    low, high = found.at_hand.interval
    assert (high - low) / 2.0 == pytest.approx(wide, rel=0.02)  # Student's quantile is a little larger
    assert (low + high) / 2.0 == pytest.approx(found.at_hand.value)


def test_the_limit_takes_off_what_few_trees_lose(train_and_fresh: tuple[np.ndarray, ...]) -> None:
    """One setting with 60 and with 600 trees differs at hand, and not in the limit."""
    X, y, *_ = train_and_fresh
    few, many = (outputs(sklearn_forest(X, y, trees, min_samples_leaf=1), X, y, oob=True) for trees in (60, 600))
    found = rfsize.compare(few, many, metric="brier")
    assert found.limit is not None
    assert found.at_hand.value > 0.0
    assert found.limit.better is None
    assert abs(found.limit.value) < 0.7 * abs(found.at_hand.value)
    lost = [rfsize.size(one, metric="brier", tolerance=1.0) for one in (few, many)]
    behind = [report.loss_at(of.n_trees).value for report, of in zip(lost, (few, many), strict=True)]
    expected = found.at_hand.value - (behind[0] - behind[1])
    assert found.limit.value == pytest.approx(expected, rel=1e-6)


def test_forests_of_one_setting_are_told_apart_no_more_often_than_they_may() -> None:
    wrong = 0
    for seed in range(40):
        X, y = make_classification(200, flip_y=0.2, random_state=seed)
        of = [
            outputs(RandomForestClassifier(60, min_samples_leaf=3, random_state=one).fit(X, y), X, y, oob=True)
            for one in (seed, 1000 + seed)
        ]
        wrong += rfsize.compare(*of, metric="brier").at_hand.better is not None
    assert wrong <= 5  # of 40 at 5 %, 6 or more would come in 1.4 % of trials


def test_regression_and_scorers(train_and_fresh: tuple[np.ndarray, ...]) -> None:
    X, _, fresh, _ = train_and_fresh
    target, truth = X[:, 0] + X[:, 1], fresh[:, 0] + fresh[:, 1]
    models = [RandomForestRegressor(TREES, max_depth=depth, random_state=0).fit(X, target) for depth in (None, 2)]
    of = [outputs(one, fresh, truth) for one in models]
    found = rfsize.compare(*of, metric="rmse")
    assert found.values == pytest.approx([root_mean_squared_error(truth, one.predict(fresh)) for one in models])
    assert found.at_hand.better == "first"
    scorer = make_scorer(root_mean_squared_error, greater_is_better=False)
    by_scorer = rfsize.compare(*of, metric=scorer)
    assert by_scorer.at_hand.value == pytest.approx(-found.at_hand.value)
    widths = [np.diff(one.at_hand.interval)[0] for one in (found, by_scorer)]
    assert widths[1] == pytest.approx(widths[0], rel=0.3)  # by the bootstrap
    assert rfsize.compare(*of).metric == "r2"


def test_frameworks_and_labels_may_differ(train_and_fresh: tuple[np.ndarray, ...]) -> None:
    X, y, *_ = train_and_fresh
    names = np.array(["no", "yes"])[y.astype(int)]
    one = outputs(train_lightgbm(X, y, TREES), X, y, oob=True)
    other = outputs(sklearn_forest(X, names), X, names, oob=True)
    found = rfsize.compare(one, other, metric="auc")
    assert found.n_rows + found.n_dropped == ROWS


def test_cross_validated_outputs_are_compared(train_and_fresh: tuple[np.ndarray, ...]) -> None:
    X, y, *_ = train_and_fresh
    of = [rfsize.tree_outputs(RandomForestClassifier(40, max_depth=d, random_state=0), X, y, cv=3) for d in (None, 1)]
    found = rfsize.compare(*of, metric="brier")
    assert (found.source, found.at_hand.better) == ("cross-validation", "first")


def test_it_prints_and_is_stored(pair: list[Any], train_and_fresh: tuple[np.ndarray, ...], tmp_path: Any) -> None:
    X, y, *_ = train_and_fresh
    found = rfsize.compare(*(outputs(one, X, y, oob=True) for one in pair), metric="auc")
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["at_hand"]["better"] == "first"
    assert plain["limit"]["interval"] == list(found.limit.interval)  # type: ignore[union-attr]
    assert str(pickle.loads(pickle.dumps(found))) == str(found)
    found.to_html(tmp_path / "page.html")
    assert "Two settings compared" in (tmp_path / "page.html").read_text()


def test_rows_that_were_drawn_out_are_not_called_left_out() -> None:
    """Of many rows and classes only one row in k is scored; all of these have trees to predict them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3600, 3)), np.arange(3600) % 100
    pair = [sklearn_forest(X[:1800], y[:1800], 40, max_depth=3, random_state=seed) for seed in (0, 1)]
    found = rfsize.compare(*(outputs(one, X, y) for one in pair))
    assert found.n_rows < 3600
    assert found.n_dropped == 0


def test_scorers_weigh_the_rows_or_are_refused(train_and_fresh: tuple[np.ndarray, ...]) -> None:
    X, y = train_and_fresh[:2]
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    pair = [outputs(sklearn_forest(X, y, max_features=of), X, y, oob=True, sample_weight=weight) for of in (1, 3)]
    by_name, by_scorer = (rfsize.compare(*pair, metric=metric) for metric in ("accuracy", "balanced_accuracy"))
    assert by_name.values != by_scorer.values
    labels = [(one.predict_proba()[:, 1] > 0.5).astype(int) for one in pair]
    expected = [balanced_accuracy_score(y, label, sample_weight=weight) for label in labels]
    assert by_scorer.values == pytest.approx(expected, abs=1e-9)
    unweighted = make_scorer(lambda truth, label: float(np.mean(truth == label)))
    with pytest.raises(ValueError, match="sample_weight"):
        rfsize.compare(*pair, metric=unweighted)


class TestRefusals:
    @pytest.fixture
    def rows(self, train_and_fresh: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        return train_and_fresh[:2]

    def test_other_rows(self, rows: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = rows
        forest = sklearn_forest(X, y)
        whole = outputs(forest, X, y, oob=True)
        with pytest.raises(ValueError, match="the number of rows is 800 in the first and 700 in the second"):
            rfsize.compare(whole, rfsize.TreeOutputs(whole._evidence.take(np.arange(ROWS) < 700)))
        backwards = whole.with_truth(y[::-1].copy())
        with pytest.raises(ValueError, match=r"y differs on \d+ of 800: row \d+ has"):
            rfsize.compare(whole, backwards)
        with pytest.raises(ValueError, match="their source is oob in the first and rows given in the second"):
            rfsize.compare(whole, outputs(sklearn_forest(X[:400], y[:400]), X, y))
        weighted = whole.with_truth(y, np.arange(ROWS) + 1.0)
        with pytest.raises(ValueError, match="sample_weight of the first outputs is not"):
            rfsize.compare(whole, weighted, metric="brier")
        grouped = outputs(forest, X, y, oob=True, groups=np.arange(ROWS) // 2)
        with pytest.raises(ValueError, match="groups of the first outputs is not"):
            rfsize.compare(whole, grouped, metric="brier")

    def test_what_cannot_be_compared(self, rows: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = rows
        of = outputs(sklearn_forest(X, y), X, y, oob=True)
        with pytest.raises(ValueError, match=r"the first is a RandomForestClassifier: give what rfsize\.tree_outputs"):
            rfsize.compare(sklearn_forest(X, y, 5), of)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="the second outputs have no y"):
            rfsize.compare(of, outputs(sklearn_forest(X, y), X, None, oob=True))
        with pytest.raises(ValueError, match="does not say whether larger values are better"):
            rfsize.compare(of, of, metric=lambda truth, predicted: 1.0)
        with pytest.raises(rfsize.exceptions.FewVotesError, match="too few"):
            rfsize.compare(of, outputs(sklearn_forest(X, y, 30), X, y, oob=True), metric="brier")

    def test_forests_of_other_learners(self, rows: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = rows
        bagged = BaggingClassifier(LogisticRegression(), TREES, oob_score=True, random_state=0).fit(X, y)
        found = rfsize.compare(outputs(bagged, X, y, oob=True), outputs(sklearn_forest(X, y), X, y, oob=True))
        assert found.values[0] == pytest.approx(bagged.oob_score_)


def test_rows_without_weight_are_none_that_might_have_been_others() -> None:
    rows, value = np.arange(100), np.random.default_rng(0).normal(size=100)
    weight = (rows < 20).astype(np.float64)

    class Mean:
        def influence(self, rows: np.ndarray, predicted: np.ndarray) -> np.ndarray:
            return weight[rows] * (predicted - value[:20].mean()) / 20.0

    found = noise_of_rows(Mean(), rows, value, rows, weight)  # type: ignore[arg-type]
    assert found == noise_of_rows(Mean(), rows[:20], value[:20], rows[:20], None)  # type: ignore[arg-type]
    assert found[1] <= 19.0
