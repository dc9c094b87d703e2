"""T* of metrics: the law of the loss and its parts against loops, laws that are known, and what rows cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import log_loss, make_scorer, roc_auc_score

import reference.metric_loss
import reference.metrics
import rfsize
from helpers.lookup import regressor, rows_of
from helpers.trained import FRAMEWORKS, FRESH, TRUTH, X, Y, model, probabilities, train, tree_scores
from helpers.warned import warned
from rfsize.exceptions import ForestWarning
from rfsize.statistics import metrics

# Losses of probabilities of class 1.
LOSSES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "auc": lambda y, p: 1.0 - reference.metrics.auc(y, p.astype(np.float32)),
    "log_loss": reference.metrics.logloss,
    "brier": lambda y, p: float(np.mean((p - y) ** 2)),
    "average_precision": lambda y, p: 1.0 - reference.metrics.average_precision(y, p.astype(np.float32)),
    "accuracy": lambda y, p: 1.0 - reference.metrics.accuracy(y, p > 0.5),
}
SIGNIFICANT = ("auc", "log_loss", "brier")  # of which halves of the trees here lose clearly some


@cache
def given(framework: str, oob: bool, task: str = "two") -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A forest, rows and their truth, the scores of each tree, and which trees may be asked."""
    params = {"min_samples_leaf": 20} if framework == "sklearn" else {}
    forest, rows, y = train(framework, X, Y[task], **params), X if oob else FRESH, (Y if oob else TRUTH)[task]
    score = tree_scores(forest, rows)
    if framework == "sklearn" and task == "two":
        score = score[:, :, 1:]
    may_vote = ~rfsize.inbag(forest, rows, y).T if oob else np.ones(score.shape[:2], dtype=bool)
    return forest, rows, y, score, may_vote


@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize(("framework", "metric"), [*zip(FRAMEWORKS, SIGNIFICANT, strict=True)])
def test_law_of_the_loss_is_as_restated(framework: str, metric: str, oob: bool) -> None:
    forest, rows, y, score, may_vote = given(framework, oob)
    c, d = reference.metric_loss.law(
        score, may_vote, lambda known, mean: LOSSES[metric](y[known], probabilities(forest, mean)[:, -1])
    )
    report = rfsize.size(forest, rows, y, oob=oob, metric=metric, tolerance=0.01)
    for n_trees in (30, 60, 1000):
        assert report.loss_at(n_trees).value == pytest.approx(c / (n_trees + d), rel=1e-5)
    assert report.source == ("oob" if oob else "rows given")


@pytest.mark.parametrize(("metric", "oob"), [*zip(LOSSES, [True, False, True, False, True], strict=True)])
def test_few_trees_lose_what_drawing_them_says(metric: str, oob: bool) -> None:
    """Against loops that draw forests anew, of the trees that may vote on each row."""
    forest, rows, y, score, may_vote = given("sklearn", oob)
    report = rfsize.size(forest, rows, y, oob=oob, metric=metric, tolerance=0.01)
    drawn = reference.metric_loss.of_few_trees(
        score[:, :, 0], may_vote, lambda known, mean: LOSSES[metric](y[known], mean), 3, 60
    )
    of_all = report.loss_at(int(np.median(may_vote.sum(axis=1)))).value
    low, high = report.loss_at(3).interval
    assert low <= drawn + of_all <= high
    off = 0.2 if metric in SIGNIFICANT else np.inf  # of others an upper bound is told
    assert report.loss_at(3).value - of_all == pytest.approx(drawn, rel=off, abs=0.012)
    assert report.loss_at(1).value > report.loss_at(3).value > report.loss_at(30).value


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_law_of_the_loss_of_numbers(framework: str) -> None:
    forest, rows, y, score, may_vote = given(framework, True, "number")
    c, d = reference.metric_loss.law(score, may_vote, lambda known, mean: reference.metrics.rmse(y[known], mean[:, 0]))
    outputs = rfsize.tree_outputs(forest, rows, y, oob=True)
    report = rfsize.size(outputs, metric="rmse", tolerance=0.01)
    assert report.loss_at(60).value == pytest.approx(c / (60 + d), rel=1e-4)
    again = rfsize.size(forest, rows, pd.DataFrame({"y": y}), oob=True, metric="rmse", tolerance=0.01)
    assert again.to_dict() == report.to_dict()
    scored = rfsize.size(outputs, metric="neg_root_mean_squared_error", tolerance=0.01)
    assert scored.n_trees == pytest.approx(report.n_trees, rel=1e-3, abs=1)
    explained = rfsize.size(outputs, metric="r2", tolerance=0.01)
    assert explained.loss_at(30).value > explained.loss_at(60).value > 0.0


