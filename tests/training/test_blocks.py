"""Forests in blocks of trees, each from seeds of its own."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import rfsize
from helpers.blocks import grown_in_blocks
from helpers.forests import LIGHTGBM, XGBOOST, Data, train_lightgbm

PARAMS = {"lightgbm": LIGHTGBM, "xgboost": XGBOOST}

pytestmark = pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")


def grown(framework: str, data: Data, n_trees: int, **options: Any) -> Any:
    dtrain = (
        lgb.Dataset(data.X, data.y, free_raw_data=False) if framework == "lightgbm" else xgb.DMatrix(data.X, data.y)
    )
    grow = grown_in_blocks if "trees_per_block" in options else rfsize.grow
    return grow(PARAMS[framework], dtrain, alpha=0.9999, min_trees=n_trees, max_trees=n_trees, **options)[0]


def test_blocks_share_no_bags(framework: str, data: Data) -> None:
    model = grown(framework, data, 25, trees_per_block=10)
    bags = rfsize.inbag(model, data.X, data.y)
    assert len(np.unique(bags, axis=0)) == len(bags) == 25
    first = grown(framework, data, 10)
    assert np.array_equal(rfsize.inbag(first, data.X, data.y), bags[:10])


def test_each_is_what_would_be_added_to_those_before(framework: str, data: Data) -> None:
    """In XGBoost but for the last bits of the leaves, which are scaled each time that forests are merged."""
    model: Any = None
    for n_trees in (10, 20, 25):
        model = grown(framework, data, n_trees, init_model=model)
    in_blocks = grown(framework, data, 25, trees_per_block=10)
    if framework == "lightgbm":
        assert in_blocks.model_to_string() == model.model_to_string()
    assert np.array_equal(*(rfsize.tree_outputs(one, data.fresh).by_tree() for one in (in_blocks, model)))


def test_a_block_of_all_trees_is_the_forest_of_one_training(data: Data) -> None:
    expected = train_lightgbm(data.X, data.y, 20)
    found = grown("lightgbm", data, 20, trees_per_block=20)
    assert np.array_equal(found.predict(data.fresh), expected.predict(data.fresh))


def test_blocks_of_no_trees_are_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="trees_per_block must be a whole number of at least 1"):
        grown("lightgbm", data, 10, trees_per_block=0)
