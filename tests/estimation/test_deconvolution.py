"""The density of vote fractions from few votes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

import reference.deconvolution
import rfsize
from helpers.reports import agreement, of_all_classes
from rfsize import theory
from rfsize.counting.votes import VoteHistogram
from rfsize.estimation import deconvolution, hard
from rfsize.estimation.soft import LeadCells

DENSITIES = {
    "arcsine": stats.beta(0.5, 0.5),
    "U-shaped": stats.beta(0.3, 0.6),
    "even": stats.beta(1, 1),
    "one hump": stats.beta(5, 2),
}


def votes_of(count: Any, asked: Any) -> rfsize.Votes:
    counts = np.stack([np.asarray(asked) - count, np.broadcast_to(count, np.shape(asked))], axis=1)
    return rfsize.Votes(counts, n_trees=int(np.max(asked)))


def drawn(density: Any, n_rows: int, n_trees: int, seed: int) -> rfsize.Votes:
    """Out-of-bag votes of rows whose fractions come from a density."""
    rng = np.random.default_rng(seed)
    asked = rng.binomial(n_trees, 0.37, n_rows)
    return votes_of(rng.binomial(asked, density.rvs(n_rows, random_state=rng)), asked)


def true_size(density: Any, alpha: float) -> int | float:
    return theory.ensemble_size(alpha, density.ppf((np.arange(20_000) + 0.5) / 20_000))


def smooth_size(votes: rfsize.Votes, alpha: float = 0.99) -> int | float:
    return rfsize.size(votes, alpha=alpha, method="smooth").n_trees


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("n_trees", [50, 1000])
def test_recovers_the_size_from_many_rows(name: str, n_trees: int) -> None:
    density = DENSITIES[name]
    report = rfsize.size(drawn(density, 30_000, n_trees, seed=0), alpha=0.99, method="smooth")
    for alpha in (0.95, 0.99, 0.995):
        assert report.size_at(alpha) == pytest.approx(true_size(density, alpha), rel=0.2, abs=2)


def test_rows_beyond_a_million_do_not_bend_the_density() -> None:
    """Leads whose noise is a little larger than it is taken for: ten million real rows once halved T*."""
    rng = np.random.default_rng(0)
    true, asked = np.abs(rng.normal(size=200_000)), np.full(200_000, 100, dtype=np.int32)
    cells = LeadCells.of(np.abs(true + 0.103 * rng.normal(size=200_000)), asked)
    some, many = (deconvolution.fit_density(cells._replace(rows=cells.rows * times)) for times in (5, 500))
    np.testing.assert_allclose(many.mass, some.mass, rtol=1e-6)
    np.testing.assert_allclose(many.draws, some.draws, rtol=1e-3, atol=1e-9)
    again = LeadCells.of(np.abs(true + 0.103 * rng.normal(size=200_000)), asked)
    np.testing.assert_allclose(many.fit_again(again), some.fit_again(again), rtol=1e-3)


@pytest.mark.parametrize("name", DENSITIES)
def test_nearer_than_the_plug_in_from_few_votes(name: str) -> None:
    truth = true_size(DENSITIES[name], 0.99)
    errors: dict[str, list[float]] = {"smooth": [], "plugin": []}
    for seed in range(10):
        votes = drawn(DENSITIES[name], 300, 100, seed)
        for estimator, found in errors.items():
            found.append(min(abs(math.log(rfsize.size(votes, method=estimator).n_trees / truth)), 5.0))
    assert np.mean(errors["smooth"]) < min(np.mean(errors["plugin"]), 0.4)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    truth = true_size(DENSITIES["U-shaped"], 0.99)
    covered = 0
    for seed in range(100):
        low, high = rfsize.size(drawn(DENSITIES["U-shaped"], 300, 100, seed), method="smooth").interval
        covered += low <= truth <= high
    assert 88 <= covered <= 100


def test_interval_narrows_with_rows_and_with_votes() -> None:
    def width(n_rows: int, n_trees: int) -> float:
        low, high = rfsize.size(drawn(DENSITIES["arcsine"], n_rows, n_trees, 1), method="smooth").interval
        return math.log(high / low)

    assert width(10_000, 100) < 0.5 * width(300, 100) < 0.5 * width(300, 30)


ROWS = [(0, 9), (8, 9), (3, 9), (5, 11), (11, 11), (11, 11), (2, 4), (1, 1)]


def cells_of(rows: list[tuple[int, int]]) -> VoteHistogram:
    cells = sorted(set(rows))
    count, asked = np.array(cells).T
    return VoteHistogram(count, asked, np.array([rows.count(cell) for cell in cells]))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("strength", [0.01, 3.0])
def test_fit_is_at_the_maximum_of_the_posterior(strength: float, order: int) -> None:
    _, penalty = deconvolution._model()
    precision = strength * penalty + deconvolution._LEVEL * np.eye(len(penalty))
    likelihood = deconvolution._Likelihood.of(deconvolution.VoteCells.of(cells_of(ROWS)), order)
    fitted = deconvolution._maximised(likelihood, precision, np.zeros(len(penalty)))
    best = reference.deconvolution.smooth_log_posterior(fitted.coefficients.tolist(), ROWS, strength, order)
    start = np.zeros(len(penalty)).tolist()
    gain = best - reference.deconvolution.smooth_log_posterior(start, ROWS, strength, order)
    ours = deconvolution._penalised(likelihood, precision, fitted.coefficients)[0]
    assert ours - deconvolution._penalised(likelihood, precision, np.array(start))[0] == pytest.approx(gain)
    curvature = (fitted.axes * fitted.precision) @ fitted.axes.T
    laplace = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(curvature)[1]
    assert fitted.evidence == pytest.approx(ours + 0.5 * laplace)
    for direction in np.eye(len(penalty)) * 0.01:
        up, down = (
            reference.deconvolution.smooth_log_posterior(
                (fitted.coefficients + sign * direction).tolist(), ROWS, strength, order
            )
            for sign in (1, -1)
        )
        assert up - down == pytest.approx(0.0, abs=1e-4)
        assert 2.0 * best - up - down == pytest.approx(direction @ curvature @ direction, rel=1e-2)


def grid_masses(density: deconvolution.Density) -> dict[float, float]:
    """The density's probabilities where likelihoods are summed."""
    theta = np.arcsin(np.sqrt(density.fractions)) * 2.0 / math.pi
    height = density.mass / deconvolution._model()[0].widths
    at_grid = np.interp(deconvolution._grid(), theta[::-1], height[::-1])
    return dict(
        zip(deconvolution._fraction(deconvolution._grid()).tolist(), (at_grid / at_grid.sum()).tolist(), strict=True)
    )


