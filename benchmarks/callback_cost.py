"""What SizeCallback adds to the training of 1000 trees: 100,000 rows × 20 features, 255 leaves.

    python benchmarks/callback_cost.py

The two trainings alternate, so that a drift of the machine's speed falls on both; alpha is out of reach, so
that no training stops early.
"""

from __future__ import annotations

import time
import warnings

import lightgbm as lgb
import numpy as np

import rfsize

ROWS, FEATURES, TREES, REPETITIONS = 100_000, 20, 1000, 9
SETTINGS = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "num_leaves": 255,
    "verbose": -1,
}


def seconds(dataset: lgb.Dataset, callbacks: list[object]) -> float:
    """Time of one training."""
    start = time.perf_counter()
    lgb.train(SETTINGS, dataset, TREES, callbacks=callbacks)
    return time.perf_counter() - start


def main() -> None:
    """Print the seconds of each pair and the median of their ratios."""
    warnings.simplefilter("ignore", rfsize.NotConvergedWarning)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=ROWS) > 0
    dataset = lgb.Dataset(X, y.astype(int)).construct()
    seconds(dataset, [])
    ratios = []
    for _ in range(REPETITIONS):
        plain = seconds(dataset, [])
        sized = seconds(dataset, [rfsize.SizeCallback(alpha=0.999999)])
        ratios.append(sized / plain)
        print(f"without {plain:6.2f} s   with {sized:6.2f} s   {sized / plain - 1:+.1%}", flush=True)
    print(f"SizeCallback adds {np.median(ratios) - 1:.1%} (median of {REPETITIONS} pairs)")


if __name__ == "__main__":
    main()
