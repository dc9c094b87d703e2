"""Does a forest sized by a metric lose as much as its tolerance, and how often does a "95 % sure" size lose more?

    python benchmarks/metric_size.py --forests 120

The number of a forest determines its problem and framework; the parameters of the problem, training rows (150 to
5,000), trees (60 to 320), leaves and two tolerances for each metric are drawn. The forest is sized out of bag. The
truth comes from 360 more trees of the same forest on 6,000 fresh rows: the mean loss of disjoint forests of these
trees, against the limit that forests of 30 to 120 of them tend to, by the law c/T.

    python benchmarks/metric_size.py --default 20

What does a forest of a rare class lose at the size that `rfsize.size` gives where neither alpha nor a tolerance is
given? 2,000 to 10,000 rows, of which 1 to 5 % are of class 1, by three laws; 600 trees are sized out of bag. Their
parts, forests of 25 to 300 trees, tell on fresh rows how fast the loss falls with the number of trees.

Printed: how many sizes there are, the share whose true loss exceeds the tolerance, with a 95 % interval by the
bootstrap over forests, and the mean and the largest true loss in tolerances. "Sure" are sizes that the report calls
95 % sure; `upper(0.95)` is judged wherever T* is known.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from problems import (
    FRAMEWORKS,
    Array,
    corner,
    forest,
    in_turn,
    losses_by_metric,
    parser,
    print_head,
    print_line,
    share_of_cases,
)

import rfsize
from rfsize.exceptions import LabelsOnlyWarning
from rfsize.models.framework import read_forest
from rfsize.walking.leaves import leaves_by_framework

OTHERS, FRESH = 360, 6_000
SIZES = np.array([1, 2, 4, 8, 16, 30, 60, 120])  # at which the truth is measured
MOST_FORESTS = 20  # of each size
DEFAULT, PARTS = 600, np.array([25, 50, 100, 300])  # trees of a forest of default size, and of its parts

# Smallest and largest tolerance; for numbers as a share of the standard deviation of y.
TOLERANCES = {
    "auc": (0.001, 0.01),
    "average_precision": (0.002, 0.02),
    "log_loss": (0.002, 0.02),
    "brier": (0.0005, 0.004),
    "accuracy": (0.002, 0.01),
    "rmse": (0.002, 0.02),
    "mae": (0.002, 0.02),
}


def tree_scores(model: Any, X: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Scores of each tree before the link, shape (n_rows, n_trees, n_scores), and what makes predictions of means."""
    read = read_forest(model)
    scores = leaves_by_framework(read, next(read.open(X).chunks()).read(0, len(X))).scores
    return np.asarray(scores, dtype=np.float32), lambda mean: read.link.predictions(mean, len(read.classes))


def true_losses(model: Any, first: int, X: Array, y: Array) -> dict[str, Array]:
    """Of each metric, the mean loss of forests of `SIZES` of the trees from ``first`` on, beyond its limit."""
    scores, predictions = tree_scores(model, X)
    by_size = []
    for size in SIZES:
        starts = range(first, first + OTHERS, size)[:MOST_FORESTS]
        means = (scores[:, start : start + size].mean(axis=1, dtype=np.float64) for start in starts)
        losses = [losses_by_metric(y, predictions(mean)) for mean in means]
        by_size.append({metric: np.mean([of_forest[metric] for of_forest in losses]) for metric in losses[0]})
    values = {metric: np.array([of_size[metric] for of_size in by_size]) for metric in by_size[0]}
    large = SIZES >= 30
    return {name: loss - np.polyfit(1 / SIZES[large], loss[large], 1)[1] for name, loss in values.items()}


