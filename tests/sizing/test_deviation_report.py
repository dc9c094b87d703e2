"""Forests that bring predictions near enough to the infinite forest's."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data, predict, train_lightgbm, train_xgboost
from helpers.outputs import outputs_of
from helpers.scores import some_scores
from rfsize.counting.scores import Scores
from rfsize.estimation.deviation import Deviations
from rfsize.models.link import Link
from rfsize.sizing.goals.deviation import DeviationGoal
from rfsize.sizing.report import report_of
from rfsize.sizing.sentences import finding


def deviations_of(scores: Scores, tolerance: float, kind: str = "logistic", available: int = 100) -> rfsize.Report:
    votes = rfsize.Votes(np.zeros((len(scores), max(2, scores.n_scores)), dtype=np.int32), n_trees=available)
    goal = DeviationGoal("probabilities", tolerance)
    return report_of(replace(outputs_of(votes, scores, link=Link(kind)), n_trees=available, source="oob"), goal)


@pytest.mark.parametrize("kind", ["logistic", "identity"])
def test_interval_is_the_bootstrap_over_rows(kind: str) -> None:
    scores = some_scores(300)
    rng = np.random.default_rng(2)
    replicates = [deviations_of(scores.take(rng.integers(300, size=300)), 0.05, kind).n_trees for _ in range(40)]
    low, high = deviations_of(scores, 0.05, kind).interval
    assert high - low == pytest.approx(3.92 * np.std(replicates), rel=0.35)
    assert (low + high) / 2.0 == pytest.approx(np.mean(replicates), rel=0.04)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    truth = deviations_of(some_scores(100_000, 200, seed=99), 0.05).n_trees
    covered = 0
    for seed in range(40):
        low, high = deviations_of(some_scores(300, seed=seed), 0.05).interval
        covered += low <= truth <= high
    assert 34 <= covered <= 40


def test_noise_of_the_trees_makes_the_interval_longer() -> None:
    scores = some_scores(3000)
    size = Deviations(scores, Link("identity")).sizes(0.1)[1]
    scatter = [
        np.std(np.log(Deviations(scores, Link("identity"), noise).replicates(0.1, size))) for noise in (0.0, 0.1)
    ]
    assert scatter[1] == pytest.approx(math.hypot(scatter[0], 0.1), rel=0.15)


def test_rows_that_less_than_two_trees_scored_are_dropped() -> None:
    rng = np.random.default_rng(3)
    may_vote = rng.random((50, 30)) < 0.5
    may_vote[:4] = False
    may_vote[4, 1:] = False
    scores = Scores.of(rng.normal(size=(50, 30, 1)), may_vote)
    report = deviations_of(scores, 0.05)
    assert (report.n_rows, report.n_dropped) == (45, 5)
    assert "5 rows left out" in str(report)
    with pytest.raises(rfsize.exceptions.FewVotesError, match="no row has the scores of two trees"):
        deviations_of(scores.take(np.arange(4)), 0.05)


def test_few_scores_are_too_few_to_tell() -> None:
    report = deviations_of(some_scores(asked=9), 10.0, available=24)
    assert report.n_trees == 1
    assert not report.enough
    assert "9.0 votes per row" in finding(report)


def test_report(tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    for tolerance in (0.001, 0.2):
        report = deviations_of(some_scores(), tolerance)
        values = json.loads(json.dumps(report.to_dict()))
        assert values["n_trees"] == report.n_trees == max(report._answer._deviations.sizes(tolerance))
        assert values["loss"]["value"] == max(report._answer._deviations.at(report.n_kept))
        assert report.interval[0] <= report.n_trees <= report.interval[1]
        assert report.size_at(2.0 * tolerance) < report.n_trees or report.n_trees == 1
        assert f"{report.loss_at(report.n_kept).value:.2g}" in str(report) == repr(report)
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


def test_plot_of_trees_that_all_say_the_same() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    axes = deviations_of(Scores.of(np.ones((5, 20, 1))), 0.1, "identity").plot()
    assert axes.get_yscale() == "linear"
    low, high = axes.get_ylim()
    assert low <= 0.0 < 0.1 < high
    few = np.zeros((100, 20, 1))
    few[:2, :5] = 1.0
    axes = deviations_of(Scores.of(few), 0.1, "identity").plot()
    assert axes.get_yscale() == "log"
    assert axes.get_legend_handles_labels()[1][0] == "expected loss"
    plt.close("all")


def test_probability_is_what_the_booster_predicts(data: Data) -> None:
    """Every 15 trees next to 600; single forests are up to 1.8 times as far off as on average."""
    model = train_lightgbm(data.X, data.y, 600)
    off = model.predict(data.fresh) - [
        model.predict(data.fresh, start_iteration=first, num_iteration=15) for first in range(0, 600, 15)
    ]
    report = rfsize.size(model, data.X, oob=True, metric="probabilities", tolerance=0.05)
    on_rows = rfsize.size(model, data.fresh, metric="probabilities", tolerance=0.05)
    # All of them are a part of the 600.
    share = math.sqrt(1.0 - 15.0 / 600.0)
    for found, error in ((on_rows, 0.03), (report, 0.08)):
        assert np.sqrt(np.mean(off**2)) == pytest.approx(share * found._answer._deviations.at(15).rms, rel=error)
        assert np.quantile(np.abs(off), 0.95) == pytest.approx(share * found._answer._deviations.at(15).p95, rel=error)


def test_noise_of_the_trees(data: Data) -> None:
    """Sizes of forests of other seeds scatter about as the noise says."""
    wanted: dict[str, Any] = {"metric": "scores", "tolerance": 0.1}
    reports = [rfsize.size(train_lightgbm(data.X, data.y, 40, seed=seed), data.fresh, **wanted) for seed in range(30)]
    scatter = np.std(np.log([report._answer._deviations.sizes(0.1)[0] for report in reports]), ddof=1)
    noises = [report._answer._deviations._noise for report in reports]
    assert scatter == pytest.approx(np.mean(noises), rel=0.35)


def test_score_is_the_mean_raw_score(booster: Any, data: Data) -> None:
    report = rfsize.size(booster, data.X, oob=True, metric="scores", tolerance=0.1)
    assert report.source == "oob"
    assert report.votes_per_row == pytest.approx(0.368 * 61, rel=0.05)
    probability = predict(booster, data.fresh)
    given = rfsize.size(booster, data.fresh, metric="scores", tolerance=0.1)
    assert np.allclose(given._answer._deviations._mean[:, 0, 0], np.log(probability / (1.0 - probability)), atol=1e-5)


def test_objectives_with_a_slope(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 20, sigmoid=0.4)
    report = rfsize.size(model, data.fresh, metric="probabilities", tolerance=0.05)
    assert np.allclose(report._answer._deviations._limit[:, 0, 0], model.predict(data.fresh))
    model = train_lightgbm(data.X, data.three, 20, objective="multiclassova", num_class=3, sigmoid=2.0)
    report = rfsize.size(model, data.fresh, metric="probabilities", tolerance=0.05)
    assert np.allclose(report._answer._deviations._limit[:, 0], model.predict(data.fresh))


@pytest.mark.parametrize("metric", ["probabilities", "scores"])
def test_several_classes(metric: str, lgb_multiclass: Any, xgb_multiclass: Any, data: Data) -> None:
    for model in (lgb_multiclass, xgb_multiclass):
        report = rfsize.size(model, data.fresh, metric=metric, tolerance=0.2)
        assert 1 <= report.n_trees < 5000
        assert report._answer._deviations.at(21).rms < report._answer._deviations.at(21).p95


def test_truncate(booster: Any, data: Data) -> None:
    options: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.05}
    report = rfsize.size(booster, data.fresh, **options)
    assert report.enough
    small = rfsize.truncate(booster, data.fresh, **options)
    assert rfsize.tree_outputs(small, data.fresh).votes.n_trees == report.n_kept == report.n_trees
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match="are within .* of an unlimited forest's"):
        assert (
            rfsize.tree_outputs(
                rfsize.truncate(booster, data.fresh, **{**options, "tolerance": 0.001}), data.X
            ).votes.n_trees
            == 61
        )


def test_scikit_learn(data: Data) -> None:
    forest = RandomForestClassifier(60, random_state=0, max_depth=6).fit(data.X, data.three)
    report = rfsize.size(forest, data.X, oob=True, metric="probabilities", tolerance=0.1)
    small = rfsize.truncate(forest, n_trees=20).predict_proba(data.fresh)
    off = np.abs(small - forest.predict_proba(data.fresh)).max(axis=1)
    expected = report._answer._deviations.at(20).rms * math.sqrt(1.0 - 20.0 / 60.0)
    assert np.sqrt(np.mean(off**2)) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "probabilities"}, "needs a tolerance"),
        ({"metric": "scores"}, "needs a tolerance"),
        ({"metric": "votes", "tolerance": 0.1}, "metric must be one of"),
        ({"tolerance": 0.1}, "tolerance would have no effect: labels are equal on a share alpha"),
        ({"metric": "labels", "tolerance": 0.1}, "tolerance is for metric='probabilities'"),
        ({"metric": "scores", "tolerance": 0.0}, "positive number"),
        ({"metric": "scores", "tolerance": math.inf}, "positive number"),
        ({"metric": "scores", "tolerance": "much"}, "positive number"),
        ({"metric": "scores", "tolerance": 0.1, "alpha": 0.9}, "alpha would have no effect"),
        ({"metric": "scores", "tolerance": 0.1, "voting": "soft"}, "voting would have no effect"),
        ({"metric": "scores", "tolerance": 0.1, "alpha": 0.9, "average": "macro"}, "alpha and average would"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str, lgb_booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.size(lgb_booster, data.fresh, **options)
    with pytest.raises(ValueError, match=message):
        rfsize.truncate(lgb_booster, data.fresh, **options)


def test_what_has_no_scores_is_refused(lgb_booster: Any, data: Data) -> None:
    wanted: dict[str, Any] = {"metric": "scores", "tolerance": 0.1}
    with pytest.raises(rfsize.exceptions.NotAForestError, match="counted Votes"):
        rfsize.size(rfsize.tree_outputs(lgb_booster, data.fresh).votes, **wanted)
    with pytest.raises(ValueError, match="X is missing"):
        rfsize.size(lgb_booster, **wanted)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="gbdt"):
        rfsize.size(train_lightgbm(data.X, data.y, 3, boosting="gbdt"), data.fresh, **wanted)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="rounds"):
        rfsize.size(train_xgboost(data.X, data.y, 2, rounds=3), data.fresh, **wanted)


def test_no_size_is_enough_for_next_to_nothing() -> None:
    report = deviations_of(some_scores(), 1e-9)
    assert report.n_trees == math.inf
    assert report.n_kept == 100
    assert "More than 1,000,000,000 trees would be needed" in finding(report)
    assert report.reason == "more than 1,000,000,000 trees would be needed"
    assert report.to_dict()["n_trees"] is None


@pytest.mark.parametrize("kind", ["identity", "logistic"])
def test_tolerances_whose_squares_are_no_numbers(kind: str) -> None:
    for tolerance in (1e-200, 1e-310):
        report = deviations_of(some_scores(), tolerance, kind)
        assert (report.n_trees, report.interval) == (math.inf, (math.inf, math.inf))
        constant = deviations_of(Scores.of(np.ones((5, 20, 1))), tolerance, kind)
        assert (constant.n_trees, constant.interval) == (1, (1, 1))
    report = deviations_of(some_scores(), 1e200, kind)
    assert (report.n_trees, report.interval) == (1, (1, 1))
    assert report.size_at(1e-200) == math.inf
