"""Sizes of forests of many classes from few votes, and which estimate "auto" takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference.deconvolution
import reference.multiclass
import rfsize
from helpers.reports import agreement, of_all_classes
from rfsize import theory
from rfsize.estimation import deconvolution, hard
from rfsize.estimation.pairwise import ClassPair, SmoothPairs
from rfsize.theory import multiclass


def fractions(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Vote fractions of four classes, two of which are seldom far apart."""
    return rng.dirichlet([0.3, 0.5, 0.5, 0.2], size=n_rows)


def drawn(pi: np.ndarray, n_trees: int, seed: int) -> rfsize.Votes:
    """Out-of-bag votes of rows with these fractions."""
    rng = np.random.default_rng(seed)
    return rfsize.Votes(rng.multinomial(rng.binomial(n_trees, 0.37, len(pi)), pi), n_trees=n_trees)


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    return fractions(20_000, np.random.default_rng(0))


def true_size(population: np.ndarray, alpha: float) -> int | float:
    return theory.smallest_size(
        lambda size: float(multiclass.disagreement(size, population).mean()), 1.0 - alpha, guess=101, odd=True
    )


@pytest.mark.parametrize("n_trees", [100, 1000])
def test_recovers_the_size_from_many_rows(population: np.ndarray, n_trees: int) -> None:
    report = rfsize.size(drawn(population, n_trees, 0), alpha=0.99, method="smooth")
    for alpha in (0.9, 0.95, 0.99, 0.995):
        assert report.size_at(alpha) == pytest.approx(true_size(population, alpha), rel=0.2, abs=2)


def test_nearer_than_the_plug_in_from_few_votes(population: np.ndarray) -> None:
    truth = true_size(population, 0.99)
    errors: dict[str, list[float]] = {"smooth": [], "plugin": []}
    for seed in range(8):
        votes = drawn(population[300 * seed : 300 * seed + 300], 100, seed)
        for estimator, found in errors.items():
            found.append(min(abs(math.log(rfsize.size(votes, method=estimator).n_trees / truth)), 5.0))
    assert np.mean(errors["smooth"]) < min(np.mean(errors["plugin"]), 0.4)


def test_interval_covers_the_truth_as_often_as_it_says(population: np.ndarray) -> None:
    truth = true_size(population, 0.99)
    covered = 0
    for seed in range(50):
        low, high = rfsize.size(drawn(population[300 * seed : 300 * seed + 300], 100, seed), method="smooth").interval
        covered += low <= truth <= high
    assert 44 <= covered <= 50


def test_two_classes_of_three_are_two() -> None:
    rng = np.random.default_rng(1)
    two = rng.binomial(37, rng.beta(0.3, 0.5, size=300))
    given_as_two = rfsize.Votes(np.stack([37 - two, two], axis=1))
    given_as_three = rfsize.Votes(np.stack([np.zeros(300, dtype=int), 37 - two, two], axis=1))
    reports = [rfsize.size(votes, method="smooth") for votes in (given_as_two, given_as_three)]
    assert reports[1].n_trees == reports[0].n_trees
    assert np.log(reports[1].interval) == pytest.approx(np.log(reports[0].interval), abs=0.05)
    for n_trees in (1, 3, 101, 10_001):
        assert agreement(reports[1], n_trees) == pytest.approx(agreement(reports[0], n_trees), abs=2e-7)


def test_votes_for_neither_make_a_forest_smaller_than_it_is() -> None:
    """Where half of the votes are for classes that never lead, it takes twice the trees."""
    rng = np.random.default_rng(2)
    two = np.clip(rng.binomial(40, rng.beta(2, 2, size=2000)), 2, 38)
    alone = rfsize.Votes(np.stack([40 - two, two], axis=1))
    scattered = rfsize.Votes(np.column_stack([alone.counts, *[np.full(2000, 2)] * 20]))
    sizes = [float(rfsize.size(votes, alpha=0.98, method="smooth").n_trees) for votes in (alone, scattered)]
    assert sizes[1] == pytest.approx(2 * sizes[0], rel=0.03)


