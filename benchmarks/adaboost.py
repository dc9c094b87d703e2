"""How many trees AdaBoost must ask to settle the label of a row, and how long a prediction takes.

    python benchmarks/adaboost.py spam.csv.gz BreastCancer.csv.gz Satellite.csv.gz

Each file is a table with the features first and the class in its last column, named target. Missing values are replaced
by the median. Two thirds of the rows train scikit-learn's AdaBoostClassifier, with stumps and with deeper trees. The
model and its compiled copy predict the other rows; the copy stops asking trees when the remaining weight cannot change
the label. "Equal" says whether all labels are the same, also those of the training rows. Times are medians of
alternating runs, on the held-out rows repeated to 20,000, and on one row at a time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import rfsize

ROWS, SINGLE_ROWS, REPETITIONS = 20_000, 30, 5


def main() -> None:
    """Print one line per table and depth of the trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    print("| data | depth | trees | asked, mean | median | equal | batch: AdaBoost | rfsize | ratio | one row: ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for path in options.tables:
        table = pd.read_csv(path)
        features = table.drop(columns="target").astype(np.float64)
        X, y = features.fillna(features.median()).to_numpy(), table["target"].to_numpy()
        for depth in options.depths:
            measure(path.name.split(".")[0], X, y, depth, options.members)


def measure(name: str, X: np.ndarray, y: np.ndarray, depth: int, members: int) -> None:
    """Print one line."""
    trained, held_out, labels, _ = train_test_split(X, y, train_size=2 / 3, random_state=0, stratify=y)
    tree = DecisionTreeClassifier(max_depth=depth)
    model = AdaBoostClassifier(tree, n_estimators=members, random_state=0).fit(trained, labels)
    fast = rfsize.compile(model, n_jobs=1)
    predicted, asked = fast.predict(held_out, return_trees=True)
    equal = np.array_equal(predicted, model.predict(held_out))
    equal &= np.array_equal(fast.predict(trained), model.predict(trained))
    many = np.resize(held_out, (ROWS, held_out.shape[1]))
    singles = [held_out[index : index + 1] for index in range(SINGLE_ROWS)]
    slow_batch, fast_batch = medians(lambda: model.predict(many), lambda: fast.predict(many))
    slow_rows, fast_rows = medians(lambda: each(model, singles), lambda: each(fast, singles))
    print(
        f"| {name} | {depth} | {fast.n_trees} | {asked.mean():.1f} | {np.median(asked):.0f} | {equal} | "
        f"{slow_batch:.3f} s | {fast_batch:.4f} s | {slow_batch / fast_batch:.0f} | {slow_rows / fast_rows:.0f} |",
        flush=True,
    )


def each(model: Any, rows: list[np.ndarray]) -> None:
    """Predict one row at a time."""
    for row in rows:
        model.predict(row)


def medians(*calls: Callable[[], Any]) -> tuple[float, ...]:
    """Median seconds of each call; the calls take turns."""
    seconds = np.empty((REPETITIONS, len(calls)))
    for repetition in range(REPETITIONS):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[repetition, index] = time.perf_counter() - start
    return tuple(np.median(seconds, axis=0))


if __name__ == "__main__":
    main()
