"""What a row may expect: agreement with an unlimited forest, and standard errors over seeds and training sets."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from scipy.stats import binom
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier

import reference.jackknife
import rfsize
from helpers import models
from helpers.copied import continuous, twice
from rfsize.exceptions import FewVotesError
from rfsize.statistics.density import VoteCells, fit_density
from rfsize.statistics.sampling_variance import pooled_variances


def outputs_of(votes: rfsize.Votes) -> Any:
    return rfsize.size(votes, alpha=0.95).outputs


# Agreement


def test_posterior_of_each_row() -> None:
    rng = np.random.default_rng(0)
    n_votes = rng.binomial(60, 0.37, 400)
    count = rng.binomial(n_votes, rng.beta(0.4, 0.7, 400))
    votes = rfsize.Votes(np.stack([count, n_votes - count], axis=1), n_trees=60)
    density = fit_density(
        VoteCells(np.minimum(count, n_votes - count), n_votes, np.ones(len(count))).merged()[0], with_draws=False
    )
    wrong, expected = binom.sf(10, 21, density.fractions), []
    for k, n in zip(count.tolist(), n_votes.tolist(), strict=True):
        likely = density.mass * (binom.pmf(k, n, density.fractions) + binom.pmf(n - k, n, density.fractions))
        expected.append(likely @ wrong / likely.sum())
    losses = 1.0 - outputs_of(votes).agreement(21)
    np.testing.assert_allclose(losses / losses.mean(), np.array(expected) / np.mean(expected), rtol=1e-6, atol=1e-12)
    assert losses.mean() == pytest.approx(np.mean(expected), rel=0.05)


@pytest.mark.parametrize("n_trees", [1, 10, 31, 1001])
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost softprob", "random forest of names", "lightgbm pos/neg"])
def test_mean_is_the_report_s(kind: str, n_trees: int) -> None:
    forest = models.model(kind)
    outputs = rfsize.tree_outputs(forest.model, forest.fresh)
    agreement = outputs.agreement(n_trees)
    assert agreement.mean() == pytest.approx(1.0 - rfsize.size(outputs, alpha=0.9).loss_at(n_trees).value, abs=1e-6)
    assert ((agreement > 0.3) & (agreement <= 1.0)).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(outputs)).agreement(n_trees), agreement)
    np.testing.assert_array_equal(outputs.agreement(), outputs.agreement(models.N_TREES))


def test_rows_that_are_stated_to_agree_do() -> None:
    """Agreement is stated from the votes of one forest, and another of the same size agrees with all trees or not."""
    X, y = continuous(1200)
    forest = RandomForestClassifier(24 * 41, max_features=2, min_samples_leaf=5, random_state=0).fit(X[:400], y[:400])
    votes = rfsize.tree_outputs(forest, X[400:]).by_tree()
    counts = [few.sum(axis=1) for few in np.split(votes, 24, axis=1)]
    pairs = [
        (rfsize.Votes(np.stack([41 - count, count], axis=1)), other) for count, other in itertools.pairwise(counts)
    ]
    stated = np.concatenate([outputs_of(few).agreement() for few, _ in pairs[::4]])
    agrees = np.concatenate([(other > 20) == (votes.mean(axis=1) > 0.5) for _, other in pairs[::4]])
    for low, high in ((0.5, 0.8), (0.8, 0.9), (0.9, 0.98), (0.98, 1.0)):
        inside = (stated >= low) & (stated < high)
        assert agrees[inside].mean() == pytest.approx(stated[inside].mean(), abs=0.06)


def test_copies_expect_the_same() -> None:
    X, y = twice(*continuous(150))
    forest = RandomForestClassifier(120, random_state=0).fit(X, y)
    outputs = rfsize.tree_outputs(forest, X, y, oob=True, groups="copies")
    agreement, (_, index) = outputs.agreement(), np.unique(X, axis=0, return_inverse=True)
    assert all(np.ptp(agreement[index.ravel() == place]) == 0.0 for place in range(index.max() + 1))
    report = rfsize.size(outputs, alpha=0.9)
    assert agreement[outputs.groups.once].mean() == pytest.approx(1.0 - report.loss_at(120).value, abs=1e-6)
    kept = outputs.agreement(report.n_kept)[outputs.groups.once]
    assert report.estimate.details.below_alpha == pytest.approx(np.mean(kept < 0.9))


def test_rows_of_large_groups_expect_something_too() -> None:
    """They are too few to be estimated by themselves, and join the rows of smaller groups."""
    X, y = continuous(300)
    groups = np.concatenate([np.arange(120), 120 + np.arange(160) // 2, np.full(20, 200)])
    forest = RandomForestClassifier(150, max_samples=0.05, random_state=0).fit(X, y)
    outputs = rfsize.tree_outputs(forest, X, y, oob=True, groups=groups)
    agreement = outputs.agreement()
    assert np.isnan(agreement).sum() == 0
    assert 0.5 < agreement[-20:].mean() <= 1.0


def test_report_names_rows_that_are_less_sure() -> None:
    votes = [[45, 55]] * 40 + [[1, 99]] * 60
    report = rfsize.size(rfsize.Votes(votes), alpha=0.8)
    assert report.estimate.details.below_alpha == pytest.approx(0.4)
    assert f"agreement({report.n_kept})" in str(pickle.loads(pickle.dumps(report)))
    assert "agreement(" not in str(rfsize.size(rfsize.Votes(votes[30:]), alpha=0.8))


# Standard errors


def slopes_of(link: Any, mean: np.ndarray) -> np.ndarray:
    """Derivatives of all predictions of one row, by differences."""
    step = 1e-6 * np.eye(len(mean))
    return np.stack([(link(mean[None] + by) - link(mean[None] - by))[0] / 2e-6 for by in step], axis=1)


@pytest.mark.parametrize(
    "kind",
    ["lightgbm", "lightgbm poisson", "xgboost softprob", "random forest of names", "bagging of neighbouring numbers"],
)
def test_seeds_move_a_prediction_by_the_variance_of_trees(kind: str) -> None:
    forest = models.model(kind)
    error = rfsize.tree_outputs(forest.model, forest.fresh).standard_error("seeds")
    score = forest.tree_scores(forest.fresh)
    for row in range(0, len(error), 10):
        slopes = slopes_of(forest.link, score[:, row].mean(axis=0))
        variance = np.diag(slopes @ np.atleast_2d(np.cov(score[:, row].T)) @ slopes.T) / models.N_TREES
        np.testing.assert_allclose(np.unique(error[row]), np.unique(np.sqrt(variance)), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("bags", [{"bootstrap": False, "max_samples": 0.5}, {"bootstrap": True}])
@pytest.mark.parametrize("oob", [False, True])
def test_training_sets_move_a_mean_by_its_standard_error(bags: dict[str, Any], oob: bool) -> None:
    """Members that predict the mean of their bag: the ensemble predicts the mean of all rows but those left out."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    model = BaggingRegressor(DummyRegressor(), 2000, random_state=0, **bags).fit(X, y)
    outputs = rfsize.tree_outputs(model, X, y, oob=True) if oob else rfsize.tree_outputs(model, X[:5] + 9.0)
    error = outputs.standard_error("rows", **({} if oob else {"bags": rfsize.tree_outputs(model, X, y, oob=True)}))
    assert error.shape == (outputs.n_rows,)
    assert error.mean() == pytest.approx(y.std() / np.sqrt(60), rel=0.08)


