"""Units of the estimates against naive restatements: the density, margins, the noise of the trees, and curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

import reference.certified
import reference.curve
import reference.deconvolution
import reference.jackknife
import reference.margins
import rfsize
from helpers.lookup import by_one_score, by_scores, rows_of
from rfsize import theory
from rfsize.models.link import Link
from rfsize.statistics.certify import RiskTarget, most_disagreements
from rfsize.statistics.curve import LossCurve, averaged
from rfsize.statistics.density import MarginCells, VoteCells, fit_density, influence
from rfsize.statistics.sampling_variance import TrainingBags, parts_of, row_variances

# Densities

ROWS = [(0, 9), (8, 9), (3, 9), (5, 11), (11, 11), (11, 11), (2, 4), (1, 1)]


def cells_of(count: np.ndarray, n_votes: np.ndarray) -> VoteCells:
    return VoteCells(np.minimum(count, n_votes - count), n_votes, np.ones(len(count))).merged()[0]


@pytest.mark.parametrize("times", [1, 6])
def test_density_is_as_restated(times: int) -> None:
    density, below = fit_density(cells_of(*np.array(ROWS * times).T)), [0.02, 0.1, 0.2, 0.3, 0.4, 0.47]
    shares = np.interp(below, density.fractions[::-1], np.cumsum(density.mass[::-1]) - density.mass[::-1] / 2.0)
    assert shares == pytest.approx(reference.deconvolution.smooth_shares(ROWS * times, below), abs=1e-3)


def test_peak_is_the_gain_by_tied_rows() -> None:
    for rows in (ROWS, [(4, 8)] * 12 + [(0, 8)] * 5 + [(8, 8), (1, 8)]):
        density = fit_density(cells_of(*np.array(rows).T), with_draws=False)
        masses = dict(zip(density.fractions.tolist(), density.mass.tolist(), strict=True))
        assert density.peak == pytest.approx(reference.deconvolution.peak(masses, rows), rel=0.02)
    assert fit_density(cells_of(np.zeros(30), np.full(30, 8)), with_draws=False).peak == 0.0


@pytest.mark.parametrize("n_trees", [2, 7, 40, 1000])
def test_likelihood_of_margins(n_trees: int) -> None:
    margins, pi = np.array([0.0, 0.1, 0.9, 1.1, 3.5, 50.0, math.inf]), np.linspace(0.01, 0.5, 20)
    cells = MarginCells.of(margins, np.full(len(margins), n_trees, dtype=np.int32)).merged()[0]
    assert cells.rows.sum() == len(margins)
    for row, margin in zip(cells.log_likelihood(pi), margins, strict=False):
        expected = np.array([reference.margins.log_likelihood(margin, n_trees, fraction) for fraction in pi.tolist()])
        np.testing.assert_allclose(row - row.max(), expected - expected.max(), rtol=1e-6, atol=1e-9)


def test_a_million_rows_are_a_few_hundred_cells() -> None:
    rng = np.random.default_rng(0)
    n_votes = rng.binomial(1000, 0.37, 1_000_000)
    count = rng.binomial(n_votes, rng.beta(0.5, 0.5, 1_000_000))
    cells = cells_of(count, n_votes)
    assert len(cells.rows) < 1000
    losing = np.minimum(count, n_votes - count).sum()
    assert (cells.rows.sum(), cells.rows @ cells.losing) == (1_000_000, pytest.approx(losing))
    # Cells and noise are approximations, which ever more rows must not bend the density by.
    few, many = (fit_density(cells._replace(rows=cells.rows * times)) for times in (5, 500))
    np.testing.assert_allclose(many.mass, few.mass, rtol=1e-6)
    np.testing.assert_allclose(many.draws, few.draws, rtol=1e-3, atol=1e-9)


def test_agreement_is_the_sum_over_the_density() -> None:
    rng = np.random.default_rng(3)
    n_votes = rng.binomial(100, 0.37, 300)
    count = rng.binomial(n_votes, rng.beta(0.3, 0.6, 300))
    votes = rfsize.Votes(np.stack([n_votes - count, count], axis=1), n_trees=100)
    report = rfsize.size(votes, alpha=0.99, method="smooth")
    density, sizes = fit_density(cells_of(count, n_votes)), report.estimate.curve.sizes
    law = theory.disagreement(sizes, density.fractions[:, None])
    for n_trees in (1, 5, 99, 10_001):
        expected = density.mass @ theory.disagreement(n_trees, density.fractions)
        assert report.loss_at(n_trees).value == pytest.approx(expected, rel=1e-3)
    # The interval is that of the posterior, a quarter wider, as sizes were measured to be off by.
    inner = LossCurve(sizes, density.mass @ law, density.draws @ law)
    ends = [inner.size_quantile(0.01, share) for share in (0.025, 0.975)]
    assert 1.2 < np.ptp(np.log(report.interval)) / np.ptp(np.log(ends)) < 1.3


# Margins


@pytest.mark.parametrize(("by", "n"), [("scores", 1), ("scores", 3), ("scores", 26), ("votes", 3), ("votes", 6)])
def test_plug_in_of_margins_is_as_restated(by: str, n: int) -> None:
    """Over all rows, and of the rows of each class."""
    rng = np.random.default_rng(n)
    if by == "votes":
        counts = rng.multinomial(40, rng.dirichlet(np.full(n, 0.4), 200))
        counts = counts[np.sort(counts, axis=1)[:, -1] > np.sort(counts, axis=1)[:, -2]]
        given: Any = (rfsize.Votes(counts),)
        leader, rows = counts.argmax(axis=1), [reference.margins.of_votes(row) for row in counts.tolist()]
    else:
        means, spread = rng.normal(size=(60, 1, n)), rng.uniform(0.2, 2.0, (60, 1, n))
        score = means + spread * rng.normal(size=(60, 40, n))
        given = by_one_score(score[:, :, 0]) if n == 1 else by_scores(score), rows_of(score)
        mean, rows = score.mean(axis=1), [reference.margins.of_scores(row.tolist(), 0.0) for row in score]
        leader = mean.argmax(axis=1) if n > 1 else (mean[:, 0] > 0.0).astype(int)
    of_label = {label: [rows[at] for at in np.flatnonzero(leader == label)] for label in np.unique(leader).tolist()}
    options: dict[str, Any] = {"alpha": 0.95, "method": "plugin", "voting": "soft" if by == "scores" else "auto"}
    micro, macro = (rfsize.size(*given, **options, average=of) for of in ("micro", "macro"))
    for n_trees in (1, 5, 39) if by == "votes" else (39, 99, 1001):  # by scores, smaller forests are measured
        expected = reference.margins.disagreement(rows, n_trees)
        assert micro.loss_at(n_trees).value == pytest.approx(expected, rel=3e-3)
        by_class = {label: reference.margins.disagreement(of, n_trees) for label, of in of_label.items()}
        assert macro.loss_at(n_trees).by_class == pytest.approx(by_class, rel=3e-3, abs=2e-5)
        assert macro.loss_at(n_trees).value == pytest.approx(np.mean(list(by_class.values())), rel=3e-3)
    assert micro.n_trees == pytest.approx(reference.margins.size(rows, 0.95), rel=0.01)


# The noise of the trees


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("of_votes", [True, False])
def test_influence_of_a_row_is_what_more_of_its_weight_adds(of_votes: bool, folded: bool) -> None:
    rng, sizes = np.random.default_rng(3), np.array([1, 9, 99])
    n_votes = rng.binomial(60, 0.5, 800)
    losing = rng.binomial(n_votes, rng.beta(0.5, 0.6, 800))
    losing = np.minimum(losing, n_votes - losing) if folded else losing
    rows: Any = VoteCells(losing, n_votes, np.ones(800), folded)
    if not of_votes:
        rows = MarginCells.of(np.tan(rows.angle), n_votes, folded=folded)
    cells, cell = rows.merged()
    np.testing.assert_allclose(np.bincount(cell, rows.angle) / cells.rows, cells.angle, atol=0.02)
    density = fit_density(cells, with_draws=False)
    values = theory.disagreement(sizes, density.fractions[:, None])
    added = influence(density, cells, values, 800.0)
    for place in range(0, len(added), len(added) // 10):
        weight = 0.05 * (np.arange(len(added)) == place)
        more, less = (fit_density(cells._replace(rows=cells.rows + by), with_draws=False) for by in (weight, -weight))
        # The weights of the fits change a little too, which the influence leaves out.
        np.testing.assert_allclose(added[place], (more.mass - less.mass) @ values / 0.1, rtol=0.1, atol=2e-5)


@pytest.mark.parametrize(("trees", "n_trees"), [(100, 3), (40, 33)])
def test_replicates_scatter_by_rows_and_by_the_jackknife(trees: int, n_trees: int) -> None:
    """Trees differ in their leaning on all rows; twenty blocks of them vote on each. Few hide it by each row's own."""
    rng = np.random.default_rng(1)
    label = rng.normal(size=(300, 1)) + 0.8 * rng.normal(size=trees) + rng.normal(size=(300, trees)) > 1.5
    model = by_one_score(np.where(label, 1.0, -1.0))
    report = rfsize.size(model, rows_of(label), alpha=0.95, voting="hard", method="plugin")
    blocks = np.stack([(label == value).reshape(300, -1, 20).sum(axis=1) for value in (False, True)], axis=2)
    curve = report.estimate.curve
    by_row = theory.disagreement(n_trees, np.minimum(pi := label.mean(axis=1), 1.0 - pi))
    of_rows = by_row.var() / len(by_row) / by_row.mean() ** 2
    of_trees = reference.jackknife.variance_of_votes(blocks, n_trees, float(by_row.mean()))
    logs = [math.log(reference.curve.loss_at(curve.sizes, row, n_trees)) for row in curve.replicates]
    # Twenty blocks tell their own scatter only by Student's t; estimates of two classes are off by a quarter more.
    assert np.std(logs) == pytest.approx(1.25 * math.sqrt(of_rows + of_trees * 19 / 17 + 0.03**2), rel=0.15)
    assert (of_trees > of_rows) == (trees == 100)


