"""Leaves found by the scores they add."""

from __future__ import annotations

import itertools

import numpy as np

from rfsize.integrations.lightgbm.leaf_matching import LeafValues, bag_fits, find_up_to_constant


def test_leaves_up_to_a_constant_are_those_that_trying_all_of_them_finds() -> None:
    rng = np.random.default_rng(4)
    # Few distinct values, so that many rows fit several ways.
    values = [np.unique(rng.integers(0, 12, size) / 4.0) for size in (5, 4, 6)]
    leaves = [LeafValues.of(value, np.ones(value.size), 1e-9) for value in values]
    truth = np.array([rng.integers(0, value.size, 60) for value in values])
    constant = rng.normal(size=60)
    score = np.stack([value[place] for value, place in zip(values, truth, strict=True)]) + constant
    expected = {
        (row, *places)
        for row in range(60)
        for places in itertools.product(*(range(value.size) for value in values))
        if np.ptp([values[tree][place] - score[tree, row] for tree, place in enumerate(places)]) < 1e-6
    }
    row, place = find_up_to_constant(score, leaves)
    assert sorted(zip(row.tolist(), *place.tolist(), strict=True)) == sorted(expected)
    assert {(index, *places) for index, places in enumerate(truth.T.tolist())} < expected
    counted = [np.bincount(of_tree, minlength=value.size) for of_tree, value in zip(truth, values, strict=True)]
    fitting = [LeafValues.of(value, count, 1e-9) for value, count in zip(values, counted, strict=True)]
    assert bag_fits(score, fitting, 0)
    assert not bag_fits(score[:, 1:], fitting, 0)
    assert bag_fits(score[:, 1:], fitting, 1)
    assert not bag_fits(score + rng.normal(size=score.shape), fitting, 0)


def test_bags_that_fit_no_counts() -> None:
    values = np.array([0.0, 1.0, 5.0]), np.array([0.0, 1.0, 7.0])

    def fits(one: list[int], two: list[int], score: list[float], lost: int = 0) -> bool:
        counts = np.array(one, dtype=float), np.array(two, dtype=float)
        leaves = [LeafValues.of(value, count, 1e-9) for value, count in zip(values, counts, strict=True)]
        return bag_fits(np.array(score)[:, None], leaves, lost)

    # The row is in the first two leaves, or in the second two.
    assert fits([1, 0, 0], [1, 0, 0], [3.0, 3.0])
    assert fits([0, 1, 0], [0, 1, 0], [3.0, 3.0])
    assert not fits([0, 0, 1], [0, 0, 1], [3.0, 3.0])
    assert not fits([1, 1, 0], [1, 1, 0], [3.0, 3.0])
    assert fits([1, 0, 1], [1, 0, 1], [3.0, 3.0], lost=1)
    assert fits([0, 0, 1], [0, 0, 1], [3.0, 5.0])
    assert not fits([0, 0, 0], [0, 0, 0], [3.0, 3.5])
    assert not fits([1, 1, 0], [1, 1, 0], [3.0, 5.0], lost=1)


def test_alike_leaves_count_as_one() -> None:
    leaves = LeafValues.of(np.array([2.0, 1.0, 1.0 + 1e-12]), np.array([5.0, 2.0, 4.0]), 1e-9)
    assert leaves.value.tolist() == [1.0, 2.0]
    assert leaves.count.tolist() == [6.0, 5.0]
