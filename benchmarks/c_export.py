"""A forest exported to C, compared with the compiled forest: 100,000 rows, flash and microseconds a row.

    python benchmarks/c_export.py [--trees 101] [--rows 100000]

Trains one forest with each framework, with missing values and (except scikit-learn) categories. Writes it by
``CompiledForest.to_c`` with and without a stop table, compiles the C by ``cc -O2 -std=c99``, and predicts the same rows
one by one in one thread. The fastest of several passes counts. The stop table is certified for α = 0.99 on 10,000 other
rows.

"Differ" counts labels and numbers of trees used that differ from the compiled forest, and gives the largest difference
of probabilities. Flash is text and data of the object file, by ``size``. Needs rfsize[bench] and a C compiler.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from problems import parser
from sklearn.ensemble import RandomForestClassifier

import rfsize

TRAINING_ROWS, CALIBRATION_ROWS, FEATURES, CATEGORY, REPETITIONS = 20_000, 10_000, 12, 5, 5
KINDS = ["c" if feature == CATEGORY else "float" for feature in range(FEATURES)]
COMPILE = ("cc", "-O2", "-std=c99")


def draw(rng: np.random.Generator, rows: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns, one of whole numbers, one of 30 categories, and one value in twenty missing."""
    X = rng.normal(size=(rows, FEATURES))
    X[:, 1] = np.round(2.0 * X[:, 1])
    X[:, CATEGORY] = rng.integers(0, 30, rows)
    signal = X[:, 0] + 0.5 * X[:, 1] + X[:, 2] * X[:, 3] + (X[:, CATEGORY] % 7 > 3) + 0.5 * rng.normal(size=rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.digitize(signal, [0.5] if n_classes == 2 else [-0.6, 0.5, 1.7])


def train_lightgbm(X: np.ndarray, y: np.ndarray, trees: int) -> Any:
    n_classes = int(y.max()) + 1
    objective = {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
    bags = {"boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "feature_fraction": 0.6, "num_leaves": 31}
    rows = lgb.Dataset(X, y, categorical_feature=[CATEGORY], params={"verbose": -1})
    return lgb.train({**bags, **objective, "seed": 1, "verbose": -1}, rows, trees)


def train_xgboost(X: np.ndarray, y: np.ndarray, trees: int) -> Any:
    n = int(y.max()) + 1
    objective = {"objective": "binary:logistic"} if n == 2 else {"objective": "multi:softprob", "num_class": n}
    bags = {"num_parallel_tree": trees, "subsample": 0.632, "colsample_bynode": 0.6, "eta": 1, "max_depth": 5}
    return xgb.train({**bags, **objective, "tree_method": "hist", "seed": 1}, matrix(X, y), 1)


def matrix(X: np.ndarray, y: np.ndarray | None = None) -> xgb.DMatrix:
    return xgb.DMatrix(X, y, feature_types=KINDS, enable_categorical=True)


def train_scikit_learn(X: np.ndarray, y: np.ndarray, trees: int) -> Any:
    return RandomForestClassifier(trees, min_samples_leaf=200, n_jobs=-1, random_state=1).fit(X, y)


TRAIN: dict[str, Callable[[np.ndarray, np.ndarray, int], Any]] = {
    "LightGBM": train_lightgbm,
    "XGBoost": train_xgboost,
    "scikit-learn": train_scikit_learn,
}


def compiled(source: Path) -> tuple[ctypes.CDLL, int]:
    """The library of a C file, and the bytes of its code and constants."""
    library, part = source.with_suffix(".so"), source.with_suffix(".o")
    subprocess.run([*COMPILE, "-c", str(source), "-o", str(part)], check=True)
    subprocess.run([*COMPILE, "-fPIC", "-shared", str(source), "-o", str(library), "-lm"], check=True)
    sizes = subprocess.run(["size", str(part)], capture_output=True, text=True, check=True).stdout
    return ctypes.CDLL(str(library)), sum(map(int, sizes.splitlines()[1].split()[:2]))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def fastest(predict: Callable[[], object], rows: int) -> float:
    """Microseconds a row, in the fastest of several passes."""
    return 1e6 * min(timeit.repeat(predict, number=1, repeat=REPETITIONS)) / rows


def measured(fast: rfsize.CompiledForest, X: np.ndarray, folder: Path) -> str:
    """Size, the times of labels and probabilities, and how these differ from those of the compiled forest."""
    source = folder / f"rfsize{len(list(folder.iterdir()))}.c"
    fast.to_c(source)
    library, size = compiled(source)
    label, n_used = np.empty(len(X), dtype=np.intc), np.empty(len(X), dtype=np.intc)
    probability, n_rows = np.empty((len(X), len(fast.classes))), ctypes.c_size_t(len(X))

    labels = partial(library.forest_predict_label_many, pointer(X), n_rows, pointer(label), pointer(n_used))
    probabilities = partial(library.forest_predict_proba_many, pointer(X), n_rows, pointer(probability))
    times = f"{fastest(labels, len(X)):7.2f} µs labels {fastest(probabilities, len(X)):7.2f} µs probabilities"
    expected, trees = fast.predict_labels(X, return_trees=True)
    largest = float(np.abs(probability - fast.predict_proba(X)).max())
    differ = f"{np.sum(fast.classes[label] != expected)} labels, {np.sum(n_used != trees)} trees, {largest:.0e}"
    return f"{size / 1024:8.1f} KiB {times}; differ: {differ}; {n_used.mean():.1f} trees used"


def compare(framework: str, n_classes: int, trees: int, n_rows: int, folder: Path) -> None:
    rng = np.random.default_rng(n_classes)
    (X, y), (others, _) = draw(rng, TRAINING_ROWS, n_classes), draw(rng, CALIBRATION_ROWS, n_classes)
    rows = np.ascontiguousarray(draw(rng, n_rows, n_classes)[0])
    model = TRAIN[framework](X, y, trees)
    calibration = matrix(others) if framework == "XGBoost" else others
    fast = rfsize.compile(model)
    tables = {"all trees that can change a label": None, "stop table": rfsize.StopTable.calibrate(model, calibration)}
    leaves = (fast.forest.trees.nodes.size + fast.forest.trees.tree_start.size - 1) // 2
    print(f"\n{framework}, {n_classes} classes, {trees} trees, {leaves:,} leaves", flush=True)
    for name, table in tables.items():
        print(f"    rfsize, {name:34} {measured(rfsize.compile(model, table), rows, folder)}", flush=True)


def main() -> None:
    """Print the size and speed of each forest in C."""
    options = parser(__doc__, frameworks=(), trees=101, rows=100_000).parse_args()
    for framework in TRAIN:
        for n_classes in (2, 4):
            with tempfile.TemporaryDirectory() as folder:
                compare(framework, n_classes, options.trees, options.rows, Path(folder))


if __name__ == "__main__":
    main()
