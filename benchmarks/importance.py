"""Out-of-bag importances: agreement between seeds, and whether intervals contain the truth.

    python benchmarks/importance.py [--parts seeds intervals] [--cases 30] [--seeds 16] [--jobs 1]

seeds: problems of 150 to 1,200 rows, whose parameters are drawn anew for each case. Forests of 100 trees are trained
with ``--seeds`` seeds. Each of them foretells how alike any two are (Brier score or R²), with an interval. Their real
agreement, over all pairs, is the truth. T* of `size(top=3, alpha=0.9)` by the first forest is the size of four more
forests, which really have a share of the first three columns in common.

intervals: the same kind of cases, with 50, 100 or 200 trees, by each metric. The true importance of a column is that to
a forest with another seed and twice as many trees, on 12,000 fresh rows. Printed: how often the 95 % interval contains
it, and the median distance of the importance from it, in the standard error that the interval claims.

Intervals of shares are by the bootstrap over cases.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from problems import (
    FRAMEWORKS,
    Array,
    Rows,
    corner,
    forest,
    in_turn,
    losses_by_metric,
    mean_and_error,
    parser,
    print_head,
    print_line,
    share_of_cases,
)

import rfsize
from rfsize.statistics.permutation import centred_ranks, top_columns

TREES, FIRST, AGAIN, MOST_TREES = 100, 3, 4, 2000  # of forests that foretell, and of size(top=FIRST)
FRESH, MOST_COLUMNS = 12_000, 8


class Case(NamedTuple):
    """Rows to train on, fresh rows, and how forests are trained."""

    name: str
    framework: str
    rows: Rows
    fresh: Rows
    leaves: int
    rng: np.random.Generator

    @classmethod
    def of(cls, number: int, seed: int, fresh: int) -> Case:
        """The problem and the framework go in turn; the rest is drawn."""
        rng = np.random.default_rng([number, seed])
        name, rows, others = corner(number, rng, fresh, most=1200)
        framework, leaves = FRAMEWORKS[number % len(FRAMEWORKS)], int(rng.choice([12, 31, 80]))
        return cls(name, framework, rows, others, leaves, rng)

    @property
    def is_regression(self) -> bool:
        return self.rows[1].dtype.kind == "f"

    def trained(self, trees: int, seed: int) -> Any:
        model = forest(self.framework, trees, seed, leaves=self.leaves, regression=self.is_regression)
        return model.fit(*self.rows)

    def importances(self, trees: int, seed: int) -> rfsize.Importances:
        metric = "r2" if self.is_regression else "brier"
        return rfsize.oob_importance(self.trained(trees, seed), *self.rows, metric=metric)


SIMILARITIES = {"rank correlation": (centred_ranks, None), f"first {FIRST} in common": (top_columns(FIRST), FIRST)}


def agreement(number: int, options: argparse.Namespace) -> dict[str, Any]:
    """How alike forests of other seeds are; real, foretold and whether intervals hold by each of `SIMILARITIES`."""
    case = Case.of(number, options.seed, 0)
    of_seeds = [case.importances(TREES, 1000 * number + seed) for seed in range(options.seeds)]
    value, real, foretold, held = np.array([of.block_losses.mean(axis=0) for of in of_seeds]), [], [], []
    for similarity, top in SIMILARITIES.values():
        losses = [of.size(top=top, alpha=0.9).loss_at(TREES) for of in of_seeds]
        real.append(mean_of_pairs(similarity(value)))
        foretold.append(float(np.mean([1.0 - loss.value for loss in losses])))
        held.append([loss.interval[0] <= 1.0 - real[-1] <= loss.interval[1] for loss in losses])
    size, in_common = of_seeds[0].size(top=FIRST, alpha=0.9).n_trees, np.nan
    if size <= MOST_TREES:
        again = [case.importances(int(size), 500_000 + 1000 * number + seed) for seed in range(AGAIN)]
        in_common = mean_of_pairs(top_columns(FIRST)(np.array([of.block_losses.mean(axis=0) for of in again])))
    of_case = {"problem": case.name, "framework": case.framework, "rows": len(case.rows[1])}
    return {**of_case, "real": real, "foretold": foretold, "held": held, "size": size, "in common": in_common}


def measure_seeds(options: argparse.Namespace) -> None:
    """Print the agreement of importances between retrained forests, and the agreement that one foretells."""
    results = in_turn(agreement, range(options.cases), options)
    cells = [f"{name}{what}" for name in SIMILARITIES for what in ("", ", foretold")]
    print_head("problem", "framework", "rows", *cells, "size(top=3, alpha=0.9)", "really in common")
    for of in results:
        cells = [f"{share:.3f}" for both in zip(of["real"], of["foretold"], strict=True) for share in both]
        size = f"{of['size']:,}", f"{of['in common']:.3f}"
        print_line(of["problem"], of["framework"], of["rows"], *cells, *size)
    for place, name in enumerate(SIMILARITIES):
        held = [(number, mark) for number, of in enumerate(results) for mark in of["held"][place]]
        off = [of["foretold"][place] - of["real"][place] for of in results]
        error = f"{np.mean(off):+.3f}, {np.sqrt(np.mean(np.square(off))):.3f} (root mean square)"
        print(f"{name}: interval holds {share_of_cases(held)}; off by {error}")
    in_common = [of["in common"] for of in results if of["size"] <= MOST_TREES]
    print(f"really in common at size(top=3, alpha=0.9): {mean_and_error(in_common, '.3f')}, {len(in_common)} cases")


def mean_of_pairs(vectors: Array) -> float:
    """The mean product of two of the vectors of length 1, shape (n, n_columns)."""
    n = len(vectors)
    return round(float(((vectors.sum(axis=0) ** 2).sum() - n) / (n * (n - 1))), 12)  # 1 if all are equal


def losses_of(case: Case, model: Any, X: Array) -> dict[str, float]:
    """The loss by each metric on fresh rows, whose columns may be shuffled."""
    y = case.fresh[1]
    if case.is_regression:
        losses = losses_by_metric(y, model.predict(X)[:, None])
        return losses | {"r2": losses["rmse"] ** 2 / y.var()}
    return losses_by_metric(y, model.predict_proba(X))


def held_of_case(number: int, options: argparse.Namespace) -> list[tuple[int, tuple[str, ...], bool, float]]:
    """Of each column and metric: the case, what it is of, whether the interval holds, and how far the value is off."""
    case = Case.of(number, options.seed, FRESH)
    X, trees, records = case.fresh[0], int(case.rng.choice([50, 100, 200])), []
    outputs = rfsize.tree_outputs(case.trained(trees, number), *case.rows, oob=True)
    other, columns = case.trained(2 * trees, 10_000 + number), case.rng.permutation(X.shape[1])[:MOST_COLUMNS]
    before, true = losses_of(case, other, X), []
    for column in columns:
        shuffled = X.copy()
        shuffled[:, column] = X[case.rng.permutation(len(X)), column]
        true.append(losses_of(case, other, shuffled))
    few = 999 if case.is_regression else int(len(case.rows[1]) - np.bincount(case.rows[1]).max())
    rows = f"{'fewer than 15' if few < 15 else '15 to 99' if few < 100 else 'more'} rows outside the largest class"
    for metric in before:
        importances = rfsize.oob_importance(outputs, metric=metric, columns=columns.tolist())
        for column, after in zip(columns, true, strict=True):
            of_column = importances[f"x{column}"]
            (low, high), truth = of_column.interval, after[metric] - before[metric]
            labels = (metric, case.name, case.framework, rows, "may be noise" if of_column.is_noise else "no noise")
            away = (of_column.value - truth) / max((high - low) / 3.92, 1e-12)
            records.append((number, labels, low <= truth <= high, away))
    return records


def measure_intervals(options: argparse.Namespace) -> None:
    """Print how often intervals contain the importance to another forest on fresh rows."""
    records = [record for of_case in in_turn(held_of_case, range(options.cases), options) for record in of_case]
    print_head("", "interval holds", "median distance")
    for label in ("all", *sorted({label for record in records for label in record[1]})):
        chosen = [record for record in records if label in ("all", *record[1])]
        away = np.median([record[3] for record in chosen])
        print_line(label, share_of_cases([(number, held) for number, _, held, _ in chosen]), f"{away:+.2f}")


PARTS = {"seeds": measure_seeds, "intervals": measure_intervals}


def main() -> None:
    """Measure the parts that are asked for."""
    options = parser(__doc__, frameworks=(), parts=list(PARTS), cases=30, seeds=16, seed=2024, jobs=1).parse_args()
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
