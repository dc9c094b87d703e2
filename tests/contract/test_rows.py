"""Rows of every kind give the numbers of the same rows in an array."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
import xgboost as xgb
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.fixes import parse_version

import rfsize
from helpers.models import FRESH, LIGHTGBM, N_ROWS, TWO, XGBOOST, X, frame, model
from helpers.rows import ARRAYS, FRAMES, Batches, Slices, split
from rfsize.exceptions import ForestWarning

FORESTS = ["lightgbm", "xgboost", "random forest"]


def answers(trained: Any, rows: Any, **options: Any) -> list[Any]:
    """What forests answer about fresh rows."""
    outputs = rfsize.tree_outputs(trained, rows, **options)
    fast = rfsize.compile(trained, **options)
    return [outputs.votes.counts.tolist(), outputs.predict_proba().tolist(), fast.predict_proba(rows).tolist()]


@cache
def of_array(kind: str) -> list[Any]:
    return answers(model(kind).model, FRESH)


@cache
def named(kind: str, letters: bool = False) -> Any:
    """A forest trained on a frame, with or without a column of categories."""
    table = frame(X).drop(columns="c") if letters else pd.DataFrame(X, columns=list("abcdef"))
    if kind == "lightgbm":
        return lgb.train(LIGHTGBM, lgb.Dataset(table, TWO), 25)
    if kind == "xgboost":
        return xgb.train(XGBOOST, xgb.DMatrix(table, TWO, enable_categorical=True), 1)
    return clone(model(kind).model).fit(table, TWO)


TABLE, LETTERS = pd.DataFrame(FRESH, columns=list("abcdef")), frame(FRESH).drop(columns="c")


@cache
def of_frame(kind: str, letters: bool = False) -> list[Any]:
    return answers(named(kind, letters), LETTERS if letters else TABLE)


def in_turn(forms: Iterable[str]) -> Any:
    """Each form with one of the frameworks."""
    return pytest.mark.parametrize(("form", "kind"), [*zip(forms, itertools.cycle(FORESTS), strict=False)])


@in_turn(ARRAYS)
def test_arrays(kind: str, form: str, tmp_path: Path) -> None:
    trained = model(kind).model
    expected = of_array(kind)
    assert answers(trained, ARRAYS[form](FRESH, tmp_path)) == expected
    fast = rfsize.compile(trained)
    for n_rows in (5, 16, 17):  # a few go a shorter way
        assert fast.predict_proba(ARRAYS[form](FRESH[:n_rows], tmp_path)).tolist() == expected[2][:n_rows]
    in_memory = rfsize.tree_outputs(trained, X, oob=True).votes
    assert rfsize.tree_outputs(trained, ARRAYS[form](X, tmp_path), oob=True).votes == in_memory


@pytest.mark.parametrize(
    ("dtype", "kind"), [*zip([np.float32, np.float16, np.int64, np.uint8, np.bool_, ">f4"], 2 * FORESTS, strict=True)]
)
def test_types_of_numbers(kind: str, dtype: Any) -> None:
    trained, rows = model(kind).model, np.abs(FRESH * 3).astype(dtype)
    wide = rows.astype(np.float32)
    assert answers(trained, rows) == answers(trained, wide)
    native = sparse.csr_matrix(rows.astype(np.float32 if dtype == np.float16 else np.dtype(dtype).newbyteorder("=")))
    assert answers(trained, native) == answers(trained, native.astype(np.float32))


@pytest.mark.parametrize("kind", FORESTS)
def test_large_whole_numbers_in_single_precision(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows = np.c_[rng.integers(2**24 - 6, 2**24 + 9, N_ROWS), rng.normal(size=(N_ROWS, 5))]
    y = ((rows[:, 0] > 2**24) | (rows[:, 1] > 1)).astype(int)
    if kind == "lightgbm":
        params = model(kind).model.params | {"min_data_in_leaf": 1, "min_data_in_bin": 1}
        trained = lgb.train(params, lgb.Dataset(rows, y), 15)
    else:
        trained = clone(model({"xgboost": "XGBClassifier"}.get(kind, kind)).model).fit(rows, y)
    for cast in (np.float64, np.int64, np.float32, np.longdouble, object):
        given = rows.astype(cast)
        expected = trained.predict(given) if kind == "lightgbm" else trained.predict_proba(given)[:, 1]
        fast = rfsize.compile(trained)
        np.testing.assert_allclose(fast.predict_proba(given)[:, 1], expected, rtol=1e-6)
        assert rfsize.tree_outputs(trained, given).votes == fast.votes(given)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest with gaps"])
def test_objects_that_are_numbers_or_missing(kind: str) -> None:
    objects = FRESH.astype(object)
    objects[3, 1], objects[4, 1], objects[5, 1] = None, 7, Decimal("0.25")
    assert answers(model(kind).model, objects) == answers(model(kind).model, objects.astype(np.float64))


@in_turn(FRAMES)
def test_frames_are_read_by_name(kind: str, form: str, tmp_path: Path) -> None:
    trained = named(kind)
    turned, less = TABLE[list("fedcba")], TABLE.drop(columns=["b", "e"]).assign(id=0)
    more = turned.assign(id=0, when=np.datetime64("2020-01-01", "ns"))[["when", *"fedcba", "id"]]
    expected = of_frame(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answers(trained, FRAMES[form](TABLE, tmp_path)) == expected
        assert answers(trained, FRAMES[form](turned, tmp_path)) == expected
    with pytest.warns(ForestWarning) as caught:
        actual = rfsize.compile(trained).predict_proba(FRAMES[form](more, tmp_path))
    assert len(caught) == 1
    assert actual.tolist() == expected[2]
    with pytest.warns(ForestWarning):
        assert rfsize.tree_outputs(trained, FRAMES[form](more, tmp_path)).votes.counts.tolist() == expected[0]
    for call in (lambda rows: rfsize.tree_outputs(trained, rows), rfsize.compile(trained).predict):
        with pytest.raises(ValueError, match=r"\['b', 'e'\].*\['id'\]"):
            call(FRAMES[form](less, tmp_path))


@in_turn([*FRAMES][::-1])
def test_forests_without_names_go_by_place(kind: str, form: str, tmp_path: Path) -> None:
    trained = model(kind).model
    table = TABLE.set_axis(["a b", "a_b", "größe", "e,f", "g", "i"], axis=1)
    assert answers(trained, FRAMES[form](table, tmp_path)) == of_array(kind)
    for call in (lambda rows: rfsize.tree_outputs(trained, rows), rfsize.compile(trained).predict):
        for wrong in (table.assign(id=0.0), table.drop(columns="i")):
            with pytest.raises(ValueError, match=f"X .*{wrong.shape[1]} columns"):
                call(FRAMES[form](wrong, tmp_path))


@pytest.mark.parametrize("kind", ["lightgbm", "random forest"])
def test_rows_are_drawn_from_any_form(kind: str, tmp_path: Path) -> None:
    goal: dict[str, Any] = {"alpha": 0.9, "max_rows": 70, "voting": "hard"}
    expected = rfsize.size(model(kind).model, FRESH, **goal)
    for form in ("Sequences", "DataIter", "batches", "nameless Parquet", "sparse rows"):
        actual = rfsize.size(model(kind).model, ARRAYS[form](FRESH, tmp_path), **goal)
        assert (actual.n_trees, actual.interval, actual.estimate.votes_per_row) == (
            expected.n_trees, expected.interval, expected.estimate.votes_per_row
        )  # fmt: skip


def test_many_rows_in_batches() -> None:
    """Batches of the source end elsewhere than those in which trees are asked."""
    trained, many = model("lightgbm").model, np.tile(FRESH, (1100, 1))
    counts = np.tile(rfsize.tree_outputs(trained, FRESH).votes.counts, (1100, 1))
    for rows in (Batches(np.array_split(many, 7)), [many[:50_001], many[50_001:]]):
        assert np.array_equal(rfsize.tree_outputs(trained, rows).votes.counts, counts)


@pytest.mark.parametrize("kind", FORESTS)
def test_copies_are_found_in_any_form(kind: str, tmp_path: Path) -> None:
    rows = np.tile(X[: N_ROWS // 2], (2, 1))
    trained = clone(model({"lightgbm": "LGBMClassifier", "xgboost": "XGBClassifier"}.get(kind, kind)).model)
    trained.fit(rows, np.tile(TWO[: N_ROWS // 2], 2))
    expected = rfsize.tree_outputs(trained, rows, oob=True, groups="copies").votes
    assert expected != rfsize.tree_outputs(trained, rows, oob=True, groups="rows").votes
    for form in ("sparse rows", "sparse columns", "big-endian", "objects", "batches", "Sequence", "DataIter"):
        actual = rfsize.tree_outputs(trained, ARRAYS[form](rows, tmp_path), oob=True, groups="copies").votes
        assert actual == expected
    for form in ("pandas", "Arrow", "Polars", "Parquet folder", "DataIter of frames"):
        table = FRAMES[form](pd.DataFrame(rows, columns=list("abcdef")), tmp_path)
        assert rfsize.tree_outputs(trained, table, oob=True, groups="copies").votes == expected


def skip_without_categories(kind: str) -> None:
    if kind == "xgboost" and parse_version(xgb.__version__) < parse_version("3.1"):
        pytest.skip("XGBoost keeps no categories before 3.1")


CATEGORIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "other order of categories": lambda table: table.assign(b=table["b"].cat.reorder_categories(list("srqp"))),
    "unused categories left out": lambda table: table.assign(b=table["b"].cat.remove_unused_categories()),
    "more columns": lambda table: table[list("fdeba")],
    "Polars": lambda table: polars.from_pandas(table),
    "Polars of other order": lambda table: polars.from_pandas(table).cast({"b": polars.Enum(list("srqp"))}),
    "batches": split,
}


@pytest.mark.parametrize("form", CATEGORIES)
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_categories_are_matched_by_value(kind: str, form: str) -> None:
    skip_without_categories(kind)
    assert answers(named(kind, letters=True), CATEGORIES[form](LETTERS)) == of_frame(kind, letters=True)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_categories_in_files(kind: str, tmp_path: Path) -> None:
    """Each file has categories of its own, in another order; one has columns that are no features."""
    skip_without_categories(kind)
    for number, (part, order) in enumerate(zip(split(LETTERS), ["srqp", "qrsp", "spqr"], strict=True)):
        letters = part["b"].astype(object).where(part["b"].notna()).astype(pd.CategoricalDtype(list(order)))
        part.assign(b=letters, when=datetime(2000, 1, 1)).to_parquet(tmp_path / f"{number}.parquet")
    with pytest.warns(ForestWarning):
        assert answers(named(kind, letters=True), tmp_path) == of_frame(kind, letters=True)


WHOLE = TABLE.assign(a=(TABLE["a"] * 3).round(), b=(TABLE["b"] > 0).astype(float))
GAPS = WHOLE.astype(np.float32).astype(float).where(np.random.default_rng(0).random(WHOLE.shape) > 0.2)
NULLABLE = GAPS.astype({"a": "Int64", "b": "boolean", **dict.fromkeys("cdef", "Float64")})
MISSING: dict[str, Any] = {
    "nullable": NULLABLE,
    "sparse": GAPS.astype(pd.SparseDtype(float, 0.0)),
    "Polars": polars.from_pandas(NULLABLE),
    "Arrow": pa.Table.from_pandas(NULLABLE),
}


@pytest.mark.parametrize(
    ("kind", "form"),
    # scikit-learn takes no missing values in sparse rows
    [(kind, form) for kind in ("lightgbm", "xgboost") for form in MISSING]
    + [("random forest with gaps", form) for form in MISSING if form != "sparse"],
)
def test_missing_values_of_frames(kind: str, form: str) -> None:
    """Of whole numbers and flags too."""
    assert answers(model(kind).model, MISSING[form]) == answers(model(kind).model, GAPS.to_numpy())


def test_columns_of_folders_and_files_of_other_types(tmp_path: Path) -> None:
    table = TABLE.assign(f=(TABLE["f"] > 0).astype(float))
    parts = []
    for value, part in table.groupby("f"):
        (tmp_path / f"f={value}").mkdir()
        part.drop(columns="f").astype({"a": np.float32} if value else {}).to_parquet(
            tmp_path / f"f={value}" / "x.parquet"
        )
        parts.append(part.assign(a=part["a"].astype(np.float32) if value else part["a"]).astype(float))
    schema = pa.schema([(name, pa.float64()) for name in "abcdef"])
    rows = pyarrow.dataset.dataset(tmp_path, schema=schema, partitioning="hive")
    assert answers(model("lightgbm").model, rows) == answers(model("lightgbm").model, pd.concat(parts).to_numpy())


def test_index_of_a_file(tmp_path: Path) -> None:
    """An index that has a name is a column; one without is none, even for a forest without names."""
    TABLE.set_index("c").to_parquet(tmp_path / "named.parquet")
    TABLE[::2].to_parquet(tmp_path / "unnamed.parquet")
    assert answers(named("random forest"), tmp_path / "named.parquet") == answers(named("random forest"), TABLE)
    assert answers(model("lightgbm").model, tmp_path / "unnamed.parquet") == answers(
        model("lightgbm").model, FRESH[::2]
    )


def test_one_row_goes_as_a_table_of_one() -> None:
    trained = named("random forest")
    assert rfsize.compile(trained).predict(TABLE.iloc[[0]]).tolist() == trained.predict(TABLE.iloc[[0]]).tolist()
    for call in (rfsize.compile(trained).predict, lambda rows: rfsize.tree_outputs(trained, rows)):
        with pytest.raises(ValueError, match="X"):
            call(TABLE.iloc[0])


def test_fresh_rows_are_read_once() -> None:
    for kind in FORESTS:
        rows = Slices(FRESH)
        for ask in (rfsize.size, rfsize.tree_outputs, lambda trained, rows: rfsize.compile(trained).predict(rows)):
            rows.n_read = 0
            ask(model(kind).model, rows)
            assert rows.n_read == len(FRESH)


def test_callers_rows_stay_as_they_are() -> None:
    entries = ARRAYS["sparse halves"](FRESH, Path())
    before, table = entries.copy(), model("lightgbm categories").fresh.copy()
    answers(model("lightgbm").model, entries)
    assert entries.nnz == before.nnz
    answers(model("lightgbm categories").model, table)
    pd.testing.assert_frame_equal(table, model("lightgbm categories").fresh)


def test_a_source_must_give_the_same_rows_at_each_pass() -> None:
    class Forgetful(Batches):
        def reset(self) -> None:
            super().reset()
            self.batches = split(X)[: 4 - self.n_begun]

    with pytest.raises(ValueError, match="gave"):
        rfsize.tree_outputs(model("lightgbm").model, Forgetful([]), oob=True)
