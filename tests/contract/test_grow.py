"""A grown forest is one forest: more trees are drawn from bags that go on, and its out-of-bag votes are proven."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pytest
import sklearn
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.fixes import parse_version

import rfsize
from helpers.models import (  # fmt: skip
    FRESH,
    LIGHTGBM,
    NUMBER,
    NUMBERS,
    THREE,
    TWO,
    WEIGHT,
    XGBOOST,
    Forest,
    X,
    frame,
    kept_in,
    model,
    own_predict,
    skip_unproven,
)
from helpers.warned import warned
from rfsize.exceptions import ForestWarning, InbagError, NotAForestError

pytestmark = pytest.mark.filterwarnings(
    "ignore::rfsize.exceptions.NotConvergedWarning", "ignore::rfsize.exceptions.LabelsOnlyWarning"
)
PARAMS = {name: value for name, value in XGBOOST.items() if name != "num_parallel_tree"}
OBJECTIVES: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "lightgbm": (LIGHTGBM, TWO),
    "lightgbm multiclass": (LIGHTGBM | {"objective": "multiclass", "num_class": 3}, THREE),
    "lightgbm one-vs-all": (LIGHTGBM | {"objective": "multiclassova", "num_class": 3}, THREE),
    "lightgbm regression": (LIGHTGBM | {"objective": "regression"}, NUMBER),
    "lightgbm poisson": (LIGHTGBM | {"objective": "poisson"}, THREE),
    "lightgbm pos/neg": (LIGHTGBM | {"pos_bagging_fraction": 0.7, "neg_bagging_fraction": 0.5}, TWO),
    "xgboost": (PARAMS, TWO),
    "xgboost softprob": (PARAMS | {"objective": "multi:softprob", "num_class": 3}, THREE),
    "xgboost softmax": (PARAMS | {"objective": "multi:softmax", "num_class": 3}, THREE),
    "xgboost multi_output": (
        PARAMS | {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"}, THREE
    ),
    "xgboost regression": (PARAMS | {"objective": "reg:squarederror"}, NUMBER),
    "xgboost poisson": (PARAMS | {"objective": "count:poisson"}, THREE),
}  # fmt: skip


def data(kind: str, y: np.ndarray, rows: Any = X, **options: Any) -> Any:
    if kind.startswith("lightgbm"):
        return lgb.Dataset(rows, y, free_raw_data=False, **options)
    return xgb.DMatrix(rows, y, enable_categorical=True, **options)


def precise(n_trees: int, first: int = 20, numbers: bool = False) -> dict[str, Any]:
    """A goal that takes all trees that are allowed."""
    goal = {"metric": "scores", "tolerance": 1e-4} if numbers else {"alpha": 0.9999, "voting": "hard"}
    return goal | {"min_trees": first, "max_trees": n_trees}


@cache
def grown(kind: str, n_trees: int = 45) -> Any:
    """A forest that grew in steps."""
    skip_unproven(kind)
    params, y = OBJECTIVES[kind]
    booster, report = rfsize.grow(params, data(kind, y), **precise(n_trees, numbers=kind in NUMBERS))
    assert report.available == n_trees
    return booster


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_grown_forest_is_a_forest_like_any_other(kind: str) -> None:
    booster, y = grown(kind), OBJECTIVES[kind][1]
    forest = Forest(kind.split()[0], booster, X, y, FRESH, n_classes=model(kind).n_classes, link=model(kind).link)
    scores = forest.tree_scores(FRESH)
    assert len(scores) == 45
    mean = forest.predicted(scores.mean(axis=0))
    actual = forest.predict_proba(FRESH) if forest.n_classes else forest.predict(FRESH)
    np.testing.assert_allclose(actual, mean, rtol=3e-6, atol=3e-6)
    bags = rfsize.inbag(booster, X, y)
    assert len(np.unique(bags, axis=0)) == 45
    assert rfsize.tree_outputs(booster, X, y, oob=True).n_trees == 45
    np.testing.assert_array_equal(rfsize.compile(booster).predict(FRESH), own_predict(booster, FRESH))


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_first_trees_are_the_frameworks(kind: str) -> None:
    booster = grown(kind)
    params, y = OBJECTIVES[kind]
    if kind.startswith("lightgbm"):
        plain = lgb.train(params, data(kind, y), 45)
        np.testing.assert_array_equal(booster.predict(FRESH), plain.predict(FRESH))
        return
    plain = xgb.train(params | {"num_parallel_tree": 20}, data(kind, y), 1)
    first = rfsize.truncate(booster, n_trees=20)
    np.testing.assert_allclose(*(own_predict(booster, FRESH, margin=True) for booster in (first, plain)), atol=1e-6)
    assert np.array_equal(*(rfsize.inbag(booster, X, y) for booster in (first, plain)))


@pytest.mark.parametrize("way", ["text", "json", "ubj", "pickle"])
@pytest.mark.parametrize("kind", ["lightgbm multiclass", "xgboost softprob", "xgboost multi_output"])
def test_grown_forest_is_saved_with_its_bags(kind: str, way: str, tmp_path: Path) -> None:
    booster = grown(kind)
    loaded = kept_in(booster, way, tmp_path)
    bags = rfsize.inbag(booster, X)
    assert np.array_equal(rfsize.inbag(loaded, X), bags)
    assert np.array_equal(rfsize.inbag(rfsize.truncate(loaded, n_trees=25), X), bags[:25])


@pytest.mark.parametrize("kind", ["lightgbm", "lightgbm multiclass", "lightgbm pos/neg", "xgboost", "xgboost softprob"])
def test_finished_forest_takes_more_trees(kind: str) -> None:
    forest = model(kind)
    before = pickle.dumps(forest.model)
    booster, report = rfsize.grow(forest.model, data(kind, forest.y), **precise(50, 40))
    assert pickle.dumps(forest.model) == before
    bags = rfsize.inbag(booster, X, forest.y)
    assert np.array_equal(bags[:31], forest.inbag)
    assert len(np.unique(bags, axis=0)) == len(bags) == report.available == 50
    first = rfsize.truncate(booster, n_trees=31)
    np.testing.assert_allclose(own_predict(first, FRESH), own_predict(forest.model, FRESH), atol=1e-6)
    again, _ = rfsize.grow(booster, data(kind, forest.y), **precise(60, 40))
    assert np.array_equal(rfsize.inbag(again, X, forest.y)[:50], bags)


def test_booster_of_a_file_takes_more_trees() -> None:
    forest, goal = model("xgboost"), precise(40, 35)
    loaded = xgb.Booster(model_file=forest.model.save_raw("ubj"))
    booster, _ = rfsize.grow(PARAMS, data("xgboost", TWO), init_model=loaded, **goal)
    expected, _ = rfsize.grow(forest.model, data("xgboost", TWO), **goal)
    assert booster.get_dump() == expected.get_dump()
    with pytest.raises(InbagError):
        rfsize.grow(PARAMS | {"seed": 4}, data("xgboost", TWO), init_model=loaded, **goal)


@pytest.mark.parametrize(
    ("params", "named"),
    [({"max_depth": 3}, "max_depth"), ({"eta": 0.3}, "eta"), ({"subsample": 0.5}, "subsample"),
     ({"base_score": 0.3}, "base_score"), ({"scale_pos_weight": 2}, "objective")],
)  # fmt: skip
def test_forest_trained_otherwise_takes_no_more_trees(params: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        rfsize.grow(PARAMS | params, data("xgboost", TWO), init_model=model("xgboost").model, alpha=0.9)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_forest_takes_more_trees_on_its_own_rows_only(kind: str) -> None:
    for rows, y in ((X[::-1], TWO[::-1]), (X[:-1], TWO[:-1])):
        with pytest.raises((InbagError, NotAForestError)):
            rfsize.grow(model(kind).model, data(kind, y, rows.copy()), alpha=0.9)


ESTIMATORS = ["LGBMClassifier", "XGBClassifier", "random forest of names", "extra-trees", "bagging"]
ESTIMATORS += ["random forest regressor", "bagging of neighbours"]


@pytest.mark.parametrize(
    ("kind", "fitted"), [*zip(ESTIMATORS, 4 * [True, False], strict=False), ("LGBMClassifier", False)]
)
def test_estimators_grow(kind: str, fitted: bool) -> None:
    forest = model(kind)
    given = clone(forest.model) if not fitted else forest.model
    before = repr(given.get_params())
    larger, report = rfsize.grow(given, X, forest.y, **precise(45, 35, numbers=forest.n_classes == 0))
    assert repr(given.get_params()) == before
    assert not fitted or rfsize.tree_outputs(given, FRESH).n_trees == 31
    assert type(larger) is type(given)
    outputs = rfsize.tree_outputs(larger, X, oob=True)
    assert outputs.n_trees == report.available == 45
    assert np.array_equal(rfsize.inbag(larger, X)[:31], forest.inbag)
    first = rfsize.truncate(larger, n_trees=31)
    assert first.predict(FRESH).tolist() == pytest.approx(forest.model.predict(FRESH).tolist()) or forest.n_classes
    # Boosters draw columns for other trees where they are trained in one go.
    whole = clone(larger).fit(X, forest.y) if forest.framework == "sklearn" else larger
    assert larger.predict(FRESH).tolist() == whole.predict(FRESH).tolist()


@pytest.mark.parametrize("kind", ["LGBMClassifier", "random forest"])
def test_estimators_grow_on_frames_of_every_kind(kind: str) -> None:
    """In which categories may have an order, which scikit-learn's forests know nothing of."""
    table, fresh = (frame(rows).drop(columns="c") for rows in (X, FRESH))
    if kind == "random forest":
        table, fresh = (rows.assign(b=rows["b"].cat.codes).fillna(0.0) for rows in (table, fresh))
    given = clone(model(kind).model).set_params(n_estimators=20)
    grown = [
        rfsize.grow(given, rows, TWO, groups="rows", **precise(30))[0]
        for rows in (table, polars.from_pandas(table), polars_enum(table))
    ]
    for forest in grown[1:]:
        assert forest.predict_proba(fresh).tolist() == grown[0].predict_proba(fresh).tolist()


