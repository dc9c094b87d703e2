"""The rules of others that `benchmarks/peers.py` compares with, against naive restatements."""

from __future__ import annotations

import importlib.util
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "peer_rules.py"


@pytest.fixture(scope="module")
def rules() -> Any:
    spec = importlib.util.spec_from_file_location("peer_rules", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def h2o_stops_by_index(losses: list[float], k: int, tolerance: float) -> bool:
    """H2O's loop over scoring events: k + 1 averages of k of them, the first of which is what the others must beat."""
    if len(losses) < 2 * k + 1:
        return False
    averages = []
    for i in range(k + 1):
        total = 0.0
        for j in range(k):
            total += losses[len(losses) - 2 * k + i + j]
        averages.append(total / k)
    best = averages[1]
    for average in averages[2:]:
        best = min(best, average)
    return averages[0] == 0 or best / averages[0] >= 1 - tolerance


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_h2o_stops_where_its_loop_does(rules: Any, rounds: int) -> None:
    generator = np.random.default_rng(rounds)
    stopped = []
    for _ in range(50):
        losses = list(1.0 / np.arange(1, 60) ** 0.5 + 0.5 + 0.02 * generator.random(59))
        expected = [h2o_stops_by_index(losses[:n], rounds, 0.01) for n in range(1, 60)]
        found = rules.h2o(losses, 5, rounds, 0.01)
        assert found.settled == any(expected)
        assert found.trained == found.kept == 5 * (expected.index(True) + 1 if any(expected) else 59)
        stopped.append(found.trained)
    assert len(set(stopped)) > 3


def test_h2o_stops_at_no_loss_and_not_before_enough_scorings(rules: Any) -> None:
    assert rules.h2o([0.0] * 20, 5, 3, 1e-3) == (35, 35, True)
    assert not rules.h2o([1.0, 0.9, 0.8, 0.7], 5, 3, 1e-3).settled


def test_plateau_counts_steps_without_a_new_best(rules: Any) -> None:
    assert rules.plateau([0.3, 0.2, 0.2, 0.25, 0.1, 0.1, 0.1, 0.1], 20, patience=3) == (160, 160, True)
    assert rules.plateau([0.3, 0.2, 0.2, 0.25, 0.1, 0.1, 0.1], 20, patience=3) == (140, 140, False)


def test_kappa_is_that_of_all_pairs(rules: Any) -> None:
    labels = np.random.default_rng(0).choice(4, size=(60, 7), p=[0.5, 0.3, 0.1, 0.1])
    labels[:30] = labels[:30, :1]
    pairs = [row[i] == row[j] for row in labels for i, j in combinations(range(7), 2)]
    chance = sum(float((labels == k).mean()) ** 2 for k in range(4))
    assert rules.fleiss_kappa(labels) == pytest.approx((np.mean(pairs) - chance) / (1 - chance), abs=1e-12)
    assert rules.fleiss_kappa(np.ones((5, 3))) == 1.0


def recommended_by_steps(half: float, slope: float) -> int:
    """The first of 20, 30, … trees at which the curve gains too little since ten trees before."""

    def stability(n_trees: float) -> float:
        return 1 / (1 + (half / n_trees) ** slope)

    wanted = 1e-6
    while True:
        n_trees = 20
        while (stability(n_trees) - stability(n_trees - 10)) / 10 >= wanted:
            n_trees += 10
        rounded = round(n_trees / 1000) * 1000
        if rounded >= half:
            return max(rounded, 500)
        wanted *= 0.1


# The last curve is flat before its half, where its flatness is not to be trusted.
@pytest.mark.parametrize(("half", "slope"), [(10.0, 0.6), (40.0, 0.9), (0.01, 0.9), (2000.0, 4.0)])
def test_optrf_takes_the_size_at_which_the_curve_is_flat(rules: Any, half: float, slope: float) -> None:
    sizes = np.array(rules.OPTRF_SIZES)
    assert rules.optrf(1 / (1 + (half / sizes) ** slope)) == recommended_by_steps(half, slope)


def test_optrf_recommends_nothing_where_a_million_trees_are_not_half_way(rules: Any) -> None:
    assert rules.optrf(1 / (1 + 5e6 / np.array(rules.OPTRF_SIZES))) is None
