"""Estimates from averaged scores, the noise that all rows share, and strata of rows."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import ndtr, ndtri
from sklearn.ensemble import RandomForestClassifier

import reference.deconvolution
import reference.leads
import reference.multiclass
import rfsize
from helpers.lookup import by_one_score, by_scores, classifier, rows_of
from helpers.trained import train, tree_scores
from rfsize import theory
from rfsize.estimation import hard
from rfsize.estimation.intervals import Curves
from rfsize.estimation.shared_trees import LeadChanges, weighted_sums
from rfsize.estimation.soft import LeadCells
from rfsize.estimation.strata import by_class, by_group_sizes, of_group_sizes, within_classes


def two_classes(count: Any, asked: Any) -> rfsize.Votes:
    """Votes for class 1, of so many trees asked."""
    count, asked = np.broadcast_arrays(count, asked)
    return rfsize.Votes(np.stack([asked - count, count], axis=1), n_trees=int(asked.max()))


# Averaged scores


def scored(n_rows: int, n_trees: int, n_scores: int, seed: int) -> np.ndarray:
    """Scores of each tree about means of the row."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_rows, 1, n_scores))
    return means + rng.uniform(0.2, 2.0, (n_rows, 1, n_scores)) * rng.normal(size=(n_rows, n_trees, n_scores))


@pytest.mark.parametrize("n_scores", [1, 3, 26])
def test_soft_plug_in_is_as_restated(n_scores: int) -> None:
    score = scored(60, 40, n_scores, n_scores)
    model = by_one_score(score[:, :, 0]) if n_scores == 1 else by_scores(score)
    report = rfsize.size(model, rows_of(score), alpha=0.97, voting="soft", method="plugin")
    rows = [reference.leads.leads(row.tolist(), 0.0) for row in score]
    for n_trees in (19, 41, 1001):  # smaller forests are measured
        assert report.loss_at(n_trees).value == pytest.approx(reference.leads.disagreement(rows, n_trees), rel=1e-3)
    assert report.n_trees == reference.leads.size(rows, 0.97)


def test_trees_that_always_agree_are_certain() -> None:
    level = np.array([[1.0, -1.0]] * 30 + [[1.0, 2.0]] * 70).repeat(20, axis=1)
    tied = rfsize.size(by_one_score(level), rows_of(level), alpha=0.99, voting="soft", method="plugin")
    assert (tied.n_trees, tied.loss_at(10**9 + 1).value) == (math.inf, pytest.approx(0.15))
    assert tied.size_at(0.8) < math.inf
    fixed = np.repeat([[0.7], [0.5], [0.4]], 30, axis=1)  # even where they say is a tie, all forests break it alike
    assert rfsize.size(classifier(fixed), rows_of(fixed), alpha=0.999, method="plugin").n_trees == 1


@pytest.mark.parametrize("asked", [2, 7, 40, 1000])
def test_likelihood_of_a_lead(asked: int) -> None:
    leads, pi = np.array([0.0, 0.1, 0.9, 1.1, 3.5, 50.0, math.inf]), np.linspace(0.01, 0.5, 20)
    cells = LeadCells.of(leads, np.full(len(leads), asked))
    assert cells.rows.sum() == len(leads)
    for row, lead in zip(cells.log_likelihood(pi), leads, strict=False):
        expected = np.array([reference.leads.log_likelihood(lead, asked, fraction) for fraction in pi.tolist()])
        np.testing.assert_allclose(row - row.max(), expected - expected.max(), rtol=1e-6, atol=1e-9)


@cache
def size_of_leads() -> int | float:
    """T*(0.99) of rows whose leads are as votes with fractions from the arcsine law, and a little noise."""
    pi = stats.beta(0.5, 0.5).ppf((np.arange(20_000) + 0.5) / 20_000)
    lead = np.abs(2.0 * pi - 1.0) / np.sqrt(4.0 * pi * (1.0 - pi) + 0.09)
    return theory.smallest_size(lambda size: float(ndtr(-math.sqrt(size) * lead).mean()), 0.01, guess=101, odd=True)


def led(n_rows: int, n_trees: int, seed: int, **options: Any) -> rfsize.Report:
    rng = np.random.default_rng(seed)
    pi = rng.beta(0.5, 0.5, size=(n_rows, 1))
    score = np.where(rng.random((n_rows, n_trees)) < pi, 1.0, -1.0) + 0.3 * rng.normal(size=(n_rows, n_trees))
    return rfsize.size(by_one_score(score), rows_of(score), alpha=0.99, voting="soft", **options)


