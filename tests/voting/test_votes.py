"""Counts of votes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import reference.counting
from rfsize import Votes

two_class_counts = arrays.arrays(np.int32, st.tuples(st.integers(1, 30), st.just(2)), elements=st.integers(0, 6))
any_counts = arrays.arrays(np.int32, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=st.integers(0, 4))


@given(two_class_counts)
def test_histogram(counts: np.ndarray) -> None:
    cells = Votes(counts).histogram()
    found = dict(zip(zip(cells.count.tolist(), cells.asked.tolist(), strict=True), cells.rows.tolist(), strict=True))
    assert found == reference.counting.histogram(counts)


def test_histogram_of_few_rows_and_many_trees_is_the_same() -> None:
    counts = np.array([[40_000, 2], [40_000, 2], [0, 0], [1, 0]])
    cells = Votes(counts).histogram()
    assert (cells.count.tolist(), cells.asked.tolist(), cells.rows.tolist()) == ([0, 2], [1, 40_002], [1, 2])


@given(any_counts)
def test_winner_gives_ties_to_the_lowest_index(counts: np.ndarray) -> None:
    assert Votes(counts).winner().tolist() == reference.counting.winner(counts)


@given(any_counts)
def test_fractions_sum_to_one(counts: np.ndarray) -> None:
    votes = Votes(counts)
    total = votes.fractions().sum(axis=1)
    assert np.allclose(total[votes.asked > 0], 1.0)
    assert np.isnan(total[votes.asked == 0]).all()


@given(any_counts)
def test_merge_and_concat(counts: np.ndarray) -> None:
    votes = Votes(counts, n_trees=20)
    assert votes.merge(votes) == Votes(2 * counts, n_trees=40)
    assert votes.concat(votes) == Votes(np.vstack([counts, counts]), n_trees=20)


def test_types_labels_and_copies() -> None:
    votes = Votes([[3, 1], [2, 2]], classes=["ham", "spam"])
    assert votes.counts.dtype == np.int32
    assert votes.asked.dtype == np.int32
    assert votes.n_trees == 4
    assert votes.winner().tolist() == ["ham", "ham"]
    assert len(votes) == 2
    assert "2 rows, 2 classes, 4 trees" in repr(votes)
    assert pickle.loads(pickle.dumps(votes)) == votes == copy.deepcopy(votes)
    assert votes != Votes([[3, 1], [2, 2]])
    assert votes != "votes"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Votes([1, 2]), "shape"),
        (lambda: Votes([[1], [2]]), "shape"),
        (lambda: Votes([[1.5, 2.0]]), "whole numbers"),
        (lambda: Votes([[-1, 2]]), "whole numbers"),
        (lambda: Votes([[np.nan, 2]]), "whole numbers"),
        (lambda: Votes([[2**40, 2]]), "whole numbers"),
        (lambda: Votes([["a", "b"]]), "whole numbers"),
        (lambda: Votes([[1, 2]], classes=["a"]), "classes"),
        (lambda: Votes([[1, 2]], classes=["a", "a"]), "classes"),
        (lambda: Votes([[1, 2]], n_trees=2), "more than the 2 trees"),
        (lambda: Votes([[1, 2]]).merge(Votes([[1, 2], [1, 2]])), "concat appends rows"),
        (lambda: Votes([[1, 2]]).concat(Votes([[1, 1]])), "merge adds trees"),
        (lambda: Votes([[1, 2]]).merge(Votes([[1, 2]], classes=[1, 2])), "class labels differ"),
        (lambda: Votes([[1, 2, 3]]).histogram(), "two classes"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
