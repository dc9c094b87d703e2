"""Leaves by compiled loops against the frameworks' own, and when these are asked instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost as xgb
from scipy import sparse
from sklearn.ensemble import BaggingClassifier, ExtraTreesRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.leaves import Ask, asked_about
from rfsize.models.framework import read_forest
from rfsize.models.model import Forest
from rfsize.utils import matrix

ROWS = 1200


class PackedForest:
    """An adapter and rows, the leaves that the framework says, and how often it was asked since."""

    def __init__(self, model: Any, X: Any, **options: Any) -> None:
        self.adapter = read_forest(model, casts_votes=False, **options)
        self.X = self.adapter.check(X)
        self.expected = self.adapter.leaf_index(self.X) + self.adapter.leaves.offset
        self.asked = 0
        self._by_framework = self.adapter.leaf_index
        self.adapter.leaf_index = self._counted  # type: ignore[method-assign]

    def _counted(self, X: Any) -> Any:
        self.asked += 1
        return self._by_framework(X)

    def leaves(self) -> np.ndarray:
        return by_blocks(asked_about(self.adapter, self.X), matrix.n_rows(self.X))


def by_blocks(ask: Ask, rows: int, step: int = 500) -> np.ndarray:
    return np.concatenate([ask(start, min(start + step, rows), None).leaf for start in range(0, rows, step)])


@pytest.fixture(autouse=True)
def any_number_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.counting.leaves.CELLS_WORTH_A_LAYOUT", 1)
    monkeypatch.setattr("rfsize.counting.leaves.ROWS_PER_THREAD", 130)
    monkeypatch.setattr("rfsize.counting.leaves._ROWS_COMPARED", 64)


@pytest.fixture(name="X")
def rows_of_all_kinds() -> np.ndarray:
    """Numbers with missing values, zeros, numbers next to zero, and categories."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 6))
    X[:, 1] = rng.integers(-3, 4, ROWS)
    X[:, 2] = rng.choice([0.0, -0.0, 1e-36, 1e-3, -1.0], ROWS)
    X[:, 3] = rng.integers(0, 30, ROWS)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture
def y(X: np.ndarray) -> np.ndarray:
    clean = np.nan_to_num(X)
    signal = clean[:, 0] + np.isnan(X[:, 1]) + (clean[:, 3] % 7 > 3) + 0.3 * clean[:, 1]
    return np.digitize(signal, np.quantile(signal, [0.4, 0.7]))


