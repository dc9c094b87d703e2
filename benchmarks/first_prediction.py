"""Seconds to the first prediction of a fresh install, of later processes, of `import rfsize`, and of loading a file.

    python benchmarks/first_prediction.py

A fresh install has compiled nothing: each repetition gives numba an empty folder, and each prediction a process of its
own, which imports rfsize, loads a compiled forest from its file and predicts; the same folder is then used again.
"Process" is from its start to its answer, "prediction" the calls alone, "processor" what the process took of all cores,
which says more where others use the machine; medians. "All of them" makes the three predictions in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from forests import train_lightgbm, train_xgboost
from problems import draw

import rfsize

TREES, LEAVES, ROWS = 101, 31, 1000
LARGE = 501, 255
TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}

# By name, what is predicted after another; ``X`` are 1000 rows.
PREDICTIONS = {
    "labels": ["fast.predict_labels(X)"],
    "probabilities": ["fast.predict_proba(X)"],
    "label of one row": ["fast.predict_labels(X[:1])"],
    "all of them": ["fast.predict_labels(X)", "fast.predict_proba(X)", "fast.predict_labels(X[:1])"],
}

PROCESS = """
import json, sys, time
started = time.perf_counter()
import rfsize
imported = time.perf_counter()
import numpy
forest, rows, predictions = sys.argv[1:]
fast, X = rfsize.load(forest), numpy.load(rows)
loaded = time.perf_counter()
for prediction in json.loads(predictions):
    eval(prediction)
done = time.perf_counter()
print(json.dumps([time.time(), imported - started, done - loaded, time.process_time()]))
"""


class Taken(NamedTuple):
    """Seconds of one process."""

    process: float
    importing: float
    predicting: float
    processor: float


def run(forest: Path, rows: Path, predictions: list[str], cache: Path) -> Taken:
    """One process that predicts, with what was compiled before in the folder ``cache``."""
    started = time.time()
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, str(forest), str(rows), json.dumps(predictions)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    ended, *others = json.loads(done.stdout)
    return Taken(ended - started, *others)


def compiled_forests(folder: Path, frameworks: list[str]) -> dict[str, Path]:
    """Forests in files, without and with a table certified on rows of their own."""
    rng = np.random.default_rng(0)
    (X, y), (others, _) = draw(rng, 10_000), draw(rng, 10_000)
    files = {}
    for framework in frameworks:
        model = TRAIN[framework](X, y, TREES, LEAVES)
        tables = {"all trees": None, "certified table": rfsize.StopTable.calibrate(model, others)}
        for name, table in tables.items():
            files[f"{framework}, {name}"] = folder / f"{framework}-{name}.npz"
            rfsize.compile(model, table).save(files[f"{framework}, {name}"])
    return files


def large_forest(folder: Path) -> Path:
    """A forest of many leaves in a file."""
    rfsize.compile(train_lightgbm(*draw(np.random.default_rng(0), 10_000), *LARGE)).save(folder / "large.npz")
    return folder / "large.npz"


def loading(file: Path) -> float:
    """Seconds to load a forest, the median of seven times."""
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        rfsize.load(file)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def main() -> None:
    """Print the table, a line for each prediction of each forest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--frameworks", nargs="+", choices=list(TRAIN), default=list(TRAIN))
    options = parser.parse_args()
    importing = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows.npy"
        np.save(rows, draw(np.random.default_rng(1), ROWS)[0])
        files = compiled_forests(folder, options.frameworks)
        print("| | | fresh install: process | prediction | processor | later: process | prediction | processor |")
        print("|" + "---|" * 8)
        for forest, file in files.items():
            taken = defaultdict(list)
            for _ in range(options.repetitions):
                for what, predictions in PREDICTIONS.items():
                    with tempfile.TemporaryDirectory() as cache:
                        taken[what].append([run(file, rows, predictions, Path(cache)) for _ in range(2)])
            for what, runs in taken.items():
                fresh, later = (Taken(*seconds) for seconds in np.median(np.array(runs), axis=0))
                cells = [
                    getattr(one, kind) for one in (fresh, later) for kind in ("process", "predicting", "processor")
                ]
                print(f"| {forest} | {what} | " + " | ".join(f"{cell:.3f} s" for cell in cells) + " |", flush=True)
                importing += [one.importing for pair in runs for one in pair]
        sizes = [(Path(file).stat().st_size / 1e6, loading(file)) for file in (*files.values(), large_forest(folder))]
    print(f"\n`import rfsize`: {np.median(importing):.2f} s (median of {len(importing)} processes)")
    for what, (size, seconds) in zip([*files, f"LightGBM, {LARGE[0]} trees of {LARGE[1]} leaves"], sizes, strict=True):
        print(f"file of {what}: {size:.2f} MB, loaded in {seconds:.3f} s")


if __name__ == "__main__":
    main()
