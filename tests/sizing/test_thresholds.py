"""Decision thresholds far from one half, on data with 2 % positives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import LIGHTGBM, XGBOOST, only_tree
from helpers.reports import as_sure, same


def problem(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=n_rows)
    return X, (signal > 3.2).astype(int)


X, Y = problem(0, 2000)
FRESH = problem(1, 2000)[0]


def lightgbm(trees: int, seed: int) -> Any:
    return lgb.train({**LIGHTGBM, "seed": seed}, lgb.Dataset(X, Y), trees)


def xgboost(trees: int, seed: int) -> Any:
    return xgb.train({**XGBOOST, "seed": seed, "num_parallel_tree": trees}, xgb.DMatrix(X, Y), 1)


def sklearn(trees: int, seed: int) -> Any:
    return RandomForestClassifier(trees, min_samples_leaf=20, random_state=seed).fit(X, Y)


def probability(model: Any, rows: np.ndarray) -> np.ndarray:
    """The framework's own."""
    if isinstance(model, xgb.Booster):
        return model.predict(xgb.DMatrix(rows))
    return model.predict(rows) if isinstance(model, lgb.Booster) else model.predict_proba(rows)[:, 1]


def of_each_tree(model: Any, trees: int, rows: np.ndarray) -> np.ndarray:
    """Probability that each tree alone gives, (n_trees, n_rows)."""
    if isinstance(model, xgb.Booster):
        return np.stack([probability(only_tree(model, tree), rows) for tree in range(trees)])
    if isinstance(model, lgb.Booster):
        return np.stack([model.predict(rows, start_iteration=tree, num_iteration=1) for tree in range(trees)])
    return np.stack([tree.predict_proba(rows)[:, 1] for tree in model.estimators_])


@pytest.fixture(scope="module", params=[lightgbm, xgboost, sklearn], ids=["LightGBM", "XGBoost", "scikit-learn"])
def train(request: pytest.FixtureRequest) -> Callable[[int, int], Any]:
    return request.param


@pytest.fixture(scope="module")
def large(train: Any) -> Any:
    return train(400, 0)


def test_two_in_a_hundred_are_positive() -> None:
    assert np.mean(Y) == pytest.approx(0.02, abs=0.005)


