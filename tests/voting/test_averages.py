"""Averaged scores of rows and what parts of the forest add to them, next to plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data
from rfsize.counting.averages import Averages, Parts


def random_scores(n_rows: int, n_trees: int, n_scores: int, n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and who was asked; about row 3 no tree was."""
    rng = np.random.default_rng(n_rows + n_trees)
    asked = rng.random((n_rows, n_trees, n_bags)) < 0.4
    asked[3] = False
    return rng.normal(size=(n_rows, n_trees, n_scores)), asked


def filled(score: np.ndarray, asked: np.ndarray, piece: int) -> Averages:
    """Put in piece by piece; two halves of the rows are stacked."""
    n_rows, n_trees, n_scores = score.shape
    halves = []
    for half in (range(n_rows // 2), range(n_rows // 2, n_rows)):
        averages = Averages.empty(half, n_rows, n_trees, n_scores, asked.shape[2])
        for start in range(0, len(half), piece):
            rows = slice(start, min(start + piece, len(half)))
            averages.fill(rows, score[half][rows], asked[half][rows])
        halves.append(averages)
    return Averages.stacked(halves)


def assert_averages(found: Averages, score: np.ndarray, asked: np.ndarray) -> None:
    n_rows, n_trees, n_scores = score.shape
    begins, every = [0, *found.parts.ends[:-1].tolist()], found.parts.every
    assert found.parts.ends[-1] == n_trees
    assert len(found.total) == len(range(0, n_rows, every))
    for row in range(n_rows):
        for k in range(n_scores):
            bag = min(k, asked.shape[2] - 1)
            heard = [score[row, tree, k] for tree in range(n_trees) if asked[row, tree, bag]]
            assert found.asked[row, bag] == len(heard)
            assert found.mean[row, k] == pytest.approx(sum(heard) / max(len(heard), 1), abs=1e-12)
            if row % every:
                continue
            for part, (begin, end) in enumerate(zip(begins, found.parts.ends.tolist(), strict=True)):
                of_part = [score[row, tree, k] for tree in range(begin, end) if asked[row, tree, bag]]
                assert found.total[row // every, part, k] == pytest.approx(sum(of_part), abs=1e-5)
                assert found.asked_of[row // every, part, bag] == len(of_part)


@pytest.mark.parametrize("piece", [1, 7, 25])
@pytest.mark.parametrize(("n_scores", "n_bags"), [(1, 1), (3, 1), (3, 3)])
def test_means_and_sums_of_parts(n_scores: int, n_bags: int, piece: int) -> None:
    score, asked = random_scores(25, 30, n_scores, n_bags)
    found = filled(score, asked, piece)
    assert (len(found.parts), found.parts.every) == (30, 1), "few trees are parts of their own"
    assert_averages(found, score, asked)


@pytest.mark.parametrize("piece", [1, 4, 10, 25])
@pytest.mark.parametrize(("most", "every"), [(25 * 2 * 22, 1), (25 * 2 * 20, 1), (25 * 2 * 7, 3), (40, 25)])
def test_where_memory_is_short_parts_are_larger_and_rows_fewer(
    most: int, every: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rfsize.counting.averages._SUMS", most)
    score, asked = random_scores(25, 47, 2, 1)
    found = filled(score, asked, piece)
    assert found.parts.every == every
    assert 20 <= len(found.parts) < 30
    assert found.total.size <= most + 20 * 2, "of one row more at most"
    assert_averages(found, score, asked)


def test_rows_that_know_the_parts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.counting.averages._SUMS", 25 * 2 * 7)
    score, asked = random_scores(25, 47, 2, 1)
    averages = filled(score, asked, 25)
    taken = averages.take(2, 5)
    assert taken.rows.tolist() == [6, 9, 12]
    assert np.array_equal(taken.mean, averages.mean[[6, 9, 12]])
    assert np.array_equal(taken.asked, averages.asked[[6, 9, 12]])
    assert np.array_equal(taken.total, averages.total[2:5])
    assert taken.total.dtype == taken.asked_of.dtype == np.float64
    begins = [0, *averages.parts.ends[:-1].tolist()]
    some = [asked[6, begin:end].any() for begin, end in zip(begins, averages.parts.ends, strict=True)]
    assert taken.n_parts_asked[0, 0] == sum(some)
    alone = averages.take(0, 5).where(np.array([False, True, False, False, True]))
    assert alone.rows.tolist() == [3, 12]
    assert not alone.n_parts_asked[0].any()
    assert np.array_equal(alone.total, averages.total[[1, 4]])


@pytest.mark.parametrize(
    ("n_rows", "n_trees", "n_scores"),
    [(0, 10, 1), (1, 1, 1), (1000, 5000, 1), (3_000_000, 200, 1), (50_000, 1000, 1), (10**7, 3000, 26)],
)
def test_parts_are_bounded(n_rows: int, n_trees: int, n_scores: int) -> None:
    parts = Parts.of(n_rows, n_trees, n_scores)
    assert min(n_trees, 20) <= len(parts) <= min(n_trees, 1000)
    assert -(-n_rows // parts.every) * n_scores * len(parts) <= 1.01 * (1 << 26)
    lengths = np.diff(parts.ends, prepend=0)
    assert (lengths.sum(), lengths.max() - lengths.min() <= 1) == (n_trees, True)


def test_what_is_counted_fills_them(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean out of bag is scikit-learn's own."""
    model = RandomForestClassifier(60, max_depth=5, oob_score=True, random_state=0).fit(data.X, data.three)
    monkeypatch.setattr("rfsize.counting.averages._SUMS", 1500 * 3 * 7)
    counted = rfsize.tree_outputs(model, data.X, oob=True)
    averages = counted._evidence.averages
    assert averages is not None
    assert averages.parts.every == 3
    np.testing.assert_allclose(averages.mean, model.oob_decision_function_, atol=1e-12)
    assert np.array_equal(averages.asked[:, 0], counted.votes.asked)
    assert averages.nbytes == sum(
        one.nbytes for one in (averages.mean, averages.asked, averages.total, averages.asked_of)
    )
