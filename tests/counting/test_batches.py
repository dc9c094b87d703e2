"""Outputs of batches of rows, joined, are those of all rows at once."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.voting.scores import in_proportion

FORESTS: dict[str, Callable[[Data], Any]] = {
    "LightGBM": lambda data: train_lightgbm(data.X, data.y),
    "LightGBM, three classes": lambda data: train_lightgbm(data.X, data.three, 31, objective="multiclass", num_class=3),
    "XGBoost": lambda data: train_xgboost(data.X, data.y),
    "scikit-learn, three classes": lambda data: RandomForestClassifier(40, max_depth=4, random_state=0).fit(
        data.X, np.array(["no", "yes", "maybe"])[data.three]
    ),
    "regression": lambda data: RandomForestRegressor(30, random_state=0).fit(data.X, data.X[:, 0]),
    "neighbours": lambda data: BaggingClassifier(KNeighborsClassifier(), 30, random_state=0).fit(data.X, data.y),
}
BATCHES = [slice(0, 150), slice(150, 151), slice(151, 400)]
BLOCKS = ("rows", "counts", "votes", "total", "squares", "asked", "first")


@pytest.fixture(scope="module", params=FORESTS)
def forest(request: pytest.FixtureRequest, data: Data) -> Any:
    return FORESTS[request.param](data)


def test_batches_joined_are_all_rows(forest: Any, data: Data) -> None:
    rng = np.random.default_rng(0)
    classes = getattr(forest, "classes_", None)
    y = rng.normal(size=400) if classes is None else rng.choice(classes, 400)
    if hasattr(forest, "num_trees") or hasattr(forest, "num_boosted_rounds"):
        y = rng.integers(0, 2, 400)
    weight = rng.uniform(size=400)
    whole = rfsize.tree_outputs(forest, data.fresh, y, sample_weight=weight)
    parts = [rfsize.tree_outputs(forest, data.fresh[rows], y[rows], sample_weight=weight[rows]) for rows in BATCHES]
    joined = parts[0].concat(*parts[1:])
    assert repr(joined) == repr(whole)
    assert joined.y.tolist() == y.tolist()
    assert joined._evidence.sample_weight.tolist() == weight.tolist()
    assert joined.classes.tolist() == whole.classes.tolist()
    if len(whole.classes):
        assert joined.votes == whole.votes
        assert joined.votes.threshold == whole.votes.threshold
    if whole.scores is not None:
        for name in ("asked", "mean", "scatter"):
            assert getattr(joined.scores, name).tolist() == getattr(whole.scores, name).tolist()
    for name in BLOCKS:
        assert getattr(joined._evidence.blocks, name).tolist() == getattr(whole._evidence.blocks, name).tolist()
    options = {"alpha": 0.8} if len(whole.classes) else {"metric": "scores", "tolerance": 0.1}
    expected = rfsize.size(whole, **options)
    for one in (joined, pickle.loads(pickle.dumps(joined)), parts[0].concat(parts[1]).concat(parts[2])):
        report = rfsize.size(one, **options)
        assert (report.n_trees, report.interval) == (expected.n_trees, expected.interval)
    with pytest.raises(ValueError, match=r"the trees cannot be asked again, .*joined by concat"):
        joined._evidence.averages  # noqa: B018


def test_pickled_batches_are_joined(lgb_booster: Any, data: Data) -> None:
    parts = [pickle.loads(pickle.dumps(rfsize.tree_outputs(lgb_booster, data.fresh[rows]))) for rows in BATCHES]
    assert parts[0].concat(*parts[1:]).votes == rfsize.tree_outputs(lgb_booster, data.fresh).votes
    assert parts[0].concat().votes == parts[0].votes


def test_what_was_noticed_of_a_batch_is_kept(lgb_booster: Any, data: Data) -> None:
    fresh = rfsize.tree_outputs(lgb_booster, data.fresh)
    with pytest.warns(rfsize.exceptions.TrainingRowsWarning):
        seen = rfsize.tree_outputs(lgb_booster, data.X)
    assert fresh.concat(seen, seen)._evidence.noted == seen._evidence.noted
    assert len(seen._evidence.noted) == 1


def test_what_is_to_be_said_of_the_training_is_kept(data: Data) -> None:
    forest = train_lightgbm(data.X, data.y, bagging_freq=2)
    with pytest.warns(rfsize.exceptions.SharedBagsWarning):
        parts = [rfsize.tree_outputs(forest, data.fresh[rows]) for rows in BATCHES]
    with pytest.warns(rfsize.exceptions.SharedBagsWarning):
        rfsize.size(parts[0].concat(*parts[1:]), alpha=0.8)


def test_many_rows_are_kept_in_part(lgb_booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of trees are kept of some rows, and of very many rows and classes scores too: few are many here."""
    monkeypatch.setattr("rfsize.voting.blocks._ROWS", 50)
    monkeypatch.setattr("rfsize.voting.scores._HELD", 100)
    parts = [rfsize.tree_outputs(lgb_booster, data.fresh[rows]) for rows in BATCHES]
    joined = parts[0].concat(*parts[1:])
    assert [len(part._evidence.blocks.rows) for part in parts] == [50, 1, 50]
    from_last = np.count_nonzero(joined._evidence.blocks.rows >= 151)
    assert 45 <= len(joined._evidence.blocks.rows) <= 51
    assert from_last / len(joined._evidence.blocks.rows) == pytest.approx(249 / 400, abs=0.05)
    whole = rfsize.tree_outputs(lgb_booster, data.fresh)
    scored = joined._evidence.scored
    assert len(scored) == len(joined.scores)
    assert 100 < len(scored) < 200
    assert np.count_nonzero(scored >= 151) / len(scored) == pytest.approx(249 / 400, abs=0.05)
    number = np.arange(400)[whole._evidence.scored]
    both, here, there = np.intersect1d(scored, number, return_indices=True)
    assert len(both) > 20
    assert joined.scores.mean[here].tolist() == whole.scores.mean[there].tolist()
    assert joined.votes == whole.votes


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=6), st.integers(1, 200))
def test_the_same_share_of_all_parts(sizes: list[tuple[int, int]], most: int) -> None:
    kept, rows = [min(pair) for pair in sizes], [max(pair) for pair in sizes]
    mask = in_proportion(kept, rows, most)
    assert len(mask) == sum(kept)
    shares = [one / of for one, of in zip(kept, rows, strict=True) if of]
    share = min([*shares, most / max(1, sum(rows))])
    until = np.cumsum([0, *kept])
    for part, (start, stop) in enumerate(itertools.pairwise(until)):
        assert abs(np.count_nonzero(mask[start:stop]) - share * rows[part]) <= 1.0 + 1e-6
    assert np.count_nonzero(mask) == pytest.approx(share * sum(rows), abs=1.0)


