"""T* of probabilities and numbers: how far forests of a size are off, by normal draws and by real forests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import reference.deviation
import rfsize
from helpers.lookup import classifier, regressor, rows_of
from helpers.trained import FRAMEWORKS, FRESH, X, Y, model, train, tree_scores
from rfsize.exceptions import InbagError


def numbers(n_rows: int, n_trees: int = 80, seed: int = 0) -> np.ndarray:
    """Scores of each tree, whose spread is a matter of the row."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 1)) + rng.gamma(3.0, 0.5, size=(n_rows, 1)) * rng.normal(size=(n_rows, n_trees))


def sized(score: np.ndarray, tolerance: float, **options: Any) -> rfsize.Report:
    return rfsize.size(regressor(score), rows_of(score), metric="scores", tolerance=tolerance, **options)


def distance_of_95_percent(score: np.ndarray, kind: str, n_trees: int) -> float:
    """What 95 % of rows and forests keep within, by normal draws of each row's mean."""
    rng, off = np.random.default_rng(1), []
    for row in score:
        covariance = np.atleast_2d(np.cov(row.T))
        off.append(reference.deviation.deviations(kind, row.mean(axis=0), covariance, n_trees, 150, rng))
    return float(np.quantile(off, 0.95))


@pytest.mark.parametrize(
    ("link", "framework", "task", "n_trees", "params"),
    [
        ("identity", "sklearn", "number", 3, {}),
        ("identity", "sklearn", "three", 40, {}),
        ("logistic", "xgboost", "two", 3, {}),
        ("softmax", "xgboost", "three", 3, {}),
        ("one-vs-all", "lightgbm", "three", 40, {"objective": "multiclassova"}),
        ("exp", "lightgbm", "three", 3, {"objective": "poisson", "num_class": 1}),
        ("square", "lightgbm", "number", 3, {"reg_sqrt": True}),
    ],
)
def test_deviation_passes_through_the_link(
    link: str, framework: str, task: str, n_trees: int, params: dict[str, Any]
) -> None:
    """By normal draws of the scores that the framework itself gives, also where a linearised link would be far off."""
    forest, rows = train(framework, X, Y[task], 40, **params), FRESH[:200]
    metric = "scores" if task == "number" or link == "exp" else "probabilities"
    report = rfsize.size(forest, rows, metric=metric, tolerance=0.1)
    expected = distance_of_95_percent(tree_scores(forest, rows), link, n_trees)
    assert report.loss_at(n_trees).value == pytest.approx(expected, rel=0.05)


def test_probability_is_off_as_real_forests_are() -> None:
    """Every 15 trees next to 450; all of them are a part of the 450."""
    forest = train("lightgbm", X, Y["two"], 450)
    off = [
        forest.predict(FRESH, start_iteration=at, num_iteration=15) - forest.predict(FRESH) for at in range(0, 450, 15)
    ]
    real = np.quantile(np.abs(off), 0.95) / math.sqrt(1.0 - 15.0 / 450.0)
    for rows, error in (({"X": FRESH}, 0.04), ({"X": X, "oob": True}, 0.12)):
        report = rfsize.size(forest, **rows, metric="probabilities", tolerance=0.05)
        assert report.loss_at(15).value == pytest.approx(real, rel=error)


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_size_is_the_smallest_within_the_tolerance(kind: str, tolerance: float) -> None:
    forest, rows = (regressor(numbers(200)), rows_of(numbers(200))) if kind == "numbers" else (model("xgboost"), FRESH)
    metric = "scores" if kind == "numbers" else "probabilities"
    report = rfsize.size(forest, rows, metric=metric, tolerance=tolerance)
    assert report.loss_at(int(report.n_trees)).value <= tolerance * (1 + 1e-9)
    below = report.loss_at(max(1, int(report.n_trees) - 1)).value
    assert below > tolerance or report.n_trees == 1
    assert report.size_at(2.0 * tolerance) <= report.n_trees <= report.interval[1]


def test_interval_is_the_bootstrap_over_rows() -> None:
    score, rng = numbers(300), np.random.default_rng(2)
    again = [sized(score[rng.integers(300, size=300)], 0.1).n_trees for _ in range(24)]
    low, high = sized(score, 0.1).interval
    assert high - low == pytest.approx(3.92 * np.std(again), rel=0.4)
    assert (low + high) / 2.0 == pytest.approx(np.mean(again), rel=0.05)


