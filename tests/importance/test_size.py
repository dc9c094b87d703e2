"""How many trees importances take, next to forests that were really drawn again."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor

import rfsize
from helpers.forests import Data, train_lightgbm
from rfsize.importance.importances import Importances
from rfsize.importance.measured import Measured
from rfsize.importance.stability import SIZES, Unlikeness, rank_correlation, share_in_common


def drawn(mean: np.ndarray, noise: np.ndarray, n_trees: int, seed: int) -> Measured:
    """What so many trees lose that are drawn from a normal distribution, as a forest would be measured."""
    of_trees = mean + noise * np.random.default_rng(seed).standard_normal((n_trees, len(mean)))
    return Measured(0.0, of_trees.mean(axis=0), np.zeros(len(mean)), of_trees, 1.0, 400, 20.0)


def test_rank_correlation_is_spearmans() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 5, (2, 20, 9)).astype(float)
    expected = [spearmanr(a, b).statistic for a, b in zip(one, other, strict=True)]
    assert rank_correlation(one, other) == pytest.approx(expected)
    assert rank_correlation(np.zeros((1, 3)), np.zeros((1, 3))).tolist() == [1.0]


def test_share_in_common_counts_sets() -> None:
    one, other = np.random.default_rng(1).normal(size=(2, 20, 9))
    expected = [len(set(np.argsort(-a)[:4]) & set(np.argsort(-b)[:4])) / 4 for a, b in zip(one, other, strict=True)]
    assert share_in_common(4)(one, other) == pytest.approx(expected)


@pytest.mark.parametrize("likeness", [rank_correlation, share_in_common(8)], ids=["order", "first"])
def test_what_forests_drawn_again_have_is_foretold(likeness: Any) -> None:
    rng = np.random.default_rng(3)
    mean = np.append(rng.exponential(size=20), np.zeros(10)) ** 2
    noise = 1.0 + mean
    for n_trees in (50, 200, 800):
        real = np.array([drawn(mean, noise, n_trees, seed).value for seed in range(100, 140)])
        really = likeness(real[:20], real[20:]).mean()
        foretold = [
            np.interp(math.log(n_trees), np.log(SIZES), Unlikeness.of(drawn(mean, noise, 200, seed), likeness).expected)
            for seed in range(6)
        ]
        assert 1.0 - np.mean(foretold) == pytest.approx(really, abs=0.06)


def test_columns_that_are_never_tested_stay_where_they_are() -> None:
    measured = drawn(np.array([3.0, 2.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0]), 100, 0)
    found = Unlikeness.of(measured, rank_correlation)
    assert found.expected[-1] == 0.0
    assert np.isfinite(found.without).all()


@pytest.fixture(scope="module")
def importances(data: Data) -> Importances:
    y = data.X @ np.array([1.5, 1.4, 1.3, 1.0, 0.5, 0.2, 0.1, 0.0])
    forest = RandomForestRegressor(60, min_samples_leaf=5, random_state=0).fit(data.X[:500], y[:500])
    return rfsize.oob_importance(forest, data.X[:500], y[:500])


class TestReport:
    def test_size_and_loss_are_of_one_curve(self, importances: Importances) -> None:
        report = importances.size(alpha=0.95)
        assert report.loss_at(report.n_trees).value <= 0.0501
        assert report.loss_at(max(1, report.n_trees // 2)).value > 0.05
        assert report.size_at(0.95) == report.n_trees <= report.size_at(0.99)
        low, high = report.interval
        assert low <= report.n_trees <= high
        assert report.n_trees <= report.upper(0.8) <= high
        loss = report.loss_at(40)
        assert loss.interval[0] <= loss.value <= loss.interval[1]

    def test_it_tells_of_forests_of_other_seeds(self, importances: Importances, data: Data) -> None:
        y = data.X @ np.array([1.5, 1.4, 1.3, 1.0, 0.5, 0.2, 0.1, 0.0])
        found = []
        for seed in range(1, 7):
            forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=seed).fit(data.X[:500], y[:500])
            found.append(rfsize.oob_importance(forest, data.X[:500], y[:500])._measured.value)
        pairs = np.array(list(itertools.combinations(range(6), 2)))
        real = rank_correlation(np.array(found)[pairs[:, 0]], np.array(found)[pairs[:, 1]]).mean()
        assert 1.0 - importances.size().loss_at(30).value == pytest.approx(real, abs=0.05)

    def test_it_says_so(self, importances: Importances) -> None:
        enough, too_few = importances.size(alpha=0.9), importances.size(alpha=0.9999)
        assert enough.enough
        assert "of your 60 trees are enough" in str(enough)
        assert "importances of two such forests have a rank correlation of 0." in str(enough)
        assert not too_few.enough
        assert "60 trees are not enough" in str(too_few)
        top = importances.size(top=3, alpha=0.6)
        assert "of the first 3 columns in common" in str(top)
        assert top.to_dict()["top"] == 3
        assert top.goal.aim == "have 60 % of the first 3 columns in common with a forest of another seed"

    def test_it_is_a_report(self, importances: Importances, tmp_path: Path) -> None:
        report = importances.size(top=4)
        json.dumps(report.to_dict(), allow_nan=False)
        assert report.plot().get_ylabel() == "of the first 4 columns, two forests differ in"
        report.to_html(tmp_path / "page.html", importances)
        page = (tmp_path / "page.html").read_text("utf-8")
        assert "rfsize.grow" not in page
        assert "x0" in page
        assert str(pickle.loads(pickle.dumps(report))) == str(report)
        assert str(pickle.loads(pickle.dumps(importances))) == str(importances)

    def test_metrics_of_the_whole_forest(self, booster: Any, data: Data) -> None:
        importances = rfsize.oob_importance(booster, data.X, data.y, metric="auc")
        report = importances.size(top=3, alpha=0.9)
        assert report.loss_at(10).value > report.loss_at(1000).value

    def test_trees_that_are_no_independent_draws(self, data: Data) -> None:
        model = train_lightgbm(data.X[:500], data.y[:500], bagging_freq=2)
        importances = rfsize.oob_importance(model, data.X[:500], data.y[:500])
        with pytest.warns(rfsize.exceptions.SharedBagsWarning):
            report = importances.size(top=3)
        assert rfsize.exceptions.SharedBagsWarning in {one.category for one in report.warnings}

    @pytest.mark.parametrize("top", [0, 8, 2.5, True])
    def test_it_refuses_what_is_no_top(self, importances: Importances, top: Any) -> None:
        with pytest.raises(ValueError, match="top must be a whole number from 1 to 7"):
            importances.size(top=top)

    def test_it_refuses_what_is_no_share_and_one_column(self, importances: Importances, data: Data) -> None:
        with pytest.raises(ValueError, match="alpha must be a number strictly between 0 and 1"):
            importances.size(alpha=1.0)
        forest = RandomForestRegressor(40, min_samples_leaf=5, random_state=0).fit(data.X[:200], data.y[:200])
        one = rfsize.oob_importance(forest, data.X[:200], data.y[:200], columns=["x0"])
        with pytest.raises(ValueError, match="one column has no order"):
            one.size()


def test_it_stays_the_same(importances: Importances) -> None:
    assert str(importances.size()) == str(importances.size())


@pytest.mark.parametrize("top", [None, 3])
def test_the_page_lists_sizes_by_alpha(data: Data, top: int | None) -> None:
    model = RandomForestRegressor(60, max_features=2, random_state=0).fit(data.X, data.X[:, 0] + data.X[:, 1])
    report = rfsize.oob_importance(model, data.X, data.X[:, 0] + data.X[:, 1]).size(alpha=0.9, top=top)
    page = report._repr_html_()
    rows = re.findall(r'<tr( class="marked")?><th scope="row">(0\.\d+)</th><td>([\d,]+)</td></tr>', page)
    assert len(rows) > 2
    assert all(report.size_at(float(alpha)) == int(size.replace(",", "")) for _, alpha, size in rows)
    assert [int(size.replace(",", "")) for marked, _, size in rows if marked] == [report.n_trees]