@pytest.mark.parametrize("n_trees", [20, 400])
def test_soft_smooth_recovers_the_size(n_trees: int) -> None:
    assert led(6000, n_trees, 0, method="smooth").n_trees == pytest.approx(size_of_leads(), rel=0.2)


def test_soft_smooth_is_nearer_than_plug_in_and_covered() -> None:
    errors, held = {"smooth": [], "plugin": []}, 0
    for seed in range(16):
        for method, off in errors.items():
            report = led(300, 40, seed, method=method)
            off.append(math.log(report.n_trees / size_of_leads()))
            held += method == "smooth" and report.interval[0] <= size_of_leads() <= report.interval[1]
    rms = {method: math.sqrt(np.mean(np.square(off))) for method, off in errors.items()}
    assert rms["smooth"] < min(rms["plugin"], 0.5)
    assert held >= 13


def test_scores_of_zero_and_one_are_votes() -> None:
    rng = np.random.default_rng(3)
    label = (rng.random((2000, 40)) < rng.beta(0.5, 0.5, (2000, 1))).astype(float)
    soft, by_votes = (
        rfsize.size(classifier(label), rows_of(label), alpha=0.99, voting=voting, method="smooth")
        for voting in ("soft", "hard")
    )
    for alpha in (0.95, 0.99):
        assert soft.size_at(alpha) == pytest.approx(by_votes.size_at(alpha), rel=0.15)


