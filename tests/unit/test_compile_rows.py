"""Compiled forests take rows in every form that their framework takes, in batches of every size, with equal answers."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost as xgb
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers import zoo
from helpers.zoo import model, rows_for
from rfsize.exceptions import NotAForestError

XGBOOST_KEEPS_CATEGORIES = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)
needs_kept_categories = pytest.mark.skipif(not XGBOOST_KEEPS_CATEGORIES, reason="before XGBoost 3.1")


def unaligned(X: np.ndarray) -> np.ndarray:
    shifted = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64)
    return np.lib.stride_tricks.as_strided(shifted, X.shape)


FORMS = {
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "big-endian": lambda X: X.astype(">f8"),
    "unaligned": unaligned,
    "objects": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    "masked": lambda X: np.ma.masked_array(X, mask=False),
    "long doubles": lambda X: X.astype(np.longdouble),
    "nullable frame": lambda X: frame_of(X).convert_dtypes(),
    "Arrow": lambda X: pa.table(
        {f"Column_{place}": pa.array(column, from_pandas=True) for place, column in enumerate(X.T)}
    ),
}


def frame_of(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"Column_{place}" for place in range(X.shape[1])])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["lgb binary", "lgb poisson", "xgb softprob", "random forest"])
def test_forms_of_rows(name: str, form: str) -> None:
    X = rows_for(name, 40).astype(np.float32).astype(np.float64)  # some frameworks read objects in single precision
    fast = rfsize.compile(model(name))
    for size in (1, 16, 17, 40):
        same = FORMS[form](X[:size])
        assert fast.predict(same).tolist() == fast.predict(X)[:size].tolist()


@pytest.mark.parametrize("name", ["lgb binary", "lgb poisson", "xgb softprob", "random forest"])
def test_frames_and_read_only_arrays(name: str) -> None:
    X = rows_for(name, 40)
    fast = rfsize.compile(model(name))
    expected, frame = fast.predict(X).tolist(), frame_of(X)
    X.flags.writeable = False
    for size in (1, 16, 17, 40):
        for _ in range(2):  # the second frame of the same columns may go a shorter way
            assert fast.predict(frame[:size]).tolist() == fast.predict(X[:size]).tolist() == expected[:size]


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_, np.float16, np.float32])
@pytest.mark.parametrize("name", ["lgb binary", "xgb logistic", "random forest"])
def test_kinds_of_numbers(name: str, kind: Any) -> None:
    X = np.abs(np.nan_to_num(rows_for(name, 60)).clip(-9, 9) * 3).astype(kind)
    for rows in (X[:9], X):
        found = rfsize.compile(model(name)).predict_proba(rows)
        np.testing.assert_allclose(found, zoo.own_proba(model(name), rows.astype(np.float32)), rtol=1e-6)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "scikit-learn"])
def test_whole_numbers_beyond_the_precision(framework: str) -> None:
    """Read as the framework reads them: objects in single precision, large whole numbers of tables rounded once."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(2**24 - 6, 2**24 + 9, 400), rng.normal(size=400)]
    y = ((X[:, 0] > 2**24) | (X[:, 1] > 1)).astype(int)
    forest: Any = {
        "lightgbm": lgb.LGBMClassifier(min_child_samples=1, min_data_in_bin=1, **zoo.WRAPPER),
        "xgboost": xgb.XGBClassifier(**zoo.ONE_ROUND),
        "scikit-learn": RandomForestClassifier(21, random_state=0),
    }[framework].fit(X, y)
    fast = rfsize.compile(forest)
    for rows in (X.astype(object), X, X.astype(np.int64), X.astype(np.float32), X.astype(np.longdouble)):
        own = forest.booster_.predict(rows) if framework == "lightgbm" else forest.predict_proba(rows)[:, 1]
        np.testing.assert_allclose(fast.predict_proba(rows)[:, 1], own, rtol=1e-6)
    # Just above the middle of two floats: rounded to double precision first, it would fall on the middle, and down.
    low, high, above_middle = 2**54, 2**54 + 2**31, 2**54 + 2**30 + 1
    table = pd.DataFrame({"whole": np.repeat([low, high], 200), "other": np.linspace(0.0, 1.0, 400)})
    forest = forest.fit(table, np.repeat([0, 1], 200))
    fast, rows = rfsize.compile(forest), pd.DataFrame({"whole": [above_middle] * 3, "other": [0.1, 0.5, 0.9]})
    for same in (rows, rows.astype({"whole": "Int64"}), rows.astype({"whole": "uint64"})):
        assert fast.predict(same).tolist() == forest.predict(same).tolist()


@pytest.mark.parametrize("number", [2.0**53 - 1, 2.0**53, -(2.0**53), 1e300, np.inf, np.nan])
def test_large_numbers_of_short_frames(number: float) -> None:
    X = rows_for("lgb binary", 4)
    X[1, 0], X[2, 5] = number, 2.0**53 - 1
    fast = rfsize.compile(model("lgb binary"))
    assert fast.predict(frame_of(X)).tolist() == fast.predict(X).tolist()


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_sparse_rows(framework: str) -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(700, 12)) * (rng.random((700, 12)) < 0.4)
    X[:, 3] = 0.0
    rows, y = sparse.csr_matrix(X), (X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=700) > 0).astype(int)
    rows.data[::5] = 0.0  # stored zeros, which are not missing
    forest: Any = lgb.LGBMClassifier(**zoo.WRAPPER) if framework == "lightgbm" else xgb.XGBClassifier(**zoo.ONE_ROUND)
    fast, own = rfsize.compile(forest.fit(rows, y)), forest.predict_proba(rows)
    twice = (np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), rows.indptr * 2)
    doubled = sparse.csr_matrix(twice, shape=rows.shape)
    for same in (rows, rows.tocsc(), rows.tocoo(), sparse.csr_array(rows), doubled, rows[:9]):
        np.testing.assert_allclose(fast.predict_proba(same), own[: same.shape[0]], atol=1e-6)
    assert not doubled.has_canonical_format, "the caller's matrix must stay as it is"
    single = rows.astype(np.float32)
    np.testing.assert_allclose(fast.predict_proba(single), forest.predict_proba(single), atol=1e-6)


