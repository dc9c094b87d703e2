"""Rows that go down trees together: the leaves are those of the frameworks, and of a walk one step at a time."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, ExtraTreesRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from helpers.forests import train_lightgbm, train_xgboost
from rfsize.adapters.registry import adapter_for
from rfsize.walking.kernels import descend, walkers
from rfsize.walking.layout import (
    CATEGORICAL,
    COLUMN_MASK,
    COLUMN_SHIFT,
    HIGHEST_RANK,
    LEFT_SHIFT,
    RANK_MASK,
    Forest,
    Nodes,
)
from rfsize.walking.quantising import Quantiser
from rfsize.walking.together import TOGETHER, gather, group, leave_out, to_leaves

COLUMNS, CATEGORIES = 5, 70
SIZES = [1, 2, 63, 64, 130, 511, 513]


def drawn_trees(rng: np.random.Generator, splits: list[int], shape: str, ranks: list[int], categorical: float) -> Nodes:
    """Trees of so many splits at most, the ranks of which are below those given."""
    nodes, bit_start, words, start = [], [], [], [0]
    for most, ranks_below in zip(splits, ranks, strict=True):
        first, n_nodes, inner = start[-1], 1, 0
        while len(nodes) < first + n_nodes:
            place = len(nodes)
            goes_on = {"chain": (place - first) % 2 == 0, "full": True, "any": rng.random() < 0.7}[shape]
            bit_start.append(len(words))
            if not (goes_on and inner < most):
                nodes.append(place << int(LEFT_SHIFT) | HIGHEST_RANK)
                continue
            tested = int(rng.integers(COLUMNS)) << int(COLUMN_SHIFT)
            if rng.random() < categorical:
                tested |= int(CATEGORICAL)
                words += rng.integers(0, 1 << 32, HIGHEST_RANK // 32 + 1).tolist()
            else:
                tested |= int(rng.choice([rng.integers(ranks_below), 254, 255, 256], p=[0.97, 0.01, 0.01, 0.01]))
            nodes.append((first + 2 * inner + 1) << int(LEFT_SHIFT) | tested)
            inner, n_nodes = inner + 1, n_nodes + 2
        start.append(len(nodes))
    return Nodes(
        nodes=np.array(nodes, dtype=np.uint64),
        value=np.zeros((len(nodes), 1)),
        vote=np.zeros(0, dtype=np.uint16),
        tree_start=np.array(start),
        bit_start=np.array(bit_start if words else [], dtype=np.int64),
        bits=np.array(words, dtype=np.uint32),
    )


def followed(q: np.ndarray, trees: Nodes, tree: int) -> np.ndarray:
    """The leaf of each row, one step after the other."""
    rows, place = np.arange(len(q)), np.full(len(q), trees.tree_start[tree])
    while True:
        node = trees.nodes[place]
        value = q[rows, (node >> COLUMN_SHIFT & COLUMN_MASK).astype(int)]
        right = value > (node & RANK_MASK)
        if trees.bits.size:
            is_member = trees.bits[(trees.bit_start[place] + value // 32) % trees.bits.size] >> (value % 32) & 1
            right = np.where(node & CATEGORICAL, is_member == 0, right)
        below = (node >> LEFT_SHIFT).astype(int) + right
        if np.array_equal(below, place):
            return place
        place = below


@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["chain", "full", "any"]),
    splits=st.lists(st.sampled_from([0, 1, 2, 3, 7, 15, 62, 63, 64, 126, 127, 128, 129, 400]), min_size=1, max_size=4),
    ranks=st.sampled_from([(3,), (254,), (255,), (256,), (257,), (3, HIGHEST_RANK), (HIGHEST_RANK, 3)]),
    categorical=st.sampled_from([0, 0, 0.1]),
    sizes=st.lists(st.sampled_from(SIZES), min_size=2, max_size=2),
)
def test_drawn_trees(
    seed: int, shape: str, splits: list[int], ranks: tuple[int, ...], categorical: float, sizes: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    below = [ranks[tree % len(ranks)] for tree in range(len(splits))]
    trees = drawn_trees(rng, splits, shape, below, categorical)
    together = group(max(sizes), COLUMNS, tuple(trees))
    for n in sizes:  # the second block finds what the first has left
        q = rng.integers(0, rng.choice([2, 256, 300, HIGHEST_RANK + 1], (n, COLUMNS)), dtype=np.uint16)
        for at_the_edge in (254, 255, 256, 257, HIGHEST_RANK):
            q[rng.random(q.shape) < 0.1] = at_the_edge
        going, settled = rng.permutation(n), np.full(n, -1)
        gather(q, going, together)
        for tree in range(len(splits)):
            found = to_leaves(q, len(going), tuple(trees), tree, together)
            assert np.array_equal(found, followed(q[going], trees, tree))
            settled[rng.random(n) < 0.3] = 1  # leaving out rows keeps the others in their order
            others = going[settled[going] < 0]
            assert leave_out(settled, going, together) == len(others)
            going = going[: len(others)]
            assert np.array_equal(going, others)


@given(seed=st.integers(0, 10**6), steps=st.integers(0, 9), categorical=st.sampled_from([0, 0.1]))
def test_walkers_of_several_trees(seed: int, steps: int, categorical: float) -> None:
    """Any number of steps may be taken before the first look at who has reached a leaf."""
    rng = np.random.default_rng(seed)
    trees = drawn_trees(rng, [0, 1, 30, 200], "any", [300] * 4, categorical)
    q = rng.integers(0, 300, (3, COLUMNS), dtype=np.uint16)
    row, place, open_ = walkers(12)
    row[:], place[:] = np.repeat(np.arange(3), 4), np.tile(trees.tree_start[:-1], 3)
    descend(q, tuple(trees), 12, steps, (row, place, open_))
    assert np.array_equal(place.reshape(3, 4).T, [followed(q, trees, tree) for tree in range(4)])


def rows(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[:, 1] = rng.integers(-3, 4, n)
    X[:, 3] = rng.integers(0, 40, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def frame(X: np.ndarray) -> pd.DataFrame:
    codes = np.nan_to_num(X[:, 3], nan=-1).astype(int)
    return pd.DataFrame(X, columns=list("abcdef")).assign(d=pd.Categorical.from_codes(codes, list(range(40))))


def chain(X: np.ndarray, y: np.ndarray) -> Any:
    """The rows with the largest target are split off, again and again."""
    rank = np.argsort(np.argsort(X[:, 0]))
    bins = {"params": {"max_bin": len(X), "min_data_in_bin": 1}}
    target = 1.5 ** (rank - rank.max() + 100).clip(0)
    return train_lightgbm(
        X, target, 3, bins, objective="regression", num_leaves=60, min_data_in_leaf=1, feature_fraction=1
    )


MODELS: dict[str, Any] = {
    "LightGBM, single leaves": lambda X, y: train_lightgbm(X, y, 5, min_data_in_leaf=10**6),
    "LightGBM, stumps": lambda X, y: train_lightgbm(X, y, 5, num_leaves=2),
    "LightGBM, 31 leaves": lambda X, y: train_lightgbm(X, y, 5, num_leaves=31),
    "LightGBM, 400 leaves": lambda X, y: train_lightgbm(X, y, 5, num_leaves=400, min_data_in_leaf=1),
    "LightGBM, 1000 bins": lambda X, y: train_lightgbm(X, y, 5, {"params": {"max_bin": 1000, "min_data_in_bin": 1}}),
    "LightGBM, chains": chain,
    "LightGBM, categories": lambda X, y: train_lightgbm(X, y, 5, {"categorical_feature": [3]}, num_leaves=60),
    "LightGBM, three classes": lambda X, y: train_lightgbm(X, y + (X[:, 0] > 1), 5, objective="softmax", num_class=3),
    "XGBoost, depth 1": lambda X, y: train_xgboost(X, y, 5, max_depth=1),
    "XGBoost, depth 2": lambda X, y: train_xgboost(X, y, 5, max_depth=2),
    "XGBoost, depth 4": lambda X, y: train_xgboost(X, y, 5, max_depth=4),
    "XGBoost, 300 leaves": lambda X, y: train_xgboost(
        X, y, 5, grow_policy="lossguide", max_leaves=300, max_depth=0, min_child_weight=0
    ),
    "XGBoost, exact": lambda X, y: train_xgboost(
        X, y, 5, tree_method="exact", colsample_bynode=1, max_depth=12, min_child_weight=0
    ),
    "XGBoost, categories": lambda X, y: train_xgboost(frame(X), y, 5, max_cat_to_onehot=1),
    "scikit-learn, whole trees": lambda X, y: RandomForestClassifier(5, random_state=0).fit(X, y),
    "scikit-learn, depth 3": lambda X, y: RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y),
    "scikit-learn, regression": lambda X, y: ExtraTreesRegressor(5, random_state=0).fit(np.nan_to_num(X), y),
    "scikit-learn, bagging": lambda X, y: BaggingClassifier(DecisionTreeClassifier(), 5, random_state=0).fit(X, y),
}


def framework_leaves(model: Any, X: Any) -> np.ndarray:
    """Leaves by the framework's own names, shape (rows, trees)."""
    if isinstance(model, lgb.Booster):
        return model.predict(X, pred_leaf=True).reshape(len(X), -1)
    if isinstance(model, xgb.Booster):
        return model.predict(xgb.DMatrix(X, enable_categorical=True), pred_leaf=True).reshape(len(X), -1)
    if isinstance(model, BaggingClassifier):
        return np.stack([tree.apply(X) for tree in model.estimators_], axis=1)
    return model.apply(X)


