"""Does training stop at the size that 5000 trees would give?

    python benchmarks/growing.py BreastCancer.csv.gz Ionosphere.csv.gz Vehicle.csv.gz DNA.csv.gz spam.csv.gz

Each file is a table with the features first and the class in its last column, named target; four fifths of the rows
train. For each of a few seeds, and for majority vote and averaged scores, two numbers are compared: T*(α) when
`rfsize.SizeCallback` (LightGBM) or `rfsize.grow` (XGBoost) stops, and T*(α) of a forest of 5000 trees with the same
parameters, seed and rows. Both use out-of-bag votes. Printed: geometric means over the seeds; the mean of log(stopped
at / T* of 5000 trees), with its standard error; and the trees trained, as a multiple of T* of 5000 trees. At least 100
trees are trained.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.model_selection import train_test_split

import rfsize

TREES = 5000


class Stop(NamedTuple):
    """T* at which a training stopped, trees trained by then, and T* of the large forest."""

    size: float
    trained: int
    large: float


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


def stops(framework: str, X: pd.DataFrame, y: pd.Series, seed: int, asked: argparse.Namespace) -> dict[str, Stop]:
    """Where training stops, by each rule of voting."""
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    params = parameters(framework, y.nunique(), seed)
    if framework == "LightGBM":
        large = lgb.train(params, lgb.Dataset(X, y), TREES)
    else:
        large = xgb.train({**params, "num_parallel_tree": TREES}, xgb.DMatrix(X, y), 1)
    outputs = rfsize.tree_outputs(large, X, oob=True)
    found = {}
    for voting in ("hard", "soft"):
        options = {"alpha": asked.alpha, "voting": voting}
        if framework == "LightGBM":
            callback = rfsize.SizeCallback(**options)
            lgb.train(params, lgb.Dataset(X, y), TREES, callbacks=[callback])
            report = callback.report_
        else:
            _, report = rfsize.grow(params, xgb.DMatrix(X, y), max_trees=TREES, **options)
        of_large = rfsize.size(outputs, alpha=asked.alpha, voting=voting)
        found[voting] = Stop(min(report.n_trees, TREES), report.available, min(of_large.n_trees, TREES))
    return found


def in_words(logs: np.ndarray) -> str:
    """Mean and its standard error."""
    return f"{logs.mean():+.2f} ± {logs.std(ddof=1) / math.sqrt(len(logs)):.2f}"


def main() -> None:
    """Print one line per table, framework and rule of voting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--frameworks", nargs="+", default=["LightGBM", "XGBoost"])
    parser.add_argument("--alpha", type=float, default=0.99)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
    print("| table | framework | voting | stopped at | T* of 5000 trees | log of the ratio | trained / T* |")
    print("|---|---|---|---|---|---|---|", flush=True)
    all_logs: dict[str, list[float]] = {"hard": [], "soft": []}
    for path in options.tables:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes
        for framework in options.frameworks:
            each = [stops(framework, X, y, seed, options) for seed in range(options.seeds)]
            for voting, known in all_logs.items():
                size, trained, large = np.array([found[voting] for found in each], dtype=float).T
                logs = np.log(size / large)
                known.append(logs.mean())
                means = (f"{np.exp(np.log(sizes).mean()):.0f}" for sizes in (size, large))
                cells = [path.name.split(".")[0], framework, voting, *means, in_words(logs)]
                print(f"| {' | '.join(cells)} | {np.mean(trained / large):.1f} |", flush=True)
    for voting, known in all_logs.items():
        print(f"{voting}: log of the ratio, mean over the lines {in_words(np.array(known))}")


if __name__ == "__main__":
    main()
