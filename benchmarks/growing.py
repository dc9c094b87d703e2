"""Does training stop at the size that 5000 trees would give, and what does it cost?

    python benchmarks/growing.py BreastCancer.csv.gz Ionosphere.csv.gz Vehicle.csv.gz DNA.csv.gz spam.csv.gz
    python benchmarks/growing.py --cost
    python benchmarks/growing.py --cost --rows 20000 --trees 300 --leaves 31 [--data [--metric auc]]

Each file is a table with the features first and the class in its last column, named target; without one, 1,500 rows of
twonorm are drawn. Four fifths of the rows train. For each of a few seeds, and for majority vote and averaged scores,
two numbers are compared: T*(α) when `rfsize.SizeCallback` (LightGBM) or `rfsize.grow` (XGBoost) stops, and T*(α) of a
forest of 5000 trees with the same parameters, seed and rows. Both use out-of-bag votes. Printed: geometric means over
the seeds; the mean of log(stopped at / T* of 5000 trees), with its standard error; and the trees trained, as a multiple
of T* of 5000 trees. At least 100 trees are trained.

--trees is the size of the large forest, by default 5000. With --cost, trainings of 1000 --trees with --leaves on
--rows, with and without the callback, alternate; with --data it gets the rows. Alpha is out of reach, so no training
stops early. CPU time is valid with OMP_NUM_THREADS=1 and OMP_WAIT_POLICY=PASSIVE, without which threads of LightGBM
that wait use the processor. Two equal trainings differ by several per cent, so the CPU time inside the callback is
measured too, as a share of the training around it. Then the least CPU time of `rfsize.size` out of bag.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from typing import Any

import lightgbm as lgb
import numpy as np
from problems import Rows, forest, interactions, mean_and_error, parser, print_head, print_line, split, tables, twonorm

import rfsize

SIZES: dict[str, dict[str, Any]] = {"labels": {}, "labels, with y": {}, "AUC": {"metric": "auc", "tolerance": 0.001}}

Stop = tuple[float, float, float]  # T* at which a training stopped, trees trained by then, T* of the large forest


def stops(framework: str, rows: Rows, seed: int, options: argparse.Namespace) -> list[Stop]:
    """Where training stops, by majority vote and by averaged scores."""
    (X, y), _ = split(*rows, 0, 0.2)
    large = forest(framework, options.trees, seed).fit(X, y)
    outputs = rfsize.tree_outputs(large, X, oob=True)
    sizes = []
    for voting in ("hard", "soft"):
        criterion: dict[str, Any] = {"alpha": options.alpha, "voting": voting}
        if framework == "LightGBM":
            callback = rfsize.SizeCallback(**criterion)
            forest(framework, options.trees, seed).fit(X, y, callbacks=[callback])
            report = callback.report_
        else:
            _, report = rfsize.grow(forest(framework, 100, seed), X, y, max_trees=options.trees, **criterion)
        of_large = rfsize.size(outputs, **criterion).n_trees
        sizes.append((min(report.n_trees, options.trees), report.available, min(of_large, options.trees)))
    return sizes


def print_stops(options: argparse.Namespace) -> None:
    """Print one line per table, framework and rule of voting."""
    data = tables(options) or {"twonorm": twonorm(1500, 0)}
    print_head("table", "framework", "voting", "stopped at", "T* of all", "log of the ratio", "trained / T*")
    means: dict[str, list[float]] = {"hard": [], "soft": []}
    for (name, rows), framework in product(data.items(), options.frameworks):
        seeds = np.array([stops(framework, rows, seed, options) for seed in range(options.repetitions)], dtype=float)
        for place, voting in enumerate(means):
            size, trained, large = seeds[:, place].T
            logs = np.log(size / large)
            means[voting].append(logs.mean())
            sizes = (f"{np.exp(np.log(of).mean()):.0f}" for of in (size, large))
            print_line(name, framework, voting, *sizes, mean_and_error(logs, "+.2f"), f"{np.mean(trained / large):.1f}")
    for voting, logs in means.items():
        print(f"{voting}: log of the ratio, mean over the lines {mean_and_error(logs, '+.2f')}")


class Timed(rfsize.SizeCallback):
    """A callback that knows the CPU time it has taken."""

    seconds = 0.0

    def __call__(self, env: lgb.callback.CallbackEnv) -> None:
        start = time.process_time()
        super().__call__(env)
        self.seconds += time.process_time() - start


def print_cost(options: argparse.Namespace) -> None:
    """Print what the callback adds to wall and CPU time, and its own share of it."""
    X, y = interactions(options.rows, np.random.default_rng(0))
    ratios, shares, given = [], [], {"data": X if options.data else None}
    given |= {"alpha": 0.999999} if options.metric == "labels" else {"metric": options.metric, "tolerance": 1e-7}
    for _ in range(options.repetitions):
        callback = Timed(**given)
        seconds = []
        for callbacks in ([], [callback]):
            model = forest("LightGBM", options.trees, 0, leaves=options.leaves, n_jobs=-1)
            start = np.array([time.perf_counter(), time.process_time()])
            model.fit(X, y, callbacks=callbacks)
            seconds.append(np.array([time.perf_counter(), time.process_time()]) - start)
        ratios.append(seconds[1] / seconds[0] - 1.0)
        shares.append(callback.seconds / (seconds[1][1] - callback.seconds))
    wall, cpu = np.median(ratios, axis=0)
    print(f"SizeCallback adds {wall:.1%} of wall time, {cpu:.1%} of CPU time (medians of {len(shares)} pairs)")
    print(f"The callback itself takes {np.median(shares):.1%} of CPU time")
    for what, criterion in SIZES.items():
        seconds = []
        for _ in range(options.repetitions):
            start = time.process_time()
            rfsize.size(model, X, None if what == "labels" else y, oob=True, **criterion)
            seconds.append(time.process_time() - start)
        print(f"size by {what} takes {min(seconds):.2f} s of CPU time")


def main() -> None:
    """Print where training stops, or what the callback costs."""
    numbers = {"alpha": 0.99, "repetitions": 5, "trees": 0, "rows": 100_000, "leaves": 255}
    others = {"cost": False, "data": False, "metric": "labels"}
    options = parser(__doc__, tables=True, frameworks=("LightGBM", "XGBoost"), **numbers, **others).parse_args()
    options.trees = options.trees or (1000 if options.cost else 5000)
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    (print_cost if options.cost else print_stops)(options)


if __name__ == "__main__":
    main()
