"""How sure it must be that a forest is large enough, before its training ends."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.command_line import run
from helpers.forests import LIGHTGBM, XGBOOST, Data
from helpers.reports import agreement
from rfsize.sizing.sentences import finding
from rfsize.utils.words import in_percent

HALF_OF_THE_FEATURES = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "num_leaves": 31,
    "verbosity": -1,
}


@pytest.fixture(scope="module")
def half_of_the_features() -> lgb.Dataset:
    """Trees that know the one feature that tells most, or do not: of a few, too many may be alike."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + rng.normal(size=4000) > 0.5).astype(int)
    return lgb.Dataset(X, y, free_raw_data=False)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.SeedDependenceWarning")
def test_a_lucky_block_of_trees_does_not_end_the_growth(half_of_the_features: lgb.Dataset) -> None:
    large = lgb.train({**HALF_OF_THE_FEATURES, "seed": 999}, half_of_the_features, 700)
    truth = rfsize.size(large, half_of_the_features.get_data(), oob=True, alpha=0.97).n_trees
    sizes: dict[float, list[int]] = {0.5: [], 0.8: [], 0.95: []}
    for seed in range(4):
        for sure, ends in sizes.items():
            callback = rfsize.SizeCallback(alpha=0.97, min_trees=30, confidence=sure)
            params = {**HALF_OF_THE_FEATURES, "seed": seed}
            model = lgb.train(params, half_of_the_features, 1500, callbacks=[callback])
            assert callback.report_.enough
            assert model.num_trees() == callback.report_._wanted
            ends.append(model.num_trees())
    enough = {sure: sum(size >= truth for size in ends) for sure, ends in sizes.items()}
    assert enough[0.8] >= 3
    assert enough[0.5] <= enough[0.8] <= enough[0.95]
    assert np.mean(sizes[0.5]) < np.mean(sizes[0.8]) < np.mean(sizes[0.95])
    # Thirty trees are never enough here, whatever they say of themselves.
    assert min(sizes[0.8]) > truth / 2.0


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_half_sure_is_the_estimate_itself(framework: str, data: Data) -> None:
    params = LIGHTGBM if framework == "lightgbm" else XGBOOST
    reports = {}
    for sure in (0.5, 0.8, 0.95):
        dtrain = lgb.Dataset(data.X, data.y) if framework == "lightgbm" else xgb.DMatrix(data.X, data.y)
        booster, report = rfsize.grow(params, dtrain, alpha=0.97, confidence=sure, min_trees=250)
        assert (report.goal.confidence, report.available) == (sure, 250)
        assert rfsize.tree_outputs(booster, data.fresh).votes.n_trees == report._wanted == report.n_kept
        reports[sure] = report
    assert reports[0.5]._wanted == reports[0.5].n_trees < reports[0.8]._wanted < reports[0.95]._wanted
    assert reports[0.8]._wanted == reports[0.8].upper(0.8) <= reports[0.8].interval[1]
    assert len({report.n_trees for report in reports.values()}) == 1


@pytest.mark.parametrize(
    ("by", "of_all", "said"),
    [
        (
            {"alpha": 0.9},
            lambda report, n_trees: in_percent(agreement(report, n_trees)),
            "{told} of labels equal those of an unlimited forest",
        ),
        (
            {"metric": "probabilities", "tolerance": 0.06},
            lambda report, n_trees: f"{report.loss_at(n_trees).value:.2g}",
            "95 % of probabilities are within {told} of an unlimited forest's",
        ),
        (
            {"metric": "auc", "tolerance": 0.008},
            lambda report, n_trees: f"{report.loss_at(n_trees).value:.2g}",
            "expected to be {told} worse than an unlimited forest's (",
        ),
    ],
    ids=["label", "probability", "auc"],
)
@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
def test_a_report_says_what_was_grown_and_what_of_it_is_enough(by: Any, of_all: Any, said: str, data: Data) -> None:
    callback = rfsize.SizeCallback(min_trees=250, **by)
    booster, report = rfsize.grow(LIGHTGBM, lgb.Dataset(data.X, data.y), min_trees=250, **by)
    lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 250, callbacks=[callback])
    for one in (report, callback.report_):
        kept, grown = one.n_kept, one.available
        assert kept < grown == 250
        assert of_all(one, kept) != of_all(one, grown)
        assert str(one).startswith(f"{kept} of the {grown} trees grown are ")
        assert "; T* is about " in str(one)
        assert said.format(told=of_all(one, kept)) in str(one)
        assert "your" not in str(one) + str(one._account().figures)
        assert "grown: 250 trees" in one.plot().get_legend_handles_labels()[1]
        plt.close("all")
    assert booster.num_trees() == report.n_kept


