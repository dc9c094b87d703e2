"""A compiled forest predicts what the model predicts, to the last bit; so does its file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import reference.counting
import rfsize
from helpers.models import CLASSES, FRESH, NAMES, NO_TREES, THREE, TWO, Forest, X, model
from rfsize.models.framework import read_model


def thresholds(trained: Any, n_features: int) -> list[np.ndarray]:
    """Of each feature, what the forest's splits compare with."""
    nodes = read_model(trained).ensemble.nodes
    is_split = (nodes.left >= 0) & np.isfinite(nodes.threshold)
    return [np.append(nodes.threshold[is_split & (nodes.feature == place)], 0.0) for place in range(n_features)]


def adversarial(forest: Forest, n_rows: int = 600) -> Any:
    """Rows of thresholds and the numbers next to them in both precisions, zeros, the smallest and largest numbers.

    With missing values and infinities, where the framework takes them.
    """
    rng, n_features = np.random.default_rng(1), forest.fresh.shape[1]
    rows = np.empty((n_rows, n_features))
    for feature, cuts in enumerate(thresholds(forest.model, n_features)):
        at = rng.choice(cuts, n_rows)
        single = at.astype(np.float32)
        near = [at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf), single]
        near += [np.nextafter(single, np.float32(-np.inf)), np.nextafter(single, np.float32(np.inf))]
        special = [0.0, -0.0, 1e-35, -1e-35, 5e-324, 1e-38, 3e38, -3e38]
        special += [np.nan] if takes_missing(forest) else []
        special += [np.inf, -np.inf, 1e300] if forest.framework == "lightgbm" else []
        near.append(rng.choice(special, n_rows))
        rows[:, feature] = np.stack(near, axis=1)[np.arange(n_rows), rng.integers(0, len(near), n_rows)]
    if not isinstance(forest.fresh, pd.DataFrame):
        return rows
    table = pd.DataFrame(rows, columns=forest.fresh.columns)
    for name in ("b", "c"):
        codes = rng.integers(-1, len(forest.fresh[name].cat.categories), n_rows)
        table[name] = pd.Categorical.from_codes(codes, dtype=forest.fresh[name].dtype)
    return table


def takes_missing(forest: Forest) -> bool:
    return forest.framework != "sklearn" or forest.model.__sklearn_tags__().input_tags.allow_nan


def test_compiled_predicts_to_the_last_bit(of_trees: Forest, tmp_path: Path) -> None:
    fast, rows = rfsize.compile(of_trees.model), adversarial(of_trees)
    fast.save(tmp_path / "forest.npz")
    own = of_trees.predict(rows)
    for forest in (fast, rfsize.load(tmp_path / "forest.npz")):
        found = forest.predict(rows)
        assert found.dtype.kind == own.dtype.kind
        np.testing.assert_array_equal(found, own)
        single = np.concatenate([forest.predict(rows[row : row + 1]) for row in range(30)])
        np.testing.assert_array_equal(single, own[:30])


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind not in NO_TREES])
def test_compiled_probabilities_and_votes(kind: str, tmp_path: Path) -> None:
    of_classes = model(kind)
    fast, rows = rfsize.compile(of_classes.model), adversarial(of_classes)
    fast.save(tmp_path / "forest.npz")
    labels = of_classes.tree_labels(rows)
    counts = reference.counting.votes(labels, of_classes.n_classes)
    for forest in (fast, rfsize.load(tmp_path / "forest.npz")):
        np.testing.assert_array_max_ulp(*single(forest.predict_proba(rows), of_classes.predict_proba(rows)), maxulp=1)
        assert np.array_equal(forest.votes(rows).counts, counts)
    hard = rfsize.compile(of_classes.model, voting="hard").predict_labels(rows)
    assert hard.tolist() == rfsize.Votes(counts, fast.classes).winner().tolist()


def single(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(array, dtype=np.float32) for array in arrays]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_what_xgboost_refuses_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="X"):
        rfsize.tree_outputs(model("xgboost").model, np.where(FRESH > 1.5, value, FRESH))


SETTINGS: dict[str, Any] = {"n_estimators": 40, "random_state": 0}
BOOSTED: dict[str, Any] = {
    "stumps": lambda: AdaBoostClassifier(**SETTINGS).fit(X, TWO),
    "three": lambda: AdaBoostClassifier(**SETTINGS).fit(X, NAMES[THREE]),
    "six": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **SETTINGS).fit(
        X, 2 * THREE + (X[:, 3] > 0)
    ),
    "random": lambda: AdaBoostClassifier(ExtraTreeClassifier(max_depth=5), **SETTINGS).fit(X, TWO == 1),
    "early": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **SETTINGS).fit(X[:60], THREE[:60]),
    "one": lambda: AdaBoostClassifier(DecisionTreeClassifier(), **SETTINGS).fit(X, THREE),
}


def weighted(trained: AdaBoostClassifier, weights: np.ndarray) -> AdaBoostClassifier:
    other = copy.copy(trained)
    other.estimator_weights_ = weights
    return other


@pytest.mark.parametrize("name", BOOSTED)
def test_adaboost(name: str, tmp_path: Path) -> None:
    """Weights of tenths are often level but for the rounding of their sums."""
    trained, rows = BOOSTED[name](), np.concatenate([X, FRESH, np.round(FRESH, 1)])
    n = len(trained.estimators_)
    cut = copy.copy(trained)
    cut.estimators_ = cut.estimators_[: n // 2 + 1]  # by hand: the weights of the others stay, and their sum
    tenths = np.random.default_rng(1).integers(1, 4, n) * 0.1
    for own in (
        trained,
        cut,
        *(weighted(trained, w) for w in (tenths, np.full(n, 0.1), tenths * (np.arange(n) % 3 == 0))),
    ):
        fast = rfsize.compile(own)
        fast.save(tmp_path / "boosted.npz")
        for forest in (fast, rfsize.load(tmp_path / "boosted.npz")):
            labels = own.predict(rows)
            assert np.array_equal(forest.predict(rows), labels)
            assert forest.predict(rows).dtype == labels.dtype
            np.testing.assert_allclose(forest.predict_proba(rows), own.predict_proba(rows), atol=1e-12)
            assert [forest.predict(row[None])[0] for row in rows[:20]] == labels[:20].tolist()
            assert np.array_equal(forest.predict(rows.astype(np.float32)), own.predict(rows.astype(np.float32)))
