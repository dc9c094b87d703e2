"""Does a forest sized by a metric lose as much as its tolerance?

    python benchmarks/size_by_metric.py --splits 10

Each split draws new rows of eight known problems and trains one forest on each. Its first trees are sized: 100 trees by
5000 rows that the forest was not trained on, and 200 trees out of bag. The truth comes from its other trees on fresh
rows: the mean loss of disjoint forests of the chosen size against all of these trees, corrected because these are not
infinitely many.

Printed, as means over the splits, for forests that tell their size: the estimated c divided by the true one; how often
its interval contains the true one; the size; the true loss at that size divided by the tolerance (by c/T if the size
does not fit twice into the other trees); and the estimated scatter from seed to seed, divided by the scatter of 20
forests of the other trees. Also printed: how many forests tell their size, know only an upper bound ("most"), or have
too few trees to tell ("bent").

Give tables as paths, with the target in their last column, named target: a third of the rows trains, a third sizes, and
a third gives the truth.
"""

from __future__ import annotations

import argparse
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from forests import forest
from lightgbm import LGBMRegressor
from numpy.typing import NDArray
from problems import clusters, few_of_many, five_clouds, flipped, rare
from sklearn.datasets import make_friedman1, make_friedman3
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, mean_absolute_error, roc_auc_score
from xgboost import XGBRegressor

import rfsize
from rfsize.counting.task import Task
from rfsize.models.framework import read_forest
from rfsize.walking.leaves import leaves_by_framework

Rows = tuple[NDArray[Any], NDArray[Any]]

FRAMEWORKS = ("LightGBM", "XGBoost", "random forest")
TRAINING, GIVEN, FRESH = 2000, 5000, 10_000
ALL = slice(None)
KINDS = ("told", "most", "bent")  # outcomes of sizing
SIZED = {"rows given": 100, "out of bag": 200}


def two_percent(n_rows: int, generator: np.random.Generator) -> Rows:
    """Normal clouds in 10 dimensions; class 1 is one row in fifty, of mean 1.2 in the first five."""
    y = (generator.random(n_rows) < 0.02).astype(np.int64)
    X = generator.normal(size=(n_rows, 10))
    X[:, :5] += 1.2 * y[:, None]
    return X, y


def friedman1(n_rows: int, generator: np.random.Generator) -> Rows:
    """Friedman's first regression, with unit noise."""
    found: Rows = make_friedman1(n_rows, noise=1.0, random_state=int(generator.integers(1 << 30)))
    return found


def friedman3(n_rows: int, generator: np.random.Generator) -> Rows:
    """Friedman's third regression, an angle."""
    found: Rows = make_friedman3(n_rows, noise=0.1, random_state=int(generator.integers(1 << 30)))
    return found


# Problems, and the tolerance of each metric.
TWO_CLASSES = {"auc": 0.001, "log_loss": 0.002, "average_precision": 0.002}
PROBLEMS: dict[str, tuple[Callable[[int, np.random.Generator], Rows], dict[str, float]]] = {
    "rare, 5 %": (rare, TWO_CLASSES),
    "rare, 2 %": (two_percent, TWO_CLASSES),
    "flipped": (flipped, TWO_CLASSES),
    "few of many": (few_of_many, TWO_CLASSES),
    "clusters": (clusters, TWO_CLASSES),
    "five clouds": (five_clouds, {"log_loss": 0.002, "brier": 0.002}),
    "Friedman 1": (friedman1, {"rmse": 0.01, "mae": 0.01}),
    "Friedman 3": (friedman3, {"rmse": 0.0005, "mae": 0.0005}),
}

LOSS: dict[str, Callable[[NDArray[Any], NDArray[Any]], float]] = {
    "auc": lambda y, p: 1.0 - roc_auc_score(y, p[:, 1]),
    "average_precision": lambda y, p: 1.0 - average_precision_score(y, p[:, 1]),
    "log_loss": lambda y, p: log_loss(y, p / p.sum(axis=1, keepdims=True), labels=np.arange(p.shape[1])),
    "brier": lambda y, p: (
        brier_score_loss(y, p[:, 1])
        if p.shape[1] == 2
        else float(np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1)))
    ),
    "accuracy": lambda y, p: float(np.mean(p.argmax(axis=1) != y)),
    "rmse": lambda y, p: float(np.sqrt(np.mean((p[:, 0] - y) ** 2))),
    "mae": lambda y, p: mean_absolute_error(y, p[:, 0]),
}


