"""XGBoost's bags, drawn again and proven leaf by leaf."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import reference.bagging
import reference.counting
import reference.scores
import rfsize
from helpers.forests import TREES, XGBOOST, Data, only_tree, predict, train_xgboost
from helpers.xgboost_forests import class_margins
from rfsize.exceptions import InbagError
from rfsize.integrations.xgboost.bags import smoothed_cover

SMOOTHED = tuple(map(int, xgb.__version__.split(".")[:2])) > (3, 3)


@pytest.mark.parametrize(
    ("settings", "growth"),
    [
        ({}, {"bynode": True, "max_depth": 5}),
        ({"colsample_bynode": 1}, {"max_depth": 5}),
        ({"colsample_bytree": 0.5}, {"bytree": True, "bynode": True, "max_depth": 5}),
        ({"colsample_bylevel": 0.5, "colsample_bynode": 1}, {"bylevel": True, "max_depth": 5}),
        ({"colsample_bylevel": 0.7, "max_depth": 0}, {"bylevel": True, "bynode": True}),
        ({"grow_policy": "lossguide", "max_depth": 0}, {"bynode": True}),
    ],
)
def test_bags_are_xgboosts_own(settings: dict[str, Any], growth: dict[str, Any], data: Data) -> None:
    model = train_xgboost(data.X, data.y, 15, **settings)
    expected = reference.bagging.xgboost_inbag(model, len(data.X), 3, 0.632, **growth)
    assert np.array_equal(rfsize.inbag(model, data.X), expected)


def test_threads_do_not_matter_to_bags(xgb_booster: xgb.Booster, data: Data) -> None:
    by_two = train_xgboost(data.X, data.y, 21, nthread=2)
    assert np.array_equal(rfsize.inbag(by_two, data.X), rfsize.inbag(xgb_booster, data.X)[:21])


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("max_leaves", [2, 9, 16])
def test_bags_of_trees_with_limited_leaves(policy: str, max_leaves: int, data: Data) -> None:
    settings = {"grow_policy": policy, "max_leaves": max_leaves, "colsample_bylevel": 0.8}
    model = train_xgboost(data.X, data.y, 30, **settings)
    assert rfsize.inbag(model, data.X).mean() == pytest.approx(0.632, abs=0.02)


def test_multiclass_trees_have_bags_of_their_own(xgb_multiclass: xgb.Booster, data: Data) -> None:
    per_tree = reference.bagging.xgboost_inbag(xgb_multiclass, len(data.X), 3, 0.632, bynode=True, max_depth=5).reshape(
        3, 21, -1
    )
    inbag = rfsize.inbag(xgb_multiclass, data.X)
    assert np.array_equal(inbag, per_tree.any(axis=0))
    labels = np.stack([predict(only_tree(xgb_multiclass, tree, 3), data.X).argmax(axis=1) for tree in range(21)])
    assert np.array_equal(rfsize.tree_outputs(xgb_multiclass, data.X).votes.counts, reference.counting.votes(labels, 3))
    members = reference.scores.left_out(class_margins(xgb_multiclass, data.X, range(21)), per_tree)
    assert np.array_equal(
        rfsize.tree_outputs(xgb_multiclass, data.X, oob=True).votes.counts, reference.scores.counts(members)
    )
    assert rfsize.size(xgb_multiclass, data.X).n_rows == len(data.X)


def test_a_loaded_model_must_be_told_its_seed(xgb_booster: xgb.Booster, data: Data) -> None:
    loaded = xgb.Booster()
    loaded.load_model(xgb_booster.save_raw("ubj"))
    with pytest.raises(rfsize.exceptions.InbagError, match=r"seed=.*subsample="):
        rfsize.size(loaded, data.X, oob=True)
    told = {"seed": 3, "subsample": 0.632}
    assert np.array_equal(rfsize.inbag(loaded, data.X, **told), rfsize.inbag(xgb_booster, data.X))
    outputs = rfsize.tree_outputs(loaded, data.X, oob=True, **told)
    assert outputs.votes == rfsize.tree_outputs(xgb_booster, data.X, oob=True).votes
    assert rfsize.size(outputs, alpha=0.9).source == "oob"
    with pytest.raises(rfsize.exceptions.InbagError, match="61 of 61 trees"):
        rfsize.inbag(loaded, data.X, seed=4, subsample=0.632)
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.inbag(loaded, data.X, seed=3, subsample=0.6)
    with pytest.raises(ValueError, match="subsample must be"):
        rfsize.inbag(loaded, data.X, seed=3, subsample=1.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"colsample_bylevel": 0.6},
        {"colsample_bytree": 0.6, "colsample_bynode": 1, "max_depth": 0, "max_leaves": 7},
        {"grow_policy": "lossguide", "max_leaves": 7},
    ],
)
def test_a_loaded_model_need_not_be_told_how_columns_were_sampled(settings: dict[str, Any], data: Data) -> None:
    model = train_xgboost(data.X, data.y, 20, **settings)
    loaded = xgb.Booster()
    loaded.load_model(model.save_raw("ubj"))
    found = rfsize.inbag(loaded, data.X, seed=3, subsample=0.632)
    assert np.array_equal(found, rfsize.inbag(model, data.X))


def test_weights_are_part_of_the_proof(data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(data.X))
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=15, subsample=0.8, random_state=3)
    model.fit(data.X, data.three, sample_weight=weight)
    assert rfsize.inbag(model, data.X, sample_weight=weight).shape == (15, len(data.X))
    with pytest.raises(rfsize.exceptions.InbagError, match="sample_weight="):
        rfsize.inbag(model, data.X)
    with pytest.raises(ValueError, match="non-negative"):
        rfsize.inbag(model, data.X, sample_weight=-weight)
    with pytest.raises(ValueError, match="per row"):
        rfsize.inbag(model, data.X, sample_weight=weight[:-1])


def test_scale_pos_weight_is_part_of_the_proof(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 15, scale_pos_weight=3.0)
    expected = reference.bagging.xgboost_inbag(model, len(data.X), 3, 0.632, bynode=True, max_depth=5)
    assert np.array_equal(rfsize.inbag(model, data.X, data.y), expected)
    with pytest.raises(rfsize.exceptions.InbagError, match="give y"):
        rfsize.inbag(model, data.X)
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.inbag(model, data.X, 1 - data.y)


def test_approx_shares_its_bag(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 5, tree_method="approx")
    with pytest.raises(rfsize.exceptions.InbagError, match="same bag"):
        rfsize.inbag(model, data.X)


def test_exact_draws_otherwise(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 5, tree_method="exact", colsample_bynode=1)
    with pytest.raises(rfsize.exceptions.InbagError, match="exact"):
        rfsize.inbag(model, data.X)


def test_no_bagging(data: Data) -> None:
    with pytest.raises(rfsize.exceptions.InbagError, match="without bagging"):
        rfsize.inbag(train_xgboost(data.X, data.y, 5, subsample=1.0), data.X)


def loaded(model: xgb.Booster) -> xgb.Booster:
    """The model as it comes out of a file."""
    booster = xgb.Booster()
    booster.load_model(model.save_raw("ubj"))
    return booster


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_a_truncated_model_remembers_its_bags(
    kind: str, xgb_booster: xgb.Booster, xgb_multiclass: xgb.Booster, data: Data
) -> None:
    model = xgb_booster if kind == "binary" else xgb_multiclass
    small = loaded(rfsize.truncate(model, n_trees=9))
    assert np.array_equal(rfsize.inbag(small, data.X), rfsize.inbag(model, data.X)[:9])
    smaller = loaded(rfsize.truncate(small, n_trees=4))
    assert np.array_equal(rfsize.inbag(smaller, data.X), rfsize.inbag(model, data.X)[:4])
    assert model.attr("rfsize_bags") is None


def test_a_damaged_memory_of_the_bags_is_refused(xgb_booster: xgb.Booster, data: Data) -> None:
    small = rfsize.truncate(xgb_booster, n_trees=3)
    memory = json.loads(small.attr("rfsize_bags"))
    votes = rfsize.tree_outputs(small, data.X).votes
    first = memory["seeds"][0]
    for damaged in (
        "no JSON",
        "[" * 100_000,
        "3",
        {"subsample": 0.632},
        {"seeds": memory["seeds"]},
        {**memory, "subsample": 1.5},
        {**memory, "subsample": "0.632"},
        {**memory, "seeds": memory["seeds"][:2]},
        {**memory, "seeds": {"0": 1, "1": 2, "2": 3}},
        {**memory, "seeds": [first, -1, 5]},
        {**memory, "seeds": [first, 2**80, 5]},
        {**memory, "seeds": [first, "a", 5]},
    ):
        small.set_attr(rfsize_bags=damaged if isinstance(damaged, str) else json.dumps(damaged))
        with pytest.raises(rfsize.exceptions.InbagError, match="is damaged"):
            rfsize.inbag(small, data.X)
        assert rfsize.tree_outputs(small, data.X).votes == votes
        told = rfsize.inbag(small, data.X, seed=3, subsample=0.632)
        assert np.array_equal(told, rfsize.inbag(xgb_booster, data.X)[:3])
    wrong = loaded(small)
    wrong.set_attr(rfsize_bags=json.dumps({**memory, "seeds": [first, 1, 2]}))
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.inbag(wrong, data.X)


def test_nearly_empty_bags_prove_nothing(xgb_booster: xgb.Booster, data: Data) -> None:
    loaded = xgb.Booster()
    loaded.load_model(xgb_booster.save_raw("ubj"))
    for subsample in (1e-9, 1e-4):
        with pytest.raises(rfsize.exceptions.InbagError):
            rfsize.inbag(loaded, data.X, seed=3, subsample=subsample)
    loaded.set_attr(rfsize_bags=json.dumps({"subsample": 1e-30, "seeds": list(range(1, TREES + 1))}))
    with pytest.raises(rfsize.exceptions.InbagError):
        rfsize.inbag(loaded, data.fresh)


@pytest.mark.parametrize(("objective", "level"), [("reg:absoluteerror", 0.5), ("reg:quantileerror", 0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_absolute_and_quantile_errors_prove_their_bags(
    objective: str, level: float, weighted: bool, data: Data
) -> None:
    """Up to XGBoost 3.2 a row adds its weight to a leaf; from 3.4 on it adds what its label makes of that."""
    y = data.X[:, 0] + data.X[:, 1] * data.X[:, 2]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    params = {**XGBOOST, "objective": objective, "num_parallel_tree": 15}
    params |= {"quantile_alpha": level} if "quantile" in objective else {}
    model = xgb.train(params, xgb.DMatrix(data.X, y, weight=weight), 1)
    expected = reference.bagging.xgboost_inbag(model, len(data.X), 3, 0.632, bynode=True, max_depth=5)
    assert np.array_equal(rfsize.inbag(model, data.X, y, sample_weight=weight), expected)
    if SMOOTHED:
        with pytest.raises(InbagError, match=r"without y the bags could not be proven: from XGBoost 3\.4 on"):
            rfsize.inbag(model, data.X, sample_weight=weight)
    else:
        assert np.array_equal(rfsize.inbag(model, data.X, sample_weight=weight), expected)
    with pytest.raises(InbagError, match="could not be proven"):
        rfsize.inbag(model, data.X[::-1].copy(), y, sample_weight=weight)


@pytest.mark.parametrize("objective", ["reg:absoluteerror", "reg:quantileerror"])
def test_what_a_row_adds_to_smoothed_errors(objective: str) -> None:
    """Plain loops over the formulas of XGBoost's source."""
    rng = np.random.default_rng(0)
    label, weight = np.append(rng.normal(size=50) ** 3, [0.25, 40.0]), rng.uniform(0.5, 2.0, 52)
    start, expected = 0.25, []
    roots = sum(w * math.sqrt(abs(start - float(np.float32(y)))) for w, y in zip(weight, label, strict=True))
    scale = (roots / sum(weight)) ** 2
    for w, y in zip(weight, label, strict=True):
        residual = start - float(np.float32(y))
        if objective == "reg:absoluteerror":
            expected.append(w * scale / math.hypot(scale, residual))
        else:
            x = residual / (0.04 * scale)
            expected.append(w / 0.08 * max(math.tanh(x) / x if x else 1.0, 3e-4))
    np.testing.assert_allclose(smoothed_cover(objective, start, label, weight), expected, rtol=1e-12)
    assert smoothed_cover(objective, 2.0, np.full(3, 2.0), np.ones(3)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.skipif(SMOOTHED, reason="since XGBoost 3.4 leaves are not set anew")
@pytest.mark.parametrize(("objective", "level"), [("reg:absoluteerror", 0.5), ("reg:quantileerror", 0.3)])
def test_leaves_of_quantiles_know_their_bags_alone(objective: str, level: float, data: Data) -> None:
    """XGBoost sets these leaves anew after a tree is grown, from the rows of its bag."""
    y = data.X[:, 0] + data.X[:, 1] * data.X[:, 2]
    quantile = {"quantile_alpha": level} if "quantile" in objective else {}
    model = train_xgboost(data.X, y, 15, objective=objective, **quantile)
    inbag = rfsize.inbag(model, data.X)
    rows, stored = xgb.DMatrix(data.X), json.loads(model.save_raw("json"))["learner"]
    base = float(np.ravel(json.loads(stored["learner_model_param"]["base_score"]))[0])
    for tree, leaf in enumerate(model.predict(rows, pred_leaf=True).T.astype(int)):
        kept = stored["gradient_booster"]["model"]["trees"][tree]
        for one in np.unique(leaf[inbag[tree]]):
            in_bag = y[inbag[tree] & (leaf == one)] - base
            # How quantiles between two rows are taken differs from version to version.
            found = [np.quantile(in_bag, level, method=method) for method in ("linear", "weibull", "inverted_cdf")]
            value = 15 * kept["split_conditions"][one]
            assert np.abs(np.array(found) - value).min() < 1e-3 * max(1.0, abs(value))
