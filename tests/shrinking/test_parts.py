"""The order of the trees and the refitted leaves, against naive restatements."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from rfsize.certifying.smaller_forests import Likeness
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.models.framework import read_forest
from rfsize.shrinking import leaves_of_rows, refitting
from rfsize.shrinking.candidates import Candidates, _pays
from rfsize.shrinking.choosing import order_of_trees
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.shrinking.refitting import refitted

N_TREES = 12


def rows_of(model: Any, X: Any) -> LeavesOfRows:
    return LeavesOfRows.of(ForestOnRows.of(read_forest(model, casts_votes=False), X))


def data(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    found = make_classification(700, 8, n_informative=6, n_classes=n_classes, random_state=3)
    return found[0], found[1]


def booster(n_classes: int, n_trees: int = N_TREES) -> Any:
    X, y = data(n_classes)
    objective = {"objective": "multiclass", "num_class": n_classes} if n_classes > 2 else {"objective": "binary"}
    bags = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "num_leaves": 9, "verbose": -1}
    return lgb.train({**objective, **bags}, lgb.Dataset(X[:300], y[:300]), n_trees)


def vector_forest() -> Any:
    X, y = data(3)
    forest = {"num_parallel_tree": N_TREES, "learning_rate": 1.0, "subsample": 0.6, "max_depth": 3}
    params = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree", **forest}
    return xgb.train({**params, "tree_method": "hist"}, xgb.DMatrix(X[:300], y[:300]), 1)


def sklearn_forest(n_classes: int) -> Any:
    X, y = data(n_classes)
    return RandomForestClassifier(N_TREES, max_leaf_nodes=9, random_state=0).fit(X[:300], y[:300])


FORESTS = [
    pytest.param(lambda: booster(2), 2, id="LightGBM"),
    pytest.param(lambda: booster(3), 3, id="LightGBM of three classes"),
    pytest.param(vector_forest, 3, id="XGBoost with a score of each class in a leaf"),
    pytest.param(lambda: sklearn_forest(2), 2, id="scikit-learn"),
    pytest.param(lambda: sklearn_forest(3), 3, id="scikit-learn of three classes"),
]


@pytest.mark.parametrize(("forest", "n_classes"), FORESTS)
def test_order_takes_the_tree_that_brings_the_mean_nearest(forest: Any, n_classes: int) -> None:
    rows = rows_of(forest(), data(n_classes)[0][300:])
    trees = rows.scores(slice(None), np.arange(N_TREES))
    expected: list[int] = []
    for _ in range(N_TREES):
        left = [tree for tree in range(N_TREES) if tree not in expected]
        apart = [np.square(trees[:, [*expected, tree]].mean(axis=1) - trees.mean(axis=1)).sum() for tree in left]
        expected.append(left[int(np.argmin(apart))])
    # The last tree is the only one left; before that, sums of squares are as good as equal.
    np.testing.assert_array_equal(order_of_trees(rows)[:-2], expected[:-2])


@pytest.mark.parametrize(("forest", "n_classes"), FORESTS)
def test_refit_is_the_ridge_solution(forest: Any, n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refitting, "_PRECISION", 1e-6)
    rows, members = rows_of(forest(), data(n_classes)[0][300:]), np.array([3, 0, 7, 5])
    leaves = rows.adapter.leaves
    found = refitted(rows, members)
    for score in range(leaves.n_scores):
        output = score if leaves.raw.ndim == 1 else 0
        ones = np.zeros((len(rows), len(leaves.raw)))
        for member in members:
            np.add.at(ones, (np.arange(len(rows)), rows.leaf[:, member, output]), 1.0)
        missing = len(members) * (rows.whole - rows.mean(members))[:, score]
        ridge = len(members) / 3.0 * np.eye(ones.shape[1])
        change = np.linalg.solve(ones.T @ ones + ridge, ones.T @ missing)
        before, after = (raw if raw.ndim == 1 else raw[:, score] for raw in (leaves.raw, found))
        reached = ones.any(axis=0)
        np.testing.assert_allclose((after - before)[reached], change[reached], atol=1e-4 * np.abs(change).max())


@pytest.mark.parametrize(("forest", "n_classes"), FORESTS)
def test_an_early_end_costs_next_to_nothing(forest: Any, n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, members = rows_of(forest(), data(n_classes)[0][300:]), np.array([3, 0, 7, 5])

    def apart() -> float:
        return float(np.square(rows.mean(members, refitted(rows, members)) - rows.whole).sum())

    soon = apart()
    monkeypatch.setattr(refitting, "_PRECISION", 1e-6)
    assert soon < 1.02 * apart() < np.square(rows.mean(members) - rows.whole).sum()


def test_leaves_that_no_row_reaches_keep_their_scores() -> None:
    rows = rows_of(booster(2), data(2)[0][300:310])
    found, members = refitted(rows, np.arange(4)), np.arange(4)
    reached = np.zeros(len(found), dtype=bool)
    reached[rows.leaf[:, members].ravel()] = True
    np.testing.assert_array_equal(found[~reached], rows.adapter.leaves.raw[~reached])
    assert (found[reached] != rows.adapter.leaves.raw[reached]).any()


def test_of_very_many_rows_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves_of_rows, "_MOST_CELLS", 100 * N_TREES)
    model, X = booster(2), data(2)[0]
    some, adapter = rows_of(model, X), read_forest(model)
    assert len(some) == 100
    assert (np.diff(some.number) > 0).all()
    expected = adapter.leaf_index(X[some.number]) + adapter.leaves.offset
    np.testing.assert_array_equal(some.leaf, expected)


def test_means_are_those_of_the_model() -> None:
    model, X = booster(2), data(2)[0]
    np.testing.assert_allclose(expit(rows_of(model, X).whole[:, 0]), model.predict(X), rtol=1e-12)


def test_refitting_pays_where_it_brings_scores_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = booster(2, 40), np.random.default_rng(0).normal(size=(4000, 8))
    rows = rows_of(model, X)
    held_out, others = rows.some(np.arange(1000)), rows.some(np.arange(1000, 4000))
    members = np.arange(8)
    assert _pays(held_out, others, members)
    monkeypatch.setattr("rfsize.shrinking.candidates.refitted", lambda rows, members: 2.0 * rows.adapter.leaves.raw)
    assert not _pays(held_out, others, members)


def test_shares_of_classes_are_not_refitted() -> None:
    X = np.random.default_rng(1).normal(size=(3000, 8))
    rows = rows_of(sklearn_forest(3), X)
    likeness = Likeness(ForestOnRows.of(rows.adapter, X).predictor, "labels", 0.0)
    assert Candidates.of(rows, likeness, 0.02).refits_below == 0


def test_candidates_refit_small_forests_alone() -> None:
    model, X = booster(2, 60), np.random.default_rng(1).normal(size=(3000, 8))
    rows = rows_of(model, X)
    likeness = Likeness(ForestOnRows.of(rows.adapter, X).predictor, "labels", 0.0)
    found = Candidates.of(rows, likeness, 0.02)
    assert 0 < found.refits_below < 60
    assert found.of_size(found.refits_below + 1).raw is None
    small = found.of_size(found.refits_below)
    assert small.raw is not None
    assert small.members.size == found.refits_below
    assert np.square(small.mean(rows) - rows.whole).sum() < np.square(rows.mean(small.members) - rows.whole).sum()
