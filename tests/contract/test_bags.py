"""Bags are the framework's own, drawn again draw by draw, and proven: other rows, labels and weights are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn import config_context
from sklearn.ensemble import BaggingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.fixes import parse_version

import reference.bagging
import rfsize
from helpers.models import LIGHTGBM, N_ROWS, NAMES, NUMBER, TWO, WEIGHT, XGBOOST, Forest, X, model
from helpers.warned import warned
from rfsize.exceptions import ForestWarning, InbagError

_rng = np.random.default_rng(0)
LARGE = _rng.normal(size=(1100, 6))  # LightGBM draws for 1024 rows by each generator
LARGE_Y = (LARGE[:, 0] + _rng.normal(size=1100) > 0).astype(int)


def lightgbm(X: Any = LARGE, y: Any = LARGE_Y, n_trees: int = 9, **params: Any) -> lgb.Booster:
    return lgb.train(LIGHTGBM | params, lgb.Dataset(X, y), n_trees)


def xgboost(X: Any = X, y: Any = TWO, n_trees: int = 9, **params: Any) -> xgb.Booster:
    return xgb.train(XGBOOST | {"num_parallel_tree": n_trees} | params, xgb.DMatrix(X, y), 1)


def from_file(booster: xgb.Booster) -> xgb.Booster:
    return xgb.Booster(model_file=booster.save_raw("ubj"))


# The last two lie next to a whole number of draws, closer than the six digits of the model text tell.
FRACTIONS = [0.3, 0.5, 1 / 3 + 1e-9, 1 - 1 / np.e, 0.12347412109375, 0.1234741]
DRAWS: list[dict[str, Any]] = [{"bagging_fraction": fraction} for fraction in FRACTIONS]
DRAWS += [{"bagging_seed": -5}, {"num_threads": 2}, {"seed": 99}, {"bagging_freq": 4}]


@pytest.mark.parametrize("params", DRAWS, ids=str)
def test_lightgbm_draws(params: dict[str, Any]) -> None:
    seed, fraction, freq = ((LIGHTGBM | params)[f"bagging_{name}"] for name in ("seed", "fraction", "freq"))
    expected = reference.bagging.lightgbm_inbag(9, 1100, seed, fraction, freq)
    assert np.array_equal(rfsize.inbag(lightgbm(**params), LARGE), expected)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_lightgbm_full_bag_ends_bagging() -> None:
    """With 60 rows some bag soon holds them all, and LightGBM draws no more; more trees begin anew."""
    rows, y, params = LARGE[:60], LARGE_Y[:60], {"bagging_fraction": 0.95, "bagging_seed": 2, "min_data_in_leaf": 2}
    expected = reference.bagging.lightgbm_inbag(60, 60, 2, 0.95)
    first = int(expected.all(axis=1).argmax())
    assert 0 < first < 29
    expected[first:] = True
    assert np.array_equal(rfsize.inbag(lightgbm(rows, y, 60, **params), rows), expected)
    goal: dict[str, Any] = {"alpha": 0.9999, "validation": LARGE[60:], "min_trees": 60, "max_trees": 60}
    grown, _ = rfsize.grow(lightgbm(rows, y, 30, **params), lgb.Dataset(rows, y, free_raw_data=False), **goal)
    bags = rfsize.inbag(grown, rows)
    assert np.array_equal(bags[:30], expected[:30])
    assert not bags[30].all()


@pytest.mark.parametrize(
    ("params", "growth"),
    [
        ({"colsample_bynode": 1}, {"max_depth": 4}),
        ({"colsample_bytree": 0.5}, {"bytree": True, "bynode": True, "max_depth": 4}),
        ({"colsample_bylevel": 0.5, "colsample_bynode": 1}, {"bylevel": True, "max_depth": 4}),
        ({"colsample_bylevel": 0.7, "max_depth": 0}, {"bylevel": True, "bynode": True}),
        ({"grow_policy": "lossguide", "max_depth": 0}, {"bynode": True}),
        ({"nthread": 2, "eta": 0.3}, {"bynode": True, "max_depth": 4}),
    ],
    ids=str,
)
def test_xgboost_column_sampling(params: dict[str, Any], growth: dict[str, Any]) -> None:
    booster = xgboost(**params)
    expected = reference.bagging.xgboost_inbag(booster, N_ROWS, 3, 0.632, **growth)
    assert np.array_equal(rfsize.inbag(booster, X), expected)
    assert np.array_equal(rfsize.inbag(from_file(booster), X, seed=3, subsample=0.632), expected)


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("max_leaves", [2, 9])
def test_xgboost_limited_leaves(policy: str, max_leaves: int) -> None:
    booster = xgboost(n_trees=30, grow_policy=policy, max_leaves=max_leaves, colsample_bylevel=0.8)
    assert rfsize.inbag(booster, X).mean() == pytest.approx(0.632, abs=0.02)


@pytest.mark.parametrize(
    ("objective", "y", "weighted"),
    [
        ("reg:absoluteerror", NUMBER, True),
        ("reg:quantileerror", NUMBER, False),
        ("reg:logistic", 1 / (1 + np.exp(-NUMBER)), True),
    ],
)
def test_xgboost_objectives(objective: str, y: np.ndarray, weighted: bool) -> None:
    if objective != "reg:logistic" and parse_version(xgb.__version__) < parse_version("3.0"):
        pytest.skip("XGBoost trains no forests of medians before 3.0")
    params = XGBOOST | {"objective": objective, "num_parallel_tree": 9}
    params |= {"quantile_alpha": 0.3} if "quantile" in objective else {}
    of_rows = {"weight": WEIGHT} if weighted else {}
    booster = xgb.train(params, xgb.DMatrix(X, y, **of_rows), 1)
    given = {"sample_weight": WEIGHT} if weighted else {}
    expected = reference.bagging.xgboost_inbag(booster, N_ROWS, 3, 0.632, bynode=True, max_depth=4)
    assert np.array_equal(rfsize.inbag(booster, X, y, **given), expected)
    with pytest.raises(InbagError):
        rfsize.inbag(booster, X[::-1].copy(), y, **given)


def test_xgboost_scale_pos_weight_needs_labels() -> None:
    booster = xgboost(scale_pos_weight=3.0)
    expected = reference.bagging.xgboost_inbag(booster, N_ROWS, 3, 0.632, bynode=True, max_depth=4)
    assert np.array_equal(rfsize.inbag(booster, X, TWO), expected)
    for y in (None, 1 - TWO):
        with pytest.raises(InbagError):
            rfsize.inbag(booster, X, y)


def test_xgboost_file_needs_seed_and_subsample() -> None:
    forest = model("xgboost")
    loaded = from_file(forest.model)
    votes = rfsize.tree_outputs(loaded, X, oob=True, seed=3, subsample=0.632).votes
    assert votes == rfsize.tree_outputs(forest.model, X, oob=True).votes
    for wrong in ({}, {"seed": 4, "subsample": 0.632}, {"seed": 3, "subsample": 0.6}, {"seed": 3, "subsample": 1e-9}):
        with pytest.raises(InbagError):
            rfsize.inbag(loaded, X, **wrong)


# Rows that are no more those of training, or not in the order of training, by their numbers. XGBoost puts the first two
# rows into every bag, so that nothing tells them apart.
ORDERS = {
    "reversed": np.arange(N_ROWS)[::-1],
    "one row less": np.arange(N_ROWS - 1),
    "one row more": np.minimum(np.arange(N_ROWS + 1), N_ROWS - 1),
    "two rows swapped": np.array([*range(N_ROWS - 2), N_ROWS - 1, N_ROWS - 2]),
    "another row": np.array([*range(1, N_ROWS - 1), 300, 301]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_other_rows_are_refused(of_trees: Forest, order: str) -> None:
    rows = of_trees.X.iloc[ORDERS[order]] if hasattr(of_trees.X, "iloc") else of_trees.X[ORDERS[order]]
    training = {name: values[ORDERS[order]] for name, values in of_trees.training.items()}
    with pytest.raises(InbagError):
        rfsize.inbag(of_trees.model, rows, **training)


@pytest.mark.parametrize(
    ("kind", "training"),
    [
        ("xgboost weights", {}),
        ("xgboost weights", {"sample_weight": WEIGHT[::-1]}),
        ("lightgbm pos/neg", {}),
        ("lightgbm pos/neg", {"y": 1 - TWO}),
    ],
)
def test_what_the_bags_go_by_must_be_given(kind: str, training: dict[str, Any]) -> None:
    with pytest.raises(InbagError):
        rfsize.tree_outputs(model(kind).model, X, oob=True, **training)


@pytest.mark.parametrize("kind", ["lightgbm weights", "random forest weights"])
def test_weights_that_draw_no_bags_need_not_be_given(kind: str) -> None:
    forest = model(kind)
    assert np.array_equal(rfsize.inbag(forest.model, X), forest.inbag)


@pytest.mark.parametrize("routed", [False, True])
def test_bagging_of_rows_that_lack_a_class(routed: bool) -> None:
    """With metadata routing, trees are given the rows of their bag, some of them several times."""
    y = np.where(np.arange(N_ROWS) < 2, "a rare one", NAMES[TWO])
    with config_context(enable_metadata_routing=routed):
        trained = BaggingClassifier(n_estimators=20, max_samples=0.3, random_state=0).fit(X, y)
        expected = [np.isin(np.arange(N_ROWS), drawn) for drawn in trained.estimators_samples_]
        assert {len(tree.classes_) for tree in trained.estimators_} == ({2, 3} if routed else {3})
        assert np.array_equal(rfsize.inbag(trained, X), expected)


def test_warm_start_tells_bags_of_its_last_trees() -> None:
    warm = BaggingClassifier(GaussianNB(), 5, warm_start=True, random_state=0).fit(X, TWO)
    warm.set_params(n_estimators=8).fit(X, TWO)
    for forest in (warm, rfsize.truncate(warm, n_trees=5)):
        with pytest.raises(InbagError):
            rfsize.tree_outputs(forest, X, oob=True)
    assert rfsize.tree_outputs(warm, model("bagging").fresh).n_trees == 8


@pytest.mark.parametrize(
    "trained", [lambda: lightgbm(bagging_freq=3), lambda: xgboost(tree_method="approx")], ids=["lightgbm", "xgboost"]
)
def test_shared_bags_warn(trained: Callable[[], Any]) -> None:
    with pytest.warns(ForestWarning, match="bag"):
        rfsize.size(trained(), model("lightgbm").fresh, alpha=0.8)


@pytest.mark.parametrize(
    ("name", "drawn", "depends"),
    [("feature_fraction", 1, False), ("feature_fraction", 2, True), ("feature_fraction_bynode", 5, False)],
)
def test_seed_dependence_of_lightgbm(name: str, drawn: int, depends: bool) -> None:
    """Two of eight features come from low bits, an even number at a time; one is odd, and five use the high bits."""
    rows = np.hstack([X, X[:, :2] ** 2])
    fresh = np.random.default_rng(1).normal(size=(300, 8))

    def shares(seed: int) -> np.ndarray:
        booster = lightgbm(rows, TWO, 300, seed=seed, **{"feature_fraction": 1.0, name: drawn / 8})
        return rfsize.compile(booster).votes(fresh).fractions()[:, 1]

    first, second = shares(1), shares(2)
    noise = np.sqrt((first * (1 - first) + second * (1 - second)) / 300 + 1e-6)
    assert (float(np.std((first - second) / noise)) > 2.0) is depends
    booster = lightgbm(rows, TWO, **{"feature_fraction": 1.0, name: drawn / 8})
    caught = warned(lambda: rfsize.size(booster, fresh))
    assert any("feature_fraction" in str(warning.message) for warning in caught) is depends


def test_trees_of_all_classes_draw_columns_together() -> None:
    """Three of 16 features are an odd number, and those of four classes an even one."""
    rows, params = np.hstack([X, X**2, X[:, :4] ** 3]), {"feature_fraction": 3 / 16, "objective": "multiclass"}
    y = np.arange(N_ROWS) % 3
    assert not warned(lambda: rfsize.tree_outputs(lightgbm(rows, y, num_class=3, **params), rows[::-1]), ForestWarning)
    with pytest.warns(ForestWarning, match="feature_fraction"):
        rfsize.tree_outputs(lightgbm(rows, y, num_class=4, **params), rows[::-1])


def test_damaged_notes_of_bags_are_refused() -> None:
    """What rfsize writes into a model of XGBoost that it cut or merged, since the model itself tells no seeds."""
    small = rfsize.truncate(model("xgboost").model, n_trees=3)
    note = json.loads(small.attr("rfsize_bags"))
    assert np.array_equal(rfsize.inbag(from_file(small), X), model("xgboost").inbag[:3])
    for damaged in (
        "[]",
        {**note, "seeds": note["seeds"][:2]},
        {**note, "seeds": [-1, 2, 3]},
        {"seeds": [1, 2, 3]},
    ):
        small.set_attr(rfsize_bags=damaged if isinstance(damaged, str) else json.dumps(damaged))
        with pytest.raises(InbagError):
            rfsize.inbag(small, X)
        assert np.array_equal(rfsize.inbag(small, X, seed=3, subsample=0.632), model("xgboost").inbag[:3])
    small.set_attr(rfsize_bags=json.dumps({**note, "seeds": [1, 2, 3]}))
    with pytest.raises(InbagError):
        rfsize.inbag(from_file(small), X)
