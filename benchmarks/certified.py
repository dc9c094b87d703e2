"""Certified cuts and stop tables: how often they change more labels than they may, and how many trees they take.

    python benchmarks/certified.py --forests 300
    python benchmarks/certified.py --forests 0 Satellite.csv.gz spam.csv.gz
    python benchmarks/certified.py --frameworks "LightGBM, boosted" "XGBoost, boosted"

Forests have 20 to 500 trees, 15 to 255 leaves and 2 to 26 classes, by LightGBM, XGBoost and scikit-learn, on synthetic
problems and on tables with the features first and the class in their last column, named target. Each forest is cut to
certified first trees and gets two tables, of the majority vote and of averaged scores, all certified for labels at α =
0.95, 0.98 or 0.99 on 300 to 10,000 rows that it was not trained on (for a table file, on a third of its rows). Their
answers are compared with all trees on 20,000 fresh rows (another third).

"Above" is the share of cuts or tables that change more than 1 − α of the fresh rows. "Surely" is the share that changes
so many more that chance in the fresh rows does not explain it (one-sided, at 95 %). "Trees" are those kept, or used by
a row, as a share of all. "All" is the share of forests of which all trees are kept, or that certify no table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from problems import BOOSTED, Rows, forest, forests_on_tables, parser, print_head, print_line, scores
from scipy.stats import binom

import rfsize

ALPHAS, TREES, LEAVES = (0.95, 0.98, 0.99), (20, 50, 100, 200, 350, 500), (15, 31, 63, 255)
CLASSES, ROWS = (2, 2, 3, 7, 26), (300, 1000, 4000, 10_000)
TRAINED, FRESH = 2000, 20_000
MOST_TREES = 1000  # with one tree for each class and iteration


def outcomes(model: Any, rows: Any, fresh: Any, alpha: float, *, casts_votes: bool) -> Iterator[dict[str, Any]]:
    """The results of a forest's cut and tables on fresh rows; of votes only if its trees cast them."""
    average = rfsize.compile(model)
    tables: list[tuple[str, Any, dict[str, Any]]] = [("scores", average, {})]
    if casts_votes:
        tables.append(("votes", rfsize.compile(model, voting="hard"), {"voting": "hard"}))
    n_trees, n_classes = average.n_trees, len(average.classes)

    def outcome(kind: str, answers: Any, whole: Any, trees: float) -> dict[str, Any]:
        n_differ = int(np.sum(answers != whole))
        surely = bool(binom.sf(n_differ - 1, len(fresh), 1.0 - alpha) < 0.05)
        of = {"kind": kind, "alpha": alpha, "n_classes": n_classes, "n_rows": len(rows), "trees": trees / n_trees}
        differs = n_differ / len(fresh)
        return of | {"differs": differs, "above": differs > 1.0 - alpha, "surely": surely}

    try:
        kept = rfsize.size(model, rows, target="model", alpha=alpha).n_kept
    except ValueError:  # so few rows certify nothing
        kept = n_trees
    small = rfsize.compile(rfsize.truncate(model, n_trees=kept))
    yield outcome("cut", small.predict_labels(fresh), average.predict_labels(fresh), kept)
    for kind, whole, options in tables:
        try:
            stops = rfsize.StopTable.calibrate(model, rows, alpha=alpha, **options)
        except ValueError:
            yield outcome(kind, whole.predict_labels(fresh), whole.predict_labels(fresh), n_trees)
            continue
        answers, n_used = rfsize.compile(model, stops).predict_labels(fresh, return_trees=True)
        yield outcome(kind, answers, whole.predict_labels(fresh), float(n_used.mean()))


def made_forest(number: int, frameworks: list[str]) -> tuple[str, str, Any, list[Rows], float]:
    """A forest on a made problem, its rows to train, to certify and to judge on, and α."""
    generator = np.random.default_rng(number)
    framework, n_classes = frameworks[number % len(frameworks)], CLASSES[(number // 3) % 5]
    n_leaves, n_trees, n_rows = (int(generator.choice(of)) for of in (LEAVES, TREES, ROWS))
    if framework != "random forest" and n_classes > 2:
        n_trees = min(n_trees, MOST_TREES // n_classes)
    X, y = scores(TRAINED + n_rows + FRESH, n_classes, number)
    parts = [(X[part], y[part]) for part in np.split(np.arange(len(y)), [TRAINED, TRAINED + n_rows])]
    name = f"{number}: {framework}, {n_classes} classes, {n_trees} trees, {n_leaves} leaves, {n_rows:,} rows"
    return name, framework, forest(framework, n_trees, number, leaves=n_leaves), parts, ALPHAS[(number // 15) % 3]


def print_summary(name: str, group: pd.DataFrame) -> None:
    """Print what some of the cuts or tables come to."""
    all_trees = group["trees"] == 1.0
    shares = (column.mean() for column in (group["trees"], all_trees, group["above"], group["surely"]))
    print_line(name, len(group), *(f"{share:.1%}" for share in shares), f"{group['differs'].mean():.2%}")


def main() -> None:
    """Print a line for each forest, then the summary."""
    options = parser(__doc__, tables=True, forests=300).parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    made = (made_forest(number, options.frameworks) for number in range(options.forests))
    of_tables = ((*job, alpha) for job in forests_on_tables(options, 301) for alpha in (0.95, 0.99))
    records: list[dict[str, Any]] = []
    print_head("forest", "α", "cut", "scores", *([] if set(options.frameworks) <= set(BOOSTED) else ["votes"]))
    for name, framework, untrained, (train, (rows, _), (fresh, _)), alpha in (*made, *of_tables):
        model, casts_votes = untrained.fit(*train), framework not in BOOSTED
        of_forest = list(outcomes(model, rows, fresh, alpha, casts_votes=casts_votes))
        records += of_forest
        cells = (f"{record['trees']:.0%} of the trees, {record['differs']:.2%} differ" for record in of_forest)
        print_line(name, alpha, *cells)
    print()
    print_head("", "number", "trees", "all", "above", "surely", "differ")
    for kind, of_kind in pd.DataFrame(records).groupby("kind", sort=False):
        print_summary(kind, of_kind)
        for field in ("alpha", "n_rows", "n_classes"):
            for value, group in of_kind.groupby(field):
                print_summary(f"{kind}, {field} = {value:,}", group)


if __name__ == "__main__":
    main()