def table_of(rng: np.random.Generator, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Categories of words and of numbers, some missing, and the signal of labels."""
    letters = list("pqrstuvw")
    table = pd.DataFrame(
        {
            "number": rng.normal(size=n_rows),
            "letter": pd.Categorical(rng.choice(letters, n_rows), categories=letters),
            "code": pd.Categorical(rng.integers(10, 20, n_rows), categories=range(10, 20)),
        }
    )
    table.loc[::7, "letter"] = None
    signal = table["number"] + table["letter"].isin(["q", "t"]) + (table["code"].astype(int) > 15)
    return table, np.asarray(signal + rng.normal(size=n_rows))


def trained_on(table: pd.DataFrame, y: np.ndarray, framework: str) -> Any:
    """A classifier, or a regressor where y has fractions."""
    of_classes = y.dtype.kind == "i"
    if framework == "lightgbm":
        kind = lgb.LGBMClassifier if of_classes else lgb.LGBMRegressor
        return kind(min_data_per_group=5, max_cat_to_onehot=2, **zoo.WRAPPER).fit(table, y)
    kind = xgb.XGBClassifier if of_classes else xgb.XGBRegressor
    return kind(enable_categorical=True, tree_method="hist", max_cat_to_onehot=2, **zoo.ONE_ROUND).fit(table, y)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("target", ["classes", "numbers"])
def test_categories_of_a_frame(target: str, framework: str) -> None:
    table, signal = table_of(np.random.default_rng(5), 600)
    forest = trained_on(table, (signal > 1).astype(int) if target == "classes" else signal, framework)
    fast, own = rfsize.compile(forest), forest.predict(table)
    for rows in (table, table[:3]):
        np.testing.assert_allclose(fast.predict(rows), own[: len(rows)], rtol=1e-6)
    coded = np.column_stack([table["number"], table["letter"].cat.codes.replace(-1, np.nan), table["code"].cat.codes])
    for size in (1, 17, 600):
        np.testing.assert_allclose(fast.predict(coded[:size]), own[:size], rtol=1e-6)


@pytest.mark.parametrize("framework", ["lightgbm", pytest.param("xgboost", marks=needs_kept_categories)])
def test_categories_go_by_name(framework: str) -> None:
    table, signal = table_of(np.random.default_rng(5), 600)
    forest = trained_on(table, (signal > 1).astype(int), framework)
    fast, expected = rfsize.compile(forest), forest.predict(table).tolist()
    reordered = table.assign(letter=table["letter"].cat.set_categories(list("wvutsrqp")))
    for same in (reordered, table.assign(letter=table["letter"].astype(object)), table.convert_dtypes()):
        assert fast.predict(same).tolist() == expected
    unknown = table[:50].assign(letter=table["letter"][:50].cat.add_categories("new"))
    unknown.loc[3, "letter"] = "new"
    if framework == "lightgbm":
        assert fast.predict(unknown).tolist() == forest.predict(unknown).tolist()
    else:
        with pytest.raises(ValueError, match="'new'"):
            fast.predict(unknown)
    for column, wrong in (("code", table["code"].astype(int)), ("number", table["letter"])):
        with pytest.raises(ValueError, match=rf"'{column}'|categorical"):
            fast.predict(table.assign(**{column: wrong}))


def test_ordered_categories_of_lightgbm() -> None:
    """Its file does not say which columns these are, so they are found by their order."""
    rng = np.random.default_rng(8)
    table, signal = table_of(rng, 600)
    table["grade"] = pd.Categorical(rng.choice(["low", "mid", "top"], 600), ["low", "mid", "top"], ordered=True)
    forest = trained_on(table, (signal + table["grade"].cat.codes > 2).astype(int), "lightgbm")
    fast = rfsize.compile(forest.booster_)
    assert fast.predict(table).tolist() == forest.booster_.predict(table).tolist()
    with pytest.raises(ValueError, match="categorical"):
        fast.predict(table.assign(grade=table["grade"].cat.codes))


@needs_kept_categories
def test_categories_of_xgboost_that_are_not_ascii() -> None:
    """XGBoost keeps them damaged, so that nobody can find them by name: such a frame is refused, codes are not."""
    rng, letters = np.random.default_rng(3), ["Köln", "Rom", "São Paulo"]
    table = pd.DataFrame({"x": rng.normal(size=300), "letter": pd.Categorical(rng.choice(letters, 300), letters)})
    y = (table["letter"].cat.codes + table["x"] > 1).astype(int).to_numpy()
    with pytest.raises(NotAForestError, match="ASCII"):
        rfsize.compile(trained_on(table, y, "xgboost"))
    coded = np.column_stack([table["x"], table["letter"].cat.codes])
    forest = xgb.XGBClassifier(feature_types=["q", "c"], enable_categorical=True, **zoo.ONE_ROUND).fit(coded, y)
    assert rfsize.compile(forest).predict(coded).tolist() == forest.predict(coded).tolist()
