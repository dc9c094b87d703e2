"""Seconds of the first calls in a process: predictions, single rows, and the steps of a first notebook.

    python benchmarks/first_prediction.py

Each repetition is a new process, which imports rfsize. "First" and "second" are two equal calls in a row of a compiled
forest loaded from its file. Each step of the notebook is called once, after its forest is trained. Times are medians.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from forests import train_lightgbm, train_xgboost
from problems import draw

import rfsize

TREES, LEAVES, ROWS = 101, 31, 10_000
LARGE = 501, 255
TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}

PREDICTIONS = {
    "labels": "fast.predict_labels(X)",
    "probabilities": "fast.predict_proba(X)",
    "label of one row": "fast.predict_labels(X[:1])",
    "probabilities of one row": "fast.predict_proba(X[:1])",
}

PREDICT = """
import json, sys, time
started = time.perf_counter()
import rfsize
imported = time.perf_counter()
import numpy
forest, rows, prediction = sys.argv[1:]
fast, X = rfsize.load(forest), numpy.load(rows)
taken = [imported - started]
for _ in range(2):
    before = time.perf_counter()
    eval(prediction)
    taken.append(time.perf_counter() - before)
print(json.dumps(taken))
"""

NOTEBOOK = """
import json, sys, time
started = time.perf_counter()
import lightgbm as lgb
import numpy as np
trained_on, validation = (dict(np.load(path)) for path in sys.argv[1:])
settings = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "verbose": -1}
model = lgb.train(settings | {"feature_fraction": 0.5}, lgb.Dataset(trained_on["X"], trained_on["y"]), 200)
X, y = validation["X"], validation["y"]
taken, begun = {}, time.perf_counter()

def step(name, call):
    before = time.perf_counter()
    found = call()
    taken[name] = time.perf_counter() - before
    return found

def imported():
    import rfsize
    return rfsize

rfsize = step("import", imported)
step("size", lambda: rfsize.size(model, X))
step("size by AUC", lambda: rfsize.size(model, X, y, metric="auc", tolerance=0.005))
small = step("truncate", lambda: rfsize.truncate(model, X))
fast = step("compile", lambda: rfsize.compile(model))
step("10,000 rows", lambda: fast.predict_proba(X))
step("one row", lambda: fast.predict_proba(X[:1]))
table = step("calibrate", lambda: rfsize.StopTable.calibrate(model, X))
step("table of votes", lambda: rfsize.StopTable.build(200, prior=rfsize.tree_outputs(model, X).votes))
taken["together"] = time.perf_counter() - begun
print(json.dumps(taken))
"""


def run(code: str, *arguments: object) -> list[float] | dict[str, float]:
    """What a process of its own prints as JSON."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def loading(file: Path) -> float:
    """Seconds to load a forest, the median of seven times."""
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        rfsize.load(file)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def predictions(folder: Path, repetitions: int) -> None:
    """Print the first and second call of each kind, and how long files take to load."""
    rng = np.random.default_rng(0)
    X, y = draw(rng, ROWS)
    np.save(folder / "rows.npy", draw(rng, ROWS)[0])
    importing = []
    print(f"| {TREES} trees of {LEAVES} leaves, {ROWS:,} rows | | first call | second call |")
    print("|---|---|---|---|")
    for framework, train in TRAIN.items():
        file = folder / f"{framework}.npz"
        rfsize.compile(train(X, y, TREES, LEAVES)).save(file)
        for what, prediction in PREDICTIONS.items():
            runs = [run(PREDICT, file, folder / "rows.npy", prediction) for _ in range(repetitions)]
            imported, first, second = np.median(runs, axis=0)
            importing.append(imported)
            print(f"| {framework} | {what} | {1e3 * first:.2f} ms | {1e3 * second:.2f} ms |", flush=True)
    print(f"\n`import rfsize`: {np.median(importing):.2f} s")
    large = folder / "large.npz"
    rfsize.compile(train_lightgbm(X, y, *LARGE)).save(large)
    for what, path in (("101 trees of 31 leaves", folder / "LightGBM.npz"), ("501 trees of 255 leaves", large)):
        print(f"file of {what}: {path.stat().st_size / 1e6:.2f} MB, loaded in {loading(path):.3f} s")


def notebook(folder: Path, repetitions: int) -> None:
    """Print how long each step of a first notebook takes."""
    rng = np.random.default_rng(1)
    for name in ("trained_on", "validation"):
        X, y = draw(rng, ROWS)
        np.savez(folder / f"{name}.npz", X=X, y=y)
    files = folder / "trained_on.npz", folder / "validation.npz"
    runs = [run(NOTEBOOK, *files) for _ in range(repetitions)]
    print("\n| a first notebook: LightGBM, 200 trees, 10,000 validation rows | seconds |")
    print("|---|---|")
    for step in runs[0]:
        print(f"| {step} | {np.median([one[step] for one in runs]):.3f} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        predictions(Path(name), options.repetitions)
        notebook(Path(name), options.repetitions)


if __name__ == "__main__":
    main()