# Known laws: scores of a table, of which what one tree is off by is known


def squares_of(estimator: Any, rows: Any, y: Any) -> float:
    """scikit-learn's "neg_mean_squared_error", as a callable."""
    return -float(np.mean((estimator.predict(rows) - y) ** 2))


def squares(seed: int, tolerance: float = 0.05, metric: Any = squares_of) -> rfsize.Report:
    """400 rows whose 60 trees are off by independent noise of variance 4."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=400)
    score = (truth + rng.normal(size=400))[:, None] + 2.0 * rng.normal(size=(400, 60))
    return rfsize.size(regressor(score), rows_of(score), truth, metric=metric, tolerance=tolerance)


def test_a_known_law_is_found() -> None:
    """The mean square of an average of T numbers of variance 4 is 4/T more than that of infinitely many."""
    reports = [squares(seed) for seed in range(12)]
    assert np.mean([report.n_trees for report in reports]) == pytest.approx(80, rel=0.03)
    assert sum(report.interval[0] <= 80 <= report.interval[1] for report in reports) >= 10
    assert reports[0].loss_at(100).value == pytest.approx(0.04, rel=0.15)
    assert not reports[0].enough
    named, by_callable = (squares(0, 0.1, metric) for metric in ("neg_mean_squared_error", squares_of))
    assert named.enough
    assert (by_callable.n_trees, by_callable.interval) == (named.n_trees, named.interval)


@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("noise", ["of each row", "of all rows"])
def test_spread_from_seed_to_seed(noise: str, oob: bool) -> None:
    """What trees are off by, ±1 away from the truth, moves the mean square by twice its mean over rows and trees."""
    rng, spreads = np.random.default_rng(0), []
    for _ in range(6):
        truth, drawn = rng.normal(size=400), rng.normal(size=(400 if noise == "of each row" else 1, 200))
        score = truth[:, None] + rng.choice([-1.0, 1.0], size=(400, 1)) * (1.0 + 0.5 * drawn)
        forest = regressor(score, max_samples=0.63, bootstrap=False)
        report = rfsize.size(forest, rows_of(score), truth, oob=oob, metric=squares_of, tolerance=0.05)
        spreads.append(report.loss_at(50).spread)
    expected = 2.0 * 0.5 / math.sqrt(50 * (400 if noise == "of each row" else 1))
    assert 0.9 < np.mean(spreads) / expected < 1.25  # out of bag rather too much, where rows have nothing in common


# What rows cannot tell


def test_few_rows_of_a_class_tell_no_ranking_out_of_bag() -> None:
    """Single trees seem to rank 20 rows as well as their forest does, and rank fresh ones far worse."""

    def drawn(n_rows: int, n_ones: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        y = (np.arange(n_rows) < n_ones).astype(int)
        rows = np.random.default_rng([seed, n_ones]).normal(size=(n_rows, 6))
        rows[:, 0] += y
        return rows, y

    (rows, y), (fresh, truth) = drawn(700, 20, 7), drawn(4000, 500, 100)
    forest = RandomForestClassifier(150, min_samples_leaf=2, random_state=0).fit(rows, y)
    score = tree_scores(forest, fresh)[:, :, 1]
    lost = roc_auc_score(truth, score.mean(axis=1)) - np.mean([roc_auc_score(truth, of) for of in score.T[:20]])
    report = rfsize.size(forest, rows, y, oob=True, metric="auc", tolerance=0.02)
    assert report.loss_at(1).value > lost > 0.08
    assert report.n_trees == report.size_at(0.5) == report.upper(0.8) == math.inf
    assert (report.to_dict()["reason"] is not None, report.interval) == (True, (1, math.inf))
    assert rfsize.size(forest, rows, y, oob=True, metric="brier", tolerance=0.02).enough
    assert rfsize.size(forest, fresh, truth, metric="auc", tolerance=0.02).enough


@pytest.mark.parametrize("n_ones", [99, 100])
def test_few_rows_of_a_class_are_noted(n_ones: int) -> None:
    ones = np.flatnonzero(Y["two"])[:n_ones]
    weight = (Y["two"] == 0) | np.isin(np.arange(len(X)), ones)
    outputs = rfsize.tree_outputs(model("lightgbm"), X, Y["two"], oob=True, sample_weight=weight)
    notes = rfsize.size(outputs, metric="accuracy", tolerance=0.01).to_dict()["notes"]
    assert any(str(n_ones) in note for note in notes) == (n_ones == 99)


@pytest.mark.parametrize("metric", ["auc", "accuracy", "average_precision"])
def test_an_upper_bound_grows_with_its_confidence(metric: str) -> None:
    """Also where halves lose nothing clearly, so that T* itself is the bound of 95 %."""
    rng, sures = np.random.default_rng(3), 0
    for noise in (0.0, 3.0, 30.0):
        y = (X[:, 0] + noise * rng.normal(size=len(X)) > 0.0).astype(int)
        forest = RandomForestClassifier(80, min_samples_leaf=5, random_state=0).fit(X[:300], y[:300])
        truth = (FRESH[:200, 0] > 0.0).astype(int)
        report = rfsize.size(forest, FRESH[:200], truth, metric=metric, tolerance=1e-4)
        uppers = [report.upper(sure) for sure in (0.5, 0.8, 0.95, 0.99, 0.999)]
        assert uppers == sorted(uppers)
        sures += report.n_trees == uppers[2] < uppers[3] < uppers[4] < math.inf
        assert report.interval[0] <= report.n_trees <= report.interval[1]
    assert sures > 0


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.ForestWarning")
def test_a_loss_that_bends_too_much_cannot_be_told() -> None:
    """Trees that are hardly better than chance where few rows are of class 1: quarters can hardly rank them worse."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(9000, 30))
    y = (rows[:, 0] + rng.normal(size=9000) > 2.5).astype(int)
    forest = train("lightgbm", rows[:3000], y[:3000], 24, num_leaves=127, min_data_in_leaf=2, feature_fraction=0.1)
    report = rfsize.size(forest, rows[3000:], y[3000:], metric="auc", tolerance=0.001)
    assert report.n_trees == report.size_at(0.5) == report.upper(0.8) == math.inf
    assert (report.to_dict()["reason"] is None, report.enough, report.to_dict()["n_trees"]) == (False, False, None)


