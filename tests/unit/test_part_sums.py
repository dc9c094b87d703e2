"""Sums over parts of a forest: whatever is counted first, and however few parts and rows fit into memory."""

from __future__ import annotations

from copy import copy
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from rfsize import _util
from rfsize.counting import count as count_module
from rfsize.counting import sums as sums_module
from rfsize.counting.count import count
from rfsize.counting.sums import Sums
from rfsize.counting.task import Task, seen_mask

N_ROWS = 300


@pytest.fixture(scope="module", params=[RandomForestClassifier, RandomForestRegressor])
def trained(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    y = X[:, 0] + rng.normal(size=N_ROWS)
    y = np.digitize(y, [-0.5, 0.5]) if request.param is RandomForestClassifier else 1e6 + y
    return request.param(47, max_depth=5, random_state=0).fit(X, y), X


def arrays_of(sums: Sums) -> dict[str, np.ndarray]:
    records = {"counts": sums, "scores": sums.scores, "parts": sums.parts, "blocks": sums.blocks, "means": sums.means}
    of = {f"{name} {key}": value for name, record in records.items() if record for key, value in vars(record).items()}
    return {name: value for name, value in of.items() if isinstance(value, np.ndarray)}


def test_trees_can_be_added(trained: tuple[Any, np.ndarray]) -> None:
    model, X = trained
    whole, sums = arrays_of(count(Task.checked(model, X))), []
    for first, last in pairwise((0, 8, 33, 47)):
        part = copy(model)
        part.estimators_ = model.estimators_[first:last]
        sums.append(count(Task.checked(part, X)))
    for name, array in arrays_of(reduce(Sums.plus, sums)).items():
        np.testing.assert_allclose(array, whole[name], rtol=1e-6, atol=1e-8, err_msg=name)


def test_folds_have_blocks_of_their_own() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=90) > 0).astype(int)
    outputs = rfsize.tree_outputs(RandomForestClassifier(40, random_state=0), X, y, cv=3)
    blocks = outputs.sums.blocks
    apart = blocks.apart
    assert apart.total.shape[1] == 3 * sums_module.N_BLOCKS
    assert np.allclose(apart.total.sum(axis=1), blocks.total.sum(axis=1))
    own = apart.n_scored[:, :, 0].reshape(90, 3, sums_module.N_BLOCKS).any(axis=2)
    assert (own.sum(axis=1) == 1).all()
    assert np.array_equal(np.bincount(own.argmax(axis=1)), [30, 30, 30])


@pytest.mark.parametrize("held", [1 << 25, N_ROWS])
def test_rows_are_counted_in_pieces_of_any_size(
    trained: tuple[Any, np.ndarray], held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X = trained
    monkeypatch.setattr(sums_module, "_HELD", held)  # fewer than all rows are scored
    whole = arrays_of(count(Task.checked(model, X, oob=True), means=True))
    monkeypatch.setattr(_util, "CELLS_PER_BLOCK", 47 * 70)
    monkeypatch.setattr(count_module, "ROWS_PER_THREAD", 32)
    in_pieces = arrays_of(count(Task.checked(model, X, oob=True), means=True))
    assert whole.keys() == in_pieces.keys()
    for name, array in whole.items():
        assert np.array_equal(array, in_pieces[name]), name


def test_trees_of_each_class_may_have_their_own_bags() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N_ROWS, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + rng.normal(size=N_ROWS), [-0.5, 0.5])
    forest = {"num_parallel_tree": 47, "subsample": 0.5, "learning_rate": 1.0, "objective": "multi:softprob"}
    booster = xgb.train({**forest, "num_class": 3, "max_depth": 3}, xgb.DMatrix(X, y), 1)
    task = Task.checked(booster, X, oob=True)
    sums, seen = count(task, means=True), seen_mask(task)
    score = task.forest.ensemble.tree_scores[task.forest.apply(X)].astype(np.float64)
    assert seen.shape == score.shape == (N_ROWS, 47, 3)
    total = np.where(seen, 0.0, score)
    assert np.array_equal(sums.parts.total, total)
    assert np.array_equal(sums.parts.n_scored, ~seen)
    assert np.allclose(sums.means.mean, total.sum(axis=1) / np.maximum((~seen).sum(axis=1), 1))
    blocks = sums.blocks
    for block in range(sums_module.N_BLOCKS):
        own = slice(block, None, sums_module.N_BLOCKS)
        assert np.allclose(blocks.total[:, block], total[:, own].sum(axis=1))
        assert np.allclose(blocks.squares[:, block], (total[:, own] ** 2).sum(axis=1))
        assert np.array_equal(blocks.n_scored[:, block], (~seen[:, own]).sum(axis=1))
    for row, of_class in ((0, 0), (1, 2), (N_ROWS - 1, 1)):
        own = score[row, ~seen[row, :, of_class], of_class]
        assert blocks.n_first[row, of_class] == len(own)
        assert np.array_equal(blocks.first[row, : len(own), of_class], own)
