"""A compiled forest predicts what the model predicts, to the last bit; so does its file, and its C source."""

from __future__ import annotations

import copy
import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy.sparse import csr_matrix
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import reference.counting
import rfsize
from helpers.models import CLASSES, FRESH, NAMES, NO_TREES, THREE, TWO, Forest, X, model

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def thresholds(trained: Any, n_features: int) -> list[np.ndarray]:
    """Of each feature, what the forest's splits compare with, as the framework tells it."""
    if isinstance(trained, (lgb.Booster, lgb.LGBMModel)):
        booster = trained if isinstance(trained, lgb.Booster) else trained.booster_
        splits = booster.trees_to_dataframe().dropna(subset=["split_feature"])
        numeric = splits[splits["decision_type"] == "<="]
        place = numeric["split_feature"].map({name: number for number, name in enumerate(booster.feature_name())})
        pairs = zip(place, numeric["threshold"].astype(float), strict=True)
    elif isinstance(trained, (xgb.Booster, xgb.XGBModel)):
        booster = trained if isinstance(trained, xgb.Booster) else trained.get_booster()
        trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
        of_tree = [(tree["split_indices"], tree["split_conditions"], tree["left_children"]) for tree in trees]
        pairs = ((f, at) for tree in of_tree for f, at, left in zip(*tree, strict=True) if left != -1)
    else:
        columns = getattr(trained, "estimators_features_", [np.arange(n_features)] * len(trained.estimators_))
        trees = [(tree.tree_, of) for tree, of in zip(trained.estimators_, columns, strict=True)]
        nodes = [
            (of[f], at) for tree, of in trees for f, at in zip(tree.feature, tree.threshold, strict=True) if f >= 0
        ]
        pairs = ((f, at) for f, at in nodes if np.isfinite(at))  # infinite where a split is for missing values alone
    found: list[list[float]] = [[0.0] for _ in range(n_features)]
    for feature, threshold in pairs:
        found[feature].append(threshold)
    return [np.array(values) for values in found]


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
@pytest.mark.parametrize("kind", ["random forest", "random forest with gaps", "random forest regressor", "bagging"])
def test_what_scikit_learn_refuses_is_refused(kind: str, value: float) -> None:
    rows, fast = FRESH.copy(), rfsize.compile(model(kind).model)
    rows[3, 2] = value
    for given in (rows, pd.DataFrame(rows), csr_matrix(rows)):
        with pytest.raises(ValueError, match="X"):
            fast.predict(given)


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


class InC:
    """A compiled forest as C, built without a warning and loaded."""

    def __init__(self, fast: rfsize.CompiledForest, folder: Path) -> None:
        fast.to_c(folder / "forest.c", name="it")
        command = [str(CC), "-O2", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, str(folder / "forest.c"), "-o", str(folder / "forest.so"), "-lm"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        self.library, self.n_classes = ctypes.CDLL(str(folder / "forest.so")), len(fast.classes)

    def many(self, name: str, rows: np.ndarray, found: np.ndarray, *rest: Any) -> np.ndarray:
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (rows, found, *rest)]
        getattr(self.library, f"it_{name}_many")(pointers[0], ctypes.c_size_t(len(rows)), *pointers[1:])
        return found


@pytest.mark.skipif(CC is None, reason="no C compiler is installed")
@pytest.mark.parametrize(
    "kind",
    ["lightgbm", "lightgbm one-vs-all", "lightgbm poisson", "xgboost softprob", "xgboost softmax", "xgboost regression",
     "xgboost multi_output", "random forest with gaps", "random forest of names", "random forest regressor", "bagging"],
)  # fmt: skip
def test_c_source_predicts_the_same(kind: str, tmp_path: Path) -> None:
    forest = model(kind)
    fast, rows = rfsize.compile(forest.model), np.ascontiguousarray(adversarial(forest))
    in_c = InC(fast, tmp_path)
    if forest.n_classes == 0:
        numbers = in_c.many("predict", rows, np.empty(len(rows)))
        np.testing.assert_allclose(numbers, fast.predict(rows), rtol=1e-6)
        return
    label, asked = (np.empty(len(rows), dtype=np.intc) for _ in range(2))
    in_c.many("predict_label", rows, label, asked)
    assert fast.classes[label].tolist() == fast.predict_labels(rows).tolist()
    shares = in_c.many("predict_proba", rows, np.empty((len(rows), forest.n_classes)))
    np.testing.assert_allclose(shares, fast.predict_proba(rows), atol=1e-6)


@pytest.mark.skipif(CC is None, reason="no C compiler is installed")
def test_links_of_boosted_trees_in_c(tmp_path: Path) -> None:
    hinge = xgb.train({"objective": "binary:hinge", "max_depth": 3}, xgb.DMatrix(X, TWO), 9)
    label, asked = (np.empty(len(FRESH), dtype=np.intc) for _ in range(2))
    InC(rfsize.compile(hinge), tmp_path).many("predict_label", np.ascontiguousarray(FRESH), label, asked)
    np.testing.assert_array_equal(label, hinge.predict(xgb.DMatrix(FRESH)))
    rate = lgb.train({"objective": "cross_entropy_lambda", "verbosity": -1}, lgb.Dataset(X, TWO), 9)
    (tmp_path / "rate").mkdir()
    numbers = InC(rfsize.compile(rate), tmp_path / "rate").many(
        "predict", np.ascontiguousarray(FRESH), np.empty(len(FRESH))
    )
    np.testing.assert_allclose(numbers, rate.predict(FRESH), rtol=1e-13)
