"""Of the sizes by a metric that say "95 % sure", how many lose more than the tolerance?

    python benchmarks/sure_sizes.py --forests 120

The number of a forest determines its problem, whose parameters are drawn anew for each forest, and its framework,
training rows (300 to 8,000), trees, leaves, and two tolerances for each metric. The forest is sized out of bag. The
truth comes from 480 more trees of the same forest on at least 10,000 fresh rows (of a rare class, all its rows among
60,000; the other rows are weighted): the mean loss of disjoint forests of these trees, against the limit that forests
of 30 to 120 of them tend to, by the law c/T.

Printed: how many sizes say "sure", the share whose true loss exceeds the tolerance, with a 95 % interval by the
bootstrap over forests, and the largest true loss in tolerances. Also printed: the same for `report.upper(0.95)` where
T* is known, and the mean true loss of T* in tolerances.
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from xgboost import XGBClassifier, XGBRegressor

import rfsize
from rfsize.counting.task import Task
from rfsize.models.framework import read_forest
from rfsize.walking.leaves import leaves_by_framework

Array = NDArray[Any]
Draw = Callable[[int, np.random.Generator], tuple[Array, Array]]

OTHERS, FRESH, POOL = 480, 10_000, 60_000
SIZES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 40, 60, 80, 120])  # at which the truth is measured
MOST_FORESTS = 60  # of each size
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
FRAMEWORKS = ("LightGBM", "XGBoost", "random forest", "extra-trees")


def xor(fixed: np.random.Generator) -> Draw:
    """The sign of a product of two of several normal columns; 5 to 25 % of the labels are wrong."""
    n_columns, wrong = int(fixed.integers(3, 9)), fixed.uniform(0.05, 0.25)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n_rows, n_columns))
        return X, ((X[:, 0] * X[:, 1] > 0) ^ (rng.random(n_rows) < wrong)).astype(int)

    return draw


def heavy_tails(fixed: np.random.Generator) -> Draw:
    """Student's t with 2 or 3 degrees of freedom in ten columns; a logistic law of some of them."""
    freedom, weights = int(fixed.integers(2, 4)), fixed.normal(size=10) * (fixed.random(10) < 0.5)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.standard_t(freedom, size=(n_rows, 10))
        return X, (rng.random(n_rows) < 1 / (1 + np.exp(-np.clip(X @ weights, -30, 30)))).astype(int)

    return draw


def categories(fixed: np.random.Generator) -> Draw:
    """Four columns of 4 to 20 codes and two numbers; each pair of codes has its own chance of class 1."""
    levels = fixed.integers(4, 21, 4)
    chance = fixed.beta(0.6, 0.6 * fixed.uniform(1, 4), (levels[0], levels[1]))

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        codes = np.stack([rng.integers(0, n, n_rows) for n in levels], axis=1)
        X = np.column_stack([codes, rng.normal(size=(n_rows, 2))])
        by_row = chance[codes[:, 0], codes[:, 1]]
        return X, (rng.random(n_rows) < np.where(X[:, 4] > 1, 1 - by_row, by_row)).astype(int)

    return draw


def rare(fixed: np.random.Generator) -> Draw:
    """Class 1 is 1 to 5 % of the rows, far out by a number that depends on six of eight normal columns."""
    share, weights = fixed.uniform(0.01, 0.05), fixed.normal(size=4)

    def signal(X: Array, rng: np.random.Generator) -> Array:
        return X[:, :4] @ weights + X[:, 4] * X[:, 5] + fixed_noise * rng.logistic(size=len(X))

    fixed_noise = fixed.uniform(0.3, 1.0)
    cut = np.quantile(signal(fixed.normal(size=(200_000, 8)), fixed), 1 - share)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n_rows, 8))
        return X, (signal(X, rng) > cut).astype(int)

    return draw


def rare_islands(fixed: np.random.Generator) -> Draw:
    """Class 1 is 1 to 5 % of the rows; most of it lies on a few islands among uniform rows."""
    share, centre, n_columns = fixed.uniform(0.01, 0.05), fixed.random((int(fixed.integers(1, 6)), 6)), 6
    width, lost = fixed.uniform(0.04, 0.15), fixed.uniform(0.0, 0.3)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        y, X = (rng.random(n_rows) < share).astype(int), rng.random((n_rows, n_columns))
        some = (y == 1) & (rng.random(n_rows) > lost)
        X[some] = centre[rng.integers(0, len(centre), some.sum())] + rng.normal(0, width, (some.sum(), n_columns))
        return X, y

    return draw


