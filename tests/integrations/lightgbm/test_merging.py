"""LightGBM forests trained apart, merged."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import rfsize
from helpers.forests import LIGHTGBM, Data
from helpers.lightgbm_forests import SEVERAL, without_parameters
from rfsize.integrations.lightgbm.training import LightGbmTrainer, merged


@pytest.fixture(scope="module", params=["binary", "multiclass", "regression"])
def pair(request: pytest.FixtureRequest, data: Data) -> Any:
    """Two forests of one Dataset, and the rows."""
    params = {"binary": LIGHTGBM, "multiclass": SEVERAL, "regression": {**LIGHTGBM, "objective": "regression"}}
    y = {"binary": data.y, "multiclass": data.three, "regression": data.X[:, 0] + 1e6}[request.param]
    trainer = LightGbmTrainer(params[request.param], lgb.Dataset(data.X, y))
    boosters = []
    for seed, trees in ((3, 13), (4, 8)):
        forest = trainer.start(seed=seed)
        forest.add(trees)
        boosters.append(forest.booster())
    return boosters


def test_a_merged_forest_predicts_the_mean_of_all_trees(pair: Any, data: Data) -> None:
    texts = [booster.model_to_string() for booster in pair]
    whole = merged(pair)
    assert whole.current_iteration() == 21
    total = sum(booster.predict(data.fresh, raw_score=True) for booster in pair)
    assert np.allclose(whole.predict(data.fresh, raw_score=True), total, rtol=1e-12)
    for tree in range(21):
        alone = whole.predict(data.fresh, start_iteration=tree, num_iteration=1)
        which, own = (0, tree) if tree < 13 else (1, tree - 13)
        assert np.array_equal(alone, pair[which].predict(data.fresh, start_iteration=own, num_iteration=1))
    again = merged([merged(pair[:1]), lgb.Booster(model_str=pair[1].model_to_string())])
    assert again.model_to_string() == whole.model_to_string()
    assert [booster.model_to_string() for booster in pair] == texts
    assert np.array_equal(whole.feature_importance(), sum(booster.feature_importance() for booster in pair))


def test_a_merged_forest_remembers_its_bags(pair: Any, data: Data, tmp_path: Any, capfd: Any) -> None:
    whole = merged(pair)
    if whole.model_to_string().count("objective=regression"):
        pytest.skip("regression forests have no adapter")
    expected = np.vstack([rfsize.inbag(booster, data.X) for booster in pair])
    whole.save_model(tmp_path / "model.txt")
    copies = [
        whole,
        lgb.Booster(model_str=whole.model_to_string()),
        lgb.Booster(model_file=tmp_path / "model.txt"),
        pickle.loads(pickle.dumps(whole)),
        copy.deepcopy(whole),
        rfsize.truncate(whole, n_trees=15),
        rfsize.truncate(whole, n_trees=13),
        rfsize.truncate(rfsize.truncate(whole, n_trees=15), n_trees=7),
    ]
    for one in copies:
        assert np.array_equal(rfsize.inbag(one, data.X), expected[: one.current_iteration()])
    assert "Warning" not in "".join(capfd.readouterr())
    fast = rfsize.compile(whole)
    assert np.array_equal(fast.votes(data.fresh).counts, rfsize.tree_outputs(whole, data.fresh).votes.counts)


def test_forests_that_do_not_say_how_they_were_trained(pair: Any) -> None:
    silent = [lgb.Booster(model_str=without_parameters(booster)) for booster in pair]
    assert merged(silent).current_iteration() == 21


def test_forests_that_differ_are_not_merged(data: Data) -> None:
    def train(y: Any = data.y, X: Any = data.X, **params: Any) -> lgb.Booster:
        return lgb.train({**LIGHTGBM, **params}, lgb.Dataset(X, y), 3)

    one = train()
    for other, what in [
        (train(objective="cross_entropy", seed=4), "objective"),
        (train(data.three, objective="multiclass", num_class=3, seed=4), "objective"),
        (train(X=data.X[:, :5], seed=4), "max_feature_idx"),
        (train(X=data.X + 1, seed=4), "feature_infos"),
        (train(X=pd.DataFrame(data.X, columns=list("abcdefgh")), seed=4), "feature_names"),
        (train(bagging_fraction=0.5, seed=4), "bagging_fraction"),
        (train(num_leaves=7, seed=4), "num_leaves"),
        (train(boosting="gbdt", seed=4), "boosting='gbdt'"),
    ]:
        with pytest.raises(rfsize.exceptions.NotAForestError, match=what):
            merged([one, other])
    assert merged([one, train(seed=4, num_threads=2, verbosity=0)]).num_trees() == 6


@pytest.mark.parametrize(
    "note",
    ["rfsize_bags", "rfsize_bags 3x3", "rfsize_bags 3x13 3x8", "rfsize_bags 3x13 4x9 junk"],
)
def test_a_damaged_note_is_refused(note: str, pair: Any, data: Data) -> None:
    text = merged(pair).model_to_string()
    if "objective=regression" in text:
        pytest.skip("regression forests have no adapter")
    own = text.partition("[rfsize_bags")[2].partition(": ]")[0]
    damaged = lgb.Booster(model_str=text.replace(f"rfsize_bags{own}", note))
    with pytest.raises(rfsize.exceptions.InbagError, match="note of how its bags were drawn is damaged"):
        rfsize.inbag(damaged, data.X)
    seeds = lgb.Booster(model_str=text.replace(own, own.replace("x13", "x12").replace("x8", "x9")))
    with pytest.raises(rfsize.exceptions.InbagError):
        rfsize.inbag(seeds, data.X)


def test_blocks_with_full_bags(data: Data) -> None:
    """LightGBM draws no bags after a full one, but the next forest begins anew."""
    X, y = data.X[:60], data.y[:60]
    params = {**LIGHTGBM, "bagging_fraction": 0.95, "min_data_in_leaf": 2}
    boosters = [lgb.train({**params, "bagging_seed": seed}, lgb.Dataset(X, y), 40) for seed in (2, 3)]
    expected = np.vstack([rfsize.inbag(booster, X) for booster in boosters])
    assert expected.all(axis=1)[39]
    assert not expected.all(axis=1)[40]
    assert np.array_equal(rfsize.inbag(merged(boosters), X), expected)