def untrained(framework: str, n_trees: int, seed: int, *, regression: bool) -> Any:
    """A forest with the usual settings; scikit-learn's has leaves of 5 rows, so that the log loss is finite."""
    if framework == "random forest":
        kind = RandomForestRegressor if regression else RandomForestClassifier
        return kind(n_trees, min_samples_leaf=5, random_state=seed, max_features=1 / 3)
    model = forest(framework, n_trees, seed, 0.5)
    if not regression:
        return model
    given = {name: value for name, value in model.get_params().items() if name not in ("objective", "class_weight")}
    return (LGBMRegressor if framework == "LightGBM" else XGBRegressor)(**given)


class Truth:
    """The loss of forests of the other trees on fresh rows, against all other trees."""

    def __init__(self, model: Any, first: int, X: NDArray[Any], y: NDArray[Any]) -> None:
        forest = read_forest(model)
        scores = leaves_by_framework(forest, forest.open(X).whole().read(0, len(X))).scores[:, first:]
        self._forest, self._y = Task.of(forest, X), y
        self._score = np.asarray(scores, dtype=np.float32)
        self.n_trees = self._score.shape[1]

    def _loss(self, metric: str, trees: slice, rows: slice = ALL) -> float:
        mean = self._score[rows, trees].mean(axis=1, dtype=np.float64)
        return LOSS[metric](self._y[rows], self._forest.predictor.predictions(mean))

    def of_a_tree(self, metric: str, n_rows: int) -> float:
        """Scatter of disjoint forests of a twentieth of the trees on ``n_rows`` rows, scaled to one tree.

        A standard deviation; the root of the mean of its square over all parts of so many rows.
        """
        n_trees = self.n_trees // 20
        forests = [slice(start, start + n_trees) for start in range(0, 20 * n_trees, n_trees)]
        parts = [slice(start, start + n_rows) for start in range(0, len(self._y) - n_rows + 1, n_rows)]
        variances = [np.var([self._loss(metric, one, some) for one in forests], ddof=1) for some in parts]
        return float(np.sqrt(np.mean(variances) * n_trees))

    def above_all(self, metric: str, n_trees: int) -> float:
        """Mean loss of disjoint forests of ``n_trees`` trees, minus the loss of all trees."""
        forests = [slice(start, start + n_trees) for start in range(0, self.n_trees - n_trees + 1, n_trees)]
        return float(np.mean([self._loss(metric, one) for one in forests[:20]])) - self._loss(metric, ALL)

    def c(self, metric: str) -> float:
        """The true c, from eighths of the trees."""
        n_trees = self.n_trees // 8
        return self.above_all(metric, n_trees) / (1.0 / n_trees - 1.0 / self.n_trees)


def one_split(
    framework: str, problem: str, rows: tuple[Rows, Rows, Rows], tolerances: dict[str, float], split: int, others: int
) -> list[tuple[tuple[str, str, str, str], dict[str, Any]]]:
    """The results for each source of rows and metric."""
    train, given, fresh = rows
    regression = "rmse" in tolerances
    whole = untrained(framework, max(SIZED.values()) + others, split, regression=regression).fit(*train)
    truth = Truth(whole, max(SIZED.values()), *fresh)
    found = []
    for metric, tolerance in tolerances.items():
        c = truth.c(metric)
        for source, n_trees in SIZED.items():
            small = rfsize.truncate(whole, n_trees=n_trees)
            of = {"metric": metric, "tolerance": tolerance}
            X, y = train if source == "out of bag" else given
            report = rfsize.size(small, X, y, oob=source == "out of bag", **of)
            real = np.nan
            if np.isfinite(report.n_trees):
                is_held = 2 * report.n_trees <= truth.n_trees
                above = truth.above_all(metric, report.n_trees) if is_held else 0.0
                real = above + c / truth.n_trees if is_held else c / report.n_trees
            estimate = report.loss_at(10**6).value * 1e6
            upper = report.upper(0.95)
            told = "bent" if np.isinf(report.n_trees) else "most" if report.n_trees >= upper else "told"
            low, high = report.loss_at(10**6).interval
            one = {
                "real": real / tolerance,
                "c": estimate / c,
                "true": c,
                "size": report.n_trees,
                "told": told,
                "spread": report.loss_at(1).spread / truth.of_a_tree(metric, min(len(y), len(fresh[1]))),
                "covered": low <= c / 1e6 <= high,
            }
            found.append(((problem, framework, source, metric), one))
    return found


