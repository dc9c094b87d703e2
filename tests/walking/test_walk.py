"""Rows go down trees many together or a few at a time: the leaves are those of the frameworks, and of a naive walk."""

from __future__ import annotations

import os
import subprocess
import sys
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

import rfsize
from helpers.forests import train_lightgbm, train_xgboost
from rfsize import _core
from rfsize.models.ensemble import Missing
from rfsize.models.framework import read_forest
from rfsize.walking.layout import (
    CATEGORICAL,
    COLUMN_MASK,
    COLUMN_SHIFT,
    HIGHEST_RANK,
    LEFT_SHIFT,
    RANK_MASK,
    Nodes,
    PackedForest,
)
from rfsize.walking.quantising import quantised_blocks

# Numbers first, then categories; each number is its own rank.
NUMBERS, CATEGORIES, KNOWN = 5, 2, 70
SIZES = [1, 2, 16, 17, 63, 64, 130, 511, 513, 2048, 2100]
LEVELS = ["baseline", "v3", "v4"]


def drawn_trees(
    rng: np.random.Generator, splits: list[int], shape: str, ranks: list[int], categorical: float, wide: float = 0.03
) -> Nodes:
    """Trees of so many splits at most, the ranks of which are below those given, but for a share around a byte."""
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
            if rng.random() < categorical:
                column, rank = NUMBERS + int(rng.integers(CATEGORIES)), int(CATEGORICAL)
                words += rng.integers(0, 1 << 32, KNOWN // 32 + 1).tolist()
            else:
                column = int(rng.integers(NUMBERS))
                rank = int(rng.integers(254, 257) if rng.random() < wide else rng.integers(ranks_below))
            nodes.append((first + 2 * inner + 1) << int(LEFT_SHIFT) | column << int(COLUMN_SHIFT) | rank)
            inner, n_nodes = inner + 1, n_nodes + 2
        start.append(len(nodes))
    return Nodes(
        nodes=np.array(nodes, dtype=np.uint64),
        value=np.arange(len(nodes), dtype=np.float64)[:, None],
        vote=np.zeros(0, dtype=np.uint16),
        tree_start=np.array(start),
        bit_start=np.array(bit_start if words else [], dtype=np.int64),
        bits=np.array(words, dtype=np.uint32),
    )


def native_forest(trees: Nodes) -> _core.Forest:
    """A forest of these trees whose columns hold the numbers of the rows as they are."""
    width = NUMBERS + CATEGORIES
    sizes = [HIGHEST_RANK] * NUMBERS + [KNOWN] * CATEGORIES
    kinds = [Missing.AS_ZERO] * NUMBERS + [Missing.CATEGORY] * CATEGORIES
    return _core.Forest(
        *trees,
        feature=np.arange(width),
        cut_start=np.append(0, np.cumsum(sizes)),
        cuts=np.concatenate([np.arange(size, dtype=np.float64) for size in sizes]),
        start=np.arange(width + 1),
        missing=np.array(kinds, dtype=np.uint8),
        base=np.zeros(width, dtype=np.int64),
        n_outputs=1,
        n_features=width,
        single_precision=False,
        missing_value=np.nan,
        zero_within=-1.0,
        lowest_category=-1.0,
        absent_is_missing=False,
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


def drawn_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    q = rng.integers(0, rng.choice([2, 256, 300, HIGHEST_RANK + 1], (n, NUMBERS + CATEGORIES)), dtype=np.uint16)
    for at_the_edge in (254, 255, 256, 257, HIGHEST_RANK):
        q[rng.random(q.shape) < 0.1] = at_the_edge
    q[:, NUMBERS:] = np.where(q[:, NUMBERS:] < KNOWN, q[:, NUMBERS:], KNOWN + 1)  # an unknown category
    return q


@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["chain", "full", "any"]),
    splits=st.lists(st.sampled_from([0, 1, 2, 3, 7, 15, 63, 127, 254, 255, 256, 257, 400]), min_size=1, max_size=4),
    ranks=st.sampled_from([(3,), (254,), (255,), (256,), (257,), (3, HIGHEST_RANK), (HIGHEST_RANK, 3)]),
    categorical=st.sampled_from([0, 0, 0.1]),
    wide=st.sampled_from([0, 0.03]),
    n=st.sampled_from(SIZES),
)
def test_drawn_trees(
    seed: int, shape: str, splits: list[int], ranks: tuple[int, ...], categorical: float, wide: float, n: int
) -> None:
    rng = np.random.default_rng(seed)
    own_ranks = [ranks[tree % len(ranks)] for tree in range(len(splits))]
    trees = drawn_trees(rng, splits, shape, own_ranks, categorical, wide)
    forest, q = native_forest(trees), drawn_rows(rng, n)
    expected = np.stack([followed(q, trees, tree) for tree in range(len(splits))], axis=1)
    leaf = np.empty((n, len(splits)), dtype=np.int64)
    forest.rows(q.astype(np.float64)).reach(np.arange(len(trees.nodes)), leaf)
    assert np.array_equal(leaf, expected)
    total = np.zeros((n, 1))  # sums go by the ids of leaves, where these are known
    forest.rows(np.asfortranarray(q.astype(np.float32))).add_scores(total)
    assert np.array_equal(total[:, 0], expected.sum(axis=1))


