"""The mathematics of plurality voting, and sizes of forests of more than two classes."""

from __future__ import annotations

import math
from typing import Any

import naive
import numpy as np
import pytest
from conftest import Data
from hypothesis import given
from hypothesis import strategies as st

import rfsize
from rfsize import multiclass, theory
from rfsize.adapter import adapter_for, tally
from rfsize.plurality import overtakes

FRACTIONS = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=3).map(lambda parts: np.array(parts) / sum(parts))


@given(st.integers(1, 40), FRACTIONS, st.booleans())
def test_a_rival_overtakes_as_often_as_the_sums_say(n_trees: int, pi: np.ndarray, wins_ties: bool) -> None:
    rival, leader = sorted(pi[:2].tolist())
    expected = naive.overtakes(n_trees, leader, rival, wins_ties)
    assert overtakes(n_trees, leader, rival, wins_ties) == pytest.approx(expected, abs=2e-8)


@pytest.mark.parametrize("n_trees", [1, 2, 11, 100, 501])
@pytest.mark.parametrize(
    ("leader", "rival"), [(0.5, 0.5), (0.5, 0.5 - 1e-9), (0.3, 0.3), (0.9, 1e-9), (0.999, 0.001), (1e-4, 1e-5)]
)
def test_pairs_at_the_edges(n_trees: int, leader: float, rival: float) -> None:
    for wins_ties in (False, True):
        expected = naive.overtakes(n_trees, leader, rival, wins_ties)
        assert overtakes(n_trees, leader, rival, wins_ties) == pytest.approx(expected, abs=2e-8)


@given(st.integers(1, 501).map(lambda half: 2 * half - 1), st.floats(0.0, 1.0))
def test_two_classes_are_the_binomial(n_trees: int, pi: float) -> None:
    expected = float(theory.disagreement(n_trees, pi))
    assert multiclass.disagreement(n_trees, [[1.0 - pi, pi]]) == pytest.approx(expected, abs=2e-8)


@given(st.integers(1, 9), FRACTIONS)
def test_no_more_agreement_is_claimed_than_there_is(n_trees: int, pi: np.ndarray) -> None:
    exact = naive.plurality_agreement(n_trees, pi.tolist())
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
def test_claims_against_a_million_draws(n_classes: int, n_trees: int) -> None:
    rng = np.random.default_rng(n_classes * n_trees)
    for pi in hard_rows(n_classes, rng):
        winner = np.concatenate([rng.multinomial(n_trees, pi, size=100_000).argmax(axis=1) for _ in range(10)])
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
    report = rfsize.size(rfsize.Votes([[40, 40, 20], [100, 0, 0]]), alpha=0.9, estimator="plugin")
    assert report.n_trees == math.inf
    assert report.reason is not None
    assert "50.00% of the rows several classes have the most votes" in report.reason
    near = rfsize.Votes([[5000001, 5000000, 1]])
    assert "more than" in rfsize.size(near, alpha=0.9999999, estimator="plugin").reason


@pytest.mark.parametrize(
    ("pi", "message"), [([0.5, 0.5], "shape"), ([[0.5, 0.6]], "sum to 1"), ([[1.5, -0.5]], "non-negative")]
)
def test_fractions_are_checked(pi: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        multiclass.agreement(3, pi)
    with pytest.raises(ValueError, match="at least 1"):
        multiclass.agreement(0, [[0.5, 0.5]])


@pytest.fixture(scope="module")
def counted() -> rfsize.Votes:
    rng = np.random.default_rng(0)
    counts = np.stack([rng.multinomial(201, rng.dirichlet(np.full(5, 0.3))) for _ in range(3000)])
    counts[7] = 0  # a row that no tree may vote on
    return rfsize.Votes(counts)


def test_size_is_the_smallest_that_is_enough(counted: rfsize.Votes) -> None:
    pi = counted.fractions()[counted.asked > 0]
    for alpha in (0.7, 0.9, 0.97):
        report = rfsize.size(counted, alpha=alpha, estimator="plugin")
        enough = [multiclass.agreement(size, pi).mean() >= alpha for size in range(1, int(report.n_trees) + 1, 2)]
        assert enough == [False] * (len(enough) - 1) + [True]
        assert report.size_at(0.9) == rfsize.size(counted, alpha=0.9, estimator="plugin").n_trees
        assert report.agreement(51) == pytest.approx(multiclass.agreement(51, pi).mean())
        assert (report.n_rows, report.n_dropped) == (2999, 1)


def test_interval_is_the_bootstrap_over_rows(counted: rfsize.Votes) -> None:
    few = rfsize.Votes(counted.counts[100:400])
    report = rfsize.size(few, alpha=0.9, estimator="plugin")
    pi = few.fractions()
    rng = np.random.default_rng(1)

    def size_of_drawn_rows() -> float:
        drawn = pi[rng.integers(len(pi), size=len(pi))]
        return theory.smallest_odd(lambda size: float(multiclass.disagreement(size, drawn).mean()), 0.9, 101)

    again = [size_of_drawn_rows() for _ in range(300)]
    low, high = report.interval
    assert low < report.n_trees < high
    assert np.log([low, high]) == pytest.approx(np.log(np.quantile(again, [0.025, 0.975])), abs=0.08)


def test_a_class_that_no_tree_votes_for_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    two = rng.binomial(101, rng.beta(0.3, 0.3, size=500))
    counts = np.stack([101 - two, two], axis=1)
    three = np.column_stack([counts, np.zeros(500, dtype=int)])
    for estimator in ("plugin", "smooth"):
        two_classes, three_classes = (
            rfsize.size(rfsize.Votes(given), alpha=0.95, estimator=estimator).n_trees for given in (counts, three)
        )
        assert two_classes == three_classes


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def multiclass_booster(request: pytest.FixtureRequest, lgb_multiclass: Any, xgb_multiclass: Any) -> Any:
    return lgb_multiclass if request.param == "lightgbm" else xgb_multiclass


@pytest.mark.parametrize("oob", [False, True])
def test_forests_of_three_classes_are_sized_and_cut(multiclass_booster: Any, data: Data, oob: bool) -> None:
    X = data.X if oob else data.fresh
    report = rfsize.size(multiclass_booster, X, alpha=0.8, oob=oob)
    counted = rfsize.votes(multiclass_booster, X, oob=oob)
    if counted.asked.mean() < 10:
        assert not report.converged
        return
    assert report.converged
    assert report.n_trees == rfsize.size(counted, alpha=0.8).n_trees
    small = rfsize.truncate(multiclass_booster, X, alpha=0.8, oob=oob)
    assert type(small) is type(multiclass_booster)
    assert rfsize.votes(small, data.fresh).n_trees == report.n_trees
    assert "T*(0.8) = " in str(report)
    report.plot()


def test_scores_of_a_part_of_the_rows(lgb_multiclass: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = adapter_for(lgb_multiclass)
    bags = adapter.bags(len(data.X), None, None, None, None)
    whole = tally(adapter, data.X, 0.5, bags)
    monkeypatch.setattr("rfsize.adapter._SCORES_HELD", len(data.X) * 9 // 3)
    monkeypatch.setattr("rfsize.rows.CELLS_PER_BLOCK", 21 * 3 * 100)
    part = tally(adapter, data.X, 0.5, bags)
    assert part.votes == whole.votes
    assert part.scores is not None
    assert whole.scores is not None
    assert len(whole.scores) == len(data.X)
    assert np.allclose(part.scores.mean, whole.scores.mean[::4])
    assert np.allclose(part.scores.scatter, whole.scores.scatter[::4])
