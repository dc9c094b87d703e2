"""Rows of large groups and rows that stand alone are sized by themselves, and put together by their shares."""

from __future__ import annotations

import numpy as np
import pytest

import rfsize
from rfsize.estimation import hard, soft
from rfsize.estimation.base import Estimate
from rfsize.estimation.strata import by_strata
from rfsize.theory import mean_disagreement
from rfsize.voting.scores import Scores


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

    found = by_strata(sizes, votes.asked, estimate, at_least=1)
    (alone, first), (together, second) = made
    assert np.array_equal(alone, sizes == 1)
    assert np.array_equal(together, sizes == 4)
    for n_trees in (1, 9, 101):
        expected = (1500 * first.disagreement(n_trees) + 300 * second.disagreement(n_trees)) / 1800
        assert found.disagreement(n_trees) == pytest.approx(expected)
    curves = found.replicates(found.size(0.97))
    low, high = curves.interval(0.97)
    assert low <= found.size(0.97) <= high
    margins = found.margins()
    assert margins.rows.sum() == pytest.approx(1.0)
    assert margins.rows[-len(second.margins().rows) :].sum() == pytest.approx(1 / 6)


@pytest.mark.parametrize("seed", range(3))
def test_rows_near_a_tie_may_be_those_of_few_votes(seed: int) -> None:
    pi, sizes = problem()
    votes = drawn(pi, np.where(sizes == 1, 110, 9), seed)
    found = by_strata(sizes, votes.asked, lambda rows: hard.automatic(votes.take(rows)), at_least=1)
    truth = mean_disagreement(51, np.minimum(pi, 1.0 - pi))
    assert found.disagreement(51) == pytest.approx(truth, rel=0.25)
    assert hard.automatic(votes).disagreement(51) < 0.75 * truth  # by one density for all


def test_few_rows_are_put_with_those_of_the_next_larger_groups() -> None:
    sizes = np.repeat([1, 2, 3, 5, 9, 17], [10, 70, 20, 20, 60, 5])
    asked = np.full(len(sizes), 50)
    asked[-3:] = 0
    seen: list[list[int]] = []

    def estimate(rows: np.ndarray) -> Estimate:
        seen.append(np.unique(sizes[rows]).tolist())
        return hard.plug_in(drawn(np.full(int(rows.sum()), 0.3), np.full(int(rows.sum()), 50)))

    by_strata(sizes, asked, estimate, at_least=1)
    assert seen == [[1, 2], [3, 5, 9, 17]]
    seen.clear()
    by_strata(np.full(185, 2), np.full(185, 50), estimate, at_least=1)
    assert len(seen) == 1


def test_curves_of_other_sizes_are_put_together() -> None:
    rng = np.random.default_rng(0)
    scores = Scores.of(rng.normal(0.3 * rng.normal(size=(400, 1, 1)), 1.0, size=(400, 60, 1)))
    sizes = np.repeat([1, 2], 200)
    kinds = iter([soft.smooth, soft.plug_in])
    found = by_strata(sizes, scores.asked, lambda rows: next(kinds)(scores.take(rows), 0.0), at_least=2)
    low, high = found.replicates(found.size(0.9)).interval(0.9)
    assert low <= found.size(0.9) <= high


def test_a_stratum_that_never_converges() -> None:
    counts = np.concatenate([np.tile([45, 5], (100, 1)), np.tile([5, 5], (100, 1))])
    votes = rfsize.Votes(counts)
    found = by_strata(np.repeat([1, 2], 100), votes.asked, lambda rows: hard.plug_in(votes.take(rows)), at_least=1)
    assert found.size(0.9) == np.inf
    assert "100.00% of the rows" in found.why_infinite(0.9)
