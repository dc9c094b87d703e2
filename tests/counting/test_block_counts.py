"""What compiled loops add up over rows × trees, against NumPy's sums of the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.counting.bag_proof import add_at_leaves
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.leaves import out_of_bag_members
from rfsize.counting.scores import Scores
from rfsize.counting.tally import Tally
from rfsize.integrations.lightgbm.merging import merged
from rfsize.models.framework import read_forest
from rfsize.models.leaves import Answers

SEVERAL = {"num_class": 3}

FORESTS: dict[str, Callable[[Data], tuple[Any, str]]] = {
    "LightGBM": lambda data: (train_lightgbm(data.X, data.y, 21), "y"),
    "LightGBM, shared bags": lambda data: (train_lightgbm(data.X, data.y, 21, bagging_freq=4), "y"),
    "LightGBM, balanced": lambda data: (
        train_lightgbm(data.X, data.y, 21, pos_bagging_fraction=0.8, neg_bagging_fraction=0.3), "y",
    ),
    "LightGBM, merged": lambda data: (merged([train_lightgbm(data.X, data.y, 9, seed=seed) for seed in (1, 2)]), "y"),
    "LightGBM, full bags": lambda data: (
        train_lightgbm(data.X[:30], data.y[:30], 40, bagging_fraction=0.95, min_data_in_leaf=3), "y",
    ),
    "LightGBM, three classes": lambda data: (
        train_lightgbm(data.X, data.three, 21, objective="multiclass", **SEVERAL), "three",
    ),
    "XGBoost": lambda data: (train_xgboost(data.X, data.y, 21), "y"),
    "XGBoost, three classes": lambda data: (
        train_xgboost(data.X, data.three, 21, objective="multi:softprob", **SEVERAL), "three",
    ),
    "scikit-learn": lambda data: (RandomForestClassifier(21, random_state=0).fit(data.X, data.y), "y"),
    "scikit-learn, three classes": lambda data: (RandomForestClassifier(21).fit(data.X, data.three), "three"),
    "scikit-learn, bagging": lambda data: (
        BaggingClassifier(DecisionTreeClassifier(max_depth=3), 21, max_samples=0.5).fit(data.X, data.y), "y",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=FORESTS)
def forest(request: pytest.FixtureRequest, data: Data) -> tuple[Any, np.ndarray, np.ndarray]:
    model, name = FORESTS[request.param](data)
    X, y = data.X, getattr(data, name)
    return (model, X[:30], y[:30]) if "full bags" in request.param else (model, X, y)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether compiled loops walk down the trees from now on; for several threads and blocks, with a rest."""
    monkeypatch.setattr("rfsize.counting.tally.ROWS_PER_THREAD", 70)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 64 * 500)
    return lambda always: monkeypatch.setattr("rfsize.counting.leaves.CELLS_WORTH_A_LAYOUT", 1 if always else 1 << 60)


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("oob", [False, True])
def test_votes_and_scores_are_numpys(oob: bool, always: bool, forest: Any, compiled: Callable[[bool], None]) -> None:
    compiled(always)
    model, X, y = forest
    rows = ForestOnRows.of(model, X, y if oob else None, oob=oob)
    found, adapter = Evidence.of(rows), rows.adapter
    answers, may_vote = out_of_bag_members(adapter.answers(X), rows.bags.take(0, len(X)) if oob else None)
    vote = np.asarray(adapter.voter(0.5)(answers))
    votes = [np.sum((vote == index) & may_vote, axis=1) for index in range(len(adapter.classes))]
    assert np.array_equal(found.votes.counts, np.stack(votes, axis=1))
    expected = Scores.of(answers.raw, may_vote)
    assert np.array_equal(found.scores.asked, expected.asked)
    np.testing.assert_allclose(found.scores.mean, expected.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.scores.scatter, expected.scatter, rtol=1e-9, atol=1e-12)


