"""How accurate is T* of the macro average, from 100 trees, if a class is rare?

    python benchmarks/macro.py
    python benchmarks/macro.py --forests 10 --problems two_percent

Four problems with a rare class, of two or five classes, are run with three frameworks. Forests of 100 trees, each with
its own seed on the same training rows, are sized out of bag and on given rows, by majority vote and by averaged scores.
The truth is the plug-in estimate from a forest of 2000 other trees on 30,000 fresh rows. It serves for out of bag too,
since training rows differ from fresh ones only in having few rows of the rare class.

Columns: the share of the labels that go to the rarest class; T* of the micro average and of the macro average; mean and
standard deviation of the logarithm of estimate over truth; and how many of the 95 % intervals contain the truth.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import forests
import numpy as np
from problems import Rows

import rfsize

FRAMEWORKS = ("LightGBM", "XGBoost", "random forest")
TREES, TRUE_TREES, COLUMNS = 100, 2000, 1.0  # all columns, since LightGBM would sample them by tree
TRAINING_ROWS, GIVEN_ROWS, FRESH_ROWS = 4000, 10_000, 30_000
ALPHAS = (0.95, 0.99)


def two_percent(n_rows: int, generator: np.random.Generator) -> Rows:
    """Normal clouds in 10 dimensions; class 1 is one row in fifty, of mean 1.5 in the first five."""
    return _clouds(n_rows, generator, [0.98, 0.02], 1.5)


def six_percent(n_rows: int, generator: np.random.Generator) -> Rows:
    """The problem `two_percent` with six rows in a hundred of class 1."""
    return _clouds(n_rows, generator, [0.94, 0.06], 1.5)


def tails(n_rows: int, generator: np.random.Generator) -> Rows:
    """Class 1, about one row in twenty, by a logistic law of three of eight normal columns and a product."""
    X = generator.normal(size=(n_rows, 8))
    logit = 2.5 * X[:, 0] + 2.0 * X[:, 1] + 1.5 * X[:, 2] * X[:, 3] - 7.0
    return X, (generator.random(n_rows) < 1.0 / (1.0 + np.exp(-logit))).astype(np.int64)


def rare_of_five(n_rows: int, generator: np.random.Generator) -> Rows:
    """Five normal clouds in 10 dimensions; the last class is one row in fifty."""
    return _clouds(n_rows, generator, [0.4, 0.3, 0.18, 0.1, 0.02], 1.8)


PROBLEMS: dict[str, Callable[[int, np.random.Generator], Rows]] = {
    one.__name__: one for one in (two_percent, six_percent, tails, rare_of_five)
}


def _clouds(n_rows: int, generator: np.random.Generator, shares: list[float], apart: float) -> Rows:
    """Normal clouds: class k is shifted in its own columns, class 0 in none."""
    y = generator.choice(len(shares), n_rows, p=shares)
    X = generator.normal(size=(n_rows, 10))
    width = 5 if len(shares) == 2 else 2
    for k in range(1, len(shares)):
        X[y == k, width * (k - 1) : width * k] += apart
    return X, y


def main(names: list[str], n_forests: int) -> None:
    """Print the table."""
    print("problem, framework, voting, rarest class | alpha, T* micro, macro | out of bag | rows given")
    for name in names:
        for framework in FRAMEWORKS:
            compare(name, framework, n_forests)


def compare(name: str, framework: str, n_forests: int) -> None:
    """Lines of the table of one problem and framework."""
    generator = np.random.default_rng(2026)
    (X, y), (given, _), (fresh, _) = (
        PROBLEMS[name](rows, generator) for rows in (TRAINING_ROWS, GIVEN_ROWS, FRESH_ROWS)
    )
    large = rfsize.tree_outputs(forests.forest(framework, TRUE_TREES, 1, COLUMNS).fit(X, y), fresh)
    small = [forests.forest(framework, TREES, 100 + seed, COLUMNS).fit(X, y) for seed in range(n_forests)]
    counted = [
        [rfsize.tree_outputs(one, X, y, oob=True) for one in small],
        [rfsize.tree_outputs(one, given) for one in small],
    ]
    for voting in ("hard", "soft"):
        truth = rfsize.size(large, voting=voting, average="macro", method="plugin")
        for alpha in ALPHAS:
            size = truth.size_at(alpha)
            judged = [_judged(each, voting, alpha, size) for each in counted]
            shares = min(truth._answer.label_shares.values())
            sizes = f"{alpha}, {rfsize.size(large, voting=voting, alpha=alpha, method='plugin').n_trees}, {size}"
            print(f"{name}, {framework}, {voting}, {shares:.1%} | {sizes} | {' | '.join(judged)}", flush=True)


def _judged(counted: list[rfsize.TreeOutputs], voting: str, alpha: float, truth: float) -> str:
    reports = [rfsize.size(one, voting=voting, average="macro", alpha=alpha) for one in counted]
    off = np.array([math.log(report.n_trees / truth) for report in reports])
    held = sum(report.interval[0] <= truth <= report.interval[1] for report in reports)
    return f"{off.mean():+.2f} ± {off.std(ddof=1):.2f}, {held} of {len(reports)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--forests", type=int, default=5)
    arguments = parser.parse_args()
    main(arguments.problems, arguments.forests)
