"""Forests shrunk to few trees that answer as all do, of each framework."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from rfsize.exceptions import NotAForestError, NotCertifiedWarning
from rfsize.inference.compiled import CompiledForest
from rfsize.models.framework import read_forest

ALPHA = 0.95
TRAIN, REST = slice(0, 1200), slice(1200, 4200)


def problem(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(4200, 6))
    score = X @ rng.normal(size=(6, max(2, n_classes))) + rng.normal(size=(4200, max(2, n_classes)))
    return X, score.argmax(axis=1) if n_classes else score[:, 0]


BAGS = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "num_leaves": 15, "verbose": -1, "n_jobs": 1}
ONE_ROUND = {"n_estimators": 1, "learning_rate": 1.0, "subsample": 0.6, "max_depth": 4, "n_jobs": 1}
LEAVES = {"max_leaf_nodes": 31, "random_state": 0}
FORESTS: dict[str, tuple[Any, int]] = {
    "LGBMClassifier": (lgb.LGBMClassifier(n_estimators=80, **BAGS), 2),
    "LGBMClassifier of three classes": (lgb.LGBMClassifier(n_estimators=40, **BAGS), 3),
    "LGBMRegressor": (lgb.LGBMRegressor(n_estimators=60, **BAGS), 0),
    "XGBClassifier": (xgb.XGBClassifier(num_parallel_tree=80, **ONE_ROUND), 2),
    "XGBClassifier of three classes": (xgb.XGBClassifier(num_parallel_tree=40, **ONE_ROUND), 3),
    "XGBClassifier with leaves of all classes": (
        xgb.XGBClassifier(num_parallel_tree=40, multi_strategy="multi_output_tree", **ONE_ROUND),
        3,
    ),
    "XGBRegressor": (xgb.XGBRegressor(num_parallel_tree=60, **ONE_ROUND), 0),
    "RandomForestClassifier": (RandomForestClassifier(80, **LEAVES), 2),
    "ExtraTreesClassifier": (ExtraTreesClassifier(60, **LEAVES), 3),
    "BaggingClassifier": (BaggingClassifier(n_estimators=60, max_samples=0.3, random_state=0), 2),
    "RandomForestRegressor": (RandomForestRegressor(60, **LEAVES), 0),
}


@pytest.fixture(scope="module", params=FORESTS)
def case(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """A fitted forest, and its problem."""
    model, n_classes = FORESTS[request.param]
    X, y = problem(n_classes)
    return model.fit(X[TRAIN], y[TRAIN]), X, y


def answers(model: Any, X: Any) -> np.ndarray:
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


def quiet_shrink(*arguments: Any, **options: Any) -> tuple[Any, Any]:
    return rfsize.shrink(*arguments, alpha=ALPHA, **options)


def test_shrunken_forest_keeps_what_is_certified(case: tuple[Any, Any, Any]) -> None:
    model, X, y = case
    before = answers(model, X)
    small, report = quiet_shrink(model, X[REST], y[REST], rows=X[TRAIN])
    np.testing.assert_array_equal(answers(model, X), before)
    assert type(small) is type(model)
    adapter = read_forest(small, casts_votes=False, may_be_shrunk=True)
    assert adapter.n_trees == report.n_trees < report.available == read_forest(model, casts_votes=False).n_trees
    assert adapter.is_pruned
    if hasattr(model, "classes_"):
        differ = small.predict(X[REST]) != model.predict(X[REST])
    else:
        differ = np.abs(small.predict(X[REST]) - model.predict(X[REST])) > report.goal.tolerance
    assert np.count_nonzero(differ) == report.certificate.disagreements
    assert report.certificate.rows == 3000
    assert report.certificate.bound <= 1.0 - ALPHA
    assert report.n_trees <= rfsize.size(model, X[REST], y[REST], target="forest", alpha=ALPHA).n_trees


def test_shrunken_forest_is_compiled_calibrated_and_refused(case: tuple[Any, Any, Any], tmp_path: Path) -> None:
    model, X, y = case
    small, _ = rfsize.shrink(model, X[REST], y[REST], n_trees=11)
    fast = rfsize.compile(small)
    np.testing.assert_array_equal(fast.predict(X[REST]), small.predict(X[REST]))
    fast.save(tmp_path / "fast.npz")
    again = rfsize.load(tmp_path / "fast.npz")
    if hasattr(model, "classes_"):
        for one in (small, again):
            table = rfsize.StopTable.calibrate(one, X[REST], alpha=ALPHA)
            assert table.n_trees == 11
            fast = rfsize.compile(small, table)
            np.testing.assert_array_equal(CompiledForest(again.forest, table).predict(X), fast.predict(X))
    asked: list[Callable[[Any], Any]] = [
        lambda one: rfsize.size(one, X[REST], y[REST]),
        lambda one: rfsize.size(one, X[REST], y[REST], target="forest"),
        lambda one: rfsize.tree_outputs(one, X[REST]),
        lambda one: rfsize.truncate(one, n_trees=3),
        lambda one: rfsize.oob_score(one, X[TRAIN], y[TRAIN]),
        lambda one: rfsize.oob_predict(one, X[TRAIN], y[TRAIN]),
        lambda one: rfsize.shrink(one, X[REST], y[REST]),
    ]
    for one in (small, fast, again, pickle.loads(pickle.dumps(again))):
        for question in asked:
            with pytest.raises(NotAForestError, match=r"rfsize\.shrink"):
                question(one)


def test_shrunken_forest_survives_its_files(case: tuple[Any, Any, Any], tmp_path: Path) -> None:
    model, X, y = case
    small, _ = rfsize.shrink(model, X[REST], y[REST], n_trees=9)
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(answers(again, X), answers(small, X))
    copies = [again]
    booster = read_forest(small, casts_votes=False, may_be_shrunk=True).booster
    if isinstance(booster, lgb.Booster):
        booster.save_model(tmp_path / "model.txt")
        copies += [lgb.Booster(model_file=tmp_path / "model.txt")]
        copies += [lgb.Booster(model_str=copies[-1].model_to_string())]
    elif isinstance(booster, xgb.Booster):
        for name in ("model.ubj", "model.json"):
            booster.save_model(tmp_path / name)
            copies += [xgb.Booster(model_file=tmp_path / name)]
    for copy in copies:
        with pytest.raises(NotAForestError, match=r"rfsize\.shrink"):
            rfsize.tree_outputs(copy, X[REST])


def test_scores_are_those_that_were_measured(case: tuple[Any, Any, Any]) -> None:
    """What the framework predicts is what the report counted, to the last digits of single precision."""
    model, X, y = case
    small, _ = rfsize.shrink(model, X[REST], y[REST], rows=X[TRAIN], n_trees=10)
    adapter = read_forest(small, casts_votes=False, may_be_shrunk=True)
    leaf = adapter.leaf_index(X[REST]) + adapter.leaves.offset
    mean = adapter.leaves.raw_scores(leaf).mean(axis=1)
    predicted = answers(small, X[REST])
    found = adapter.link.predictions(mean, adapter.classes.size)
    np.testing.assert_allclose(found[:, 0] if predicted.ndim == 1 else found, predicted, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def forest() -> tuple[Any, np.ndarray, np.ndarray]:
    """A Booster of two classes, and its problem."""
    X, y = problem(2)
    params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "num_leaves": 15}
    return lgb.train({**params, "verbose": -1, "num_threads": 1}, lgb.Dataset(X[TRAIN], y[TRAIN]), 90), X, y


def test_halves_without_rows(forest: Any) -> None:
    model, X, _ = forest
    small, report = quiet_shrink(model, X[REST])
    assert report.certificate.rows == 1500
    assert small.num_trees() == report.n_trees < 90
    again, _ = quiet_shrink(model, X[REST])
    assert again.model_to_string() == small.model_to_string()


def test_rows_that_certify_take_no_part(forest: Any) -> None:
    model, X, _ = forest
    small, report = quiet_shrink(model, X[REST], rows=X[TRAIN])
    again, told = quiet_shrink(model, X[REST], rows=X)
    assert told.certificate == report.certificate
    assert again.model_to_string() == small.model_to_string()


def test_few_rows_do_for_a_size_of_your_own(forest: Any) -> None:
    model, X, _ = forest
    _, report = rfsize.shrink(model, X[REST][:100], rows=X[TRAIN], n_trees=30)
    assert report.certificate.rows == 100
    assert report.certificate.bound < 0.2


def test_refitting_halves_what_first_trees_lose(forest: Any) -> None:
    model, X, _ = forest
    small, _ = rfsize.shrink(model, X[REST][:1000], rows=X[REST][1000:2000], n_trees=20)
    first, fresh = rfsize.truncate(model, n_trees=20), X[REST][2000:]
    apart = [np.square(one.predict(fresh) - model.predict(fresh)).mean() for one in (small, first)]
    assert apart[0] < 0.6 * apart[1]


def test_n_trees_says_what_is_certified_of_them(forest: Any) -> None:
    model, X, y = forest
    small, report = rfsize.shrink(model, X[REST], y[REST], n_trees=12)
    assert small.num_trees() == report.n_trees == 12
    assert report.certificate.bound == pytest.approx(1.0 - report.goal.alpha)
    assert "12 of your 90 trees, chosen and refitted, are kept" in str(report)


def test_what_metrics_lose_is_measured_on_the_same_rows(forest: Any) -> None:
    model, X, y = forest
    small, report = quiet_shrink(model, X[REST], y[REST], rows=X[TRAIN])
    by_all, by_few = model.predict(X[REST]), small.predict(X[REST])
    lost = report.loss_at(report.n_trees, "auc")
    assert lost.value == pytest.approx(roc_auc_score(y[REST], by_all) - roc_auc_score(y[REST], by_few), abs=1e-9)
    loss = report.loss_at(report.n_trees, "log_loss")
    assert loss.value == pytest.approx(log_loss(y[REST], by_few) - log_loss(y[REST], by_all), abs=1e-9)
    rng, differences = np.random.default_rng(0), []
    for _ in range(300):
        drawn = rng.integers(0, 3000, 3000)
        differences.append(log_loss(y[REST][drawn], by_few[drawn]) - log_loss(y[REST][drawn], by_all[drawn]))
    low, high = loss.interval
    assert (high - low) / (2 * 1.96) == pytest.approx(np.std(differences), rel=0.2)
    assert "AUC" in str(report)


def test_report_in_every_form(forest: Any) -> None:
    model, X, y = forest
    _, report = quiet_shrink(model, X[REST], y[REST], rows=X[TRAIN])
    told = json.loads(json.dumps(report.to_dict()))
    assert told["n_trees"] == report.n_trees
    assert sum(told["certificate"]["rows"]) == 3000
    assert "rfsize.shrink" in report._repr_html_()
    assert str(pickle.loads(pickle.dumps(report))) == str(report)
    tried = report._answer.tried
    values = [report.loss_at(size).value for size in tried]
    assert values[-1] == 0.0
    assert values[0] > 1.0 - ALPHA
    with pytest.raises(ValueError, match=r"rfsize\.shrink\(\.\.\., n_trees="):
        report.loss_at(next(size for size in range(1, 90) if size not in tried))
    with pytest.raises(ValueError, match=r"report of rfsize\.shrink"):
        rfsize.truncate(model, n_trees=report)


def test_too_hard_a_promise_keeps_all_trees(forest: Any) -> None:
    model, X, _ = forest
    with pytest.warns(NotCertifiedWarning, match="certify no fewer than all 90 trees"):
        small, report = rfsize.shrink(model, X[REST], rows=X[TRAIN], alpha=0.9989)
    assert small.num_trees() == report.n_trees == 90
    np.testing.assert_array_equal(small.predict(X), model.predict(X))
    assert rfsize.tree_outputs(small, X[REST]).n_trees == 90  # the whole forest is not shrunk


def test_macro_bounds_each_class(forest: Any) -> None:
    model, X, _ = forest
    _, report = quiet_shrink(model, X[REST], rows=X[TRAIN], average="macro")
    counts = report.certificate.counts
    assert max(np.array(counts.disagreements) / counts.rows) < 1.0 - ALPHA
    assert report.certificate.bound <= 1.0 - ALPHA


def test_probabilities_within_a_tolerance(forest: Any) -> None:
    model, X, _ = forest
    small, report = quiet_shrink(model, X[REST], rows=X[TRAIN], metric="probabilities", tolerance=0.03)
    differ = np.abs(small.predict(X[REST]) - model.predict(X[REST])) > 0.03
    assert np.count_nonzero(differ) == report.certificate.disagreements


def test_a_table_of_draws_is_refused(forest: Any) -> None:
    model, X, _ = forest
    small, _ = rfsize.shrink(model, X[REST], n_trees=11)
    prior = rfsize.tree_outputs(model, X[REST]).votes
    table = rfsize.StopTable.build(11, alpha=0.99, prior=prior)
    with pytest.raises(ValueError, match="independent trees"):
        rfsize.compile(small, table)
    with pytest.raises(ValueError, match="independent trees"):
        CompiledForest(rfsize.compile(small).forest, table)
    lossless = rfsize.StopTable.build(11, alpha=1.0, n_classes=2)
    whole = rfsize.compile(small, voting="hard")
    np.testing.assert_array_equal(rfsize.compile(small, lossless).predict_labels(X), whole.predict_labels(X))


@pytest.mark.parametrize("kind", ["frame", "float32", "Fortran", "list"])
def test_rows_of_any_kind(forest: Any, kind: str) -> None:
    model, X, _ = forest
    given = {
        "frame": lambda rows: pd.DataFrame(rows),
        "float32": lambda rows: rows.astype(np.float32),
        "Fortran": np.asfortranarray,
        "list": lambda rows: rows.tolist(),
    }[kind]
    _, report = quiet_shrink(model, given(X[REST]), rows=given(X[TRAIN]))
    assert report.n_trees < 90


def test_what_cannot_be_shrunk_says_why(forest: Any) -> None:
    model, X, y = forest
    rest = X[REST]

    def refused(match: str, *arguments: Any, kind: type[Exception] = ValueError, **options: Any) -> None:
        with pytest.raises(kind, match=match):
            rfsize.shrink(*arguments, **options)

    refused("forest was trained on", model, X[TRAIN])
    refused("all rows= are in X too", model, rest, rows=rest[:500])
    refused("X has 1 row", model, rest[:1])
    refused("X has 1 row", model, rest[:1], n_trees=5)
    refused("half of X certifies", model, rest[:500])
    refused("299 rows", model, rest[:200], rows=X[TRAIN])
    refused("alpha", model, rest, n_trees=5, alpha=0.9)
    refused("auc is no share of rows: give it to rfsize.truncate", model, rest, y[REST], metric="auc")
    refused("needs a tolerance", model, rest, metric="probabilities")
    refused("from 1 to 89", model, rest, n_trees=90)
    refused("one label per row", model, rest, y[TRAIN])
    refused("expected 6|6 features|6 columns", model, rest[:, :4])
    refused("no rows", model, rest[:0])
    refused("no rows", model, rest, rows=rest[:0])
    one = rfsize.truncate(model, n_trees=1)
    refused("no smaller one", one, rest, kind=NotAForestError)
    boosted = AdaBoostClassifier(n_estimators=5, random_state=0).fit(X[TRAIN], y[TRAIN])
    refused("", boosted, rest, kind=NotAForestError)
    neighbours = BaggingClassifier(KNeighborsClassifier(), 10, max_samples=0.5, random_state=0).fit(X[TRAIN], y[TRAIN])
    refused("shrink", neighbours, rest, kind=NotAForestError)
    numbers = RandomForestRegressor(20, random_state=0).fit(X[TRAIN], X[TRAIN, 0])
    refused("give y", numbers, rest)


def test_certificates_hold_on_fresh_rows() -> None:
    """Of 40 splits at a confidence of 0.8, few are above: 8 on average at worst, 14 with chance 0.02."""
    X, y = problem(2)
    model = RandomForestClassifier(40, max_leaf_nodes=15, random_state=1).fit(X[:600], y[:600])
    rng, above = np.random.default_rng(0), 0
    fresh = np.random.default_rng(5).normal(size=(20_000, 6))
    for _ in range(40):
        rows = rng.normal(size=(600, 6))
        small, _ = rfsize.shrink(model, rows, rows=X[:600], alpha=0.9, confidence=0.8)
        above += bool(np.mean(small.predict(fresh) != model.predict(fresh)) > 0.1)
    assert above < 14
