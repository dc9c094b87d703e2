"""Table 2 of the 2016 paper (HYPER), with the optimal and the robust rule, and the time to build tables.

    python benchmarks/stop_tables.py BreastCancer.csv.gz Ionosphere.csv.gz spam.csv.gz

Forests of 101 trees of scikit-learn's RandomForestClassifier, on synthetic problems after Breiman (1996) and on tables
with the features first and the class in their last column, named target. Each split draws a training set (300 rows of a
synthetic problem, two thirds of a table), trains a forest, takes HYPER's prior from its out-of-bag votes, and votes on
the other rows. Values are means over the splits, ± their standard error.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from problems import Rows, split, synthetic, threenorm, twonorm, waveform
from sklearn.ensemble import RandomForestClassifier

from rfsize import Votes
from rfsize.stopping.table import StopTable

TREES = 101

# Trees asked in the paper's table 2: SIBA (uniform prior) and HYPER (prior from out-of-bag votes).
PAPER = {
    "twonorm": (21.0, 18.4),
    "threenorm": (34.8, 35.8),
    "waveform": (29.3, 27.8),
    "BreastCancer": (8.9, 4.0),
    "Ionosphere": (11.9, 7.8),
    "spam": (11.1, 7.2),
}


def tree_labels(forest: RandomForestClassifier, X: np.ndarray) -> np.ndarray:
    """Class index of each tree's own prediction, shape (n, T)."""
    X = np.asarray(X, dtype=np.float32)
    return np.stack([tree.predict(X).astype(np.int64) for tree in forest.estimators_], axis=1)


def out_of_bag_votes(forest: RandomForestClassifier, X: np.ndarray, labels: np.ndarray) -> Votes:
    """The out-of-bag votes on each row."""
    counts = np.zeros((len(X), forest.n_classes_), dtype=np.int64)
    for inbag, predicted in zip(forest.estimators_samples_, labels.T, strict=True):
        rows = np.setdiff1d(np.arange(len(X)), inbag)
        counts[rows, predicted[rows]] += 1
    return Votes(counts, n_trees=len(forest.estimators_))


def rules(n_classes: int, votes: Votes) -> dict[str, StopTable]:
    """The tables to compare, by the heading they are printed under."""
    built = {
        "SIBA": StopTable.build(TREES, n_classes=n_classes),
        "HYPER": StopTable.build(TREES, prior=votes),
        "optimal": StopTable.build(TREES, prior=votes, rule="optimal"),
    }
    if n_classes == 2:
        built["robust 0.999"] = StopTable.build(TREES, prior=votes, rule="robust", alpha=0.999)
    return built


def one_split(training: Rows, test: Rows, seed: int) -> dict[str, tuple[float, float]]:
    """Trees asked and disagreement with all trees, by rule."""
    X, y = training
    forest = RandomForestClassifier(TREES, random_state=seed).fit(X, y)
    votes = out_of_bag_votes(forest, X, tree_labels(forest, X))
    asked_in_order = tree_labels(forest, test[0])
    majority = np.array([(asked_in_order == k).sum(axis=1) for k in range(forest.n_classes_)]).argmax(axis=0)
    found = {}
    for rule, table in rules(forest.n_classes_, votes).items():
        labels, asked = table.apply(asked_in_order)
        found[rule] = (float(asked.mean()), float((labels != majority).mean()))
    return found


def print_problem(name: str, splits: list[dict[str, tuple[float, float]]]) -> None:
    """One line per rule."""
    paper = dict(zip(("SIBA", "HYPER"), PAPER.get(name, ()), strict=False))
    for rule in splits[0]:
        trees, differs = np.array([found[rule] for found in splits]).T
        error = np.array([trees.std(ddof=1), differs.std(ddof=1)]) / np.sqrt(len(splits))
        print(
            f"{name:14} {rule:13} {paper.get(rule, ''):>6} {trees.mean():>7.1f} ± {error[0]:<5.1f}"
            f"{differs.mean():>9.2%} ± {error[1]:.2%}",
            flush=True,
        )


def print_timings(runs: int) -> None:
    """Seconds to build a table on a warm machine, the least of several runs."""
    print(f"\n{'rule':10} {'prior':8} {'trees':>6} {'seconds':>8}")
    generator = np.random.default_rng(0)
    skewed = generator.binomial(101, generator.beta(0.4, 0.8, 2000))
    priors: dict[str, Any] = {"uniform": "uniform", "votes": Votes(np.stack([101 - skewed, skewed], axis=1))}
    cases: list[tuple[str, int]] = [(rule, trees) for rule in ("threshold", "optimal") for trees in (101, 1001, 10_001)]
    cases += [("robust", trees) for trees in (101, 201, 301, 1001, 10_001)]
    for rule, trees in cases:
        for name, prior in priors.items():
            seconds = []
            for _ in range(runs if trees < 10_000 else 2):
                start = time.perf_counter()
                StopTable.build(trees, prior=prior, rule=rule)  # type: ignore[arg-type]
                seconds.append(time.perf_counter() - start)
            print(f"{rule:10} {name:8} {trees:>6} {min(seconds):>8.4f}", flush=True)


def main() -> None:
    """Print the comparison, then the timings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{'problem':14} {'rule':13} {'paper':>6} {'trees asked':>15} {'disagreement':>16}")
    for problem in (twonorm, threenorm, waveform):
        splits = [one_split(*synthetic(problem, seed), seed) for seed in range(options.splits)]
        print_problem(problem.__name__, splits)
    for path in options.tables:
        table = pd.read_csv(path)
        X = table.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float32)
        y = table["target"].astype("category").cat.codes.to_numpy()
        print_problem(path.name.split(".")[0], [one_split(*split(X, y, seed), seed) for seed in range(options.splits)])
    print_timings(options.runs)


if __name__ == "__main__":
    main()
