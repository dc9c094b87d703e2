"""Models whose splits share children are no trees: refused, for every framework, before anything walks over them."""

from __future__ import annotations

import json
import re
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost


def test_lightgbm(data: Data) -> None:
    text = train_lightgbm(data.X, data.y, 3, num_leaves=4, max_depth=2).model_to_string()
    head, _, last = text.rpartition("\nTree=")
    last = re.sub(r"left_child=.*", "left_child=1 -1 -2", last)
    last = re.sub(r"right_child=.*", "right_child=2 -2 -1", last)
    model = lgb.Booster(model_str=f"{head}\nTree={last}")
    with pytest.raises(rfsize.exceptions.NotAForestError, match="share a child"):
        rfsize.compile(model)


def test_xgboost(data: Data) -> None:
    document = json.loads(train_xgboost(data.X, data.y, 3, max_depth=2).save_raw("json"))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][-1]
    tree["left_children"][2], tree["right_children"][2] = tree["left_children"][1], tree["right_children"][1]
    model = xgb.Booster()
    model.load_model(bytearray(json.dumps(document).encode()))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="share a child"):
        rfsize.compile(model)


def test_scikit_learn(data: Data) -> None:
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(data.X, data.y)
    tree = model.estimators_[-1].tree_
    inner = np.flatnonzero(tree.children_left != -1)
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    nodes["left_child"][inner[-1]] = nodes["left_child"][inner[-2]]
    nodes["right_child"][inner[-1]] = nodes["right_child"][inner[-2]]
    tree.__setstate__({**state, "nodes": nodes})
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"share a child|not a node of the tree"):
        rfsize.compile(model)


def test_one_split_with_one_child_twice(data: Data) -> None:
    document = json.loads(train_xgboost(data.X, data.y, 3, max_depth=2).save_raw("json"))
    tree: dict[str, Any] = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["right_children"][0] = tree["left_children"][0]
    model = xgb.Booster()
    model.load_model(bytearray(json.dumps(document).encode()))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="share a child"):
        rfsize.compile(model)
