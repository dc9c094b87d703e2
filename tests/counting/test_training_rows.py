"""Training rows that are given as fresh ones are noticed, and fresh rows of the same number are not taken for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import rfsize
from helpers.forests import LIGHTGBM, train_lightgbm, train_xgboost
from helpers.outputs import votes_of
from rfsize.counting import bag_proof, training_rows
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.models.framework import read_forest

XGBOOST = {"objective": "binary:logistic", "learning_rate": 1, "max_depth": 5, "nthread": 1}


def xgboost_of(X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None, **params: Any) -> xgb.Booster:
    of = {**XGBOOST, "num_parallel_tree": 20, "colsample_bynode": 0.5, **params}
    return xgb.train(of, xgb.DMatrix(X, y, weight=weight), 1)


def from_file(booster: xgb.Booster) -> xgb.Booster:
    loaded = xgb.Booster()
    loaded.load_model(bytearray(booster.save_raw("ubj")))
    return loaded


MODELS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "LightGBM": lambda X, y: train_lightgbm(X, y, 20),
    "LightGBM without bagging": lambda X, y: lgb.train(
        {**LIGHTGBM, "bagging_fraction": 1.0, "bagging_freq": 0, "feature_fraction": 0.5}, lgb.Dataset(X, y), 20
    ),
    "XGBoost": lambda X, y: train_xgboost(X, y, 20),
    "XGBoost of a file": lambda X, y: from_file(xgboost_of(X, y, subsample=0.6)),
    "XGBoost without bagging": xgboost_of,
    "XGBoost, regression": lambda X, y: xgboost_of(X, X[:, 0], subsample=0.6, objective="reg:squarederror", seed=3),
    "XGBoost, classes": lambda X, y: xgboost_of(
        X, y + (X[:, 0] > 1), subsample=0.6, objective="multi:softprob", num_class=3
    ),
    "random forest": lambda X, y: RandomForestClassifier(20, random_state=0).fit(X, y),
    "random forest, regression": lambda X, y: RandomForestRegressor(20, random_state=0).fit(X, X[:, 0]),
    "extremely randomised": lambda X, y: ExtraTreesClassifier(20, random_state=0).fit(X, y),
}


FILE = "XGBoost of a file"  # which does not keep the seed of the bags


def drawn(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows) > 0).astype(int)


@cache
def known(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model, its training rows, and as many others of the same distribution."""
    X, y = drawn(1200, seed=0)
    return MODELS[name](X[:600], y[:600]), X[:600], X[600:]


def found_on(model: Any, X: Any, *of: Any) -> str | None:
    noted = training_rows.noting_training_rows(ForestOnRows.of(read_forest(model, casts_votes=False), X), *of)
    return noted[0].text if noted else None


@pytest.mark.parametrize("name", MODELS)
def test_they_are_noticed(name: str) -> None:
    model, X, fresh = known(name)
    found = found_on(model, X)
    assert found is not None
    assert found.startswith("X are the 600 rows that the forest was trained on")
    has_bags = "without bagging" not in name and name != "extremely randomised"
    assert ("give oob=True" in found) == has_bags
    assert found_on(model, fresh) is None
    assert found_on(model, X[::-1]) is None or not has_bags  # in another order, bags prove nothing
    assert found_on(model, np.concatenate([X[1:], fresh[:1]])) is None


