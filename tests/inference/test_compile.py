"""Compiled forests against the frameworks' own predictions, on forests with every kind of split at once."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data, predict, train_lightgbm, train_xgboost
from helpers.outputs import votes_of

XGBOOST_KEEPS_CATEGORIES = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)


def wild(rng: np.random.Generator, rows: int, *, infinite: bool) -> np.ndarray:
    """Rows with missing values, zeros of both signs, denormals, huge numbers, few distinct values, categories."""
    X = rng.normal(size=(rows, 6))
    X[:, 1] = rng.integers(-3, 4, rows)
    X[:, 2] = rng.choice([0.0, -0.0, 1e-36, -1e-36, 1e-35, 2e-35, 1e-3, -1.0, 5e-324], rows)
    X[:, 3] = rng.integers(0, 40, rows)  # categories
    X[:, 4] = np.exp(rng.uniform(-80, 80, rows))
    X[rng.random(X.shape) < 0.15] = np.nan
    if infinite:
        X[rng.random(X.shape) < 0.02] = np.inf
        X[rng.random(X.shape) < 0.02] = -np.inf
    return X


def labels(rng: np.random.Generator, X: np.ndarray, n_classes: int) -> np.ndarray:
    clean = np.nan_to_num(X, posinf=3.0, neginf=-3.0)
    signal = clean[:, 0] + np.isnan(X[:, 1]) + (clean[:, 3] % 7 > 3) + 0.3 * clean[:, 1] + rng.normal(size=len(X))
    return np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))


def leaf_votes(model: Any, X: np.ndarray) -> np.ndarray:
    """Vote counts from the framework's own leaves, as `rfsize.tree_outputs` reads them."""
    return votes_of(model, X).counts


@given(seed=st.integers(0, 10**6), n_classes=st.sampled_from([2, 3]), zero_as_missing=st.booleans())
def test_lightgbm_votes(seed: int, n_classes: int, zero_as_missing: bool) -> None:
    rng = np.random.default_rng(seed)
    X = wild(rng, 400, infinite=True)
    y = labels(rng, X, n_classes)
    params = {
        "objective": "binary" if n_classes == 2 else rng.choice(["multiclass", "multiclassova"]),
        "num_class": 1 if n_classes == 2 else n_classes,
        "num_leaves": int(rng.integers(2, 40)),
        "min_data_in_leaf": int(rng.integers(1, 20)),
        "feature_fraction": 0.7,
        "use_missing": bool(rng.random() < 0.8),
        "zero_as_missing": zero_as_missing,
        "max_cat_to_onehot": int(rng.choice([1, 4, 50])),
        "min_data_per_group": 5,
        "cat_smooth": 1.0,
        "max_bin": int(rng.choice([7, 63, 400])),
        "seed": seed,
    }
    booster = train_lightgbm(X, y, 7, dataset={"categorical_feature": [3], "params": {"verbose": -1}}, **params)
    fresh = wild(rng, 300, infinite=True)
    fresh[:20, 3] = rng.choice([-1.0, -0.5, 0.5, 39.9, 41.0, 1e6, 3e9, -np.inf, np.inf], 20)
    fast = rfsize.compile(booster)
    for rows in (X, fresh, fresh.astype(np.float32)):
        assert np.array_equal(fast.votes(rows).counts, leaf_votes(booster, rows))
        np.testing.assert_allclose(probabilities(fast, rows), booster.predict(rows), atol=1e-12)


