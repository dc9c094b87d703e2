"""Mean and scatter of the trees' scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.scores import assert_scores
from rfsize.counting.scores import Scores


def drawn(n_rows: int, n_trees: int, n_scores: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all trees, (n_rows, n_trees, n_scores), and which of them may vote."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(n_rows, n_trees, n_scores)) * rng.uniform(0.1, 10.0, size=n_scores) + 3.0
    return score, rng.random((n_rows, n_trees)) < 0.5


@pytest.mark.parametrize("n_scores", [1, 2, 4])
def test_of_each_row_those_that_may_vote(n_scores: int) -> None:
    score, may_vote = drawn(30, 9, n_scores, n_scores)
    may_vote[3], may_vote[4, 1:] = False, False
    found = Scores.of(score, may_vote)
    assert_scores(found, score.transpose(1, 0, 2), may_vote.T, rtol=1e-9, atol=1e-9)
    assert (found.mean[3] == 0.0).all()
    assert (found.scatter[4] == 0.0).all()
    assert (len(found), found.n_scores) == (30, n_scores)


@given(st.integers(0, 6), st.integers(0, 6), st.sampled_from([1, 2, 3]), st.integers(0, 2**31))
def test_parts_of_a_forest_add_up(first: int, more: int, n_scores: int, seed: int) -> None:
    score, may_vote = drawn(7, first + more, n_scores, seed)
    parts = [Scores.of(score[:, trees], may_vote[:, trees]) for trees in (slice(0, first), slice(first, first + more))]
    whole, added = Scores.of(score, may_vote), parts[0].plus(parts[1])
    assert np.array_equal(added.asked, whole.asked)
    assert added.mean == pytest.approx(whole.mean)
    assert added.scatter == pytest.approx(whole.scatter, abs=1e-9)


@pytest.mark.parametrize("n_scores", [1, 2, 4])
def test_trees_that_are_added_one_by_one_are_those_of_all(n_scores: int) -> None:
    score, may_vote = drawn(30, 40, n_scores, n_scores)
    may_vote[3] = False
    score[~may_vote] = np.nan
    found = Scores.nothing(30, n_scores)
    for tree in range(40):
        found.add(np.asfortranarray(score[:, tree]), may_vote[:, tree])
    assert_scores(found, score.transpose(1, 0, 2), may_vote.T, rtol=1e-12, atol=1e-12)
    assert (found.mean[3] == 0.0).all()


def test_nothing_adds_nothing() -> None:
    score, may_vote = drawn(5, 4, 3, 0)
    some = Scores.of(score, may_vote)
    for both in (some.plus(Scores.nothing(5, 3)), Scores.nothing(5, 3).plus(some)):
        assert both.mean == pytest.approx(some.mean)
        assert both.scatter == pytest.approx(some.scatter)


def test_tiny_scatter_about_a_large_mean_is_not_lost() -> None:
    ahead = np.array([1e-4, -1e-4, 3e-4, 0.0])
    one_by_one = Scores.nothing(1, 1)
    for score in 1e6 + ahead:
        one_by_one = one_by_one.plus(Scores.of(np.full((1, 1, 1), score)))
    assert one_by_one.scatter[0, 0] == pytest.approx(np.sum((ahead - ahead.mean()) ** 2), rel=1e-5)


def test_stacked_and_taken_rows() -> None:
    score, may_vote = drawn(9, 6, 2, 1)
    whole = Scores.of(score, may_vote)
    stacked = Scores.stacked([whole.take(np.arange(4)), whole.take(np.arange(9) >= 4)])
    for found, expected in zip(stacked._arrays(), whole._arrays(), strict=True):
        assert np.array_equal(found, expected)


def test_covariance_of_any_pair_of_classes() -> None:
    score, may_vote = drawn(6, 8, 4, 2)
    may_vote[:, :2] = True
    may_vote[0, 1:] = False
    scores = Scores.of(score, may_vote)
    for one in range(4):
        for other in range(4):
            found = scores.covariance(one, other)
            assert np.isnan(found[0])
            for row in range(1, 6):
                heard = score[row][may_vote[row]]
                assert found[row] == pytest.approx(np.cov(heard.T)[one, other])
    picked = scores.covariance(np.array([0, 1, 2, 3, 2, 1]), np.array([0, 3, 1, 3, 0, 0]))
    assert picked[1:] == pytest.approx(
        [scores.covariance(*pair)[row] for row, pair in enumerate([(1, 3), (2, 1), (3, 3), (2, 0), (1, 0)], start=1)]
    )
