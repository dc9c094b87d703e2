"""Rows of large groups and rows that stand alone are sized by themselves, and put together by their shares."""

from __future__ import annotations

import numpy as np
import pytest

import rfsize
from helpers.curves import interval_of
from rfsize.counting.scores import Scores
from rfsize.estimation import hard, soft
from rfsize.estimation.base import Estimate
from rfsize.estimation.strata import by_class, by_group_sizes, of_group_sizes, within_classes
from rfsize.theory import mean_disagreement


def drawn(pi: np.ndarray, asked: np.ndarray, seed: int = 0) -> rfsize.Votes:
    for_class_1 = np.random.default_rng(seed).binomial(asked, pi)
    return rfsize.Votes(np.stack([asked - for_class_1, for_class_1], axis=1))


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Vote fractions, and group sizes: the rows near a tie belong to groups of four."""
    rng = np.random.default_rng(0)
    pi = np.concatenate([rng.beta(0.3, 6.0, 1500), rng.beta(6.0, 6.0, 300)])
    return pi, np.repeat([1, 4], [1500, 300])


def test_an_estimate_is_the_mean_of_those_of_the_strata() -> None:
    pi, sizes = problem()
    votes = drawn(pi, np.where(sizes == 1, 110, 9))
    made: list[tuple[np.ndarray, Estimate]] = []

    def estimate(rows: np.ndarray) -> Estimate:
        made.append((rows, hard.smooth(votes.take(rows))))
        return made[-1][1]

    found = by_group_sizes(of_group_sizes(sizes), votes.asked >= 1, estimate)
    (alone, first), (together, second) = made
    assert np.array_equal(alone, sizes == 1)
    assert np.array_equal(together, sizes == 4)
    for n_trees in (1, 9, 101):
        expected = (1500 * first.disagreement(n_trees) + 300 * second.disagreement(n_trees)) / 1800
        assert found.disagreement(n_trees) == pytest.approx(expected)
    curves = found.replicates(found.size(0.97))
    low, high = interval_of(curves, 0.97)
    assert low <= found.size(0.97) <= high
    margins = found.margins()
    assert margins.rows.sum() == pytest.approx(1.0)
    assert margins.rows[-len(second.margins().rows) :].sum() == pytest.approx(1 / 6)


@pytest.mark.parametrize("seed", range(3))
def test_rows_near_a_tie_may_be_those_of_few_votes(seed: int) -> None:
    pi, sizes = problem()
    votes = drawn(pi, np.where(sizes == 1, 110, 9), seed)
    found = by_group_sizes(
        of_group_sizes(sizes), votes.asked >= 1, lambda rows: hard.smooth_or_plug_in(votes.take(rows))
    )
    truth = mean_disagreement(51, np.minimum(pi, 1.0 - pi))
    assert found.disagreement(51) == pytest.approx(truth, rel=0.25)
    assert hard.smooth_or_plug_in(votes).disagreement(51) < 0.75 * truth  # by one density for all


def test_few_rows_are_put_with_those_of_the_next_larger_groups() -> None:
    sizes = np.repeat([1, 2, 3, 5, 9, 17], [10, 70, 20, 20, 60, 5])
    asked = np.full(len(sizes), 50)
    asked[-3:] = 0
    seen: list[list[int]] = []

    def estimate(rows: np.ndarray) -> Estimate:
        seen.append(np.unique(sizes[rows]).tolist())
        return hard.plug_in(drawn(np.full(int(rows.sum()), 0.3), np.full(int(rows.sum()), 50)))

    by_group_sizes(of_group_sizes(sizes), asked > 0, estimate)
    assert seen == [[1, 2], [3, 5, 9, 17]]
    seen.clear()
    by_group_sizes(np.ones(185, dtype=np.int64), np.ones(185, dtype=bool), estimate)
    assert len(seen) == 1


def test_curves_of_other_sizes_are_put_together() -> None:
    rng = np.random.default_rng(0)
    scores = Scores.of(rng.normal(0.3 * rng.normal(size=(400, 1, 1)), 1.0, size=(400, 60, 1)))
    sizes = np.repeat([1, 2], 200)
    kinds = iter([soft.smooth, soft.plug_in])
    found = by_group_sizes(of_group_sizes(sizes), scores.asked >= 2, lambda rows: next(kinds)(scores.take(rows), 0.0))
    low, high = interval_of(found.replicates(found.size(0.9)), 0.9)
    assert low <= found.size(0.9) <= high


def test_a_stratum_that_never_converges() -> None:
    counts = np.concatenate([np.tile([45, 5], (100, 1)), np.tile([5, 5], (100, 1))])
    votes = rfsize.Votes(counts)
    found = by_group_sizes(np.repeat([0, 1], 100), votes.asked > 0, lambda rows: hard.plug_in(votes.take(rows)))
    assert found.size(0.9) == np.inf
    assert "100 % of the rows" in found.why_infinite(0.9)


@pytest.mark.parametrize("seed", range(3))
def test_classes_count_alike_and_sizes_of_groups_within_them_by_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    leader, sizes = rng.choice([0, 2], 900, p=[0.8, 0.2]), rng.choice([1, 1, 5], 900)
    lost = rng.integers(0, 20, 900)
    counts = np.full((900, 3), lost[:, None])
    counts[np.arange(900), leader] = 60
    votes, used = rfsize.Votes(counts), rng.random(900) < 0.9
    found = by_class(
        within_classes(of_group_sizes(sizes), leader), used, lambda rows: hard.plug_in(votes.take(np.flatnonzero(rows)))
    )
    each = found.disagreement_of_each(7)
    assert list(each) == found.classes == [0, 2]
    for of in each:
        of_rows = hard.plug_in(votes.take(np.flatnonzero(used & (leader == of))))
        assert each[of] == pytest.approx(of_rows.disagreement(7))
    assert found.disagreement(7) == pytest.approx(np.mean(list(each.values())))
    assert found.margins().rows.sum() == pytest.approx(1.0)
    low, high = interval_of(found.replicates(found.size(0.97)), 0.97)
    assert low <= found.size(0.97) <= high


def test_strata_are_drawn_apart_though_with_one_seed() -> None:
    votes = drawn(np.random.default_rng(0).beta(0.3, 2.0, 400), np.full(400, 60))
    twice = rfsize.Votes(np.concatenate([votes.counts, votes.counts]))
    leader = np.repeat([0, 1], 400)
    found = by_class(within_classes(None, leader), np.ones(800, dtype=bool), lambda rows: hard.smooth(twice.take(rows)))
    one, both = hard.smooth(votes).replicates(51), found.replicates(51)
    middle = len(one.sizes) // 2
    assert both.disagreement[:, middle].std() == pytest.approx(
        one.disagreement[:, middle].std() / np.sqrt(2.0), rel=0.2
    )
