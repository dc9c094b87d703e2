"""Sizes of forests of more than two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rfsize
from helpers.forests import Data
from helpers.reports import agreement
from rfsize import theory
from rfsize.theory import multiclass


@pytest.fixture(scope="module")
def counted() -> rfsize.Votes:
    rng = np.random.default_rng(0)
    counts = np.stack([rng.multinomial(201, rng.dirichlet(np.full(5, 0.3))) for _ in range(3000)])
    counts[7] = 0  # a row that no tree may vote on
    return rfsize.Votes(counts)


def test_size_is_the_smallest_that_is_enough(counted: rfsize.Votes) -> None:
    pi = counted.fractions()[counted.asked > 0]
    for alpha in (0.7, 0.9, 0.97):
        report = rfsize.size(counted, alpha=alpha, method="plugin")
        enough = [multiclass.agreement(size, pi).mean() >= alpha for size in range(1, int(report.n_trees) + 1, 2)]
        assert enough == [False] * (len(enough) - 1) + [True]
        assert report.size_at(0.9) == rfsize.size(counted, alpha=0.9, method="plugin").n_trees
        assert agreement(report, 51) == pytest.approx(multiclass.agreement(51, pi).mean())
        assert (report.n_rows, report.n_dropped) == (2999, 1)


def test_interval_is_the_bootstrap_over_rows(counted: rfsize.Votes) -> None:
    few = rfsize.Votes(counted.counts[100:400])
    report = rfsize.size(few, alpha=0.9, method="plugin")
    pi = few.fractions()
    rng = np.random.default_rng(1)

    def size_of_drawn_rows() -> float:
        drawn = pi[rng.integers(len(pi), size=len(pi))]
        return theory.smallest_size(
            lambda size: float(multiclass.disagreement(size, drawn).mean()), 0.1, guess=101, odd=True
        )

    again = [size_of_drawn_rows() for _ in range(300)]
    low, high = report.interval
    assert low < report.n_trees < high
    assert np.log([low, high]) == pytest.approx(np.log(np.quantile(again, [0.025, 0.975])), abs=0.08)


def test_a_class_that_no_tree_votes_for_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    two = rng.binomial(101, rng.beta(0.3, 0.3, size=500))
    counts = np.stack([101 - two, two], axis=1)
    three = np.column_stack([counts, np.zeros(500, dtype=int)])
    for method in ("plugin", "smooth"):
        two_classes, three_classes = (
            rfsize.size(rfsize.Votes(given), alpha=0.95, method=method).n_trees for given in (counts, three)
        )
        assert two_classes == three_classes


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def multiclass_booster(request: pytest.FixtureRequest, lgb_multiclass: Any, xgb_multiclass: Any) -> Any:
    return lgb_multiclass if request.param == "lightgbm" else xgb_multiclass


@pytest.mark.parametrize("oob", [False, True])
def test_forests_of_three_classes_are_sized_and_cut(multiclass_booster: Any, data: Data, oob: bool) -> None:
    X = data.X if oob else data.fresh
    report = rfsize.size(multiclass_booster, X, alpha=0.8, oob=oob, voting="hard")
    counted = rfsize.tree_outputs(multiclass_booster, X, oob=oob).votes
    if counted.asked.mean() < 10:
        assert not report.enough
        return
    assert report.enough
    assert report.n_trees == rfsize.size(counted, alpha=0.8).n_trees
    small = rfsize.truncate(multiclass_booster, X, alpha=0.8, oob=oob, voting="hard")
    assert type(small) is type(multiclass_booster)
    assert rfsize.tree_outputs(small, data.fresh).votes.n_trees == report.n_trees
    assert f"{report.n_trees} of your {report.available} trees are" in str(report)
    report.plot()
