"""How often do the intervals of `oob_score` and of `compare` contain the truth on fresh rows?

    python benchmarks/oob_score.py --forests 6
    python benchmarks/oob_score.py --compare --forests 2
    python benchmarks/oob_score.py --compare --unseen --forests 5

Each forest gets a new draw of its problem, with 150 to 5,000 training rows and 30 to 300 trees; those with "few votes"
are scikit-learn's of up to 1,500 rows, with random leaves, bags of 15, 25 or 40 % of the rows or all, and often bags by
class weight. The framework's own predictions are measured on fresh rows. Printed, for each metric and each value of
what was varied: the share of the 95 % intervals that contain the metric on fresh rows, with its interval by the
bootstrap over forests; the shares that lie below it and above it; the mean distance of ``value`` and of
``at_all_trees`` from it; and the standard deviation of the latter. Distances are in units of the standard error that
the interval claims (its length divided by 3.92). "Clipped" are log losses of forests that give some row's class no
probability, of which `ForestWarning` warns.

With --compare, from the seed --first on, each forest has a rival on the same rows, out of bag, with fewer leaves or, in
one case in four, only another seed; half of the others share the seed. Both forests have 100 trees, and 150 to 1,200
training rows. The truth at hand is the difference of their metrics on fresh rows. The truth of the limit is that of 500
trees of other seeds in place of each, and what forests of 100 of them lose against all is extrapolated. Printed, for
each metric and each value of what was varied: how many 95 % intervals contain the truth, at hand and of the limit, with
a 95 % interval over forests; the length of the latter beside that of two scores taken as independent; and how often it
tells settings apart, and a setting from itself. With --unseen, the problems are those by which no method was chosen.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd
from problems import (
    CORNERS,
    FRAMEWORKS,
    PROBLEMS,
    UNSEEN,
    Problem,
    Rows,
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
from rfsize.models.link import Predictor
from rfsize.statistics.named_metrics import metric_on_rows

FEW_VOTES, FRESH = "few votes", 20_000


def outcomes(number: int, options: argparse.Namespace) -> list[dict[str, Any]]:
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
            of = {"number": number, "metric": metric, "problem": name, "framework": framework, "clipped": clipped}
            of |= {"value": score.value, "at_all_trees": score.at_all_trees, "fresh": truth}
            records.append(of | dict(zip(("low", "high"), score.interval, strict=True)))
    return records


def print_scores(options: argparse.Namespace) -> None:
    """Print a line for each metric, and for each value of what was varied."""
    numbers = range((len(options.frameworks) + 1) * options.forests * len(CORNERS))
    records = pd.DataFrame(chain.from_iterable(in_turn(outcomes, numbers, options)))
    print_head("", "held", "below", "above", "`value` off", "`at_all_trees` off", "spread")
    for metric, of_metric in records.groupby("metric", sort=False):
        print_score(f"**{metric}**", of_metric)
        for field in ("problem", "framework", "clipped"):
            for key, of_key in of_metric.groupby(field):
                print_score(f"{metric}, {field} {key}", of_key)


def print_score(name: str, records: pd.DataFrame) -> None:
    """A row of the table."""
    numbers = (records[column].to_numpy() for column in ("value", "at_all_trees", "low", "high", "fresh"))
    value, middle, low, high, fresh = numbers
    error, held = np.maximum((high - low) / 3.92, 1e-12), (low <= fresh) & (fresh <= high)
    marks = share_of_cases(list(zip(records["number"], held, strict=True)))
    off = (f"{np.mean((of - fresh) / error):+.2f}" for of in (value, middle))
    spread = f"{np.std((middle - fresh) / error):.2f}"
    print_line(name, marks, f"{np.mean(high < fresh):.1%}", f"{np.mean(low > fresh):.1%}", *off, spread)


def rows_of(problem: Problem, n_rows: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to train on, with at least eight of each class, and fresh ones of the same law."""
    while True:
        X, y = problem(n_rows + FRESH, rng)
        if np.bincount(y[:n_rows], minlength=y.max() + 1).min() >= 8:
            return (X[:n_rows], y[:n_rows]), (X[n_rows:], y[n_rows:])


