"""Out-of-bag scores, next to scikit-learn's metrics of out-of-bag predictions, plain loops, and fresh rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

import reference.predictions
import rfsize
from helpers.lookup import classifier, regressor, rows_of
from helpers.trained import FRAMEWORKS, X, Y, model, probabilities, train, tree_scores

WEIGHT = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
OF_CLASSES: dict[str, Callable[..., float]] = {
    "accuracy": lambda y, p, w: accuracy_score(y, p.argmax(axis=1), sample_weight=w),
    "log_loss": lambda y, p, w: log_loss(y, p, sample_weight=w),
    "brier": lambda y, p, w: (
        np.average(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1), weights=w) / (2 if p.shape[1] == 2 else 1)
    ),
    "auc": lambda y, p, w: roc_auc_score(y, p[:, 1].astype(np.float32), sample_weight=w),
    "average_precision": lambda y, p, w: average_precision_score(y, p[:, 1].astype(np.float32), sample_weight=w),
}
OF_NUMBERS: dict[str, Callable[..., float]] = {
    "r2": lambda y, p, w: r2_score(y, p, sample_weight=w),
    "rmse": lambda y, p, w: root_mean_squared_error(y, p, sample_weight=w),
    "mae": lambda y, p, w: mean_absolute_error(y, p, sample_weight=w),
}
TASKS = {
    "two": OF_CLASSES,
    "three": {name: OF_CLASSES[name] for name in ("accuracy", "log_loss", "brier")},
    "number": OF_NUMBERS,
}


def brier(y: np.ndarray, p: np.ndarray) -> float:
    return float(np.mean((y - p) ** 2))


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_the_metric_of_the_predictions(framework: str, task: str, weighted: bool) -> None:
    weight = WEIGHT if weighted else None
    forest = train(framework, X, Y[task], 40, weight=weight) if weighted else model(framework, task)
    outputs = rfsize.tree_outputs(forest, X, Y[task], oob=True, sample_weight=weight)
    predicted = outputs.predict() if task == "number" else outputs.predict_proba()
    known = ~np.isnan(predicted.reshape(len(X), -1)).any(axis=1)
    for metric, by_scikit_learn in TASKS[task].items():
        score = rfsize.oob_score(outputs, metric=metric)
        expected = by_scikit_learn(Y[task][known], predicted[known], WEIGHT[known] if weighted else None)
        assert score.value == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert score.interval[0] < score.at_all_trees < score.interval[1]
        assert (score.n_rows, score.n_dropped) == (known.sum(), len(X) - known.sum())
        assert (score.curve.sizes[-1], score.curve.values[-1]) == (outputs.n_trees, score.value)


def test_threshold_decides_the_labels() -> None:
    label = rfsize.oob_predict_proba(model("lightgbm"), X)[:, 1] > 0.2
    outputs = rfsize.tree_outputs(model("lightgbm"), X, Y["two"], oob=True, threshold=0.2)
    assert rfsize.oob_score(outputs).value == np.mean(label == Y["two"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_curve_is_that_of_the_first_trees(framework: str) -> None:
    forest, inbag = model(framework), rfsize.inbag(model(framework), X)
    score, result = tree_scores(forest, X), rfsize.oob_score(forest, X, Y["two"], metric="brier")
    assert result.curve.sizes[0] == 1
    for size, value in list(zip(result.curve.sizes, result.curve.values, strict=True))[::5]:
        mean = reference.predictions.mean_scores(score.transpose(1, 0, 2)[:size], inbag[:size, :, None])
        known = ~np.isnan(mean[:, 0])
        expected = np.mean((probabilities(forest, mean[known])[:, 1] - Y["two"][known]) ** 2)
        assert value == pytest.approx(expected, rel=1e-6)


# Intervals


@pytest.mark.parametrize(("right", "rows"), [(20, 1000), (500, 1000), (970, 1000)])
def test_a_share_has_wilsons_interval(right: int, rows: int) -> None:
    """Of trees that all say the same, so that nothing but the rows makes the interval."""
    sure = np.repeat((np.arange(rows) < right)[:, None], 40, axis=1).astype(float)
    forest = classifier(sure, np.arange(rows) % 2, max_samples=0.3, bootstrap=False)
    result = rfsize.oob_score(forest, rows_of(sure), np.ones(rows, dtype=int), metric="accuracy")
    expected = binomtest(right, rows).proportion_ci(0.95, method="wilson")
    assert result.value == right / rows
    assert result.interval == pytest.approx((expected.low, expected.high), abs=1e-3)


@pytest.mark.parametrize(("metric", "lowest", "highest"), [("rmse", 0.0, np.inf), ("r2", -np.inf, 1.0)])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_intervals_keep_within_the_range(metric: str, lowest: float, highest: float, noise: float) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=30)
    forest = regressor(truth[:, None] + noise * rng.standard_cauchy(size=(30, 40)), truth, max_samples=9)
    result = rfsize.oob_score(forest, rows_of(truth), truth, metric=metric)
    assert lowest <= result.interval[0] <= result.interval[1] <= highest
    assert (result.interval[1] - result.interval[0] > 1e-12) == (noise > 0.0)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
def test_a_ranking_upside_down_mirrors_its_interval() -> None:
    outputs = rfsize.tree_outputs(model("lightgbm"), X, oob=True)
    likely = (outputs.predict(fill=0.0) > 0.5).astype(int) ^ (np.arange(len(X)) % 50 == 0)
    right, wrong = (rfsize.oob_score(outputs, y=y, metric="auc") for y in (likely, 1 - likely))
    assert wrong.value == pytest.approx(1.0 - right.value)
    assert wrong.interval == pytest.approx((1.0 - right.interval[1], 1.0 - right.interval[0]), abs=0.01)
    assert wrong.interval[0] < 0.05


@pytest.mark.parametrize("metric", [*OF_CLASSES, *OF_NUMBERS])
def test_intervals_are_the_bootstrap_over_rows(metric: str) -> None:
    """Of many trees, which add next to nothing to what the rows do."""
    task = "number" if metric in OF_NUMBERS else "two"
    forest, y = train("sklearn", X, Y[task], 300), Y[task]
    outputs, rng = rfsize.tree_outputs(forest, X, y, oob=True), np.random.default_rng(0)
    p = outputs.predict() if task == "number" else outputs.predict_proba()
    values = []
    for _ in range(150):
        rows = rng.integers(0, len(X), len(X))
        values.append({**OF_CLASSES, **OF_NUMBERS}[metric](y[rows], p[rows], None))
    result = rfsize.oob_score(outputs, metric=metric)
    assert np.ptp(result.interval) / 3.92 == pytest.approx(np.std(values), rel=0.25)


def test_rows_of_a_group_are_one_draw() -> None:
    """Fifty rows, eight times each, say no more than fifty rows, whatever the metric."""
    rng = np.random.default_rng(0)
    once = rng.permutation(np.repeat(np.arange(50), 8))
    rows, y = X[:50][once] + 1e-3 * rng.normal(size=(400, 6)), Y["two"][:50][once]
    forest = RandomForestClassifier(200, max_samples=0.04, min_samples_leaf=3, random_state=0).fit(rows, y)
    for metric in ("accuracy", "auc", brier):
        grouped, alone = (rfsize.oob_score(forest, rows, y, metric=metric, groups=of) for of in (once, "rows"))
        assert (grouped.groups, alone.groups) == ("given", "rows")
        assert np.ptp(grouped.interval) > 2.0 * np.ptp(alone.interval)


def test_rows_without_weight_make_no_interval_narrower() -> None:
    outputs = rfsize.tree_outputs(model("sklearn"), X, Y["two"], oob=True)
    weight = np.zeros(len(X))
    weight[np.flatnonzero(outputs.predict_labels(fill=-1) == Y["two"])[:20]] = 1.0
    result = rfsize.oob_score(outputs.with_truth(Y["two"], weight))
    assert (result.value, result.interval[0] < 0.9) == (1.0, True)


# Callables and scorers


def test_callables_are_as_sure_as_names() -> None:
    def spoils(y: np.ndarray, p: np.ndarray) -> float:
        p.sort()  # a callable may alter what it is given
        y.sort()
        return brier(y, p)

    def weighs(y: np.ndarray, p: np.ndarray, sample_weight: np.ndarray) -> float:
        return float(np.average((y - p) ** 2, weights=sample_weight))

    named, given = (rfsize.oob_score(model("lightgbm"), X, Y["two"], metric=metric) for metric in ("brier", brier))
    assert given.value == pytest.approx(named.value)
    assert given.curve.values == pytest.approx(named.curve.values, rel=1e-6)
    assert np.ptp(given.interval) == pytest.approx(np.ptp(named.interval), rel=0.25)
    outputs = rfsize.tree_outputs(model("lightgbm"), X, Y["two"], oob=True)
    rfsize.oob_score(outputs, metric=spoils)
    assert rfsize.oob_score(outputs, metric=brier).interval == given.interval
    weighted = outputs.with_truth(Y["two"], WEIGHT)
    values = [rfsize.oob_score(weighted, metric=metric).value for metric in (weighs, "brier")]
    assert values[0] == pytest.approx(values[1])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("n_ones", [2, 5])
def test_samples_without_a_rare_class_fail_no_callable(n_ones: int) -> None:
    """One sample in seven holds none of two rows; some metrics are NaN there, and others raise."""
    rng = np.random.default_rng(n_ones)
    rows, y = rng.normal(size=(200, 4)), (np.arange(200) < n_ones).astype(int)
    outputs = rfsize.tree_outputs(RandomForestClassifier(60, random_state=0).fit(rows, y), rows, y, oob=True)

    def divides(y: np.ndarray, p: np.ndarray) -> float:
        return float(p.sum()) / int(y.sum())

    def looks_up(y: np.ndarray, p: np.ndarray) -> float:
        return float(p.mean() + 0.0 * p[np.flatnonzero(y == 1)[0]])

    for metric in (divides, looks_up):
        result = rfsize.oob_score(outputs, metric=metric)
        assert -math.inf < result.interval[0] < result.interval[1] < math.inf


# Few trees, and what is stored


@pytest.mark.parametrize("n_trees", [30, 120])
def test_all_trees_gain_what_a_known_law_says(n_trees: int) -> None:
    """Trees off by numbers of variance 4: of n of them the mean square is 4/n more. A callable tells no direction."""
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=2000)
        forest = regressor(truth[:, None] + 2.0 * rng.normal(size=(2000, n_trees)), truth, max_samples=0.6)
        score = rfsize.oob_score(forest, rows_of(truth), truth, metric=brier)
        gains.append((score.value - score.at_all_trees) / (4.0 / score.votes_per_row - 4.0 / n_trees))
    assert 0.8 < np.mean(gains) < 1.2


def test_one_tree_and_rows_that_it_saw() -> None:
    forest = train("lightgbm", X, Y["two"], 1)
    result = rfsize.oob_score(forest, X, Y["two"])
    assert result.n_dropped == rfsize.inbag(forest, X).sum()
    assert result.at_all_trees == result.value
