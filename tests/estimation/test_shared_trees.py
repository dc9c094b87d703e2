"""Intervals of forests whose trees make rows err together, of which the truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import rfsize
from helpers.outputs import outputs_of
from rfsize import theory
from rfsize.counting.blocks import N_BLOCKS, TreeBlocks, dealt, first_asked
from rfsize.counting.evidence import Evidence
from rfsize.counting.scores import Scores
from rfsize.estimation.shared_trees import LeadChanges, TreeNoise, beyond_mean, noisy_counts, weighted_sums
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of

ROWS, TREES, ALPHA = 5000, 100, 0.97
FRACTIONS = stats.beta(1.0, 4.0)
GRID = (np.arange(100_000) + 0.5) / 100_000


def forest(seed: int, shared: float, n_classes: int = 2, n_rows: int = ROWS) -> Evidence:
    """What 100 trees say: on a row each votes for class 1 with a probability that is beta distributed over the rows.

    A tree that is lenient is so on all rows; ``shared`` is the part of its variance that is due to that. Class 2 gets
    no votes.
    """
    rng = np.random.default_rng(seed)
    own, lenient = rng.normal(size=(n_rows, TREES)), rng.normal(size=TREES)
    mean = ndtri(FRACTIONS.rvs(n_rows, random_state=rng))
    score = mean[:, None] + math.sqrt(shared) * lenient + math.sqrt(1.0 - shared) * own
    label = (score > 0.0).astype(int)
    votes = np.stack([dealt(label == index) for index in range(n_classes)], axis=2).astype(np.int32)
    counts, scores = votes.sum(axis=1, dtype=np.int32), Scores.of(score[:, :, None])
    asked = dealt(np.ones((n_rows, TREES, 1), dtype=np.int32))
    total, squares = dealt(score[:, :, None]), dealt(score[:, :, None] ** 2)
    first = first_asked(score[:, :, None], np.ones((n_rows, TREES, 1), dtype=np.bool_))
    blocks = TreeBlocks(np.arange(n_rows), counts, scores, votes, total, squares, asked, first, TREES)
    return outputs_of(rfsize.Votes(counts), scores, blocks=blocks)


def interval(told: Evidence, voting: str, estimator: str) -> tuple[float, float]:
    report = report_of(replace(told, n_trees=TREES, source="rows given"), LabelGoal(ALPHA, voting, method=estimator))
    return report.interval


def of_rows_alone(told: Evidence) -> Evidence:
    return outputs_of(told.votes, told.scores)


def true_size(voting: str) -> float:
    weights = FRACTIONS.pdf(GRID)
    if voting == "hard":
        return theory.ensemble_size(ALPHA, np.minimum(GRID, 1.0 - GRID), weights / weights.sum())
    lead = np.abs(ndtri(GRID))
    return brentq(lambda size: np.average(ndtr(-math.sqrt(size) * lead), weights=weights) - (1.0 - ALPHA), 1.0, 1e4)


@pytest.mark.parametrize(
    ("voting", "estimator", "n_classes"),
    [("hard", "smooth", 2), ("hard", "plugin", 2), ("hard", "smooth", 3), ("soft", "smooth", 2), ("soft", "plugin", 2)],
)
def test_intervals_hold_the_truth_where_rows_err_together(voting: str, estimator: str, n_classes: int) -> None:
    truth, held, held_by_rows = true_size(voting), 0, 0
    for seed in range(24):
        told = forest(seed, 0.5, n_classes)
        low, high = interval(told, voting, estimator)
        held += low <= truth <= high
        low, high = interval(of_rows_alone(told), voting, estimator)
        held_by_rows += low <= truth <= high
    assert held >= 20
    assert held_by_rows <= 14


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_trees_that_err_by_themselves_add_little(voting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of a row by itself is known to the estimate, and not counted twice."""
    monkeypatch.setattr("rfsize.estimation.shared_trees._UNFOLLOWED", 0.0)
    goal, wider = LabelGoal(ALPHA, voting, method="smooth"), []
    for seed in range(12):
        told, spread = forest(seed, 0.0), []
        for one in (told, of_rows_alone(told)):
            curves = report_of(replace(one, n_trees=TREES, source=""), goal)._answer._curves
            near = np.abs(curves.sizes - true_size(voting)).argmin()
            spread.append(np.log(curves.disagreement[:, near]).std())
        wider.append(spread[0] / spread[1])
    assert 0.97 < np.median(wider) < 1.03


