"""Models that somebody damaged, or wrote: refused by rfsize's own errors, and before memory is asked for."""

from __future__ import annotations

import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import rfsize
from helpers.damaged import damaged_text, damaged_values
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.adapters.damage import damage_refused
from rfsize.integrations.lightgbm.bags import shared_bags
from rfsize.integrations.lightgbm.feature_sampling import seed_dependence
from rfsize.integrations.lightgbm.model_text import ForestText, conventions, tree_table
from rfsize.integrations.xgboost import model_json

OURS = (rfsize.NotAForestError, rfsize.InbagError)


@pytest.fixture(scope="module")
def text(data: Data) -> str:
    X = data.X.copy()
    X[:, 0] = np.digitize(X[:, 0], [-1, 0, 1])
    options: dict[str, Any] = {"dataset": {"categorical_feature": [0]}, "num_leaves": 6, "min_data_per_group": 1}
    return str(train_lightgbm(X, data.three, 2, objective="multiclass", num_class=3, **options).model_to_string())


@pytest.fixture(scope="module")
def document(data: Data) -> dict[str, Any]:
    raw = train_xgboost(data.X, data.three, 2, max_depth=2, objective="multi:softprob", num_class=3).save_raw("json")
    return dict(json.loads(raw))


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_lightgbm_text(text: str, seed: int) -> None:
    """Read without LightGBM, which takes most damage, and crashes on some."""
    try:
        forest = ForestText.read(damaged_text(text, np.random.default_rng(seed)))
        shared_bags(forest)
        seed_dependence(forest)
        forest.blocks()
        conventions(forest)
        value = np.concatenate(forest.leaf_value)
        assert np.isfinite(tree_table(forest, value, np.zeros(0)).value).all()
    except OURS:
        return


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pandas_categorical:null", "pandas_categorical:[5]", "pandas_categorical is"),
        ("\nnum_class=3", "\nnum_class=-3", "num_class is '-3'"),
        ("[bagging_freq: 1]", "[bagging_freq: inf]", "bagging_freq is 'inf'"),
        ("[bagging_fraction: 0.632]", "[bagging_fraction: 0]", "bagging_fraction is '0'"),
    ],
)
def test_lightgbm_models_that_lightgbm_loads(old: str, new: str, message: str, text: str) -> None:
    assert old in text
    with pytest.raises(rfsize.NotAForestError, match=message):
        rfsize.compile(lgb.Booster(model_str=text.replace(old, new)))


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_xgboost_json(document: dict[str, Any], seed: int) -> None:
    """Read without XGBoost, for the same reason."""
    try:
        with damage_refused():
            learner = damaged_values(document, np.random.default_rng(seed))["learner"]
            model_json.check(learner)
            order, value = model_json.members(learner).ravel(), model_json.leaf_values(learner)
            model_json.conventions(learner, np.nan)
            model_json.tree_table(learner, order, value[:, None], np.zeros(0))
    except OURS:
        return


def written(document: dict[str, Any], **learner_model_param: str) -> xgb.Booster:
    changed = json.loads(json.dumps(document))
    changed["learner"]["learner_model_param"].update(learner_model_param)
    booster = xgb.Booster()
    booster.load_model(bytearray(json.dumps(changed).encode()))
    return booster


@pytest.mark.parametrize("name", ["num_class", "num_feature"])
def test_xgboost_models_that_claim_gigabytes(name: str, document: dict[str, Any]) -> None:
    with pytest.raises(rfsize.NotAForestError, match="the model is damaged"):
        rfsize.compile(written(document, **{name: "2147483647"}))


def test_what_no_check_names_is_refused_all_the_same() -> None:
    for error in (KeyError("trees"), MemoryError(), RecursionError(), OverflowError(), AttributeError("size")):
        expected = f"reading it ends in a {type(error).__name__}"
        with pytest.raises(rfsize.NotAForestError, match=expected), damage_refused():
            raise error
    for own in OURS:
        with pytest.raises(own, match="as it was"), damage_refused():
            raise own("as it was")
