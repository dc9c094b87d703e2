"""Is a size by a metric large enough if the rare class has few rows?

    python benchmarks/few_rows.py --forests 120

The number of a forest determines its problem, framework, rows, trees and leaves. It is trained with 10 to 100 rows of
class 1, and as many others are given to size it on. The forest is sized by accuracy, Brier score, AUC and log loss,
each within four tolerances, by the given rows and out of bag. The truth comes from 320 more trees of the same forest on
2,000 fresh rows of class 1 and 4,000 of class 0, weighted to the class shares of the training rows. Printed, for sizes
within the trees at hand: the true loss divided by the tolerance (mean, share above 1, number above 2.5, and the
largest).
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from scipy.stats import rankdata
from size_by_metric import Rows, Truth
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import rfsize

OTHERS, FEWEST, MOST = 320, 10, 100
TOLERANCES = {"accuracy": (0.001, 0.008), "brier": (0.0004, 0.003), "auc": (0.002, 0.02), "log_loss": (0.001, 0.015)}
# Sizes at which the truth is measured, up to a sixth of the other trees; above, the loss falls like 1/T.
SIZES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64])


def shell(y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Class 1 in a shell in three of eight columns, class 0 with long tails."""
    X, n_ones = generator.standard_t(5, size=(len(y), 8)), int(y.sum())
    way = generator.normal(size=(n_ones, 3))
    way /= np.linalg.norm(way, axis=1)[:, None]
    X[y == 1, :3] = way * generator.normal(2.6, 0.35, n_ones)[:, None]
    return X