def compared(problem: Problem, framework: str, seed: int) -> Iterator[dict[str, Any]]:
    """The comparison of two forests by each metric, beside the truth."""
    rng = np.random.default_rng([seed, *problem.__name__.encode(), FRAMEWORKS.index(framework)])
    n_rows, fewer, share = int(rng.choice((150, 300, 600, 1200))), rng.random() < 0.75, rng.random() < 0.5
    (X, y), (X_fresh, y_fresh) = rows_of(problem, n_rows, rng)

    def forests(leaves: int, seeds: Sequence[int]) -> list[Any]:
        return [forest(framework, 100, of, leaves=leaves).fit(X, y) for of in seeds]

    def predicted(models: list[Any]) -> Any:
        return np.array([rfsize.compile(model).predict_proba(X_fresh) for model in models])

    settings = (64, 0 if share and fewer else 1), (8 if fewer else 64, 0)
    models = [forests(leaves, [seed + 1000 * of])[0] for leaves, of in settings]
    own = predicted(models)[:, None]
    others = [predicted(forests(leaves, range(10_000 + seed, 10_005 + seed))) for leaves, _ in settings[: 1 + fewer]]
    outputs = [rfsize.tree_outputs(model, X, y, oob=True) for model in models]
    for metric in ("accuracy", "log_loss", "brier", "auc")[: 4 if own.shape[-1] == 2 else 3]:
        on_rows = metric_on_rows(metric, Predictor(np.arange(own.shape[-1]), None), len(y_fresh), y_fresh, None)

        def values(predictions: Any, on_rows: Any = on_rows) -> Any:
            return on_rows.value(on_rows.truth, predictions, on_rows.weight)

        difference = np.subtract(*(values(of)[0] for of in own))
        limits = [values(of.mean(axis=0)) * 1.25 - values(of).mean() / 4.0 for of in others]
        comparison = rfsize.compare(*outputs, metric=metric)
        holds, width, apart = np.nan, np.nan, np.nan
        if comparison.limit is not None:
            low, high = comparison.limit.interval
            holds, apart = low <= limits[0] - limits[-1] <= high, comparison.limit.better is not None
            width = (high - low) / np.hypot(*(np.ptp(rfsize.oob_score(of, metric=metric).interval) for of in outputs))
        low, high = comparison.at_hand.interval
        at_hand = low <= difference <= high
        of = {"metric": metric, "problem": problem.__name__, "framework": framework, "rows": n_rows}
        of |= {"case": str((problem.__name__, framework, n_rows, seed)), "at hand": float(at_hand), "limit": holds}
        told = ("told apart", "from itself")[:: 1 if fewer else -1]
        yield of | {"width": width, told[0]: float(apart), told[1]: np.nan}


def print_compared(options: argparse.Namespace) -> None:
    """Print a line for all comparisons, for each metric, and for each value of what was varied."""
    problems = UNSEEN if options.unseen else PROBLEMS.values()
    cases = product(range(options.first, options.first + options.forests), problems, options.frameworks)
    records = pd.DataFrame(of for seed, problem, framework in cases for of in compared(problem, framework, seed))
    groups = [("**all**", records)]
    groups += [of for field in ("metric", "problem", "framework", "rows") for of in records.groupby(field)]
    print_head("", "comparisons", "at hand", "limit", "width beside two scores", "told apart", "from itself")
    for key, group in groups:
        known = [group[["case", column]].dropna() for column in ("at hand", "limit")]
        shares = [share_of_cases(list(of.itertuples(index=False, name=None))) for of in known]
        means = (f"{group[column].mean():.2f}" for column in ("width", "told apart", "from itself"))
        print_line(key, len(group), *shares, *means)


def main() -> None:
    """Print the table of scores, or of comparisons."""
    options = parser(__doc__, forests=6, seed=2024, jobs=1, compare=False, unseen=False, first=0).parse_args()
    warnings.simplefilter("ignore")
    (print_compared if options.compare else print_scores)(options)


if __name__ == "__main__":
    main()
