"""Learned stopping sets: the thresholds are those of least cost, and the certificate is of other rows."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rfsize
from helpers.forests import train_lightgbm
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.stopping import learning
from rfsize.stopping.rules.averages import AverageStops, _learning_rows, needed_leads, running_leads

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(3000, 1, 1)) * RNG.choice([0.05, 1.0], (3000, 1, 1)) + RNG.normal(size=(3000, 21, 1))
LEAD, LABEL = running_leads(SCORES, 0.0)
PLAIN = needed_leads(1.0, 21)[1:]


def first_thresholds(lead: np.ndarray, differs: np.ndarray, penalty: float) -> list[float]:
    """Backward induction by trying every threshold of each tree."""
    n_rows, n_trees = lead.shape
    cost = [float(n_trees)] * n_rows
    found = []
    for t in range(n_trees - 1, 0, -1):
        now = [t + penalty * differs[row, t - 1] for row in range(n_rows)]
        best, needed = sum(cost), np.inf
        for candidate in sorted(lead[:, t - 1], reverse=True):
            total = sum(now[row] if lead[row, t - 1] >= candidate else cost[row] for row in range(n_rows))
            if total < best - 1e-9:
                best, needed = total, candidate
        cost = [now[row] if lead[row, t - 1] >= needed else cost[row] for row in range(n_rows)]
        found.append(needed)
    return found[::-1]


def test_thresholds_are_those_of_least_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "_SMOOTHED_OVER", 1e-3)
    lead, label = LEAD[:60, :8].copy(), LABEL[:60, :8]
    plain = needed_leads(1.0, 8)[1:]
    order, differs = np.argsort(-lead, axis=0, kind="stable"), label != label[:, -1:]
    shape = learning._learned(lead, order, differs, plain, np.array([12.0]))[0]
    expected = np.array(first_thresholds(lead, differs, 12.0))
    expected = np.where(np.isinf(expected), 1.05 * lead[:, :-1].max(axis=0), expected)
    assert shape[:-1] == pytest.approx(np.minimum.accumulate(expected))
    assert shape[-1] == 0.0


def test_limits_are_smoothed_over_numbers_of_trees_that_are_alike() -> None:
    """A Gaussian mean of their logarithms, 0.4 wide in the logarithm of the trees."""
    lead, label = LEAD[:200, :9].copy(), LABEL[:200, :9]
    plain = needed_leads(1.0, 9)[1:]
    order, differs = np.argsort(-lead, axis=0, kind="stable"), label != label[:, -1:]
    shape = learning._learned(lead, order, differs, plain, np.array([12.0]))[0]
    needed = np.array(first_thresholds(lead, differs, 12.0))
    rough = np.log(np.where(np.isinf(needed), 1.05 * lead[:, :-1].max(axis=0), needed) / plain[:-1])
    expected = []
    for t in range(1, 9):
        weights = [math.exp(-((math.log(t / other) / 0.4) ** 2) / 2.0) for other in range(1, 9)]
        mean = sum(weight * each for weight, each in zip(weights, rough.tolist(), strict=True)) / sum(weights)
        expected.append(math.exp(mean) * plain[t - 1])
    assert shape[:-1] == pytest.approx(np.minimum.accumulate(expected))


def test_the_cheapest_shape_is_taken_unless_it_is_not_worth_it() -> None:
    def dear(shape: np.ndarray) -> float:
        return 10.0 if shape is PLAIN else 9.9

    def cheap(shape: np.ndarray) -> float:
        return 10.0 if shape is PLAIN else 5.0

    assert learning.best_shape(LEAD, LABEL, PLAIN, dear) is PLAIN
    shape = learning.best_shape(LEAD, LABEL, PLAIN, cheap)
    assert shape is not PLAIN
    assert (np.diff(shape) <= 0.0).all()
    assert shape[-1] == 0.0


@pytest.mark.parametrize("n_trees", [1, 2])
def test_tiny_forests_learn_nothing(n_trees: int) -> None:
    plain = needed_leads(1.0, n_trees)[1:]
    assert learning.best_shape(LEAD[:, :n_trees], LABEL[:, :n_trees], plain, lambda _: 1.0) is plain


def test_rows_that_were_learned_on_do_not_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).normal(size=(4500, 5))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    forest = train_lightgbm(X[:1500], y[:1500])
    whole = rfsize.StopTable.calibrate(forest, X[1500:], alpha=0.98)
    monkeypatch.setattr("rfsize.stopping.rules.averages._ROWS_TO_LEARN", 1000)
    monkeypatch.setattr(learning, "_WORTH_LEARNING", 2.0)
    table = rfsize.StopTable.calibrate(forest, X[1500:], alpha=0.98)
    assert whole.certificate is not None
    assert table.certificate is not None
    assert isinstance(table.stops, AverageStops)
    assert (whole.certificate.rows, table.certificate.rows) == (3000, 2000)
    certified = X[1500:][np.arange(3000) % 3 > 0]
    rows = TreesOnRows.of(forest, certified, casts_votes=True)
    scores = np.concatenate(rows.added_up("scores", lambda scores, _: [scores], list))
    labels, asked = table.apply(scores)
    final = (scores.mean(axis=1, dtype=float)[:, 0] > table.stops.cut).astype(int)
    assert sum(table.certificate.counts.disagreements) == (labels != final).sum()
    assert sum(table.certificate.counts.trees) == asked.sum()
    assert table.stops.needed[1:-1] / whole.stops.needed[1:-1] != pytest.approx(  # type: ignore[union-attr]
        np.full(60, table.stops.needed[1] / whole.stops.needed[1])  # type: ignore[union-attr]
    )
    assert rfsize.StopTable.from_dict(table.to_dict()) == table


def test_of_all_penalties_the_cheapest_shape_is_taken() -> None:
    prices: dict[float, np.ndarray] = {}

    def price(shape: np.ndarray) -> float:
        if shape is PLAIN:
            return 10.0
        found = 5.0 + math.sin(37.0 * float(shape.sum()))  # in no order
        prices[found] = shape
        return found

    assert learning.best_shape(LEAD, LABEL, PLAIN, price) is prices[min(prices)]
    assert len(prices) > 2


@pytest.mark.parametrize(("n_rows", "n_trees"), [(10_000, 100), (10**6, 100), (20_000, 100_000), (10**9, 1000)])
def test_rows_to_learn_on_are_few(n_rows: int, n_trees: int) -> None:
    """A third of the rows, and at most 5000, with no more than 2²³ leads."""
    every = math.ceil(max(3, n_rows / 5000, n_rows * n_trees / 2**23))
    assert _learning_rows(_rows(n_rows, n_trees)) == every
    assert _learning_rows(_rows(9_999, n_trees)) == 0


def _rows(n_rows: int, n_trees: int) -> Any:
    return SimpleNamespace(rows=SimpleNamespace(n_rows=n_rows), adapter=SimpleNamespace(n_trees=n_trees))
