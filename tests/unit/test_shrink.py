"""Forests shrunk to few chosen and refitted trees: certified by the frameworks' own answers, chosen as restated."""

from __future__ import annotations

import itertools
import pickle
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor

import reference.shrinking
import rfsize
from helpers.trained import predicted, problem, train, tree_scores
from rfsize.exceptions import NotAForestError, NotConvergedWarning

X, Y = problem(900, 7)
REST, TRUTH = problem(2400, 8)
ALPHA = 0.95
BAGS = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "num_leaves": 15, "verbose": -1, "n_jobs": 1}
ONE_ROUND = {"n_estimators": 1, "learning_rate": 1.0, "subsample": 0.6, "max_depth": 4, "n_jobs": 1}
VECTORS = {**ONE_ROUND, "multi_strategy": "multi_output_tree"}
FORESTS: dict[str, tuple[Any, str]] = {
    "LGBMClassifier": (lgb.LGBMClassifier(n_estimators=60, **BAGS), "two"),
    "LGBMRegressor": (lgb.LGBMRegressor(n_estimators=50, **BAGS), "number"),
    "XGBClassifier": (xgb.XGBClassifier(num_parallel_tree=40, **ONE_ROUND), "three"),
    "XGBClassifier of vectors": (xgb.XGBClassifier(num_parallel_tree=40, **VECTORS), "three"),
    "BaggingClassifier": (BaggingClassifier(n_estimators=50, max_samples=0.3, random_state=0), "two"),
    "RandomForestRegressor": (RandomForestRegressor(50, max_leaf_nodes=31, random_state=0), "number"),
}


@pytest.fixture(scope="module", params=FORESTS)
def case(request: pytest.FixtureRequest) -> tuple[Any, str]:
    forest, task = FORESTS[request.param]
    return forest.fit(X, Y[task]), task


def n_trees_of(forest: Any) -> int:
    return rfsize.compile(forest).n_trees


def test_shrunken_forest_keeps_what_is_certified(case: tuple[Any, str]) -> None:
    forest, task = case
    before = predicted(forest, REST)
    small, report = rfsize.shrink(forest, REST, TRUTH[task], rows=X, alpha=ALPHA)
    np.testing.assert_array_equal(predicted(forest, REST), before)
    assert type(small) is type(forest)
    assert n_trees_of(small) == report.n_trees < report.available == n_trees_of(forest)
    if task == "number":
        differ = np.abs(small.predict(REST) - forest.predict(REST)) > report.to_dict()["tolerance"]
    else:
        differ = small.predict(REST) != forest.predict(REST)
    assert (np.count_nonzero(differ), report.certificate.rows) == (report.certificate.disagreements, len(REST))
    assert report.certificate.bound <= 1.0 - ALPHA
    cut = rfsize.size(forest, REST, TRUTH[task], target="model", alpha=ALPHA)
    assert report.n_trees <= cut.n_trees


def test_shrunken_forest_is_stored_compiled_and_refused(case: tuple[Any, str], tmp_path: Any) -> None:
    forest, task = case
    small, _ = rfsize.shrink(forest, REST, TRUTH[task], n_trees=9)
    rfsize.compile(small).save(tmp_path / "fast.rfsize")
    fast, pickled = rfsize.load(tmp_path / "fast.rfsize"), pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(fast.predict(REST), small.predict(REST))
    for shrunk in (small, pickled):
        with pytest.raises(NotAForestError, match="shrink"):
            rfsize.size(shrunk, REST, TRUTH[task])
    for call in (rfsize.tree_outputs, rfsize.oob_score, rfsize.shrink):
        with pytest.raises(NotAForestError, match="shrink"):
            call(small, REST, TRUTH[task])
    with pytest.raises(NotAForestError, match="shrink"):
        rfsize.truncate(small, n_trees=3)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_model_files_of_shrunken_forests_are_refused(framework: str, tmp_path: Any) -> None:
    small, _ = rfsize.shrink(train(framework, X, Y["two"], 40), REST, n_trees=9)
    small.save_model(tmp_path / "model.json")
    with pytest.raises(NotAForestError, match="shrink"):
        rfsize.tree_outputs(type(small)(model_file=tmp_path / "model.json"), REST)


def test_stop_tables_of_shrunken_forests_are_calibrated() -> None:
    small, _ = rfsize.shrink(booster(), REST, n_trees=11)
    assert rfsize.compile(small, rfsize.StopTable.calibrate(small, REST, alpha=ALPHA)).n_trees == 11
    of_draws = rfsize.StopTable.build(11, alpha=0.99, prior=rfsize.tree_outputs(booster(), REST).votes)
    with pytest.raises(ValueError, match="independent trees"):
        rfsize.compile(small, of_draws)


# Chosen and refitted as restated


