"""Curves of disagreement, from which intervals are made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import rfsize
from rfsize.estimation.hard import smooth
from rfsize.estimation.intervals import Curves

SIZES = np.array([1, 3, 9])


@given(arrays(np.float64, (4, 3), elements=st.just(0.0) | st.floats(1e-6, 0.5)), st.floats(1.0, 2.0))
def test_wider_curves(disagreement: np.ndarray, factor: float) -> None:
    found = Curves(SIZES, disagreement).wider(factor).disagreement
    for column, wider in zip(disagreement.T, found.T, strict=True):
        mean = sum(column) / len(column)
        for before, after in zip(column, wider, strict=True):
            if before == 0.0:
                assert after == 0.0
            else:
                expected = math.log(mean) + factor * (math.log(before) - math.log(mean))
                assert math.isclose(after, min(math.exp(expected), 1.0), rel_tol=1e-9)


def test_curves_go_on_straight_beyond_their_sizes() -> None:
    """On logarithmic axes: a curve of which only some sizes are known says of others what its law does."""
    law = np.array([[0.5], [0.3]]) / np.array([[9, 17, 33]]) ** np.array([[0.5], [1.0]])
    sizes = np.array([3, 9, 25, 1001, 100_001])
    expected = np.array([[0.5], [0.3]]) / sizes ** np.array([[0.5], [1.0]])
    assert Curves(np.array([9, 17, 33]), law).at(sizes) == pytest.approx(expected, rel=1e-9)


def test_upper_sizes_grow_with_the_confidence_beyond_what_replicates_tell() -> None:
    for_class_1 = np.random.default_rng(0).binomial(100, [0.4] * 50 + [0.05] * 300)
    votes = rfsize.Votes(np.stack([100 - for_class_1, for_class_1], axis=1))
    report = rfsize.size(votes, alpha=0.97)
    uppers = [report.upper(confidence) for confidence in (0.5, 0.8, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0 - 1e-6)]
    assert uppers == sorted(uppers)
    assert uppers[-4] < uppers[-3] < uppers[-2] < uppers[-1] < math.inf


def test_intervals_of_two_classes_are_a_quarter_wider_than_the_posterior() -> None:
    rng = np.random.default_rng(0)
    for_class_1 = rng.binomial(100, rng.beta(0.5, 0.5, size=2000))
    votes = rfsize.Votes(np.stack([100 - for_class_1, for_class_1], axis=1))
    report, posterior = rfsize.size(votes, alpha=0.99, method="smooth"), smooth(votes)
    found = posterior.replicates(report.n_trees)
    low, high = (found.quantile(0.99, share) for share in (0.025, 0.975))
    lowest, highest = report.interval
    assert 1.2 < math.log(highest / lowest) / math.log(high / low) < 1.3


@pytest.mark.parametrize("method", ["smooth", "plugin"])
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_those_of_three_classes_are_not(average: str, method: str) -> None:
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(100, of) for of in rng.dirichlet([0.4, 0.4, 0.4], size=1000)])
    votes = rfsize.Votes(counts)
    report = rfsize.size(votes, alpha=0.98, method=method, average=average)
    found = report._answer.estimate.replicates(report.n_trees)
    low, high = (found.quantile(0.98, share) for share in (0.025, 0.975))
    lowest, highest = report.interval
    assert 0.9 < math.log(highest / lowest) / math.log(high / low) < 1.1