def contest() -> ClassPair:
    counts = drawn(fractions(200, np.random.default_rng(4)), 40, 4).counts.astype(np.int64)
    leader, rival = np.sort(counts, axis=1)[:, ::-1].T[:2]
    return ClassPair.of(leader, rival, counts.sum(axis=1), 0)


@pytest.mark.parametrize("n_trees", [3, 4, 25])
def test_overtaking_is_the_sum_over_the_votes_for_either(n_trees: int) -> None:
    given = contest()
    found = given.overtaken(n_trees)
    for cell in range(5, len(found), 60):
        share, part = given.share[cell], given.density.fractions[cell]
        pair = [
            reference.multiclass.overtakes(n_trees, share * (1 - part), share * part, wins) for wins in (False, True)
        ]
        assert found[cell] == pytest.approx(sum(pair) / 2.0, abs=3e-8)


def test_shares_are_those_of_rows_that_may_have_the_fraction() -> None:
    """Rows near a tie give half of their votes to other classes; the others none."""
    asked = np.full(400, 100)
    leader = np.repeat([26, 97], 200)
    rival = np.repeat([24, 3], 200)
    found = ClassPair.of(leader, rival, asked, 0)
    assert np.interp(0.48, found.density.fractions[::-1], found.share[::-1]) == pytest.approx(0.5, abs=0.01)
    assert np.interp(0.03, found.density.fractions[::-1], found.share[::-1]) == pytest.approx(1.0, abs=0.01)


def test_each_rank_is_fitted_to_its_own_votes() -> None:
    counts = drawn(fractions(300, np.random.default_rng(5)), 60, 5).counts
    contests = SmoothPairs.of(rfsize.Votes(counts))._contests
    assert len(contests) == 2
    for order, found in enumerate(contests):
        count, asked = np.array(reference.deconvolution.ranked_pairs(counts.tolist(), order + 1)).T
        cells = rfsize.Votes(np.stack([asked - count, count], axis=1)).histogram()
        expected = deconvolution.fit_density(deconvolution.VoteCells.of(cells), order)
        assert found.density.mass == pytest.approx(expected.mass)
    nearest, third = (float(one.density.mass @ one.overtaken(51)) for one in contests)
    report = rfsize.size(rfsize.Votes(counts, n_trees=60), method="smooth")
    assert agreement(report, 51) == pytest.approx((1.0 - nearest) * (1.0 - third))
    assert 0.0 < third < 0.2 * nearest
    mass, leading = contests[0].density.mass, 1.0 - contests[0].density.fractions
    assert agreement(report, 1) == pytest.approx(mass @ (contests[0].share * leading))


def test_curves_of_the_interval_have_what_the_third_class_adds() -> None:
    counts = drawn(np.random.default_rng(10).dirichlet([2.0, 2.0, 2.0], size=300), 60, 10)
    found = SmoothPairs.of(counts)
    nearest = found._contests[0]
    curves = found.replicates(101)
    for place, n_trees in enumerate(curves.sizes.tolist()):
        overtaken = nearest.overtaken(n_trees)
        added = found.disagreement(n_trees) / (nearest.density.mass @ overtaken)
        assert curves.disagreement[:, place] == pytest.approx(nearest.density.draws @ overtaken * added)
    assert added > 1.0
    assert curves.sizes[0] == 1
    assert curves.sizes[-1] == 101 * 256 + 1


def test_order_of_rows_and_of_classes_does_not_matter() -> None:
    votes = drawn(fractions(300, np.random.default_rng(6)), 60, 6)
    report = rfsize.size(votes, method="smooth")
    for counts in (votes.counts[::-1], votes.counts[:, ::-1]):
        again = rfsize.size(rfsize.Votes(counts, n_trees=60), method="smooth")
        assert of_all_classes(again) == of_all_classes(report)
    dropped = np.concatenate([votes.counts, np.zeros((5, 4), dtype=int)])
    assert rfsize.size(rfsize.Votes(dropped, n_trees=60), method="smooth").n_trees == report.n_trees