def correlated(fixed: np.random.Generator) -> Draw:
    """Fifteen normal columns, each correlated with the last one; a logistic law of three with a product."""
    by, which, steep = fixed.uniform(0.7, 0.95), fixed.choice(15, 3, replace=False), fixed.uniform(0.7, 3.0)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n_rows, 15))
        for column in range(1, 15):
            X[:, column] = by * X[:, column - 1] + np.sqrt(1 - by**2) * X[:, column]
        one, other, third = X[:, which].T
        return X, (rng.random(n_rows) < 1 / (1 + np.exp(-steep * (one - other + 0.7 * third * X[:, 0])))).astype(int)

    return draw


def four_classes(fixed: np.random.Generator) -> Draw:
    """Four clouds of 60, 25, 10 and 5 % of the rows in ten columns, with heavy noise."""
    centre, freedom = fixed.normal(size=(4, 10)) * fixed.uniform(0.3, 0.9), int(fixed.integers(3, 8))

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        y = rng.choice(4, n_rows, p=[0.6, 0.25, 0.1, 0.05])
        y[:8] = np.arange(8) % 4
        return centre[y] + rng.standard_t(freedom, size=(n_rows, 10)), y

    return draw


def sectors(fixed: np.random.Generator) -> Draw:
    """A disc cut into three to nine sectors of alternating class, with noise in the angle and four useless columns."""
    n_sectors, noise = int(fixed.integers(3, 10)), fixed.uniform(0.05, 0.4)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n_rows, 6))
        angle = (np.arctan2(X[:, 0], X[:, 1]) + noise * rng.normal(size=n_rows)) / (2 * np.pi) % 1
        return X, (angle * n_sectors).astype(int) % 2

    return draw


def steps(fixed: np.random.Generator) -> Draw:
    """A number with steps and a product, and noise with long tails."""
    cut, noise = fixed.normal(size=4), fixed.uniform(0.2, 2.0)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n_rows, 8))
        return X, (X[:, :4] > cut).sum(axis=1) + X[:, 4] * X[:, 5] + noise * rng.standard_t(3, size=n_rows)

    return draw


def amounts(fixed: np.random.Generator) -> Draw:
    """A skewed positive number of correlated columns, whose noise grows with it."""
    weights, noise = fixed.normal(size=6) / 3, fixed.uniform(0.2, 0.9)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n_rows, 6)) + rng.normal(size=(n_rows, 1))
        return X, np.exp(X @ weights + noise * rng.normal(size=n_rows))

    return draw


PROBLEMS: dict[str, Callable[[np.random.Generator], Draw]] = {
    "XOR with noise": xor,
    "heavy tails": heavy_tails,
    "categories": categories,
    "rare, 1 to 5 %": rare,
    "four uneven classes": four_classes,
    "steps": steps,
    "rare islands": rare_islands,
    "correlated": correlated,
    "sectors": sectors,
    "amounts": amounts,
}


def untrained(framework: str, n_trees: int, seed: int, rng: np.random.Generator, *, regression: bool) -> Any:
    """A forest of a framework, with random leaves, columns and bags."""
    leaves, columns = int(rng.choice([12, 31, 80])), float(rng.choice([0.3, 0.6]))
    smallest, drawn = int(rng.choice([1, 2, 5])), float(rng.choice([0.5, 0.632, 0.8]))
    of_all: dict[str, Any] = {"random_state": seed, "n_jobs": 1}
    if framework == "LightGBM":
        kind: Any = LGBMRegressor if regression else LGBMClassifier
        return kind(
            boosting_type="rf", n_estimators=n_trees, num_leaves=leaves, subsample=drawn, subsample_freq=1, verbose=-1,
            min_child_samples=smallest + 1, feature_fraction_bynode=columns, **of_all,
        )  # fmt: skip
    if framework == "XGBoost":
        kind = XGBRegressor if regression else XGBClassifier
        return kind(
            n_estimators=1, num_parallel_tree=n_trees, learning_rate=1, subsample=drawn, max_leaves=leaves, max_depth=0,
            grow_policy="lossguide", colsample_bynode=columns, base_score=0.5, tree_method="hist", **of_all,
        )  # fmt: skip
    if framework == "extra-trees":
        kind = ExtraTreesRegressor if regression else ExtraTreesClassifier
        of_all["bootstrap"] = True
    else:
        kind = RandomForestRegressor if regression else RandomForestClassifier
    return kind(n_trees, min_samples_leaf=smallest, max_features=columns, **of_all)


