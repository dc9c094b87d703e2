"""Do two LightGBM forests with different seeds agree, if few features are sampled for each tree?

    python benchmarks/feature_sampling.py Vehicle.csv.gz

The file is a table with the features first and the class in its last column, named target. Two thirds of the rows train
forests of 1001 trees with two seeds. Printed: the share of the other rows on which the majority votes differ; the
standard deviation of the difference of vote fractions, in units of its standard error (1 for independent trees); and
whether `rfsize.size` warns.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import rfsize

TREES = 1001


def compare(X: pd.DataFrame, y: pd.Series, **params: Any) -> tuple[float, float, bool]:
    """Rows that differ, scatter of the vote shares, and whether there is a warning."""
    X, X_held, y, _ = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
    several = {"objective": "multiclass", "num_class": y.nunique()} if y.nunique() > 2 else {"objective": "binary"}
    params |= {"boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "min_data_in_leaf": 5, "verbose": -1}
    forests = [lgb.train({**params, **several, "seed": seed}, lgb.Dataset(X, y), TREES) for seed in (1, 2)]
    one, other = (rfsize.tree_outputs(forest, X_held).votes.fractions() for forest in forests)
    noise = np.sqrt((one * (1 - one) + other * (1 - other)) / TREES + 1e-9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rfsize.size(forests[0], X_held)
    warned = any(issubclass(warning.category, rfsize.exceptions.ForestWarning) for warning in caught)
    scatter = float(((one - other) / noise)[one > 0.01].std())
    return float(np.mean(one.argmax(axis=1) != other.argmax(axis=1))), scatter, warned


def main() -> None:
    """Print one line per number of features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    table = pd.read_csv(parser.parse_args().table)
    X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes
    print(f"{'features':>8} {'sampled':8} {'classes':>7} {'rows that differ':>17} {'scatter':>8} {'warned':>7}")
    for drawn in range(3, 9):
        for name, kind in (("feature_fraction", "by tree"), ("feature_fraction_bynode", "by node")):
            for labels in (y, (y > y.median()).astype(int)):
                differ, scatter, warned = compare(X, labels, **{name: drawn / X.shape[1]})
                print(
                    f"{drawn:>8} {kind:8} {labels.nunique():>7} {differ:>17.1%} {scatter:>8.1f} {warned!s:>7}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
