"""Estimates of T* from few votes or scores, where the truth is known."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.lookup import by_one_score, by_scores, classifier, rows_of
from helpers.trained import train, tree_scores
from rfsize import theory

DENSITIES = {"arcsine": stats.beta(0.5, 0.5), "U-shaped": stats.beta(0.3, 0.6), "one hump": stats.beta(5, 2)}
FRACTIONS = (np.arange(20_000) + 0.5) / 20_000


def drawn(density: str, n_rows: int, n_trees: int, seed: int) -> rfsize.Votes:
    """Out-of-bag votes of rows whose fractions come from a density, or are those of four classes."""
    rng = np.random.default_rng(seed)
    n_votes = rng.binomial(n_trees, 0.37, n_rows)
    if density == "four classes":
        return rfsize.Votes(rng.multinomial(n_votes, four_classes(n_rows, rng)), n_trees=n_trees)
    count = rng.binomial(n_votes, DENSITIES[density].rvs(n_rows, random_state=rng))
    return rfsize.Votes(np.stack([n_votes - count, count], axis=1), n_trees=n_trees)


def four_classes(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet([0.3, 0.5, 0.5, 0.2], size=n_rows)


@cache
def true_size(density: str, alpha: float) -> int | float:
    if density == "four classes":
        pi = four_classes(20_000, np.random.default_rng(0))
        return theory.smallest_size(
            lambda n: float(theory.multiclass_disagreement(n, pi).mean()), 1.0 - alpha, odd=True
        )
    return theory.ensemble_size(alpha, DENSITIES[density].ppf(FRACTIONS))


# Votes


@pytest.mark.parametrize(("density", "n_trees"), [*zip(DENSITIES, (60, 1000, 60), strict=True), ("four classes", 1000)])
def test_smooth_recovers_the_size(density: str, n_trees: int) -> None:
    report = rfsize.size(drawn(density, 30_000, n_trees, 0), alpha=0.99, method="smooth")
    for alpha in (0.95, 0.99, 0.995):
        assert report.size_at(alpha) == pytest.approx(true_size(density, alpha), rel=0.2, abs=2)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("few", "many"), [(0.6, 6.0), (1.0, 4.0)])
def test_macro_of_a_class_that_rows_get_fewer_towards(n_classes: int, few: float, many: float) -> None:
    rng = np.random.default_rng(1)
    against = rng.beta(many, few, 30_000)
    n_votes, rest = rng.binomial(100, 0.37, 30_000), [np.zeros(30_000)] * (n_classes - 2)
    count = rng.binomial(n_votes, against)
    votes = rfsize.Votes(np.column_stack([count, n_votes - count, *rest]).astype(int), n_trees=100)
    report = rfsize.size(votes, average="macro", method="smooth")
    for n_trees in (51, 501):
        lost = theory.disagreement(n_trees, stats.beta(many, few).ppf(FRACTIONS))
        own = stats.beta(many, few).ppf(FRACTIONS) < 0.5
        assert report.loss_at(n_trees).by_class[1] == pytest.approx(lost[own].mean(), rel=0.1)
        assert report.loss_at(n_trees).value == pytest.approx((lost[own].mean() + lost[~own].mean()) / 2.0, rel=0.1)


def test_unanimous_rows_need_fewer_trees_the_more_they_are() -> None:
    sizes = [rfsize.size(rfsize.Votes([[0, 30]] * n), alpha=0.95, method="smooth").n_trees for n in (2, 10, 100, 1000)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] == 1


@pytest.mark.parametrize(("n_rows", "highest"), [(10, 1000), (100, 3), (3000, 1)])
def test_unanimous_rows_bound_the_interval(n_rows: int, highest: int) -> None:
    report = rfsize.size(rfsize.Votes([[100, 0]] * n_rows), method="smooth")
    assert report.n_trees == 1
    assert report.interval[1] <= highest


def test_single_votes_leave_the_density_at_its_prior() -> None:
    """2/π at one half: nothing is known of it."""
    report = rfsize.size(rfsize.Votes([[1, 0], [0, 1], [0, 1]]), method="smooth")
    for n_trees in (1001, 10**6 + 1):
        expected = theory.asymptotic_disagreement(n_trees, 2.0 / math.pi)
        assert report.loss_at(n_trees).value == pytest.approx(float(expected), rel=0.01)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_piled_up_at_a_tie_turn_to_the_plug_in(n_classes: int) -> None:
    rng = np.random.default_rng(7)
    two = rng.binomial(500, np.concatenate([np.full(300, 0.5), rng.beta(0.4, 0.6, 2700)]))
    votes = rfsize.Votes(np.column_stack([500 - two, two, *np.zeros((n_classes - 2, 3000), dtype=int)]))
    chosen, plugin, smooth = (rfsize.size(votes, method=method) for method in ("auto", "plugin", "smooth"))
    assert [report.to_dict()["method"] for report in (chosen, smooth)] == ["plugin", "smooth"]
    assert chosen.n_trees == plugin.n_trees > 2 * smooth.n_trees
    ordinary = drawn("arcsine" if n_classes == 2 else "four classes", 300, 100, 8)
    assert rfsize.size(ordinary).to_dict() == rfsize.size(ordinary, method="smooth").to_dict()


# Averaged scores


def test_trees_that_always_agree_are_certain() -> None:
    level = np.array([[1.0, -1.0]] * 30 + [[1.0, 2.0]] * 70).repeat(20, axis=1)
    tied = rfsize.size(by_one_score(level), rows_of(level), alpha=0.99, voting="soft", method="plugin")
    assert (tied.n_trees, tied.loss_at(10**9 + 1).value) == (math.inf, pytest.approx(0.15))
    assert tied.size_at(0.8) < math.inf
    fixed = np.repeat([[0.7], [0.5], [0.4]], 30, axis=1)  # even where they say is a tie, all forests break it alike
    assert rfsize.size(classifier(fixed), rows_of(fixed), alpha=0.999, method="plugin").n_trees == 1
    level = np.zeros((200, 30))
    report = rfsize.size(classifier(level), rows_of(level), alpha=0.9)
    assert (report.n_trees, report.interval, report.loss_at(1).value) == (1, (1, 1), pytest.approx(0.0, abs=1e-3))


@cache
def size_of_margins() -> int | float:
    """T*(0.99) of rows whose margins are as votes with fractions from the arcsine law, and a little noise."""
    pi = DENSITIES["arcsine"].ppf(FRACTIONS)
    margin = np.abs(2.0 * pi - 1.0) / np.sqrt(4.0 * pi * (1.0 - pi) + 0.09)
    return theory.smallest_size(lambda size: float(ndtr(-math.sqrt(size) * margin).mean()), 0.01, guess=101, odd=True)


def of_scores(n_rows: int, n_trees: int, seed: int, **options: Any) -> rfsize.Report:
    rng = np.random.default_rng(seed)
    pi = rng.beta(0.5, 0.5, size=(n_rows, 1))
    score = np.where(rng.random((n_rows, n_trees)) < pi, 1.0, -1.0) + 0.3 * rng.normal(size=(n_rows, n_trees))
    return rfsize.size(by_one_score(score), rows_of(score), alpha=0.99, voting="soft", **options)


@pytest.mark.parametrize("n_trees", [20, 400])
def test_smooth_recovers_the_size_by_scores(n_trees: int) -> None:
    assert of_scores(6000, n_trees, 0, method="smooth").n_trees == pytest.approx(size_of_margins(), rel=0.2)


@pytest.mark.parametrize(("n_classes", "voting", "n_trees"), [(12, "soft", 20), (8, "hard", 40)])
def test_halves_of_the_trees_tell_the_bias_of_many_classes(n_classes: int, voting: str, n_trees: int) -> None:
    rng = np.random.default_rng(n_classes)
    means = rng.normal(size=(2000, 1, n_classes))
    score = means + 2.0 * rng.normal(size=(2000, n_trees, n_classes))
    many = (row + 2.0 * rng.normal(size=(1000, n_classes)) for row in means)
    pi = np.stack([np.bincount(row.argmax(axis=1), minlength=n_classes) for row in many]) / 1000.0
    behind = np.sort(means[:, 0].max(axis=1, keepdims=True) - means[:, 0], axis=1)[:, 1:] / math.sqrt(8.0)

    def lost(size: int) -> float:
        if voting == "hard":
            return float(theory.multiclass_disagreement(size, pi).mean())
        return float(np.mean(1.0 - np.prod(ndtr(math.sqrt(size) * behind), axis=1)))

    truth = theory.smallest_size(lost, 0.05, guess=101, odd=True)
    report = rfsize.size(by_scores(score), rows_of(score), alpha=0.95, voting=voting, method="smooth")
    assert -0.3 < math.log(report.n_trees / truth) < 0.45
    assert report.interval[0] < truth < report.interval[1]


def test_two_kinds_of_trees_pile_rows_up_at_a_tie() -> None:
    """Half of the trees know one of two things, and half the other."""
    rng = np.random.default_rng(4)
    side = rng.normal(size=(1000, 2))
    side[:300] = rng.choice([-1.0, 1.0], (300, 1)) * [1.0, -1.0]
    score = side[:, rng.integers(0, 2, 400)] + 0.1 * rng.normal(size=(1000, 400))
    chosen = rfsize.size(by_one_score(score), rows_of(score), voting="soft")
    assert [report.to_dict()["method"] for report in (chosen, of_scores(300, 40, 0))] == ["plugin", "smooth"]


@pytest.mark.parametrize(("kind", "voting"), [("random forest", "soft"), ("lightgbm", "hard"), ("xgboost", "soft")])
def test_what_a_few_trees_change_is_measured(kind: str, voting: str) -> None:
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
    score = np.eye(3)[score.argmax(axis=2)] if voting == "hard" else score
    report, label = rfsize.size(model, X[900:], alpha=0.9, voting=voting), score.mean(axis=1).argmax(axis=1)
    for n_trees in (1, 3, 7):
        forests = [score[:, at : at + n_trees].mean(axis=1) for at in range(0, 121 - n_trees, n_trees)]
        changed = np.mean([forest.argmax(axis=1) != label for forest in forests])
        assert report.loss_at(n_trees).value == pytest.approx(changed, rel=0.25, abs=0.002)


# What all rows share


LENIENT = stats.beta(1.0, 4.0)


def lenient(seed: int, shared: float, n_rows: int = 1000) -> np.ndarray:
    """Scores of 60 trees; a tree that is lenient is so on all rows, by a share of its variance."""
    rng = np.random.default_rng(seed)
    own, of_tree = rng.normal(size=(n_rows, 60)), rng.normal(size=60)
    mean = ndtri(LENIENT.rvs(n_rows, random_state=rng))
    return mean[:, None] + math.sqrt(shared) * of_tree + math.sqrt(1.0 - shared) * own


@cache
def size_of_lenient(voting: str) -> float:
    pi = LENIENT.ppf(FRACTIONS)
    if voting == "hard":
        return theory.ensemble_size(0.97, np.minimum(pi, 1.0 - pi))
    margin = np.abs(ndtri(pi))
    return theory.smallest_size(lambda size: float(ndtr(-math.sqrt(size) * margin).mean()), 0.03)


@pytest.mark.parametrize(("voting", "method"), [("hard", "plugin"), ("soft", "smooth")])
def test_intervals_hold_the_truth_where_rows_err_together(voting: str, method: str) -> None:
    truth, n_covered, n_above = size_of_lenient(voting), 0, 0
    for seed in range(16):
        score = lenient(seed, 0.5)
        report = rfsize.size(by_one_score(score), rows_of(score), alpha=0.97, voting=voting, method=method)
        n_covered += report.interval[0] <= truth <= report.interval[1]
        n_above += report.upper(0.8) >= truth
        assert report.interval[0] <= report.upper(0.5) <= report.upper(0.8) <= report.upper(0.99)
    assert n_covered >= 13
    assert 9 <= n_above <= 15


# Kinds of rows


@pytest.mark.parametrize(
    ("group_sizes", "n_groups", "kinds"), [([1, 4], [1500, 75], [1, 4]), ([1, 2, 3, 4], [30, 60, 30, 10], [1, 3])]
)
def test_kinds_of_rows_are_estimated_apart(group_sizes: list[int], n_groups: list[int], kinds: list[int]) -> None:
    """Rows near a tie belong to larger groups, which have few votes; kinds of few rows are put with the next."""
    rng, of_row = np.random.default_rng(0), np.repeat(group_sizes, np.multiply(group_sizes, n_groups))
    groups = np.repeat(np.arange(sum(n_groups)), np.repeat(group_sizes, n_groups))
    pi = np.where(of_row == 1, rng.beta(0.3, 6.0, len(of_row)), rng.beta(6.0, 6.0, len(of_row)))
    label = rng.random((len(of_row), 100)) < pi[:, None]
    outputs = rfsize.tree_outputs(
        by_one_score(np.where(label, 1.0, -1.0), max_samples=0.5), rows_of(label), oob=True, groups=groups
    )
    report = rfsize.size(outputs, alpha=0.9, voting="hard", method="smooth")
    kind = np.searchsorted(kinds, of_row, side="right")
    parts = [rfsize.size(outputs.votes.take(kind == of), alpha=0.9, method="smooth") for of in np.unique(kind)]
    for n_trees in (1, 9, 51):
        expected = np.average([part.loss_at(n_trees).value for part in parts], weights=np.bincount(kind)[1:])
        assert report.loss_at(n_trees).value == pytest.approx(expected)
    assert report.interval[0] <= report.n_trees <= report.interval[1]
