"""Forests that bring a metric near enough to the infinite forest's."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import (
    balanced_accuracy_score,
    get_scorer,
    make_scorer,
    roc_auc_score,
)

import reference.metric_loss
import reference.metrics
import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from helpers.outputs import outputs_of
from helpers.reports import parts
from rfsize.counting.blocks import TreeBlocks, dealt, first_asked
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.scores import Scores
from rfsize.models.framework import read_forest
from rfsize.models.link import Link
from rfsize.sizing.goals.metric import MetricGoal
from rfsize.sizing.report import report_of

# Losses of probabilities of class 1, by name; the order of rows is taken in bins.
LOSSES = {
    "auc": (lambda y, p: 1.0 - reference.metrics.auc(y, p.astype(np.float32)), 2e-4),
    "average_precision": (lambda y, p: 1.0 - reference.metrics.average_precision(y, p.astype(np.float32)), 1e-3),
    "log_loss": (reference.metrics.logloss, 1e-9),
    "brier": (lambda y, p: np.mean((p - y) ** 2), 1e-9),
    "accuracy": (lambda y, p: 1.0 - reference.metrics.accuracy(y, p > 0.5), 1e-9),
}


@pytest.fixture(scope="module")
def fresh_y(data: Data) -> np.ndarray:
    signal = data.fresh[:, 0] + data.fresh[:, 1] * data.fresh[:, 2]
    return (signal + 0.7 * np.random.default_rng(1).normal(size=len(signal)) > 0.3).astype(int)


@pytest.fixture(scope="module")
def sklearn_forest(data: Data) -> Any:
    return RandomForestClassifier(61, min_samples_leaf=20, max_depth=4, random_state=0).fit(data.X, data.y)


@pytest.fixture(scope="module")
def forests(lgb_booster: Any, xgb_booster: Any, sklearn_forest: Any) -> dict[str, Any]:
    return {"LightGBM": lgb_booster, "XGBoost": xgb_booster, "scikit-learn": sklearn_forest}


def tree_scores(model: Any, X: np.ndarray) -> np.ndarray:
    adapter = read_forest(model, casts_votes=False)
    return np.asarray(adapter.leaves.raw_scores(adapter.leaf_index(adapter.check(X)) + adapter.leaves.offset), float)


@pytest.mark.parametrize("metric", list(LOSSES))
@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "scikit-learn"])
def test_halves_and_quarters_lose_what_loops_say(
    framework: str, metric: str, forests: dict[str, Any], data: Data, fresh_y: np.ndarray
) -> None:
    model, (loss, off) = forests[framework], LOSSES[metric]
    probability = (lambda score: score[:, 0]) if framework == "scikit-learn" else lambda score: expit(score[:, 0])
    for oob in (False, True):
        X, y = (data.X, data.y) if oob else (data.fresh, fresh_y)
        score = tree_scores(model, X)
        score = score[:, :, -1:]
        may_vote = np.logical_not(rfsize.inbag(model, X, y).T) if oob else np.ones(score.shape[:2], dtype=bool)
        expected = reference.metric_loss.losses(
            score, may_vote, lambda known, mean, y=y: loss(y[known], probability(mean))
        )
        report = rfsize.size(model, X, y, oob=oob, metric=metric, tolerance=0.01)
        assert [part.loss for part in parts(report)] == pytest.approx(expected, abs=off)
        whole = 1.0 / np.mean(1.0 / np.maximum(may_vote.sum(axis=1), 1))
        assert parts(report)[0].n_trees == pytest.approx(whole / 2.0, rel=0.1)
        assert report.source == ("oob" if oob else "rows given")


@pytest.mark.parametrize("metric", list(LOSSES))
@pytest.mark.parametrize("oob", [False, True])
def test_forests_of_a_few_trees_lose_what_drawing_them_says(
    metric: str, oob: bool, forests: dict[str, Any], data: Data, fresh_y: np.ndarray
) -> None:
    """Against loops that draw forests anew, of the trees that may vote on each row."""
    X, y = (data.X, data.y) if oob else (data.fresh, fresh_y)
    model, (loss, _) = forests["scikit-learn"], LOSSES[metric]
    score = tree_scores(model, X)[:, :, -1]
    may_vote = np.logical_not(rfsize.inbag(model, X, y).T) if oob else np.ones(score.shape, dtype=bool)
    report = rfsize.size(model, X, y, oob=oob, metric=metric, tolerance=0.01)
    drawn = reference.metric_loss.of_few_trees(score, may_vote, lambda known, mean: loss(y[known], mean), 3, 100)
    of_all = report.loss_at(int(np.median(may_vote.sum(axis=1)))).value
    low, high = report.loss_at(3).interval
    assert low <= drawn + of_all <= high
    few = report._answer.lost.measured[2]
    assert few.n_trees == 3.0
    assert few.loss == pytest.approx(drawn, rel=0.15, abs=max(0.012, (high - low) / 10.0))
    assert report.loss_at(1).value > report.loss_at(3).value > report.loss_at(30).value


def spirals(n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two arms of a spiral: trees that err on a third of the rows make a good forest."""
    y, way = rng.integers(0, 2, n_rows), np.sqrt(rng.random(n_rows)) * 3.0 * np.pi
    angle = way + np.pi * y
    arms = np.c_[way * np.cos(angle), way * np.sin(angle)] + rng.normal(0.0, 0.7, (n_rows, 2))
    return np.c_[arms, rng.normal(size=(n_rows, 4))], np.where(rng.random(n_rows) < 0.03, 1 - y, y)