def test_the_upper_end_is_one_sided() -> None:
    """Of 40 forests, eight in ten are not underestimated."""
    truth = true_size("hard")
    goal = LabelGoal(ALPHA, "hard", method="smooth")
    reports = [report_of(replace(forest(seed, 0.5, n_rows=1500), n_trees=TREES, source=""), goal) for seed in range(40)]
    enough = [report.upper(0.8) >= truth for report in reports]
    assert 0.65 <= np.mean(enough) <= 0.95
    for report in reports[:5]:
        assert report.interval[0] <= report.upper(0.5) <= report.upper(0.8) <= report.upper(0.99)


def test_less_than_two_blocks_tell_nothing() -> None:
    told = forest(0, 0.5, n_rows=300)
    blocks = told.blocks
    assert blocks is not None
    blocks.asked[:, 1:] = 0
    assert blocks.n_filled == 1
    assert interval(told, "hard", "smooth") == interval(of_rows_alone(told), "hard", "smooth")


# ---------------------------------------------------------------------------------------------------------
# The parts of it, next to plain loops

numbers = st.floats(-1e3, 1e3, width=32)
shapes = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 3))


@given(shapes.flatmap(lambda shape: arrays(float, shape, elements=numbers)), st.data())
def test_weighted_sums(beyond: np.ndarray, data: st.DataObject) -> None:
    n_rows, n_blocks, n = beyond.shape
    weights = data.draw(arrays(float, (data.draw(st.integers(1, 4)), n_blocks), elements=numbers))
    found = weighted_sums(beyond, weights)
    assert found.shape == (len(weights), n_rows, n)
    for draw in range(len(weights)):
        for row in range(n_rows):
            for k in range(n):
                expected = sum(weights[draw, block] * beyond[row, block, k] for block in range(n_blocks))
                assert found[draw, row, k] == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(
    st.integers(1, 6).flatmap(
        lambda n_rows: st.tuples(
            # No squares that vanish in double precision.
            arrays(float, n_rows, elements=st.floats(0.0, 1.0)),
            arrays(float, (n_rows, 4), elements=st.integers(-2000, 2000).map(lambda thousandths: thousandths / 1000)),
            arrays(float, n_rows, elements=st.integers(0, 200).map(float)),
            arrays(float, n_rows, elements=st.integers(1, 5).map(float)),
        )
    ),
    st.integers(1, 1000),
)
def test_own_share(rows: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], size: int) -> None:
    lead, change, asked, counts_for = rows
    own, together = 0.0, [0.0] * 4
    for row in range(len(lead)):
        known = 1.0 / math.sqrt(1.0 / size + 1.0 / max(asked[row], 1.0))
        weight = counts_for[row] * known * math.exp(-0.5 * min(known * lead[row], 30.0) ** 2)
        for block in range(4):
            own += (weight * change[row, block]) ** 2
            together[block] += weight * change[row, block]
    (found,) = LeadChanges(*rows).own_share(np.array([size]))
    shared = sum(one**2 for one in together)
    if own == 0.0:
        assert found == 0.0
    elif shared > 1e-9 * own:
        assert found == pytest.approx(min(1.0, own / shared), rel=1e-6)
    else:
        assert found == 1.0


counted = shapes.flatmap(lambda shape: arrays(np.int32, shape, elements=st.integers(0, 9)))


