"""Is the loss of a forest sized by a metric within the tolerance, for random problems, frameworks and metrics?

    python benchmarks/size_by_metric_mixed.py --forests 100

The number of a forest determines its problem (balanced, or one row in ten, twenty or fifty of class 1), framework,
training rows, trees and leaves. The forest is sized by accuracy, Brier score, AUC and log loss, each within a random
tolerance, by given rows and out of bag. The truth comes from 500 more trees of the same forest on 10,000 fresh rows:
the mean loss of disjoint forests of the chosen size against all of these trees, corrected because these are not
infinitely many. Printed, for sizes within the trees at hand: the true loss divided by the tolerance (mean, share above
1, the largest), and how many sizes are below five trees. Also printed: how many forests were called too small, could
not tell, or were refused.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from problems import clusters, few_of_many, flipped, rare
from size_by_metric import FRAMEWORKS, Rows, Truth, two_percent
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import rfsize

OTHERS, FRESH = 500, 10_000
TOLERANCES = {"accuracy": (0.002, 0.01), "brier": (0.0005, 0.003), "auc": (0.001, 0.01), "log_loss": (0.002, 0.02)}
TOLD = ("told", "too small", "cannot tell", "refused")


def spirals(n_rows: int, generator: np.random.Generator) -> Rows:
    """Two arms of a spiral in two of six columns, noise in the other four; three labels in a hundred are flipped.

    Its trees are far worse than their forest.
    """
    y, way = generator.integers(0, 2, n_rows), np.sqrt(generator.random(n_rows)) * 3.0 * np.pi
    angle = way + np.pi * y
    arms = np.c_[way * np.cos(angle), way * np.sin(angle)] + generator.normal(0.0, 0.7, (n_rows, 2))
    X = np.c_[arms, generator.normal(size=(n_rows, 4))]
    return X, np.where(generator.random(n_rows) < 0.03, 1 - y, y)


def made(share: float) -> Any:
    """scikit-learn's make_classification with 15 columns and this share of class 1."""

    def problem(n_rows: int, generator: np.random.Generator) -> Rows:
        of: dict[str, Any] = {"n_features": 15, "n_informative": 8, "weights": [1.0 - share], "class_sep": 0.8}
        # All calls draw their rows from one data set, so that they share a problem.
        X, y = make_classification(60_000, flip_y=0.02, random_state=7, **of)
        some = generator.choice(len(y), n_rows, replace=False)
        return X[some], y[some]

    return problem


PROBLEMS = {
    "spirals": spirals,
    "flipped": flipped,
    "few of many": few_of_many,
    "clusters": clusters,
    "made": made(0.5),
    "made, 10 %": made(0.1),
    "rare, 5 %": rare,
    "rare, 2 %": two_percent,
}


def drawn(number: int) -> tuple[str, str, Any, dict[str, float], tuple[Rows, Rows, Rows], int]:
    """Problem, framework, forest to be trained, tolerances, rows (training, given, fresh), and trees to be sized."""
    generator = np.random.default_rng([number, 30])
    problem, framework = list(PROBLEMS)[number % len(PROBLEMS)], FRAMEWORKS[number % len(FRAMEWORKS)]
    n_rows, n_trees = int(generator.integers(600, 2000)), int(generator.integers(80, 250))
    leaves, features = int(generator.choice([15, 31, 63, 127])), float(generator.choice([0.3, 0.5]))
    of_all: dict[str, Any] = {"random_state": number, "n_jobs": 1}
    if framework == "random forest":
        smallest = int(generator.choice([1, 3, 10]))
        model: Any = RandomForestClassifier(
            n_trees + OTHERS, min_samples_leaf=smallest, max_features=features, **of_all
        )
    elif framework == "LightGBM":
        model = LGBMClassifier(
            boosting_type="rf", n_estimators=n_trees + OTHERS, num_leaves=leaves, subsample=0.632, subsample_freq=1,
            min_child_samples=5, feature_fraction_bynode=features, verbose=-1, **of_all,
        )  # fmt: skip
    else:
        model = XGBClassifier(
            n_estimators=1, num_parallel_tree=n_trees + OTHERS, learning_rate=1, subsample=0.632, max_leaves=leaves,
            max_depth=0, grow_policy="lossguide", colsample_bynode=features, base_score=0.5, **of_all,
        )  # fmt: skip
    tolerances = {name: float(np.exp(generator.uniform(*np.log(span)))) for name, span in TOLERANCES.items()}
    rows = tuple(PROBLEMS[problem](n, generator) for n in (n_rows, int(generator.integers(1000, 3000)), FRESH))
    return problem, framework, model, tolerances, rows, n_trees  # type: ignore[return-value]


