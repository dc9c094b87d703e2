"""A few rows go a shorter way than many, in arrays of any form and in frames, to the same answers and refusals."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost as xgb
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import rfsize
from helpers import models, zoo
from helpers.zoo import model, rows_for
from rfsize import _core
from rfsize.exceptions import ForestWarning


def frame_of(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"Column_{place}" for place in range(X.shape[1])])


TABLES = {
    "Polars": lambda columns: pl.DataFrame(columns),
    "Polars in pieces": lambda columns: pl.concat(
        [pl.DataFrame(columns)[:7], pl.DataFrame(columns)[7:]], rechunk=False
    ),
    "Arrow": lambda columns: pa.table(columns),
    "Arrow in pieces": lambda columns: pa.concat_tables([pa.table(columns)[:7], pa.table(columns)[7:]]),
    "a slice": lambda columns: pa.table({name: np.append(0, column) for name, column in columns.items()})[1:],
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["lgb binary", "xgb softprob", "random forest"])
@pytest.mark.parametrize("dtypes", [["f8"], ["f4"], ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "?"]])
def test_columns_of_tables(name: str, dtypes: list[str], table: str) -> None:
    X = rows_for(name, 3000)
    X[:, 2:] = np.nan_to_num(X[:, 2:]).round()
    columns = {
        f"Column_{place}": X[:, place].astype(dtypes[place % len(dtypes)] if np.isfinite(X[:, place]).all() else "f4")
        for place in range(X.shape[1])
    }
    fast = rfsize.compile(model(name))
    expected = fast.predict(np.stack([column.astype(float) for column in columns.values()], axis=1))
    for size in (1, 8, 3000):
        assert fast.predict(TABLES[table](columns)[:size]).tolist() == expected[:size].tolist()


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, lambda frame: pa.table(pd.DataFrame(frame))])
def test_columns_in_another_order(table: Any) -> None:
    frame = frame_of(rows_for("random forest", 3000)).add_prefix("named ")
    fast = rfsize.compile(RandomForestClassifier(20, random_state=0).fit(frame[:300], frame.iloc[:300, 0] > 0))
    expected = fast.predict(frame).tolist()
    for size in (1, 8, 3000):
        assert fast.predict(table(frame.iloc[:size, ::-1])).tolist() == expected[:size]


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_columns_with_nulls(make: Any) -> None:
    X, fast = rows_for("lgb binary", 30), rfsize.compile(model("lgb binary"))
    columns = {f"Column_{place}": [None, *X[1:, place].tolist()] for place in range(X.shape[1])}
    X[0] = np.nan
    assert fast.predict(make(columns)).tolist() == fast.predict(X).tolist()


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_columns_are_read_where_they_lie(make: Any) -> None:
    X, fast = rows_for("lgb binary", 20_000), rfsize.compile(model("lgb binary"), n_jobs=1)
    table = make({f"Column_{place}": X[:, place].copy() for place in range(X.shape[1])})
    taken = []
    for rows in (X, table):
        fast.predict(rows)
        tracemalloc.start()
        fast.predict(rows)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert taken[1] < taken[0] + X.nbytes / 8  # a block has most of the rows


@pytest.mark.parametrize("number", [2.0**53 - 1, 2.0**53, -(2.0**53), 1e300, np.inf, np.nan])
def test_large_numbers_of_short_frames(number: float) -> None:
    X = rows_for("lgb binary", 4)
    X[1, 0], X[2, 5] = number, 2.0**53 - 1
    fast = rfsize.compile(model("lgb binary"))
    assert fast.predict(frame_of(X)).tolist() == fast.predict(X).tolist()


@pytest.mark.parametrize("n_rows", [1, 2000])
@pytest.mark.parametrize("name", ["lgb binary", "xgb softprob", "random forest"])
def test_categories_of_numbers_are_no_numbers(name: str, n_rows: int) -> None:
    fast, rows = rfsize.compile(model(name)), frame_of(rows_for(name, n_rows))
    rows[rows.columns[0]] = rows[rows.columns[0]].round().astype("category")
    with pytest.raises(ValueError, match=str(rows.columns[0])):
        fast.predict(rows)


@pytest.mark.parametrize("kind", ["lightgbm categories", "xgboost categories"])
def test_categories_and_their_codes(kind: str) -> None:
    forest = models.model(kind)
    table = pd.concat([forest.fresh] * 4, ignore_index=True)
    fast, own = rfsize.compile(forest.model), forest.predict(table)
    codes = {name: table[name].cat.codes.replace(-1, np.nan) for name in ("b", "c")}
    for size in (1, 16, 17, 600):
        for rows in (table[:size], table.assign(**codes).to_numpy(dtype=float)[:size]):
            assert fast.predict(rows).tolist() == own[:size].tolist()


def test_sparse_rows_with_stored_zeros() -> None:
    rng = np.random.default_rng(9)
    rows = sparse.random(700, 12, 0.4, "csr", random_state=rng)
    y = rows.toarray()[:, :3].sum(axis=1) > 0.5
    rows.data[::5] = 0.0  # which are not missing
    for kind in (lgb.LGBMClassifier(**zoo.WRAPPER), xgb.XGBClassifier(**zoo.ONE_ROUND)):
        fast, own = rfsize.compile(kind.fit(rows, y)), kind.predict_proba(rows)
        for size in (1, 17, 700):
            np.testing.assert_allclose(fast.predict_proba(rows[:size]), own[:size], atol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("name", ["random forest", "bagging", "random forest regression"])
def test_rows_that_scikit_learn_refuses(name: str, value: float) -> None:
    for size in (1, 16, 17, 3000):
        X = rows_for(name, size)
        X[-1, 2] = value
        for predict in (model(name).predict, rfsize.compile(model(name)).predict):
            for rows in (X, sparse.csr_matrix(X)):
                with pytest.raises(ValueError, match=r"X|Input"):
                    predict(rows)


def test_compiled_loops_refuse_places_and_votes_that_are_none() -> None:
    """No framework gives these; a size that wraps would write before the array."""
    inbag, row, none = np.zeros((2, 2), np.bool_), np.zeros(1, np.uint32), 2**64 - 1
    for first_tree, n_rows in ((none, 1), (2, 1), (0, 2), (0, 0)):
        with pytest.raises(ValueError, match="no room"):
            _core.draw_lightgbm(row, row, row, np.zeros(1, np.int64), inbag[:n_rows], first_tree)
    for vote in (2, -1):
        with pytest.raises(IndexError, match="no class"):
            _core.count_votes(np.array([[vote]]), np.ones((1, 1), np.bool_), np.zeros((1, 1, 2), np.int32))


@pytest.mark.parametrize("n_scores", [1, 2])
def test_compiled_sums_overwrite_what_was_there_and_refuse_leaves_of_no_tree(n_scores: int) -> None:
    raw, leaf, may_vote = np.array([[1.0, 2.0], [3.0, 6.0]]), np.array([[[0], [1]]]), np.ones((1, 2), np.bool_)
    n_votes, mean = np.zeros(1, np.int32), np.full((1, n_scores), 9.0)
    scatter = np.full((1, n_scores * (n_scores + 1) // 2), 9.0)
    _core.add_up_scores(leaf, may_vote, raw, n_votes, mean, scatter)
    assert scatter.tolist() == [[2.0, 4.0, 8.0][: scatter.size]]
    with pytest.raises(ValueError, match="fewer scores"):
        _core.add_up_scores(np.zeros((1, 2, 0), np.int64), may_vote, raw, n_votes, mean, scatter)


OF_CATEGORIES: dict[str, Any] = {
    "LightGBM": lgb.LGBMClassifier(n_estimators=20, min_child_samples=2, verbose=-1, random_state=0),
    "XGBoost": xgb.XGBClassifier(n_estimators=20, enable_categorical=True),
    "scikit-learn": HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=20),
}
CHANGES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "as trained": lambda few: few,
    "other order": lambda few: few.assign(kind=few["kind"].cat.reorder_categories(["fir", "ash", "elm"])),
    "fewer": lambda few: few.assign(n=few["n"].cat.remove_unused_categories()),
    "categories of these rows": lambda few: few.assign(kind=few["kind"].astype(object).astype("category")),
    "text": lambda few: few.assign(kind=few["kind"].astype(object)),
    "other numbers": lambda few: few.astype({"whole": "float32", "flag": "int8"}),
    "nullable numbers": lambda few: few.astype({"whole": "Int64", "b": "Float64"}),
    "other places": lambda few: few[few.columns[::-1]],
}
WRONG: dict[str, Callable[[pd.DataFrame], Any]] = {
    "missing column": lambda few: few.drop(columns="whole"),
    "text for numbers": lambda few: few.assign(whole=few["whole"].astype(str)),
    "numbers for categories": lambda few: few.assign(kind=few["kind"].cat.codes),
    "categories for numbers": lambda few: few.assign(whole=few["whole"].astype(str).astype("category")),
    "dates": lambda few: few.assign(whole=pd.to_datetime(few["whole"])),
}


def trained(kind: str, table: Any) -> tuple[pd.DataFrame, Any]:
    """A frame, and a model of it; Polars has no categories of numbers."""
    rng = np.random.default_rng(0)
    words, numbers = rng.choice(["ash", "elm", "fir"], 400), rng.choice([3, 1, 2], 400)
    X, whole = rng.standard_normal((400, 2)), rng.integers(0, 9, 400)
    frame = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(words), "b": X[:, 1], "whole": whole})
    frame["n"] = numbers if table is pl.from_pandas else pd.Categorical(numbers)
    frame["flag"] = X[:, 1] > 0.7
    frame.loc[::7, "kind"], frame.loc[::5, "b"] = np.nan, np.nan
    y = (words == "elm") ^ (numbers == 2) ^ (X[:, 0] > 1) ^ (whole > 5)
    return frame, clone(OF_CATEGORIES[kind]).fit(frame, y)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.from_pandas])
@pytest.mark.parametrize("kind", OF_CATEGORIES)
def test_frames_with_categories(kind: str, table: Any) -> None:
    frame, model = trained(kind, table)
    expected, fast = model.predict_proba(frame), rfsize.compile(model)
    changes = [change for name, change in CHANGES.items() if name != "fewer" or table is pd.DataFrame]
    for rows in (slice(None), *(slice(start, start + 3) for start in range(0, 60, 3))):
        for change in changes:  # each comes after a frame of other types
            np.testing.assert_array_equal(fast.predict_proba(table(change(frame[rows]))), expected[rows])


@pytest.mark.parametrize("change", WRONG)
@pytest.mark.parametrize("table", [pd.DataFrame, pl.from_pandas])
@pytest.mark.parametrize("kind", OF_CATEGORIES)
def test_few_rows_are_refused_as_many_are(kind: str, table: Any, change: str) -> None:
    frame, model = trained(kind, table)
    fast, outcomes = rfsize.compile(model), []
    for rows in (frame, frame[:3]):
        fast.predict(table(frame[:3]))
        try:
            outcomes.append(fast.predict(table(WRONG[change](rows)))[:3].tolist())
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    # scikit-learn takes numbers for categories, and misses them all.
    assert isinstance(outcomes[0], str) or (kind, change) == ("scikit-learn", "numbers for categories")


@pytest.mark.parametrize("table", [pd.DataFrame, pl.from_pandas])
@pytest.mark.parametrize("kind", OF_CATEGORIES)
def test_categories_that_training_did_not_know(kind: str, table: Any) -> None:
    frame, model = trained(kind, table)
    wider, fast = frame.assign(kind=frame["kind"].cat.add_categories("oak")), rfsize.compile(model)
    expected = fast.predict_proba(frame)
    assert fast.predict_proba(table(wider[:3])).tolist() == expected[:3].tolist()
    wider.loc[7, "kind"] = "oak"  # it was missing
    if kind == "XGBoost":
        with pytest.raises(ValueError, match="oak"):
            fast.predict_proba(table(wider[7:8]))
    else:
        assert fast.predict_proba(table(wider[7:8])).tolist() == expected[7:8].tolist()


@pytest.mark.parametrize("table", [pd.DataFrame, pl.from_pandas])
def test_frames_that_have_no_rows_or_other_columns(table: Any) -> None:
    frame, named = trained("LightGBM", table)
    fast = rfsize.compile(named)
    fast.predict(table(frame[:1]))
    with pytest.raises(ValueError, match="no rows"):
        fast.predict(table(frame[:0]))
    for _ in range(2):
        with pytest.warns(ForestWarning, match="more"):
            fast.predict(table(frame[:1].assign(more=1)))
    unnamed = frame_of(rows_for("random forest", 1))
    with pytest.raises(ValueError, match="'Column_0'"):
        rfsize.compile(model("random forest")).predict(unnamed.rename(columns={"Column_1": "Column_0"}))
