"""Stop tables against one vote at a time, all orders of the votes, and programs written out in full."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference.stopping
import reference.urn
from helpers.stop_tables import ALPHAS, binary_priors, some_votes, tables, ternary_prior
from rfsize import Votes, _core
from rfsize.stopping import urn
from rfsize.stopping.rules.base import Stops
from rfsize.stopping.rules.ternary import ternary_index
from rfsize.stopping.table import StopTable

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SMALL = settings(deadline=None, max_examples=60)


@SMALL
@given(tables, st.integers(0, 2**32))
def test_apply_votes_one_tree_at_a_time(table: StopTable, seed: int) -> None:
    votes = np.random.default_rng(seed).integers(0, table.n_classes, (8, table.n_trees))
    labels, asked = table.apply(votes)
    assert list(zip(labels.tolist(), asked.tolist(), strict=True)) == [
        reference.stopping.vote_in_order(table, row) for row in votes.tolist()
    ]
    assert labels.dtype == asked.dtype == np.int64


def test_apply_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for n_classes in (2, 3, 4):
        table = StopTable.build(31, n_classes=n_classes)
        votes = np.random.default_rng(0).integers(0, n_classes, (100, 31))
        whole = table.apply(votes)
        monkeypatch.setattr("rfsize.stopping.rules.base._TOGETHER", 31 * 7)
        assert np.array_equal(table.apply(votes), whole)
        monkeypatch.undo()
    assert table.apply(np.empty((0, 31), dtype=int))[0].shape == (0,)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int32])
def test_apply_takes_any_whole_numbers(dtype: Any) -> None:
    votes = np.random.default_rng(0).integers(0, 2, (50, 31))
    table = StopTable.build(31)
    assert np.array_equal(table.apply(votes.astype(dtype)), table.apply(votes))


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.zeros((3, 30), int), r"shape \(3, 30\)"),
        (np.zeros(31, int), "shape"),
        (np.zeros((3, 31)), "float64"),
        (np.full((3, 31), 2), "from 0 to 1; found 2 to 2"),
        (np.full((3, 31), -1), "found -1"),
    ],
)
def test_apply_refuses_what_are_no_votes(votes: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StopTable.build(31).apply(votes)


@settings(deadline=None, max_examples=40)
@given(binary_priors(14), st.sampled_from([Fraction(1, 3), Fraction(9, 10), Fraction(99, 100)]))
def test_threshold_of_two_classes(prior: np.ndarray, alpha: Fraction) -> None:
    """Tallies that can occur stop exactly where their leader exceeds α; others only beyond one that does."""
    table = StopTable.build(len(prior) - 1, alpha=float(alpha), prior=prior)
    assert table.prior is not None
    exact = [Fraction(weight) for weight in table.prior.tolist()]
    for asked in range(1, table.n_trees):
        decisions = [reference.stopping.stop(table, asked, [asked - n, n]) for n in range(asked + 1)]
        for count, decision in enumerate(decisions):
            wins = reference.urn.urn_masses(exact, asked, count)
            lossless = reference.stopping.settled([asked - count, count], table.n_trees - asked)
            if sum(wins) == 0:
                outer = decisions[count + 1 :] if decision == 0 else decisions[:count]
                assert decision in (-1, lossless) or decision in outer
            elif abs(max(wins) / sum(wins) - alpha) > Fraction(1, 10**12):
                assert decision == reference.stopping.threshold_decision(list(wins), alpha)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 7), st.integers(0, 100), st.sampled_from([Fraction(1, 3), Fraction(9, 10)]))
def test_threshold_of_three_classes(n_trees: int, seed: int, alpha: Fraction) -> None:
    table = StopTable.build(n_trees, alpha=float(alpha), prior=ternary_prior(n_trees, seed))
    assert table.prior is not None
    tallies = [(a, b, n_trees - a - b) for a in range(n_trees + 1) for b in range(n_trees + 1 - a)]
    exact = {tally: Fraction(float(table.prior[tally[:2]])) for tally in tallies}
    for asked in range(1, n_trees + 1):
        for a in range(asked + 1):
            for b in range(asked + 1 - a):
                counts = (a, b, asked - a - b)
                wins = reference.urn.ternary_masses(exact, counts)
                expected = reference.stopping.settled(list(counts), n_trees - asked)
                if expected < 0 and sum(wins) > 0:
                    expected = reference.stopping.threshold_decision(wins, alpha)
                assert reference.stopping.stop(table, asked, list(counts)) == expected


def test_six_unanimous_votes_stop_and_five_do_not() -> None:
    table = StopTable.build(101, alpha=0.99)
    assert reference.stopping.stop(table, 6, [0, 6]) == 1
    assert reference.stopping.stop(table, 5, [0, 5]) == -1
    assert reference.stopping.stop(table, 6, [6, 0]) == 0


@SMALL
@given(tables)
def test_expected_figures_are_those_of_all_orders(table: StopTable) -> None:
    assume(table.kind != "leaders" and table.n_trees <= (12 if table.n_classes == 2 else 7))
    prior = urn.uniform_prior(table.n_trees, table.n_classes) if table.prior is None else table.prior
    cells = np.ndindex(prior.shape)
    if table.n_classes == 2:
        tallies = {(table.n_trees - n, n): float(prior[n]) for (n,) in cells}
    else:
        tallies = {(a, b, table.n_trees - a - b): float(prior[a, b]) for a, b in cells if a + b <= table.n_trees}
    wrong, trees = reference.stopping.table_outcome(table, tallies)
    assert table.expected_disagreement() == pytest.approx(wrong, abs=1e-12)
    assert table.expected_trees() == pytest.approx(trees, abs=1e-12)
    assert wrong <= 1.0 - table.alpha + 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rule", ["threshold", "optimal"])
def test_expected_figures_agree_with_simulation(n_classes: int, rule: Any) -> None:
    table = StopTable.build(61, alpha=0.95, rule=rule, n_classes=n_classes)
    generator = np.random.default_rng(1)
    tallies = generator.multinomial(61, generator.dirichlet(np.ones(n_classes), 40_000))
    ordered = np.repeat(np.tile(np.arange(n_classes), len(tallies)), tallies.ravel()).reshape(-1, 61)
    labels, asked = table.apply(generator.permuted(ordered, axis=1))
    differs = labels != tallies.argmax(axis=1)
    assert table.expected_disagreement() == pytest.approx(differs.mean(), abs=5 * differs.std() / 200)
    assert table.expected_trees() == pytest.approx(asked.mean(), abs=5 * asked.std() / 200)


@settings(deadline=None, max_examples=150)
@given(binary_priors(), ALPHAS)
def test_optimal_keeps_its_promise_with_no_more_trees_than_threshold(prior: np.ndarray, alpha: float) -> None:
    n_trees = len(prior) - 1
    threshold = StopTable.build(n_trees, alpha=alpha, prior=prior)
    optimal = StopTable.build(n_trees, alpha=alpha, prior=prior, rule="optimal")
    assert optimal.expected_trees() <= threshold.expected_trees()
    for table in (threshold, optimal):
        assert table.expected_disagreement() <= (1.0 - alpha) * (1.0 + 1e-9)
        lower, upper = table.stops.lower, table.stops.upper
        assert (lower >= -1).all()
        assert (lower < upper).all()
        assert (upper <= np.arange(n_trees + 1) + 1).all()
        assert (lower[0], upper[0], lower[-1], upper[-1]) == (-1, 1, n_trees // 2, n_trees // 2 + 1)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 20), st.integers(0, 1000), ALPHAS)
def test_optimal_of_three_classes(n_trees: int, seed: int, alpha: float) -> None:
    prior = ternary_prior(n_trees, seed)
    threshold = StopTable.build(n_trees, alpha=alpha, prior=prior)
    optimal = StopTable.build(n_trees, alpha=alpha, prior=prior, rule="optimal")
    assert optimal.expected_trees() <= threshold.expected_trees()
    assert optimal.expected_disagreement() <= (1.0 - alpha) * (1.0 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(binary_priors(16), st.floats(0.5, 2000.0))
def test_backward_induction_finds_the_least_cost(prior: np.ndarray, penalty: float) -> None:
    """The interval-shaped stops cost no more than the best stops of any shape."""
    prior = prior / prior.sum()
    wins = urn.winning_masses(prior, "forest")
    lower, upper = (bound[None].copy() for bound in urn.lossless_bounds(len(prior) - 1))
    weight = np.array([penalty])
    wrong_0, wrong_1, trees = _core.cheapest_bounds(prior, wins[0], wins[1], weight, weight, lower, upper)[0]
    assert trees + penalty * (wrong_0 + wrong_1) == pytest.approx(
        reference.stopping.least_cost(prior.tolist(), penalty), rel=1e-10
    )
    outcome = _core.binary_outcome(wins[0], wins[1], lower[0], upper[0], 1.0)
    assert outcome[:3] == pytest.approx([wrong_0, wrong_1, trees], abs=1e-12)


def test_optimal_asks_fewer_trees_than_threshold() -> None:
    for n_trees, most in ((101, 0.92), (1001, 0.82)):
        threshold = StopTable.build(n_trees).expected_trees()
        assert StopTable.build(n_trees, rule="optimal").expected_trees() < most * threshold


@settings(deadline=None, max_examples=60)
@given(binary_priors(40), ALPHAS)
def test_robust_keeps_its_bound_for_every_tally(prior: np.ndarray, alpha: float) -> None:
    table = StopTable.build(len(prior) - 1, alpha=alpha, prior=prior, rule="robust")
    lower, upper = table.stops.lower.tolist(), table.stops.upper.tolist()
    found = table.disagreement_by_tally()
    for tally in range(len(prior)):
        assert found[tally] == pytest.approx(reference.stopping.disagreement_of_tally(lower, upper, tally), abs=1e-12)
    assert found.max() <= (1.0 - alpha) * (1.0 + 1e-9)
    assert table.expected_trees() <= StopTable.build(len(prior) - 1, alpha=1.0, prior=prior).expected_trees() + 1e-9


@pytest.mark.parametrize("n_trees", [11, 101])
def test_robust_next_to_certainty(n_trees: int) -> None:
    """There the linear program cannot be solved in double precision."""
    table = StopTable.build(n_trees, alpha=1.0 - 2.0**-53, rule="robust")
    assert table.disagreement_by_tally().max() <= 2.0**-53 * (1.0 + 1e-9)
    assert table.expected_trees() <= StopTable.build(n_trees, alpha=1.0).expected_trees() + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_robust_is_close_to_the_full_linear_program(seed: int) -> None:
    """The program over all tallies and all randomised stops of any shape is a bound; one table comes close."""
    generator = np.random.default_rng(seed)
    n_trees = 31
    prior = np.full(n_trees + 1, 1.0) if seed == 0 else generator.gamma(0.5, size=n_trees + 1)
    prior /= prior.sum()
    for alpha in (0.9, 0.99):
        least = reference.stopping.robust_program(prior, alpha)
        found = StopTable.build(n_trees, alpha=alpha, prior=prior, rule="robust").expected_trees()
        assert least - 1e-6 <= found <= 1.03 * least


@pytest.mark.parametrize(("rule", "target"), [("threshold", "forest"), ("optimal", "forest"), ("threshold", "limit")])
def test_disagreement_by_tally_adds_up(rule: Any, target: Any) -> None:
    table = StopTable.build(101, rule=rule, target=target, prior=some_votes(2))
    assert table.prior is not None
    assert table.disagreement_by_tally() @ table.prior == pytest.approx(table.expected_disagreement(), abs=1e-12)


def test_limit_of_two_classes_agrees_with_simulation() -> None:
    """Rows with uniform π: the share answered unlike the infinite forest, and the share never settled."""
    table = StopTable.build(51, alpha=0.95, target="limit")
    generator = np.random.default_rng(3)
    pi = generator.random(60_000)
    labels, asked = table.apply(generator.random((len(pi), 51)) < pi[:, None])
    differs = labels != (pi > 0.5)
    assert table.expected_disagreement() == pytest.approx(differs.mean(), abs=5 * differs.std() / len(pi) ** 0.5)
    assert table.expected_trees() == pytest.approx(asked.mean(), abs=5 * asked.std() / len(pi) ** 0.5)
    assert 0.0 < table.expected_unsettled() < 0.4
    assert table.expected_disagreement() <= 0.05 + table.expected_unsettled()
    assert StopTable.build(51).expected_unsettled() == 0.0


def test_limit_of_three_classes_agrees_with_simulation() -> None:
    table = StopTable.build(31, alpha=0.9, target="limit", n_classes=3)
    generator = np.random.default_rng(3)
    pi = generator.dirichlet(np.ones(3), 60_000)
    drawn = generator.random((len(pi), 31))
    votes = (drawn > pi[:, :1]).astype(int) + (drawn > pi[:, :1] + pi[:, 1:2])
    labels, asked = table.apply(votes)
    differs = labels != pi.argmax(axis=1)
    assert table.expected_disagreement() == pytest.approx(differs.mean(), abs=5 * differs.std() / len(pi) ** 0.5)
    assert table.expected_trees() == pytest.approx(asked.mean(), abs=5 * asked.std() / len(pi) ** 0.5)


def test_limit_answers_as_the_whole_forest_where_nothing_is_settled() -> None:
    """With α so high that no row settles, the answers are the majority's, in as few trees as that takes."""
    limit = StopTable.build(21, alpha=1.0 - 1e-9, target="limit")
    assert limit.stops.lower.tolist() == urn.lossless_bounds(21)[0].tolist()
    assert limit.expected_unsettled() == pytest.approx(1.0)