class LossOfOthers(Truth):
    """The loss against infinitely many trees."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._c: dict[str, float] = {}

    def real(self, metric: str, n_trees: int) -> float:
        """The mean loss of forests of ``n_trees`` trees."""
        if metric not in self._c:
            self._c[metric] = max(0.0, self.c(metric))
        return self.above_all(metric, n_trees) + self._c[metric] / self.n_trees


def of_forest(number: int) -> list[dict[str, Any]]:
    """The results for each metric and source of rows."""
    problem, framework, model, tolerances, (train, given, fresh), n_trees = drawn(number)
    whole = model.fit(*train)
    truth, small = LossOfOthers(whole, n_trees, *fresh), rfsize.truncate(whole, n_trees=n_trees)
    found = []
    for source, (X, y) in (("rows given", given), ("out of bag", train)):
        counted = rfsize.tree_outputs(small, X, y, oob=source == "out of bag")
        for metric, tolerance in tolerances.items():
            one = {"problem": problem, "framework": framework, "source": source, "metric": metric, "real": np.nan}
            one |= {"number": number, "tolerance": tolerance, "told": "refused", "trees": n_trees, "size": np.nan}
            found.append(one)
            try:
                report = rfsize.size(counted, metric=metric, tolerance=tolerance)
            except rfsize.exceptions.UndefinedMetricError:
                continue
            one["size"], one["interval"] = report.n_trees, report.interval
            one["told"] = "cannot tell" if np.isinf(report.n_trees) else "told" if report.enough else "too small"
            if report.enough:
                one["real"] = truth.real(metric, int(report.n_trees)) / tolerance
                low, high = (min(end, OTHERS // 2) for end in report.interval)
                one["held"] = (
                    truth.real(metric, high) <= tolerance,
                    low == 1 or truth.real(metric, low - 1) > tolerance,
                )
    return found


def table(found: list[dict[str, Any]], by: tuple[str, ...]) -> None:
    """Print one line for each value of ``by``."""
    print(
        f"\n| {' | '.join(by)} | sizes | real loss / tolerance, mean | above 1 | largest | five trees or fewer "
        f"| {', '.join(TOLD)} |\n|{'---|' * (len(by) + 6)}"
    )
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        groups[tuple(one[name] for name in by)].append(one)
    for key, of_key in sorted(groups.items()):
        told = [one for one in of_key if one["told"] == "told"]
        real: NDArray[Any] = np.array([one["real"] for one in told])
        kinds = ", ".join(str(sum(one["told"] == kind for one in of_key)) for kind in TOLD)
        numbers = f"{real.mean():.2f} | {np.mean(real > 1.0):.0%} | {real.max():.2f}" if len(real) else "– | – | –"
        few = sum(one["size"] <= 5 for one in told)
        print(f"| {' | '.join(key)} | {len(told)} | {numbers} | {few} | {kinds} |", flush=True)


def main() -> None:
    """Print the tables, and the sizes that lose most; after each forest what was found of it if it is to be stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forests", type=int, nargs="+", default=[100], help="how many, or from one to before another")
    parser.add_argument("--store", type=Path, help="a folder to keep what was found of each forest in")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: list[dict[str, Any]] = []
    for number in range(*options.forests):
        kept = options.store and options.store / f"{number}.pickle"
        if kept and kept.exists():
            found += pickle.loads(kept.read_bytes())
            continue
        of_one = of_forest(number)
        if kept:
            kept.write_bytes(pickle.dumps(of_one))
        found += of_one
    for by in (("metric", "source"), ("framework", "metric"), ("problem",)):
        table(found, by)
    told = sorted((one for one in found if one["told"] == "told"), key=lambda one: -one["real"])
    held = np.array([one["held"] for one in told])
    mean, upper, lower = np.mean([one["real"] for one in told]), *held.mean(axis=0)
    print(f"\nall: {len(told)} sizes, mean {mean:.3f}")
    print(f"upper ends of intervals within the tolerance: {upper:.1%}; sizes below lower ends beyond it: {lower:.1%}")
    for one in told[:10]:
        where = ", ".join(str(one[name]) for name in ("number", "problem", "framework", "source", "metric"))
        print(f"{where}: T* {one['size']} {one['interval']} of {one['trees']}, tolerance {one['tolerance']:.4f}, real "
              f"{one['real']:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