def polars_enum(table: pd.DataFrame) -> Any:
    rows = polars.from_pandas(table)
    return rows.cast({"b": polars.Enum(list("pqrs"))}) if str(table["b"].dtype) == "category" else rows


def test_weights_of_estimators() -> None:
    forest, goal = model("random forest weights"), precise(45, 35)
    larger, _ = rfsize.grow(forest.model, X, THREE, sample_weight=WEIGHT, **goal)
    whole = clone(larger).fit(X, THREE, WEIGHT)
    assert larger.predict_proba(FRESH).tolist() == whole.predict_proba(FRESH).tolist()
    boosted, _ = rfsize.grow(PARAMS, data("xgboost", TWO, weight=WEIGHT), **goal)
    assert rfsize.tree_outputs(boosted, X, TWO, oob=True, sample_weight=WEIGHT).n_trees == 45
    with pytest.raises(InbagError):
        rfsize.inbag(boosted, X)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn draws bags by weight since 1.9"
)
def test_other_weights_are_seen() -> None:
    with pytest.raises(ValueError, match="weights"):
        rfsize.grow(model("random forest weights").model, X, THREE, sample_weight=WEIGHT[::-1], **precise(45, 35))


def test_random_states_of_callers_stay() -> None:
    generator = np.random.RandomState(5)
    forest = RandomForestClassifier(10, random_state=generator).fit(X, TWO)
    before = generator.get_state(legacy=False)["state"]["pos"]
    rfsize.grow(forest, X, TWO, alpha=0.9, min_trees=20, max_trees=40)
    assert generator.get_state(legacy=False)["state"]["pos"] == before