class Truth:
    """The loss of forests of the other trees on fresh rows."""

    def __init__(self, model: Any, first: int, X: Array, y: Array, weight: Array) -> None:
        forest = read_forest(model)
        scores = leaves_by_framework(forest, forest.open(X).whole().read(0, len(X))).scores[:, first:]
        self._predictor, self._y, self._weight = Task.of(forest, X).predictor, y, weight / weight.sum()
        self._score = np.asarray(scores, dtype=np.float32)
        by_size = []
        for size in SIZES:
            forests = [slice(start, start + size) for start in range(0, OTHERS, size)][:MOST_FORESTS]
            by_size.append([self._losses(of) for of in forests])
        self.metrics = list(by_size[0][0])
        mean = {name: np.array([np.mean([of[name] for of in forests]) for forests in by_size]) for name in self.metrics}
        self._lost = {name: values - limit_of(values) for name, values in mean.items()}

    def real(self, metric: str, n_trees: float) -> float:
        """The mean loss of forests of ``n_trees`` trees; between the measured sizes T times the loss is even."""
        return float(np.interp(np.log(n_trees), np.log(SIZES), self._lost[metric] * SIZES)) / n_trees

    def _losses(self, trees: slice) -> dict[str, float]:
        mean = self._score[:, trees].mean(axis=1, dtype=np.float64)
        p, y, w = self._predictor.predictions(mean), self._y, self._weight
        if p.shape[1] == 1:
            away = p[:, 0] - y
            return {"rmse": float(np.sqrt(w @ away**2)), "mae": float(w @ np.abs(away))}
        given = p[np.arange(len(y)), y] / p.sum(axis=1)
        squares = ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1)
        eps = float(np.finfo(np.float64).eps)
        found = {
            "log_loss": float(w @ -np.log(np.clip(given, eps, 1 - eps))),
            "brier": float(w @ squares) / (2 if p.shape[1] == 2 else 1),
            "accuracy": float(w @ (self._predictor.labels(p) != y)),
        }
        return found | _ranking(p[:, 1].astype(np.float32), y, w) if p.shape[1] == 2 else found


def limit_of(values: Array) -> float:
    """The loss of infinitely many trees, by the line through the losses of the largest `SIZES` over 1/T."""
    return float(np.polyfit(1 / SIZES[SIZES >= 30], values[SIZES >= 30], 1)[1])


def _ranking(score: Array, y: Array, weight: Array) -> dict[str, float]:
    """1 minus the AUC and 1 minus the average precision."""
    _, level = np.unique(-score, return_inverse=True)
    high, low = (np.bincount(level, weight * (y == label), minlength=level.max() + 1) for label in (1, 0))
    hits, misses = np.cumsum(high), np.cumsum(low)
    auc = float(low @ (hits - high / 2)) / (hits[-1] * misses[-1])
    return {"auc": 1 - auc, "average_precision": 1 - float(high @ (hits / (hits + misses))) / hits[-1]}


def fresh_rows(draw: Draw, rng: np.random.Generator, *, is_rare: bool) -> tuple[Array, Array, Array]:
    """Rows for the truth, and their weights."""
    X, y = draw(POOL if is_rare else FRESH, rng)
    if not is_rare:
        return X, y, np.ones(len(y))
    ones, others = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    kept = others[:FRESH]
    some = np.concatenate([ones, kept])
    return X[some], y[some], np.repeat([1.0, len(others) / len(kept)], [len(ones), len(kept)])


