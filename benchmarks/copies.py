"""If training rows have copies, is T* equal to that of fresh rows, and which treatment is right?

    python benchmarks/copies.py                          # twonorm, ringnorm and the first wave; rows of few values
    python benchmarks/copies.py spam.csv.gz DNA.csv.gz   # your own tables, split into training and fresh rows

Rows are drawn, then repeated in three ways: not at all; each row twice; or the rows of the rarer class until both
classes have equally many (every third row of class 1 is kept). T*(0.97) is read from the out-of-bag votes of a forest
on these rows, with each row as its own group and with copies as groups. The truth comes from the same forest's votes on
fresh rows. "Right" counts the repetitions in which the interval contains the truth.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from forests import forest
from problems import Rows, first_wave, ringnorm, split, twonorm

import rfsize

ALPHA, TREES, TRAINING, FRESH = 0.97, 500, 2000, 5000


def few_values(n_rows: int, generator: np.random.Generator) -> Rows:
    """Twelve columns of two or three values; a third of them depend on the class."""
    y = generator.integers(0, 2, n_rows)
    chance = np.linspace(0.2, 0.5, 12)
    X = (generator.random((n_rows, 12)) < chance + np.where(np.arange(12) < 4, 0.25, 0.0) * y[:, None]).astype(float)
    X[:, ::3] += generator.random((n_rows, 4)) < 0.1
    return X, y


def categories_and_age(n_rows: int, generator: np.random.Generator) -> Rows:
    """Five columns of three values, and one of whole numbers from 17 to 89; the class depends on all."""
    X = np.column_stack([generator.integers(0, 3, (n_rows, 5)), generator.integers(17, 90, n_rows)]).astype(float)
    chance = 1.0 / (1.0 + np.exp(-(X[:, 0] - 1.0 + (X[:, 5] - 53.0) / 15.0)))
    return X, (generator.random(n_rows) < chance).astype(np.int64)


CONTINUOUS = (twonorm, ringnorm, first_wave)
OF_FEW_VALUES = (few_values, categories_and_age)


def rare(X: np.ndarray, y: np.ndarray) -> Rows:
    """Every third row of class 1."""
    kept = (y == 0) | (np.cumsum(y) % 3 == 0)
    return X[kept], y[kept]


def repeated(kind: str, X: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> Rows:
    """Training rows with copies."""
    if kind == "twice":
        return np.concatenate([X, X]), np.concatenate([y, y])
    if kind == "oversampled":
        more = generator.choice(np.flatnonzero(y == 1), int((y == 0).sum() - (y == 1).sum()))
        return np.concatenate([X, X[more]]), np.concatenate([y, y[more]])
    return X, y


def drawn(problem: Callable[[int, np.random.Generator], Rows]) -> Callable[[int], tuple[Rows, Rows]]:
    """Training and fresh rows of a synthetic problem, by seed."""

    def draw(seed: int) -> tuple[Rows, Rows]:
        generator = np.random.default_rng(seed)
        return problem(TRAINING, generator), problem(FRESH, generator)

    return draw


def of_table(path: Path) -> Callable[[int], tuple[Rows, Rows]]:
    """Two thirds and one third of a table, by seed; of its classes, the first against the others."""
    table = pd.read_csv(path)
    X, y = table.drop(columns="target").fillna(-1).to_numpy(dtype=float), table["target"].astype("category").cat.codes
    return lambda seed: split(X, (y == y.mode()[0]).to_numpy(dtype=np.int64), seed)


def sizes_by_groups(framework: str, kind: str, data: tuple[Rows, Rows], seed: int) -> tuple[float, ...]:
    """T* by rows and by copies, and whether each interval holds the truth; then the truth."""
    (X, y), (fresh, fresh_y) = data
    if kind == "oversampled":
        (X, y), (fresh, _) = rare(X, y), rare(fresh, fresh_y)
    X, y = repeated(kind, X, y, np.random.default_rng(seed))
    model = forest(framework, TREES, seed, 0.5).fit(X, y)
    goal = {"alpha": ALPHA, "voting": "hard"}
    truth = rfsize.size(model, fresh, **goal).n_trees
    reports = [rfsize.size(model, X, oob=True, groups=groups, **goal) for groups in ("rows", "copies")]
    right = [report.interval[0] <= truth <= report.interval[1] for report in reports]
    return (*(report.n_trees for report in reports), *right, truth)


def main() -> None:
    """Print one line per problem, framework and kind of copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--frameworks", nargs="+", default=["random forest", "LightGBM", "XGBoost"])
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    problems = {path.name.split(".")[0]: of_table(path) for path in options.tables}
    if not problems:
        problems = {problem.__name__: drawn(problem) for problem in (*CONTINUOUS, *OF_FEW_VALUES)}
    print(
        f"{'problem':20} {'framework':14} {'copies':12} {'rows alone':>10} {'right':>6} {'copies':>7} {'right':>6} "
        f"{'truth':>6}   (medians)"
    )
    for name, draw in problems.items():
        for framework in options.frameworks:
            for kind in ("none", "twice", "oversampled"):
                sizes = [sizes_by_groups(framework, kind, draw(seed), seed) for seed in range(options.repetitions)]
                alone, copies, alone_right, copies_right, truth = np.array(sizes, dtype=float).T
                print(
                    f"{name:20} {framework:14} {kind:12} {np.median(alone):>10.0f} "
                    f"{alone_right.sum():>4.0f}/{len(sizes)} "
                    f"{np.median(copies):>7.0f} {copies_right.sum():>4.0f}/{len(sizes)} {np.median(truth):>6.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
