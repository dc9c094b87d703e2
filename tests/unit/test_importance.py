"""Permutation importances: against framework predictions on shuffled rows, on fresh rows, and over seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import spearmanr
from scipy.stats import t as student
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import make_scorer
from sklearn.tree import DecisionTreeClassifier

import reference.bagging
import reference.importances
import reference.metrics
import rfsize
from helpers.trained import FRAMEWORKS, X, Y, probabilities, train, tree_scores
from rfsize.exceptions import FewVotesError, ForestWarning
from rfsize.statistics.permutation import centred_ranks, instability, top_columns

ALONE = [[column] for column in range(6)]
NAMES = [f"x{column}" for column in range(6)]


def values(importances: rfsize.Importances, names: list[str] = NAMES) -> np.ndarray:
    return np.array([importances[name].value for name in names])


def seen_by(framework: str, forest: Any, task: str) -> np.ndarray:
    """In-bag masks, (n_rows, n_trees, 1 or n_scores): XGBoost draws a bag for the trees of each class."""
    if framework == "xgboost" and task == "three":
        bags = reference.bagging.xgboost_inbag(forest, len(X), 3, 0.632, bynode=True, max_depth=5)
        return bags.reshape(3, -1, len(X)).transpose(2, 1, 0)
    return rfsize.inbag(forest, X, Y[task]).T[:, :, None]


METRICS: dict[str, tuple[str, Any]] = {  # of the truth and the predictions: numbers, or probabilities of all classes
    "accuracy": ("two", lambda y, p: -np.mean((p[:, 1] > 0.5) == y)),
    "auc": ("two", lambda y, p: -reference.metrics.auc(y, p[:, 1])),
    "log_loss": ("three", reference.metrics.logloss),
    "rmse": ("number", reference.metrics.rmse),
    "r2": ("number", lambda y, predicted: -reference.metrics.r2(y, predicted)),
}


@pytest.mark.parametrize(
    ("framework", "metric"), [*zip(2 * FRAMEWORKS, [*METRICS, "scorer"], strict=True), ("xgboost", "log_loss")]
)
def test_forest_loses_what_shuffled_rows_say(framework: str, metric: str) -> None:
    task, worse = METRICS.get(metric, METRICS["auc"])
    forest = train(framework, X, Y[task], 30, **({"min_samples_leaf": 20} if framework == "sklearn" else {}))
    scorer = make_scorer(reference.metrics.auc, response_method="predict_proba")
    importances = rfsize.oob_importance(forest, X, Y[task], metric=scorer if metric == "scorer" else metric)
    losses = reference.importances.of_forest(
        lambda rows: tree_scores(forest, rows),
        lambda y, mean: worse(y, mean[:, 0] if task == "number" else probabilities(forest, mean)),
        X,
        Y[task],
        seen_by(framework, forest, task),
        ALONE,
    )
    assert values(importances) == pytest.approx(losses, abs=1e-5)
    ranked = [column.value for column in importances.columns]
    assert ranked == sorted(ranked, reverse=True)
    assert [column.rank for column in importances.columns] == [1 + sum(more > own for more in ranked) for own in ranked]


@pytest.mark.parametrize("kind", ["subspaces", "groups", "weights"])
def test_forest_of_other_bags_and_rows(kind: str) -> None:
    y, weight = Y["two"], np.ones(len(X))
    forest: Any = RandomForestClassifier(90, min_samples_leaf=5, random_state=0).fit(X, y)
    features, groups = [np.arange(6)] * 90, None
    if kind == "subspaces":
        forest = BaggingClassifier(DecisionTreeClassifier(max_depth=4), 90, max_features=0.5, random_state=0).fit(X, y)
        features = forest.estimators_features_
    seen = rfsize.inbag(forest, X, y).T[:, :, None]
    if kind == "groups":
        groups = np.arange(600) // 2
        seen = seen.reshape(300, 2, 90, 1).any(axis=1).repeat(2, axis=0)
    if kind == "weights":
        weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    outputs = rfsize.tree_outputs(forest, X, y, oob=True, groups=groups).with_truth(y, weight)
    losses = reference.importances.of_forest(
        lambda rows: np.stack(
            [tree.predict_proba(rows[:, at]) for tree, at in zip(forest.estimators_, features, strict=True)], axis=1
        ),
        lambda y, mean: np.average((mean[:, 1] - y) ** 2, weights=weight),
        X,
        y,
        seen,
        ALONE,
    )
    assert values(rfsize.oob_importance(outputs, metric="brier")) == pytest.approx(losses, abs=1e-12)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_sets_of_named_columns(framework: str) -> None:
    """Categories and missing values too; rows are permuted by a set, not by each of its columns."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(np.where(rng.random((600, 4)) < 0.2, np.nan, X[:, :4]), columns=list("abcd"))
    frame["kind"] = pd.Categorical(rng.integers(0, 12, 600))
    y = ((X[:, 0] + frame["kind"].cat.codes % 3 + rng.normal(size=600)) > 1).astype(int).to_numpy()
    forest = train(framework, frame, y)
    sets = {"pair": ["a", "kind"], "b": "b", "rest": ["c", "d"]}
    by_name = rfsize.oob_importance(forest, frame, y, metric="auc", columns=sets)
    by_number = rfsize.oob_importance(forest, frame, y, metric="auc", columns={"pair": [0, 4], "b": 1, "rest": [2, 3]})
    assert by_name.columns == by_number.columns
    assert by_name.columns[0].name == "pair"
    turned = rfsize.oob_importance(forest, frame[frame.columns[::-1]], y, metric="auc", columns=sets)
    assert values(turned, list(sets)) == pytest.approx(values(by_name, list(sets)))