def test_peak_is_the_gain_by_tied_rows() -> None:
    rows = [(4, 8)] * 12 + [(0, 8)] * 5 + [(8, 8), (1, 8)]
    density = deconvolution.fit_density(deconvolution.VoteCells.of(cells_of(rows)))
    assert density.peak == pytest.approx(reference.deconvolution.peak(grid_masses(density), rows), rel=0.02)
    assert density.peak > 0.5
    assert deconvolution.fit_density(deconvolution.VoteCells.of(cells_of([(0, 8)] * 30))).peak == 0.0


def test_peaks_are_told_from_smooth_densities() -> None:
    rng = np.random.default_rng(0)
    for name, density in DENSITIES.items():
        for n_trees in (100, 1000):
            counted = drawn(density, 3000, n_trees, seed=1)
            assert deconvolution.fit_density(deconvolution.VoteCells.of(counted.histogram())).peak < 4.0, name
    pi = np.concatenate([np.full(300, 0.5), rng.beta(0.4, 0.6, 2700)])
    tied = votes_of(rng.binomial(500, pi), np.full(3000, 500))
    assert deconvolution.fit_density(deconvolution.VoteCells.of(tied.histogram())).peak > 30.0


def test_density_that_vanishes_at_one_half() -> None:
    """Classes in third place tie with the leader where three classes tie, which fewer rows do the nearer it is."""
    rng = np.random.default_rng(0)
    drawn_pi = 0.5 - 0.5 * np.sqrt(rng.random(20_000))  # of density 4·(1 − 2π)
    cells = deconvolution.VoteCells.of(votes_of(rng.binomial(60, drawn_pi), np.full(20_000, 60)).histogram())
    for n_trees in (101, 1001):
        pi = (np.arange(100_000) + 0.5) / 200_000
        expected = float(np.mean(2.0 * (1.0 - 2.0 * pi) * theory.disagreement(n_trees, pi)))
        found = [deconvolution.fit_density(cells, order) for order in (0, 1)]
        apart = [abs(math.log(one.mass @ theory.disagreement(n_trees, one.fractions) / expected)) for one in found]
        assert apart[1] < 0.1
        assert apart[1] < apart[0]