@given(seed=st.integers(0, 10**6), n_classes=st.sampled_from([2, 3]))
def test_xgboost_votes(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    X = wild(rng, 400, infinite=False)
    y = labels(rng, X, n_classes)
    types = ["float", "float", "float", "c", "float", "float"]
    params = {
        "objective": "binary:logistic" if n_classes == 2 else rng.choice(["multi:softprob", "multi:softmax"]),
        "num_class": None if n_classes == 2 else n_classes,
        "num_parallel_tree": 7,
        "subsample": 0.6,
        "colsample_bynode": 0.7,
        "eta": 1,
        "max_depth": int(rng.integers(1, 8)),
        "max_cat_to_onehot": int(rng.choice([1, 50])),
        "max_bin": int(rng.choice([7, 256])),
        "tree_method": rng.choice(["hist", "approx"]),
        "base_score": float(rng.choice([0.5, 0.2])),
        "seed": seed,
    }
    params = {name: value for name, value in params.items() if value is not None}

    def matrix(rows: np.ndarray) -> xgb.DMatrix:
        return xgb.DMatrix(rows, feature_types=types, enable_categorical=True)

    booster = xgb.train(params, xgb.DMatrix(X, y, feature_types=types, enable_categorical=True), 1)
    fresh = wild(rng, 300, infinite=False)
    fresh[:20, 3] = rng.choice([-1.0, -0.5, 0.5, 39.9, 41.0, 1e6, 2.0**24, 3e9], 20)
    fast = rfsize.compile(booster)
    for rows in (X, fresh, fresh.astype(np.float32)):
        assert np.array_equal(fast.votes(rows).counts, leaf_votes(booster, matrix(rows)))
        if params["objective"] != "multi:softmax":
            np.testing.assert_allclose(probabilities(fast, rows), booster.predict(matrix(rows)), atol=1e-6)


def probabilities(fast: Any, X: np.ndarray) -> np.ndarray:
    """In the form of a booster's prediction."""
    predicted = fast.predict_proba(X)
    return predicted[:, 1] if predicted.shape[1] == 2 else predicted


def frame(rng: np.random.Generator, rows: int, *, new_category: bool = False) -> pd.DataFrame:
    letters = list("pqrstuvw")
    table = pd.DataFrame(
        {
            "number": rng.normal(size=rows),
            "letter": pd.Categorical(rng.choice(letters, rows), categories=letters),
            "whole": rng.integers(0, 9, rows),
            "code": pd.Categorical(rng.integers(10, 20, rows), categories=range(10, 20)),
        }
    )
    table.loc[::7, "letter"] = None
    if new_category:
        table["letter"] = table["letter"].cat.add_categories("new")
        table.loc[3, "letter"] = "new"
    return table


def framed_booster(framework: str, **params: Any) -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(5)
    table = frame(rng, 600)
    signal = table["number"] + table["letter"].isin(["q", "t"]) + (table["code"].astype(int) > 15)
    y = (signal + rng.normal(size=600) > 1).astype(int)
    if framework == "lightgbm":
        return train_lightgbm(table, y, 21, min_data_per_group=5, max_cat_to_onehot=2, **params), table
    return train_xgboost(table, y, 21, max_cat_to_onehot=2, tree_method="hist", **params), table


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_categories_of_a_frame(framework: str) -> None:
    booster, table = framed_booster(framework)
    fast = rfsize.compile(booster)
    assert np.array_equal(fast.votes(table).counts, votes_of(booster, table).counts)
    np.testing.assert_allclose(fast.predict_proba(table)[:, 1], predict(booster, table), atol=1e-6)
    if framework == "xgboost" and not XGBOOST_KEEPS_CATEGORIES:
        return
    # Other categories in another order mean the same, and so does text.
    other = table.assign(letter=table["letter"].cat.set_categories(list("wvutsrqp")))
    text = table.assign(letter=table["letter"].astype(object))
    for same in (other, text, table.convert_dtypes()):
        assert np.array_equal(fast.votes(same).counts, fast.votes(table).counts)
    with pytest.raises(ValueError, match=r"\['code'\] of X hold numbers, but were categorical"):
        fast.predict_labels(table.assign(code=table["code"].astype(int)))
    with pytest.raises(ValueError, match=r"\['number'\] of X hold no numbers|columns were categorical at training"):
        fast.predict_labels(table.assign(number=table["letter"]))


def test_unknown_categories() -> None:
    fresh = frame(np.random.default_rng(6), 50, new_category=True)
    booster, _ = framed_booster("lightgbm")
    assert np.array_equal(rfsize.compile(booster).votes(fresh).counts, votes_of(booster, fresh).counts)
    if XGBOOST_KEEPS_CATEGORIES:
        booster, _ = framed_booster("xgboost")
        with pytest.raises(ValueError, match="the category 'new', which was not in the training data"):
            rfsize.compile(booster).predict_labels(fresh)


def test_lightgbm_finds_columns_by_order_where_it_does_not_say_which() -> None:
    rng = np.random.default_rng(8)
    table = frame(rng, 600)
    table["grade"] = pd.Categorical(rng.choice(["low", "mid", "top"], 600), ["low", "mid", "top"], ordered=True)
    y = (table["number"] + table["grade"].cat.codes + rng.normal(size=600) > 1).astype(int)
    booster = train_lightgbm(table, y, 11)
    fast = rfsize.compile(booster)
    assert fast.forest.conventions.category_features is None
    assert np.array_equal(fast.votes(table).counts, votes_of(booster, table).counts)
    with pytest.raises(ValueError, match="3 columns were categorical at training, but 2"):
        fast.predict_labels(table.assign(grade=table["grade"].cat.codes))


@pytest.mark.skipif(not XGBOOST_KEEPS_CATEGORIES, reason="this XGBoost does not keep categories")
@pytest.mark.parametrize("letters", [["Köln", "Rom", "São Paulo"], ["a", "b", "é"], ["中", "中a", "a中"]])
def test_xgboost_categories_that_are_not_ascii(letters: list[str]) -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.normal(size=300), "letter": pd.Categorical(rng.choice(letters, 300), letters)})
    y = (table["letter"].cat.codes + table["x"] > 1).astype(int)
    booster = train_xgboost(table, y, 9, tree_method="hist")
    with pytest.raises(rfsize.exceptions.NotAForestError, match="categories that are not ASCII"):
        rfsize.compile(booster)
    alone = rfsize.truncate(booster, n_trees=1)
    assert np.array_equal(votes_of(alone, table).winner(), predict(alone, table) > 0.5)
    for other in (letters[1:], letters[::-1], [*letters, "z"]):
        with pytest.raises(ValueError, match=r"\['letter'\] of X hold other categories than at training"):
            rfsize.tree_outputs(booster, table.assign(letter=table["letter"].cat.set_categories(other)))
    coded = table.assign(letter=table["letter"].cat.codes)
    rows = xgb.DMatrix(coded.to_numpy(), y, feature_types=["q", "c"], enable_categorical=True)
    params = {"objective": "binary:logistic", "num_parallel_tree": 9, "learning_rate": 1, "subsample": 0.6, "seed": 1}
    forest = xgb.train(params, rows, 1)
    assert rfsize.compile(forest).votes(coded.to_numpy()) == votes_of(forest, coded.to_numpy())


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "sklearn"])
def test_large_whole_numbers_of_tables_are_rounded_as_the_framework_does(framework: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    # Just above the middle of two floats: rounded to double precision first, it would fall on the middle, and down.
    low, high, above_middle = 2**54, 2**54 + 2**31, 2**54 + 2**30 + 1
    table = pd.DataFrame({"whole": np.repeat([low, high], 60), "other": np.linspace(0.0, 1.0, 120)})
    y = np.repeat([0, 1], 60)
    fresh = pd.DataFrame({"whole": [above_middle] * 3, "other": [0.1, 0.5, 0.9]})
    for columns in (["whole"], ["whole", "other"]):
        if framework == "sklearn":
            forest: Any = RandomForestClassifier(9, max_features=None, random_state=0).fit(table[columns], y)
        else:
            train = train_lightgbm if framework == "lightgbm" else train_xgboost
            forest = train(
                table[columns], y, 9, **{"colsample_bynode" if train is train_xgboost else "feature_fraction": 1}
            )
        fast, rows = rfsize.compile(forest), fresh[columns]
        kinds = [rows, rows.astype({"whole": "Int64"}), rows.astype({"whole": "uint64"})]
        for same in kinds if framework == "sklearn" else [*kinds, pyarrow.Table.from_pandas(rows)]:
            assert fast.votes(same) == votes_of(forest, same), (columns, type(same))


@pytest.mark.parametrize("stored_zeros", [False, True])
@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_sparse_rows(framework: str, stored_zeros: bool) -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(700, 12)) * (rng.random((700, 12)) < 0.4)
    X[:, 3] = 0.0
    y = (X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=700) > 0).astype(int)
    train = train_lightgbm if framework == "lightgbm" else train_xgboost
    rows = sparse.csr_matrix(X)
    if stored_zeros:
        rows.data[::5] = 0.0
    booster = train(rows, y, 15)
    fast = rfsize.compile(booster)
    expected = votes_of(booster, rows).counts
    for same in (rows, rows.tocsc(), rows.tocoo(), sparse.csr_array(rows), rows.astype(np.float32)):
        if same.dtype == rows.dtype:
            assert np.array_equal(fast.votes(same).counts, expected)
        else:
            assert np.array_equal(fast.votes(same).counts, votes_of(booster, same).counts)
    doubled = sparse.csr_matrix(
        (np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), rows.indptr * 2), shape=rows.shape
    )
    assert np.array_equal(fast.votes(doubled).counts, expected)
    assert not doubled.has_canonical_format, "the caller's matrix must stay as it is"