def test_sparse_rows() -> None:
    rows = np.where(X > 0.0, X, 0.0)
    forest = train("lightgbm", csr_matrix(rows), Y["two"])
    sparse, dense = (rfsize.oob_importance(forest, of, Y["two"], metric="auc") for of in (csr_matrix(rows), rows))
    assert sparse.columns == dense.columns


@pytest.mark.parametrize(("task", "metric"), [("three", "brier"), ("number", "r2")])
def test_without_a_metric_the_brier_score_or_r2(task: str, metric: str) -> None:
    forest = train("lightgbm", X, Y[task], 60)
    unnamed, named = (rfsize.oob_importance(forest, X, Y[task], metric=name) for name in (None, metric))
    assert (unnamed.metric, unnamed.columns) == (metric, named.columns)


def linear(slopes: list[float], n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, len(slopes)))
    return rows, rows @ np.array(slopes) + rng.normal(size=n_rows)


def test_intervals_hold_the_truth() -> None:
    beyond, noise, second, half_widths = [], [], [], []
    for seed in range(6):
        rows, y = linear([2.0, 1.0, 0.5, 0.0, 0.0, 0.0], 300, seed)
        forest = RandomForestRegressor(60, min_samples_leaf=5, random_state=seed).fit(rows, y)
        importances = rfsize.oob_importance(forest, rows, y, metric="rmse")
        beyond += [not importances[name].is_noise for name in NAMES[:3]]
        noise += [importances[name].is_noise for name in NAMES[3:]]
        second.append(importances["x1"].value)
        half_widths.append(np.ptp(importances["x1"].interval) / 2.0)
    assert (np.mean(beyond) > 0.85, np.mean(noise) > 0.75) == (True, True)
    assert 0.8 < np.mean(half_widths) / np.std(second, ddof=1) < 5.0


