"""Estimates of agreement from few votes or scores: against naive restatements, and against a truth that is known."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import reference.deconvolution
import reference.leads
import reference.multiclass
import rfsize
from helpers.lookup import classifier, rows_of
from rfsize import theory
from rfsize.estimation.deconvolution import VoteCells, fit_density, given_fraction
from rfsize.estimation.intervals import Curves
from rfsize.estimation.pairwise import ClassPair

DENSITIES = {"arcsine": stats.beta(0.5, 0.5), "U-shaped": stats.beta(0.3, 0.6), "one hump": stats.beta(5, 2)}


def two_classes(count: Any, asked: Any) -> rfsize.Votes:
    """Votes for class 1, of so many trees asked."""
    count, asked = np.broadcast_arrays(count, asked)
    return rfsize.Votes(np.stack([asked - count, count], axis=1), n_trees=int(asked.max()))


def drawn(density: Any, n_rows: int, n_trees: int, seed: int) -> rfsize.Votes:
    """Out-of-bag votes of rows whose fractions come from a density, or are those of four classes."""
    rng = np.random.default_rng(seed)
    asked = rng.binomial(n_trees, 0.37, n_rows)
    if density == "four classes":
        return rfsize.Votes(rng.multinomial(asked, four_classes(n_rows, rng)), n_trees=n_trees)
    pi = DENSITIES[density].rvs(n_rows, random_state=rng)
    return rfsize.Votes(np.stack([asked - (for_1 := rng.binomial(asked, pi)), for_1], axis=1), n_trees=n_trees)


def four_classes(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet([0.3, 0.5, 0.5, 0.2], size=n_rows)


@cache
def true_size(density: str, alpha: float) -> int | float:
    if density == "four classes":
        pi = four_classes(20_000, np.random.default_rng(0))
        return theory.smallest_size(
            lambda n: float(theory.multiclass_disagreement(n, pi).mean()), 1.0 - alpha, odd=True
        )
    return theory.ensemble_size(alpha, DENSITIES[density].ppf((np.arange(20_000) + 0.5) / 20_000))


@pytest.mark.parametrize("density", [*DENSITIES, "four classes"])
@pytest.mark.parametrize("n_trees", [50, 1000])
def test_smooth_recovers_the_size(density: str, n_trees: int) -> None:
    report = rfsize.size(drawn(density, 30_000, n_trees, 0), alpha=0.99, method="smooth")
    for alpha in (0.95, 0.99, 0.995):
        assert report.size_at(alpha) == pytest.approx(true_size(density, alpha), rel=0.2, abs=2)


@pytest.mark.parametrize("density", ["arcsine", "one hump", "four classes"])
def test_smooth_is_nearer_than_plug_in_and_covered(density: str) -> None:
    truth, errors, held = true_size(density, 0.99), {"smooth": [], "plugin": []}, 0
    for seed in range(12):
        votes = drawn(density, 300, 100, seed)
        for method, off in errors.items():
            report = rfsize.size(votes, alpha=0.99, method=method)
            off.append(min(abs(math.log(report.n_trees / truth)), 5.0))
            held += method == "smooth" and report.interval[0] <= truth <= report.interval[1]
    assert np.mean(errors["smooth"]) < min(np.mean(errors["plugin"]), 0.45)
    assert held >= 10


@pytest.mark.parametrize("method", ["smooth", "plugin"])
def test_intervals_of_two_classes_cover_the_truth(method: str) -> None:
    """As often as they say; of the plug-in estimate where rows have very many votes."""
    truth, held, rng = true_size("U-shaped", 0.97), 0, np.random.default_rng(5)
    for seed in range(50):
        pi, asked = DENSITIES["U-shaped"].rvs(300, random_state=rng), 2001
        votes = drawn("U-shaped", 300, 100, seed) if method == "smooth" else two_classes(rng.binomial(asked, pi), asked)
        low, high = rfsize.size(votes, alpha=0.97, method=method).interval
        held += low <= truth <= high
    assert 44 <= held <= 50


def test_interval_narrows_with_rows_and_votes() -> None:
    widths = []
    for n_rows, n_trees in ((10_000, 100), (300, 100), (300, 30)):
        low, high = rfsize.size(drawn("arcsine", n_rows, n_trees, 1), alpha=0.99, method="smooth").interval
        widths.append(math.log(high / low))
    assert widths[0] < 0.5 * widths[1] < 0.5 * widths[2]


@pytest.mark.parametrize("density", ["one hump", "four classes"])
def test_order_of_rows_and_classes_does_not_matter(density: str) -> None:
    votes = drawn(density, 300, 100, 5)
    own = rfsize.size(votes, method="smooth")
    for counts in (votes.counts[::-1], votes.counts[:, ::-1]):
        again = rfsize.size(rfsize.Votes(counts, n_trees=100), method="smooth")
        assert (again.n_trees, again.interval) == (own.n_trees, own.interval)


counts_of_few_rows = st.integers(2, 4).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 20), min_size=k, max_size=k).filter(any), min_size=1, max_size=29)
)


@settings(max_examples=25)
@given(counts_of_few_rows)
def test_any_votes_have_a_size(counts: list[list[int]]) -> None:
    report = rfsize.size(rfsize.Votes(counts, n_trees=80), method="smooth")
    sizes = [report.size_at(alpha) for alpha in (0.6, 0.9, 0.99, 0.999)]
    assert sizes == sorted(sizes)
    assert all(math.isfinite(size) and size % 2 == 1 for size in sizes)
    assert report.loss_at(int(sizes[2])).value <= 0.01 + 1e-12
    assert report.interval[0] <= report.n_trees <= report.interval[1]


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_unanimous_rows_need_fewer_trees_the_more_they_are(voting: str) -> None:
    sizes = []
    for n_rows in (2, 10, 100, 1000):
        sure = np.ones((n_rows, 30))
        report = rfsize.size(classifier(sure), rows_of(sure), alpha=0.95, voting=voting, method="smooth")
        sizes.append(report.n_trees)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert voting == "soft" or sizes[0] > 1  # averages of rows without a spread are sure from the first tree on


@pytest.mark.parametrize(("n_rows", "highest"), [(10, 1000), (100, 3), (3000, 1)])
def test_unanimous_rows_bound_the_interval(n_rows: int, highest: int) -> None:
    report = rfsize.size(rfsize.Votes([[100, 0]] * n_rows), method="smooth")
    assert (report.n_trees, report.interval[1] <= highest) == (1, True)


def test_equal_fractions_say_more_with_more_votes() -> None:
    parts = [two_classes(np.full(100, asked // 4), asked) for asked in (12, 80, 800)]
    sizes = [rfsize.size(votes, method="smooth").n_trees for votes in parts]
    assert sizes == sorted(sizes, reverse=True)
    mixed = rfsize.Votes(np.concatenate([votes.counts for votes in parts]), n_trees=800)
    assert sizes[-1] < rfsize.size(mixed, method="smooth").n_trees < sizes[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_piled_up_at_a_tie_turn_to_the_plug_in(n_classes: int) -> None:
    rng = np.random.default_rng(7)
    two = rng.binomial(500, np.concatenate([np.full(300, 0.5), rng.beta(0.4, 0.6, 2700)]))
    votes = rfsize.Votes(np.column_stack([500 - two, two, *np.zeros((n_classes - 2, 3000), dtype=int)]))
    chosen, plugin, smooth = (rfsize.size(votes, method=method) for method in ("auto", "plugin", "smooth"))
    assert [one.to_dict()["method"] for one in (chosen, smooth)] == ["plugin", "smooth"]
    assert chosen.n_trees == plugin.n_trees > 2 * smooth.n_trees
    ordinary = drawn("arcsine" if n_classes == 2 else "four classes", 300, 100, 8)
    assert rfsize.size(ordinary).to_dict() == rfsize.size(ordinary, method="smooth").to_dict()


def test_ties_converge_by_the_smooth_estimate_alone() -> None:
    tied, apart = two_classes(np.full(50, 10), 20), two_classes(np.full(50, 3), 20)
    assert rfsize.size(tied, method="plugin").n_trees == math.inf
    sizes = [rfsize.size(votes, method="smooth").n_trees for votes in (apart, tied)]
    assert sizes[0] < sizes[1] < math.inf


# Densities

ROWS = [(0, 9), (8, 9), (3, 9), (5, 11), (11, 11), (11, 11), (2, 4), (1, 1)]


def cells_of(rows: list[tuple[int, int]]) -> VoteCells:
    count, asked = np.array(rows).T
    return VoteCells.binned(np.minimum(count, asked - count), asked, np.ones(len(rows)))[0]


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("times", [1, 6])
def test_density_is_as_restated(times: int, order: int) -> None:
    density, below = fit_density(cells_of(ROWS * times), order), [0.02, 0.1, 0.2, 0.3, 0.4, 0.47]
    found = np.interp(below, density.fractions[::-1], np.cumsum(density.mass[::-1]) - density.mass[::-1] / 2.0)
    assert found == pytest.approx(reference.deconvolution.smooth_shares(ROWS * times, below, order), abs=1e-3)


def test_peak_is_the_gain_by_tied_rows() -> None:
    for rows in (ROWS, [(4, 8)] * 12 + [(0, 8)] * 5 + [(8, 8), (1, 8)]):
        density = fit_density(cells_of(rows))
        masses = dict(zip(density.fractions.tolist(), density.mass.tolist(), strict=True))
        assert density.peak == pytest.approx(reference.deconvolution.peak(masses, rows), rel=0.02)
    assert fit_density(cells_of([(0, 8)] * 30)).peak == 0.0


def test_means_given_the_fraction() -> None:
    cells = cells_of(ROWS)
    density, rows = fit_density(cells), list(zip(cells.losing.tolist(), cells.n_votes.tolist(), strict=True))
    value = np.arange(len(rows)) ** 2.0
    repeated = [row for row, n in zip(rows, cells.rows, strict=True) for _ in range(int(n))]
    values = np.repeat(value, cells.rows.astype(int)).tolist()
    masses = dict(zip(density.fractions.tolist(), density.mass.tolist(), strict=True))
    found = given_fraction(cells, density, value)
    for place in range(130, 300, 16):
        expected = reference.deconvolution.mean_given(density.fractions[place], masses, repeated, values)
        assert found[place] == pytest.approx(expected, rel=2e-3)


def test_agreement_is_the_sum_over_the_density() -> None:
    votes = drawn("U-shaped", 300, 100, 3)
    report, for_1 = rfsize.size(votes, alpha=0.99, method="smooth"), votes.counts.min(axis=1)
    density = fit_density(VoteCells.binned(for_1, votes.counts.sum(axis=1), np.ones(300))[0])
    for n_trees in (1, 5, 101, 10_001):
        expected = density.mass @ theory.disagreement(n_trees, density.fractions)
        assert report.loss_at(n_trees).value == pytest.approx(expected, rel=1e-6)
    # The interval is that of the posterior, a quarter wider, as sizes were measured to be off by.
    sizes = np.arange(1, 20_000, 20)
    curves = Curves(sizes, density.draws @ theory.disagreement(sizes, density.fractions[:, None]))
    inner = [curves.quantile(0.99, share) for share in (0.025, 0.975)]
    assert 1.2 < np.ptp(np.log(report.interval)) / np.ptp(np.log(inner)) < 1.3


def test_single_votes_leave_the_density_at_its_prior() -> None:
    """2/π at one half: nothing is known of it."""
    report = rfsize.size(two_classes(np.array([0, 1, 1]), 1), method="smooth")
    for n_trees in (1001, 10**6 + 1):
        expected = theory.asymptotic_disagreement(n_trees, 2.0 / math.pi)
        assert report.loss_at(n_trees).value == pytest.approx(float(expected), rel=0.01)


def test_density_that_vanishes_at_one_half() -> None:
    """Classes in third place tie with the leader where three classes tie, which fewer rows do the nearer it is."""
    rng = np.random.default_rng(0)
    count = rng.binomial(60, 0.5 - 0.5 * np.sqrt(rng.random(20_000)))  # of density 4·(1 − 2π)
    cells = VoteCells.binned(np.minimum(count, 60 - count), np.full(20_000, 60), np.ones(20_000))[0]
    pi = (np.arange(100_000) + 0.5) / 200_000
    expected = float(np.mean(2.0 * (1.0 - 2.0 * pi) * theory.disagreement(1001, pi)))
    found = [fit_density(cells, order) for order in (0, 1)]
    off = [abs(math.log(one.mass @ theory.disagreement(1001, one.fractions) / expected)) for one in found]
    assert off[1] < min(0.1, off[0])


def test_a_million_rows_are_a_few_hundred_cells() -> None:
    rng = np.random.default_rng(0)
    asked = rng.binomial(1000, 0.37, 1_000_000)
    losing = np.minimum(count := rng.binomial(asked, rng.beta(0.5, 0.5, 1_000_000)), asked - count)
    cells = VoteCells.binned(losing, asked, np.ones(1_000_000))[0]
    assert len(cells.rows) < 1000
    assert (cells.rows.sum(), cells.rows @ cells.losing) == (1_000_000, pytest.approx(losing.sum()))
    # Cells and noise are approximations, which ever more rows must not bend the density by.
    some, many = (fit_density(cells._replace(rows=cells.rows * times)) for times in (5, 500))
    np.testing.assert_allclose(many.mass, some.mass, rtol=1e-6)
    np.testing.assert_allclose(many.draws, some.draws, rtol=1e-3, atol=1e-9)


# Several classes


def ranked(counts: np.ndarray) -> np.ndarray:
    return np.sort(counts.astype(np.int64), axis=1)[:, ::-1].T


@pytest.mark.parametrize("n_trees", [3, 4, 25])
def test_overtaking_is_the_sum_over_the_votes_for_either(n_trees: int) -> None:
    counts = drawn("four classes", 200, 40, 4).counts
    contest = ClassPair.of(*ranked(counts)[:2], counts.sum(axis=1), 0)
    found = contest.overtaken(n_trees)
    for cell in range(5, len(found), 60):
        share, part = contest.share[cell], contest.density.fractions[cell]
        sums = [reference.multiclass.overtakes(n_trees, share * (1 - part), share * part, at) for at in (False, True)]
        assert found[cell] == pytest.approx(np.mean(sums), abs=3e-8)


def test_shares_are_those_of_rows_that_may_have_the_fraction() -> None:
    """Rows near a tie give half of their votes to other classes; the others none."""
    contest = ClassPair.of(np.repeat([26, 97], 200), np.repeat([24, 3], 200), np.full(400, 100), 0)
    at = np.interp([0.48, 0.03], contest.density.fractions[::-1], contest.share[::-1])
    assert at == pytest.approx([0.5, 1.0], abs=0.01)


def test_agreement_of_several_classes_is_the_product_over_two_rivals() -> None:
    counts = drawn("four classes", 300, 60, 5).counts
    first, second, third = ranked(counts)[:3]
    asked = counts.sum(axis=1)
    contests = [ClassPair.of(first, rival, asked, order) for order, rival in enumerate((second, third))]
    report = rfsize.size(rfsize.Votes(counts, n_trees=60), method="smooth")
    lost = [float(of.density.mass @ of.overtaken(51)) for of in contests]
    assert report.loss_at(51).value == pytest.approx(1.0 - (1.0 - lost[0]) * (1.0 - lost[1]), rel=1e-6)
    assert 0.0 < lost[1] < 0.2 * lost[0]
    single = contests[0].density.mass @ (contests[0].share * (1.0 - contests[0].density.fractions))
    assert report.loss_at(1).value == pytest.approx(1.0 - single, rel=1e-6)
    # The interval is that of the posterior, with what the third class adds.
    sizes = np.array([1, 4, 16]) * report.n_trees // 4 // 2 * 2 + 1
    overtaken = contests[0].overtaken_at(sizes)
    added = [report.loss_at(int(size)).value for size in sizes] / (contests[0].density.mass @ overtaken)
    curves = Curves(sizes, contests[0].density.draws @ overtaken * added)
    inner = [curves.quantile(0.99, share) for share in (0.025, 0.975)]
    assert 0.9 < np.ptp(np.log(report.interval)) / np.ptp(np.log(inner)) < 1.1


def test_votes_for_neither_take_more_trees() -> None:
    """Where half of the votes are for classes that never lead, it takes twice the trees; unused classes change none."""
    rng = np.random.default_rng(2)
    two = np.clip(rng.binomial(40, rng.beta(2, 2, size=2000)), 2, 38)
    alone = np.stack([40 - two, two], axis=1)
    scattered = np.column_stack([alone, *[np.full(2000, 2)] * 20])
    unused = np.column_stack([np.zeros(2000, dtype=int), alone])
    sizes = [rfsize.size(rfsize.Votes(of), alpha=0.98, method="smooth").n_trees for of in (alone, scattered, unused)]
    assert sizes[1] == pytest.approx(2 * sizes[0], rel=0.03)
    assert sizes[2] == sizes[0]
