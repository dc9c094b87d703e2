"""Stop tables against the papers' rule, one vote at a time, and against all orders of the votes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference.stopping
import reference.urn
from helpers.stop_tables import ALPHAS, binary_priors, some_votes, tables
from rfsize import StopTable, Votes

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


ALPHAS_OF_PAPERS = st.sampled_from([Fraction(1, 3), Fraction(9, 10), Fraction(99, 100), Fraction(999, 1000)])


def check_papers_rule(table: StopTable, prior: list[Fraction], alpha: Fraction) -> None:
    """Tallies that can occur stop exactly where their leader exceeds α; others only beyond one that does."""
    for asked in range(1, table.n_trees):
        decisions = [reference.stopping.stop(table, asked, [asked - n, n]) for n in range(asked + 1)]
        for count, decision in enumerate(decisions):
            wins = reference.urn.urn_masses(prior, asked, count)
            expected = reference.stopping.papers_decision(prior, asked, count, alpha)
            if sum(wins) == 0:
                outer = decisions[count + 1 :] if decision == 0 else decisions[:count]
                assert decision == expected or decision in outer
            elif abs(max(wins) / sum(wins) - alpha) > Fraction(1, 10**12):
                assert decision == expected


@settings(deadline=None, max_examples=40)
@given(binary_priors(14), ALPHAS_OF_PAPERS)
def test_two_classes_follow_the_papers_rule(prior: np.ndarray, alpha: Fraction) -> None:
    table = StopTable.build(len(prior) - 1, alpha=float(alpha), prior=prior)
    check_papers_rule(table, [Fraction(weight) for weight in prior.tolist()], alpha)


rows_of_40_votes = st.lists(st.integers(0, 40).map(lambda ones: (40 - ones, ones)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=30)
@given(rows_of_40_votes, st.integers(2, 16), ALPHAS_OF_PAPERS)
def test_hyper_with_the_smoothing_of_the_authors_and_with_ours(
    rows: list[tuple[int, int]], n_trees: int, alpha: Fraction
) -> None:
    histogram = reference.urn.tallies_of(rows, n_trees)
    ours = StopTable.build(n_trees, alpha=float(alpha), prior=Votes(np.array(rows)))
    check_papers_rule(ours, reference.urn.smoothed(histogram), alpha)
    theirs = reference.urn.smoothed_by_the_authors(histogram)
    table = StopTable.build(n_trees, alpha=float(alpha), prior=[float(weight) for weight in theirs])
    check_papers_rule(table, theirs, alpha)


def check_no_trailing_answer(table: StopTable, votes: np.ndarray) -> None:
    """Before the last tree only the class with the most votes is answered, and after it the majority."""
    labels, asked = table.apply(votes)
    for row, label, trees in zip(votes, labels.tolist(), asked.tolist(), strict=True):
        counts = np.bincount(row[:trees], minlength=table.n_classes)
        assert label == counts.argmax()
        assert trees == table.n_trees or np.count_nonzero(counts == counts.max()) == 1


@settings(deadline=None, max_examples=100)
@given(binary_priors(9), ALPHAS)
def test_no_class_that_trails_is_answered(prior: np.ndarray, alpha: float) -> None:
    n_trees = len(prior) - 1
    every = np.stack(np.meshgrid(*[[0, 1]] * n_trees, indexing="ij"), axis=-1).reshape(-1, n_trees)
    check_no_trailing_answer(StopTable.build(n_trees, alpha=alpha, prior=prior), every)


@SMALL
@given(tables, st.integers(0, 2**32))
def test_no_class_that_trails_is_answered_by_any_table(table: StopTable, seed: int) -> None:
    votes = np.random.default_rng(seed).integers(0, table.n_classes, (50, table.n_trees))
    check_no_trailing_answer(table, votes)


def test_a_row_of_the_rare_class_is_not_answered_by_the_prior() -> None:
    """One row in a thousand is of class 1. Two votes for it do not make class 0 the answer."""
    rng = np.random.default_rng(0)
    ones = rng.binomial(37, np.r_[np.full(19_980, 0.1), np.full(20, 0.9)])
    table = StopTable.build(101, prior=Votes(np.stack([37 - ones, ones], axis=1), n_trees=101))
    label, asked = table.apply(np.ones((1, 101), dtype=int))
    assert label.tolist() == [1]
    assert asked[0] > 1


def test_six_unanimous_votes_stop_and_five_do_not() -> None:
    table = StopTable.build(101, alpha=0.99)
    assert reference.stopping.stop(table, 6, [0, 6]) == 1
    assert reference.stopping.stop(table, 5, [0, 5]) == -1
    assert reference.stopping.stop(table, 6, [6, 0]) == 0


@SMALL
@given(st.one_of(binary_priors(12), st.integers(1, 12)), ALPHAS)
def test_expected_figures_are_those_of_all_orders(prior: Any, alpha: float) -> None:
    if isinstance(prior, int):
        table, weights = StopTable.build(prior, alpha=alpha), np.full(prior + 1, 1.0 / (prior + 1))
    else:
        table, weights = StopTable.build(len(prior) - 1, alpha=alpha, prior=prior), prior / prior.sum()
    tallies = {(table.n_trees - n, n): weight for n, weight in enumerate(weights.tolist())}
    wrong, trees = reference.stopping.table_outcome(table, tallies)
    assert table.expected_disagreement() == pytest.approx(wrong, abs=1e-12)
    assert table.expected_trees() == pytest.approx(trees, abs=1e-12)
    assert wrong <= 1.0 - table.alpha + 1e-12
    for outcome in table.by_class():
        of_class = {tally: weight for tally, weight in tallies.items() if (tally[1] > tally[0]) == outcome.label}
        share = sum(of_class.values())
        assert outcome.share == pytest.approx(share, abs=1e-12)
        figures = [outcome.share * outcome.disagreement, outcome.share * outcome.trees]
        assert np.nan_to_num(figures) == pytest.approx(reference.stopping.table_outcome(table, of_class), abs=1e-12)


def test_expected_figures_agree_with_simulation() -> None:
    table = StopTable.build(61, alpha=0.95)
    generator = np.random.default_rng(1)
    ones = generator.integers(0, 62, 40_000)
    ordered = np.arange(61) < ones[:, None]
    labels, asked = table.apply(generator.permuted(ordered, axis=1))
    differs = labels != (ones > 30)
    assert table.expected_disagreement() == pytest.approx(differs.mean(), abs=5 * differs.std() / 200)
    assert table.expected_trees() == pytest.approx(asked.mean(), abs=5 * asked.std() / 200)


@settings(deadline=None, max_examples=100)
@given(binary_priors(), ALPHAS)
def test_the_expected_disagreement_is_as_promised(prior: np.ndarray, alpha: float) -> None:
    table = StopTable.build(len(prior) - 1, alpha=alpha, prior=prior)
    assert table.expected_disagreement() <= (1.0 - alpha) * (1.0 + 1e-9)
    assert (
        1.0 - 1e-9 <= table.expected_trees() <= StopTable.build(len(prior) - 1, alpha=1.0, prior=prior).expected_trees()
    )


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


def test_alpha_one_is_lossless_for_any_prior() -> None:
    for n_classes in (2, 3, 4):
        lossless = StopTable.build(31, alpha=1, n_classes=n_classes)
        other = StopTable.build(31, alpha=1.0, prior=some_votes(n_classes))
        assert lossless.to_dict()["stops"] == other.to_dict()["stops"]


@pytest.mark.parametrize(("n_trees", "n_classes"), [(101, 4), (101, 12), (301, 3), (40, 5)])
def test_leaders_disagree_less_than_they_may(n_trees: int, n_classes: int) -> None:
    """On rows that the table was not built on, for priors of several shapes."""
    for prior in ("uniform", some_votes(n_classes, seed=1)):
        table = StopTable.build(n_trees, alpha=0.95, prior=prior, n_classes=n_classes)
        generator = np.random.default_rng(9)
        pi = generator.dirichlet(np.full(n_classes, 0.3 if isinstance(prior, Votes) else 1.0), 3000)
        tallies = generator.multinomial(n_trees, pi)
        ordered = np.repeat(np.tile(np.arange(n_classes), len(pi)), tallies.ravel()).reshape(-1, n_trees)
        labels, asked = table.apply(generator.permuted(ordered, axis=1))
        differs = labels != tallies.argmax(axis=1)
        assert differs.mean() <= 0.05
        assert asked.mean() < StopTable.build(n_trees, alpha=1.0, n_classes=n_classes).apply(ordered)[1].mean()
        with pytest.raises(ValueError, match="apply"):
            table.expected_trees()
        with pytest.raises(ValueError, match="apply"):
            table.expected_disagreement()


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
    table = StopTable.build(10_001)
    assert table.expected_disagreement() <= 0.01
    assert StopTable.build(10_001, n_classes=4).n_trees == 10_001


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
        (11, {"prior": "flat"}, "prior must be one of 'uniform'"),
        (11, {"n_classes": 1}, "n_classes"),
        (11, {"prior": np.ones(12), "n_classes": 3}, "prior is over 2 classes"),
        (11, {"prior": np.ones(11)}, "shape"),
        (11, {"prior": np.ones((12, 12))}, "shape"),
        (11, {"prior": some_votes(4), "n_classes": 3}, "prior is over 4 classes"),
    ],
)
def test_bad_arguments_are_refused(n_trees: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StopTable.build(n_trees, **arguments)


def test_equality_and_text() -> None:
    table = StopTable.build(101)
    assert table == StopTable.build(101)
    assert table != StopTable.build(101, alpha=0.9)
    assert table != "table"
    assert "26.5 trees per row" in repr(table)
    assert "trees per row" not in repr(StopTable.build(101, n_classes=4))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_plot_names_what_it_shows(n_classes: int) -> None:
    table = StopTable.build(21, n_classes=n_classes)
    figure, ax = plt.subplots()
    assert table.plot(ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("trees per row" in label for label in labels) == (n_classes == 2)
    assert any("ask the next tree" in label for label in labels)
    assert "21 trees" in ax.get_title()
    plt.close(figure)
    plt.close(table.plot().figure)
