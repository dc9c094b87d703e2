"""Built stop tables against the papers' rule, against all orders of the votes, and for weighted votes."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference.stopping
import reference.urn
from rfsize import StopTable, Votes
from rfsize.exceptions import LabelsOnlyWarning

ALPHAS = st.sampled_from([Fraction(1, 3), Fraction(9, 10), Fraction(99, 100), Fraction(999, 1000)])
SEEDS = st.integers(0, 2**32)


def random_prior(rng: np.random.Generator, n_trees: int) -> np.ndarray:
    """Weights over the votes for class 1, some of them zero."""
    prior = (rng.random(n_trees + 1) < rng.choice([0.2, 0.5, 1.0])) * rng.gamma(
        rng.choice([0.1, 1.0]), size=n_trees + 1
    )
    prior[rng.integers(n_trees + 1)] += 1.0
    return prior


def plausible_votes(n_classes: int, seed: int = 0, n_rows: int = 300) -> Votes:
    """Out-of-bag votes, of rows that different numbers of trees voted on."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(n_classes, 0.3), n_rows)
    return Votes(np.array([rng.multinomial(rng.binomial(60, 0.37), p) for p in share]), n_trees=60)


def random_table(n_trees: int, n_classes: int, alpha: float, seed: int) -> StopTable:
    prior = plausible_votes(n_classes, seed) if seed % 2 else "uniform"
    return StopTable.build(n_trees, alpha=alpha, prior=prior, n_classes=n_classes)


tables = st.builds(
    random_table,
    st.integers(1, 14),
    st.integers(2, 5),
    st.sampled_from([0.05, 0.3, 0.9, 0.99, 0.99999, 1.0]),
    st.integers(0, 20),
)


def drawn_orders(tallies: list[int], n_trees: int, rng: np.random.Generator) -> np.ndarray:
    """Votes of rows with so many for class 1, each in a random order."""
    return rng.permuted((np.arange(n_trees) < np.array(tallies)[:, None]).astype(int), axis=1)


def assert_follows(table: StopTable, votes: np.ndarray, rule: Any) -> None:
    labels, n_used = table.apply(votes)
    for row, label, trees in zip(votes.tolist(), labels.tolist(), n_used.tolist(), strict=True):
        expected = rule(row)
        assert expected in (None, (label, trees))


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 14), ALPHAS)
def test_two_classes_follow_the_papers_rule(seed: int, n_trees: int, alpha: Fraction) -> None:
    rng = np.random.default_rng(seed)
    prior = random_prior(rng, n_trees)
    exact = reference.urn.by_ones([Fraction(weight) for weight in prior.tolist()])
    table = StopTable.build(n_trees, alpha=float(alpha), prior=prior)
    votes = drawn_orders(np.flatnonzero(prior).repeat(3).tolist(), n_trees, rng)  # tallies that can occur
    assert_follows(table, votes, lambda row: reference.stopping.papers_rule(exact, row, alpha))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=40), st.integers(2, 16), ALPHAS, SEEDS)
def test_priors_from_votes_are_scaled_and_smoothed(ones: list[int], n_trees: int, alpha: Fraction, seed: int) -> None:
    """As rfsize smooths them, and as the authors do; halves of votes are rounded down."""
    rows, rng = [(40 - count, count) for count in ones], np.random.default_rng(seed)
    histogram = reference.urn.tallies_of(rows, n_trees)
    theirs = reference.urn.smoothed_by_the_authors(histogram)
    for prior, given_prior in (
        (reference.urn.smoothed(histogram), Votes(np.array(rows))),
        (theirs, [float(weight) for weight in theirs]),
    ):
        table = StopTable.build(n_trees, alpha=float(alpha), prior=given_prior)
        possible = [tally for tally, weight in enumerate(prior) if weight]
        votes = drawn_orders(possible * 3, n_trees, rng)
        exact = reference.urn.by_ones(prior)
        assert_follows(table, votes, lambda row, exact=exact: reference.stopping.papers_rule(exact, row, alpha))


