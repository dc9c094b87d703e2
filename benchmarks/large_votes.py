"""Peak memory and time of out-of-bag sizing on 1,000,000 rows × 1000 trees.

    python benchmarks/large_votes.py

Training runs in its own process, so that the peak is that of sizing only (including the rows).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lightgbm as lgb
import numpy as np

import rfsize

ROWS, FEATURES, TREES = 1_000_000, 10, 1000


def rows() -> np.ndarray:
    """The same rows in both processes."""
    return np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(np.float32)


def train(path: str) -> None:
    """Train and save the forest."""
    X = rows()
    settings = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "verbose": -1}
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.random.default_rng(1).normal(size=ROWS) > 0
    lgb.train({**settings, "feature_fraction": 0.5}, lgb.Dataset(X, y.astype(int)), TREES).save_model(path)


def main() -> None:
    """Print the report, the seconds and the peak."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "forest.txt")
        subprocess.run([sys.executable, __file__, path], check=True)
        booster = lgb.Booster(model_file=path)
    X = rows()
    start = time.perf_counter()
    print(rfsize.size(booster, X, oob=True))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{ROWS:,} rows × {TREES:,} trees: {seconds:.0f} s, peak memory {peak:.2f} GB")


if __name__ == "__main__":
    train(sys.argv[1]) if len(sys.argv) > 1 else main()
