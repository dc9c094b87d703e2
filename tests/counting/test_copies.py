"""Copies are found in rows of any kind, and told from rows that come again by nature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import reference.groups
from helpers.copied import continuous, of_few_values, popular, twice
from rfsize.counting.copies import copies, found, resolved
from rfsize.counting.groups import Groups
from rfsize.utils.matrix import as_rows

CELLS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e300, np.nan, -np.nan, np.inf])


def numbers(groups: Groups, n_rows: int) -> list[int]:
    """The groups as numbers in the order in which they begin."""
    number = np.arange(n_rows) if groups.units is None else groups.units
    known: dict[int, int] = {}
    return [known.setdefault(one, len(known)) for one in number.tolist()]


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=CELLS))
def test_identical_rows_make_a_group(X: np.ndarray) -> None:
    expected = reference.groups.of_copies(X.tolist())
    of_copies = copies(X)
    assert numbers(of_copies, len(X)) == expected
    assert of_copies.copied == np.mean([expected.count(group) > 1 for group in expected])
    once = np.arange(len(X)) if of_copies.once is None else np.flatnonzero(of_copies.once)
    assert once.tolist() == reference.groups.first_of_each(expected)


def table(n_rows: int = 200) -> pd.DataFrame:
    """Columns of all kinds, of few values and with gaps."""
    rng = np.random.default_rng(0)
    gap = rng.random((n_rows, 8)) < 0.2
    whole = rng.integers(0, 2, (n_rows, 8))
    words = np.array(["ash", "élan"])[whole]
    return pd.DataFrame(
        {
            "number": np.where(gap[:, 0], np.nan, whole[:, 0]),
            "whole": whole[:, 1] + 2**60,  # beyond double precision
            "flag": whole[:, 2] > 0,
            "category": pd.Categorical(np.where(gap[:, 3], None, words[:, 3])),
            "text": np.where(gap[:, 4], None, words[:, 4]),
            "nullable": pd.array(np.where(gap[:, 5], None, whole[:, 5]), dtype="Int64"),
        }
    )


def test_tables() -> None:
    frame = table()
    plain = frame.astype(object).where(frame.notna(), None)
    expected = reference.groups.of_copies(plain.to_numpy().tolist())
    assert 20 < len(set(expected)) < 190
    assert numbers(copies(frame), len(frame)) == expected
    arrow = pa.Table.from_pandas(frame.drop(columns="category"))
    without = reference.groups.of_copies(plain.drop(columns="category").to_numpy().tolist())
    assert numbers(copies(arrow), len(frame)) == without
    assert numbers(copies(frame[["text", "flag"]].to_numpy(dtype=object)), len(frame)) == reference.groups.of_copies(
        plain[["text", "flag"]].to_numpy().tolist()
    )


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = table().drop(columns=["whole", "nullable"])
    assert numbers(copies(as_rows(polars.from_pandas(frame))), len(frame)) == numbers(copies(frame), len(frame))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array, xgb.DMatrix])
def test_sparse(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, (150, 4)) * (rng.random((150, 4)) < 0.5).astype(float)
    rows = xgb.DMatrix(X, missing=0.0) if kind is xgb.DMatrix else as_rows(kind(X))
    assert numbers(resolved("copies", rows, len(X)), len(X)) == reference.groups.of_copies(X.tolist())


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.uint64, np.bool_, ">f8"])
def test_numbers_of_any_kind(kind: Any) -> None:
    X = np.random.default_rng(0).integers(0, 2, (100, 5)).astype(kind)
    assert numbers(copies(X), len(X)) == reference.groups.of_copies(X.tolist())


def test_large_arrays_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).integers(0, 3, (100, 5)).astype(float)
    whole = numbers(copies(X), len(X))
    monkeypatch.setattr("rfsize.counting.copies._CELLS", 7)
    assert numbers(copies(X), len(X)) == whole


def test_repeated_rows_of_continuous_features_are_groups() -> None:
    X, y = continuous(400)
    for rows in (twice(X, y)[0], np.concatenate([X, X[y == 1]]), np.concatenate([X, X[:20]])):
        groups = found(rows)
        assert groups.by == "copies"
        assert groups.copied == np.mean(groups.sizes > 1)
    assert found(X).index is None
    assert found(X).copied == 0.0
    # One column that tells rows apart is enough, and so are numbers that are rounded.
    few = of_few_values(400)[0]
    assert found(twice(np.column_stack([few, X[:, 0]]), y)[0]).by == "copies"
    assert found(twice(X.round(2), y)[0]).by == "copies"


def test_rows_of_few_values_stand_alone() -> None:
    X, _ = of_few_values(1000)
    groups = found(X)
    assert (groups.by, groups.of_copies) == ("rows", None)
    assert 0.2 < groups.copied < 1.0


def test_what_the_rows_do_not_tell_is_unclear() -> None:
    X, y = of_few_values(150)
    all_there_are = np.random.default_rng(0).integers(0, 4, (3000, 5))  # whose every row has copies
    one_hot = pd.get_dummies(pd.DataFrame(all_there_are).astype(str))
    for rows in (twice(X, y)[0], X[:, :1], all_there_are, one_hot):
        groups = found(rows)
        assert groups.by == "rows"
        assert groups.of_copies is not None
        assert groups.of_copies.by == "copies"


@pytest.mark.parametrize("n_rows", [1000, 5000])
def test_popular_rows_are_unclear(n_rows: int) -> None:
    groups = found(popular(n_rows)[0])
    assert groups.by == "rows"
    assert groups.of_copies is not None
    assert groups.of_copies.copied == groups.copied


@pytest.mark.parametrize("times", [2, 8, 40])
def test_oversampled_rows_are_groups_however_many_copies_they_have(times: int) -> None:
    X, _ = continuous(600)
    rng = np.random.default_rng(0)
    rare = X[:60]
    drawn = rare[rng.integers(0, 60, 60 * (times - 1))]
    for more in (drawn, np.repeat(rare, times - 1, axis=0)):
        assert found(np.concatenate([X, more])).by == "copies"


def test_groups_that_are_given() -> None:
    X, _ = twice(*continuous(20))
    for labels in (list("ab" * 20), np.arange(40) // 2):
        groups = resolved(labels, X, 40)
        assert groups.by == "given"
        assert groups.once is None
        assert numbers(groups, 40) == [list(dict.fromkeys(list(labels))).index(label) for label in labels]
    mixed = ["a", 1] * 20
    assert numbers(resolved(mixed, X, 40), 40) == [0, 1] * 20
    assert resolved(range(40), X, 40).index is None
    assert resolved("rows", X, 40).index is None
    assert resolved("copies", X, 40).copied == 1.0
    assert resolved(None, None, 40).by == "unknown"


def test_rows_by_default_are_not_told_from_repetitions() -> None:
    X, _ = continuous(400)
    for filler in (np.nan, 0.0):
        rows = X.copy()
        rows[np.random.default_rng(0).random(400) < 0.15] = filler
        groups = found(rows)
        assert groups.by == "rows"
        assert groups.of_copies is not None
        assert found(np.concatenate([rows, X[:200]])).of_copies is not None


def test_wide_rows_are_looked_at_once() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4000))
    rows = np.concatenate([X, X])
    for kind in (np.asarray, pd.DataFrame, sparse.csr_matrix, xgb.DMatrix):
        assert resolved(None, kind(rows), 120).by == "copies"
    coarse = np.random.default_rng(0).integers(0, 3, (60, 4000)).astype(float)
    for kind in (np.asarray, pd.DataFrame, sparse.csr_matrix, xgb.DMatrix):
        groups = resolved(None, kind(np.concatenate([coarse, coarse])), 120)
        assert groups.by == "rows"
        assert groups.of_copies is not None


@pytest.mark.parametrize("kind", [sparse.csc_matrix, sparse.coo_array])
def test_training_data_may_be_sparse_in_any_way(kind: Any) -> None:
    X, _ = twice(*continuous(30))
    X = X[:, np.arange(60) % 8]  # as many columns as rows
    assert resolved(None, kind(X), 60).copied == 1.0
    assert resolved("copies", kind(X), 60).copied == 1.0


def test_labels_keep_their_kinds() -> None:
    large = [2**63, 2**63 + 1, 2**53, 2**53 + 1, 1.5, "1", 1, "a", "a\0"]
    assert Groups.given(large, len(large)).index is None
    assert Groups.given([*large, 1], 10).index.tolist() == [-1] * 6 + [0, -1, -1, 0]
    assert Groups.given(pd.Categorical(["u", "v", "u"]), 3).index.tolist() == [0, -1, 0]
    assert Groups.given(pd.Series(["u", "v", "u"], index=[7, 8, 9]), 3).index.tolist() == [0, -1, 0]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(39), r"one label for each of the 40 training rows, found an array of shape \(39,\)"),
        (np.zeros((40, 1)), r"shape \(40, 1\)"),
        ([*range(39), None], "no label for row 39"),
        ([np.nan, np.nan, *range(38)], r"no label for row 0 \(2 rows in all\)"),
        (["a", *[float("nan")] * 39], r"no label for row 1 \(39 rows in all\)"),
        ([*range(39), pd.NA], "no label for row 39"),
        (np.ma.array(range(40), mask=[True] + [False] * 39), "masked labels"),
        ([{}] * 40, "labels such as numbers or text, found others"),
        ([[1], [1, 2]] * 20, "one label for each training row, found rows of several lengths"),
        ("copy", "groups must be one of 'copies', 'rows', found 'copy' .did you mean 'copies'.*; or give an array"),
    ],
)
def test_refusals(groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolved(groups, continuous(40)[0], 40)
    with pytest.raises(ValueError, match="the data do not hold them"):
        resolved("copies", None, 40)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.data())
def test_what_is_known_of_groups(label: list[int], data: st.DataObject) -> None:
    groups = Groups.given(label, len(label))
    seen = np.array(data.draw(st.lists(st.booleans(), min_size=len(label), max_size=len(label))))
    assert groups.spread(seen).tolist() == reference.groups.spread(seen[None], label)[0].tolist()
    assert numbers(groups, len(label)) == [list(dict.fromkeys(label)).index(one) for one in label]
    sizes = np.ones(len(label)) if groups.sizes is None else groups.sizes
    assert sizes.tolist() == [label.count(one) for one in label]
