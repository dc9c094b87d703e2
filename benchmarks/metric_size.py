"""Does a forest sized by a metric lose as much as its tolerance, and how often does a "95 % sure" size lose more?

    python benchmarks/metric_size.py --forests 120

The number of a forest determines its problem and framework; its training rows (300 to 8,000), trees (60 to 320), leaves
and two tolerances for each metric are drawn. The forest is sized out of bag. The truth comes from 480 more trees of the
same forest on 10,000 fresh rows: the mean loss of disjoint forests of these trees, against the limit that forests of 30
to 120 of them tend to, by the law c/T.

Printed: how many sizes there are, the share whose true loss exceeds the tolerance, with a 95 % interval by the
bootstrap over forests, and the mean and the largest true loss in tolerances. "Sure" are sizes that the report calls
95 % sure; `upper(0.95)` is judged wherever T* is known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from problems import (
    FRAMEWORKS,
    Array,
    Problem,
    clusters,
    few_of_many,
    five_clouds,
    flipped,
    forest,
    friedman,
    parser,
    print_head,
    print_line,
    rare,
    two_percent,
)
from sklearn.metrics import average_precision_score, log_loss, mean_absolute_error, roc_auc_score

import rfsize
from rfsize.models.framework import read_forest
from rfsize.walking.leaves import leaves_by_framework

OTHERS, FRESH = 480, 10_000
SIZES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 40, 60, 80, 120])  # at which the truth is measured
MOST_FORESTS = 60  # of each size
PROBLEMS: tuple[Problem, ...] = (rare, two_percent, flipped, few_of_many, clusters, five_clouds, friedman)

LOSS: dict[str, Callable[[Array, Array], float]] = {
    "auc": lambda y, p: 1.0 - roc_auc_score(y, p[:, 1]),
    "average_precision": lambda y, p: 1.0 - average_precision_score(y, p[:, 1]),
    "log_loss": lambda y, p: log_loss(y, p / p.sum(axis=1, keepdims=True), labels=np.arange(p.shape[1])),
    "brier": lambda y, p: float(np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1))) / (1 + (p.shape[1] == 2)),
    "accuracy": lambda y, p: float(np.mean(p.argmax(axis=1) != y)),
    "rmse": lambda y, p: float(np.sqrt(np.mean((p[:, 0] - y) ** 2))),
    "mae": lambda y, p: mean_absolute_error(y, p[:, 0]),
}
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
    scores = leaves_by_framework(read, read.open(X).whole().read(0, len(X))).scores
    return np.asarray(scores, dtype=np.float32), lambda mean: read.link.predictions(mean, len(read.classes))


def true_losses(model: Any, first: int, X: Array, y: Array, metrics: list[str]) -> dict[str, Array]:
    """Of each metric, the mean loss of forests of `SIZES` of the trees from ``first`` on, beyond its limit."""
    scores, predictions = tree_scores(model, X)
    losses = np.zeros((len(SIZES), len(metrics)))
    for place, size in enumerate(SIZES):
        starts = range(first, first + OTHERS, size)[:MOST_FORESTS]
        for start in starts:
            predicted = predictions(scores[:, start : start + size].mean(axis=1, dtype=np.float64))
            losses[place] += [LOSS[metric](y, predicted) / len(starts) for metric in metrics]
    large = SIZES >= 30
    limits = [np.polyfit(1 / SIZES[large], loss[large], 1)[1] for loss in losses.T]
    return dict(zip(metrics, (losses - limits).T, strict=True))


def sizes_of(number: int, seed: int) -> Iterator[dict[str, Any]]:
    """The sizes of a forest by each metric, and what they really lose."""
    rng = np.random.default_rng([number, seed])
    problem, framework = PROBLEMS[number % len(PROBLEMS)], FRAMEWORKS[number // len(PROBLEMS) % len(FRAMEWORKS)]
    n_rows, n_trees = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((300, 8000), (60, 320)))
    (X, y), (fresh, truth), regression = problem(n_rows, rng), problem(FRESH, rng), problem is friedman
    leaves = int(rng.choice([12, 31, 80]))
    model = forest(framework, n_trees + OTHERS, number, leaves=leaves, regression=regression).fit(X, y)
    outputs = rfsize.tree_outputs(rfsize.truncate(model, n_trees=n_trees), X, y, oob=True)
    rankings = ["auc", "average_precision"] if len(np.unique(y)) == 2 else []
    metrics = ["rmse", "mae"] if regression else [*rankings, "log_loss", "brier", "accuracy"]
    losses, scale = true_losses(model, n_trees, fresh, truth, metrics), float(np.std(y)) if regression else 1.0
    for metric in [*metrics, *metrics]:
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
            is_sure = report.enough and report.n_trees >= upper
            yield {"number": number, "problem": problem.__name__, "framework": framework, "metric": metric,
                   "sure": is_sure, "size": size, "upper": bound}  # fmt: skip


def print_share(name: str, records: list[dict[str, Any]], real: str) -> None:
    """How many sizes there are, and how many lose more than the tolerance."""
    by_forest: dict[int, list[float]] = {}
    for record in records:
        by_forest.setdefault(record["number"], []).append(record[real])
    if not records:
        return
    beyond, n = (
        np.array([of(np.array(values)) for values in by_forest.values()]) for of in (lambda v: (v > 1).sum(), len)
    )
    drawn = np.random.default_rng(0).integers(0, len(n), (4000, len(n)))
    low, high = np.quantile(beyond[drawn].sum(axis=1) / n[drawn].sum(axis=1), [0.025, 0.975])
    losses = np.array([record[real] for record in records])
    share = f"{beyond.sum()} of {n.sum()} = {beyond.sum() / n.sum():.1%}"
    print_line(name, len(n), share, f"{low:.1%} to {high:.1%}", f"{losses.mean():.2f}", f"{losses.max():.2f}")


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--forests", type=int, default=120)
    arguments.add_argument("--seed", type=int, default=2024)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    records = [record for number in range(options.forests) for record in sizes_of(number, options.seed)]
    sure = [record for record in records if record["sure"]]
    print_head("", "forests", "true loss above the tolerance", "95 % interval", "mean loss / tolerance", "largest")
    print_share("sure", sure, "size")
    print_share("`upper(0.95)`", records, "upper")
    print_share("T*, not sure", [record for record in records if not record["sure"]], "size")
    for by in ("metric", "problem", "framework"):
        for value in sorted({record[by] for record in records}):
            print_share(f"`upper(0.95)`, {value}", [record for record in records if record[by] == value], "upper")


if __name__ == "__main__":
    main()
