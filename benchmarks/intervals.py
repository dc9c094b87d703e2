"""How near are estimates of T* from few trees, and how often do their 95 % intervals contain the truth?

    python benchmarks/intervals.py
    python benchmarks/intervals.py --alpha 0.99 --voting hard --trees 50 100 200 -- spam.csv.gz
    python benchmarks/intervals.py --given 100000 --rows 4000 --problems bits clusters
    python benchmarks/intervals.py --average macro --alpha 0.95 --rows 4000 --problems rare two_percent
    python benchmarks/intervals.py --alpha 0.97 --copies 2 --groups rows copies
    python benchmarks/intervals.py --alpha 0.97 --frameworks "random forest" --class-weight balanced --problems rare

Each case draws training rows (from a table, half of its rows) and trains a forest on them. T* is estimated from the
out-of-bag votes of its first trees, or with --given from their votes on new rows. The truth is T* by the plug-in
estimate, from the votes of 1111 trees (--truth) of another seed on 8,000 --fresh rows (the other half of a table).
--columns is the share of the features that LightGBM samples for each tree, --copies how often each row occurs.

"Held" is the share of cases whose interval contains the truth. "Above, below" are the cases with the truth above or
below the interval. "Upper(0.8)" is the share of cases with the truth at most that. "Ends" is the median ratio of the
interval's ends. "Rms" is the root mean square of log(estimate / truth), where an estimate counts as 100 times the truth
at most. "Real" is the mean share of labels that forests of the estimated size change, by the truth, over 1 − α, with
its standard error; "most" is the largest without a warning. Behind shares stand their 95 % intervals of Clopper and
Pearson. "Refused" counts forests with too few votes. The last lines are over all problems.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
from problems import (
    PROBLEMS,
    TWO_CLASSES,
    Array,
    Problem,
    Rows,
    forest,
    mean_and_error,
    parser,
    print_head,
    print_line,
    split,
    tables,
)
from scipy.stats import binomtest

import rfsize
from rfsize import theory

FARTHEST = math.log(100.0)

Draw = Callable[[int, argparse.Namespace], tuple[Rows, Rows]]
Record = tuple[float, ...]  # truth, estimate, ends of the interval, upper(0.8), real over promised, whether warned of


def drawn(problem: Problem, seed: int, options: argparse.Namespace) -> tuple[Rows, Rows]:
    """Training rows, and rows that follow them."""
    generator = np.random.default_rng(seed)
    return problem(options.rows, generator), problem(options.given + options.fresh, generator)


def halves(rows: Rows, seed: int, options: argparse.Namespace) -> tuple[Rows, Rows]:
    """Half of a table to train on, and the other half."""
    return split(*rows, seed, 0.5)


def estimates(
    draw: Draw, framework: str, seed: int, options: argparse.Namespace
) -> Iterator[tuple[tuple[object, ...], Record | None]]:
    """What is estimated in one case, by trees, groups, voting, average and alpha; None if the votes are too few."""
    (X, y), (new, _) = draw(seed, options)
    given, fresh = new[: options.given], new[options.given :]
    X, y = np.tile(X, (options.copies, 1)), np.tile(y, options.copies)
    columns = max(options.columns, 2.0 / X.shape[1])  # trees that know one of two features vote against each other
    weighted = {"class_weight": options.class_weight} if options.class_weight else {}
    model, other = (
        forest(framework, n, number, columns=columns).set_params(**weighted).fit(X, y)
        for n, number in ((max(options.trees), seed), (options.truth, 1000 + seed))
    )
    many = rfsize.tree_outputs(other, fresh)
    for n_trees, groups in product(options.trees, options.groups):
        few = rfsize.truncate(model, n_trees=n_trees)
        outputs = (
            rfsize.tree_outputs(few, given)
            if options.given
            else rfsize.tree_outputs(few, X, y, oob=True, groups=groups)
        )
        for voting, average in product(options.voting, options.average):
            criterion = {"voting": voting, "average": average}
            truth = rfsize.size(many, method="plugin", **criterion)
            for alpha in options.alpha:
                record = None
                try:
                    report = rfsize.size(outputs, method=options.method, alpha=alpha, **criterion)
                    changed = truth.loss_at(int(min(report.n_trees, theory.MAX_TREES - 1))).value
                    sizes = truth.size_at(alpha), report.n_trees, *report.interval, report.upper(0.8)
                    record = *sizes, changed / (1.0 - alpha), float(bool(report.warnings))
                except rfsize.exceptions.FewVotesError:
                    pass
                yield (n_trees, groups or "", voting, average, alpha), record


def figures(records: list[Record | None]) -> list[object]:
    """What the cases come to."""
    known = [record for record in records if record is not None and math.isfinite(record[0])]
    refused = sum(record is None for record in records)
    if not known:
        return [refused, *["–"] * 9]
    truth, estimate, low, high, upper, real, warned = np.array(known, dtype=float).T
    off = np.minimum(np.log(estimate / truth), FARTHEST)
    return [
        refused, len(known), f"{np.median(truth):.0f}", share((low <= truth) & (truth <= high)),
        f"{np.sum(truth > high)}, {np.sum(truth < low)}", share(truth <= upper), f"{np.median(high / low):.1f}",
        f"{math.sqrt(np.mean(off**2)):.2f}", mean_and_error(real, ".2f"), f"{np.max(real * (1.0 - warned)):.2f}",
    ]  # fmt: skip


def share(holds: Array) -> str:
    """In how many of the cases it holds, and its 95 % interval."""
    low, high = binomtest(int(holds.sum()), len(holds)).proportion_ci()
    return f"{holds.mean():.0%} ({low:.0%} to {high:.0%})"


def main() -> None:
    """Print a line for each problem and framework, then for each framework."""
    numbers = {"repetitions": 10, "rows": 400, "given": 0, "fresh": 8000, "trees": [100], "truth": 1111, "copies": 1}
    rules = {"voting": ["hard", "soft"], "average": ["micro"], "method": "auto", "class_weight": ""}
    arguments = parser(__doc__, tables=True, alpha=[0.95, 0.99], columns=0.3, **numbers, **rules)
    arguments.add_argument("--problems", nargs="+", choices=PROBLEMS, default=[of.__name__ for of in TWO_CLASSES])
    arguments.add_argument("--groups", nargs="+", choices=("rows", "copies"), default=[None])
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    problems: dict[str, Draw] = {name: partial(drawn, PROBLEMS[name]) for name in options.problems}
    if options.tables:
        problems = {name: partial(halves, rows) for name, rows in tables(options).items()}
    kinds = ("trees", "groups", "voting", "average", "alpha")
    names = ("refused", "cases", "truth", "held", "above, below", "upper(0.8)", "ends", "rms", "real", "most")
    print_head("problem", "framework", *kinds, *names)
    for framework in options.frameworks:
        overall: dict[tuple[object, ...], list[Record | None]] = {}
        for name, draw in problems.items():
            records: dict[tuple[object, ...], list[Record | None]] = {}
            for seed in range(options.repetitions):
                for kind, record in estimates(draw, framework, seed, options):
                    records.setdefault(kind, []).append(record)
                    overall.setdefault(kind, []).append(record)
            for kind, group in records.items():
                print_line(name, framework, *kind, *figures(group))
        for kind, group in overall.items():
            print_line("**all**", framework, *kind, *figures(group))


if __name__ == "__main__":
    main()