def test_no_row_with_a_vote() -> None:
    with pytest.raises(ValueError, match="no row has a vote"):
        hard.smooth(rfsize.Votes([[0, 0, 0]]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any), min_size=1, max_size=40))
def test_any_votes_have_a_size(counts: list[list[int]]) -> None:
    report = rfsize.size(rfsize.Votes(counts, n_trees=80), method="smooth")
    sizes = [report.size_at(alpha) for alpha in (0.6, 0.9, 0.99, 0.999)]
    assert sizes == sorted(sizes)
    assert all(math.isfinite(size) and size % 2 == 1 for size in sizes)
    low, high = report.interval
    assert 1 <= low <= report.n_trees <= high


def tied(n_classes: int) -> rfsize.Votes:
    """Votes of trees that are of two minds on a tenth of the rows."""
    rng = np.random.default_rng(7)
    two = rng.binomial(500, np.concatenate([np.full(300, 0.5), rng.beta(0.4, 0.6, 2700)]))
    return rfsize.Votes(np.column_stack([500 - two, two, *np.zeros((n_classes - 2, 3000), dtype=int)]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_smooth_estimate_unless_rows_pile_up_at_a_tie(n_classes: int) -> None:
    votes = tied(n_classes)
    report = rfsize.size(votes)
    assert report._answer.estimate.name == report.to_dict()["method"] == "plugin"
    assert report.n_trees == rfsize.size(votes, method="plugin").n_trees
    smooth = rfsize.size(votes, method="smooth")
    assert smooth._answer.estimate.name == "smooth"
    assert smooth.n_trees < report.n_trees / 2
    for one in (report, smooth):
        assert "more rows at a tie than a smooth density has" in str(one)
        assert any("at a tie" in note for note in one.to_dict()["notes"])
    ordinary = drawn(fractions(300, np.random.default_rng(8)), 100, 8)
    if n_classes == 2:
        rng = np.random.default_rng(8)
        two = rng.binomial(100, rng.beta(0.5, 0.5, 300))
        ordinary = rfsize.Votes(np.stack([100 - two, two], axis=1))
    report = rfsize.size(ordinary)
    assert report._answer.estimate.name == "smooth"
    assert report.to_dict() == rfsize.size(ordinary, method="smooth").to_dict()
    assert "at a tie" not in str(report)


def test_the_rule() -> None:
    assert (
        deconvolution.peak_caveat(0.0, "votes") is deconvolution.peak_caveat(deconvolution.MOST_PEAKED, "votes") is None
    )
    assert "the votes show more rows at a tie" in str(
        deconvolution.peak_caveat(deconvolution.MOST_PEAKED + 0.1, "votes")
    )


def test_intervals_of_few_rows_are_wide() -> None:
    few, many = (drawn(fractions(n, np.random.default_rng(9)), 60, 9) for n in (60, 20_000))
    low, high = rfsize.size(few).interval
    assert high > 6 * low
    low, high = rfsize.size(many).interval
    assert high < 6 * low
    endless = rfsize.size(rfsize.Votes([[5, 5]] * 3 + [[0, 10]] * 97), alpha=0.98, method="plugin")
    assert endless.interval[1] == math.inf


def test_fractions_that_no_row_has() -> None:
    """Thousands of votes leave gaps between the rows, where nothing is known of the other classes."""
    rng = np.random.default_rng(0)
    votes = rfsize.Votes(np.stack([rng.multinomial(5000, pi) for pi in rng.dirichlet([5.0] * 3, 200)]))
    report = rfsize.size(votes, alpha=0.9, method="smooth")
    plugin = rfsize.size(votes, method="plugin")
    curve = [agreement(report, size) for size in (1, 5, 21, 101)]
    assert np.isfinite(curve).all()
    assert curve == pytest.approx([agreement(plugin, size) for size in (1, 5, 21, 101)], abs=0.1)
