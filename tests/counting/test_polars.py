"""Polars frames count as the pandas frames of the same columns."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import train_lightgbm, train_xgboost
from helpers.outputs import votes_of

CATEGORIES_ARE_KEPT = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)


def columns(rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    gaps = rng.random(rows) < 0.1
    return {
        "number": rng.normal(size=rows),
        "whole": np.where(gaps, None, rng.integers(0, 9, rows)).tolist(),
        "flag": np.where(gaps, None, rng.random(rows) < 0.5).tolist(),
        "letter": np.where(gaps, None, rng.choice(list("pqrs"), rows)).tolist(),
    }


def pandas_frame(values: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(values | {"letter": pd.Categorical(values["letter"], list("pqrs"))})
    return table.astype({"whole": float, "flag": float})


def polars_frame(values: dict[str, Any], letters: Any) -> Any:
    return polars.DataFrame(values, schema_overrides={"letter": letters})


def label(table: pd.DataFrame) -> np.ndarray:
    return (table["number"] + table["letter"].isin(["q", "s"]) + table["flag"].fillna(0.5) > 0.8).to_numpy().astype(int)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.SeedDependenceWarning")
@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
@pytest.mark.parametrize("other_order", [False, True])
def test_votes_are_those_of_a_pandas_frame(train: Any, other_order: bool) -> None:
    if train is train_xgboost and not CATEGORIES_ARE_KEPT:
        pytest.skip("this XGBoost does not know the categories of training")
    table, values = pandas_frame(columns(400, 1)), columns(300, 2)
    booster = train(table, label(table), 21, **({"tree_method": "hist"} if train is train_xgboost else {}))
    fresh = polars_frame(values, polars.Enum(list("srqp")) if other_order else polars.Categorical)
    expected = rfsize.tree_outputs(booster, pandas_frame(values)).votes
    assert rfsize.tree_outputs(booster, fresh).votes == expected
    assert rfsize.compile(booster).votes(fresh) == expected
    assert rfsize.size(booster, fresh).n_trees == rfsize.size(booster, pandas_frame(values)).n_trees


def test_scikit_learn(data: Any) -> None:
    forest = RandomForestClassifier(11, random_state=0).fit(data.X, data.y)
    rows = polars.DataFrame(data.fresh, schema=[f"x{index}" for index in range(data.fresh.shape[1])])
    assert rfsize.tree_outputs(forest, rows).votes == rfsize.tree_outputs(forest, data.fresh).votes
    assert rfsize.compile(forest).votes(rows) == rfsize.tree_outputs(forest, data.fresh).votes


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.NotConvergedWarning")
def test_right_sized_classifier() -> None:
    values = columns(400, 1)
    table = pandas_frame(values)
    forest = lgb.LGBMClassifier(boosting_type="rf", subsample=0.6, subsample_freq=1, random_state=1, verbose=-1)
    fitted = [
        rfsize.RightSizedClassifier(forest, alpha=0.9, min_trees=20, max_trees=40).fit(rows, label(table))
        for rows in (table, polars_frame(values, polars.Enum(list("pqrs"))))
    ]
    assert fitted[0].n_trees_ == fitted[1].n_trees_
    assert np.array_equal(fitted[0].predict(table), fitted[1].predict(polars_frame(values, polars.Categorical)))


@pytest.mark.filterwarnings(
    "ignore::rfsize.exceptions.NotConvergedWarning", "ignore::rfsize.exceptions.SeedDependenceWarning"
)
def test_an_estimator_is_grown_on_it() -> None:
    values = columns(400, 1)
    table = pandas_frame(values)
    forest = lgb.LGBMClassifier(
        boosting_type="rf", subsample=0.6, subsample_freq=1, n_estimators=20, random_state=1, verbose=-1
    )
    grown = [
        rfsize.grow(forest, rows, label(table), alpha=0.9, max_trees=40)[0]
        for rows in (table, polars_frame(values, polars.Enum(list("pqrs"))))
    ]
    assert np.array_equal(grown[0].predict_proba(table), grown[1].predict_proba(table))


@pytest.mark.parametrize("ask", [votes_of, lambda model, X: rfsize.compile(model).votes(X)])
def test_refusals(ask: Any, booster: Any) -> None:
    zeros = polars.DataFrame(np.zeros((3, 8)), schema=list("abcdefgh"))
    with pytest.raises(ValueError, match=r"LazyFrame.*collect\(\) first"):
        ask(booster, zeros.lazy())
    for wrong in (None, pd.Timestamp("2020-01-01").to_pydatetime()):
        with pytest.raises(ValueError, match=r"'c' \((Null|Datetime)"):
            ask(booster, zeros.with_columns(polars.lit(wrong).alias("c")))