@pytest.mark.parametrize("name", MODELS)
def test_leaves_are_those_of_the_framework(name: str) -> None:
    rng = np.random.default_rng(4)
    X = rows(rng, 2500)
    y = (np.nan_to_num(X[:, 0]) + (np.nan_to_num(X[:, 3]) % 7 > 3) + rng.normal(size=len(X)) > 0.5).astype(int)
    model, fresh = MODELS[name](X, y), rows(rng, TOGETHER)
    fresh = frame(fresh) if "XGBoost, categories" in name else np.nan_to_num(fresh) if "regression" in name else fresh
    adapter = adapter_for(model, casts_votes=False)
    forest = Forest.of(adapter, adapter.tree_table(0.5))
    leaves, trees = framework_leaves(model, fresh), tuple(forest.trees)
    q = Quantiser(forest).blocks(fresh)(0, len(fresh))
    together = group(TOGETHER, q.shape[1], trees)
    for n in (*SIZES, TOGETHER):
        gather(q, np.arange(n), together)
        for tree in range(forest.trees.tree_start.size - 1):
            found = to_leaves(q, n, trees, tree, together)
            assert np.array_equal(found, followed(q[:n], forest.trees, tree))
            # Each of our leaves is one of theirs.
            pairs = np.unique(np.stack([found, leaves[:n, tree]]), axis=1)
            assert pairs.shape[1] == np.unique(found).size == np.unique(leaves[:n, tree]).size
    if "chain" in name:
        assert depth(forest.trees) > 15  # where a balanced tree has 6


def depth(trees: Nodes) -> int:
    """Of the first tree."""
    level = np.zeros(trees.tree_start[1], dtype=int)
    for place, left in enumerate((trees.nodes[: level.size] >> LEFT_SHIFT).astype(int)):
        if left != place:
            level[left : left + 2] = level[place] + 1
    return int(level.max())