@pytest.mark.parametrize("kind", ["lightgbm regression", "xgboost regression", "LGBMClassifier", "xgboost softprob"])
def test_pooled_variances_are_those_of_rows(kind: str) -> None:
    forest = models.model(kind)
    outputs = rfsize.tree_outputs(forest.model, forest.X, forest.y, oob=True)
    pooled = pooled_variances(outputs)
    assert pooled is not None
    error = outputs.standard_error("seeds")
    assert pooled.by_tree == pytest.approx(np.nanmean(error**2) * models.N_TREES, rel=0.1)
    assert pooled_variances(pickle.loads(pickle.dumps(outputs))) is None
    assert pooled_variances(rfsize.tree_outputs(forest.model, forest.fresh)) is None


def test_what_rows_do_together_counts_once() -> None:
    """Without replacement, V of all rows is divided by u / ln(1 + u); row by row restated in plain loops."""
    X, rng = np.random.default_rng(3).normal(size=(50, 4)), np.random.default_rng(4)
    y, bags = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=50), {"subsample": 0.6, "subsample_freq": 1}
    model = LGBMRegressor(boosting_type="rf", n_estimators=80, min_child_samples=3, verbose=-1, **bags).fit(X, y)
    drawn = np.asarray(rfsize.inbag(model, X)).astype(int)
    score = np.array([model.predict(X, start_iteration=tree, num_iteration=1) for tree in range(80)])
    moved, scatter = [], []
    for row in range(50):
        of_row = score[:, [row]], drawn[:, [row]] == 0, drawn[:, :, None], [1.0], list(range(50))
        moved.append(reference.jackknife.sampling_variance(*of_row, even=True)[0])
        scatter.append(score[drawn[:, row] == 0, row].var(ddof=1))
    by_rows, by_tree = np.mean(moved), np.mean(scatter)
    pooled = pooled_variances(rfsize.tree_outputs(model, X, y, oob=True))
    assert pooled is not None
    fraction = drawn.mean()
    share = (1.0 - fraction) / fraction * by_rows / by_tree
    common = share / (share + 0.02)
    orders = [common**j * fraction**j / j for j in range(1, 400)]  # what j rows do together, of which V counts j times
    once = sum(orders) / sum(j * order for j, order in enumerate(orders, 1))
    assert (pooled.by_tree, pooled.by_rows) == pytest.approx((by_tree, once * by_rows))


