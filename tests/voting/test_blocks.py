"""Blocks of trees, of finished forests and of forests in training, next to plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import reference.bagging
import reference.blocks
import rfsize
from helpers.forests import LIGHTGBM, XGBOOST, Data, raw_trees, train_lightgbm, train_xgboost
from helpers.lightgbm_forests import each_tree
from helpers.xgboost_forests import class_margins
from reference.blocks import assert_blocks
from rfsize.counting.blocks import N_BLOCKS, N_FIRST, TreeBlocks, dealt, rows_in_blocks
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.scores import Scores
from rfsize.integrations.lightgbm.trainer import LightGbmTrainer
from rfsize.integrations.xgboost.trainer import XgboostTrainer
from rfsize.models.framework import framework_for, read_forest

ROWS = 300


class Case(NamedTuple):
    """A forest, its training rows, and what each tree says of them, (n_trees, n_rows) and (n_trees, n_rows, n)."""

    model: Any
    X: np.ndarray
    label: np.ndarray
    score: np.ndarray


def of_lightgbm(data: Data) -> Case:
    model = train_lightgbm(data.X[:ROWS], data.y[:ROWS], 27)
    score = each_tree(model, data.X[:ROWS])
    return Case(model, data.X[:ROWS], (score[:, :, 0] > 0.0).astype(int), score)


def of_several_lightgbm(data: Data) -> Case:
    model = train_lightgbm(data.X[:ROWS], data.three[:ROWS], 27, objective="multiclass", num_class=3)
    score = each_tree(model, data.X[:ROWS])
    return Case(model, data.X[:ROWS], score.argmax(axis=2), score)


def of_xgboost(data: Data) -> Case:
    model = train_xgboost(data.X[:ROWS], data.y[:ROWS])
    probability = raw_trees(model, data.X[:ROWS]).astype(float)
    score = np.log(probability / (1.0 - probability))[:, :, None]
    return Case(model, data.X[:ROWS], (score[:, :, 0] > 0.0).astype(int), score)


def of_sklearn(data: Data) -> Case:
    model = RandomForestClassifier(27, max_depth=6, random_state=0).fit(data.X[:ROWS], data.three[:ROWS])
    score = np.stack([tree.predict_proba(data.X[:ROWS]) for tree in model.estimators_])
    return Case(model, data.X[:ROWS], score.argmax(axis=2), score)


CASES: dict[str, Callable[[Data], Case]] = {
    "LightGBM": of_lightgbm,
    "LightGBM, three classes": of_several_lightgbm,
    "XGBoost": of_xgboost,
    "scikit-learn, three classes": of_sklearn,
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, data: Data) -> Case:
    return CASES[request.param](data)


def blocks_of(model: Any, X: Any, **options: Any) -> TreeBlocks:
    blocks = Evidence.of(ForestOnRows.of(model, X, **options)).blocks
    assert blocks is not None
    return blocks


@pytest.mark.parametrize("oob", [False, True])
def test_blocks_of_a_finished_forest(oob: bool, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, label, score = case
    inbag = rfsize.inbag(model, X) if oob else np.zeros(label.shape, dtype=bool)
    n_classes = len(rfsize.tree_outputs(model, X).votes.classes)
    expected = reference.blocks.of_shared_bags(label, score, inbag, n_classes)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 37 * 27)
    found = blocks_of(model, X, oob=oob)
    assert_blocks(found, expected)
    assert np.array_equal(found.rows, np.arange(len(X)))
    assert np.array_equal(found.counts, rfsize.tree_outputs(model, X, oob=oob).votes.counts)
    assert (found.n_trees, found.n_filled) == (len(label), N_BLOCKS)
    outputs = Evidence.of(ForestOnRows.of(model, X, oob=oob))
    assert np.array_equal(found.scores.asked, outputs.scores.asked)
    np.testing.assert_allclose(found.scores.mean, outputs.scores.mean, rtol=1e-9, atol=1e-12)


def test_votes_of_trees_of_single_classes_are_of_two_blocks(data: Data) -> None:
    X, y = data.X[:ROWS], data.three[:ROWS]
    model = train_xgboost(X, y, 33, objective="multi:softprob", num_class=3)
    growth = {"bynode": True, "max_depth": 5}
    inbag = reference.bagging.xgboost_inbag(model, ROWS, 3, 0.632, **growth).reshape(3, 33, -1)
    score = class_margins(model, X, range(33))
    found = blocks_of(model, X, oob=True)
    assert_blocks(found, reference.blocks.of_bags_of_each_class(score, inbag))
    assert found.votes.sum() > found.counts.sum()
    # Asked of all rows, the trees of a vote are those of one round.
    everywhere = np.zeros((33, ROWS), dtype=bool)
    plain = reference.blocks.of_shared_bags(score.argmax(axis=2), score, everywhere, 3)
    assert_blocks(blocks_of(model, X), plain)


def test_of_many_rows_some_are_kept(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, label, score = case
    monkeypatch.setattr("rfsize.counting.blocks._ROWS", 100)
    expected = reference.blocks.of_shared_bags(
        label, score, rfsize.inbag(model, X), score.shape[2] + (score.shape[2] == 1)
    )
    found = blocks_of(model, X, oob=True)
    assert found.rows.tolist() == list(range(0, ROWS, 3))
    assert_blocks(found, expected, slice(None, None, 3))


def test_many_classes_leave_fewer_rows() -> None:
    assert rows_in_blocks(1000, 2, 1) == slice(None, None, 1)
    assert rows_in_blocks(1_000_000, 2, 1).step == 50
    few = rows_in_blocks(1_000_000, 1000, 1000)
    assert 1_000_000 / few.step * 2000 * N_BLOCKS <= 1 << 22
    assert rows_in_blocks(0, 2, 1).step == 1


@pytest.mark.parametrize("first", [6, 20, 23])
@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_trees_that_are_added_go_on_in_turn(first: int, framework: str, data: Data) -> None:
    """The forest in training deals as the finished one does, wherever it was looked at."""
    X, y = data.X[:ROWS], data.y[:ROWS]
    if framework == "lightgbm":
        forest = LightGbmTrainer(LIGHTGBM, lgb.Dataset(X, y, free_raw_data=False)).start()
    else:
        forest = XgboostTrainer(XGBOOST, xgb.DMatrix(X, y)).start()
    forest.add(first)
    forest.add(41 - first)
    found, expected = Evidence.in_training(forest).blocks, blocks_of(forest.booster(), X, oob=True)
    assert found is not None
    assert_same(found, expected)


def test_a_resumed_forest_deals_on(case: Case, data: Data) -> None:
    model, X, label, _ = case
    y = (data.y if label.max() == 1 else data.three)[:ROWS]
    several = {"num_class": 3, "objective": "multiclass"} if label.max() > 1 else {}
    if isinstance(model, lgb.Booster):
        forest = LightGbmTrainer({**LIGHTGBM, **several}, lgb.Dataset(X, y, free_raw_data=False)).resume(model)
    elif isinstance(model, xgb.Booster):
        forest = XgboostTrainer(XGBOOST, xgb.DMatrix(X, y)).resume(model)
    else:
        forest = framework_for(model).trainer_of(read_forest(model), X, y, None).resume(model)
    forest.add(9)
    found = Evidence.in_training(forest).blocks
    assert found is not None
    assert found.n_trees == len(label) + 9
    assert_same(found, blocks_of(forest.booster(), X, oob=True))


def assert_same(found: TreeBlocks, expected: TreeBlocks) -> None:
    assert found.n_trees == expected.n_trees
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.counts, expected.counts)
    assert np.array_equal(found.votes, expected.votes)
    assert np.array_equal(found.asked, expected.asked)
    assert np.array_equal(found.scores.asked, expected.scores.asked)
    np.testing.assert_allclose(centred(found.total), centred(expected.total), rtol=1e-5, atol=1e-4)
    if np.allclose(found.total, expected.total, rtol=1e-5, atol=1e-4):  # squares cannot be centred
        np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-4, atol=1e-4)
    else:
        assert found.total.shape[2] > 1
    np.testing.assert_allclose(centred(found.scores.mean), centred(expected.scores.mean), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(centred(found.first), centred(expected.first), rtol=1e-5, atol=1e-4)


def centred(score: np.ndarray) -> np.ndarray:
    """Of several classes, without what is added to all of them: LightGBM's training does not tell it."""
    return score if score.shape[-1] == 1 else score - score.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize(("first", "n_trees"), [(1, 50), (20, 50), (33, 50), (100, 180)])
