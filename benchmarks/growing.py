"""Does a forest grown to T*(α) have the size that a single large forest asks for?

    python benchmarks/growing.py spam.csv.gz BreastCancer.csv.gz Ionosphere.csv.gz Vehicle.csv.gz DNA.csv.gz

Each file is a table with the features first and the class in its last column, named target; four fifths of the rows
train. The votes are out-of-bag, or for XGBoost forests of several classes, whose rows are out of the bags of too few
votes, on the last fifth. For each of a few seeds: the size that `rfsize.grow` and (LightGBM) `rfsize.SizeCallback` stop
at, and the size that one forest of 3000 trees gives, all its votes counted. Geometric means, and the spread over seeds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.model_selection import train_test_split

import rfsize

TREES = 3000


def parameters(framework: str, n_classes: int, seed: int) -> dict[str, Any]:
    """The usual settings of a random forest."""
    several = n_classes > 2
    if framework == "LightGBM":
        return {
            "objective": "multiclass" if several else "binary",
            "num_class": n_classes if several else 1,
            "boosting": "rf",
            "bagging_fraction": 0.632,
            "bagging_freq": 1,
            "feature_fraction": 0.5,
            "min_data_in_leaf": 5,
            "seed": seed,
            "verbose": -1,
        }
    return {
        "objective": "multi:softprob" if several else "binary:logistic",
        **({"num_class": n_classes} if several else {}),
        "subsample": 0.632,
        "colsample_bynode": 0.2,
        "eta": 1.0,
        "reg_lambda": 1e-5,
        "max_depth": 10,
        "seed": seed,
    }


def sizes(framework: str, X: pd.DataFrame, y: pd.Series, seed: int, alpha: float) -> dict[str, float]:
    """T*(α) each way, and seconds to grow."""
    X, X_val, y, _ = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    params = parameters(framework, y.nunique(), seed)
    by_votes_on_fresh = framework == "XGBoost" and y.nunique() > 2
    given = {"X_val": X_val} if by_votes_on_fresh else {}
    found = {}
    start = time.perf_counter()
    data = lgb.Dataset(X, y) if framework == "LightGBM" else xgb.DMatrix(X, y)
    found["grow"] = rfsize.grow(params, data, alpha=alpha, return_report=True, **given)[1].n_trees
    found["seconds"] = time.perf_counter() - start
    if framework == "LightGBM":
        callback = rfsize.SizeCallback(alpha=alpha)
        lgb.train(params, lgb.Dataset(X, y), 5000, callbacks=[callback])
        found["callback"] = callback.report_.n_trees
        large = lgb.train(params, lgb.Dataset(X, y), TREES)
    else:
        large = xgb.train({**params, "num_parallel_tree": TREES}, data, 1)
    rows = {"X": X_val} if by_votes_on_fresh else {"X": X, "oob": True}
    found["large"] = rfsize.size(large, alpha=alpha, **rows).n_trees
    return found


def main() -> None:
    """Print one line per table and framework."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--alpha", type=float, default=0.99)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rfsize.NotConvergedWarning)
    print(f"{'table':14} {'framework':10} {'grow':>16} {'callback':>16} {'one large forest':>17} {'grow, s':>8}")
    for path in options.tables:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes
        for framework in ("LightGBM", "XGBoost"):
            each = [sizes(framework, X, y, seed, options.alpha) for seed in range(options.seeds)]
            cells = []
            for way in ("grow", "callback", "large"):
                logs = np.log([found[way] for found in each if way in found])
                cells.append(f"{np.exp(logs.mean()):.0f} ×/÷ {np.exp(logs.std(ddof=1)):.2f}" if logs.size else "")
            seconds = np.median([found["seconds"] for found in each])
            name = path.name.split(".")[0]
            print(f"{name:14} {framework:10} {cells[0]:>16} {cells[1]:>16} {cells[2]:>17} {seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