def test_training_sets_move_forests_by_their_standard_error() -> None:
    """V alone is more than twice the variance over training sets, for trees that try all columns."""
    rng, bags = np.random.default_rng(7), {"boosting_type": "rf", "subsample": 0.8, "subsample_freq": 1}
    fresh, predicted, by_seeds, by_rows = rng.normal(size=(100, 6)), [], [], []
    for _ in range(16):
        X = rng.normal(size=(150, 6))
        y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=150)
        model = LGBMRegressor(n_estimators=200, min_child_samples=5, verbose=-1, n_jobs=1, **bags).fit(X, y)
        outputs = rfsize.tree_outputs(model, fresh)
        predicted.append(outputs.predict())
        by_seeds.append(outputs.standard_error("seeds") ** 2)
        by_rows.append(outputs.standard_error("rows", bags=rfsize.inbag(model, X)) ** 2)
    real = np.var(predicted, axis=0, ddof=1).mean() - np.mean(by_seeds)
    assert np.mean(by_rows) == pytest.approx(real, rel=0.25)


def test_some_rows_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = models.model("lightgbm regression")
    outputs = rfsize.tree_outputs(forest.model, forest.X, forest.y, oob=True)
    whole = pooled_variances(outputs)
    monkeypatch.setattr("rfsize.statistics.sampling_variance.ROWS", 250)
    part = pooled_variances(outputs)
    assert part is not None
    assert whole is not None
    assert part.by_tree == pytest.approx(whole.by_tree, rel=0.2)
    assert abs(part.by_rows - whole.by_rows) < 3.0 * whole.error


# Refusals


def test_bags_of_another_forest_tell_nothing() -> None:
    X, y = continuous(400)
    forest, other = (RandomForestClassifier(100, random_state=seed).fit(X[:300], y[:300]) for seed in (0, 1))
    outputs = rfsize.tree_outputs(forest, X[300:])
    with pytest.raises(FewVotesError, match="bags") as refused:
        outputs.standard_error("rows", bags=rfsize.inbag(other, X[:300]))
    assert refused.value.enough is not None
    assert refused.value.enough > 100