@pytest.mark.parametrize("threshold", [0.02, 0.1])
def test_votes_are_what_each_tree_alone_decides(train: Any, threshold: float) -> None:
    model = train(15, 1)
    alone = of_each_tree(model, 15, X) > threshold
    assert 0.01 < alone.mean() < 0.5
    assert np.array_equal(rfsize.tree_outputs(model, X, threshold=threshold).votes.counts[:, 1], alone.sum(axis=0))
    outside = ~rfsize.inbag(model, X)
    counted = rfsize.tree_outputs(model, X, oob=True, threshold=threshold).votes
    assert np.array_equal(counted.counts[:, 1], (alone & outside).sum(axis=0))
    compiled = rfsize.compile(model, threshold=threshold)
    assert compiled.votes(X) == rfsize.tree_outputs(model, X, threshold=threshold).votes


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("threshold", [0.02, 0.1])
def test_forests_of_that_size_disagree_as_often_as_allowed(
    train: Any, large: Any, threshold: float, voting: str
) -> None:
    """Real labels at the threshold: the framework's probability for averaged scores, the majority for votes."""
    report = rfsize.size(rfsize.tree_outputs(large, FRESH, threshold=threshold), alpha=0.96, voting=voting)
    assert report.enough
    assert report.n_trees < 100

    def labels(model: Any) -> np.ndarray:
        if voting == "soft":
            return probability(model, FRESH) > threshold
        return rfsize.tree_outputs(model, FRESH, threshold=threshold).votes.winner() == 1

    of_large = labels(large)
    others = [labels(train(report.n_trees, seed)) != of_large for seed in range(1, 9)]
    assert np.mean(others) == pytest.approx(0.04, abs=0.015)
    assert rfsize.size(large, FRESH, alpha=0.96, voting=voting).n_trees != report.n_trees


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("threshold", [0.02, 0.1])
def test_the_callback_and_growing_stop_at_the_size_of_the_threshold(threshold: float, voting: str) -> None:
    options = {"alpha": 0.95, "voting": voting, "threshold": threshold, "min_trees": 40}
    callback = rfsize.SizeCallback(**options)
    dataset = lgb.Dataset(X, Y, free_raw_data=False)
    model = lgb.train(LIGHTGBM, dataset, 400, callbacks=[callback])
    report = callback.report_
    assert report.n_trees <= model.num_trees() == report._wanted <= report.available < 400
    whole = lgb.train(LIGHTGBM, lgb.Dataset(X, Y), report.available)
    expected = rfsize.size(rfsize.tree_outputs(whole, X, oob=True, threshold=threshold), alpha=0.95, voting=voting)
    assert same(as_sure(report), as_sure(expected))
    grown, again = rfsize.grow(LIGHTGBM, dataset, **options)
    assert same(as_sure(again), as_sure(expected))
    assert grown.num_trees() == report._wanted


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_other_forests_grow_to_the_size_of_the_threshold(voting: str) -> None:
    options = {"alpha": 0.95, "voting": voting, "threshold": 0.1}
    booster, report = rfsize.grow(XGBOOST, xgb.DMatrix(X, Y), **options)
    assert report.available == 100
    expected = rfsize.size(
        rfsize.tree_outputs(xgboost(100, 3), X, Y, oob=True, threshold=0.1), alpha=0.95, voting=voting
    )
    assert same(as_sure(report), as_sure(expected))
    on_fresh = rfsize.grow(XGBOOST, xgb.DMatrix(X, Y), **options, validation=FRESH)[1]
    assert (
        on_fresh.n_trees
        == rfsize.size(rfsize.tree_outputs(xgboost(100, 3), FRESH, threshold=0.1), alpha=0.95, voting=voting).n_trees
    )
    more, of_more = rfsize.grow(booster, xgb.DMatrix(X, Y), **{**options, "alpha": 0.96})
    assert rfsize.tree_outputs(more, FRESH).votes.n_trees == max(of_more.n_kept, report.n_kept)
    forest = RandomForestClassifier(100, min_samples_leaf=20, random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
        _, report = rfsize.grow(forest, X, Y, max_trees=100, **options)
    expected = rfsize.size(
        rfsize.tree_outputs(forest.fit(X, Y), X, Y, oob=True, threshold=0.1), alpha=0.95, voting=voting
    )
    assert same(as_sure(report), as_sure(expected))


def test_a_resumed_lightgbm_forest_keeps_to_the_threshold() -> None:
    first = lightgbm(60, 3)
    dataset = lgb.Dataset(X, Y, free_raw_data=False)
    same_forest, report = rfsize.grow(first, dataset, alpha=0.9, voting="soft", threshold=0.1, max_trees=60)
    expected = rfsize.size(rfsize.tree_outputs(first, X, Y, oob=True, threshold=0.1), alpha=0.9, voting="soft")
    assert same(as_sure(report), as_sure(expected))
    assert same_forest.num_trees() == 60


@pytest.mark.parametrize("framework", ["LightGBM", "XGBoost"])
def test_it_is_for_two_classes(framework: str) -> None:
    three = np.arange(len(Y)) % 3
    several: dict[str, Any] = {"num_class": 3}
    if framework == "LightGBM":
        params, data = {**LIGHTGBM, **several, "objective": "multiclass"}, lgb.Dataset(X, three)
    else:
        params, data = {**XGBOOST, **several, "objective": "multi:softprob"}, xgb.DMatrix(X, three)
    with pytest.raises(ValueError, match=r"leave threshold at 0\.5"):
        rfsize.grow(params, data, threshold=0.1)
    with pytest.raises(ValueError, match="threshold"):
        rfsize.grow(params, data, threshold=1.0)