PARTS = [name for name in MODELS if "without bagging" not in name and name not in ("extremely randomised", FILE)]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("part", ["half of them", "all of them and others"])
def test_rows_that_begin_with_them_are_noticed(name: str, part: str) -> None:
    model, X, fresh = known(name)
    rows = {"half of them": X[:300], "all of them and others": np.concatenate([X, fresh])}[part]
    with pytest.warns(rfsize.exceptions.TrainingRowsWarning):
        rfsize.tree_outputs(model, rows)
    calls = [
        lambda: rfsize.StopTable.calibrate(model, rows, metric="scores", tolerance=1.0, alpha=0.9),
        lambda: rfsize.shrink(model, rows, metric="scores", tolerance=1.0, alpha=0.9),
        lambda: rfsize.truncate(model, rows, metric="scores", tolerance=1.0, alpha=0.9, target="forest"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="rows that the forest was trained on"):
            call()


@pytest.mark.parametrize("n_trained", [5000, 9000])
def test_a_part_of_many_rows_is_noticed(n_trained: int) -> None:
    X, y = drawn(n_trained, seed=2)
    for model in (train_lightgbm(X, y, 60), train_xgboost(X, y, 60)):
        assert found_on(model, X[: n_trained // 4]) is not None
        assert found_on(model, X[n_trained // 4 : n_trained // 2]) is None
        assert found_on(model, drawn(n_trained // 4, seed=3)[0]) is None


def test_fresh_rows_are_not_taken_for_them() -> None:
    """Each of 150 fresh sets of rows, and training rows in another order, which nothing can recognise."""
    wrong = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n_trained, n_trees = int(rng.integers(100, 800)), int(rng.integers(2, 30))
        X, y = drawn(n_trained, seed)
        models = (
            train_lightgbm(X, y, n_trees, num_leaves=int(rng.integers(2, 60)), min_data_in_leaf=1),
            train_xgboost(X, y, n_trees, subsample=0.8),
            RandomForestClassifier(n_trees, min_samples_leaf=int(rng.integers(1, 9)), random_state=seed).fit(X, y),
        )
        for model in models:
            wrong += found_on(model, drawn(int(rng.integers(100, 900)), 1000 + seed)[0]) is not None
            wrong += found_on(model, X[::-1]) is not None
    assert wrong == 0


def test_fresh_rows_are_told_before_all_have_been_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, fresh = known("random forest")
    monkeypatch.setattr(training_rows, "_FEWEST_ROWS", 10)
    asked = []
    add = bag_proof.BagProof.add
    monkeypatch.setattr(
        bag_proof.BagProof, "add", lambda proof, *rows: asked.append(rows[1] - rows[0]) or add(proof, *rows)
    )
    assert found_on(model, fresh) is None
    assert sum(asked) < 300


def test_what_is_known_of_the_rows_helps() -> None:
    _, X, fresh = known("LightGBM")
    y = (X[:, 0] > 0.5).astype(int)
    balanced = {**LIGHTGBM, "pos_bagging_fraction": 0.9, "neg_bagging_fraction": 0.5, "seed": 1}
    model = lgb.train(balanced, lgb.Dataset(X, y, free_raw_data=False), 20)
    assert found_on(model, X) is None
    assert found_on(model, X, y) is not None
    assert found_on(model, fresh, (fresh[:, 0] > 0.5).astype(int)) is None
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 600)
    weighted = xgboost_of(X, y, weight, subsample=0.6)
    assert found_on(weighted, X, y, weight).startswith("X are the 600 rows")
    assert found_on(weighted, fresh, y, weight) is None
    assert found_on(weighted, fresh, y[:3], weight) is None


ASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "size": lambda model, X, _: rfsize.size(model, X, alpha=0.9),
    "size by a metric": lambda model, X, y: rfsize.size(model, X, y, metric="brier", tolerance=0.1),
    "size of some rows": lambda model, X, _: rfsize.size(model, X, alpha=0.9, max_rows=200),
    "truncate": lambda model, X, _: rfsize.truncate(model, X, alpha=0.9),
    "count": lambda model, X, _: rfsize.tree_outputs(model, X),
    "votes": lambda model, X, _: rfsize.tree_outputs(model, X).votes,
}


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "random forest"])
@pytest.mark.parametrize("what", ASKED)
def test_whatever_takes_fresh_rows_warns(what: str, framework: str) -> None:
    model, X, fresh = known(framework)
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(rfsize.exceptions.TrainingRowsWarning, match="X are the 600 rows .* give oob=True") as told:
        found = ASKED[what](model, X, y)
    assert [one.filename for one in told if one.category is rfsize.exceptions.TrainingRowsWarning] == [__file__]
    if what.startswith("size"):
        assert found.warnings[0].category is rfsize.exceptions.TrainingRowsWarning
        assert "\n  ! X are the 600 rows" in str(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rfsize.exceptions.TrainingRowsWarning)
        ASKED[what](model, fresh, (fresh[:, 0] > 0).astype(int))
        rfsize.size(model, X, oob=True, alpha=0.9)


def test_reports_of_what_was_counted_carry_it() -> None:
    model, X, _ = known("random forest")
    with pytest.warns(rfsize.exceptions.TrainingRowsWarning):
        counted = rfsize.tree_outputs(model, X)
    with pytest.warns(rfsize.exceptions.TrainingRowsWarning):
        report = rfsize.size(counted, alpha=0.9)
    assert report.warnings[0].category is rfsize.exceptions.TrainingRowsWarning


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost", "random forest", "extremely randomised"])
def test_nothing_is_certified_on_them(framework: str) -> None:
    model, X, fresh = known(framework)
    with pytest.raises(ValueError, match="rows that the forest was trained on"):
        rfsize.StopTable.calibrate(model, X, alpha=0.9)
    table = rfsize.StopTable.build(20, alpha=0.9)
    with pytest.raises(ValueError, match="rows that the forest was trained on"):
        table.certified(model, X)
    assert rfsize.StopTable.calibrate(model, fresh, alpha=0.9).certificate.rows > 0


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
def test_validation_rows_that_are_those_of_training() -> None:
    _, X, fresh = known("LightGBM")
    y, params = (X[:, 0] > 0).astype(int), {**LIGHTGBM, "seed": 1}

    def grown(X_val: np.ndarray) -> rfsize.Report:
        dataset = lgb.Dataset(X, y, free_raw_data=False)
        return rfsize.grow(params, dataset, alpha=0.9, validation=X_val)[1]

    def called(X_val: np.ndarray) -> rfsize.Report:
        dataset, callback = lgb.Dataset(X, y), rfsize.SizeCallback(alpha=0.9, validation="valid_0")
        lgb.train(params, dataset, 200, valid_sets=[dataset.create_valid(X_val, y)], callbacks=[callback])
        return callback.report_

    for train, words in ((grown, "X are the 600 rows"), (called, "the validation set 'valid_0' holds the rows of the")):
        with pytest.warns(rfsize.exceptions.TrainingRowsWarning, match=words) as told:
            report = train(X)
        assert [one.category for one in told].count(rfsize.exceptions.TrainingRowsWarning) == 1
        assert f"! {words}" in str(report)
        with warnings.catch_warnings():
            warnings.simplefilter("error", rfsize.exceptions.TrainingRowsWarning)
            train(fresh)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.LabelsOnlyWarning")
def test_the_command_line_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rfsize.cli.main import main

    model, X, _ = known("LightGBM")
    model.save_model(tmp_path / "model.txt")
    pd.DataFrame(X).add_prefix("f").to_parquet(tmp_path / "rows.parquet")
    main(["size", str(tmp_path / "model.txt"), str(tmp_path / "rows.parquet"), "--alpha", "0.9"])
    assert "! X are the 600 rows that the forest was trained on" in capsys.readouterr().out


@pytest.mark.parametrize("options", [{"seed": 3}, {"subsample": 0.5}])
def test_options_of_bags_are_refused_without_them(options: dict[str, Any]) -> None:
    model, _, fresh = known("XGBoost")
    for ask in (rfsize.tree_outputs, votes_of):
        with pytest.raises(ValueError, match=f"{next(iter(options))} would have no effect"):
            ask(model, fresh, **options)