def rows_of_tables(paths: list[Path]) -> dict[str, tuple[Callable[[int], tuple[Rows, Rows, Rows]], dict[str, float]]]:
    """Tables cut in three, by split."""
    found: dict[str, Any] = {}
    for path in paths:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target").to_numpy(float), table["target"].astype("category").cat.codes.to_numpy()

        def cut(split: int, X: NDArray[Any] = X, y: NDArray[Any] = y) -> Any:
            order = np.array_split(np.random.default_rng(split).permutation(len(y)), 3)
            return tuple((X[some], y[some]) for some in order)

        two = len(np.unique(y)) == 2
        found[path.name.split(".")[0]] = cut, TWO_CLASSES if two else {"log_loss": 0.002, "brier": 0.002}
    return found


def drawn(problem: Callable[[int, np.random.Generator], Rows], split: int) -> tuple[Rows, Rows, Rows]:
    """Rows to train on, to size by, and for the truth."""
    generator = np.random.default_rng(split)
    train, given, fresh = (problem(n_rows, generator) for n_rows in (TRAINING, GIVEN, FRESH))
    return train, given, fresh


def table(found: dict[tuple[str, str, str, str], list[dict[str, Any]]]) -> None:
    """Print one line for each problem, framework, source of rows and metric."""
    print(
        "| problem | framework | rows | metric | true c | c / true c | held by 95 % interval | T* "
        "| real loss / tolerance | spread / true spread | told, most, bent |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for key, all_found in sorted(found.items()):
        told, most, bent = ([one for one in all_found if one["told"] == kind] for kind in KINDS)

        def mean(of: list[dict[str, Any]], name: str) -> str:
            return f"{np.mean([one[name] for one in of]):.3g}" if of else "–"

        print(
            f"| {' | '.join(key)} | {mean(all_found, 'true')} | {mean(told, 'c')} | "
            f"{sum(one['covered'] for one in told)} of {len(told)} | "
            f"{mean(told, 'size')} | {mean(told, 'real')} | {mean([*told, *most, *bent], 'spread')} | "
            f"{len(told)}, {len(most)}, {len(bent)} |",
            flush=True,
        )


def summary(found: dict[tuple[str, str, str, str], list[dict[str, Any]]]) -> None:
    """Print one line for each framework, source of rows and metric: means over problems, and the worst of them."""
    print(
        "\n| framework | rows | metric | c / true c, from and to | real loss / tolerance | on the worst problem "
        "| spread / true spread, from and to | told, most, bent |\n|---|---|---|---|---|---|---|---|"
    )
    by_metric: dict[tuple[str, ...], list[list[dict[str, Any]]]] = defaultdict(list)
    for (_, *key), of_problem in sorted(found.items()):
        by_metric[tuple(key)].append(of_problem)
    for key, problems in sorted(by_metric.items()):
        told = [[one for one in problem if one["told"] == "told"] for problem in problems]
        ratio, real = ([np.mean([one[name] for one in of]) for of in told if of] for name in ("c", "real"))
        kinds = [sum(one["told"] == kind for of in problems for one in of) for kind in KINDS]
        measured = (
            f"{min(ratio):.2f} to {max(ratio):.2f} | {np.mean(real):.2f} | {max(real):.2f}" if real else "– | – | –"
        )
        spread = [np.mean(of) for of in ([one["spread"] for one in of if "spread" in one] for of in problems) if of]
        ranges = f"{min(spread):.2f} to {max(spread):.2f}"
        print(f"| {' | '.join(key)} | {measured} | {ranges} | {', '.join(map(str, kinds))} |")


def main() -> None:
    """Print the table, after each split what was found in it if it is to be stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS)
    parser.add_argument("--splits", type=int, nargs="+", default=[10], help="how many, or from one to before another")
    parser.add_argument("--others", type=int, default=1000, help="trees that tell the truth")
    parser.add_argument("--store", type=Path, help="a folder to keep what was found of each split in")
    options = parser.parse_args()
    problems: dict[str, Any] = {
        name: (lambda split, problem=problem: drawn(problem, split), tolerances)
        for name, (problem, tolerances) in PROBLEMS.items()
        if name in options.problems
    }
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for split in range(*options.splits):
        for problem, (rows, tolerances) in (problems | rows_of_tables(options.tables)).items():
            for framework in options.frameworks:
                kept = options.store and options.store / f"{problem}-{framework}-{split}.pickle"
                if kept and kept.exists():
                    one = pickle.loads(kept.read_bytes())
                else:
                    one = one_split(framework, problem, rows(split), tolerances, split, options.others)
                if kept:
                    kept.write_bytes(pickle.dumps(one))
                for key, values in one:
                    found[key].append(values)
    table(found)
    summary(found)


if __name__ == "__main__":
    main()