def test_noise_of_the_trees_is_in_the_interval() -> None:
    """Some trees are wild on all rows; with many rows, hardly anything else makes the interval long."""
    rng = np.random.default_rng(5)
    score = numbers(4000, 40) * (1.0 + rng.exponential(size=40))
    expected = reference.deviation.noise_of_trees("identity", score[:, :, None], np.ones((4000, 40), dtype=bool), 20)
    assert np.ptp(np.log(sized(score, 0.2).interval)) / 3.92 == pytest.approx(expected, rel=0.25)


def test_loss_and_interval_do_not_depend_on_the_tolerance() -> None:
    near, far = sized(numbers(300), 0.05), sized(numbers(300), 0.5)
    assert near.loss_at(40) == far.loss_at(40)
    for report in (near, far):
        low, high = (report.loss_at(int(size)).interval for size in report.interval)
        assert (low[0], high[1]) == pytest.approx([report.criterion.level] * 2, rel=0.03)


def test_trees_that_all_say_the_same_need_one() -> None:
    assert (sized(np.ones((20, 30)), 1e-6).n_trees, sized(np.ones((20, 30)), 1e-6).interval) == (1, (1, 1))
    sure = classifier(np.ones((20, 30)))
    assert rfsize.size(sure, rows_of(np.ones(20)), metric="probabilities", tolerance=1e-310).n_trees == 1


@pytest.mark.parametrize("tolerance", [1e-9, 1e-200, 1e-310])
def test_no_size_is_enough_for_next_to_nothing(tolerance: float) -> None:
    report = sized(numbers(100), tolerance)
    assert (report.n_trees, report.n_kept, report.to_dict()["n_trees"]) == (math.inf, 80, None)
    assert (report.interval, report.to_dict()["reason"] is None) == ((math.inf, math.inf), False)
    large = sized(numbers(100), 1e200)
    assert (large.n_trees, large.interval[1] <= 2, large.size_at(tolerance)) == (1, True, math.inf)


def test_rows_that_less_than_two_trees_scored_are_dropped() -> None:
    score = numbers(60, 40)
    forest = regressor(score, max_samples=0.95, bootstrap=False)
    n_votes = (~rfsize.inbag(forest, rows_of(score))).sum(axis=0)
    report = rfsize.size(forest, rows_of(score), oob=True, metric="scores", tolerance=0.5)
    assert (report.estimate.n_rows, report.estimate.n_dropped) == ((n_votes > 1).sum(), (n_votes < 2).sum())
    assert not report.enough  # two votes per row are too few to tell
    assert report.interval == (1, math.inf)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_numbers_within_a_twentieth_of_the_spread_by_default(framework: str) -> None:
    forest, y = model(framework, "number"), Y["number"]
    report = rfsize.size(forest, X, y, oob=True)
    tolerance = report.to_dict()["tolerance"]
    assert (report.to_dict()["metric"], tolerance) == ("scores", pytest.approx(0.05 * np.std(y), rel=0.01))
    expected = rfsize.size(forest, X, y, oob=True, metric="scores", tolerance=tolerance)
    assert (report.n_trees, report.interval) == (expected.n_trees, expected.interval)
    without_y = rfsize.size(forest, X, oob=True).to_dict()["tolerance"]
    assert without_y == pytest.approx(0.05 * np.nanstd(rfsize.oob_predict(forest, X)), rel=0.01)
    assert report.estimate.votes_per_row == pytest.approx(0.368 * 60, rel=0.05)
    assert rfsize.size(forest, X, y, oob=True, tolerance=0.2).to_dict()["tolerance"] == 0.2


@pytest.mark.parametrize("objective", ["reg:squaredlogerror", "reg:pseudohubererror", "reg:gamma", "reg:tweedie"])
def test_hessians_that_prove_no_bags(objective: str) -> None:
    forest = train("xgboost", X, np.exp(0.4 * Y["number"]), 40, objective=objective)
    assert rfsize.size(forest, FRESH, metric="scores", tolerance=0.1).available == 40
    with pytest.raises(InbagError):
        rfsize.size(forest, X, oob=True, metric="scores", tolerance=0.1)