@pytest.mark.parametrize("groups", [None, np.arange(150) // 2])
def test_noise_of_rows_is_that_of_pairs_with_common_rows(groups: np.ndarray | None) -> None:
    rows, y = X[:150], Y["two"][:150]
    forest = train("sklearn", rows, y, 90)
    outputs = rfsize.tree_outputs(forest, rows, y, oob=True, groups=groups)
    importances = rfsize.oob_importance(outputs, metric="brier", columns=[1])
    donor = reference.importances.donors(150, 1, 0)
    is_oob = ~rfsize.inbag(forest, rows, y).T[:, :, None]
    if groups is not None:
        is_oob = is_oob.reshape(75, 2, 90, 1).all(axis=1).repeat(2, axis=0)
    changed = [rows, reference.importances.shuffled(rows, [1], 1, 0)]
    means = [(tree_scores(forest, given) * is_oob).sum(axis=1) / is_oob.sum(axis=1) for given in changed]
    errors = [(mean[:, 1] - y) ** 2 for mean in means]
    lost = (errors[1] - errors[0] - np.mean(errors[1] - errors[0])) / 150
    expected = reference.importances.row_variance(lost, donor, np.arange(150) if groups is None else groups)
    half_width = np.ptp(importances.columns[0].interval) / 2.0 / student.ppf(0.975, 19)
    assert half_width**2 - importances.block_losses.var(ddof=1) / 20 == pytest.approx(expected)


def test_blocks_of_few_trees() -> None:
    bagging = BaggingClassifier(DecisionTreeClassifier(max_depth=4), 14, max_samples=0.2, random_state=0)
    importances = rfsize.oob_importance(bagging.fit(X, Y["two"]), X, Y["two"], metric="auc")
    assert importances.block_losses.shape == (12, 6)
    assert importances.block_losses.mean(axis=0) == pytest.approx(values(importances))
    with pytest.raises(FewVotesError):
        rfsize.oob_importance(bagging.set_params(n_estimators=3, max_samples=0.02).fit(X, Y["two"]), X, Y["two"])


def test_columns_that_no_tree_tests_lose_nothing() -> None:
    rows = np.column_stack([X[:, :2], np.zeros(len(X))])
    forest = RandomForestClassifier(60, max_depth=3, random_state=0).fit(rows, Y["two"])
    for metric in ("accuracy", "auc"):
        none = rfsize.oob_importance(forest, rows, Y["two"], metric=metric)["x2"]
        assert (none.value, none.interval, none.is_noise) == (0.0, (0.0, 0.0), True)


@pytest.mark.parametrize(("n_few", "n_warnings"), [(10, 1), (20, 0)])
def test_few_rows_of_a_class_do_not_tell_how_far_importances_are_off(n_few: int, n_warnings: int) -> None:
    y = (np.arange(len(X)) < n_few).astype(int)
    importances = rfsize.oob_importance(train("sklearn", X, y, 80), X, y)
    assert [caution.category for caution in importances.warnings] == n_warnings * [ForestWarning]


# How many trees importances take


def test_rank_correlations_and_shares_in_common_are_products() -> None:
    first, second = np.random.default_rng(0).integers(0, 5, (2, 20, 9)).astype(float)
    expected = [spearmanr(*pair).statistic for pair in zip(first, second, strict=True)]
    assert (centred_ranks(first) * centred_ranks(second)).sum(axis=1) == pytest.approx(expected)
    assert (centred_ranks(np.zeros((1, 3))) ** 2).sum() == pytest.approx(1.0)
    first, second = np.random.default_rng(1).normal(size=(2, 20, 9))
    tops = ([set(np.argsort(-draw)[:4]) for draw in draws] for draws in (first, second))
    shares = [len(a & b) / 4 for a, b in zip(*tops, strict=True)]
    assert (top_columns(4)(first) * top_columns(4)(second)).sum(axis=1) == pytest.approx(shares)


@pytest.mark.parametrize("n_columns", [4, 6, 9])
def test_columns_far_apart_have_one_order(n_columns: int) -> None:
    """Where no seed changes the order of the columns, the interval holds an instability of exactly 0."""
    far_apart = 100.0 * np.arange(n_columns) + np.random.default_rng(0).normal(size=(20, n_columns))
    for similarity in (centred_ranks, top_columns(3)):
        curve = instability(far_apart, 5.0, similarity)
        assert (curve.at(100), *curve.interval(100)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("similarity", [centred_ranks, top_columns(3)])
def test_instability_of_known_losses(similarity: Callable[[np.ndarray], np.ndarray]) -> None:
    rng, truth = np.random.default_rng(0), np.array([3.0, 2.0, 1.0, 0.9, 0.2, 0.0, 0.0, 0.0])
    noise = np.eye(8) + 0.8 * (np.eye(8)[::-1] * [1, 1, 1, -1, -1, 1, 1, 1])  # of pairs of columns, it goes together
    curves = [instability(truth + rng.normal(size=(20, 8)) @ noise, 5.0, similarity) for _ in range(24)]
    for n_trees in (25, 100):
        first, second = similarity(truth + rng.normal(size=(2, 4000, 8)) @ noise * np.sqrt(5 / n_trees))
        expected = 1.0 - (first * second).sum(axis=1).mean()
        assert np.mean([curve.at(n_trees) for curve in curves]) == pytest.approx(expected, rel=0.25)
        ends = np.array([curve.interval(n_trees) for curve in curves])
        assert np.mean((ends[:, 0] <= expected) & (expected <= ends[:, 1])) > 0.8


@pytest.fixture(scope="module")
def importances() -> rfsize.Importances:
    rows, y = linear([1.5, 1.4, 1.3, 1.0, 0.5, 0.2, 0.1, 0.0], 300, 0)
    forest = RandomForestRegressor(60, min_samples_leaf=5, random_state=0).fit(rows, y)
    return rfsize.oob_importance(forest, rows, y, metric="rmse")


@pytest.mark.parametrize(("top", "alpha"), [(None, 0.98), (6, 0.95)])
def test_size_and_loss_are_of_one_curve(importances: rfsize.Importances, top: int | None, alpha: float) -> None:
    report = importances.size(top=top, alpha=alpha)
    assert report.loss_at(int(report.n_trees)).value <= (1.0 - alpha) * (1 + 1e-3)
    assert report.loss_at(int(report.n_trees) // 2).value > 1.0 - alpha
    assert report.size_at(alpha) == report.n_trees <= report.size_at(0.995)
    assert report.interval[0] <= report.n_trees <= report.upper(0.8) <= report.interval[1]
    fewest = importances.size(top=top, alpha=0.5).n_trees
    assert fewest == np.ceil(10 * importances.available / importances.votes_per_row) <= report.interval[0]
    loss = report.loss_at(40)
    assert loss.interval[0] <= loss.value <= loss.interval[1]
    assert report.to_dict().get("top") == top
