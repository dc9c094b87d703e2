"""Counts of votes, against votes counted one tree and one row at a time."""

from __future__ import annotations

import copy
import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import reference.counting
from rfsize import Votes

any_counts = arrays.arrays(np.int32, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=st.integers(0, 4))


@given(any_counts)
def test_winner_gives_ties_to_the_lowest_index(counts: np.ndarray) -> None:
    assert Votes(counts).winner().tolist() == reference.counting.winner(counts)


@given(any_counts)
def test_fractions(counts: np.ndarray) -> None:
    for fractions, row in zip(Votes(counts).fractions(), counts.tolist(), strict=True):
        n_votes = sum(row)
        np.testing.assert_allclose(fractions, [votes / n_votes if n_votes else np.nan for votes in row])


@given(any_counts, st.data())
def test_take(counts: np.ndarray, data: st.DataObject) -> None:
    votes = Votes(counts, n_trees=20)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts))))
    assert votes.take(mask) == Votes(counts[mask], n_trees=20)
    assert votes.take(slice(1, None)) == Votes(counts[1:], n_trees=20)


def test_types_labels_and_copies() -> None:
    votes = Votes([[3, 1], [2, 2]], classes=["ham", "spam"])
    assert votes.counts.dtype == votes.n_votes.dtype == np.int32
    assert (votes.n_trees, len(votes)) == (4, 2)
    assert votes.winner().tolist() == ["ham", "ham"]
    assert pickle.loads(pickle.dumps(votes)) == votes == copy.deepcopy(votes)


def test_equality_knows_classes_trees_and_thresholds() -> None:
    counts = [[3, 1], [2, 2]]
    assert Votes(counts, threshold=0.3) == Votes(counts, threshold=0.3)
    others = [Votes(counts, threshold=0.3), Votes(counts, classes=["a", "b"]), Votes(counts, n_trees=5), "votes"]
    assert all(Votes(counts) != other for other in others)
    assert Votes(counts, threshold=0.3) != Votes(counts, threshold=0.7)