def test_groups_are_heeded(compiled: Callable[[bool], None], lgb_booster: Any, data: Data) -> None:
    compiled(True)
    group = np.arange(len(data.X)) // 3
    found = ForestOnRows.of(lgb_booster, data.X, oob=True, groups=group).votes()
    inbag = rfsize.inbag(lgb_booster, data.X)
    seen = inbag.reshape(len(inbag), -1, 3).any(axis=2).repeat(3, axis=1)
    assert np.array_equal(found.asked, (~seen).sum(axis=0))


def test_wrong_rows_are_refused(forest: Any, compiled: Callable[[bool], None]) -> None:
    compiled(True)
    model, X, y = forest
    with pytest.raises(rfsize.exceptions.InbagError):
        ForestOnRows.of(model, X[::-1], y[::-1], oob=True).votes()


@pytest.mark.parametrize("kind", ["LightGBM", "LightGBM, three classes", "XGBoost", "scikit-learn"])
def test_wrong_labels_are_refused(kind: str, compiled: Callable[[bool], None], data: Data) -> None:
    compiled(True)
    model, name = FORESTS[kind](data)
    with pytest.raises(
        rfsize.exceptions.InbagError, match="the leaves differ from what their bags and the labels y give"
    ):
        ForestOnRows.of(model, data.X, getattr(data, name)[::-1], oob=True).votes()


def test_leaves_beyond_the_table_are_refused(compiled: Callable[[bool], None], lgb_booster: Any) -> None:
    """Compiled loops would read and write whatever memory lies there."""
    compiled(True)
    adapter = read_forest(lgb_booster)
    for beyond in (-1, 10**9):
        leaf = np.full((2, 61, 1), beyond)
        with pytest.raises(IndexError, match="names a leaf that its tree does not have"):
            Tally(adapter, 2, 0.5).scores(Answers(leaf, adapter.leaves), np.ones((2, 61), dtype=bool))
        with pytest.raises(IndexError, match="names a leaf that its tree does not have"):
            add_at_leaves(leaf, np.ones((2, 61, 1), dtype=bool), np.ones((2, 1, 1)), np.zeros(5))


@pytest.mark.parametrize("shape", [(1, 1), (9, 1), (1, 3), (9, 3)])
@pytest.mark.parametrize("bags", [1, 3])
@pytest.mark.parametrize("n_leaves", [4, 10_000])
def test_sums_by_leaf(shape: tuple[int, int], bags: int, n_leaves: int) -> None:
    rng = np.random.default_rng(1)
    leaf, inbag = rng.integers(0, n_leaves, (50, 9, 3)), rng.random((50, 9, bags)) < 0.6
    value = rng.normal(size=(50, *shape))
    expected = np.ones(n_leaves)
    np.add.at(expected, leaf, np.broadcast_to(value, leaf.shape) * inbag)
    total = np.ones(n_leaves)
    add_at_leaves(leaf, inbag, value, total)
    np.testing.assert_allclose(total, expected)


def test_a_regression_forest(compiled: Callable[[bool], None], data: Data) -> None:
    model = RandomForestRegressor(9, random_state=0).fit(data.X, data.X[:, 0])
    reports = []
    for always in (False, True):
        compiled(always)
        reports.append(rfsize.size(model, data.X, oob=True, metric="scores", tolerance=0.1))
    assert reports[0].n_trees == reports[1].n_trees


def test_scores_of_some_rows_by_a_step(lgb_booster: lgb.Booster, data: Data) -> None:
    adapter = read_forest(lgb_booster)
    answers = adapter.answers(data.X).take(slice(1, None, 3))
    may_vote = np.random.default_rng(0).random((len(data.X), adapter.n_trees))[1::3] < 0.4
    found = Tally(adapter, len(may_vote), 0.5).scores(answers, may_vote)
    expected = Scores.of(answers.raw, may_vote)
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-9, atol=1e-12)
    assert np.array_equal(found.asked, expected.asked)