def test_optimal_limit_needs_enough_trees() -> None:
    with pytest.raises(ValueError, match=r"disagrees with the infinite forest on .* use more trees"):
        StopTable.build(101, rule="optimal", target="limit", alpha=0.99)
    table = StopTable.build(101, rule="optimal", target="limit", alpha=0.9)
    assert 0.0 < table.expected_disagreement() <= 0.1
    assert table.expected_trees() < StopTable.build(101, target="limit", alpha=0.9).expected_trees()


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("n_trees", [1, 2, 5, 6])
def test_lossless_tables_stop_as_early_as_is_safe(n_classes: int, n_trees: int) -> None:
    table = StopTable.build(n_trees, alpha=1.0, n_classes=n_classes)
    assert table.expected_disagreement() == 0.0
    every = np.stack(np.meshgrid(*[np.arange(n_classes)] * n_trees, indexing="ij"), axis=-1).reshape(-1, n_trees)
    labels, asked = table.apply(every)
    counts = np.array([(every == k).sum(axis=1) for k in range(n_classes)])
    assert np.array_equal(labels, counts.argmax(axis=0))
    for row, trees in zip(every[::7].tolist(), asked[::7].tolist(), strict=True):
        for before in range(1, trees + 1):
            seen = [row[:before].count(k) for k in range(n_classes)]
            assert (reference.stopping.settled(seen, n_trees - before) >= 0) == (before == trees)