# Weights, groups, scorers and names


@pytest.mark.parametrize(("metric", "off"), [("auc", 0.1), ("brier", 1e-6)])
def test_weights_count_rows(metric: str, off: float) -> None:
    weight = np.random.default_rng(6).integers(0, 4, len(FRESH))
    rows, y = np.repeat(FRESH, weight, axis=0), np.repeat(TRUTH["two"], weight)
    forest = given("sklearn", False)[0]
    weighed = rfsize.tree_outputs(forest, FRESH, TRUTH["two"], sample_weight=weight)
    reports = [rfsize.size(*of, metric=metric, tolerance=0.01) for of in ((weighed,), (forest, rows, y))]
    assert reports[0].to_dict()["value"] == pytest.approx(reports[1].to_dict()["value"], abs=1e-9)
    for n_trees in (15, 30, 100):
        assert reports[0].loss_at(n_trees).value == pytest.approx(reports[1].loss_at(n_trees).value, rel=off)


@pytest.mark.parametrize("name", ["log_loss", "auc"])
def test_scorers_tell_what_names_do(name: str) -> None:
    function = {"log_loss": reference.metrics.logloss, "auc": reference.metrics.auc}[name]
    scorer = make_scorer(function, response_method="predict_proba", greater_is_better=name == "auc")
    outputs = rfsize.tree_outputs(given("sklearn", False)[0], FRESH, TRUTH["two"])
    by_name, by_scorer = (rfsize.size(outputs, metric=metric, tolerance=0.02) for metric in (name, scorer))
    sign = 1.0 if name == "auc" else -1.0
    assert by_scorer.to_dict()["value"] == pytest.approx(sign * by_name.to_dict()["value"])
    for n_trees in (2, 15, 30):
        assert by_scorer.loss_at(n_trees).value == pytest.approx(by_name.loss_at(n_trees).value, rel=0.1)


def test_a_scorer_is_given_the_labels_of_the_model() -> None:
    names = np.array(["no", "yes"])[Y["two"]]
    forest = RandomForestClassifier(60, max_depth=4, random_state=0).fit(X, names)
    outputs = rfsize.tree_outputs(forest, X, names, oob=True)

    def share_of_yes(estimator: Any, rows: Any, y: Any) -> float:
        return float(np.mean((estimator.predict(rows) == "yes") == (y == "yes")))

    report = rfsize.size(outputs, metric=share_of_yes, tolerance=0.05)
    assert report.to_dict()["value"] == pytest.approx(np.mean(outputs.predict_labels() == names), abs=0.02)


def test_a_metric_is_one_by_all_of_its_names() -> None:
    outputs = rfsize.tree_outputs(model("lightgbm"), FRESH[:150], TRUTH["two"][:150])
    labels = rfsize.size(outputs, alpha=0.9)
    for names in (
        ("auc", "roc_auc", "AUC"),
        ("log_loss", "neg-log-loss"),
        ("brier", "Brier score"),
        ("accuracy_score",),
    ):
        losses = [labels.loss_at(10, name) for name in names]
        assert losses == losses[:1] * len(names)


