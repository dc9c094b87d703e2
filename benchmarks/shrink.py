"""Shrunken forests compared with the first trees of the same forests: certified trees, and the loss of fewer trees.

    python benchmarks/shrink.py --forests 60
    python benchmarks/shrink.py --forests 0 Satellite.csv.gz spam.csv.gz

Forests have 300 or 500 trees, 31 to 255 leaves and 2 to 7 classes, by LightGBM, XGBoost and scikit-learn. They are
trained on 5,000 rows of synthetic problems, and on tables with the features first and the class in their last column,
named target. Each forest is certified for labels at α = 0.98 or 0.99, on 5,000 rows that it was not trained on (for a
table, on a third of its rows), in three ways: its first trees (``size(target="model")``); shrunk, with the training
rows to choose and refit on; and shrunk, with half of the 5,000 rows to choose and refit on.

On 20,000 fresh rows (another third) it is counted whether the shrunken forest changes more than 1 − α of the labels
("above"), and so many more that chance in the fresh rows does not explain it ("surely", at 95 %). Printed too: how much
log loss, and for two classes how much AUC, a quarter of the trees loses: the first trees, and those that ``shrink``
returns.
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
from sklearn.metrics import log_loss, roc_auc_score

import rfsize

TREES, LEAVES, CLASSES, ALPHAS = (300, 500), (31, 63, 255), (2, 2, 3, 7), (0.98, 0.99)
ROWS, FRESH = 5000, 20_000


class Shrunk(NamedTuple):
    """One forest, shrunk."""

    forest: str
    framework: str
    available: int
    first: int
    shrunk: int
    halves: int
    differs: float
    above: bool
    surely: bool
    log_loss_first: float
    log_loss_shrunk: float
    auc_first: float
    auc_shrunk: float
    seconds: float


def shrunk(name: str, framework: str, model: Any, parts: tuple[Any, ...], alpha: float) -> Shrunk:
    """What is certified of a forest, and what that is worth on fresh rows."""
    (train, _), (rows, _), (fresh, y) = parts
    first = rfsize.size(model, rows, target="model", alpha=alpha)
    start = time.perf_counter()
    small, report = rfsize.shrink(model, rows, rows=train, alpha=alpha)
    seconds = time.perf_counter() - start
    halves = rfsize.shrink(model, rows, alpha=alpha)[1]
    differs = float(np.mean(small.predict(fresh) != model.predict(fresh)))
    surely = bool(binom.sf(round(differs * len(fresh)) - 1, len(fresh), 1.0 - alpha) < 0.05)
    quarter = report.available // 4
    cut = rfsize.truncate(model, n_trees=quarter)
    few, _ = rfsize.shrink(model, rows, rows=train, n_trees=quarter)
    by = [one.predict_proba(fresh) for one in (model, cut, few)]
    losses = [log_loss(y, found, labels=model.classes_) for found in by]
    aucs = [roc_auc_score(y, found[:, 1]) if len(model.classes_) == 2 else np.nan for found in by]
    return Shrunk(
        name, framework, report.available, int(first.n_trees), int(report.n_trees), int(halves.n_trees), differs,
        differs > 1.0 - alpha, surely, losses[1] - losses[0], losses[2] - losses[0], aucs[0] - aucs[1],
        aucs[0] - aucs[2], seconds,
    )  # fmt: skip


def made_forest(number: int) -> Shrunk:
    """One forest on a made problem."""
    generator = np.random.default_rng(20_000 + number)
    framework = FRAMEWORKS[number % 3]
    n_classes, n_leaves = CLASSES[(number // 3) % 4], int(generator.choice(LEAVES))
    n_trees = int(generator.choice(TREES)) if n_classes == 2 or framework == "random forest" else 300 // n_classes
    X, y = made(2 * ROWS + FRESH, n_classes, generator, 20_000 + number)
    y[:n_classes] = np.arange(n_classes)  # every training set has all classes
    parts = tuple((X[rows], y[rows]) for rows in np.split(np.arange(len(y)), [ROWS, 2 * ROWS]))
    model = forest(framework, n_trees, n_leaves, number).fit(*parts[0])
    alpha = ALPHAS[(number // 12) % 2]
    name = f"{number}: {framework}, {n_classes} classes, {n_leaves} leaves, α = {alpha}"
    return shrunk(name, framework, model, parts, alpha)


def table_forest(path: Path, framework: str) -> Shrunk:
    """One forest on a third of a table."""
    parts = tuple(thirds(path, 0))
    n_trees = 500 if parts[0][1].max() == 1 or framework == "random forest" else 100
    model = forest(framework, n_trees, 63, 0).fit(*parts[0])
    return shrunk(f"{path.name.split('.')[0]}, {framework}, α = 0.98", framework, model, parts, 0.98)


def line(one: Shrunk) -> str:
    """A line of the table."""
    auc = "" if np.isnan(one.auc_first) else f"{one.auc_first:.4f}, {one.auc_shrunk:.4f}"
    marks = " above" * one.above + ", surely" * one.surely
    return (
        f"| {one.forest} | {one.available} | {one.first} | {one.shrunk} | {one.halves} | {one.differs:.2%}{marks} | "
        f"{one.log_loss_first:.5f}, {one.log_loss_shrunk:.5f} | {auc} | {one.seconds:.0f} |"
    )


def summary(what: str, some: list[Shrunk]) -> None:
    """What came of some of the forests."""
    if not some:
        return
    cut = [one for one in some if one.first < one.available]
    to_first = [np.median([getattr(one, name) / one.first for one in cut]) for name in ("shrunk", "halves")]
    worse = np.mean([one.shrunk > one.first for one in some])
    of_loss = np.median([one.log_loss_shrunk / one.log_loss_first for one in some])
    two = [one for one in some if not np.isnan(one.auc_first)]
    of_auc = np.median([one.auc_shrunk / one.auc_first for one in two]) if two else np.nan
    above, surely = (np.mean([getattr(one, name) for one in some]) for name in ("above", "surely"))
    shares = " | ".join(f"{share:.2f}" for share in (*to_first, of_loss, of_auc))
    print(f"| {what} | {len(some)} | {shares} | {worse:.0%} | {above:.1%} | {surely:.1%} |", flush=True)


def main() -> None:
    """Print one line for each forest, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--forests", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first forest")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    jobs: list[tuple[Any, ...]] = [
        (made_forest, number) for number in range(options.first, options.first + options.forests)
    ]
    jobs += [(table_forest, path, framework) for path in options.tables for framework in FRAMEWORKS]
    print("| forest | trees | first | shrunk | with halves | differ | a quarter: log loss | AUC | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    found: list[Shrunk] = []
    for function, *arguments in jobs:
        found.append(function(*arguments))
        print(line(found[-1]), flush=True)
    print("\n| | forests | shrunk / first | with halves | log loss lost / | AUC lost / | worse | above | surely |")
    print("|---|---|---|---|---|---|---|---|---|")
    summary("all", found)
    for framework in FRAMEWORKS:
        summary(framework, [one for one in found if one.framework == framework])


if __name__ == "__main__":
    main()
