"""Trees that did not begin at their booster's base_score: a base margin, or a slice of boosting."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import rfsize
from helpers.forests import XGBOOST, Data
from helpers.outputs import votes_of
from helpers.xgboost_forests import KINDS, VERSION, labels
from rfsize.integrations.xgboost.first_round import Nodes, gradients
from rfsize.models.framework import read_forest

OTHERWISE = {"subsample": 0.6, "eta": 0.1, "reg_lambda": 5.0, "min_child_weight": 0.0}


def train(data: Data, kind: str = "binary", *, rounds: int = 1, **given: Any) -> xgb.Booster:
    """A forest, whose data may have a weight and a base_margin."""
    of_rows = {name: given.pop(name) for name in ("weight", "base_margin") if name in given}
    dtrain = xgb.DMatrix(data.X, labels(kind, data), **of_rows)
    return xgb.train({**KINDS[kind], "eta": 1, "num_parallel_tree": 15, **given}, dtrain, rounds)


def from_file(model: xgb.Booster) -> xgb.Booster:
    booster = xgb.Booster()
    booster.load_model(model.save_raw("json"))
    return booster


def is_taken(model: xgb.Booster) -> bool:
    try:
        read_forest(model, casts_votes=False)
    except rfsize.exceptions.NotAForestError:
        return False
    return True


def margin(kind: str, value: float, data: Data) -> np.ndarray:
    per_row = [value, 0.0, -value] if kind in ("multiclass", "softmax", "multi_output") else [value]
    return np.tile(per_row, (len(data.X), 1))


@pytest.mark.parametrize("settings", [{}, OTHERWISE, {"max_depth": 3}, {"reg_alpha": 0.5}], ids=str)
@pytest.mark.parametrize("value", [1.5, -1.5])
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multi_output"])
def test_a_base_margin_is_told_from_the_trees(kind: str, value: float, settings: dict[str, Any], data: Data) -> None:
    if kind == "multi_output" and VERSION < (3, 2):
        pytest.skip("XGBoost stores no hessians in such trees before 3.2")
    model = train(data, kind, base_margin=margin(kind, value, data), base_score=0.5, **settings)
    for given in (model, from_file(model)):
        calls = (votes_of, rfsize.size, rfsize.truncate)
        for call in (*calls, lambda model, _: rfsize.compile(model)):
            with pytest.raises(
                rfsize.exceptions.NotAForestError, match=r"did not begin at its base_score.*base_margin"
            ):
                call(given, data.fresh)


@pytest.mark.parametrize("value", [0.05, -0.6])
def test_small_margins_are_told_too(value: float, data: Data) -> None:
    weight = np.random.default_rng(0).exponential(size=len(data.X))
    for of_rows in ({}, {"weight": weight}):
        assert not is_taken(train(data, base_margin=margin("binary", value, data), **of_rows))
    assert not is_taken(train(data, base_margin=np.random.default_rng(0).normal(size=len(data.X))))


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_a_slice_of_a_boosted_model_is_no_forest(kind: str, data: Data) -> None:
    boosted = train(data, kind, rounds=3, max_depth=0, min_child_weight=0.1)
    assert is_taken(boosted[0:1])
    assert not is_taken(boosted[2:3])
    with pytest.raises(rfsize.exceptions.NotAForestError, match="slice of the later rounds of a boosted model"):
        rfsize.size(from_file(boosted[1:2]), data.fresh)


@pytest.mark.parametrize("kind", ["binary", "probability", "count"])
def test_out_of_bag_the_hessian_of_a_row_tells(kind: str, data: Data) -> None:
    # Trees of one split, of which mean labels of the start are also possible ones.
    settings = {"max_depth": 1, "base_score": 0.3, "num_parallel_tree": 30}
    model = train(data, kind, base_margin=margin(kind, -0.84, data), **settings)
    asked = {"oob": True, "metric": "scores", "tolerance": 1.0}
    assert is_taken(model)
    with pytest.raises(rfsize.exceptions.InbagError, match=r"times the hessian.*sample_weight=.*base_margin"):
        rfsize.size(model, data.X, **asked)
    weight = np.full(len(data.X), 3.0)
    weighted = train(data, kind, weight=weight, **settings)
    assert rfsize.tree_outputs(weighted, data.X, oob=True, sample_weight=weight).source == "oob"
    with pytest.raises(rfsize.exceptions.InbagError, match=r"3 times the hessian"):
        rfsize.size(weighted, data.X, **asked)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        OTHERWISE,
        {"reg_alpha": 1.0},
        {"max_delta_step": 0.3},
        {"monotone_constraints": "(1,0,0,0,0,0,0,0)"},
        {"gamma": 2.0},
        {"tree_method": "exact", "colsample_bynode": 1.0},
        {"tree_method": "approx"},
        {"max_depth": 1},
        {"base_score": 0.9, "num_parallel_tree": 1},
        {"subsample": 1.0, "colsample_bynode": 0.7, "max_depth": 2, "max_delta_step": 0.7},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_forests_of_one_round_are_taken(kind: str, settings: dict[str, Any], data: Data) -> None:
    if kind == "multi_output" and settings.get("tree_method") in ("exact", "approx"):
        pytest.skip("XGBoost grows such trees by histograms only")
    if kind == "multi_output" and "monotone_constraints" in settings:
        pytest.skip("XGBoost has no constraints for such trees")
    weight = np.random.default_rng(0).exponential(size=len(data.X)) ** 3
    for of_rows in ({}, {"weight": weight}):
        model = train(data, kind, **of_rows, **settings)
        assert is_taken(model)
        assert is_taken(from_file(model))
        assert is_taken(read_forest(model, casts_votes=False).first(1))


@pytest.mark.parametrize("positive", [3, 30])
def test_forests_of_a_rare_class_are_taken(positive: int, data: Data) -> None:
    y = np.zeros(len(data.X))
    y[np.argsort(data.X[:, 0])[:positive]] = 1
    dtrain = xgb.DMatrix(data.X, y)
    for params in ({}, {"scale_pos_weight": 50.0}, {"base_score": 0.001}, {"reg_lambda": 0.0}):
        model = xgb.train({**XGBOOST, "num_parallel_tree": 15, "min_child_weight": 0.0, **params}, dtrain, 1)
        assert is_taken(model)
        assert rfsize.inbag(model, data.X, y).shape == (15, len(data.X))


def test_gradients_are_found_without_settings(data: Data) -> None:
    model = train(data, **OTHERWISE)
    document = json.loads(from_file(model).save_raw("json"))["learner"]
    found = gradients(Nodes.of(document))
    assert found is not None
    leaf = model.predict(xgb.DMatrix(data.X), pred_leaf=True).astype(int)
    tree = document["gradient_booster"]["model"]["trees"][0]
    inbag, start = rfsize.inbag(model, data.X)[0], json.loads(document["learner_model_param"]["base_score"])
    expected = np.bincount(leaf[inbag, 0], weights=(np.ravel(start)[0] - data.y)[inbag])
    of_leaf = np.flatnonzero(np.array(tree["left_children"]) == -1)
    assert found.total[of_leaf] == pytest.approx(expected[of_leaf], rel=1e-4, abs=1e-3)
    assert found.error[of_leaf].max() < 0.1
    assert gradients(Nodes.of(json.loads(train(data, reg_alpha=1.0).save_raw("json"))["learner"])) is None