def test_every_kind_of_rows(booster: Any, data: Data) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    fast, rows = rfsize.compile(booster), data.fresh.copy()
    expected = votes_of(booster, rows).counts
    names = booster.feature_name() if isinstance(booster, lgb.Booster) else [f"x{i}" for i in range(8)]
    table = pd.DataFrame(rows, columns=names)
    rows.flags.writeable = False
    wide = np.repeat(rows, 2, axis=1)
    for same in (
        rows,
        np.asfortranarray(rows),
        rows.tolist(),
        wide[:, ::2],
        rows[::-1][::-1],
        rows.astype(">f8"),
        rows.astype(object),
        np.ma.masked_array(rows, mask=False),
        table,
        table.convert_dtypes(),
        pyarrow.table(dict(zip(names, rows.T.copy(), strict=True))),
    ):
        assert np.array_equal(fast.votes(same).counts, expected)
    holes = np.where(rows > 1, np.nan, rows)
    columns = [pyarrow.array(column, from_pandas=True) for column in holes.T]
    with_nulls = pyarrow.table(dict(zip(names, columns, strict=True)))
    expected = votes_of(booster, holes).counts
    for same in (holes, with_nulls):
        assert np.array_equal(fast.votes(same).counts, expected)
    for kind in (np.int64, np.uint8, np.bool_, np.float16):
        whole = np.abs(rows * 3).astype(kind)
        assert np.array_equal(fast.votes(whole).counts, votes_of(booster, whole.astype(np.float32)).counts)
    assert len(fast.predict_labels(rows[:1])) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "X is missing"),
        (np.zeros((0, 8)), "no rows"),
        (np.zeros(8), "two dimensions"),
        (np.zeros((3, 7)), "7 columns"),
        (np.full((3, 8), "a"), "must hold numbers"),
        (np.full((3, 8), "a", dtype=object), "not all numbers"),
        (np.zeros((3, 8), dtype=complex), "must hold numbers"),
        (sparse.csr_matrix(np.zeros((3, 8), dtype=complex)), "must hold numbers"),
        (xgb.DMatrix(np.zeros((3, 8))), "DMatrix"),
        (pd.DataFrame(np.full((3, 8), "a")), "hold no numbers|were categorical"),
        (pd.DataFrame(pd.to_datetime(np.zeros((3, 8)).ravel()).to_numpy().reshape(3, 8)), "hold no numbers"),
    ],
)
def test_bad_rows_are_refused(rows: Any, message: str, booster: Any) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.compile(booster).predict_labels(rows)