def test_what_would_be_unsure_is_warned_of(data: Data) -> None:
    """The trees allowed are T*, but fewer than it takes to be sure."""
    unsure = r"the 100 trees grown may not be enough: up to [\d,]+ are needed to be 99 % sure"
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match=unsure):
        booster, report = rfsize.grow(LIGHTGBM, lgb.Dataset(data.X, data.y), alpha=0.97, confidence=0.99, max_trees=100)
    assert report.n_trees <= 100 < report._wanted
    assert not report.enough
    assert report.n_kept == booster.num_trees() == 100
    assert finding(report) == ". ".join(line.strip() for line in str(report).splitlines()[:2])
    callback = rfsize.SizeCallback(alpha=0.97, confidence=0.99)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning, match=unsure):
        model = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 100, callbacks=[callback])
    assert model.num_trees() == 100


def test_the_classifier_passes_it_on(data: Data) -> None:
    forest = RandomForestClassifier(max_depth=4, random_state=1)
    for cv in (None, 3):
        sized = {
            sure: rfsize.RightSizedClassifier(forest, alpha=0.95, confidence=sure, cv=cv).fit(data.X, data.y)
            for sure in (0.5, 0.95)
        }
        assert {sure: model.report_.goal.confidence for sure, model in sized.items()} == {0.5: 0.5, 0.95: 0.95}
        assert sized[0.5].n_trees_ == sized[0.5].report_.n_trees < sized[0.95].n_trees_


def test_a_finished_forest_is_asked_for_its_size_alone(lgb_booster: Any, data: Data) -> None:
    report = rfsize.size(lgb_booster, data.X, oob=True, alpha=0.96)
    assert report.goal.confidence is None
    assert report._wanted == report.n_trees < report.upper(0.8)
    assert report.to_dict()["confidence"] is None
    for sure in (0.0, 1.0, "often"):
        with pytest.raises(ValueError, match="confidence must"):
            report.upper(sure)


@pytest.mark.parametrize("sure", [0.49, 0.0, 1.0, -1.0, float("nan"), "very"])
def test_less_than_half_sure_is_refused(sure: Any, data: Data) -> None:
    ways = [
        lambda: rfsize.SizeCallback(confidence=sure),
        lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(data.X, data.y), confidence=sure)[0],
        lambda: rfsize.RightSizedClassifier(RandomForestClassifier(), confidence=sure).fit(data.X, data.y),
    ]
    for way in ways:
        with pytest.raises(ValueError, match="confidence must be at least 0.5" if sure == 0.49 else "confidence"):
            way()


def test_on_the_command_line(tmp_path: Path, data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(data.X, columns=[f"x{index}" for index in range(8)]).assign(sign=data.y)
    table.to_csv(tmp_path / "two.csv", index=False)
    training = ["two.csv", "--labels", "sign", "--framework", "lightgbm", "--alpha", "0.95", "--json"]
    found = {}
    for sure in ("0.5", "0.95"):
        assert run(tmp_path, "grow", *training, "--confidence", sure, "-o", str(tmp_path / "grown.txt")) == 0
        found[sure] = json.loads(capsys.readouterr().out)
        assert lgb.Booster(model_file=tmp_path / "grown.txt").num_trees() == found[sure]["n_kept"]
    assert found["0.5"]["n_kept"] == found["0.5"]["n_trees"] < found["0.95"]["n_kept"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(tmp_path, "grow", *training, "--confidence", "0.3", "-o", str(tmp_path / "none.txt")) == 2
    assert "confidence must be at least 0.5" in capsys.readouterr().err