def test_alpha_one_is_lossless_for_any_prior_and_rule() -> None:
    for n_classes in (2, 3, 4):
        lossless = StopTable.build(31, alpha=1, n_classes=n_classes)
        other = StopTable.build(31, alpha=1.0, prior=some_votes(n_classes))
        assert naive_stops(lossless) == naive_stops(other)
    for rule in ("threshold", "optimal", "robust"):
        assert naive_stops(StopTable.build(31, alpha=1.0, rule=rule)) == naive_stops(StopTable.build(31, alpha=1.0))
    limit = StopTable.build(31, alpha=1.0, rule="optimal", target="limit")
    assert naive_stops(limit) == naive_stops(StopTable.build(31, alpha=1.0))


def naive_stops(table: StopTable) -> dict[str, Any]:
    return table.to_dict()["stops"]


@pytest.mark.parametrize(("n_trees", "n_classes"), [(101, 4), (101, 12), (301, 3), (40, 5)])
def test_leaders_disagree_less_than_they_may(n_trees: int, n_classes: int) -> None:
    """Measured on rows that the table was not built on, for priors of several shapes."""
    for prior in ("uniform", some_votes(n_classes, seed=1)):
        table = StopTable.build(n_trees, alpha=0.95, prior=prior, n_classes=n_classes)
        generator = np.random.default_rng(9)
        pi = generator.dirichlet(np.full(n_classes, 0.3 if isinstance(prior, Votes) else 1.0), 3000)
        tallies = generator.multinomial(n_trees, pi)
        ordered = np.repeat(np.tile(np.arange(n_classes), len(pi)), tallies.ravel()).reshape(-1, n_trees)
        labels, asked = table.apply(generator.permuted(ordered, axis=1))
        differs = labels != tallies.argmax(axis=1)
        assert differs.mean() <= 0.05
        assert asked.mean() < StopTable.build(n_trees, alpha=1.0, n_classes=n_classes).expected_trees()
        assert table.counts is not None
        assert table.expected_disagreement() <= 0.05
        assert "measured" in repr(table)


