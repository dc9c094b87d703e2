"""The urn's masses and priors against direct sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference.stopping
import reference.urn
from rfsize import Votes, _core
from rfsize.stopping import urn

weights = st.lists(st.integers(0, 20), min_size=2, max_size=26).filter(any)


def layers(row: np.ndarray) -> list[np.ndarray]:
    """A mass in every layer, from none to all votes asked."""
    n_trees = len(row) - 1
    found = [row]
    for asked in range(n_trees - 1, -1, -1):
        padded = np.append(found[0], 0.0)
        _core.step_back(padded, asked)
        found.insert(0, padded[: asked + 1])
    return found


@settings(deadline=None, max_examples=40)
@given(weights)
def test_masses_are_the_direct_sums(counts: list[int]) -> None:
    exact = [Fraction(count, sum(counts)) for count in counts]
    wins = urn.winning_masses(np.array(counts) / sum(counts))
    zero, one = layers(wins[0]), layers(wins[1])
    for asked in range(len(counts)):
        for count in range(asked + 1):
            expected = reference.urn.urn_masses(exact, asked, count)
            assert [zero[asked][count], one[asked][count]] == pytest.approx([float(x) for x in expected], abs=1e-13)


def test_masses_of_a_large_forest_are_the_direct_sums() -> None:
    n_trees = 301
    one = layers(urn.winning_masses(urn.uniform_prior(n_trees))[1])
    exact = [Fraction(1, n_trees + 1)] * (n_trees + 1)
    for asked, count in [(1, 1), (6, 6), (57, 30), (150, 70), (300, 151)]:
        expected = float(reference.urn.urn_masses(exact, asked, count)[1])
        assert one[asked][count] == pytest.approx(expected, rel=1e-13)


def test_six_unanimous_votes_settle_a_uniform_urn_and_five_do_not() -> None:
    zero, one = (layers(wins) for wins in urn.winning_masses(urn.uniform_prior(101)))
    assert one[6][6] / (zero[6][6] + one[6][6]) > 0.99
    assert one[5][5] / (zero[5][5] + one[5][5]) < 0.99


two_class_counts = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12)


@settings(deadline=None)
@given(two_class_counts.filter(lambda rows: any(map(sum, rows))), st.integers(1, 25))
def test_votes_prior_of_two_classes(rows: list[tuple[int, int]], n_trees: int) -> None:
    expected = reference.urn.smoothed(reference.urn.tallies_of(rows, n_trees))
    prior = urn.votes_prior(Votes(np.array(rows)), n_trees)
    assert prior == pytest.approx([float(weight) for weight in expected], abs=1e-14)
    assert prior.sum() == pytest.approx(1.0)


def test_a_tie_of_out_of_bag_votes_counts_for_class_0() -> None:
    for n_trees in (101, 103, 1001):
        tally = urn._rounded(np.array([25 * n_trees]), np.array([50]))
        assert tally.tolist() == [n_trees // 2]


def test_pair_prior_is_symmetric_and_of_the_two_leaders() -> None:
    prior = urn.pair_prior(Votes([[10, 1, 30, 0], [0, 0, 0, 0], [0, 40, 0, 0]]), 40)
    assert prior == pytest.approx(prior[::-1])
    expected = np.zeros(41)
    expected[[10, 30, 0, 40]] = 0.25
    assert prior == pytest.approx(urn.smoothed(expected))


def test_lossless_bounds_by_trying_all_completions() -> None:
    for n_trees in range(1, 12):
        lower, upper = urn.lossless_bounds(n_trees)
        for asked in range(1, n_trees + 1):
            for count in range(asked + 1):
                settled = reference.stopping.settled([asked - count, count], n_trees - asked)
                assert (0 if count <= lower[asked] else 1 if count >= upper[asked] else -1) == settled


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([1.0, 2.0], "shape"),
        (["a"] * 6, "dtype"),
        ([1.0, np.nan, 1.0, 1.0, 1.0, 1.0], "finite"),
        ([1.0, np.inf, 1.0, 1.0, 1.0, 1.0], "finite"),
        ([1.0, -1.0, 1.0, 1.0, 1.0, 1.0], "non-negative"),
        ([0.0] * 6, "not all zero"),
        (np.ones((6, 6)), "shape"),
    ],
)
def test_bad_priors_are_refused(prior: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        urn.checked_prior(prior, 5)


def test_huge_weights_do_not_overflow() -> None:
    assert urn.checked_prior([1e308] * 6, 5) == pytest.approx([1 / 6] * 6)


def test_votes_without_a_vote_are_refused() -> None:
    with pytest.raises(ValueError, match="no row with a vote"):
        urn.votes_prior(Votes(np.zeros((4, 2))), 11)
    with pytest.raises(ValueError, match="no row with a vote"):
        urn.pair_prior(Votes(np.zeros((4, 5))), 11)