def test_of_many_small_parts_some_are_kept() -> None:
    assert np.count_nonzero(in_proportion([1] * 1000, [1] * 1000, 100)) == 100
    assert in_proportion([1] * 1000, [1] * 1000).all()


def test_what_cannot_be_joined_is_refused(lgb_booster: Any, xgb_booster: Any, data: Data) -> None:
    one = rfsize.tree_outputs(lgb_booster, data.fresh)
    for other, what in (
        (rfsize.tree_outputs(train_lightgbm(data.X, data.y, 30), data.fresh), "n_trees is 61 in the first and 30"),
        (rfsize.tree_outputs(train_lightgbm(data.X, data.y, seed=4), data.fresh), "these are of several forests"),
        (rfsize.tree_outputs(xgb_booster, data.fresh), "these are of several forests"),
        (rfsize.tree_outputs(lgb_booster, data.fresh, threshold=0.4), "cut is .* in the first and"),
        (rfsize.tree_outputs(lgb_booster, data.fresh, np.zeros(400)), "whether y is known is False in the first"),
        (rfsize.tree_outputs(lgb_booster, data.X, oob=True), r"found TreeOutputs\(1,500 rows \(oob\)"),
        (rfsize.tree_outputs(RandomForestClassifier(61), data.X, data.y, cv=2), r"found .*\(cross-validation\)"),
        (one.votes, "concat takes tree outputs, found Votes"),
    ):
        with pytest.raises(ValueError, match=what):
            one.concat(one, other)
    by_name = RandomForestClassifier(61, random_state=0).fit(data.X, np.array(["no", "yes"])[data.y])
    with pytest.raises(ValueError, match=r"classes is \[0, 1\] in the first and \['no', 'yes'\] in another"):
        one.concat(rfsize.tree_outputs(by_name, data.fresh))