def blocks_of(votes: np.ndarray) -> TreeBlocks:
    n_rows, n_blocks, _ = votes.shape
    counts = votes.sum(axis=1, dtype=np.int32)
    asked = np.ones((n_rows, n_blocks, 1), dtype=np.int32)
    total = np.zeros((n_rows, n_blocks, 1))
    first = first_asked(total, asked > 0)
    return TreeBlocks(np.arange(n_rows), counts, Scores.nothing(n_rows, 1), votes, total, total, asked, first, n_blocks)


@given(counted)
def test_what_blocks_say_beyond_the_mean(votes: np.ndarray) -> None:
    beyond = beyond_mean(blocks_of(votes))
    for row in range(len(votes)):
        total = votes[row].sum(axis=0)
        for block in range(votes.shape[1]):
            expected = votes[row, block] - votes[row, block].sum() * total / max(total.sum(), 1)
            np.testing.assert_allclose(beyond[row, block], expected, atol=1e-9)
    np.testing.assert_allclose(beyond.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(beyond.sum(axis=2), 0.0, atol=1e-9)


@given(counted, st.integers(0, 100))
def test_noise_is_added_to_the_votes_of_rows_that_have_any(votes: np.ndarray, seed: int) -> None:
    blocks = blocks_of(votes)
    weights = np.random.default_rng(seed).normal(size=(3, votes.shape[1]))
    voted = votes.sum(axis=(1, 2)) > 0
    beyond = beyond_mean(blocks)
    assume(voted.any())
    found = list(noisy_counts(blocks, weights))
    assert len(found) == 3
    for draw, noisy in enumerate(found):
        expected = [
            blocks.counts[row] + sum(weight * change for weight, change in zip(weights[draw], beyond[row], strict=True))
            for row in np.flatnonzero(voted)
        ]
        np.testing.assert_allclose(noisy, np.maximum(np.reshape(expected, noisy.shape), 0.0), atol=1e-9)


def test_leads_in_votes() -> None:
    votes = np.random.default_rng(0).integers(0, 8, size=(30, N_BLOCKS, 3)).astype(np.int32)
    blocks = blocks_of(votes)
    found, beyond = LeadChanges.of_votes(blocks), beyond_mean(blocks)
    for row, counts in enumerate(blocks.counts.tolist()):
        leader = counts.index(max(counts))
        rival = max((k for k in range(3) if k != leader), key=lambda k: counts[k])
        # A vote for the leader adds one to its lead, one for the rival takes one away.
        scale = math.sqrt((counts[leader] + counts[rival]) * sum(counts))
        assert found.lead[row] == pytest.approx((counts[leader] - counts[rival]) / scale)
        assert found.asked[row] == sum(counts)
        np.testing.assert_allclose(found.change[row], (beyond[row, :, leader] - beyond[row, :, rival]) / scale)


def test_draws_of_the_noise_have_the_variance_of_the_blocks() -> None:
    """Of an estimate that is the exponential of a sum over the blocks, the draws are these sums."""
    effects = np.random.default_rng(1).normal(size=N_BLOCKS)
    effects -= effects.mean()
    blocks = blocks_of(np.ones((5, N_BLOCKS, 2), dtype=np.int32))

    def with_noise(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        return lambda sizes: np.exp(-3.0 + weights @ effects)[:, None] / sizes

    class Known(LeadChanges):
        def own_share(self, sizes: np.ndarray) -> np.ndarray:
            return np.array([0.0, 0.75])

    leads, generators = Known(*[np.ones(1)] * 4), [np.random.default_rng(seed) for seed in range(200)]
    noises = [TreeNoise.of(with_noise, blocks, leads, generator) for generator in generators]
    drawn = [noise.at(np.array([1, 11])) for noise in noises]
    found = np.concatenate(drawn)
    variance = N_BLOCKS / (N_BLOCKS - 1.0) * (effects**2).sum()
    np.testing.assert_allclose(found[:, 1], found[:, 0] / 2.0, rtol=1e-9)
    assert found[:, 0].mean() == pytest.approx(0.0, abs=0.05 * math.sqrt(variance))
    assert found[:, 0].var() == pytest.approx(variance, rel=0.1)
