"""How often do the intervals of `rfsize.oob_score` contain the metric of the same forest on fresh rows?

    python benchmarks/oob_score.py --forests 14 --processes 2

Each forest gets a new draw of its problem. The numbers of training rows and trees are random, from the given ones. The
framework's own predictions are measured on fresh rows. Printed, for each metric and each value of what was varied: the
share of the 95 % intervals that contain the metric on fresh rows, that lie below it and above it; the mean distance of
``value`` and of ``at_all_trees`` from it; and the standard deviation of the latter. Distances are in units of the
standard error that the interval claims (its length divided by 3.92). Forests that give a row's class no probability
have no log loss, and are left out of its lines. The problems are those of `problems.py`, and four that rfsize's tests
do not use.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from problems import Rows, ringnorm, threenorm, twonorm, waveform
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, root_mean_squared_error
from xgboost import XGBClassifier, XGBRegressor

import rfsize


def rare(n_rows: int, rng: np.random.Generator) -> Rows:
    """About 9 % of the rows in class 1, by a sum and a product of features and noise."""
    X = rng.normal(size=(n_rows, 10))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=n_rows) > 2.0).astype(int)


def noisy(n_rows: int, rng: np.random.Generator) -> Rows:
    """A tenth of the labels wrong."""
    X = rng.normal(size=(n_rows, 10))
    y = X[:, 0] + X[:, 1] * X[:, 2] > 0
    return X, np.where(rng.random(n_rows) < 0.1, ~y, y).astype(int)


def friedman(n_rows: int, rng: np.random.Generator) -> Rows:
    """Friedman's first problem: five of ten features, with unit noise."""
    X = rng.random((n_rows, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.normal(size=n_rows)


def interaction(n_rows: int, rng: np.random.Generator) -> Rows:
    """A product of two features, with more noise if a third feature is large."""
    X = rng.normal(size=(n_rows, 8))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.abs(1.0 + 0.5 * X[:, 3]) * rng.normal(size=n_rows)


CLASSES: dict[str, Callable[[int, np.random.Generator], Rows]] = {
    "twonorm": twonorm,
    "threenorm": threenorm,
    "ringnorm": ringnorm,
    "rare": rare,
    "noisy": noisy,
    "waveform": waveform,
}
NUMBERS = {"friedman": friedman, "interaction": interaction}
FRAMEWORKS = ("LightGBM", "XGBoost", "scikit-learn")


class Found(NamedTuple):
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


def forest(framework: str, n_trees: int, seed: int, *, of_numbers: bool) -> Any:
    if framework == "LightGBM":
        kind = LGBMRegressor if of_numbers else LGBMClassifier
        of: dict[str, Any] = {"subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.6, "min_child_samples": 5}
        return kind(boosting_type="rf", n_estimators=n_trees, random_state=seed, n_jobs=1, verbose=-1, **of)
    if framework == "XGBoost":
        kind = XGBRegressor if of_numbers else XGBClassifier
        of = {"subsample": 0.632, "colsample_bynode": 0.4, "reg_lambda": 1e-5, "max_depth": 8, "learning_rate": 1.0}
        return kind(n_estimators=1, num_parallel_tree=n_trees, random_state=seed, n_jobs=1, **of)
    kind = RandomForestRegressor if of_numbers else RandomForestClassifier
    return kind(n_trees, min_samples_leaf=3, random_state=seed)


def one(case: tuple[str, str, int, argparse.Namespace]) -> list[Found]:
    """The scores of one forest by each metric."""
    problem, framework, repetition, options = case
    place = [list(CLASSES | NUMBERS).index(problem), FRAMEWORKS.index(framework), repetition]
    rng = np.random.default_rng([options.seed, *place])
    n_rows, n_trees = int(rng.choice(options.rows)), int(rng.choice(options.trees))
    draw = (CLASSES | NUMBERS)[problem]
    (X, y), (X_fresh, y_fresh) = draw(n_rows, rng), draw(options.fresh, rng)
    model = forest(framework, n_trees, int(rng.integers(2**31)), of_numbers=problem in NUMBERS).fit(X, y)
    if problem in NUMBERS:
        fresh = {"rmse": root_mean_squared_error(y_fresh, model.predict(X_fresh))}
    else:
        probability = model.predict_proba(X_fresh)
        fresh = {
            "accuracy": accuracy_score(y_fresh, probability.argmax(axis=1)),
            "log_loss": log_loss(y_fresh, probability),
        }
        if probability.shape[1] == 2:
            fresh["auc"] = roc_auc_score(y_fresh, probability[:, 1])
    counted, found = rfsize.tree_outputs(model, X, y, oob=True), []
    for metric, real in fresh.items():
        try:
            score = rfsize.oob_score(counted, metric=metric)
        except ValueError:
            if metric != "log_loss":
                raise
            continue
        of = problem, framework, n_rows, n_trees, score.value, score.at_all_trees, *score.interval, real
        found.append(Found(metric, *of))
    return found


def line(of: str, found: list[Found]) -> str:
    """A row of the table."""
    value, middle, low, high, fresh = np.array([one[5:] for one in found]).T
    error = (high - low) / 3.92
    held, below, above = np.mean((low <= fresh) & (fresh <= high)), np.mean(high < fresh), np.mean(low > fresh)
    off = (middle - fresh) / error
    bias = f"{np.mean((value - fresh) / error):+.2f} | {off.mean():+.2f} | {off.std():.2f}"
    shares = " | ".join(f"{100.0 * share:.1f} %" for share in (held, below, above))
    return f"| {of} | {len(found)} | {shares} | {bias.replace('-', '−')} |"


def main() -> None:
    """Print a line for each metric, and for each value of what was varied."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forests", type=int, default=14, help="of each problem and framework")
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 600, 2000], help="to train on")
    parser.add_argument("--trees", type=int, nargs="+", default=[50, 100, 300])
    parser.add_argument("--fresh", type=int, default=50_000, help="rows to measure on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    cases = product(range(options.forests), CLASSES | NUMBERS, FRAMEWORKS)
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [(problem, framework, repetition, options) for repetition, problem, framework in cases]
        found = [score for scores in pool.map(one, jobs) for score in scores]
    print("| | scores | held | below | above | `value` off | `at_all_trees` off | spread |\n" + "|---" * 8 + "|")
    for metric in dict.fromkeys(score.metric for score in found):
        of_metric = [score for score in found if score.metric == metric]
        print(line(f"**{metric}**", of_metric))
        for field, unit in (("problem", ""), ("framework", ""), ("rows", " rows"), ("trees", " trees")):
            for value in dict.fromkeys(sorted(getattr(score, field) for score in of_metric)):
                some = [score for score in of_metric if getattr(score, field) == value]
                print(line(f"{metric}, {value}{unit}", some))


if __name__ == "__main__":
    main()