def test_blocks_of_more_trees_are_added(first: int, n_trees: int) -> None:
    rng = np.random.default_rng(first)
    label, score = rng.integers(3, size=(n_trees, 30)), rng.normal(size=(n_trees, 30, 2))
    seen = rng.random((n_trees, 30)) < 0.4

    def of(trees: slice) -> TreeBlocks:
        parts = reference.blocks.of_shared_bags(label[trees], score[trees], seen[trees], 3)
        scores = Scores.of(score[trees].transpose(1, 0, 2), ~seen[trees].T)
        n_trees = len(label[trees])
        return TreeBlocks(np.arange(30), parts["votes"].sum(axis=1, dtype=np.int32), scores, n_trees=n_trees, **parts)

    assert_blocks(
        of(slice(0, first)).plus(of(slice(first, n_trees))), reference.blocks.of_shared_bags(label, score, seen, 3)
    )


def random_blocks(n_rows: int, n_trees: int, n_classes: int = 2, seed: int = 0) -> TreeBlocks:
    """Of trees that say anything, of which about half are asked about a row."""
    rng = np.random.default_rng(seed)
    label, score = rng.integers(n_classes, size=(n_trees, n_rows)), rng.normal(size=(n_trees, n_rows, 2))
    seen = rng.random((n_trees, n_rows)) < 0.5
    parts = reference.blocks.of_shared_bags(label, score, seen, n_classes)
    counts = parts["votes"].sum(axis=1).astype(np.int32)
    scores = Scores.of(score.transpose(1, 0, 2), ~seen.T)
    return TreeBlocks(np.arange(n_rows), counts, scores, n_trees=n_trees, **parts)


