"""How often do the intervals of `oob_score` and of `compare` contain the truth on fresh rows?

    python benchmarks/oob_score.py --forests 14
    python benchmarks/oob_score.py --compare --repetitions 40

Each forest gets a new draw of its problem, with 300, 600 or 2,000 training rows and 50, 100 or 300 trees. The
framework's own predictions are measured on fresh rows. Printed, for each metric and each value of what was varied: the
share of the 95 % intervals that contain the metric on fresh rows, that lie below it and above it; the mean distance of
``value`` and of ``at_all_trees`` from it; and the standard deviation of the latter. Distances are in units of the
standard error that the interval claims (its length divided by 3.92). Forests that give a row's class no probability
have a clipped log loss.

With --compare, two settings draw different numbers of features at each split: the usual square root, and all.
scikit-learn trains forests of 100 trees with each on 1,000 rows of threenorm. The truth is the difference on 20,000
fresh rows between forests of 300 trees with other seeds. Printed: how often the 95 % interval for infinitely many trees
contains the truth; how often the interval for two forests of the same setting excludes 0; the width of the interval
beside that of two scores taken as independent; and how often each of them tells the settings apart.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from problems import (
    FRAMEWORKS,
    Problem,
    flipped,
    forest,
    friedman,
    parser,
    print_head,
    print_line,
    rare,
    ringnorm,
    threenorm,
    twonorm,
    waveform,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score, root_mean_squared_error

import rfsize

PROBLEMS: tuple[Problem, ...] = (twonorm, threenorm, ringnorm, rare, flipped, waveform, friedman)
ROWS, TREES, FRESH = (300, 600, 2000), (50, 100, 300), 50_000


class Outcome(NamedTuple):
    """A score of one forest, and the metric on fresh rows."""

    metric: str
    problem: str
    framework: str
    rows: int
    trees: int
    value: float
    at_all_trees: float
    low: float
    high: float
    fresh: float


def outcomes(problem: Problem, framework: str, seed: int) -> Iterator[Outcome]:
    """The scores of one forest by each metric."""
    rng = np.random.default_rng([seed, PROBLEMS.index(problem), FRAMEWORKS.index(framework)])
    n_rows, n_trees = int(rng.choice(ROWS)), int(rng.choice(TREES))
    (X, y), (X_fresh, y_fresh) = problem(n_rows, rng), problem(FRESH, rng)
    model = forest(framework, n_trees, seed, leaves=64, regression=problem is friedman).fit(X, y)
    if problem is friedman:
        fresh = {"rmse": root_mean_squared_error(y_fresh, model.predict(X_fresh))}
    else:
        probability = model.predict_proba(X_fresh)
        fresh = {
            "accuracy": accuracy_score(y_fresh, probability.argmax(axis=1)),
            "log_loss": log_loss(y_fresh, probability),
        }
        if probability.shape[1] == 2:
            fresh["auc"] = roc_auc_score(y_fresh, probability[:, 1])
    outputs = rfsize.tree_outputs(model, X, y, oob=True)
    for metric, truth in fresh.items():
        score = rfsize.oob_score(outputs, metric=metric)
        of = problem.__name__, framework, n_rows, n_trees
        yield Outcome(metric, *of, score.value, score.at_all_trees, *score.interval, truth)


def print_scores(options: argparse.Namespace) -> None:
    """Print a line for each metric, and for each value of what was varied."""
    cases = product(range(options.forests), PROBLEMS, options.frameworks)
    records = [outcome for seed, problem, framework in cases for outcome in outcomes(problem, framework, seed)]
    print_head("", "scores", "held", "below", "above", "`value` off", "`at_all_trees` off", "spread")
    for metric in dict.fromkeys(record.metric for record in records):
        of_metric = [record for record in records if record.metric == metric]
        print_score(f"**{metric}**", of_metric)
        for field in ("problem", "framework", "rows", "trees"):
            for key in sorted({getattr(record, field) for record in of_metric}):
                print_score(f"{metric}, {field} {key}", [one for one in of_metric if getattr(one, field) == key])


def print_score(name: str, records: list[Outcome]) -> None:
    """A row of the table."""
    value, middle, low, high, fresh = np.array([record[5:] for record in records]).T
    error = (high - low) / 3.92
    shares = np.mean((low <= fresh) & (fresh <= high)), np.mean(high < fresh), np.mean(low > fresh)
    off = np.mean((value - fresh) / error), np.mean((middle - fresh) / error)
    spread = f"{np.std((middle - fresh) / error):.2f}"
    print_line(name, len(records), *(f"{share:.1%}" for share in shares), *(f"{one:+.2f}" for one in off), spread)


def compared(seed: int) -> list[list[float]]:
    """For each metric: interval holds, false alarm, relative width, significance by pairs and by two scores."""

    def trained(trees: int, features: Any, number: int) -> Any:
        settings: dict[str, Any] = {"max_features": features, "min_samples_leaf": 3, "random_state": number}
        return RandomForestClassifier(trees, **settings).fit(*rows)

    rows, (fresh, y) = threenorm(1000, seed), threenorm(20_000, 10_000 + seed)
    truth = [trained(300, features, 30_000 + seed).predict_proba(fresh)[:, 1] for features in ("sqrt", None)]
    settings = (("sqrt", seed), (None, seed), ("sqrt", 20_000 + seed))
    usual, other, again = (rfsize.tree_outputs(trained(100, *of), *rows, oob=True) for of in settings)
    records = []
    for metric, score in {"brier": brier_score_loss, "auc": roc_auc_score}.items():
        difference = score(y, truth[0]) - score(y, truth[1])
        apart, same = (rfsize.compare(usual, outputs, metric=metric).limit for outputs in (other, again))
        low, high = apart.interval
        alone = [rfsize.oob_score(outputs, metric=metric) for outputs in (usual, other)]
        width = np.hypot(*(one.interval[1] - one.interval[0] for one in alone))
        by_two = abs(alone[0].at_all_trees - alone[1].at_all_trees) > width / 2.0
        holds, alarm = low <= difference <= high, same.better is not None
        records.append([holds, alarm, (high - low) / width, apart.better is not None, by_two])
    return records


def print_compared(options: argparse.Namespace) -> None:
    """Print a line for each metric."""
    means = np.array([compared(seed) for seed in range(options.repetitions)], dtype=float).mean(axis=0)
    print_head("metric", "holds", "one setting told apart", "width beside two scores", "told apart", "by two scores")
    for metric, (holds, alarm, width, apart, by_two) in zip(("brier", "auc"), means, strict=True):
        print_line(metric, f"{holds:.0%}", f"{alarm:.0%}", f"{width:.2f}", f"{apart:.0%}", f"{by_two:.0%}")


def main() -> None:
    """Print the table of scores, or of comparisons."""
    arguments = parser(__doc__)
    arguments.add_argument("--forests", type=int, default=14, help="of each problem and framework")
    arguments.add_argument("--compare", action="store_true", help="measure `compare`")
    arguments.add_argument("--repetitions", type=int, default=100, help="of a comparison")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    (print_compared if options.compare else print_scores)(options)


if __name__ == "__main__":
    main()