def test_means_given_the_fraction() -> None:
    cells = deconvolution.VoteCells.of(cells_of(ROWS))
    density = deconvolution.fit_density(cells)
    rows = [(int(losing), int(asked)) for losing, asked in zip(cells.losing, cells.asked, strict=True)]
    repeated = [row for row, n in zip(rows, cells.rows, strict=True) for _ in range(int(n))]
    value = np.arange(len(rows)) ** 2.0
    values = np.repeat(value, cells.rows.astype(int)).tolist()
    masses = grid_masses(density)
    found = deconvolution.given_fraction(cells, density, value)
    for pi in list(masses)[3::16]:
        expected = reference.deconvolution.mean_given(pi, masses, repeated, values)
        assert np.interp(pi, density.fractions[::-1], found[::-1]) == pytest.approx(expected, rel=1e-3)


def test_splines() -> None:
    theta = np.linspace(0.0, 1.0, 57)[:-1]
    expected = [[reference.deconvolution.cubic_spline(i, x) for i in range(20)] for x in theta.tolist()]
    assert deconvolution._splines(theta) == pytest.approx(np.array(expected), abs=1e-12)


def test_agreement_is_the_integral_over_the_density() -> None:
    report = rfsize.size(drawn(DENSITIES["U-shaped"], 300, 100, 3), method="smooth")
    density = deconvolution.fit_density(
        deconvolution.VoteCells.of(drawn(DENSITIES["U-shaped"], 300, 100, 3).histogram())
    )
    theta = np.arcsin(np.sqrt(density.fractions)) * 2.0 / math.pi
    order = np.argsort(theta)
    ends = np.concatenate([[0.0], (theta[order][1:] + theta[order][:-1]) / 2.0, [0.5]])
    at_theta = density.mass[order] / np.diff(ends)

    for n_trees in (1, 2, 5, 101, 10_001):

        def integrand(x: float, n_trees: int = n_trees) -> float:
            pi = math.sin(math.pi / 2.0 * x) ** 2
            return float(np.interp(x, theta[order], at_theta) * theory.disagreement(n_trees, pi))

        points = [0.5 - s / math.sqrt(n_trees) for s in (0.1, 0.5, 1.0) if s / math.sqrt(n_trees) < 0.5]
        integral = quad(integrand, 0.0, 0.5, points=points, limit=500)[0]
        assert 1.0 - agreement(report, n_trees) == pytest.approx(integral, rel=0.01)


def test_large_forests_follow_the_density_at_one_half() -> None:
    # All votes single: nothing is known of the density, which then is what it is a priori, 2/π at one half.
    report = rfsize.size(votes_of(np.array([0, 1, 1]), np.ones(3, dtype=int)), method="smooth")
    for n_trees in (1001, 10**6 + 1, 10**8 + 1):
        expected = theory.asymptotic_disagreement(n_trees, 2.0 / math.pi)
        assert 1.0 - agreement(report, n_trees) == pytest.approx(float(expected), rel=0.01)
    assert report.n_trees == pytest.approx(float(theory.asymptotic_size(0.99, 2.0 / math.pi)), rel=0.02)
    low, high = report.interval
    assert high > 4 * low


def test_order_of_rows_and_of_classes_does_not_matter() -> None:
    votes = drawn(DENSITIES["one hump"], 300, 100, 5)
    report = rfsize.size(votes, method="smooth")
    for counts in (votes.counts[::-1], votes.counts[:, ::-1]):
        again = rfsize.size(rfsize.Votes(counts, n_trees=votes.n_trees), method="smooth")
        assert {**of_all_classes(again), "notes": []} == {**of_all_classes(report), "notes": []}


@pytest.mark.parametrize("n_rows", [1, 2, 10])
@pytest.mark.parametrize("count", [0, 10, 15])
def test_few_rows_tell_little(n_rows: int, count: int) -> None:
    report = rfsize.size(votes_of(np.full(n_rows, count), np.full(n_rows, 30)), method="smooth")
    low, high = report.interval
    assert 1 <= low <= report.n_trees <= high
    assert report.n_trees % 2 == 1
    assert high > 4 * low