def sizes_of(number: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The sizes of a forest by each metric, and what they really lose."""
    rng, records = np.random.default_rng([number, options.seed]), []
    name, (X, y), fresh = corner(number, rng, FRESH)
    framework, n_trees = FRAMEWORKS[number % len(FRAMEWORKS)], int(np.exp(rng.uniform(*np.log([60, 320]))))
    leaves, regression = int(rng.choice([12, 31, 80])), y.dtype.kind == "f"
    model = forest(framework, n_trees + OTHERS, number, leaves=leaves, regression=regression).fit(X, y)
    outputs = rfsize.tree_outputs(rfsize.truncate(model, n_trees=n_trees), X, y, oob=True)
    losses, scale = true_losses(model, n_trees, *fresh), float(np.std(y)) if regression else 1.0
    for metric in [*losses, *losses]:
        tolerance = scale * float(np.exp(rng.uniform(*np.log(TOLERANCES[metric]))))
        try:
            report = rfsize.size(outputs, metric=metric, tolerance=tolerance)
        except rfsize.exceptions.RfsizeError:
            continue
        upper = report.upper(0.95)
        if np.isfinite(report.n_trees) and np.isfinite(upper):
            # Between the measured sizes T times the loss is even.
            size, bound = (
                float(np.interp(np.log(at), np.log(SIZES), losses[metric] * SIZES)) / at / tolerance
                for at in (report.n_trees, upper)
            )
            is_sure = bool(report.enough and report.n_trees >= upper)
            record = {"number": number, "problem": name, "framework": framework, "metric": metric,
                   "sure": is_sure, "size": size, "upper": bound}  # fmt: skip
            records.append(record)
    return records


def uncommon(n_rows: int, rng: np.random.Generator, law: int, share: float, noise: float) -> tuple[Array, Array]:
    """Class 1 is the ``share`` of the rows of most risk: by a sum, by rules of two columns, or by heavy tails."""
    X = rng.normal(size=(n_rows, 10)) if law < 2 else rng.standard_t(3, size=(n_rows, 10))
    rules = 1.5 * (X[:, 0] > 0.5) * (X[:, 1] > 0) + 1.5 * (np.abs(X[:, 2]) > 1.2) + X[:, 3] * (X[:, 4] > 0)
    risk = (X[:, :4].sum(axis=1) / 2, rules, np.tanh(X[:, 0]) + X[:, 1] * X[:, 2] / 3)[law]
    risk += noise * rng.normal(size=n_rows)
    return X, (risk > np.quantile(risk, 1 - share)).astype(np.int64)


def print_default(number: int, seed: int) -> tuple[float, float]:
    """The default size of a forest, and what forests of that size lose of AUC and log loss; prints a line."""
    rng, framework = np.random.default_rng([number, seed]), FRAMEWORKS[number % len(FRAMEWORKS)]
    n_rows, share = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((2000, 10_000), (0.01, 0.05)))
    law = {"law": number // len(FRAMEWORKS) % 3, "share": share, "noise": rng.uniform(0.5, 2.0)}
    (X, y), (fresh, truth) = uncommon(int(n_rows), rng, **law), uncommon(FRESH, rng, **law)
    model = forest(framework, DEFAULT, number, leaves=int(rng.choice([12, 31, 80]))).fit(X, y)
    report = rfsize.size(model, X, y, oob=True)
    scores, predictions = tree_scores(model, fresh)
    smaller = [scores.reshape(FRESH, -1, size, scores.shape[2]).mean(axis=2, dtype=np.float64) for size in PARTS]
    lost = []
    by_size = [[losses_by_metric(truth, predictions(part)) for part in of.swapaxes(0, 1)] for of in smaller]
    for metric in ("auc", "log_loss"):
        of_size = [np.mean([losses[metric] for losses in of_parts]) for of_parts in by_size]
        lost.append(np.polyfit(1 / PARTS, of_size, 1)[0] / report.n_trees)
    of = "variance" if "variance by the trees" in report.criterion.basis else "spread"
    by = f"{report.criterion.name}, {of}" if report.criterion.tolerance else "labels"
    by += ", warned" if any(warning.category is LabelsOnlyWarning for warning in report.warnings) else ""
    print_line(framework, int(n_rows), f"{share:.1%}", by, report.n_trees, *(f"{loss:.4f}" for loss in lost))
    return lost[0], lost[1]


def print_share(name: str, records: pd.DataFrame, real: str) -> None:
    """How many sizes there are, and how many lose more than the tolerance."""
    if len(records):
        losses = records[real]
        beyond = share_of_cases(list(zip(records["number"], losses > 1, strict=True)))
        print_line(name, beyond, f"{losses.mean():.2f}", f"{losses.max():.2f}")


def main() -> None:
    """Print the table."""
    options = parser(__doc__, forests=120, seed=2024, jobs=1, default=0, first=0).parse_args()
    if options.default:
        print_head("framework", "rows", "of class 1", "sized by", "trees", "AUC lost", "log loss added")
        lost = np.array([print_default(options.first + number, options.seed) for number in range(options.default)])
        print_line("mean", "", "", "", "", *(f"{loss:.4f}" for loss in lost.mean(axis=0)))
        print_line("largest", "", "", "", "", *(f"{loss:.4f}" for loss in lost.max(axis=0)))
        return
    records = pd.DataFrame(chain.from_iterable(in_turn(sizes_of, range(options.forests), options)))
    print_head("", "true loss above the tolerance", "mean loss / tolerance", "largest")
    print_share("sure", records[records["sure"]], "size")
    print_share("`upper(0.95)`", records, "upper")
    print_share("T*, not sure", records[~records["sure"]], "size")
    for field in ("metric", "problem", "framework"):
        for value, group in records.groupby(field):
            print_share(f"`upper(0.95)`, {value}", group, "upper")


if __name__ == "__main__":
    main()
