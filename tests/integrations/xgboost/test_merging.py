"""XGBoost forests trained apart, merged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.forests import Data, train_xgboost
from helpers.xgboost_forests import MULTI_OUTPUT, MULTICLASS, grown, margins, plain_blocks
from rfsize.integrations.xgboost.training import merged


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_forests_trained_apart_are_merged(kind: str, data: Data) -> None:
    parts = plain_blocks(kind, data)
    before = [bytes(part.save_raw("ubj")) for part in parts]
    booster = merged(parts)
    assert booster.get_dump() == grown(kind, data)[1].booster().get_dump()
    expected = rfsize.inbag(grown(kind, data)[1].booster(), data.X)
    assert np.array_equal(rfsize.inbag(booster, data.X), expected)
    assert [bytes(part.save_raw("ubj")) for part in parts] == before
    twice = merged([merged(parts[:2]), parts[2]])
    assert margins(twice, data.fresh) == pytest.approx(margins(booster, data.fresh), abs=1e-6)
    assert np.array_equal(rfsize.inbag(twice, data.X), expected)


def test_merging_a_forest_that_forgot_its_bags(data: Data) -> None:
    first, second = plain_blocks("binary", data, (4, 3))
    from_file = xgb.Booster()
    from_file.load_model(second.save_raw("ubj"))
    booster = merged([merged([first]), from_file])
    assert len(booster.get_dump()) == 7
    assert booster.attr("rfsize_bags") is None
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.inbag(booster, data.X)


def test_merging_refuses_what_differs(data: Data) -> None:
    first = train_xgboost(data.X, data.y, 3)
    named = pd.DataFrame(data.X, columns=list("abcdefgh"))
    for other, what in (
        (train_xgboost(data.X, data.three, 3, objective="multi:softprob", num_class=3), "objective"),
        (train_xgboost(data.X[:, :7], data.y, 3), "num_feature"),
        (train_xgboost(named, data.y, 3), "feature names"),
        (train_xgboost(data.X, data.y, 3, seed=4, base_score=0.2), "base_score"),
        (train_xgboost(data.X, data.y, 3, seed=4, subsample=0.5), "subsample"),
    ):
        with pytest.raises(rfsize.exceptions.NotAForestError, match=what):
            merged([first, other])
    with pytest.raises(rfsize.exceptions.NotAForestError, match="2 rounds"):
        merged([first, train_xgboost(data.X, data.y, 3, rounds=2)])


def test_merging_refuses_the_two_ways_of_voting_for_many_classes(data: Data) -> None:
    dtrain = xgb.DMatrix(data.X, data.three)
    per_class, for_all = (
        xgb.train({**params, "num_parallel_tree": 3, "seed": seed}, dtrain, 1)
        for seed, params in enumerate((MULTICLASS, MULTI_OUTPUT))
    )
    with pytest.raises(rfsize.exceptions.NotAForestError, match="classes that a tree scores"):
        merged([per_class, for_all])