def test_unanimous_rows_need_the_fewer_trees_the_more_they_are() -> None:
    sizes = [smooth_size(votes_of(np.zeros(n, dtype=int), np.full(n, 30)), 0.95) for n in (1, 10, 100, 1000, 100_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 10
    assert sizes[-1] == 1


def test_tied_counts_converge() -> None:
    tied = votes_of(np.full(50, 10), np.full(50, 20))
    assert rfsize.size(tied, method="plugin").n_trees == math.inf
    apart = smooth_size(votes_of(np.full(50, 3), np.full(50, 20)))
    assert apart < smooth_size(tied) < math.inf


def test_votes_of_equal_fraction_say_the_more_the_more_they_are() -> None:
    few, many = (smooth_size(votes_of(np.full(300, asked // 4), np.full(300, asked))) for asked in (8, 800))
    assert many < few
    # Rows of so unequal numbers of votes are strata that are sized by themselves.
    mixed = votes_of(np.array([2, 20, 200] * 100), np.array([8, 80, 800] * 100))
    parts = [smooth_size(votes_of(np.full(100, asked // 4), np.full(100, asked))) for asked in (8, 80, 800)]
    assert min(parts) <= smooth_size(mixed) <= max(parts)


def test_a_million_rows_are_a_few_hundred_cells() -> None:
    cells = drawn(DENSITIES["arcsine"], 1_000_000, 1000, 0).histogram()
    losing, asked, rows = deconvolution.VoteCells.of(cells)
    assert len(rows) < 1000 < len(cells.rows)
    assert rows.sum() == 1_000_000
    assert rows @ asked == pytest.approx(cells.rows @ cells.asked)
    assert rows @ losing == pytest.approx(cells.rows @ np.minimum(cells.count, cells.asked - cells.count))
    assert (losing <= asked / 2).all()


# So few rows that numbers of votes as odd as these do not tell of uneven bags, which are refused.
rows_of_votes = st.integers(1, 40).flatmap(lambda v: st.tuples(st.integers(0, v), st.just(v)))
histograms = st.lists(rows_of_votes, min_size=1, max_size=29)


@settings(max_examples=60, deadline=None)
@given(histograms)
def test_any_votes_have_a_size(rows: list[tuple[int, int]]) -> None:
    count, asked = np.array(rows).T
    report = rfsize.size(votes_of(count, asked), method="smooth")
    sizes = [report.size_at(alpha) for alpha in (0.6, 0.9, 0.99, 0.999)]
    assert sizes == sorted(sizes)
    assert all(math.isfinite(size) and size % 2 == 1 for size in sizes)
    assert 0.5 <= agreement(report, 1) <= agreement(report, 3) <= agreement(report, 101) <= 1.0
    assert agreement(report, int(sizes[2])) >= 0.99 - 1e-12


def test_report_names_the_estimator() -> None:
    votes = drawn(DENSITIES["arcsine"], 300, 100, 0)
    for estimator in ("plugin", "smooth"):
        report = rfsize.size(votes, method=estimator)
        assert report._answer.estimate.name == report.to_dict()["method"] == estimator


def test_rows_without_votes_are_dropped() -> None:
    votes = drawn(DENSITIES["arcsine"], 300, 100, 0)
    more = rfsize.Votes(np.concatenate([votes.counts, np.zeros((2, 2), dtype=int)]), n_trees=votes.n_trees)
    report = rfsize.size(more, method="smooth")
    assert report.n_dropped == 2
    assert report.n_trees == smooth_size(votes)


def test_no_row_with_a_vote() -> None:
    with pytest.raises(rfsize.exceptions.FewVotesError, match="no row has a vote"):
        rfsize.size(rfsize.Votes([[0, 0]]), method="smooth")
    with pytest.raises(ValueError, match="no row has a vote"):
        hard.smooth(rfsize.Votes([[0, 0]]))


@pytest.mark.parametrize(("n_rows", "highest"), [(10, 1000), (100, 3), (3000, 1)])
def test_unanimous_rows_bound_the_interval(n_rows: int, highest: int) -> None:
    """Densities that would put rows near a tie, where none is, are not drawn from the posterior."""
    report = rfsize.size(rfsize.Votes([[100, 0]] * n_rows), method="smooth")
    assert report.n_trees == 1
    assert report.interval[1] <= highest