def test_one_tree_is_not_enough_because_halves_lose_nothing() -> None:
    """Halves of this forest label as well as all of it, a tree errs on 14 % more of the rows."""
    rng = np.random.default_rng([26, 7, 5])
    (X, y), (fresh, truth) = spirals(1200, rng), spirals(5000, rng)
    of = {"max_leaves": 63, "max_depth": 0, "grow_policy": "lossguide", "colsample_bynode": 0.5, "subsample": 0.632}
    model = train_xgboost(X, y, 150, **of)
    counted = rfsize.tree_outputs(model, X, y, oob=True)
    score = tree_scores(model, fresh)[:, :, 0]
    of_a_tree = np.mean((score > 0.0) != truth[:, None])
    of_all = np.mean((score.mean(axis=1) > 0.0) != truth)
    report = rfsize.size(counted, metric="accuracy", tolerance=0.02)
    assert report.loss_at(1).value == pytest.approx(of_a_tree - of_all, rel=0.3)
    assert of_a_tree - of_all > 0.05
    assert 5 <= report.n_trees < 100
    assert report.interval[0] > 1


def test_few_rows_of_a_class_do_not_tell_what_a_ranking_loses_out_of_bag() -> None:
    """Out of bag single trees seem to rank 20 rows as well as their forest does, and rank fresh ones far worse."""

    def drawn(n_rows: int, n_ones: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        y = (np.arange(n_rows) < n_ones).astype(int)
        X = np.random.default_rng([seed, n_ones]).normal(size=(n_rows, 6))
        X[:, 0] += y
        return X, y

    (X, y), (fresh, truth) = drawn(700, 20, 7), drawn(8000, 1000, 100)
    model = RandomForestClassifier(200, min_samples_leaf=2, random_state=0).fit(X, y)
    score = tree_scores(model, fresh)[:, :, -1]
    of_all, of_some = score.mean(axis=1), [score[:, tree] for tree in range(20)]
    lost = roc_auc_score(truth, of_all) - np.mean([roc_auc_score(truth, one) for one in of_some])
    assert lost > 0.08
    report = rfsize.size(model, X, y, oob=True, metric="auc", tolerance=0.02)
    assert report.loss_at(1).value > lost
    assert math.isinf(report.n_trees)
    assert math.isinf(report.size_at(0.5))
    assert math.isinf(report.upper(0.8))
    assert "20 rows" in str(report.reason)
    pairs = rfsize.size(model, X, y, oob=True, groups=np.arange(700) // 2, metric="auc", tolerance=0.02)
    assert "10 rows" in str(pairs.reason)
    assert rfsize.size(model, X, y, oob=True, metric="brier", tolerance=0.02).enough
    assert rfsize.size(model, fresh[:2000], truth[:2000], metric="auc", tolerance=0.02).enough


def test_rows_of_a_class_are_few_below_a_hundred(data: Data, lgb_booster: Any) -> None:
    ones = np.flatnonzero(data.y)
    for n_ones, is_few in ((99, True), (100, False)):
        rows = np.concatenate([np.flatnonzero(data.y == 0), ones[:n_ones]])
        weight = np.isin(np.arange(len(data.y)), rows)
        given = rfsize.tree_outputs(lgb_booster, data.X, data.y, oob=True, sample_weight=weight)
        notes = rfsize.size(given, metric="accuracy", tolerance=0.01).to_dict()["notes"]
        assert any(f"only {n_ones} rows are outside the largest class" in note for note in notes) == is_few


@pytest.mark.parametrize("metric", ["auc", "accuracy", "average_precision"])
def test_an_upper_bound_grows_with_its_confidence(metric: str, data: Data) -> None:
    """Also where halves lose nothing clearly, so that T* itself is the bound of 95 %."""
    rng, sures = np.random.default_rng(3), 0
    for noise in (0.0, 3.0, 30.0):
        y = (data.X[:, 0] + noise * rng.normal(size=len(data.X)) > 0.0).astype(int)[:300]
        model = RandomForestClassifier(150, min_samples_leaf=5, random_state=0).fit(data.X[:300], y)
        report = rfsize.size(
            model, data.fresh[:300], (data.fresh[:300, 0] > 0.0).astype(int), metric=metric, tolerance=1e-4
        )
        uppers = [report.upper(confidence) for confidence in (0.5, 0.8, 0.95, 0.99, 0.999)]
        assert uppers == sorted(uppers)
        sures += report.n_trees == uppers[2] < uppers[3] < uppers[4] < math.inf
        low, high = report.interval
        assert low <= report.n_trees <= high
    assert sures > 0


def test_labels_without_signal_do_not_make_a_tree_enough() -> None:
    """Whether halves happen to beat all trees on rows that no tree can tell apart, is chance."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(400, 5)), rng.integers(0, 2, 400)
        model = RandomForestClassifier(100, random_state=seed).fit(X, y)
        for metric in ("auc", "accuracy", "average_precision"):
            report = rfsize.size(model, X, y, oob=True, metric=metric, tolerance=0.01)
            assert report.n_trees > 10


def squares_of(estimator: Any, X: Any, y: Any) -> float:
    """scikit-learn's "neg_mean_squared_error", of which a thousand calls take a second."""
    return -float(np.mean((estimator.predict(X) - y) ** 2))


def squares(
    n_rows: int, n_trees: int, seed: int, tolerance: float = 0.05, noise: float = 2.0, scorer: Any = squares_of
) -> rfsize.Report:
    """Trees that are off by independent noise, sized by their squared error, of which c is the noise's variance."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n_rows)
    score = (truth + rng.normal(size=n_rows))[:, None, None] + noise * rng.normal(size=(n_rows, n_trees, 1))
    return squared_error(truth, score, np.ones(score.shape, dtype=bool), tolerance, scorer)


def squared_error(
    truth: np.ndarray, score: np.ndarray, may_vote: np.ndarray, tolerance: float, scorer: Any = squares_of
) -> rfsize.Report:
    """A forest sized by the mean squared error of its scores, shape (n_rows, n_trees, 1)."""
    (n_rows, n_trees, _), score, asked = score.shape, np.where(may_vote, score, 0.0), may_vote.astype(np.int32)
    scores = Scores.of(score)
    nothing = TreeBlocks.nothing(np.arange(n_rows), 0, 1)
    of_blocks = {"total": dealt(score), "squares": dealt(score**2), "asked": dealt(asked)}
    blocks = replace(nothing, scores=scores, first=first_asked(score, may_vote), n_trees=n_trees, **of_blocks)
    outputs = outputs_of(None, scores, blocks=blocks, link=Link("identity")).with_truth(truth)
    goal = MetricGoal(scorer, tolerance)
    return report_of(replace(outputs, n_trees=n_trees, source="rows given"), goal)


def test_a_known_law_is_found() -> None:
    """The mean square of an average of T numbers of variance 4 is 4/T more than that of infinitely many."""
    reports = [squares(400, 60, seed) for seed in range(20)]
    sizes = [report.n_trees for report in reports]
    assert np.mean(sizes) == pytest.approx(80, rel=0.03)
    held = sum(report.interval[0] <= 80 <= report.interval[1] for report in reports)
    assert held >= 18
    assert reports[0].loss_at(100).value == pytest.approx(0.04, rel=0.15)
    assert not reports[0].enough
    named, callable_ = (
        squares(400, 60, 0, tolerance=0.1, scorer=one) for one in ("neg_mean_squared_error", squares_of)
    )
    assert named.enough
    assert (callable_.n_trees, callable_.interval) == (named.n_trees, named.interval)


@pytest.mark.parametrize("share", [1.0, 0.37])
@pytest.mark.parametrize("noise", ["of each row", "of all rows"])
def test_forests_differ_from_seed_to_seed(noise: str, share: float) -> None:
    """What trees are off by, ±1 away from the truth, moves the mean square by twice its mean over rows and trees."""
    rng, n_rows, n_trees = np.random.default_rng(0), 400, 200
    truth, found = rng.normal(size=n_rows), []
    for _ in range(8):
        drawn = rng.normal(size=(n_rows if noise == "of each row" else 1, n_trees, 1))
        score = truth[:, None, None] + rng.choice([-1.0, 1.0], size=n_rows)[:, None, None] * (1.0 + 0.5 * drawn)
        report = squared_error(truth, score, rng.random((n_rows, n_trees, 1)) < share, 0.05)
        found.append(report.loss_at(50).spread)
    expected = 2.0 * 0.5 / math.sqrt(50 * (n_rows if noise == "of each row" else 1))
    assert 0.95 < np.mean(found) / expected < 1.2  # out of bag rather too much, where rows have nothing in common


def test_spread_of_real_forests(data: Data) -> None:
    """What out-of-bag votes say of other seeds is what these do on as many fresh rows."""
    X, y = data.X[:500], data.y[:500]
    fresh, truth = data.fresh[:500], (data.fresh[:500, 0] > 0.3).astype(int)
    seeds = [RandomForestClassifier(60, min_samples_leaf=5, random_state=seed).fit(X, y) for seed in range(20)]
    real = float(np.std([roc_auc_score(truth, one.predict_proba(fresh)[:, 1]) for one in seeds], ddof=1))
    given = [rfsize.size(one, fresh, truth, metric="auc", tolerance=0.01) for one in seeds[:4]]
    oob = [rfsize.size(one, X, y, oob=True, metric="auc", tolerance=0.01) for one in seeds[:4]]
    for reports in (given, oob):
        assert 0.6 < np.mean([one.loss_at(60).spread for one in reports]) / real < 1.5


def test_rows_of_few_trees_beside_rows_of_many_take_more_trees() -> None:
    """Training goes on to so many trees as would tell, which must be more than there are."""
    score, asked = np.random.default_rng(0).normal(size=(200, 100, 1)), np.ones((200, 100, 1), dtype=np.int32)
    asked[:120, 2:] = 0
    scores = Scores.of(score, asked[:, :, 0] > 0)
    nothing = TreeBlocks.nothing(np.arange(200), 0, 1)
    of_blocks = {"total": dealt(score * asked), "asked": dealt(asked), "first": first_asked(score, asked > 0)}
    blocks = replace(nothing, scores=scores, n_trees=100, **of_blocks)
    outputs = outputs_of(None, scores, blocks=blocks, link=Link("identity")).with_truth(score[:, 0, 0])
    with pytest.raises(rfsize.exceptions.FewVotesError, match="train at least 200 trees") as refused:
        report_of(replace(outputs, n_trees=100, source="oob"), MetricGoal("rmse", 0.1))
    assert refused.value.enough == 200


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.SeedDependenceWarning")
def test_a_loss_that_bends_too_much_cannot_be_told() -> None:
    """Trees that are hardly better than chance where few rows are of class 1: quarters can hardly rank them worse."""
    rng = np.random.default_rng(5)
    X, fresh = rng.normal(size=(3000, 30)), rng.normal(size=(8000, 30))
    y, fresh_y = ((rows[:, 0] + rng.normal(size=len(rows)) > 2.5).astype(int) for rows in (X, fresh))
    model = train_lightgbm(X, y, 24, num_leaves=127, min_data_in_leaf=2, feature_fraction=0.1)
    report = rfsize.size(model, fresh, fresh_y, metric="auc", tolerance=0.001)
    assert report.reason is not None
    assert "still improves too much with each tree" in report.reason
    assert math.isinf(report.n_trees)
    assert math.isinf(report.size_at(0.5))
    assert math.isinf(report.upper(0.8))
    assert not report.enough
    assert report.to_dict()["n_trees"] is None
    assert "train at least" in str(report)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="cannot tell"):
        rfsize.truncate(model, fresh, fresh_y, metric="auc", tolerance=0.001)


def test_no_loss_is_at_most_small(data: Data, lgb_booster: Any) -> None:
    y = (data.fresh[:, 0] > 0.0).astype(int)
    perfect = train_lightgbm(data.X, (data.X[:, 0] > 0.0).astype(int), 40, feature_fraction=1.0)
    report = rfsize.size(perfect, data.fresh, y, metric="accuracy", tolerance=0.01)
    assert "too little accuracy" in report._answer.notes()[0]
    assert report.interval[0] == 1
    assert report.enough
    assert report.loss_at(10).interval[0] == 0.0


def test_weights_count_rows(lgb_booster: Any, data: Data, fresh_y: np.ndarray) -> None:
    weight = np.random.default_rng(6).integers(0, 4, len(fresh_y))
    X, y = np.repeat(data.fresh, weight, axis=0), np.repeat(fresh_y, weight)
    for metric, off in (("auc", 3e-3), ("neg_log_loss", 1e-9)):
        of = {"metric": metric, "tolerance": 0.001}
        weighed = rfsize.size(rfsize.tree_outputs(lgb_booster, data.fresh, fresh_y, sample_weight=weight), **of)
        repeated = rfsize.size(lgb_booster, X, y, **of)
        assert weighed._answer.now == pytest.approx(repeated._answer.now, abs=1e-9)
        assert [part.loss for part in parts(weighed)] == pytest.approx([part.loss for part in parts(repeated)], abs=off)


def test_scorers_are_known_as_objects(forests: dict[str, Any], data: Data, fresh_y: np.ndarray) -> None:
    def sized(framework: str, *criteria: Any) -> list[rfsize.Report]:
        counted = rfsize.tree_outputs(forests[framework], data.fresh, fresh_y)
        return [rfsize.size(counted, metric=metric, tolerance=0.01) for metric in criteria]

    by_name, by_scorer = sized("XGBoost", "accuracy", make_scorer(reference.metrics.accuracy))
    assert by_scorer._answer.now == by_name._answer.now
    assert [part[:2] for part in parts(by_scorer)] == [part[:2] for part in parts(by_name)]
    by_name, by_scorer = sized("scikit-learn", "log_loss", get_scorer("neg_log_loss"))
    assert by_scorer.goal.name == "log_loss"
    assert by_scorer._answer.now == pytest.approx(-by_name._answer.now)
    assert parts(by_scorer)[0].loss == pytest.approx(parts(by_name)[0].loss)
    assert by_scorer.loss_at(2).value == pytest.approx(by_name.loss_at(2).value, rel=1e-6)
    by_name, by_scorer = sized("XGBoost", "auc", get_scorer("roc_auc"))
    assert by_scorer.goal.name == "roc_auc_score"
    assert by_scorer.loss_at(50) == by_scorer._answer.loss(50)
    assert parts(by_scorer)[1].loss == pytest.approx(parts(by_name)[1].loss, abs=2e-4)
    assert by_scorer.loss_at(2).value == pytest.approx(by_name.loss_at(2).value, rel=0.1)


def test_a_scorer_is_given_the_labels_of_the_model(data: Data) -> None:
    names = np.array(["no", "yes"])[data.y]
    model = RandomForestClassifier(80, max_depth=4, random_state=0).fit(data.X, names)
    by_name = rfsize.size(model, data.X, names, oob=True, metric="balanced_accuracy", tolerance=0.05)
    counted = rfsize.tree_outputs(model, data.X, names, oob=True)
    known = counted._evidence.averages.asked[:, 0] > 0
    label = counted.predict(fill="no")
    assert by_name._answer.now == pytest.approx(balanced_accuracy_score(names[known], label[known]), abs=0.02)

    def with_positive(estimator: Any, X: Any, y: Any) -> float:
        return float(np.mean((estimator.predict(X) == "yes") == (y == "yes")))

    assert rfsize.size(model, data.X, names, oob=True, metric=with_positive, tolerance=0.05)._answer.now > 0.5
    with pytest.raises(ValueError, match="takes no sample_weight"):
        rfsize.size(
            rfsize.tree_outputs(model, data.X, names, sample_weight=np.ones(len(names))),
            metric=with_positive,
            tolerance=0.05,
        )


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "scikit-learn"])
def test_regression(framework: str, data: Data) -> None:
    target = data.X[:, 0] + data.X[:, 1] * data.X[:, 2]
    if framework == "LightGBM":
        model = train_lightgbm(data.X, target, 60, objective="regression")
    elif framework == "XGBoost":
        model = train_xgboost(data.X, target, 60, objective="reg:squarederror")
    else:
        model = RandomForestRegressor(60, max_depth=6, random_state=0).fit(data.X, target)
    score = tree_scores(model, data.X)
    forest = ForestOnRows.of(read_forest(model, casts_votes=False), data.X, target, oob=True)
    may_vote = np.logical_not(forest.inbag().T)
    expected = reference.metric_loss.losses(
        score, may_vote, lambda known, mean: reference.metrics.rmse(target[known], mean[:, 0])
    )
    report = rfsize.size(model, data.X, target, oob=True, metric="rmse", tolerance=0.001)
    assert [part.loss for part in parts(report)] == pytest.approx(expected, rel=1e-5)
    of_frame = rfsize.size(model, data.X, pd.DataFrame({"target": target}), oob=True, metric="rmse", tolerance=0.001)
    assert of_frame.n_trees == report.n_trees
    counted = rfsize.tree_outputs(model, data.X, target, oob=True)
    assert rfsize.size(counted, metric="rmse", tolerance=0.001).to_dict() == report.to_dict()
    scored = rfsize.size(counted, metric="neg_root_mean_squared_error", tolerance=0.001)
    assert scored.n_trees == pytest.approx(report.n_trees, rel=1e-3)
    explained = rfsize.size(counted, metric="r2", tolerance=0.001)
    assert parts(explained)[0].loss > 0.0


def test_bags_of_each_class(data: Data) -> None:
    model = train_xgboost(data.X, data.three, 60, objective="multi:softprob", num_class=3)
    report = rfsize.size(model, data.X, data.three, oob=True, metric="log_loss", tolerance=0.01)
    assert report.enough
    assert report.votes_per_row == pytest.approx(60 * 0.368, rel=0.05)
    counted = rfsize.tree_outputs(model, data.X, data.three, oob=True)
    assert rfsize.size(counted, metric="log_loss", tolerance=0.01).to_dict() == report.to_dict()


def test_rows_of_a_group_are_one_draw(lgb_booster: Any, data: Data) -> None:
    of = {"oob": True, "metric": "brier", "tolerance": 0.001}
    model = train_lightgbm(data.X, data.y, 200, bagging_fraction=0.3)
    alone = rfsize.size(model, data.X, data.y, groups="rows", **of)
    pairs = rfsize.size(model, data.X, data.y, groups=np.arange(len(data.X)) // 2, **of)
    assert pairs.groups == "given"
    assert pairs.votes_per_row < alone.votes_per_row
    assert pairs.n_trees == pytest.approx(alone.n_trees, rel=0.15)


def test_truncate_keeps_the_size(forests: dict[str, Any], data: Data, fresh_y: np.ndarray) -> None:
    for model in forests.values():
        of = {"metric": "brier", "tolerance": 0.002}
        report = rfsize.size(model, data.fresh, fresh_y, **of)
        small = rfsize.truncate(model, data.fresh, fresh_y, **of)
        assert read_forest(small).n_trees == report.n_trees < 61
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="for 1e-06, train more trees"):
        rfsize.truncate(forests["LightGBM"], data.fresh, fresh_y, metric="auc", tolerance=1e-6)


def test_report(tmp_path: Path, lgb_booster: Any, data: Data, fresh_y: np.ndarray) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    for tolerance in (0.0001, 0.01):
        report = rfsize.size(lgb_booster, data.fresh, fresh_y, metric="log_loss", tolerance=tolerance)
        values = json.loads(json.dumps(report.to_dict()))
        assert values["n_trees"] == report.n_trees == report.size_at(tolerance)
        assert values["loss"]["spread"] == report.loss_at(report.n_kept).spread > 0.0
        assert report.interval[0] <= report.n_trees <= report.upper(0.8) <= report.interval[1]
        assert report.loss_at(report.n_trees).value <= tolerance
        assert f"all trees reach {report._answer.now:.4g}" in str(report) == repr(report)
        assert ("not enough" in str(report)) != report.enough
        assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()
        axes = report.plot()
        axes.figure.savefig(tmp_path / "report.png")
        assert ("large enough" in axes.get_title()) == report.enough
        _, mine = plt.subplots()
        assert report.plot(ax=mine) is mine
    plt.close("all")
    with pytest.raises(ValueError, match="n_trees must be"):
        report.loss_at(0)
    with pytest.raises(ValueError, match="tolerance must be"):
        report.size_at(0.0)


def test_refusals(lgb_booster: Any, data: Data, fresh_y: np.ndarray) -> None:
    def refused(
        match: str, model: Any = lgb_booster, y: Any = fresh_y, kind: type = ValueError, **options: Any
    ) -> None:
        with pytest.raises(kind, match=match):
            rfsize.size(model, data.fresh, y, **{"metric": "auc", "tolerance": 0.01, **options})

    refused("make_scorer", metric=lambda y, p: 0.5)
    refused("needs a tolerance", tolerance=None)
    refused("y is missing", y=None)
    refused("alpha would have no effect", alpha=0.9)
    refused("metric must be one of .*'auc'.* found 'area'", metric="area")
    refused("does not fit a classification forest: take one of log_loss", metric="rmse")
    refused("y must hold one label per row", y=fresh_y[:5])
    refused("y holds only one", y=np.zeros(400, dtype=int))
    refused(
        "would have no effect: counted Votes already hold their rows",
        model=rfsize.tree_outputs(lgb_booster, data.fresh).votes,
    )
    with pytest.raises(rfsize.exceptions.NotAForestError, match="counted Votes"):
        rfsize.size(rfsize.tree_outputs(lgb_booster, data.fresh).votes, metric="auc", tolerance=0.01)
    few = train_lightgbm(data.X, data.y, 15)
    refused("train at least 40 trees", model=few, kind=rfsize.exceptions.FewVotesError)
    with pytest.raises(rfsize.exceptions.FewVotesError, match="too few to measure"):
        rfsize.size(train_lightgbm(data.X, data.y, 30), data.X, data.y, oob=True, metric="auc", tolerance=0.01)
