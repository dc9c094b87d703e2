"""Votes of the trees of LightGBM and XGBoost, from rows of every kind."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import reference.counting
import rfsize
from helpers.forests import TREES, Data, predict, raw_trees, train_lightgbm, train_xgboost
from helpers.outputs import votes_of


@pytest.fixture(scope="module")
def tree_labels(booster: Any, data: Data) -> np.ndarray:
    return (raw_trees(booster, data.X) > 0.5).astype(int)


def test_votes_are_what_each_tree_alone_predicts(booster: Any, data: Data, tree_labels: np.ndarray) -> None:
    votes = rfsize.tree_outputs(booster, data.X).votes
    assert np.array_equal(votes.counts, reference.counting.votes(tree_labels, 2))
    assert votes.n_trees == TREES
    assert (votes.asked == TREES).all()


@pytest.mark.parametrize("threshold", [0.2, 0.8])
def test_threshold_moves_the_votes(booster: Any, data: Data, threshold: float) -> None:
    labels = (raw_trees(booster, data.fresh) > threshold).astype(int)
    assert np.array_equal(
        rfsize.tree_outputs(booster, data.fresh, threshold=threshold).votes.counts, reference.counting.votes(labels, 2)
    )


def test_out_of_bag_votes(booster: Any, data: Data, tree_labels: np.ndarray) -> None:
    inbag = rfsize.inbag(booster, data.X)
    assert inbag.shape == (TREES, len(data.X))
    assert inbag.dtype == bool
    votes = rfsize.tree_outputs(booster, data.X, oob=True).votes
    assert np.array_equal(votes.counts, reference.counting.votes(tree_labels, 2, inbag))
    assert votes.n_trees == TREES


def test_blocks_of_any_size_give_the_same_votes(booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, inbag = rfsize.tree_outputs(booster, data.X, oob=True).votes, rfsize.inbag(booster, data.X)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 37 * TREES)
    assert rfsize.tree_outputs(booster, data.X, oob=True).votes == whole
    assert np.array_equal(rfsize.inbag(booster, data.X), inbag)


def test_slow_counting_shows_its_progress(
    booster: Any, data: Data, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rfsize.tree_outputs(booster, data.X)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 100 * TREES)
    monkeypatch.setattr("rfsize.utils.progress._SECONDS_BEFORE", 0.0)
    rfsize.tree_outputs(booster, data.X)
    assert "votes" in capsys.readouterr().err


def test_labels_of_any_kind(data: Data) -> None:
    names = np.array(["no", "yes"])[data.y]
    model = LGBMClassifier(boosting_type="rf", n_estimators=11, subsample=0.6, subsample_freq=1, n_jobs=1, verbose=-1)
    votes = rfsize.tree_outputs(model.fit(data.X, names), data.fresh).votes
    assert votes.classes.tolist() == ["no", "yes"]
    assert set(votes.winner().tolist()) == {"no", "yes"}


def frame(X: np.ndarray) -> pd.DataFrame:
    """The features with two of them as categories, one of numbers and one of words."""
    table = pd.DataFrame(X, columns=[f"f {index}" if index == 4 else f"f{index}" for index in range(X.shape[1])])
    table["f1"] = pd.Categorical(np.digitize(X[:, 1], [-1, 0, 1]), categories=range(4))
    table["f2"] = pd.Categorical(np.where(X[:, 2] > 0, "up", "down"), categories=["down", "up"])
    return table


@pytest.mark.filterwarnings("ignore:Found whitespace")
@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_data_frames_with_categories(train: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    table, fresh = frame(data.X), frame(data.fresh)
    model = train(table, data.y, 21, **({"tree_method": "hist"} if train is train_xgboost else {}))
    labels = rfsize.tree_outputs(model, fresh).votes
    alone = rfsize.truncate(model, n_trees=1)
    assert np.array_equal(rfsize.tree_outputs(alone, fresh).votes.counts[:, 1], predict(alone, fresh) > 0.5)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 21 * 50)
    assert rfsize.tree_outputs(model, fresh).votes == labels
    assert rfsize.inbag(model, table).mean() == pytest.approx(0.632, abs=0.02)
    for wrong, message in [
        (fresh.rename(columns={"f0": "g0"}), r"missing \['f0'\], unknown \['g0'\]"),
        (fresh.rename(columns={"f0": "f3"}), "same name"),
    ]:
        with pytest.raises(ValueError, match=message):
            rfsize.tree_outputs(model, wrong)


def test_other_kinds_of_matrices(booster: Any, data: Data) -> None:
    expected = rfsize.tree_outputs(booster, data.fresh).votes
    dense = np.asfortranarray(data.fresh)
    assert rfsize.tree_outputs(booster, dense).votes == expected
    assert rfsize.tree_outputs(booster, data.fresh.tolist()).votes == expected
    assert rfsize.tree_outputs(booster, sparse.csr_matrix(data.fresh)).votes == expected
    assert rfsize.tree_outputs(booster, sparse.csc_array(data.fresh)).votes == expected
    assert len(rfsize.tree_outputs(booster, data.fresh[:1]).votes) == 1


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_arrow_tables(train: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    named = pd.DataFrame(data.X, columns=["format", *"bcdefgh"])
    model = train(named, data.y, 21)
    expected = rfsize.tree_outputs(model, named, oob=True).votes
    assert rfsize.tree_outputs(model, pa.Table.from_pandas(named), oob=True).votes == expected
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 21 * 50)
    assert rfsize.tree_outputs(model, pa.Table.from_pandas(named), oob=True).votes == expected
    words = pa.table({name: pa.array(["a", "b"]).dictionary_encode() for name in named.columns})
    with pytest.raises(ValueError, match="to_pandas"):
        rfsize.tree_outputs(model, words)


both_ways = pytest.mark.parametrize("ask", [votes_of, lambda model, X: rfsize.compile(model).votes(X)])


def test_rows_stored_in_other_ways_are_the_same_rows(booster: Any, data: Data) -> None:
    rows = data.fresh.astype(np.float32)
    entries = sparse.csr_matrix(rows)
    twice = sparse.csr_matrix((np.repeat(entries.data / 2, 2), np.repeat(entries.indices, 2), entries.indptr * 2))
    swapped = entries.copy()
    swapped.data = swapped.data.astype(">f4")
    for same, plain in [
        (rows.astype(">f4"), rows),
        (rows.astype(">f8"), rows),
        (np.ma.masked_array(rows, mask=False), rows),
        (twice, entries),
        (twice.tocsc(), entries),
        (swapped, entries),
    ]:
        expected = rfsize.tree_outputs(booster, plain).votes
        assert rfsize.tree_outputs(booster, same).votes == expected
        assert rfsize.compile(booster).votes(same) == expected
    assert twice.nnz == 2 * entries.nnz, "the caller's matrix must stay as it is"


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_])
def test_sparse_matrices_of_whole_numbers(kind: Any, booster: Any, data: Data) -> None:
    whole = sparse.csr_matrix(np.abs(data.fresh * 3).astype(kind))
    expected = rfsize.tree_outputs(booster, whole.astype(np.float64)).votes
    assert rfsize.tree_outputs(booster, whole).votes == expected
    assert rfsize.compile(booster).votes(whole) == expected


@both_ways
def test_masked_values_are_refused(ask: Any, booster: Any, data: Data) -> None:
    mask = np.zeros(data.fresh.shape, dtype=bool)
    mask[5, 2] = True
    with pytest.raises(ValueError, match=r"masked values in the columns \[2\].*X.filled\(np.nan\)"):
        ask(booster, np.ma.masked_array(data.fresh, mask=mask))


@both_ways
def test_objects_that_are_numbers(ask: Any, booster: Any, data: Data) -> None:
    objects = data.fresh.astype(object)
    objects[3, 1], objects[4, 1], objects[5, 1] = None, 7, Decimal("0.25")
    expected = rfsize.tree_outputs(booster, objects.astype(np.float64)).votes
    assert ask(booster, objects) == expected


NAMES = list("abcdefgh")


def with_column(column: Any) -> pd.DataFrame:
    return pd.DataFrame(np.zeros((3, 8)), columns=NAMES).assign(c=column)


def with_object(value: Any) -> np.ndarray:
    X = np.zeros((3, 8), dtype=object)
    X[1, 2] = value
    return X


@both_ways
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (with_object(10**400), "column 2 of X holds a whole number beyond double precision, in row 1"),
        (with_object("1.5"), "column 2 holds a str, in row 1"),
        (with_object(1j), "column 2 holds a complex"),
        (with_object(np.complex128(1j)), "column 2 holds a complex128"),
        (with_object(np.timedelta64(1, "s")), "column 2 holds a timedelta64"),
        (with_object(pd.Timestamp("2020-01-01")), "column 2 holds a Timestamp"),
        (np.zeros((3, 8), dtype=complex), "must hold numbers, found an array of complex128"),
        (np.full((3, 8), "a"), "must hold numbers, found an array of <U1"),
        (np.zeros((3, 8), dtype="M8[s]"), r"must hold numbers, found an array of datetime64\[s\]"),
        (sparse.csr_matrix(np.zeros((3, 8), dtype=complex)), "must hold numbers, found a sparse matrix of complex128"),
        (with_column(pd.Timestamp("2020-01-01")), r"'c' \(datetime64"),
        (with_column(pd.Timestamp("2020-01-01", tz="UTC")), r"'c' \(datetime64.*UTC"),
        (with_column(pd.Timedelta("1h")), r"'c' \(timedelta64"),
        (with_column(pd.Period("2020-01")), r"'c' \(period"),
        (with_column([0, 10**400, 0]), "column 'c' of X holds a whole number beyond"),
        (with_column(1j), r"'c' \(complex128\)"),
        (pa.Table.from_pandas(with_column(pd.Timestamp("2020-01-01"))), r"'c' \(timestamp"),
        (pa.Table.from_pandas(with_column(None)), r"'c' \(null\)"),
    ],
)
def test_what_holds_no_numbers_is_refused(ask: Any, X: Any, message: str, booster: Any) -> None:
    with pytest.raises(ValueError, match=message):
        ask(booster, X)


def test_missing_values(booster: Any, data: Data) -> None:
    X = data.fresh.copy()
    X[::3, 0] = np.nan
    labels = (raw_trees(booster, X) > 0.5).astype(int)
    assert np.array_equal(rfsize.tree_outputs(booster, X).votes.counts, reference.counting.votes(labels, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, data: rfsize.tree_outputs(model, None).votes, "X is missing"),
        (lambda model, data: rfsize.inbag(model, data.fresh), "the order of training"),
        (lambda model, data: rfsize.inbag(model, data.X[::-1]), "could not be proven"),
        (lambda model, data: rfsize.tree_outputs(model, data.X + 1.0, oob=True).votes, "could not be proven"),
    ],
)
def test_refusals(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)


def test_a_right_sized_classifier_refuses_them_too(data: Data) -> None:
    model = rfsize.RightSizedClassifier(RandomForestClassifier(random_state=0))
    masked = np.ma.masked_greater(data.X, 1.0)
    huge = data.X.astype(object)
    huge[2, 1] = 10**400
    for X, message in ((masked, "masked values in the columns"), (huge, "whole number beyond double precision")):
        with pytest.raises(ValueError, match=message):
            model.fit(X, data.y)


def test_votes_at_another_threshold_are_other_votes() -> None:
    counts = [[3, 1], [0, 4]]
    assert rfsize.Votes(counts, threshold=0.3) == rfsize.Votes(counts, threshold=0.3)
    assert rfsize.Votes(counts, threshold=0.3) != rfsize.Votes(counts, threshold=0.7)
    assert rfsize.Votes(counts) != rfsize.Votes(counts, threshold=0.5)
