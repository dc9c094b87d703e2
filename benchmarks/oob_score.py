"""How often do the intervals of `oob_score` and of `compare` contain the truth on fresh rows?

    python benchmarks/oob_score.py --forests 6
    python benchmarks/oob_score.py --compare --repetitions 40

Each forest gets a new draw of its problem, with 150 to 5,000 training rows and 30 to 300 trees; those with "few votes"
are scikit-learn's of up to 1,500 rows, with random leaves, bags of 15, 25 or 40 % of the rows or all, and often bags by
class weight. The framework's own predictions are measured on fresh rows. Printed, for each metric and each value of
what was varied: the share of the 95 % intervals that contain the metric on fresh rows, with its interval by the
bootstrap over forests; the shares that lie below it and above it; the mean distance of ``value`` and of
``at_all_trees`` from it; and the standard deviation of the latter. Distances are in units of the standard error that
the interval claims (its length divided by 3.92). "Clipped" are log losses of forests that give some row's class no
probability, of which `ForestWarning` warns.

With --compare, two settings draw different numbers of features at each split: the usual square root, and all.
scikit-learn trains forests of 100 trees with each on 1,000 rows of threenorm. The truth is the difference on 20,000
fresh rows between forests of 300 trees with other seeds. Printed: how often the 95 % interval for infinitely many trees
contains the truth; how often the interval for two forests of the same setting excludes 0; the width of the interval
beside that of two scores taken as independent; and how often each of them tells the settings apart.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from problems import (
    CORNERS,
    corner,
    forest,
    in_turn,
    losses_by_metric,
    parser,
    print_head,
    print_line,
    share_of_cases,
    threenorm,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import brier_score_loss, roc_auc_score

import rfsize

FEW_VOTES, FRESH = "few votes", 20_000


class Outcome(NamedTuple):
    """A score of one forest, and the metric on fresh rows."""

    number: int
    metric: str
    problem: str
    framework: str
    clipped: bool
    value: float
    at_all_trees: float
    low: float
    high: float
    fresh: float


def outcomes(number: int, options: argparse.Namespace) -> list[Outcome]:
    """The scores of one forest by each metric."""
    framework = (*options.frameworks, FEW_VOTES)[number // len(CORNERS) // options.forests]
    rng, has_few_votes = np.random.default_rng([number, options.seed]), framework == FEW_VOTES
    name, (X, y), (X_fresh, y_fresh) = corner(number, rng, FRESH, most=1500 if has_few_votes else 5000)
    n_trees, regression = int(np.exp(rng.uniform(*np.log([30, 300])))), y.dtype.kind == "f"
    model = forest("random forest" if has_few_votes else framework, n_trees, number, leaves=31, regression=regression)
    if has_few_votes:
        leaves = {"max_leaf_nodes": None, "min_samples_leaf": int(rng.choice([1, 1, 2, 3, 5]))}
        model.set_params(max_samples=float(rng.choice([0.15, 0.25, 0.4, 0.999])), **leaves)
        if not regression and rng.random() < 0.5:
            model.set_params(class_weight="balanced")
    model.fit(X, y)
    predicted = model.predict(X_fresh)[:, None] if regression else model.predict_proba(X_fresh)
    records = []
    with suppress(rfsize.exceptions.FewVotesError):
        outputs = rfsize.tree_outputs(model, X, y, oob=True)
        for metric, loss in losses_by_metric(y_fresh, predicted).items():
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                score = rfsize.oob_score(outputs, metric=metric)
            clipped = any("clipping" in str(warning.message) for warning in given)
            truth = 1 - loss if metric in ("auc", "average_precision", "accuracy") else loss
            of = number, metric, name, framework, clipped
            records.append(Outcome(*of, score.value, score.at_all_trees, *score.interval, truth))
    return records


def print_scores(options: argparse.Namespace) -> None:
    """Print a line for each metric, and for each value of what was varied."""
    numbers = range((len(options.frameworks) + 1) * options.forests * len(CORNERS))
    records = [outcome for of_forest in in_turn(outcomes, numbers, options) for outcome in of_forest]
    print_head("", "held", "below", "above", "`value` off", "`at_all_trees` off", "spread")
    for metric in dict.fromkeys(record.metric for record in records):
        of_metric = [record for record in records if record.metric == metric]
        print_score(f"**{metric}**", of_metric)
        for field in ("problem", "framework", "clipped"):
            for key in sorted({getattr(record, field) for record in of_metric}):
                print_score(f"{metric}, {field} {key}", [one for one in of_metric if getattr(one, field) == key])


def print_score(name: str, records: list[Outcome]) -> None:
    """A row of the table."""
    value, middle, low, high, fresh = np.array([record[5:] for record in records]).T
    error, held = np.maximum((high - low) / 3.92, 1e-12), (low <= fresh) & (fresh <= high)
    marks = share_of_cases([(record.number, mark) for record, mark in zip(records, held, strict=True)])
    off = (f"{np.mean((of - fresh) / error):+.2f}" for of in (value, middle))
    spread = f"{np.std((middle - fresh) / error):.2f}"
    print_line(name, marks, f"{np.mean(high < fresh):.1%}", f"{np.mean(low > fresh):.1%}", *off, spread)


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
    arguments.add_argument("--forests", type=int, default=6, help="of each problem and framework")
    arguments.add_argument("--seed", type=int, default=2024)
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--compare", action="store_true", help="measure `compare`")
    arguments.add_argument("--repetitions", type=int, default=100, help="of a comparison")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    (print_compared if options.compare else print_scores)(options)


if __name__ == "__main__":
    main()