def test_labels_thresholds_and_missing_values_of_classifiers(data: Data) -> None:
    from xgboost import XGBClassifier

    y = np.where(data.y == 1, "yes", "no")
    forest = lgb.LGBMClassifier(
        boosting_type="rf", n_estimators=15, subsample=0.6, subsample_freq=1, random_state=1, n_jobs=1, verbose=-1
    ).fit(data.X, y)
    fast = rfsize.compile(forest)
    assert set(fast.predict_labels(data.fresh)) == {"no", "yes"}
    np.testing.assert_allclose(fast.predict_proba(data.fresh), forest.predict_proba(data.fresh), atol=1e-12)
    for threshold in (0.2, 0.8):
        expected = votes_of(forest, data.fresh, threshold=threshold)
        assert rfsize.compile(forest, threshold=threshold).votes(data.fresh) == expected
    X = np.where(np.abs(data.X) < 0.2, -999.0, data.X)
    forest = XGBClassifier(n_estimators=1, num_parallel_tree=15, learning_rate=1, subsample=0.6, missing=-999.0)
    forest.fit(X, data.y)
    assert rfsize.compile(forest).votes(X) == votes_of(forest, X)


def test_what_cannot_be_compiled_is_refused(data: Data, lgb_multiclass: Any) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match="linear trees"):
        rfsize.compile(train_lightgbm(data.X, data.y, 5, linear_tree=True))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="boosting='gbdt'"):
        rfsize.compile(lgb.train({"objective": "binary", "verbose": -1}, lgb.Dataset(data.X, data.y), 3))
    with pytest.raises(ValueError, match="leave threshold at"):
        rfsize.compile(lgb_multiclass, threshold=0.3)


def test_forests_of_single_leaves(data: Data) -> None:
    stumps = train_lightgbm(data.X, data.y, 5, min_data_in_leaf=10**6)
    fast = rfsize.compile(stumps)
    assert np.array_equal(fast.votes(data.fresh).counts, votes_of(stumps, data.fresh).counts)
    np.testing.assert_allclose(fast.predict_proba(data.fresh)[:, 1], stumps.predict(data.fresh))
    stumps = train_xgboost(data.X, data.y, 5, max_depth=1, gamma=1e9)
    fast = rfsize.compile(stumps)
    assert np.array_equal(fast.votes(data.fresh).counts, votes_of(stumps, data.fresh).counts)


def test_more_thresholds_than_a_column_holds(booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    one = rfsize.compile(booster)
    monkeypatch.setattr("rfsize.walking.layout.RANKS_PER_COLUMN", 5)
    several = rfsize.compile(booster)
    assert several.forest.n_columns > 3 * one.forest.n_columns
    assert several.votes(data.fresh) == one.votes(data.fresh)