# What another training set brings


@pytest.mark.parametrize("n_bags", [1, 3])
@pytest.mark.parametrize("chance", [0.6, [0.9, 0.2, 0.5, 0.5, 0.7, 0.1, 0.4, 0.6, 1.0]])
@pytest.mark.parametrize("units", [None, [0, 0, 1, 2, 3, 3, 3, 4, 5]])
def test_variance_by_training_rows(n_bags: int, chance: Any, units: list[int] | None) -> None:
    rng, link = np.random.default_rng(5), Link("softmax", 0.7)
    drawn = rng.binomial(1, np.reshape(chance, (-1, 1, 1)), size=(9, 40, n_bags))
    score, may_score = rng.normal(size=(4, 40, 3)) + drawn[:4].mean(axis=2, keepdims=True), drawn[4:8] == 0
    may_score[:, :2] = True
    bags = TrainingBags.of(lambda a, b: drawn[a:b], 9, None if units is None else np.array(units))
    variances = row_variances(*parts_of(score, may_score, link, n_parts=n_bags), bags)
    for row, output in np.ndindex(4, 3):
        kept = [may_score[row, :, bag] for bag in range(n_bags)]
        mean = [score[row, kept[min(k, n_bags - 1)], k].mean() for k in range(3)]
        share = np.exp(0.7 * np.array(mean)) / np.exp(0.7 * np.array(mean)).sum()
        slope = [0.7 * share[output] * (float(k == output) - share[k]) for k in range(3)]
        of_row = score[row], may_score[row], drawn.swapaxes(0, 1), slope, units or list(range(9))
        expected = reference.jackknife.sampling_variance(*of_row, even=isinstance(chance, float))
        assert (variances.by_rows[row, output], variances.bias[row, output]) == pytest.approx(expected)