@pytest.mark.parametrize("n_trees", [1, 2, 10, 60])
@pytest.mark.parametrize("name", ["auc", "log_loss", "probabilities"])
def test_a_loss_beside_another_is_about_as_where_it_is_asked_for(name: str, n_trees: int) -> None:
    """On many rows it is estimated from fewer draws and rows, of both classes wherever they stand."""
    rows = np.tile(FRESH, (25, 1)) + np.random.default_rng(0).normal(0.0, 0.01, (25 * len(FRESH), FRESH.shape[1]))
    outputs = rfsize.tree_outputs(model("lightgbm"), rows, np.tile(TRUTH["two"], 25))
    beside = rfsize.size(outputs, alpha=0.9).loss_at(n_trees, name)
    report = rfsize.size(outputs, metric=name, tolerance=0.01).loss_at(n_trees)
    low, high = report.interval
    assert low <= beside.value <= high
    assert 0.5 < (beside.interval[1] - beside.interval[0]) / (high - low) < 2.0
    assert beside.spread is report.spread is None or beside.spread == pytest.approx(report.spread, rel=0.3)


@pytest.mark.parametrize("name", ["auc", "average_precision"])
def test_slopes_of_a_ranking_are_what_a_little_more_weight_adds(name: str) -> None:
    """Rows without weight lie above, between and below the others."""
    low, high = np.array([0.0, 3.0, 1.0, 0.0, 2.0, 0.0]), np.array([0.0, 1.0, 2.0, 0.0, 4.0, 0.0])
    metric, slopes = getattr(metrics, name), getattr(metrics, f"{name}_slopes")(low, high)
    for of_class, slope in enumerate(slopes):
        for level in np.flatnonzero(low + high):
            more = [low.copy(), high.copy()]
            more[of_class][level] += 1e-6
            assert slope[level] == pytest.approx((metric(*more) - metric(low, high)) / 1e-6, rel=1e-4, abs=1e-6)
        assert np.isfinite(slope).all()


# Log loss is clipped as scikit-learn clips it


def pure(seed: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Where nearly all rows are of the last class, three are of the first."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, 5))
    y = np.digitize(rows[:, 0] + 0.5 * rng.normal(size=400), np.linspace(-0.7, 0.7, n_classes - 1))
    rows[:60, 0], y[:60], y[:3] = 3.0, n_classes - 1, 0
    return rows, y


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.ForestWarning")
@pytest.mark.parametrize(
    ("kind", "n_classes"), [(RandomForestClassifier, 2), (partial(ExtraTreesClassifier, bootstrap=True), 3)]
)
def test_log_loss_is_scikit_learns_for_every_question(kind: Any, n_classes: int) -> None:
    rows, y = pure(n_classes, n_classes)
    forest = kind(80, random_state=0).fit(rows, y)
    outputs = rfsize.tree_outputs(forest, rows, y, oob=True)
    expected = log_loss(y, outputs.predict_proba())
    with pytest.warns(ForestWarning):
        score = rfsize.oob_score(outputs, metric="log_loss")
    assert score.value == rfsize.oob_score(outputs, metric="neg_log_loss").value == pytest.approx(expected, rel=1e-12)
    assert score.interval[0] < score.at_all_trees < score.interval[1] < np.inf
    assert rfsize.compare(outputs, outputs, metric="log_loss").values == pytest.approx([expected] * 2, rel=1e-12)
    assert rfsize.oob_importance(outputs, metric="log_loss").score == pytest.approx(expected, rel=1e-6)
    fresh, truth = pure(50 + n_classes, n_classes)
    given = rfsize.tree_outputs(forest, fresh, truth)
    reports = [rfsize.size(given, metric="log_loss", tolerance=tolerance) for tolerance in (0.1, 2.0)]
    assert reports[0].to_dict()["value"] == pytest.approx(log_loss(truth, forest.predict_proba(fresh)), rel=1e-9)
    assert ForestWarning in [caution.category for caution in reports[1].warnings]


def test_clipping_is_warned_of_where_it_decides() -> None:
    rows, y = pure(7)
    forest = RandomForestClassifier(150, min_samples_leaf=8, random_state=0).fit(rows, y)
    outputs = rfsize.tree_outputs(forest, rows, y, oob=True)
    few, many = (rfsize.size(outputs, metric="log_loss", tolerance=tolerance) for tolerance in (0.3, 0.003))
    assert few.n_trees < 6  # which clip rows that the whole forest does not
    assert ForestWarning in [caution.category for caution in few.warnings]
    assert ForestWarning not in [caution.category for caution in many.warnings]
    assert not warned(lambda: rfsize.oob_score(model("lightgbm"), X, Y["two"], metric="log_loss"), ForestWarning)