def drawn(number: int, seed: int, problems: list[str]) -> dict[str, Any]:
    """What is known of a forest: outputs out of bag, tolerances, and the truth."""
    rng = np.random.default_rng([number, seed])
    problem, framework = problems[number % len(problems)], FRAMEWORKS[number // len(problems) % len(FRAMEWORKS)]
    draw = PROBLEMS[problem](rng)
    n_rows, n_trees = int(np.exp(rng.uniform(np.log(300), np.log(8000)))), int(np.exp(rng.uniform(*np.log([60, 320]))))
    is_rare = problem.startswith("rare")
    while True:
        X, y = draw(n_rows, rng)
        if not is_rare or y.sum() >= 8:
            break
    regression = y.dtype.kind == "f"
    model = untrained(framework, n_trees + OTHERS, number, rng, regression=regression).fit(X, y)
    truth = Truth(model, n_trees, *fresh_rows(draw, rng, is_rare=is_rare))
    outputs = rfsize.tree_outputs(rfsize.truncate(model, n_trees=n_trees), X, y, oob=True)
    scale = float(np.std(y)) if regression else 1.0
    tolerances = [
        (name, scale * float(np.exp(rng.uniform(*np.log(TOLERANCES[name])))))
        for name in truth.metrics
        for _ in range(2)
    ]
    return {"number": number, "problem": problem, "framework": framework, "n_rows": n_rows, "n_trees": n_trees,
            "n_ones": int((y != 0).sum()), "outputs": outputs, "truth": truth, "tolerances": tolerances}  # fmt: skip


def sizes_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The size by each metric, and what it really loses."""
    found, truth = [], case["truth"]
    told = {name: value for name, value in case.items() if name not in ("outputs", "truth", "tolerances")}
    for metric, tolerance in case["tolerances"]:
        one = {**told, "metric": metric, "tolerance": tolerance, "is_known": False}
        found.append(one)
        try:
            report = rfsize.size(case["outputs"], metric=metric, tolerance=tolerance)
        except rfsize.exceptions.RfsizeError:
            continue
        upper = report.upper(0.95)
        one |= {"size": report.n_trees, "upper": upper, "is_enough": report.enough}
        if np.isfinite(report.n_trees) and np.isfinite(upper):
            one["is_known"] = True
            one["real"] = truth.real(metric, report.n_trees) / tolerance
            one["real_upper"] = truth.real(metric, upper) / tolerance
            one["is_sure"] = report.n_trees >= upper
    return found


def line(name: str, of: list[dict[str, Any]], real: str) -> str:
    """How many sizes there are, and how many lose more than the tolerance."""
    by_forest: dict[int, list[float]] = defaultdict(list)
    for one in of:
        by_forest[one["number"]].append(one[real])
    if not by_forest:
        return f"| {name} | 0 | | | | |"
    beyond, n = (np.array([f(values) for values in by_forest.values()]) for f in (lambda v: sum(x > 1 for x in v), len))
    picked = np.random.default_rng(0).integers(0, len(n), (4000, len(n)))
    low, high = np.quantile(beyond[picked].sum(axis=1) / n[picked].sum(axis=1), [0.025, 0.975])
    losses = np.array([one[real] for one in of])
    share = f"{beyond.sum()} of {n.sum()} = {beyond.sum() / n.sum():.1%}"
    return f"| {name} | {len(n)} | {share} | {low:.1%} to {high:.1%} | {losses.mean():.2f} | {losses.max():.2f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forests", type=int, nargs="+", default=[120], help="how many, or from one to before another")
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--store", type=Path, help="a folder to keep counted forests in")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found, began = [], time.perf_counter()
    for number in range(*options.forests):
        kept = options.store and options.store / f"{options.seed}-{number}.pickle"
        if kept and kept.exists():
            case = pickle.loads(kept.read_bytes())
        else:
            case = drawn(number, options.seed, options.problems)
            if kept:
                case["truth"]._score = None
                kept.write_bytes(pickle.dumps(case))
        found += sizes_of(case)
    known = [one for one in found if one["is_known"]]
    sure = [one for one in known if one["is_sure"] and one["is_enough"]]
    print(f"{len(found)} sizes of {len({one['number'] for one in found})} forests, {len(known)} known\n")
    print("| | forests | true loss above the tolerance | 95 % interval | mean loss / tolerance | largest |")
    print("|---|---|---|---|---|---|")
    print(line('says "sure"', sure, "real"))
    print(line("`upper(0.95)`", known, "real_upper"))
    print(line("T*, not sure", [one for one in known if not one["is_sure"]], "real"))
    for by in ("metric", "problem", "framework"):
        for value in sorted({one[by] for one in found}):
            print(line(f"sure, {value}", [one for one in sure if one[by] == value], "real"))
    print()
    for one in sorted(sure, key=lambda one: -one["real"])[:10]:
        told = ", ".join(f"{one[name]}" for name in ("number", "problem", "framework", "n_rows", "n_ones", "metric"))
        print(f"{told}: {one['size']} of {one['n_trees']} trees, tolerance {one['tolerance']:.4f}, {one['real']:.2f}")
    print(f"\n{time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
