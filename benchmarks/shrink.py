"""Shrunken forests beside the first trees of the same forests: certified trees, and the loss of fewer trees.

    python benchmarks/shrink.py --forests 60
    python benchmarks/shrink.py --forests 0 Satellite.csv.gz spam.csv.gz
    python benchmarks/shrink.py --frameworks "LightGBM, boosted" "XGBoost, boosted"

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

import warnings
from typing import Any

import numpy as np
import pandas as pd
from problems import Rows, forest, forests_on_tables, parser, print_head, print_line, scores
from scipy.stats import binom
from sklearn.metrics import log_loss, roc_auc_score

import rfsize

TREES, LEAVES, CLASSES, ALPHAS = (300, 500), (31, 63, 255), (2, 2, 3, 7), (0.98, 0.99)
ROWS, FRESH = 5000, 20_000


def shrunk(framework: str, model: Any, parts: list[Rows], alpha: float) -> dict[str, Any]:
    """The three ways to certify, and two ways to keep a quarter."""
    (train, _), (rows, _), (fresh, y) = parts
    first = rfsize.size(model, rows, target="model", alpha=alpha)
    small, report = rfsize.shrink(model, rows, rows=train, alpha=alpha)
    halves = rfsize.shrink(model, rows, alpha=alpha)[1]
    n_differ = int(np.sum(small.predict(fresh) != model.predict(fresh)))
    quarter = report.available // 4
    few = rfsize.truncate(model, n_trees=quarter), rfsize.shrink(model, rows, rows=train, n_trees=quarter)[0]
    by = [kept.predict_proba(fresh) for kept in (model, *few)]
    losses = [log_loss(y, p, labels=model.classes_) for p in by]
    aucs = [roc_auc_score(y, p[:, 1]) if p.shape[1] == 2 else np.nan for p in by]
    sizes = {"available": report.available, "first": first.n_trees, "shrunk": report.n_trees, "halves": halves.n_trees}
    surely = bool(binom.sf(n_differ - 1, len(fresh), 1.0 - alpha) < 0.05)
    differ = {"differs": n_differ / len(fresh), "above": n_differ > (1.0 - alpha) * len(fresh), "surely": surely}
    # What the first trees lose, and the shrunken forest.
    lost = {"losses": np.array(losses[1:]) - losses[0], "aucs": aucs[0] - np.array(aucs[1:])}
    return {"framework": framework, **sizes, **differ, **lost}


def made_forest(number: int, frameworks: list[str]) -> tuple[str, str, Any, list[Rows], float]:
    """A forest on a made problem, and its rows to train, to certify and to judge on."""
    generator = np.random.default_rng(20_000 + number)
    framework, n_classes = frameworks[number % len(frameworks)], CLASSES[(number // 3) % 4]
    n_leaves = int(generator.choice(LEAVES))
    n_trees = int(generator.choice(TREES)) if n_classes == 2 or framework == "random forest" else 300 // n_classes
    X, y = scores(2 * ROWS + FRESH, n_classes, 20_000 + number)
    parts = [(X[rows], y[rows]) for rows in np.split(np.arange(len(y)), [ROWS, 2 * ROWS])]
    name = f"{number}: {framework}, {n_classes} classes, {n_leaves} leaves"
    return name, framework, forest(framework, n_trees, number, leaves=n_leaves), parts, ALPHAS[(number // 12) % 2]


def print_summary(name: str, group: pd.DataFrame) -> None:
    """What came of some of the forests."""
    cut = group[group["first"] < group["available"]]
    to_first = [(cut[of] / cut["first"]).median() for of in ("shrunk", "halves")]
    lost = [np.nanmedian([shrunk / first for first, shrunk in group[of]]) for of in ("losses", "aucs")]
    shares = (f"{group[of].mean():.1%}" for of in ("above", "surely"))
    print_line(name, len(group), *(f"{ratio:.2f}" for ratio in (*to_first, *lost)), *shares)


def main() -> None:
    """Print one line for each forest, then the summary."""
    options = parser(__doc__, tables=True, forests=60).parse_args()
    warnings.simplefilter("ignore")
    made = (made_forest(number, options.frameworks) for number in range(options.forests))
    records: list[dict[str, Any]] = []
    print_head("forest", "α", "trees", "first", "shrunk", "with halves", "differ", "a quarter: log loss", "AUC")
    for name, framework, untrained, parts, alpha in (*made, *((*job, 0.98) for job in forests_on_tables(options, 300))):
        record = shrunk(framework, untrained.fit(*parts[0]), parts, alpha)
        records.append(record)
        lost = (", ".join(f"{loss:.5f}" for loss in record[of]) for of in ("losses", "aucs"))
        sizes = (int(record[of]) for of in ("available", "first", "shrunk", "halves"))
        print_line(name, alpha, *sizes, f"{record['differs']:.2%}", *lost)
    print()
    print_head("", "forests", "shrunk / first", "with halves", "log loss lost /", "AUC lost /", "above", "surely")
    frame = pd.DataFrame(records)
    for name, group in (("all", frame), *frame.groupby("framework", sort=False)):
        print_summary(name, group)


if __name__ == "__main__":
    main()