@pytest.mark.parametrize(("splits", "ranks"), [(400, 254), (400, 255), (400, 256), (400, 257), (100_000, 255)], ids=str)
def test_short_nodes_say_as_much_as_they_have_room_for(splits: int, ranks: int) -> None:
    """Ranks around a byte, and children further away than two bytes say."""
    rng, n_trees = np.random.default_rng(0), 20 if splits == 400 else 1
    trees, q = drawn_trees(rng, [splits] * n_trees, "full", [ranks] * n_trees, 0, wide=0), drawn_rows(rng, 16)
    leaf = np.empty((16, n_trees), dtype=np.int64)
    native_forest(trees).rows(q.astype(np.float64)).reach(np.arange(len(trees.nodes)), leaf)
    assert np.array_equal(leaf, np.stack([followed(q, trees, tree) for tree in range(n_trees)], axis=1))


def test_there_may_be_more_columns_than_a_short_node_can_say() -> None:
    X = np.random.default_rng(0).normal(size=(600, 300))
    booster = train_lightgbm(X, X[:, 200:].sum(axis=1) > 0, 200, num_leaves=31)
    fast = rfsize.compile(booster)
    assert fast.forest.n_columns > 256
    alone = np.concatenate([fast.predict(row[None]) for row in X[:100]])
    assert np.array_equal(alone, booster.predict(X[:100]))


@given(seed=st.integers(0, 10**6), n=st.sampled_from(SIZES), n_trees=st.sampled_from([5, 40]))
def test_rows_that_stop_are_left_out(seed: int, n: int, n_trees: int) -> None:
    """Those that go on keep their own sums, whichever rows beside them have stopped."""
    rng = np.random.default_rng(seed)
    trees = drawn_trees(rng, [31] * n_trees, "any", [300] * n_trees, 0.05)
    trees = trees._replace(value=rng.normal(size=trees.value.shape))
    q = drawn_rows(rng, n)
    leaf = np.stack([followed(q, trees, tree) for tree in range(n_trees)], axis=1)
    sums = np.cumsum(trees.value[leaf, 0], axis=1)
    bound = np.append(np.inf, np.linspace(3.0, 0.3, n_trees))
    stop = _core.ScoreStop(1, 1, low=-bound, high=bound, needed=bound, drift=np.zeros(1))
    total, label, asked = np.zeros((n, 1)), np.full(n, -1), np.full(n, n_trees)
    stop.settle(native_forest(trees).rows(q.astype(np.float64)), total, label, asked)
    stops = np.abs(sums[:, :-1]) >= bound[1:-1]
    first = np.where(stops.any(axis=1), stops.argmax(axis=1), n_trees - 1)
    assert np.array_equal(asked, first + 1)
    is_open = ~stops.any(axis=1)
    assert np.array_equal(label, np.where(is_open, -1, sums[np.arange(n), first] > 0))
    assert np.array_equal(total[is_open, 0], sums[is_open, -1])


def damaged(trees: Nodes) -> dict[str, Nodes]:
    """Trees that no walk may go down."""

    def with_node(place: int, node: int) -> Nodes:
        nodes = trees.nodes.copy()
        nodes[place] = node
        return trees._replace(nodes=nodes)

    root = int(trees.nodes[0])
    return {
        "other children than its own": with_node(0, root + (2 << int(LEFT_SHIFT))),
        "leads on": with_node(len(trees.nodes) - 1, HIGHEST_RANK),
        "a column that rows do not have": with_node(0, root | int(COLUMN_MASK) << int(COLUMN_SHIFT)),
        "a category of a number": with_node(0, root | int(CATEGORICAL)),
        "are not parts of its nodes": trees._replace(tree_start=np.array([0, 2**40])),
        "one value for each node": trees._replace(value=trees.value[1:]),
        "one vote for each node": trees._replace(vote=np.zeros(1, dtype=np.uint16)),
        "one set for each node": trees._replace(bits=np.zeros(1, dtype=np.uint32)),
    }


