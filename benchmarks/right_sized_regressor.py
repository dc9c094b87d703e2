"""Do regression forests keep the tolerance of `RightSizedRegressor`? Two regressions, three frameworks.

    python benchmarks/right_sized_regressor.py
    python benchmarks/right_sized_regressor.py --splits 10

Each forest grows by its out-of-bag predictions until it is 80 % sure to be within 5 % of the standard deviation of y,
the default. Printed: the trees, and how far its predictions of fresh rows are from those of a large forest with another
seed, as root mean square and as 95th percentile over rows, in units of the tolerance, means over the splits. They
include the error of the large forest itself.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_friedman1, make_friedman3
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import rfsize

_PROBLEMS = {"Friedman 1": (make_friedman1, 1.0), "Friedman 3": (make_friedman3, 0.1)}
_BAGS = {"subsample": 0.632, "colsample_bynode": 0.6}
_FORESTS: dict[str, tuple[Any, str]] = {
    "LightGBM": (lgb.LGBMRegressor(boosting_type="rf", subsample_freq=1, verbose=-1, **_BAGS), "n_estimators"),
    "XGBoost": (XGBRegressor(n_estimators=1, learning_rate=1, max_depth=8, **_BAGS), "num_parallel_tree"),
    "random forest": (RandomForestRegressor(max_features=0.4, min_samples_leaf=3, n_jobs=2), "n_estimators"),
}


def main() -> None:
    """Print one row for each problem and framework."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--large", type=int, default=3000)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.ForestWarning)
    print("| problem | framework | trees | rms / tolerance | 95th percentile / tolerance |\n|---|---|---|---|---|")
    for problem, (make, noise) in _PROBLEMS.items():
        for framework, (forest, count) in _FORESTS.items():
            found = []
            for split in range(options.splits):
                X, y = make(options.rows, noise=noise, random_state=split)
                fresh, _ = make(5000, noise=noise, random_state=1000 + split)
                model = rfsize.RightSizedRegressor(clone(forest).set_params(random_state=split)).fit(X, y)
                other = clone(forest).set_params(random_state=100 + split, **{count: options.large}).fit(X, y)
                off = np.abs(model.predict(fresh) - other.predict(fresh)) / model.tolerance_
                found.append((model.n_trees_, np.sqrt(np.mean(off**2)), np.quantile(off, 0.95)))
            trees, rms, p95 = np.mean(found, axis=0)
            print(f"| {problem} | {framework} | {trees:.0f} | {rms:.2f} | {p95:.2f} |", flush=True)


if __name__ == "__main__":
    main()