@pytest.mark.parametrize("n_classes", [8, 12])
def test_halves_of_the_trees_tell_the_bias_of_many_classes(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    means = rng.normal(size=(2000, 1, n_classes))
    score = means + 2.0 * rng.normal(size=(2000, 20, n_classes))
    behind = np.sort(means[:, 0].max(axis=1, keepdims=True) - means[:, 0], axis=1)[:, 1:] / math.sqrt(8.0)

    def lost(size: int) -> float:
        return float(np.mean(1.0 - np.prod(ndtr(math.sqrt(size) * behind), axis=1)))

    truth = theory.smallest_size(lost, 0.05, guess=101, odd=True)
    report = rfsize.size(by_scores(score), rows_of(score), alpha=0.95, voting="soft", method="smooth")
    assert -0.3 < math.log(report.n_trees / truth) < 0.45
    assert report.interval[0] < truth < report.interval[1]


def test_classes_that_are_far_behind_change_nothing() -> None:
    rng = np.random.default_rng(8)
    score = np.zeros((500, 40, 4))
    score[:, :, 2] = rng.normal(size=(500, 1)) + rng.normal(size=(500, 40))
    score[:, :, [1, 3]] = -50.0
    for method in ("plugin", "smooth"):
        sizes = [
            rfsize.size(by_scores(of), rows_of(of), alpha=0.99, voting="soft", method=method).n_trees
            for of in (score, score[:, :, [0, 2]])
        ]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


def test_two_kinds_of_trees_pile_rows_up_at_a_tie() -> None:
    """Half of the trees know one of two things, and half the other."""
    rng = np.random.default_rng(4)
    side = rng.normal(size=(1000, 2))
    side[:300] = rng.choice([-1.0, 1.0], (300, 1)) * [1.0, -1.0]
    score = side[:, rng.integers(0, 2, 400)] + 0.1 * rng.normal(size=(1000, 400))
    chosen = rfsize.size(by_one_score(score), rows_of(score), voting="soft")
    assert chosen.to_dict()["method"] == "plugin"
    assert led(300, 40, 0).to_dict()["method"] == "smooth"


@pytest.mark.parametrize("kind", ["random forest", "lightgbm", "xgboost"])
def test_what_a_few_trees_change_is_measured(kind: str) -> None:
    """A single tree that is grown out votes 0 or 1, which no normal law describes; T is small and a class is rare."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(2200, 7))
    y = (1.2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.8 * np.abs(X[:, 3]) + 0.7 * rng.logistic(size=2200) > 5.0).astype(int)
    y = np.where(X[:, 5] > 0.8, 2, y)
    if kind == "random forest":
        model = RandomForestClassifier(120, min_samples_leaf=2, random_state=0).fit(X[:900], y[:900])
    else:
        model = train(kind, X[:900], y[:900], 120)
    score = tree_scores(model, X[900:])
    report, label = rfsize.size(model, X[900:], alpha=0.9, voting="soft"), score.mean(axis=1).argmax(axis=1)
    for n_trees in (1, 3, 7):
        forests = [score[:, at : at + n_trees].mean(axis=1) for at in range(0, 121 - n_trees, n_trees)]
        changed = np.mean([of.argmax(axis=1) != label for of in forests])
        assert report.loss_at(n_trees).value == pytest.approx(changed, rel=0.25, abs=0.002)


# Intervals, and what all rows share


@given(arrays(np.float64, (4, 3), elements=st.just(0.0) | st.floats(1e-6, 0.5)), st.floats(1.0, 2.0))
def test_wider_curves(disagreement: np.ndarray, factor: float) -> None:
    found = Curves(np.array([1, 3, 9]), disagreement).wider(factor).disagreement
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, middle = np.log(disagreement), np.log(disagreement.mean(axis=0))
        expected = np.minimum(np.exp(middle + factor * (logs - middle)), 1.0)
    np.testing.assert_allclose(found, np.where(disagreement == 0.0, 0.0, expected), rtol=1e-9)


def test_curves_go_on_straight_on_logarithmic_axes() -> None:
    known, sizes = np.array([9, 17, 33]), np.array([3, 9, 25, 1001, 100_001])
    law = [np.array([[0.5], [0.3]]) / of ** np.array([[0.5], [1.0]]) for of in (known, sizes)]
    assert Curves(known, law[0]).at(sizes) == pytest.approx(law[1], rel=1e-9)


def test_upper_sizes_grow_beyond_what_replicates_tell() -> None:
    for_class_1 = np.random.default_rng(0).binomial(100, [0.4] * 50 + [0.05] * 300)
    report = rfsize.size(two_classes(for_class_1, 100), alpha=0.97)
    uppers = [report.upper(sure) for sure in (0.5, 0.8, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0 - 1e-6)]
    assert uppers == sorted(uppers)
    assert uppers[-4] < uppers[-3] < uppers[-2] < uppers[-1] < math.inf


FRACTIONS = stats.beta(1.0, 4.0)


def lenient(seed: int, shared: float, n_rows: int = 1000) -> np.ndarray:
    """Scores of 60 trees; a tree that is lenient is so on all rows, by a share of its variance."""
    rng = np.random.default_rng(seed)
    own, of_tree = rng.normal(size=(n_rows, 60)), rng.normal(size=60)
    mean = ndtri(FRACTIONS.rvs(n_rows, random_state=rng))
    return mean[:, None] + math.sqrt(shared) * of_tree + math.sqrt(1.0 - shared) * own


@cache
def size_of_lenient(voting: str) -> float:
    pi = (np.arange(100_000) + 0.5) / 100_000
    weight = FRACTIONS.pdf(pi) / FRACTIONS.pdf(pi).sum()
    if voting == "hard":
        return theory.ensemble_size(0.97, np.minimum(pi, 1.0 - pi), weight)
    lead = np.abs(ndtri(pi))
    return theory.smallest_size(lambda size: float(weight @ ndtr(-math.sqrt(size) * lead)), 0.03)


@pytest.mark.parametrize(("voting", "method"), [("hard", "smooth"), ("hard", "plugin"), ("soft", "smooth")])
def test_intervals_hold_the_truth_where_rows_err_together(voting: str, method: str) -> None:
    truth, held, sure = size_of_lenient(voting), 0, 0
    for seed in range(16):
        score = lenient(seed, 0.5)
        model, options = by_one_score(score), {"alpha": 0.97, "voting": voting, "method": method}
        report = rfsize.size(model, rows_of(score), **options)
        held += report.interval[0] <= truth <= report.interval[1]
        sure += report.upper(0.8) >= truth
        assert report.interval[0] <= report.upper(0.5) <= report.upper(0.8) <= report.upper(0.99)
    assert held >= 13
    assert 9 <= sure <= 15


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_noise_of_trees_widens_the_interval_where_rows_share_it(shared: float) -> None:
    ratios = []
    for seed in range(8):
        score = lenient(seed, shared)
        model = by_one_score(score)
        options: dict[str, Any] = {"alpha": 0.97, "method": "smooth"}
        by_trees = rfsize.size(model, rows_of(score), voting="hard", **options).interval
        by_rows = rfsize.size(rfsize.tree_outputs(model, rows_of(score)).votes, **options).interval
        ratios.append(np.ptp(np.log(by_trees)) / np.ptp(np.log(by_rows)))
    assert 0.9 < np.median(ratios) < 1.2 if shared == 0.0 else np.median(ratios) > 1.5


NUMBER = st.floats(-1e3, 1e3, width=32)


@given(st.data(), st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 3)))
def test_weighted_sums(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    beyond = data.draw(arrays(float, shape, elements=NUMBER))
    weights = data.draw(arrays(float, (data.draw(st.integers(1, 4)), shape[1]), elements=NUMBER))
    expected = [[weight @ row for row in beyond] for weight in weights]
    np.testing.assert_allclose(weighted_sums(beyond, weights), expected, rtol=1e-9, atol=1e-6)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.integers(1, 1000))
def test_own_share_of_the_variance(n_rows: int, seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    lead, change, counts_for = rng.random(n_rows), rng.normal(size=(n_rows, 4)), rng.integers(1, 5, n_rows) * 1.0
    asked = rng.integers(0, 200, n_rows) * 1.0
    own, together = 0.0, [0.0] * 4
    for row in range(n_rows):
        known = 1.0 / math.sqrt(1.0 / size + 1.0 / max(asked[row], 1.0))
        weight = counts_for[row] * known * math.exp(-0.5 * min(known * lead[row], 30.0) ** 2)
        for block in range(4):
            own += (weight * change[row, block]) ** 2
            together[block] += weight * change[row, block]
    (found,) = LeadChanges(lead, change, asked, counts_for).own_share(np.array([size]))
    assert found == pytest.approx(min(1.0, own / sum(one**2 for one in together)), rel=1e-6)


# Strata


def test_strata_are_estimated_apart_and_averaged() -> None:
    """Rows near a tie belong to groups of four, which have few votes: one density for all rows would miss them."""
    rng = np.random.default_rng(0)
    pi = np.concatenate([rng.beta(0.3, 6.0, 1500), rng.beta(6.0, 6.0, 300)])
    sizes = np.repeat([1, 4], [1500, 300])
    asked = np.where(sizes == 1, 110, 9)
    votes = two_classes(rng.binomial(asked, pi), asked)
    found = by_group_sizes(of_group_sizes(sizes), votes.n_votes >= 1, lambda rows: hard.smooth(votes.take(rows)))
    parts = [hard.smooth(votes.take(sizes == of)) for of in (1, 4)]
    for n_trees in (1, 9, 101):
        expected = (1500 * parts[0].disagreement(n_trees) + 300 * parts[1].disagreement(n_trees)) / 1800
        assert found.disagreement(n_trees) == pytest.approx(expected)
    truth = theory.mean_disagreement(51, np.minimum(pi, 1.0 - pi))
    assert found.disagreement(51) == pytest.approx(truth, rel=0.25)
    assert hard.smooth(votes).disagreement(51) < 0.75 * truth
    curves = found.replicates(found.size(0.97))
    assert curves.quantile(0.97, 0.025) <= found.size(0.97) <= curves.quantile(0.97, 0.975)


def test_few_rows_are_put_with_the_next_larger_groups() -> None:
    sizes, seen = np.repeat([1, 2, 3, 5, 9, 17], [10, 70, 20, 20, 60, 5]), []

    def estimate(rows: np.ndarray) -> Any:
        seen.append(np.unique(sizes[rows]).tolist())
        return hard.plug_in(two_classes(np.full(rows.sum(), 15), 50))

    by_group_sizes(of_group_sizes(sizes), np.arange(185) < 182, estimate)
    assert seen == [[1, 2], [3, 5, 9, 17]]


def test_classes_count_alike() -> None:
    rng = np.random.default_rng(0)
    leader, sizes, lost = rng.choice([0, 2], 900, p=[0.8, 0.2]), rng.choice([1, 1, 5], 900), rng.integers(0, 20, 900)
    counts = np.full((900, 3), lost[:, None])
    counts[np.arange(900), leader] = 60
    votes, used = rfsize.Votes(counts), rng.random(900) < 0.9
    strata = within_classes(of_group_sizes(sizes), leader)
    found = by_class(strata, used, lambda rows: hard.plug_in(votes.take(np.flatnonzero(rows))))
    each = found.disagreement_of_each(7)
    for of in (0, 2):
        alone = hard.plug_in(votes.take(np.flatnonzero(used & (leader == of))))
        assert each[of] == pytest.approx(alone.disagreement(7))
    assert found.disagreement(7) == pytest.approx(np.mean(list(each.values())))


def test_strata_are_drawn_apart_though_with_one_seed() -> None:
    votes = two_classes(np.random.default_rng(0).binomial(60, stats.beta(0.3, 2.0).rvs(400, random_state=0)), 60)
    twice = rfsize.Votes(np.concatenate([votes.counts, votes.counts]))
    strata = within_classes(None, np.repeat([0, 1], 400))
    found = by_class(strata, np.ones(800, dtype=bool), lambda rows: hard.smooth(twice.take(rows)))
    scatter = [of.replicates(51).disagreement[:, 30].std() for of in (found, hard.smooth(votes))]
    assert scatter[0] == pytest.approx(scatter[1] / math.sqrt(2.0), rel=0.2)