def test_rows_are_taken_by_a_mask() -> None:
    blocks = random_blocks(40, 50)
    some = np.arange(40) % 3 == 1
    sized = TreeBlocks(**{**vars(blocks), "rows": np.arange(0, 80, 2), "strata": np.arange(40)})
    found = sized.where(some)
    assert found.rows.tolist() == list(range(2, 80, 6))
    assert found.strata.tolist() == list(range(1, 40, 3))
    assert np.array_equal(found.total, blocks.total[some])
    assert np.array_equal(found.scores.mean, blocks.scores.mean[some])
    # Of all 80 rows that the votes are of, those of which a third is taken are numbered anew.
    kept = np.arange(80) % 4 != 2
    taken = sized.take(kept)
    assert taken.rows.tolist() == [int(kept[:row].sum()) for row in range(0, 80, 2) if kept[row]]
    assert np.array_equal(taken.votes, blocks.votes[::2])


@pytest.mark.parametrize("step", [1, 3])
def test_blocks_of_several_forests_are_their_own(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n_rows = [60, 75, 45]
    monkeypatch.setattr("rfsize.counting.blocks._ROWS", 3 * sum(n_rows) // step)
    forests = [random_blocks(n, 30, seed=n) for n in n_rows]
    found = TreeBlocks.of_forests(forests, n_rows)
    laid_over = found.laid_over()
    assert (found.n_filled, laid_over.n_filled) == (3 * N_BLOCKS, N_BLOCKS)
    place = 0
    for number, (blocks, start) in enumerate(zip(forests, (0, 60, 135), strict=True)):
        for row in range(0, len(blocks.rows), step):
            own = slice(N_BLOCKS * number, N_BLOCKS * (number + 1))
            assert found.rows[place] == start + row
            assert np.array_equal(found.votes[place, own], blocks.votes[row])
            assert np.array_equal(found.counts[place], blocks.counts[row])
            assert found.votes[place].sum() == blocks.votes[row].sum()
            assert found.asked[place].sum() == blocks.asked[row].sum()
            assert found.total[place].sum() == pytest.approx(blocks.total[row].sum())
            assert np.array_equal(found.squares[place, own], blocks.squares[row])
            assert np.array_equal(laid_over.votes[place], blocks.votes[row])
            assert np.array_equal(laid_over.asked[place], blocks.asked[row])
            assert np.array_equal(found.first[place], blocks.first[row])
            assert np.array_equal(laid_over.first[place], blocks.first[row])
            np.testing.assert_allclose(laid_over.total[place], blocks.total[row])
            np.testing.assert_allclose(laid_over.squares[place], blocks.squares[row])
            place += 1
    assert place == len(found.rows)


@pytest.mark.parametrize("n_trees", [1, 19, 20, 47])
def test_trees_are_dealt_in_turn(n_trees: int) -> None:
    values = np.random.default_rng(n_trees).normal(size=(5, n_trees, 2))
    expected = np.zeros((5, N_BLOCKS, 2))
    for tree in range(n_trees):
        expected[:, tree % N_BLOCKS] += values[:, tree]
    np.testing.assert_allclose(dealt(values), expected, atol=1e-12)
    assert random_blocks(60, n_trees).n_filled == min(n_trees, N_BLOCKS)


@pytest.mark.parametrize(("n_classes", "n_scores"), [(2, 1), (3, 3), (0, 1)])
def test_trees_are_added_to_the_blocks_after(n_classes: int, n_scores: int) -> None:
    n_rows, n_trees = 7, 2 * N_FIRST
    rng = np.random.default_rng(n_scores)
    vote = rng.integers(0, max(n_classes, 1), (n_trees, n_rows)).astype(np.int16)
    score = rng.normal(size=(n_trees, n_scores, n_rows)).transpose(0, 2, 1)
    may_vote = rng.random((n_trees, n_rows)) < 0.7
    may_score = may_vote & (rng.random((n_trees, n_rows)) < 0.9)
    may_vote[:, 2], may_score[:, 3] = True, True
    score[~may_score] = np.nan
    blocks = TreeBlocks.nothing(np.arange(n_rows), n_classes, n_scores)
    assert blocks.n_filled == 0
    for start, stop in [(0, 1), (1, 9), (9, 9), (9, 60), (60, n_trees)]:
        run = slice(start, stop)
        blocks.add(vote[run], may_vote[run], score[run], may_score[run])
    assert blocks.n_trees == n_trees
    for row in range(n_rows):
        for block in range(N_BLOCKS):
            own = range(block, n_trees, N_BLOCKS)
            said = [vote[tree, row] for tree in own if may_vote[tree, row]]
            assert blocks.votes[row, block].tolist() == [said.count(index) for index in range(n_classes)]
            heard = [score[tree, row] for tree in own if may_score[tree, row]]
            assert blocks.asked[row, block, 0] == len(heard)
            assert np.array_equal(blocks.total[row, block], sum(heard, np.zeros(n_scores)))
            assert np.array_equal(blocks.squares[row, block], sum((one * one for one in heard), np.zeros(n_scores)))
        heard = [score[tree, row] for tree in range(n_trees) if may_score[tree, row]][:N_FIRST]
        assert np.array_equal(blocks.first[row, : len(heard)], heard)
        assert not blocks.first[row, len(heard) :].any()


def test_votes_for_no_class_are_not_counted() -> None:
    rows = np.ones((1, 4), dtype=bool)
    for vote in (-1, 3):
        blocks = TreeBlocks.nothing(np.arange(4), 3, 1)
        with pytest.raises(IndexError, match="a vote is for no class"):
            blocks.add(np.full((1, 4), vote, dtype=np.int16), rows, np.zeros((1, 4, 1)), rows)
        assert not blocks.votes.any()
