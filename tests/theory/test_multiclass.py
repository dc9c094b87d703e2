"""The mathematics of plurality voting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference.multiclass
import rfsize
from rfsize import theory
from rfsize._core import overtakes
from rfsize.theory import multiclass

FRACTIONS = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=3).map(lambda parts: np.array(parts) / sum(parts))


@given(st.integers(1, 40), FRACTIONS, st.booleans())
def test_a_rival_overtakes_as_often_as_the_sums_say(n_trees: int, pi: np.ndarray, wins_ties: bool) -> None:
    rival, leader = sorted(pi[:2].tolist())
    expected = reference.multiclass.overtakes(n_trees, leader, rival, wins_ties)
    assert overtakes(n_trees, leader, rival, wins_ties) == pytest.approx(expected, abs=2e-8)


@pytest.mark.parametrize("n_trees", [1, 2, 11, 100, 501])
@pytest.mark.parametrize(
    ("leader", "rival"), [(0.5, 0.5), (0.5, 0.5 - 1e-9), (0.3, 0.3), (0.9, 1e-9), (0.999, 0.001), (1e-4, 1e-5)]
)
def test_pairs_at_the_edges(n_trees: int, leader: float, rival: float) -> None:
    for wins_ties in (False, True):
        expected = reference.multiclass.overtakes(n_trees, leader, rival, wins_ties)
        assert overtakes(n_trees, leader, rival, wins_ties) == pytest.approx(expected, abs=2e-8)


@given(st.integers(1, 501).map(lambda half: 2 * half - 1), st.floats(0.0, 1.0))
def test_two_classes_are_the_binomial(n_trees: int, pi: float) -> None:
    expected = float(theory.disagreement(n_trees, pi))
    assert multiclass.disagreement(n_trees, [[1.0 - pi, pi]]) == pytest.approx(expected, abs=2e-8)


@given(st.integers(1, 9), FRACTIONS)
def test_no_more_agreement_is_claimed_than_there_is(n_trees: int, pi: np.ndarray) -> None:
    exact = reference.multiclass.plurality_agreement(n_trees, pi.tolist())
    claimed = float(multiclass.agreement(n_trees, pi[None, :])[0])
    assert claimed <= exact + 2e-4
    if n_trees == 1:
        assert claimed == pytest.approx(exact)


def hard_rows(n_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The leader at either end of the index, with one rival and with many; all classes level; any."""
    last = np.full(n_classes, 0.5 / (n_classes - 1))
    last[-1] = 0.5
    pair = np.full(n_classes, 0.1 / (n_classes - 2))
    pair[:2] = 0.46, 0.44
    return [np.full(n_classes, 1.0 / n_classes), last, pair, rng.dirichlet(np.full(n_classes, 0.5))]


@pytest.mark.parametrize("n_classes", [3, 5, 10, 26])
@pytest.mark.parametrize("n_trees", [11, 101, 1001])
def test_claims_against_many_draws(n_classes: int, n_trees: int) -> None:
    rng = np.random.default_rng(n_classes * n_trees)
    for pi in hard_rows(n_classes, rng):
        winner = np.concatenate([rng.multinomial(n_trees, pi, size=100_000).argmax(axis=1) for _ in range(4)])
        shown = np.mean(winner == pi.argmax())
        claimed = float(multiclass.agreement(n_trees, pi[None, :])[0])
        assert claimed <= shown + 0.002
        # Where the forest nearly agrees, little is given away.
        if shown > 0.98:
            assert claimed >= shown - 0.1 * (1.0 - shown) - 0.001


def test_a_rival_without_votes_does_not_matter() -> None:
    with_it = multiclass.disagreement(15, [[0.6, 0.0, 0.4]])
    assert with_it == multiclass.disagreement(15, [[0.6, 0.4]])
    assert multiclass.disagreement(15, [[0.0, 1.0, 0.0]]) == 0.0


def test_ties_of_the_limit_never_converge() -> None:
    assert multiclass.disagreement(10**8 + 1, [[0.4, 0.4, 0.2]]) == pytest.approx(0.5, abs=1e-3)
    report = rfsize.size(rfsize.Votes([[40, 40, 20], [100, 0, 0]]), alpha=0.9, method="plugin")
    assert report.n_trees == math.inf
    assert report.reason is not None
    assert "50 % of the rows several classes tie for the most votes" in report.reason
    near = rfsize.Votes([[5000001, 5000000, 1]])
    assert "more than" in rfsize.size(near, alpha=0.9999999, method="plugin").reason


@pytest.mark.parametrize(
    ("pi", "message"), [([0.5, 0.5], "shape"), ([[0.5, 0.6]], "sum to 1"), ([[1.5, -0.5]], "non-negative")]
)
def test_fractions_are_checked(pi: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        multiclass.agreement(3, pi)
    with pytest.raises(ValueError, match="at least 1"):
        multiclass.agreement(0, [[0.5, 0.5]])