@pytest.mark.parametrize("n_classes", [4, 11])
def test_leaders_share_the_errors_among_the_rivals(n_classes: int) -> None:
    alpha, n_trees = Fraction(19, 20), 41
    table = StopTable.build(n_trees, alpha=float(alpha), n_classes=n_classes)
    exact = [Fraction(1, n_trees + 1)] * (n_trees + 1)
    enough = 1 - (1 - alpha) / (n_classes - 1)
    for seen in range(1, n_trees):
        masses = [reference.urn.urn_masses(exact, seen, count) for count in range(seen + 1)]
        stops = [count for count, wins in enumerate(masses) if wins[1] > enough * sum(wins)]
        assert table.stops.upper[seen] == min([*stops, seen + 1])


def test_large_tables() -> None:
    for rule in ("threshold", "optimal"):
        table = StopTable.build(10_001, rule=rule)
        assert table.expected_disagreement() <= 0.01
    assert StopTable.build(10_001, n_classes=4).kind == "leaders"
    assert StopTable.build(201, n_classes=3).kind == "ternary"
    assert StopTable.build(202, n_classes=3).kind == "leaders"


@pytest.mark.parametrize(
    ("n_trees", "arguments", "message"),
    [
        (0, {}, "n_trees must be a whole number"),
        (10_002, {}, r"truncate a larger forest first"),
        (True, {}, "n_trees"),
        (11, {"alpha": 0.0}, "alpha"),
        (11, {"alpha": 1.1}, "alpha"),
        (11, {"alpha": float("nan")}, "alpha"),
        (11, {"alpha": True}, "alpha"),
        (11, {"rule": "best"}, "rule must be one of 'threshold'"),
        (11, {"target": "ensemble"}, "target must be one of"),
        (11, {"prior": "flat"}, "prior must be one of 'uniform'"),
        (11, {"n_classes": 1}, "n_classes"),
        (11, {"prior": np.ones(12), "n_classes": 3}, "prior is over 2 classes"),
        (11, {"prior": np.ones(11)}, "shape"),
        (11, {"n_classes": 3, "rule": "robust"}, "robust"),
        (11, {"target": "limit", "rule": "robust"}, "robust"),
        (11, {"n_classes": 4, "rule": "optimal"}, "rule='threshold'"),
        (11, {"n_classes": 4, "target": "limit"}, "target='forest'"),
        (301, {"prior": np.ones((302, 302)) * urn.simplex(301)}, "give rfsize.Votes or 'uniform'"),
    ],
)
def test_bad_arguments_are_refused(n_trees: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StopTable.build(n_trees, **arguments)


def test_ternary_index_counts_the_states() -> None:
    states = [(t, a, b) for t in range(9) for a in range(t + 1) for b in range(t + 1 - a)]
    assert [ternary_index(*state) for state in states] == list(range(len(states)))


def test_equality_and_text() -> None:
    table = StopTable.build(101, rule="optimal")
    assert table == StopTable.build(101, rule="optimal")
    assert table != StopTable.build(101)
    assert table != "table"
    assert repr(table) == (
        "StopTable(101 trees, 2 classes, binary, alpha=0.99, rule='optimal', target='forest', prior uniform; "
        "expected: 24.2 trees per row, 1 % disagreement)"
    )
    assert "1 % of them are expected to" in table._account().verdict
    assert "1 %" in [figure.value for figure in table._account().figures]
    with pytest.raises(ValueError, match="two classes"):
        StopTable.build(11, n_classes=3).disagreement_by_tally()


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_plot_names_what_it_shows(n_classes: int) -> None:
    table = StopTable.build(21, n_classes=n_classes)
    figure, ax = plt.subplots()
    assert table.plot(ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("trees per row" in label for label in labels)
    assert any("ask the next tree" in label for label in labels)
    assert "21 trees" in ax.get_title()
    plt.close(figure)
    plt.close(table.plot().figure)


@pytest.mark.parametrize(
    ("n_trees", "n_classes", "urn_rule"),
    [(301, 2, "binary"), (201, 3, "ternary"), (202, 3, "leaders"), (5, 4, "leaders")],
)
def test_each_forest_has_its_rules(n_trees: int, n_classes: int, urn_rule: str) -> None:
    assert set(Stops.kinds(n_trees, n_classes)) == {urn_rule, "weighted", "averages", "spread"}
    assert set(Stops.kinds(n_trees, 1)) == {"spread"}


def test_a_picture_of_three_classes_shows_the_smallest_lead_that_stops() -> None:
    table = StopTable.build(21, alpha=0.9, n_classes=3)
    level, alone = table.stops.drawing(21, ["a", "b", "c"]).stops.values()
    for asked in range(1, 22):
        for drawn, share in ((level, 0.5), (alone, 0.0)):
            leads = []
            for first in range(asked + 1):
                third = math.floor(share * (asked - first))
                second = asked - first - third
                if first >= second and reference.stopping.stop(table, asked, [first, second, third]) == 0:
                    leads.append(first - second)
            assert drawn[asked - 1] == pytest.approx(min(leads, default=math.nan), nan_ok=True)