def test_without_bags_validation_rows_serve() -> None:
    trees = ExtraTreesClassifier(10, random_state=0)
    options: dict[str, Any] = {"alpha": 0.9, "min_trees": 20, "max_trees": 60}
    with pytest.raises(InbagError):
        rfsize.grow(trees, X, TWO, **options)
    _, report = rfsize.grow(trees, X, TWO, validation=FRESH, **options)
    whole = ExtraTreesClassifier(report.available, random_state=0).fit(X, TWO)
    assert report.n_trees == rfsize.size(whole, FRESH, alpha=0.9).n_trees


def test_names_of_parameters_and_the_callers_own() -> None:
    params = {
        "application": "multiclass", "num_classes": 3, "boosting_type": "random_forest", "sub_row": 0.5, "verbose": -1,
        "subsample_freq": 1, "sub_feature": 0.6, "max_leaves": 15, "random_state": 5, "n_estimators": 500,
        "early_stopping_round": 3, "metric": "auc_mu", "num_threads": 1,
    }  # fmt: skip
    given, goal = copy.deepcopy(params), precise(25)
    booster, _ = rfsize.grow(params, lgb.Dataset(X, THREE), **goal)
    assert params == given
    usual = {name: value for name, value in params.items() if name not in ("n_estimators", "early_stopping_round")}
    np.testing.assert_array_equal(booster.predict(FRESH), lgb.train(usual, lgb.Dataset(X, THREE), 25).predict(FRESH))
    assert rfsize.inbag(booster, X).mean() == pytest.approx(0.5, abs=0.02)
    of_xgboost = PARAMS | {"num_parallel_tree": 77, "eval_metric": ["logloss", "error"]}
    given, matrix = copy.deepcopy(of_xgboost), data("xgboost", TWO)
    rfsize.grow(of_xgboost, matrix, **goal)
    assert of_xgboost == given
    assert np.array_equal(matrix.get_label(), TWO)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_names_and_categories_are_kept(kind: str) -> None:
    booster, _ = rfsize.grow(OBJECTIVES[kind][0], data(kind, TWO, frame(X)), groups="rows", **precise(30))
    names = booster.feature_name() if kind == "lightgbm" else booster.feature_names
    assert names == list("abcdef")
    assert rfsize.tree_outputs(booster, frame(X), oob=True).n_trees == 30
    np.testing.assert_array_equal(rfsize.compile(booster).predict(frame(FRESH)), own_predict(booster, frame(FRESH)))


def test_learning_rate_other_than_one_warns() -> None:
    goal = {"alpha": 0.8, "min_trees": 30, "max_trees": 60}
    usual = {name: value for name, value in PARAMS.items() if name != "eta"}
    assert not warned(lambda: rfsize.grow(usual, data("xgboost", TWO), **goal), ForestWarning)
    with pytest.warns(ForestWarning, match=r"learning_rate=0\.5"):
        rfsize.grow(PARAMS | {"eta": 0.5}, data("xgboost", TWO), **goal)
    slow = xgb.train(XGBOOST | {"eta": 0.5}, data("xgboost", TWO), 1)
    with pytest.warns(ForestWarning):
        rfsize.size(slow, X, oob=True, metric="probabilities", tolerance=0.1)