TREES = drawn_trees(np.random.default_rng(0), [15], "full", [HIGHEST_RANK], 0)


@pytest.mark.parametrize("what", damaged(TREES))
def test_damaged_forests_are_refused(what: str) -> None:
    with pytest.raises(ValueError, match=what):
        native_forest(damaged(TREES)[what])


def test_arrays_of_other_sizes_are_refused() -> None:
    rows = native_forest(TREES).rows(np.zeros((3, 7)))
    with pytest.raises(ValueError, match="leaf has 2 along axis 0 where 3 are expected"):
        rows.reach(np.zeros(len(TREES.nodes), dtype=np.int64), np.zeros((2, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="fewer columns than the forest was trained on"):
        native_forest(TREES).rows(np.zeros((3, 6)))
    with pytest.raises(TypeError):
        rows.add_scores(np.zeros((3, 1), dtype=np.int32))
    with pytest.raises(ValueError, match="another precision"):
        rows.add_scores(np.zeros((3, 1), dtype=np.float32))


# ----------------------------------------------------------------------------------------------------- real forests


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
    model, fresh = MODELS[name](X, y), rows(rng, max(SIZES))
    fresh = frame(fresh) if "XGBoost, categories" in name else np.nan_to_num(fresh) if "regression" in name else fresh
    adapter = read_forest(model, casts_votes=False)
    forest = PackedForest.of(adapter, adapter.tree_table(0.5))
    leaves, index = framework_leaves(model, fresh), np.arange(len(forest.trees.nodes))
    blocks = quantised_blocks(forest, fresh)
    for n in SIZES:
        found = np.empty((n, forest.trees.tree_start.size - 1), dtype=np.int64)
        blocks(0, n).reach(index, found)
        for tree, reached in enumerate(found.T):
            # Each of our leaves is one of theirs.
            pairs = np.unique(np.stack([reached, leaves[:n, tree]]), axis=1)
            assert pairs.shape[1] == np.unique(reached).size == np.unique(leaves[:n, tree]).size
    if "chain" in name:
        assert depth(forest.trees) > 15  # where a balanced tree has 6


def depth(trees: Nodes) -> int:
    """Of the first tree."""
    level = np.zeros(trees.tree_start[1], dtype=int)
    for place, left in enumerate((trees.nodes[: level.size] >> LEFT_SHIFT).astype(int)):
        if left != place:
            level[left : left + 2] = level[place] + 1
    return int(level.max())


# ------------------------------------------------------------------------------------------------------- processors

ON_A_LEVEL = """
import hashlib, os, sys
import numpy as np
import lightgbm as lgb
import rfsize
from rfsize import _core

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 6))
X[rng.random(X.shape) < 0.05] = np.nan
y = (np.nan_to_num(X).sum(axis=1) > 0).astype(int)
found = hashlib.sha256()
for leaves, bins in ((31, 255), (600, 255), (200, 2000)):
    settings = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbose": -1}
    settings |= {"num_leaves": leaves, "min_data_in_leaf": 1, "max_bin": bins, "num_threads": 1, "seed": 1}
    booster = lgb.train(settings, lgb.Dataset(X, y), 30)
    fast = rfsize.compile(booster, n_jobs=1)
    for n in (1, 70, 600, 3000):
        found.update(fast.predict_proba(X[:n]).tobytes())
        found.update(fast.votes(X[:n]).counts.tobytes())
print(_core.processor(), found.hexdigest())
"""


def on_level(level: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RFSIZE_PROCESSOR": level}
    return subprocess.run([sys.executable, "-c", ON_A_LEVEL], capture_output=True, text=True, env=environment)


def test_predictions_are_equal_on_every_level_of_processors() -> None:
    runs = {level: on_level(level) for level in LEVELS}
    answers = {level: run.stdout.split() for level, run in runs.items() if run.returncode == 0}
    assert "baseline" in answers, runs["baseline"].stderr
    assert [answer[0] for answer in answers.values()] == list(answers)
    assert len({answer[1] for answer in answers.values()}) == 1
    for level in set(LEVELS) - set(answers):
        assert "which this processor or this build of rfsize does not have" in runs[level].stderr


def test_an_unknown_level_is_refused() -> None:
    assert "RFSIZE_PROCESSOR names the level 'v9', which this processor" in on_level("v9").stderr