def tallies_of(n_trees: int, n_classes: int) -> list[tuple[int, ...]]:
    """All tallies of so many votes."""
    return [tally for tally in product(range(n_trees + 1), repeat=n_classes) if sum(tally) == n_trees]


@settings(max_examples=40)
@given(SEEDS, st.integers(3, 4), st.integers(1, 7), ALPHAS, st.booleans())
def test_more_classes_follow_the_papers_rule(
    seed: int, n_classes: int, n_trees: int, alpha: Fraction, is_uniform: bool
) -> None:
    rng = np.random.default_rng(seed)
    prior: Any = "uniform"
    exact = dict.fromkeys(tallies_of(n_trees, n_classes), Fraction(1))
    if not is_uniform:
        counts = rng.multinomial(n_trees, rng.dirichlet(np.ones(n_classes)), rng.integers(1, 6))
        prior, rows = Votes(counts), list(map(tuple, counts.tolist()))
        exact = {row: Fraction(rows.count(row)) for row in set(rows)}
        exact = reference.urn.redrawn(exact, round(n_trees / 3))
    table = StopTable.build(n_trees, alpha=float(alpha), prior=prior, n_classes=n_classes)
    # Of tallies that can occur.
    tallies = [list(exact)[index] for index in rng.integers(len(exact), size=20)]
    votes = np.array([rng.permutation(np.repeat(np.arange(n_classes), tally)) for tally in tallies])
    assert_follows(table, votes, lambda row: reference.stopping.papers_rule(exact, row, alpha))