@pytest.mark.parametrize("task", ["two", "three"])
def test_trees_that_bring_the_mean_nearest_are_chosen(task: str) -> None:
    """Shares of classes in scikit-learn's leaves are not refitted, so that the trees are those of the forest."""
    forest = RandomForestClassifier(20, max_leaf_nodes=15, random_state=0).fit(X, Y[task])
    score = tree_scores(forest, X)
    order = reference.shrinking.order_of_trees(score[:, :, 1:] if task == "two" else score, 7)
    small, _ = rfsize.shrink(forest, REST, rows=X, n_trees=7)
    assert predicted(small, REST) == pytest.approx(tree_scores(forest, REST)[:, order].mean(axis=1))


def leaves_of(forest: Any, rows: np.ndarray) -> np.ndarray:
    if isinstance(forest, lgb.Booster):
        return forest.predict(rows, pred_leaf=True).reshape(len(rows), -1)
    return forest.predict(xgb.DMatrix(rows), pred_leaf=True) if isinstance(forest, xgb.Booster) else forest.apply(rows)


@pytest.mark.parametrize(
    ("framework", "task"), [*itertools.product(("lightgbm", "xgboost"), ("two", "number")), ("sklearn", "number")]
)
def test_leaves_are_refitted_by_least_squares(framework: str, task: str) -> None:
    """But for the end of the search, which comes early; rows that look as some that certify take no part."""
    forest, certify = train(framework, X, Y[task], 40), np.random.default_rng(9).normal(size=(600, 6))
    taken = {leaves.tobytes() for leaves in leaves_of(forest, certify)}
    rows = REST[[leaves.tobytes() not in taken for leaves in leaves_of(forest, REST)]]
    score, fresh = tree_scores(forest, rows), tree_scores(forest, X)[:, :, 0]
    members = reference.shrinking.order_of_trees(score, 8)
    leaves = leaves_of(forest, rows), leaves_of(forest, X)
    change = reference.shrinking.refitted(score[:, :, 0], leaves[0], members, leaves[1])
    of_numbers = {"metric": "scores", "tolerance": 0.1} if task == "number" else {}
    small, _ = rfsize.shrink(forest, certify, rows=REST, n_trees=8, **of_numbers)
    error = tree_scores(small, X)[:, :, 0].mean(axis=1) - fresh[:, members].mean(axis=1) - change
    assert np.sqrt(np.mean(error**2)) < 0.15 * np.sqrt(np.mean(change**2))


# A booster of two classes


@cache
def booster() -> Any:
    return train("lightgbm", X, Y["two"], 70)


def test_half_of_the_rows_certifies_without_others() -> None:
    small, report = rfsize.shrink(booster(), REST, alpha=0.9)
    again, _ = rfsize.shrink(booster(), REST, alpha=0.9)
    assert (report.certificate.rows, small.num_trees()) == (len(REST) // 2, report.n_trees)
    assert again.model_to_string() == small.model_to_string()


def test_rows_that_certify_take_no_part() -> None:
    small, report = rfsize.shrink(booster(), REST, rows=X, alpha=ALPHA)
    again, same = rfsize.shrink(booster(), REST, rows=np.concatenate([X, REST[:500]]), alpha=ALPHA)
    assert (again.model_to_string(), same.certificate) == (small.model_to_string(), report.certificate)


@pytest.mark.parametrize("rows", [100, 2400])
def test_size_of_ones_own_says_what_is_certified(rows: int) -> None:
    small, report = rfsize.shrink(booster(), REST[:rows], rows=X, n_trees=12)
    assert small.num_trees() == report.n_trees == 12
    assert report.certificate.rows == rows
    assert report.certificate.bound == pytest.approx(1.0 - report.to_dict()["alpha"])
    assert report.certificate.bound < (0.3 if rows == 100 else 0.15)
    with pytest.raises(ValueError, match="n_trees"):
        report.loss_at(11)


def test_too_hard_a_promise_keeps_all_trees() -> None:
    with pytest.warns(NotConvergedWarning):
        small, report = rfsize.shrink(booster(), REST, rows=X, alpha=0.9985)
    assert small.num_trees() == report.n_trees == 70
    np.testing.assert_array_equal(small.predict(X), booster().predict(X))
    assert rfsize.tree_outputs(small, REST).n_trees == 70  # the whole forest is not shrunk


def test_macro_and_probabilities() -> None:
    _, report = rfsize.shrink(booster(), REST, rows=X, average="macro", alpha=0.9)
    counts = report.certificate.counts
    assert max(np.array(counts.disagreements) / counts.rows) < 0.1
    near: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.04, "alpha": ALPHA}
    small, report = rfsize.shrink(booster(), REST, rows=X, **near)
    differ = np.abs(small.predict(REST) - booster().predict(REST)) > 0.04
    assert np.count_nonzero(differ) == report.certificate.disagreements