def frame(X: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(X, columns=list("abcdef"))
    return table.assign(d=pd.Categorical.from_codes(np.nan_to_num(X[:, 3], nan=-1).astype(int), list(range(30))))


def lightgbm(X: Any, y: Any, dataset: Any = None, **params: Any) -> Any:
    return train_lightgbm(X, y, 9, dataset=dataset or {"categorical_feature": [3]}, **params)


KINDS: dict[str, Callable[[np.ndarray, np.ndarray], PackedForest]] = {
    "LightGBM": lambda X, y: PackedForest(lightgbm(X, y > 0), X),
    "LightGBM, zero_as_missing": lambda X, y: PackedForest(lightgbm(X, y > 0, zero_as_missing=True), X),
    "LightGBM, no missing values": lambda X, y: PackedForest(lightgbm(X, y > 0, use_missing=False), X),
    "LightGBM, three classes": lambda X, y: PackedForest(lightgbm(X, y, objective="multiclass", num_class=3), X),
    "LightGBM, regression": lambda X, y: PackedForest(lightgbm(X, y, objective="regression"), X.astype(np.float32)),
    "LightGBM, DataFrame": lambda X, y: PackedForest(lightgbm(frame(X), y > 0, {"free_raw_data": False}), frame(X)),
    "LightGBM, Arrow": lambda X, y: PackedForest(lightgbm(X, y > 0), pa.Table.from_pandas(pd.DataFrame(X))),
    "LightGBM, sparse": lambda X, y: PackedForest(lightgbm(X, y > 0), sparse.csr_matrix(np.nan_to_num(X))),
    "XGBoost": lambda X, y: PackedForest(train_xgboost(X, y > 0, 9), np.asfortranarray(X)),
    "XGBoost, three classes": lambda X, y: PackedForest(
        train_xgboost(X, y, 9, objective="multi:softprob", num_class=3), X
    ),
    "XGBoost, vector leaves": lambda X, y: PackedForest(
        train_xgboost(
            X, y, 9, objective="multi:softprob", num_class=3, multi_strategy="multi_output_tree", tree_method="hist"
        ),
        X,
    ),
    "XGBoost, missing": lambda X, y: PackedForest(train_xgboost(X, y > 0, 9), np.nan_to_num(X, nan=-9.0), missing=-9.0),
    "XGBoost, DataFrame": lambda X, y: PackedForest(train_xgboost(frame(X), y > 0, 9), frame(X)),
    "XGBoost, sparse": lambda X, y: PackedForest(train_xgboost(X, y > 0, 9), sparse.csr_matrix(np.nan_to_num(X))),
    "scikit-learn": lambda X, y: PackedForest(RandomForestClassifier(9, random_state=0).fit(X, y > 0), X),
    "scikit-learn, three classes": lambda X, y: PackedForest(RandomForestClassifier(9, random_state=0).fit(X, y), X),
    "scikit-learn, regression": lambda X, y: PackedForest(ExtraTreesRegressor(9, random_state=0).fit(X, y), X),
    "scikit-learn, sparse": lambda X, y: PackedForest(
        RandomForestClassifier(9, random_state=0).fit(np.nan_to_num(X), y), sparse.csr_matrix(np.nan_to_num(X))
    ),
    "scikit-learn, bagging": lambda X, y: PackedForest(
        BaggingClassifier(DecisionTreeClassifier(), 9, max_features=0.5, random_state=0).fit(X, y), X
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_leaves_are_those_of_the_framework(kind: str, X: np.ndarray, y: np.ndarray) -> None:
    forest = KINDS[kind](X, y)
    assert np.array_equal(forest.leaves(), forest.expected)
    assert forest.asked == 1  # to compare


NOT_COMPILED: dict[str, Callable[[np.ndarray, np.ndarray], PackedForest]] = {
    "DMatrix": lambda X, y: PackedForest(train_xgboost(X, y > 0, 5), xgb.DMatrix(X)),
    "missing values stored in a sparse matrix": lambda X, y: PackedForest(lightgbm(X, y > 0), sparse.csr_matrix(X)),
}


@pytest.mark.parametrize("kind", NOT_COMPILED)
def test_what_cannot_be_compiled_is_asked_of_the_framework(kind: str, X: np.ndarray, y: np.ndarray) -> None:
    forest = NOT_COMPILED[kind](X, y)
    assert np.array_equal(forest.leaves(), forest.expected)
    assert forest.asked == 3


def test_few_rows_are_asked_of_the_framework(X: np.ndarray, y: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = KINDS["LightGBM"](X, y)
    monkeypatch.setattr("rfsize.counting.leaves.CELLS_WORTH_A_LAYOUT", 9 * ROWS + 1)
    assert np.array_equal(forest.leaves(), forest.expected)
    assert forest.asked == 3


def altered(adapter: Forest, change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Forest:
    """The adapter, the leaves of which are changed by a function of them and the rows."""
    by_framework = adapter.leaf_index
    adapter.leaf_index = lambda X: change(by_framework(X), X)  # type: ignore[method-assign]
    return adapter


def test_leaves_that_differ_are_those_of_the_framework(X: np.ndarray, y: np.ndarray) -> None:
    adapter = altered(read_forest(lightgbm(X, y > 0)), lambda leaf, _: np.minimum(leaf, 3))
    assert by_blocks(asked_about(adapter, X), ROWS).max() == adapter.leaves.offset.max() + 3


def test_a_difference_on_a_row_with_missing_values_is_seen(X: np.ndarray, y: np.ndarray) -> None:
    """Such rows are looked for beyond those that are compared anyway."""
    X = np.nan_to_num(X)
    adapter = altered(read_forest(lightgbm(X, y > 0)), lambda leaf, rows: leaf * ~np.isnan(rows[:, :1, None]))
    X[601, 0] = np.nan
    assert np.array_equal(by_blocks(asked_about(adapter, X), ROWS)[601], adapter.leaves.offset)


def test_rows_that_the_framework_refuses_are_refused(X: np.ndarray, y: np.ndarray) -> None:
    forest = KINDS["XGBoost"](X, y)
    forest.X[777, 0] = np.inf
    with pytest.raises(ValueError, match="XGBoost does not take the rows X"):
        forest.leaves()


def test_infinite_numbers_that_the_framework_takes(X: np.ndarray, y: np.ndarray) -> None:
    forest = KINDS["LightGBM"](X, y)
    forest.X[777, 0] = np.inf
    assert np.array_equal(
        forest.leaves()[777], forest.adapter.leaf_index(forest.X[777:778])[0] + forest.adapter.leaves.offset
    )


@pytest.mark.parametrize("oob", [False, True])
def test_votes_and_scores_are_the_same(oob: bool, booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Evidence.of(ForestOnRows.of(booster, data.X, oob=oob))
    monkeypatch.setattr("rfsize.counting.leaves.CELLS_WORTH_A_LAYOUT", 1 << 40)
    expected = Evidence.of(ForestOnRows.of(booster, data.X, oob=oob))
    assert found.votes == expected.votes
    assert np.array_equal(found.scores.asked, expected.scores.asked)
    np.testing.assert_allclose(found.scores.mean, expected.scores.mean, rtol=1e-12)
    np.testing.assert_allclose(found.scores.scatter, expected.scores.scatter, rtol=1e-9)


def test_rows_in_another_order_are_refused(booster: Any, data: Data) -> None:
    with pytest.raises(rfsize.exceptions.InbagError, match="proven"):
        rfsize.tree_outputs(booster, data.X[::-1], oob=True)
