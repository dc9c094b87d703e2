"""The urn's masses, priors and posteriors against direct sums, and against simulation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc

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
    wins = urn.winning_masses(np.array(counts) / sum(counts), "forest")
    zero, one = layers(wins[0]), layers(wins[1])
    for asked in range(len(counts)):
        for count in range(asked + 1):
            expected = reference.urn.urn_masses(exact, asked, count)
            assert [zero[asked][count], one[asked][count]] == pytest.approx([float(x) for x in expected], abs=1e-13)


def test_masses_of_a_large_forest_are_the_direct_sums() -> None:
    n_trees = 301
    prior = urn.uniform_prior(n_trees, 2)
    one = layers(urn.winning_masses(prior, "forest")[1])
    exact = [Fraction(1, n_trees + 1)] * (n_trees + 1)
    for asked, count in [(1, 1), (6, 6), (57, 30), (150, 70), (300, 151)]:
        expected = float(reference.urn.urn_masses(exact, asked, count)[1])
        assert one[asked][count] == pytest.approx(expected, rel=1e-13)


def test_six_unanimous_votes_settle_a_uniform_urn_and_five_do_not() -> None:
    zero, one = (layers(wins) for wins in urn.winning_masses(urn.uniform_prior(101, 2), "forest"))
    assert one[6][6] / (zero[6][6] + one[6][6]) > 0.99
    assert one[5][5] / (zero[5][5] + one[5][5]) < 0.99


@pytest.mark.parametrize("n_trees", [1, 2, 7, 12])
def test_ternary_masses_are_the_direct_sums(n_trees: int) -> None:
    generator = np.random.default_rng(n_trees)
    counts = generator.integers(0, 5, (n_trees + 1, n_trees + 1)) * urn.simplex(n_trees)
    counts[0, 0] += 1
    exact = {
        (a, b, n_trees - a - b): Fraction(int(counts[a, b]), int(counts.sum()))
        for a in range(n_trees + 1)
        for b in range(n_trees + 1 - a)
    }
    wins = urn.winning_masses(counts / counts.sum(), "forest")
    planes = np.pad(wins, ((0, 0), (0, 1), (0, 1)))
    for asked in range(n_trees, -1, -1):
        for plane in planes if asked < n_trees else []:
            _core.step_back_plane(plane, asked)
        for a in range(asked + 1):
            for b in range(asked + 1 - a):
                expected = [float(mass) for mass in reference.urn.ternary_masses(exact, (a, b, asked - a - b))]
                assert planes[:, a, b] == pytest.approx(expected, abs=1e-13)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 40), st.sampled_from(["forest", "limit"]))
def test_winning_masses_split_the_prior(n_trees: int, target: str) -> None:
    for n_classes in (2, 3):
        prior = urn.uniform_prior(n_trees, n_classes)
        wins = urn.winning_masses(prior, target)
        assert prior.sum() == pytest.approx(1.0)
        assert wins.sum(axis=0) == pytest.approx(prior, abs=1e-15)
        assert (wins >= 0.0).all()


def test_limit_is_the_posterior_of_the_vote_fraction() -> None:
    wins = urn.winning_masses(np.ones(12), "limit")
    for count in range(12):
        assert wins[1, count] == pytest.approx(1.0 - betainc(count + 1, 12 - count, 0.5), abs=1e-14)


@pytest.mark.parametrize("tally", [(0, 0, 0), (3, 3, 3), (7, 5, 2), (0, 1, 8), (40, 41, 20), (33, 34, 34), (0, 0, 101)])
def test_largest_fraction_against_monte_carlo(tally: tuple[int, int, int]) -> None:
    n = 100_000
    fractions = np.random.default_rng(sum(tally)).dirichlet(np.array(tally) + 1.0, n)
    measured = np.bincount(fractions.argmax(axis=1), minlength=3) / n
    found = urn.largest_fraction(sum(tally))[:, tally[0], tally[1]]
    assert found == pytest.approx(measured, abs=5.0 * 0.5 / np.sqrt(n))


def test_largest_fraction_in_closed_form() -> None:
    """Dirichlet(1, 1, 1) is even; P(class 0 is largest) for (2, 1, 1) is the integral over exponentials."""
    assert urn.largest_fraction(0)[:, 0, 0] == pytest.approx([1 / 3] * 3, abs=1e-12)
    # ∫ x·exp(-x)·(1 - exp(-x))² dx = 1 - 2/4 + 1/9
    assert urn.largest_fraction(1)[0, 1, 0] == pytest.approx(11 / 18, abs=1e-12)


def test_quadrature_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = urn.largest_fraction(25)
    monkeypatch.setattr(urn, "_NODES", 300)
    monkeypatch.setattr(urn, "_SPREAD", 14.0)
    assert np.abs(found - urn.largest_fraction(25)).max() < 1e-10


two_class_counts = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12)


@settings(deadline=None)
@given(two_class_counts.filter(lambda rows: any(map(sum, rows))), st.integers(1, 25))
def test_votes_prior_of_two_classes(rows: list[tuple[int, int]], n_trees: int) -> None:
    histogram: dict[tuple[int, ...], float] = {}
    for zero, one in rows:
        if zero + one:
            tally = reference.urn.scaled_tally(one, zero + one, n_trees)
            histogram[n_trees - tally, tally] = histogram.get((n_trees - tally, tally), 0.0) + 1.0
    expected = reference.urn.smoothed(histogram, [(n_trees - n, n) for n in range(n_trees + 1)])
    prior = urn.votes_prior(Votes(np.array(rows)), n_trees)
    assert prior == pytest.approx([expected[n_trees - n, n] for n in range(n_trees + 1)], abs=1e-14)
    assert prior.sum() == pytest.approx(1.0)


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=6).filter(lambda rows: any(map(sum, rows))),
    st.integers(1, 12),
)
def test_votes_prior_of_three_classes(rows: list[tuple[int, int, int]], n_trees: int) -> None:
    histogram: dict[tuple[int, ...], float] = {}
    for zero, one, two in rows:
        if zero + one + two:
            last = reference.urn.scaled_tally(two, zero + one + two, n_trees)
            middle = reference.urn.scaled_tally(one * (n_trees - last), (zero + one) * n_trees or 1, n_trees)
            tally = (n_trees - last - middle, middle, last)
            assert max(
                abs(t / n_trees - c / (zero + one + two)) for t, c in zip(tally, (zero, one, two), strict=True)
            ) <= (1.0 / n_trees)
            histogram[tally] = histogram.get(tally, 0.0) + 1.0
    tallies = [(a, b, n_trees - a - b) for a in range(n_trees + 1) for b in range(n_trees + 1 - a)]
    expected = reference.urn.smoothed(histogram, tallies, urn.three_class_reach(n_trees))
    prior = urn.votes_prior(Votes(np.array(rows)), n_trees)
    for a, b, c in tallies:
        assert prior[a, b] == pytest.approx(expected[a, b, c], abs=1e-14)
    assert not prior[~urn.simplex(n_trees)].any()


@pytest.mark.parametrize("n_trees", [11, 101, 201])
def test_windows_hold_the_same_share_of_the_tallies(n_trees: int) -> None:
    for reach, enough in ((urn.three_class_reach(n_trees), True), (urn.three_class_reach(n_trees) - 1, False)):
        steps = range(-reach, reach + 1)
        window = sum(abs(i + j) <= reach for i in steps for j in steps)
        assert (window / ((n_trees + 1) * (n_trees + 2) / 2) >= 5 / (n_trees + 1)) == enough


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
        (np.ones((6, 6)), "exceeds the 5 trees"),
    ],
)
def test_bad_priors_are_refused(prior: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        urn.checked_prior(prior, 5)


def test_huge_weights_do_not_overflow() -> None:
    assert urn.checked_prior([1e308] * 6, 5) == pytest.approx([1 / 6] * 6)


def test_votes_without_a_vote_are_refused() -> None:
    for classes in (2, 3):
        with pytest.raises(ValueError, match="no row with a vote"):
            urn.votes_prior(Votes(np.zeros((4, classes))), 11)
    with pytest.raises(ValueError, match="no row with a vote"):
        urn.pair_prior(Votes(np.zeros((4, 5))), 11)
