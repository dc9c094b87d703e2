"""How long does `metric_gap` take on very many rows, and how much memory?

    python benchmarks/metric_gap_speed.py --rows 3000000 --trees 200

A LightGBM forest, trained on 100,000 rows, is asked about so many others. Printed are seconds and the most memory that
the process held, first for counting the trees once, then for each metric by what was counted; and how far the area
under the curve of the forest at hand, by bins as the draws are measured, is from that by sorting.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from forests import train_lightgbm
from problems import draw
from sklearn.metrics import roc_auc_score

import rfsize
from rfsize.sizing.ranking import Bins, auc

_Found = TypeVar("_Found")


def timed(what: str, call: Callable[[], _Found]) -> _Found:
    """What a call gives, and a row of the table on it."""
    start = time.perf_counter()
    found = call()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"| {what} | {time.perf_counter() - start:.1f} s | {memory:.1f} GB |", flush=True)
    return found


def main() -> None:
    """Print one row for counting and one for each metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--metrics", nargs="+", default=["auc", "average_precision", "logloss", "brier", "accuracy"])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    model = train_lightgbm(*draw(rng, 100_000), options.trees, options.leaves)
    X, y = draw(rng, options.rows)
    print(f"| {options.rows:,} rows × {options.trees} trees | time | most memory so far |\n|---|---|---|", flush=True)
    timed("rows and forest alone", lambda: None)
    report = rfsize.size(timed("rfsize.count", lambda: rfsize.count(model, X, y)), alpha=0.9)
    for metric in options.metrics:
        timed(f"metric_gap, {metric}", lambda metric=metric: report.metric_gap(metric))  # type: ignore[misc]
    score = model.predict(X)
    bins = Bins(1, score)
    bins.add(score[None], y == 1, np.ones(len(y)))
    low, high = bins.low[0], bins.high[0]
    off = abs(auc(low, high) - roc_auc_score(y, score))
    most = np.sum(low * high) / (2.0 * low.sum() * high.sum())
    print(f"\nThe area under the curve by bins is off by {off:.1e}, of at most {most:.1e}.")


if __name__ == "__main__":
    main()
