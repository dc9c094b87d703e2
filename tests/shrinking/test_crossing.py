"""Rows that are made of others: which columns of which rows they have, in every form of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost as xgb
from scipy import sparse

import rfsize
from rfsize.adapters.registry import adapter_for
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.shrinking import crossing
from rfsize.shrinking.crossing import crossed
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.utils.rows import with_columns_of

N_ROWS, N_COLUMNS = 400, 8
BAGS = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "num_leaves": 7, "verbose": -1, "num_threads": 1}


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)


@pytest.fixture
def rows(problem: tuple[np.ndarray, np.ndarray]) -> LeavesOfRows:
    model = lgb.train({**BAGS, "objective": "binary"}, lgb.Dataset(*problem), 20)
    return LeavesOfRows.of(ForestOnRows.of(adapter_for(model, casts_votes=False), problem[0]))


def made_of(rows: LeavesOfRows) -> tuple[LeavesOfRows, np.ndarray]:
    """What is made, and its values."""
    made = crossed(rows)
    assert made is not None
    return made, made.forest.X


def test_each_has_a_quarter_of_its_columns_from_a_row_of_the_same_leaf(
    rows: LeavesOfRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crossing, "_MOST_ROWS", 2400)
    made, values = made_of(rows)
    assert values.shape == (2000, N_COLUMNS)
    source = np.stack([np.searchsorted(np.sort(rows.forest.X[:, j]), values[:, j]) for j in range(N_COLUMNS)], axis=1)
    source = np.stack([np.argsort(rows.forest.X[:, j])[source[:, j]] for j in range(N_COLUMNS)], axis=1)
    for together in (source[:1000], source[1000:]):
        common = np.array([np.bincount(of_row).argmax() for of_row in together])
        from_other = (together != common[:, None]).any(axis=0)
        assert np.count_nonzero(from_other) == 2
        other = together[:, from_other.argmax()]
        assert (together[:, from_other] == other[:, None]).all()
        same_leaf = (rows.leaf[common, :, 0] == rows.leaf[other, :, 0]).all(axis=0)
        assert same_leaf.any()  # of one tree
        assert not same_leaf.all()
    np.testing.assert_array_equal(made.leaf, LeavesOfRows.of(made.forest).leaf)


def test_rows_that_were_left_out_take_no_part(rows: LeavesOfRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossing, "_MOST_ROWS", 1000)
    some = rows.some(np.arange(0, N_ROWS, 2))
    assert np.isin(made_of(some)[1], rows.forest.X[::2]).all()


def test_nothing_is_made_where_rows_are_enough(rows: LeavesOfRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossing, "_MOST_ROWS", N_ROWS)
    assert crossed(rows) is None


def test_rows_of_a_dmatrix_are_not_crossed(problem: tuple[np.ndarray, np.ndarray]) -> None:
    params = {"objective": "binary:logistic", "num_parallel_tree": 20, "subsample": 0.6, "learning_rate": 1.0}
    model = xgb.train(params, xgb.DMatrix(*problem), 1)
    given = ForestOnRows.of(adapter_for(model, casts_votes=False), xgb.DMatrix(problem[0]))
    assert crossed(LeavesOfRows.of(given)) is None


def text(X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    return frame.assign(c=pd.Categorical(np.where(X[:, 2] > 0, "up", "down")), d=X[:, 3] > 0)


def zeros(X: np.ndarray) -> Any:
    """Some entries are not there, and some are zeros that are."""
    found = sparse.csr_array(np.where(X > 0.5, 0.0, X))
    found.data[::7] = 0.0
    return found


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda X: X,
    "single precision": lambda X: X.astype(np.float32),
    "frame": text,
    "sparse": zeros,
    "Arrow": lambda X: pa.table({f"f{place}": column for place, column in enumerate(X.T)}),
}


@pytest.mark.parametrize("form", FORMS)
def test_columns_of_other_rows_in_every_form(form: str, problem: tuple[np.ndarray, np.ndarray]) -> None:
    X, others = FORMS[form](problem[0][:50]), FORMS[form](problem[0][50:100])
    found, places = with_columns_of(X, others, np.array([6, 2])), [2, 6]
    assert type(found) is type(X)
    if form == "frame":
        expected = X.copy()
        for place in places:
            expected.isetitem(place, others.iloc[:, place].array)
        pd.testing.assert_frame_equal(found, expected)
    elif form == "Arrow":
        assert found.schema == X.schema
        for place in range(N_COLUMNS):
            assert found.column(place) == (others if place in places else X).column(place)
    elif form == "sparse":
        for place in range(N_COLUMNS):
            of = (others if place in places else X).tocsc()[:, [place]]
            assert found.tocsc()[:, [place]].nnz == of.nnz
            np.testing.assert_array_equal(found.tocsc()[:, [place]].toarray(), of.toarray())
    else:
        expected = X.copy()
        expected[:, places] = others[:, places]
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == X.dtype


@pytest.mark.parametrize("form", FORMS)
def test_forests_are_shrunk_by_rows_of_every_form(form: str, problem: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = FORMS[form](problem[0]), problem[1]
    model = lgb.train({**BAGS, "objective": "binary"}, lgb.Dataset(X, y), 20)
    unseen = FORMS[form](np.random.default_rng(1).normal(size=problem[0].shape))
    small, _ = rfsize.shrink(model, unseen, rows=X, n_trees=5)
    assert small.num_trees() == 5
