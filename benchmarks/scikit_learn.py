"""Seconds to predict 100,000 rows with a scikit-learn forest of 500 trees, with its own predict and compiled.

    python benchmarks/scikit_learn.py [--training-rows 20000]

Both use all cores and predict the same rows in turn, several times; the median counts. The stop table is the threshold
rule at α = 0.99, with the forest's own out-of-bag votes as prior. Disagreement is with the majority vote of all trees.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from problems import draw
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import rfsize

ROWS, TREES, REPETITIONS = 100_000, 500, 5

FORESTS = {
    "random forest, grown out": RandomForestClassifier(TREES, n_jobs=-1, random_state=1),
    "random forest, 5 rows to a leaf": RandomForestClassifier(TREES, min_samples_leaf=5, n_jobs=-1, random_state=1),
    "extra-trees, grown out": ExtraTreesClassifier(TREES, bootstrap=True, n_jobs=-1, random_state=1),
}


def seconds_of(contenders: list[Callable[[np.ndarray], Any]], X: np.ndarray) -> np.ndarray:
    """Median seconds of each contender; they take turns."""
    taken = np.zeros((REPETITIONS, len(contenders)))
    for repetition in taken:
        for index, predict in enumerate(contenders):
            start = time.perf_counter()
            predict(X)
            repetition[index] = time.perf_counter() - start
    return np.median(taken, axis=0)


def main() -> None:
    """Print one line per forest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training-rows", type=int, default=20_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    (X, y), (rows, _) = draw(rng, options.training_rows), draw(rng, ROWS)
    for name, forest in FORESTS.items():
        forest.fit(X, y)
        table = rfsize.StopTable.build(TREES, prior=rfsize.tree_outputs(forest, X, oob=True).votes)
        fast, stopped = rfsize.compile(forest), rfsize.compile(forest, table)
        labels, (early, asked) = fast.predict(rows), stopped.predict(rows, return_trees=True)
        own, whole, short = seconds_of([forest.predict, fast.predict, stopped.predict], rows)
        print(
            f"{name:32} {own:6.2f} s; compiled, all trees {whole:.3f} s ({own / whole:.1f}×); with a table "
            f"{short:.3f} s ({own / short:.0f}×), {asked.mean():.1f} trees, {np.mean(early != labels):.2%} others",
            flush=True,
        )


if __name__ == "__main__":
    main()
