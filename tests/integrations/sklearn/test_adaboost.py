"""Compiled AdaBoost against the framework itself, and what is refused of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import rfsize
from rfsize.inference.compiled import CompiledForest
from rfsize.stopping.rules.weighted import WeightedStops
from rfsize.walking.quantising import quantised_blocks

SETTINGS: dict[str, Any] = {"n_estimators": 60, "random_state": 0}


@pytest.fixture(scope="module")
def models(data: Any) -> dict[str, AdaBoostClassifier]:
    product = (data.X[:60, 0] > 0.3).astype(int) + (data.X[:60, 1] * data.X[:60, 2] > 0)
    return {
        "stumps": AdaBoostClassifier(**SETTINGS).fit(data.X, data.y),
        "three": AdaBoostClassifier(**SETTINGS).fit(data.X, np.array(["low", "middle", "high"])[data.three]),
        "four": AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **SETTINGS).fit(
            data.X, 10 * data.three + 5 * (data.X[:, 3] > 1)
        ),
        "random": AdaBoostClassifier(ExtraTreeClassifier(max_depth=5), **SETTINGS).fit(data.X, data.y == 1),
        "early": AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **SETTINGS).fit(data.X[:60], product),
        "one": AdaBoostClassifier(DecisionTreeClassifier(), **SETTINGS).fit(data.X, data.three),
    }


NAMES = ["stumps", "three", "four", "random", "early", "one"]


def rows_of(data: Any) -> np.ndarray:
    """Rows of training, fresh ones, and some on the very thresholds."""
    return np.concatenate([data.X, data.fresh, np.round(data.fresh, 1)])


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_the_frameworks(
    name: str, models: dict[str, AdaBoostClassifier], data: Any, tmp_path: Path
) -> None:
    model, X = models[name], rows_of(data)
    fast = rfsize.compile(model)
    fast.save(tmp_path / "boosted.npz")
    for forest in (fast, rfsize.load(tmp_path / "boosted.npz")):
        labels, asked = forest.predict(X, return_trees=True)
        assert np.array_equal(labels, model.predict(X))
        assert labels.dtype == model.predict(X).dtype
        assert forest.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-12)
        assert 1 <= asked.min() <= asked.max() <= len(model.estimators_) == forest.n_trees
        if name != "one":
            assert asked.mean() < 0.95 * forest.n_trees
        single = [forest.predict(row[None], return_trees=True) for row in X[:40]]
        assert [(label, n) for (label,), (n,) in single] == list(zip(labels[:40], asked[:40], strict=True))
    if name == "early":
        assert fast.n_trees < SETTINGS["n_estimators"]
    if name == "one":
        assert fast.n_trees == 1


@pytest.mark.parametrize("name", ["stumps", "three", "four"])
def test_as_many_members_are_asked_as_by_the_table(name: str, models: dict[str, AdaBoostClassifier], data: Any) -> None:
    model, X = models[name], rows_of(data)
    votes = np.stack([np.searchsorted(model.classes_, tree.predict(X)) for tree in model.estimators_], axis=1)
    table = rfsize.StopTable.lossless(model.estimator_weights_, n_classes=model.n_classes_)
    labels, asked = table.apply(votes)
    fast = rfsize.compile(model, table)
    assert np.array_equal(fast.predict(X), model.classes_[labels])
    assert np.array_equal(fast.predict(X, return_trees=True)[1], asked)


@pytest.mark.parametrize("name", ["stumps", "three", "four"])
def test_rounding_decides_as_in_the_framework(name: str, models: dict[str, AdaBoostClassifier], data: Any) -> None:
    """Tenths are often level but for the rounding of their sums, which no early stop may overlook."""
    generator, X = np.random.default_rng(1), rows_of(data)
    for _ in range(3):
        model = copy.copy(models[name])
        model.estimator_weights_ = generator.integers(1, 4, len(model.estimators_)) * 0.1
        fast = rfsize.compile(model)
        labels, asked = fast.predict(X, return_trees=True)
        assert np.array_equal(labels, model.predict(X))
        assert asked.max() == fast.n_trees
    model.estimator_weights_ = np.full(len(model.estimators_), 0.1)
    assert np.array_equal(rfsize.compile(model).predict(X), model.predict(X))


def test_members_without_weight_are_left_out(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    model = copy.copy(models["three"])
    model.estimator_weights_ = model.estimator_weights_ * (np.arange(len(model.estimators_)) % 3 > 0)
    fast = rfsize.compile(model)
    assert fast.n_trees == np.count_nonzero(model.estimator_weights_)
    assert np.array_equal(fast.predict(data.fresh), model.predict(data.fresh))
    assert fast.predict_proba(data.fresh) == pytest.approx(model.predict_proba(data.fresh), abs=1e-12)


def test_a_model_cut_by_hand(models: dict[str, AdaBoostClassifier], data: Any, tmp_path: Path) -> None:
    """Whoever shortens ``estimators_`` leaves the weights of the others behind, and their sum in the probabilities."""
    model = copy.copy(models["three"])
    model.estimators_ = model.estimators_[:20]
    rfsize.compile(model).save(tmp_path / "cut.npz")
    fast = rfsize.load(tmp_path / "cut.npz")
    assert fast.n_trees == 20
    assert np.array_equal(fast.predict(data.fresh), model.predict(data.fresh))
    assert fast.predict_proba(data.fresh) == pytest.approx(model.predict_proba(data.fresh), abs=1e-12)


def test_any_weighted_table_of_the_right_size_is_safe(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    """A file from a stranger may hold weights of zero; they ask no more than all trees, and change no answer."""
    fast, generator = rfsize.compile(models["three"]), np.random.default_rng(0)
    laid_out = np.empty((len(data.fresh), 60), dtype=int)
    rows = quantised_blocks(fast.forest, data.fresh)(0, len(data.fresh))
    rows.cast(fast.forest.alone, laid_out)
    for weights in (generator.integers(0, 2, 60), np.eye(60)[7], generator.random(60) * (np.arange(60) < 30)):
        table = rfsize.StopTable.lossless(weights, n_classes=3)
        assert isinstance(table.stops, WeightedStops)
        votes = np.empty_like(laid_out)
        votes[:, table.stops.order] = laid_out
        expected, least = table.apply(votes)
        labels, asked = CompiledForest(fast.forest, table).predict(data.fresh, return_trees=True)
        assert np.array_equal(labels, fast.classes[expected])
        assert (asked >= least).all()
        assert asked.max() <= 60


def test_rows_of_any_kind(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    model = models["three"]
    fast, labels = rfsize.compile(model, n_jobs=2), model.predict(data.fresh)
    for X in (data.fresh.tolist(), pd.DataFrame(data.fresh), csr_matrix(data.fresh), np.asfortranarray(data.fresh)):
        assert np.array_equal(fast.predict(X), labels)
    many = np.tile(data.fresh, (30, 1))
    assert np.array_equal(fast.predict(many), np.tile(labels, 30))
    single = data.fresh.astype(np.float32)
    assert np.array_equal(fast.predict(single), model.predict(single))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_rows_that_the_framework_refuses_are_refused(
    value: float, models: dict[str, AdaBoostClassifier], data: Any
) -> None:
    X = data.fresh.copy()
    X[7, 2] = value
    fast = rfsize.compile(models["stumps"])
    for rows in (X, csr_matrix(X), pd.DataFrame(X)):
        with pytest.raises(ValueError, match=r"infinity|NaN"):
            models["stumps"].predict(rows)
        for predict in (fast.predict, fast.predict_proba):
            with pytest.raises(ValueError, match="scikit-learn refuses for this model; fill them in"):
                predict(rows)


def test_the_model_is_left_alone(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    model = models["four"]
    before, members = model.predict_proba(data.fresh), list(model.estimators_)
    rfsize.compile(model).predict(data.fresh)
    assert model.estimators_ == members
    assert np.array_equal(model.predict_proba(data.fresh), before)


def test_votes_and_other_tables_are_refused(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    model = models["stumps"]
    with pytest.raises(ValueError, match=r"members have weights.*use predict"):
        rfsize.compile(model).votes(data.fresh)
    weights = model.estimator_weights_
    for table in (
        rfsize.StopTable.build(60),
        rfsize.StopTable.build(60, alpha=1.0),
        rfsize.StopTable.lossless(2.0 * weights),
        rfsize.StopTable.lossless(weights, n_classes=3),
    ):
        with pytest.raises(ValueError, match="leave table out"):
            rfsize.compile(model, table)
    with pytest.raises(ValueError, match=r"leave it at 0\.5"):
        rfsize.compile(model, threshold=0.4)


def test_weights_are_refused_for_a_forest(data: Any) -> None:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(15, random_state=0).fit(data.X, data.y)
    with pytest.raises(ValueError, match="count alike"):
        rfsize.compile(forest, rfsize.StopTable.lossless(np.arange(1.0, 16.0)))


@pytest.mark.parametrize("name", ["size", "tree_outputs", "truncate", "inbag"])
def test_sizes_are_refused(name: str, models: dict[str, AdaBoostClassifier], data: Any) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"T\*.*compile"):
        getattr(rfsize, name)(models["stumps"], data.X)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="not independent draws"):
        rfsize.truncate(models["stumps"], n_trees=5)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="not independent draws"):
        rfsize.grow(models["stumps"], data.X, data.y)


def test_what_cannot_be_compiled_is_refused(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    linear = AdaBoostClassifier(LogisticRegression(), n_estimators=5, random_state=0).fit(data.X, data.three)
    with pytest.raises(
        rfsize.exceptions.NotAForestError, match=r"LogisticRegressions.*estimator_weights_\[:5\], n_classes=3"
    ):
        rfsize.compile(linear)
    by_probabilities = copy.copy(models["stumps"])
    by_probabilities.algorithm = "SAMME.R"  # as before scikit-learn 1.6
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"no fixed weights.*algorithm='SAMME'"):
        rfsize.compile(by_probabilities)
    with pytest.raises(NotFittedError):
        rfsize.compile(AdaBoostClassifier())
    with pytest.raises(rfsize.exceptions.NotAForestError, match="one class only, 0: there"):
        rfsize.compile(AdaBoostClassifier().fit(data.X, np.zeros(len(data.X), dtype=int)))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="AdaBoostRegressor"):
        rfsize.compile(AdaBoostRegressor(n_estimators=3).fit(data.X, data.y))
    for weight, message in ((-1.0, "at least 0"), (np.nan, "NaN")):
        damaged = copy.copy(models["stumps"])
        damaged.estimator_weights_ = np.full(60, weight)
        with pytest.raises(ValueError, match=message):
            rfsize.compile(damaged)


def test_other_rows_are_refused(models: dict[str, AdaBoostClassifier], data: Any) -> None:
    fast = rfsize.compile(models["stumps"])
    with pytest.raises(ValueError, match="7 columns"):
        fast.predict(data.fresh[:, :7])
    with pytest.raises(ValueError, match="no rows"):
        fast.predict(data.fresh[:0])


def test_scores_are_divided_as_in_the_framework(models: dict[str, AdaBoostClassifier]) -> None:
    """By the sum of all weights; without the zeros that an early end leaves, the last bit of it may be another."""
    model = copy.copy(models["early"])
    n, generator = len(model.estimators_), np.random.default_rng(0)
    model.estimator_weights_ = np.zeros(n + 7)
    while model.estimator_weights_.sum() == model.estimator_weights_[:n].sum():
        model.estimator_weights_[:n] = generator.integers(1, 8, n) * 0.1
    table = rfsize.compile(model).table
    assert table is not None
    assert isinstance(table.stops, WeightedStops)
    assert table.stops.total == model.estimator_weights_.sum()