def clouds(y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Two clouds with long tails in twelve correlated columns."""
    together = np.eye(12) + np.random.default_rng(77).normal(size=(12, 12)) / 3.0
    X = generator.standard_t(4, size=(len(y), 12)) @ together
    X[:, [0, 3, 7]] += y[:, None] * np.array([1.5, -1.2, 1.0])
    return X


def products(y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Nine columns of exponential numbers; a product and a sum decide by a logistic law."""
    found = np.empty((len(y), 9))
    for label in (0, 1):
        rows, n_rows = [], int(np.sum(y == label))
        while sum(map(len, rows)) < n_rows:
            X = generator.exponential(size=(20_000, 9))
            by = 1.3 * X[:, 0] + X[:, 1] * X[:, 2] - 1.1 * X[:, 3] - 4.0
            rows.append(X[(generator.random(len(X)) < 1.0 / (1.0 + np.exp(-by))) == label])
        found[y == label] = np.concatenate([np.empty((0, 9)), *rows])[:n_rows]
    return found


def islands(y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Most of class 1 on five islands of a cube."""
    centre, X = np.random.default_rng(5).random((5, 6)), generator.random((len(y), 6))
    some = (y == 1) & (generator.random(len(y)) < 0.85)
    X[some] = centre[generator.integers(0, 5, some.sum())] + generator.normal(0.0, 0.09, (some.sum(), 6))
    return X


def genes(y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Fourteen columns of 0, 1 or 2; two pairs of columns make class 1."""
    frequency = np.random.default_rng(9).uniform(0.15, 0.5, 14)
    X, which = generator.binomial(2, frequency, (len(y), 14)).astype(np.float64), generator.random(len(y))
    X[np.ix_((y == 1) & (which < 0.45), [0, 1])] = (2.0, 0.0)
    X[np.ix_((y == 1) & (which > 0.6), [2, 3])] = (2.0, 2.0)
    return X + generator.normal(0.0, 0.05, X.shape)


def moons(y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Two half moons, and five columns of noise."""
    angle = generator.random(len(y)) * np.pi
    moon = np.where(y[:, None] == 1, np.c_[1 - np.cos(angle), 0.5 - np.sin(angle)], np.c_[np.cos(angle), np.sin(angle)])
    return np.c_[moon + generator.normal(0.0, 0.28, moon.shape), generator.normal(size=(len(y), 5))]


PROBLEMS = (shell, clouds, products, islands, genes, moons)


def rows_of(number: int, n_ones: int, n_others: int, generator: np.random.Generator) -> Rows:
    """Rows of a problem, in random order."""
    y = generator.permutation(np.repeat([1, 0], [n_ones, n_others]))
    return PROBLEMS[number % len(PROBLEMS)](y, generator), y


def untrained(number: int, n_trees: int, generator: np.random.Generator) -> Any:
    """An untrained forest of a random framework."""
    leaves, features = int(generator.choice([12, 40, 100])), float(generator.choice([0.25, 0.6]))
    smallest, of_all = int(generator.choice([1, 2, 5])), {"random_state": number, "n_jobs": 1}
    if (framework := number // len(PROBLEMS) % 3) == 2:
        return RandomForestClassifier(n_trees, min_samples_leaf=smallest, max_features=features, **of_all)
    if framework == 1:
        return XGBClassifier(
            n_estimators=1, num_parallel_tree=n_trees, learning_rate=1, subsample=0.65, max_leaves=leaves, max_depth=0,
            grow_policy="lossguide", colsample_bynode=features, base_score=0.5, **of_all,
        )  # fmt: skip
    return LGBMClassifier(
        boosting_type="rf", n_estimators=n_trees, num_leaves=leaves, subsample=0.6, subsample_freq=1, verbose=-1,
        min_child_samples=smallest + 1, feature_fraction_bynode=features, **of_all,
    )  # fmt: skip


class WeighedTruth(Truth):
    """The loss of forests of the other trees, weighted to the class shares of the training rows."""

    def __init__(self, share: float, *of: Any) -> None:
        super().__init__(*of)
        self._share = share
        self._all = self._losses(slice(None))

    def _losses(self, trees: slice) -> np.ndarray:
        mean = self._score[:, trees].mean(axis=1, dtype=np.float64)
        p, is_one = self._forest.predictor.predictions(mean)[:, -1], self._y == 1
        n_ones, n_others = is_one.sum(), (~is_one).sum()
        below = rankdata(p)[is_one].sum() - n_ones * (n_ones + 1) / 2.0
        given = np.clip(np.where(is_one, p, 1.0 - p), np.finfo(np.float64).eps, 1.0)
        by_row = np.stack([(p > 0.5) != is_one, (p - is_one) ** 2, -np.log(given)])
        by_class = self._share * by_row[:, is_one].mean(axis=1) + (1 - self._share) * by_row[:, ~is_one].mean(axis=1)
        return np.insert(by_class, 2, 1.0 - below / (n_ones * n_others))

    def _above(self, n_trees: int) -> np.ndarray:
        forests = [slice(start, start + n_trees) for start in range(0, self.n_trees - n_trees + 1, n_trees)][:10]
        return np.mean([self._losses(one) for one in forests], axis=0) - self._all

    def curves(self) -> dict[str, np.ndarray]:
        """The loss of each metric with forests of `SIZES` against infinitely many trees."""
        n_trees = self.n_trees // 8
        rest = np.maximum(0.0, self._above(n_trees) / (1.0 / n_trees - 1.0 / self.n_trees)) / self.n_trees
        return dict(zip(TOLERANCES, np.array([self._above(int(size)) + rest for size in SIZES]).T, strict=True))


def real(curve: np.ndarray, n_trees: int) -> float:
    """The loss with ``n_trees`` trees."""
    if n_trees <= 50:
        return float(np.interp(-np.log(n_trees), -np.log(SIZES[::-1]), curve[::-1]))
    large = SIZES >= 25
    return float(np.mean(curve[large] * SIZES[large])) / n_trees


def of_forest(number: int) -> list[tuple[str, str, str, float]]:
    """Metric, source, number of rows of class 1, and the true loss over the tolerance (NaN if there is no size)."""
    generator = np.random.default_rng([number, 4711])
    n_ones, n_given = (int(np.exp(generator.uniform(np.log(FEWEST), np.log(MOST)))) for _ in range(2))
    n_rows, n_trees = int(generator.integers(500, 2200)), int(generator.integers(60, 240))
    model = untrained(number, n_trees + OTHERS, generator)
    others_given = min(6000, n_given * n_rows // n_ones)
    X, y = rows_of(number, n_ones, n_rows - n_ones, generator)
    given, fresh = (rows_of(number, *of, generator) for of in ((n_given, others_given), (2000, 4000)))
    curves = WeighedTruth(n_ones / n_rows, model.fit(X, y), n_trees, *fresh).curves()
    small, found = rfsize.truncate(model, n_trees=n_trees), []
    for source, rows in (("out of bag", (X, y)), ("rows given", given)):
        try:
            outputs = rfsize.tree_outputs(small, *rows, oob=source == "out of bag")
        except rfsize.exceptions.InbagError:  # trees with a single leaf
            continue
        for metric, ends in TOLERANCES.items():
            for tolerance in np.geomspace(*ends, 4):
                try:
                    report = rfsize.size(outputs, metric=metric, tolerance=tolerance)
                except rfsize.exceptions.UndefinedMetricError:
                    continue
                lost = real(curves[metric], int(report.n_trees)) / tolerance if report.enough else np.nan
                found.append((metric, source, "10 to 49" if rows[1].sum() < 50 else "50 to 100", lost))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forests", type=int, nargs="+", default=[120], help="how many, or from one to before another")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(*options.forests):
        for metric, source, few, lost in of_forest(number):
            for key in ((metric, source), ("all", f"{few} rows"), ("all", "all")):
                groups[key].append(lost)
    print("| metric | rows | sizes, of all asked for | mean | above 1 | above 2.5 | largest |\n|" + "---|" * 7)
    for (metric, of), lost in sorted(groups.items()):
        told = np.array(lost)[np.isfinite(lost)]
        print(
            f"| {metric} | {of} | {len(told)} of {len(lost)} | {told.mean():.2f} | {np.mean(told > 1):.0%} | "
            f"{np.sum(told > 2.5)} | {told.max():.2f} |"
        )


if __name__ == "__main__":
    main()
