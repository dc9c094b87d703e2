"""Forests cut to certified first trees: how often the cut changes more than it may, and how few trees are left.

    python benchmarks/certified_cut.py --forests 300
    python benchmarks/certified_cut.py --forests 0 Satellite.csv.gz spam.csv.gz

Forests have 20 to 1000 trees, 15 to 255 leaves and 2 to 26 classes, by LightGBM, XGBoost and scikit-learn, on synthetic
problems and on tables with the features first and the class in their last column, named target. Each forest is cut for
labels at α = 0.95, 0.98 or 0.99 and for probabilities, on 300 to 10,000 rows that it was not trained on (for a table,
on a third of its rows). The cut is compared with all trees on 20,000 fresh rows (another third).

"Above" is the share of the cuts that change more than 1 − α of the fresh rows. "Surely" is the share that changes so
many more that chance in the fresh rows does not explain it (one-sided, at 95 %). The oracle knows the fresh rows: it
takes the smallest number of first trees from which on all sizes reach α on them. "Limit" is the smallest number that
would pass a single test on the same rows, at a size that the oracle names, with an even chance.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from certified import FRAMEWORKS, forest, made, thirds
from scipy.stats import binom

import rfsize
from rfsize.certifying.certificate import most_disagreements
from rfsize.certifying.promise import Promise
from rfsize.certifying.smaller_forests import FirstTrees
from rfsize.counting.training_rows import TreesOnRows

CONFIDENCE = 0.95
ALPHAS = (0.95, 0.98, 0.99)
TREES = (20, 50, 100, 200, 500, 1000)
LEAVES, CLASSES, ROWS = (15, 31, 63, 255), (2, 2, 3, 7, 26), (300, 1000, 4000, 10_000)
TRAINED, FRESH = 2000, 20_000
MOST_TREES = 1000  # with one tree for each class and iteration


class Cut(NamedTuple):
    """One forest cut by one goal."""

    forest: str
    goal: str
    n_classes: int
    n_rows: int
    available: int
    kept: int
    limit: int
    oracle: int
    differs: float
    above: bool
    surely: bool


def cut(name: str, model: Any, rows: Any, fresh: Any, alpha: float, goal: dict[str, Any]) -> Cut:
    """The certified cut of a forest, and its result on fresh rows."""
    report = rfsize.size(model, rows, target="model", alpha=alpha, confidence=CONFIDENCE, **goal)
    trees = TreesOnRows.of(model, fresh, casts_votes=True)
    labels = "labels" if not goal else goal["metric"]
    wanted = Promise(alpha, CONFIDENCE, "micro", None, labels, goal.get("tolerance", 0.0))
    seen = FirstTrees.of(trees, wanted, trees.forest.voting)
    share = seen.differing.sum(axis=0) / seen.rows.sum()
    kept, n_rows = int(report.n_trees), report.n_rows

    def fewest(level: float) -> int:
        return int(np.flatnonzero(np.append(np.inf, share) > level).max()) + 1

    differs, n_fresh = float(share[kept - 1]), int(seen.rows.sum())
    surely = bool(binom.sf(round(differs * n_fresh) - 1, n_fresh, 1.0 - alpha) < 0.05)
    limit = fewest(most_disagreements(n_rows, alpha, CONFIDENCE) / n_rows)
    n_classes = len(seen.rows)
    return Cut(
        name, f"{labels}, {alpha}", n_classes, n_rows, report.available, kept, limit, fewest(1.0 - alpha), differs,
        differs > 1.0 - alpha, surely,
    )  # fmt: skip


def made_forest(number: int) -> list[Cut]:
    """One forest on a made problem."""
    generator = np.random.default_rng(10_000 + number)
    framework = FRAMEWORKS[number % 3]
    n_classes, n_leaves = CLASSES[(number // 3) % 5], int(generator.choice(LEAVES))
    n_trees, n_rows = int(generator.choice(TREES)), int(generator.choice(ROWS))
    if framework != "random forest" and n_classes > 2:
        n_trees = min(n_trees, MOST_TREES // n_classes)
    X, y = made(TRAINED + n_rows + FRESH, n_classes, generator, 10_000 + number)
    train, rows, fresh = np.split(X, [TRAINED, TRAINED + n_rows])
    y[:n_classes] = np.arange(n_classes)  # every training set has all classes
    model = forest(framework, n_trees, n_leaves, number).fit(train, y[:TRAINED])
    name = f"{number}: {framework}, {n_classes} classes, {n_trees} trees, {n_leaves} leaves, {n_rows:,} rows"
    alpha = ALPHAS[(number // 15) % 3]
    probabilities = {"metric": "probabilities", "tolerance": 0.03}
    return [cut(name, model, rows, fresh, alpha, goal) for goal in ({}, probabilities)]


def table_forest(path: Path, framework: str, seed: int) -> list[Cut]:
    """One forest on a third of a table."""
    (train, y), (rows, _), (fresh, _) = thirds(path, seed)
    model = forest(framework, 501, 63, seed).fit(train, y)
    name = f"{path.name.split('.')[0]}, {framework}"
    return [cut(name, model, rows, fresh, alpha, {}) for alpha in (0.95, 0.99)]


def summary(what: str, some: list[Cut]) -> None:
    """Print the results of some of the cuts."""
    if some:
        shares = [np.mean([getattr(one, name) / one.available for one in some]) for name in ("kept", "limit", "oracle")]
        cells = " | ".join(f"{share:.0%}" for share in shares)
        above, surely = (np.mean([getattr(one, name) for one in some]) for name in ("above", "surely"))
        whole = np.mean([one.kept == one.available for one in some])
        print(f"| {what} | {len(some)} | {cells} | {whole:.0%} | {above:.1%} | {surely:.1%} |")


def main() -> None:
    """Print one line for each cut, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--forests", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="number of the first forest")
    options = parser.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    found: list[Cut] = []
    print("| forest | goal | kept | limit | oracle | differ on fresh rows | |\n|---|---|---|---|---|---|---|")
    jobs: list[tuple[Any, ...]] = [
        (made_forest, number) for number in range(options.first, options.first + options.forests)
    ]
    jobs += [(table_forest, path, framework, 0) for path in options.tables for framework in FRAMEWORKS]
    for function, *arguments in jobs:
        start = time.perf_counter()
        try:
            mine = function(*arguments)
        except KeyboardInterrupt:  # summarise the results so far
            break
        found += mine
        for one in mine:
            print(
                f"| {one.forest} | {one.goal} | {one.kept} | {one.limit} | {one.oracle} | {one.differs:.2%} | "
                f"{'above' if one.above else ''} | ({time.perf_counter() - start:.0f} s)",
                flush=True,
            )
    print(
        "| cuts | number | trees kept | limit | oracle | all kept | above | surely |\n|---|---|---|---|---|---|---|---|"
    )
    for kind in ("labels", "probabilities"):
        summary(kind, [one for one in found if one.goal.startswith(kind)])
    labels = [one for one in found if one.goal.startswith("labels")]
    for alpha in ALPHAS:
        summary(f"labels, α = {alpha}", [one for one in labels if one.goal.endswith(f", {alpha}")])
    for n_rows in ROWS:
        summary(f"labels, {n_rows:,} rows", [one for one in labels if one.n_rows == n_rows])
    for few, most in ((2, 2), (3, 7), (8, 26)):
        summary(f"labels, {few} to {most} classes", [one for one in labels if few <= one.n_classes <= most])


if __name__ == "__main__":
    main()
