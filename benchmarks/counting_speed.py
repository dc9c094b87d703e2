"""Seconds and peak memory of out-of-bag sizing on many rows, for LightGBM and XGBoost.

    python benchmarks/counting_speed.py [--rows 3000000] [--features 30] [--trees 200] [--leaves 31]
        [--frameworks LightGBM XGBoost] [--repetitions 1] [--folder forests]

Rows and forests are made once, and kept if you name a folder. Each sizing runs in its own process. Its memory is the
peak above what the process held with rows and forest before.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from forests import train_lightgbm, train_xgboost

import rfsize

TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}


def make_rows(path: Path, rows: int, features: int) -> None:
    """Rows in single precision."""
    np.save(path, np.random.default_rng(0).standard_normal((rows, features), dtype=np.float32))


def make_forest(framework: str, path: Path, X: np.ndarray, trees: int, leaves: int) -> None:
    """A two-class forest, pickled: files of XGBoost do not keep how bags were drawn."""
    noise = np.random.default_rng(1).normal(size=len(X))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + noise > 0.0).astype(np.int64)
    path.write_bytes(pickle.dumps(TRAIN[framework](X, y, trees, leaves)))


def measure(forest: Path, rows: Path) -> None:
    """Print the seconds and the peak of one sizing."""
    model, X = pickle.loads(forest.read_bytes()), np.load(rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    report = rfsize.size(model, X, oob=True)
    seconds = time.perf_counter() - started
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(f"{forest.stem}, {len(X):,} rows × {X.shape[1]}: {seconds:.1f} s, {peak:.2f} GB more, {report}")


def main() -> None:
    """Make what is missing, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--frameworks", nargs="+", choices=list(TRAIN), default=list(TRAIN))
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        framework, forest, rows = options.step[0], *map(Path, options.step[1:])
        if forest.exists():
            measure(forest, rows)
        else:
            make_forest(framework, forest, np.load(rows), options.trees, options.leaves)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        rows = folder / f"rows-{options.rows}-{options.features}.npy"
        if not rows.exists():
            make_rows(rows, options.rows, options.features)
        for framework in options.frameworks:
            forest = folder / f"{framework}-{options.rows}-{options.features}-{options.trees}-{options.leaves}.pickle"
            sizes = [f"--trees={options.trees}", f"--leaves={options.leaves}"]
            for _ in range(options.repetitions + (not forest.exists())):
                step = [sys.executable, __file__, *sizes, "--step", framework, str(forest), str(rows)]
                subprocess.run(step, check=True)


if __name__ == "__main__":
    main()
