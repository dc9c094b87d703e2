"""Out-of-bag importances: seconds and memory, agreement between seeds, and whether intervals contain the truth.

    python benchmarks/importance.py [--parts speed seeds intervals] [--rows 100000] [--columns 100] [--trees 200]
        [--leaves 255] [--cases 30] [--seeds 16] [--jobs 1]

speed: a LightGBM forest on many rows and columns, by Brier score and AUC.

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
import resource
import time
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
    print_head,
    print_line,
    share_of_cases,
)

import rfsize
from rfsize.statistics.permutation import centred_ranks, top_columns

TREES, FIRST, AGAIN, MOST_TREES = 100, 3, 4, 2000  # of forests that foretell, and of size(top=FIRST)
FRESH, MOST_COLUMNS = 12_000, 8


def measure_speed(options: argparse.Namespace) -> None:
    """Print seconds and the peak of memory beyond what rows, forest and tree outputs take."""
    rng = np.random.default_rng(0)
    X, slopes = rng.normal(size=(options.rows, options.columns)), rng.exponential(size=options.columns) ** 2
    signal = (X @ slopes) / np.linalg.norm(slopes) + X[:, 0] * X[:, 1] + rng.normal(size=options.rows)
    # Columns are sampled once a tree, which takes a third of the time of sampling them at each split.
    model = forest("LightGBM", options.trees, 0, columns=0.3, n_jobs=-1).set_params(num_leaves=options.leaves)
    y = (signal > 0.0).astype(np.int64)
    model.fit(X, y)
    started = time.perf_counter()
    outputs = rfsize.tree_outputs(model, X, y, oob=True)
    print(f"tree outputs with the proof of the bags: {time.perf_counter() - started:.1f} s", flush=True)
    for metric in ("brier", "auc"):
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        rfsize.oob_importance(outputs, metric=metric)
        seconds = time.perf_counter() - started
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
        print(f"{metric}: {seconds:.1f} s, {peak:.2f} GB more", flush=True)


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


class Agreement(NamedTuple):
    """How alike forests of other seeds are; real, foretold and whether intervals hold by each of `SIMILARITIES`."""

    case: Case
    real: list[float]
    foretold: list[float]
    held: list[list[bool]]
    size: float
    in_common: float

    @classmethod
    def of(cls, number: int, options: argparse.Namespace) -> Agreement:
        """Of one case."""
        case = Case.of(number, options.seed, 0)
        of_seeds = [case.importances(TREES, 1000 * number + seed) for seed in range(options.seeds)]
        value, real, foretold, held = np.array([of.block_losses.mean(axis=0) for of in of_seeds]), [], [], []
        for similarity, top in SIMILARITIES.values():
            losses = [of.size(top=top, alpha=0.9).loss_at(TREES) for of in of_seeds]
            real.append(mean_of_pairs(similarity(value)))
            foretold.append(float(np.mean([1.0 - loss.value for loss in losses])))
            held.append([loss.interval[0] <= 1.0 - real[-1] <= loss.interval[1] for loss in losses])
        size = of_seeds[0].size(top=FIRST, alpha=0.9).n_trees
        if size > MOST_TREES:
            return cls(case, real, foretold, held, size, np.nan)
        again = [case.importances(int(size), 500_000 + 1000 * number + seed) for seed in range(AGAIN)]
        values = np.array([of.block_losses.mean(axis=0) for of in again])
        return cls(case, real, foretold, held, size, mean_of_pairs(top_columns(FIRST)(values)))


def measure_seeds(options: argparse.Namespace) -> None:
    """Print the agreement of importances between retrained forests, and the agreement that one foretells."""
    results = in_turn(Agreement.of, range(options.cases), options)
    cells = [f"{name}{what}" for name in SIMILARITIES for what in ("", ", foretold")]
    print_head("problem", "framework", "rows", *cells, "size(top=3, alpha=0.9)", "really in common")
    for case, real, foretold, _, size, in_common in results:
        cells = [f"{share:.3f}" for both in zip(real, foretold, strict=True) for share in both]
        print_line(case.name, case.framework, len(case.rows[1]), *cells, f"{size:,}", f"{in_common:.3f}")
    for place, name in enumerate(SIMILARITIES):
        held = [(number, mark) for number, result in enumerate(results) for mark in result.held[place]]
        off = [result.foretold[place] - result.real[place] for result in results]
        error = f"{np.mean(off):+.3f}, {np.sqrt(np.mean(np.square(off))):.3f} (root mean square)"
        print(f"{name}: interval holds {share_of_cases(held)}; off by {error}")
    in_common = [result.in_common for result in results if result.size <= MOST_TREES]
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


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["speed", "seeds", "intervals"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    defaults = {"rows": 100_000, "columns": 100, "trees": 200, "leaves": 255, "cases": 30, "seeds": 16, "seed": 2024}
    defaults |= {"jobs": 1}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    for part, measure in (("speed", measure_speed), ("seeds", measure_seeds), ("intervals", measure_intervals)):
        if part in options.parts:
            measure(options)


if __name__ == "__main__":
    main()
