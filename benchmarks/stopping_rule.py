"""Is a forest that stops the first time it looks large enough too small, and would it help to wait?

    python benchmarks/stopping_rule.py BreastCancer.csv.gz Ionosphere.csv.gz --alpha 0.997

Each file is a table with the features first and the class in its last column, named target; four fifths of the rows
train a forest of 5000 trees. Its trees are put in other orders, as if they were trained so, and T*(α) is estimated from
the out-of-bag votes of the first 100, and then at min(T*, twice the trees) (figure 3 of Hernández-Lobato et al. 2013),
until the trees are as many as T* times the factor of the rule. Printed are the mean of log(T* stopped at / T* of all
5000 trees) and its spread over the orders, and the trees trained, as a multiple of that T*.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from growing import TREES, parameters
from sklearn.model_selection import train_test_split

import rfsize
from rfsize.goal import next_look

FACTORS = (1.0, 1.25, 2.0)


def trained(framework: str, X: pd.DataFrame, y: pd.Series) -> Any:
    """The large forest."""
    params = parameters(framework, y.nunique(), 0)
    if framework == "LightGBM":
        return lgb.train(params, lgb.Dataset(X, y), TREES)
    return xgb.train({**params, "num_parallel_tree": TREES}, xgb.DMatrix(X, y), 1)


class Forest:
    """Votes of each tree on the rows that it did not see, put in any order."""

    def __init__(self, model: Any, X: pd.DataFrame, alpha: float) -> None:
        self.votes = rfsize.tree_votes(model, X).astype(np.int8)
        self.outside = ~rfsize.inbag(model, X).T
        self.alpha = alpha

    def report(self, order: np.ndarray) -> rfsize.SizeReport:
        """T* from some of the trees."""
        votes, outside = self.votes[:, order], self.outside[:, order]
        counts = [((votes == label) & outside).sum(axis=1) for label in range(self.votes.max() + 1)]
        return rfsize.size(rfsize.Votes(np.stack(counts, axis=1), n_trees=len(order)), alpha=self.alpha)

    def stopped(self, order: np.ndarray, factor: float) -> tuple[float, int]:
        """T* where training stops, and trees trained by then."""
        trees = 100
        while True:
            report = self.report(order[:trees])
            enough = report.converged and trees >= factor * report.n_trees
            if enough or trees >= len(order):
                return min(report.n_trees, len(order)), trees
            wanted = math.ceil(factor * report.n_trees) if report.converged else next_look(report)
            trees = min(wanted, len(order))


def main() -> None:
    """Print one line per table, framework and rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--alpha", type=float, default=0.997)
    parser.add_argument("--orders", type=int, default=16)
    options = parser.parse_args()
    print("| table | framework | T* of 5000 trees | stops at | log of the ratio | spread | trained / T* |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for path in options.tables:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes
        X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
        for framework in ("LightGBM", "XGBoost"):
            forest = Forest(trained(framework, X, y), X, options.alpha)
            target = forest.report(np.arange(TREES)).n_trees
            orders = [np.random.default_rng(seed).permutation(TREES) for seed in range(options.orders)]
            for factor in FACTORS:
                size, trees = np.array([forest.stopped(order, factor) for order in orders], dtype=float).T
                logs = np.log(size / target)
                cells = [path.name.split(".")[0], framework, f"{target:,}", f"{factor:g} T*", f"{logs.mean():+.2f}"]
                print(f"| {' | '.join(cells)} | {logs.std(ddof=1):.2f} | {trees.mean() / target:.2f} |", flush=True)


if __name__ == "__main__":
    main()