def test_trees_that_do_not_depend_on_their_bags_bring_nothing() -> None:
    """Its error before the noise of few trees was taken off rightly: as large as the variance of a tree."""
    rng, brought = np.random.default_rng(6), []
    for _ in range(30):
        drawn = rng.random((300, 40, 1)) < 0.6
        bags = TrainingBags.of(lambda a, b, drawn=drawn: drawn[a:b], 300)
        variances = row_variances(
            *parts_of(rng.normal(size=(60, 40, 1)), ~drawn[:60], Link("identity"), n_parts=1), bags
        )
        brought.append(variances.by_rows.mean() / variances.by_tree.mean())
    assert abs(np.mean(brought)) < 0.4


# Curves


@pytest.mark.parametrize("is_odd", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_curves_are_read_as_restated(seed: int, is_odd: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.union1d(1, rng.integers(2, 80, 7))
    loss, replicates = rng.uniform(0.8, 1.2, (2, 9, len(sizes))) * 0.3 / np.sqrt(sizes)
    curve, step = LossCurve(sizes, loss[0], replicates, is_odd), 2 if is_odd else 1
    restated = sizes.tolist(), loss[0].tolist()
    for n_trees in (1, 2, 7, 30, 200):
        assert curve.at(n_trees) == pytest.approx(reference.curve.loss_at(*restated, n_trees), rel=1e-9)
        of_replicates = [reference.curve.loss_at(restated[0], row, n_trees) for row in replicates.tolist()]
        assert curve.interval(n_trees) == pytest.approx(np.quantile(of_replicates, [0.025, 0.975]), rel=1e-9)
    for level in (0.05, 0.1, 0.2):
        expected = [reference.curve.smallest_size(restated[0], row, level, step) for row in replicates.tolist()]
        for share in (0.2, 0.5, 0.85):
            assert curve.size_quantile(level, share) == reference.curve.quantile(expected, share)


def test_quantiles_go_on_beyond_the_replicates() -> None:
    votes = np.random.default_rng(0).binomial(100, [0.4] * 50 + [0.05] * 300)
    report = rfsize.size(rfsize.Votes(np.stack([100 - votes, votes], axis=1)), alpha=0.97)
    uppers = [report.upper(sure) for sure in (0.5, 0.8, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0 - 1e-6)]
    assert uppers == sorted(uppers)
    assert uppers[-4] < uppers[-3] < uppers[-2] < uppers[-1] < math.inf


def test_kinds_are_averaged_as_if_drawn_apart() -> None:
    """All replicates come from one seed, so that curves of like kinds are the same."""
    replicates = np.random.default_rng(0).uniform(0.1, 0.2, (200, 1)) / np.array([1.0, 2.0])
    curve = LossCurve(np.array([1, 9]), np.array([0.15, 0.07]), replicates)
    mean = averaged([curve, curve], np.array([0.5, 0.5]))
    assert mean.loss == pytest.approx(curve.loss)
    assert mean.replicates.std(axis=0) == pytest.approx(replicates.std(axis=0) / math.sqrt(2.0), rel=0.15)


# Certificates


@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize("rows", [1, 50, 3000])
def test_most_disagreements_at_a_confidence(rows: int, confidence: float) -> None:
    for alpha in (0.5, 0.9, 0.99):
        passing = [k for k in range(rows) if binom.cdf(k, rows, 1.0 - alpha) <= 1.0 - confidence]
        assert most_disagreements(rows, alpha, confidence) == max(passing, default=-1)


@given(st.data(), st.integers(1, 3), st.sampled_from(["micro", "macro"]))
def test_fixed_sequence_stops_at_the_first_failure(data: st.DataObject, n_classes: int, average: str) -> None:
    rows = data.draw(arrays(np.int64, n_classes, elements=st.integers(20, 60)))
    differing = data.draw(arrays(np.int64, (n_classes, 6), elements=st.integers(0, 12)))
    expected = reference.certified.last_passing(differing.T.tolist(), rows.tolist(), 0.8, 0.9, average)
    assert RiskTarget(0.8, 0.9, average).fixed_sequence(differing, rows) == expected