def orders_of(tallies: np.ndarray) -> np.ndarray:
    """In how many orders the votes of each tally may come."""
    return np.array([math.factorial(sum(row)) // math.prod(map(math.factorial, row)) for row in tallies.tolist()])


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([(9, 2), (7, 2), (4, 2), (1, 2), (6, 3), (5, 4)]), st.sampled_from([0.3, 0.9, 0.99, 1.0]))
def test_figures_are_those_of_all_orders(seed: int, size: tuple[int, int], alpha: float) -> None:
    """By a uniform prior, and of two classes by any."""
    n_trees, n_classes = size
    votes = np.array(list(product(range(n_classes), repeat=n_trees)))
    counts = np.stack([(votes == label).sum(axis=1) for label in range(n_classes)], axis=1)
    prior = np.ones(n_trees + 1) if n_classes > 2 or seed % 2 else random_prior(np.random.default_rng(seed), n_trees)
    weight = (prior[counts[:, 1]] if n_classes == 2 else 1.0) / orders_of(counts)
    given_prior = "uniform" if np.ptp(prior) == 0.0 else prior
    table = StopTable.build(n_trees, alpha=alpha, prior=given_prior, n_classes=n_classes)
    weight, winner = weight / weight.sum(), counts.argmax(axis=1)
    labels, n_used = table.apply(votes)
    assert table.expected_trees() == pytest.approx(weight @ n_used)
    assert table.expected_disagreement() == pytest.approx(weight @ (labels != winner), abs=1e-12)
    assert table.expected_disagreement() <= 1.0 - alpha + 1e-12
    for outcome in table.by_class():
        of_class = weight * (winner == outcome.label)
        figures = [outcome.share, outcome.share * outcome.disagreement, outcome.share * outcome.trees]
        expected = [of_class.sum(), of_class @ (labels != winner), of_class @ n_used]
        assert np.nan_to_num(figures) == pytest.approx(expected, abs=1e-12)


def test_four_classes_exactly() -> None:
    assert StopTable.build(15, alpha=0.9, n_classes=4).expected_trees() == pytest.approx(8.54, abs=0.005)


@settings(max_examples=30)
@given(SEEDS, st.integers(21, 24), st.integers(2, 25), ALPHAS, st.booleans())
def test_too_many_tallies_go_by_the_two_leaders(
    seed: int, n_classes: int, n_trees: int, alpha: Fraction, is_uniform: bool
) -> None:
    rng = np.random.default_rng(seed)
    prior: Any = "uniform"
    exact = [Fraction(1, n_trees + 1)] * (n_trees + 1)
    if not is_uniform:
        counts = rng.multinomial(30, rng.dirichlet(np.full(n_classes, 0.1)), 200)
        prior = Votes(counts)
        exact = reference.urn.smoothed(reference.urn.pair_tallies_of(list(map(tuple, counts.tolist())), n_trees))
        assume(all(exact))
    table = StopTable.build(n_trees, alpha=float(alpha), prior=prior, n_classes=n_classes)
    votes = rng.integers(0, rng.integers(1, n_classes + 1, (20, 1)), (20, n_trees))
    assert_follows(table, votes, lambda row: reference.stopping.leaders_rule(exact, row, n_classes, alpha))


@settings(max_examples=100)
@given(tables, SEEDS)
def test_only_the_leader_is_answered(table: StopTable, seed: int) -> None:
    votes = np.random.default_rng(seed).integers(0, table.n_classes, (50, table.n_trees))
    labels, n_used = table.apply(votes)
    assert labels.dtype == n_used.dtype == np.int64
    for row, label, trees in zip(votes, labels.tolist(), n_used.tolist(), strict=True):
        counts = np.bincount(row[:trees], minlength=table.n_classes)
        assert label == counts.argmax()
        assert trees == table.n_trees or np.count_nonzero(counts == counts.max()) == 1


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("n_trees", [1, 2, 5, 6])
def test_lossless_tables_stop_as_early_as_is_safe(n_classes: int, n_trees: int) -> None:
    votes = np.array(list(product(range(n_classes), repeat=n_trees)))
    for prior in ("uniform", plausible_votes(n_classes)):
        table = StopTable.build(n_trees, alpha=1.0, prior=prior, n_classes=n_classes)
        assert table.expected_disagreement() == 0.0
        labels, n_used = table.apply(votes)
        counts = np.stack([(votes == label).sum(axis=1) for label in range(n_classes)], axis=1)
        assert labels.tolist() == counts.argmax(axis=1).tolist()
        for row, trees in zip(votes[::7].tolist(), n_used[::7].tolist(), strict=True):
            seen = [[row[:before].count(label) for label in range(n_classes)] for before in range(1, trees + 1)]
            settled = [reference.stopping.settled(counts, n_trees - sum(counts)) >= 0 for counts in seen]
            assert settled == [False] * (trees - 1) + [True]


@pytest.mark.parametrize(("n_trees", "n_classes"), [(101, 4), (301, 3), (40, 5)])
def test_more_classes_disagree_less_than_they_may(n_trees: int, n_classes: int) -> None:
    rng = np.random.default_rng(9)
    for prior, concentration in (("uniform", 1.0), (plausible_votes(n_classes, seed=1), 0.3)):
        table = StopTable.build(n_trees, alpha=0.95, prior=prior, n_classes=n_classes)
        tallies = rng.multinomial(n_trees, rng.dirichlet(np.full(n_classes, concentration), 3000))
        votes = rng.permuted(np.repeat(np.tile(np.arange(n_classes), 3000), tallies.ravel()).reshape(3000, -1), axis=1)
        labels, n_used = table.apply(votes)
        assert (labels != tallies.argmax(axis=1)).mean() <= 0.05
        lossless = StopTable.build(n_trees, alpha=1.0, n_classes=n_classes)
        assert n_used.mean() < lossless.apply(votes)[1].mean()


def test_six_unanimous_votes_stop_and_five_do_not() -> None:
    """Of 101 trees at α = 0.99, as the papers say."""
    votes = np.tile([[0], [1]], (1, 101))
    assert StopTable.build(101, alpha=0.99).apply(votes)[1].tolist() == [6, 6]


def test_a_rare_class_is_not_lost_to_the_prior() -> None:
    rng = np.random.default_rng(0)
    ones = rng.binomial(37, np.r_[np.full(19_980, 0.1), np.full(20, 0.9)])
    table = StopTable.build(101, prior=Votes(np.stack([37 - ones, ones], axis=1), n_trees=101))
    labels, n_used = table.apply(np.ones((1, 101), dtype=int))
    assert labels.tolist() == [1]
    assert n_used[0] > 1
    votes = Votes([[99, 2]] * 9700 + [[48, 53]] * 300, ["no", "yes"])
    with pytest.warns(LabelsOnlyWarning, match="'yes'"):
        built = StopTable.build(101, alpha=0.95, prior=votes)
    assert built.classes == ("no", "yes")


def test_large_tables() -> None:
    assert StopTable.build(3001).expected_disagreement() <= 0.01
    labels, n_used = StopTable.build(3001, n_classes=4).apply(np.full((2, 3001), 3))
    assert labels.tolist() == [3, 3]
    assert n_used.max() < 100


@pytest.mark.parametrize("n_classes", [2, 4])
def test_votes_of_any_type_and_number(n_classes: int) -> None:
    table, rng = StopTable.build(31, n_classes=n_classes), np.random.default_rng(0)
    votes = rng.integers(0, n_classes, (90_000, 31))  # more than one block
    labels, n_used = table.apply(votes)
    for part in (slice(0, 1), slice(50_000, 70_000)):
        for dtype in (np.uint8, np.int8, np.int32, np.int64):
            again, trees = table.apply(votes[part].astype(dtype))
            assert np.array_equal(again, labels[part])
            assert np.array_equal(trees, n_used[part])
    assert [len(part) for part in table.apply(votes[:0])] == [0, 0]


def test_equality() -> None:
    assert StopTable.build(101) == StopTable.build(101)
    assert StopTable.build(101) != StopTable.build(101, alpha=0.9)
    assert StopTable.build(101) != "table"


# ----------------------------------------------------------------------------------------------------- weighted votes


@st.composite
def member_weights(draw: st.DrawFn, largest: int = 12) -> np.ndarray:
    """Some of them zero: whole numbers, tenths whose sums are rounded, or of any magnitude."""
    kinds = [
        st.integers(0, 5).map(float),
        st.integers(0, 9).map(lambda tenths: tenths * 0.1),
        st.floats(0.0, 3.0),
        st.floats(-320.0, 290.0).map(lambda exponent: 10.0**exponent),
    ]
    weights = np.array(draw(st.lists(draw(st.sampled_from(kinds)), min_size=1, max_size=largest)))
    if not weights.any():
        weights[draw(st.integers(0, len(weights) - 1))] = 1.0
    return weights


@settings(max_examples=200)
@given(member_weights(), st.integers(2, 5), SEEDS)
def test_weighted_labels_are_those_of_all_members(weights: np.ndarray, n_classes: int, seed: int) -> None:
    """Computed as AdaBoost does, whose rounding decides level scores; equal weights are a plain vote."""
    votes = np.random.default_rng(seed).integers(0, n_classes, (20, len(weights)))
    labels, n_used = StopTable.lossless(weights, n_classes=n_classes).apply(votes)
    for row, label, members in zip(votes.tolist(), labels.tolist(), n_used.tolist(), strict=True):
        is_plain = np.unique(weights[weights > 0.0]).size == 1
        plain = np.bincount(row, weights=weights > 0.0, minlength=n_classes).argmax()
        assert label == (plain if is_plain else reference.stopping.weighted_vote(weights.tolist(), row, n_classes))
        soonest = reference.stopping.weighted_stop(weights.tolist(), row, n_classes)[1]
        assert soonest <= members <= np.count_nonzero(weights)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(any), st.sampled_from([2, 3, 5]), SEEDS)
def test_whole_weights_stop_as_early_as_can_be(weights: list[int], n_classes: int, seed: int) -> None:
    votes = np.random.default_rng(seed).integers(0, n_classes, (20, len(weights)))
    exact = [float(weight) for weight in weights]
    table = StopTable.lossless(weights, n_classes=n_classes)
    assert_follows(table, votes, lambda row: reference.stopping.weighted_stop(exact, row, n_classes))


def test_many_members() -> None:
    weights, rng = np.random.default_rng(0).random(10_001), np.random.default_rng(1)
    votes = rng.integers(0, 3, (20, 10_001))
    labels, _ = StopTable.lossless(weights, n_classes=3).apply(votes)
    assert labels.tolist() == [reference.stopping.weighted_vote(weights.tolist(), row, 3) for row in votes.tolist()]
