"""Rows go down drawn trees of any shape, many together or a few at a time, to the leaves that LightGBM finds."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor

import rfsize
from helpers import zoo

CATEGORIES = 70


@cache
def frame_of_text(objective: str, n_features: int) -> tuple[str, str]:
    """What stands in a model's text before and after its trees; the last column holds categories."""
    X = np.random.default_rng(0).normal(size=(300, n_features))
    X[:, -1] = np.arange(300) % CATEGORIES
    data = lgb.Dataset(X, X[:, 0] > 0, categorical_feature=[n_features - 1], params={"verbose": -1})
    text = lgb.train({**zoo.LIGHTGBM, "objective": objective}, data, 1).model_to_string()
    head, _, rest = re.sub(r"tree_sizes=.*\n", "", text).partition("\nTree=0")
    return head, rest.partition("\nend of trees")[2]


def drawn_tree(
    rng: np.random.Generator, number: int, most: int, shape: str, columns: int, ranks: int, n_features: int
) -> str:
    """A tree of so many splits at most, on whole numbers below ``ranks`` of so many columns, and on categories."""
    left, right, splits, slots = [], [], 0, [(0, "root")]
    children: dict[str, list[int]] = {"left": left, "right": right}
    n_leaves = 0
    while slots:
        parent, side = slots.pop(0)
        goes_on = side == "root" or {"chain": side == "left", "full": True, "any": rng.random() < 0.7}[shape]
        if goes_on and splits < most:
            child, splits = splits, splits + 1
            left.append(0), right.append(0)
            slots += [(child, "left"), (child, "right")]
        else:
            child, n_leaves = ~n_leaves, n_leaves + 1
        if side != "root":
            children[side][parent] = child
    kinds = np.where(rng.random(splits) < 0.1, 1, rng.choice([0, 2, 4, 6, 8, 10], splits))  # 1 is of categories
    is_category = kinds == 1
    n_sets = int(is_category.sum())
    threshold = rng.integers(0, ranks, splits).astype(float)
    threshold[is_category] = np.arange(n_sets)
    feature = np.where(is_category, n_features - 1, rng.integers(0, columns, splits))
    fields: dict[str, Any] = {
        "num_leaves": [n_leaves],
        "num_cat": [n_sets],
        "split_feature": feature,
        "split_gain": np.ones(splits, dtype=int),
        "threshold": threshold,
        "decision_type": kinds,
        "left_child": left,
        "right_child": right,
        "leaf_value": rng.normal(size=n_leaves),
        "leaf_weight": np.ones(n_leaves, dtype=int),
        "leaf_count": np.ones(n_leaves, dtype=int),
        "internal_value": np.zeros(splits, dtype=int),
        "internal_weight": np.ones(splits, dtype=int),
        "internal_count": np.ones(splits, dtype=int),
    }
    if n_sets:
        fields |= {"cat_boundaries": 3 * np.arange(n_sets + 1), "cat_threshold": rng.integers(0, 1 << 32, 3 * n_sets)}
    fields |= {"is_linear": [0], "shrinkage": [1]}
    lines = [
        f"{name}={' '.join(repr(value) for value in np.array(values).tolist())}" for name, values in fields.items()
    ]
    return f"\nTree={number}\n" + "\n".join(lines) + "\n\n"


def drawn(objective: str, splits: list[int], *, n_features: int = 6, seed: int = 0, **options: Any) -> lgb.Booster:
    rng = np.random.default_rng(seed)
    trees = [drawn_tree(rng, number, most, n_features=n_features, **options) for number, most in enumerate(splits)]
    head, tail = frame_of_text(objective, n_features)
    return lgb.Booster(model_str=f"{head}\n{''.join(trees)}end of trees{tail}")


def drawn_rows(n_rows: int, ranks: int, n_features: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, rng.choice([2, 256, ranks + 2], (n_rows, n_features)), dtype=np.int64).astype(float)
    for edge in (254, 255, 256, ranks - 1, ranks, 0.5, np.nan):
        X[rng.random(X.shape) < 0.05] = edge
    X[:, -1] = rng.choice([-1, 0, 5, CATEGORIES - 1, CATEGORIES, 95, 96, 1000, np.nan], n_rows)
    return X


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["chain", "full", "any"]),
    splits=st.lists(st.sampled_from([0, 1, 2, 3, 7, 15, 63, 127, 254, 255, 256, 257, 400]), min_size=2, max_size=5),
    columns=st.sampled_from([1, 5]),
    ranks=st.sampled_from([3, 254, 255, 256, 257, 600]),
    size=st.sampled_from([1, 2, 16, 17, 63, 64, 130, 511, 513, 2048, 2100]),
)
@example(seed=0, shape="full", splits=[400] * 30, columns=1, ranks=255, size=16)  # as many as a byte tells apart
@example(seed=0, shape="full", splits=[400] * 30, columns=1, ranks=256, size=40)
def test_drawn_trees(seed: int, shape: str, splits: list[int], columns: int, ranks: int, size: int) -> None:
    X, options = drawn_rows(size, ranks, seed=seed), {"shape": shape, "columns": columns, "ranks": ranks}
    booster = drawn("regression", splits, seed=seed, **options)
    fast = rfsize.compile(booster)
    assert fast.predict(X).tolist() == booster.predict(X).tolist()
    assert fast.predict(X.astype(np.float32)).tolist() == booster.predict(X.astype(np.float32)).tolist()
    booster = drawn("binary", [31] * 20 + splits, seed=seed, **options)
    raw = booster.predict(X, raw_score=True)
    labels, n_used = rfsize.compile(booster).predict_labels(X, return_trees=True)
    assert labels.tolist() == (raw > 0).astype(int).tolist()
    assert ((n_used >= 1) & (n_used <= 20 + len(splits))).all()


@pytest.mark.parametrize("columns", [63, 64, 65, 255, 299])  # in two registers, in memory, and beyond a byte
def test_rows_of_many_columns(columns: int) -> None:
    X, options = drawn_rows(200, 20, columns + 1), {"shape": "full", "columns": columns, "ranks": 20}
    booster = drawn("regression", [31] * 200, n_features=columns + 1, **options)
    fast = rfsize.compile(booster)
    for size in (1, 16, 200):
        assert fast.predict(X[:size]).tolist() == booster.predict(X[:size]).tolist()


def test_more_thresholds_than_two_bytes_tell_apart() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 1))
    forest = ExtraTreesRegressor(3, random_state=0).fit(X, rng.normal(size=40_000))
    thresholds = [tree.tree_.threshold[tree.tree_.feature >= 0] for tree in forest.estimators_]
    assert np.unique(np.concatenate(thresholds)).size > 1 << 16
    fast, fresh = rfsize.compile(forest), rng.normal(size=(3000, 1))
    for size in (1, 16, 3000):
        assert fast.predict(fresh[:size]).tolist() == forest.predict(fresh[:size]).tolist()
