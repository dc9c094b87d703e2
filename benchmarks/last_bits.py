"""How many predictions of a compiled forest, and of its C export, differ from the framework's, and by how much?

    python benchmarks/last_bits.py

For each objective, ten forests of 30 trees are trained on 400 rows (for XGBoost, with ten values of base_score) and
predict 2,000 other rows. Printed: the share of the predictions that differ, and the largest difference in units in the
last place (of single precision for XGBoost, of double precision for the others); for labels, the number that differ.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

import rfsize

FORESTS, TREES, ROWS, FRESH, FEATURES = 10, 30, 400, 2000, 8
XGBOOST = {"num_parallel_tree": TREES, "subsample": 0.632, "colsample_bynode": 0.6, "eta": 1, "nthread": 1}
LIGHTGBM = {"boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "verbosity": -1, "num_threads": 1}
OF_CLASSES = {"binary:logistic": 2, "multi:softprob": 4, "multi:softmax": 4, "binary": 2, "multiclass": 4}
OF_COUNTS = ("count:poisson", "reg:tweedie", "reg:gamma", "poisson", "tweedie", "gamma")


def rows(seed: int, n_rows: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_rows, FEATURES))


def target(X: np.ndarray, objective: str, seed: int) -> np.ndarray:
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.random.default_rng(seed + 1).normal(size=len(X))
    if objective in OF_CLASSES:
        return np.digitize(score, np.linspace(-1, 1, OF_CLASSES[objective] + 1)[1:-1])
    return np.exp(score) if objective in OF_COUNTS else score


def of_xgboost(objective: str) -> Callable[[int], tuple[Any, np.ndarray]]:
    def train(seed: int) -> tuple[Any, np.ndarray]:
        X, fresh = rows(seed, ROWS), rows(seed + 1000, FRESH)
        n_classes = OF_CLASSES.get(objective, 0)
        params = XGBOOST | {"objective": objective, "seed": seed}
        params |= {"num_class": n_classes} if n_classes > 2 else {}
        if not objective.startswith("multi"):
            params["base_score"] = float(np.random.default_rng(seed).uniform(0.05, 0.95 if n_classes else 5.0))
        model = xgb.train(params, xgb.DMatrix(X, target(X, objective, seed)), 1)
        return model, model.predict(xgb.DMatrix(fresh))

    return train


def of_lightgbm(objective: str) -> Callable[[int], tuple[Any, np.ndarray]]:
    def train(seed: int) -> tuple[Any, np.ndarray]:
        X, fresh = rows(seed, ROWS), rows(seed + 1000, FRESH)
        n_classes = OF_CLASSES.get(objective, 0)
        params = LIGHTGBM | {"objective": objective, "seed": seed} | ({"num_class": n_classes} if n_classes > 2 else {})
        model = lgb.train(params, lgb.Dataset(X, target(X, objective, seed)), TREES)
        return model, np.asarray(model.predict(fresh))

    return train


def of_sklearn(kind: Any, objective: str) -> Callable[[int], tuple[Any, np.ndarray]]:
    def train(seed: int) -> tuple[Any, np.ndarray]:
        X, fresh = rows(seed, ROWS), rows(seed + 1000, FRESH)
        model = kind(TREES, random_state=seed, n_jobs=1).fit(X, target(X, objective, seed))
        return model, model.predict_proba(fresh) if objective in OF_CLASSES else model.predict(fresh)

    return train


def in_c(fast: rfsize.CompiledForest, fresh: np.ndarray, folder: Path) -> tuple[np.ndarray | None, np.ndarray]:
    """Labels, and probabilities or numbers, of the C export."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    fast.to_c(folder / "forest.c", name="some")
    library = folder / "forest.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", folder / "forest.c", "-o", library, "-lm"], check=True)
    loaded, size, X = ctypes.CDLL(str(library)), ctypes.c_size_t(len(fresh)), fresh.ctypes.data_as(ctypes.c_void_p)
    if not fast.classes.size:
        found = np.empty(len(fresh))
        loaded.some_predict_many(X, size, found.ctypes.data_as(ctypes.c_void_p))
        return None, found
    label, found = np.empty(len(fresh), dtype=np.intc), np.empty((len(fresh), len(fast.classes)))
    loaded.some_predict_many(X, size, label.ctypes.data_as(ctypes.c_void_p), None)
    loaded.some_predict_proba_many(X, size, found.ctypes.data_as(ctypes.c_void_p))
    return label, found


def apart(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Difference in units in the last place, in the precision of the expected value."""
    if found.ndim > expected.ndim:
        found = found[:, 1]
    whole = np.int32 if expected.dtype == np.float32 else np.int64
    return np.abs(found.astype(expected.dtype).view(whole).astype(np.int64) - expected.view(whole).astype(np.int64))


def line(framework: str, objective: str, train: Callable[[int], tuple[Any, np.ndarray]], folder: Path) -> None:
    labels, compiled, exported = [0, 0], [], []
    for seed in range(FORESTS):
        model, expected = train(seed)
        fresh = rows(seed + 1000, FRESH)
        fast = rfsize.compile(model, n_jobs=1)
        label, number = in_c(fast, fresh, folder)
        if objective == "multi:softmax":
            labels[0] += int(np.sum(fast.predict(fresh) != expected))
            labels[1] += int(np.sum(label != expected))
            continue
        compiled.append(apart(fast.predict_proba(fresh) if fast.classes.size else fast.predict(fresh), expected))
        exported.append(apart(number, expected))
    if not compiled:
        print(f"{framework:13} {objective:20} {labels[0]:>11} labels {labels[1]:>11} labels", flush=True)
        return
    told = [f"{np.mean(np.concatenate(each) > 0):>11.3%} {max(map(np.max, each)):>5}" for each in (compiled, exported)]
    print(f"{framework:13} {objective:20} {told[0]:>18} {told[1]:>18}", flush=True)


def main() -> None:
    """Print one line per objective."""
    warnings.simplefilter("ignore", UserWarning)
    print(f"{'':13} {'objective':20} {'compiled':>18} {'in C':>18}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = ("reg:squarederror", "count:poisson", "reg:tweedie", "reg:gamma")
        for objective in ("binary:logistic", "multi:softprob", "multi:softmax", *numbers):
            line("XGBoost", objective, of_xgboost(objective), folder)
        for objective in ("binary", "multiclass", "regression", "poisson", "tweedie", "gamma"):
            line("LightGBM", objective, of_lightgbm(objective), folder)
        for kind, objective in (
            (RandomForestClassifier, "binary"),
            (ExtraTreesClassifier, "multiclass"),
            (RandomForestRegressor, "number"),
        ):
            line("scikit-learn", f"{kind.__name__[:12]}, {objective}"[:20], of_sklearn(kind, objective), folder)


if __name__ == "__main__":
    main()
