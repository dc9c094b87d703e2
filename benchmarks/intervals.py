"""How near are estimates of T* from few trees, and how often do their 95 % intervals contain the truth?

    python benchmarks/intervals.py
    python benchmarks/intervals.py --alpha 0.99 --voting hard --trees 50 100 200 -- spam.csv.gz
    python benchmarks/intervals.py --given 100000 --rows 4000 --problems bits clusters
    python benchmarks/intervals.py --average macro --rows 1000 2000 4000 --problems one_to_five_percent islands
    python benchmarks/intervals.py --alpha 0.97 --copies 2 --groups rows copies
    python benchmarks/intervals.py --alpha 0.97 --frameworks "random forest" --class-weight balanced --problems rare

Each case draws training rows (from a table, half of its rows) and trains a forest on them. T* is estimated from the
out-of-bag votes of its first trees, or with --given from their votes on new rows. The truth is T* by the plug-in
estimate, from the votes of 1111 trees (--truth) of another seed on 8,000 --fresh rows (the other half of a table).
--columns is the share of the features that LightGBM samples for each tree, --copies how often each row occurs, --first
the seed of the first of the --repetitions, which take several --rows in turn.

"Held" is the share of cases whose interval contains the truth. "Above, below" are the cases with the truth above or
below the interval. "Upper(0.8)" is the share of cases with the truth at most that. "Ends" is the median ratio of the
interval's ends. "Rms" is the root mean square of log(estimate / truth), where an estimate counts as 100 times the truth
at most. "Real" is the mean share of labels that forests of the estimated size change, by the truth, over 1 − α, with
its standard error; "most" are the largest of all, and without a warning. Behind shares stand their 95 % intervals of
Clopper and Pearson. "Refused" counts forests with too few votes or rows. Lines over several rules of voting or α take
estimates of one training set as one case. The last are over all frameworks, by α and by how many rows get the rarest
label.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from problems import (
    CORNERS,
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
KINDS = ["trees", "groups", "voting", "average", "alpha"]
NAMES = ("refused", "cases", "truth", "held", "above, below", "upper(0.8)", "ends", "rms", "real", "most")
NUMBERS = ["truth", "estimate", "low", "high", "upper", "real", "warned", "rows"]  # rows of the rarest label


def drawn(problem: Problem, seed: int, options: argparse.Namespace) -> tuple[Rows, Rows]:
    """Training rows, and rows that follow them."""
    n_rows = options.rows[seed % len(options.rows)]
    X, y = problem(n_rows + options.given + options.fresh, np.random.default_rng(seed))
    return (X[:n_rows], y[:n_rows]), (X[n_rows:], y[n_rows:])


def halves(rows: Rows, seed: int, options: argparse.Namespace) -> tuple[Rows, Rows]:
    """Half of a table to train on, and the other half."""
    return split(*rows, seed, 0.5)


def estimates(draw: Draw, framework: str, seed: int, options: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    """What is estimated in one case: `KINDS` and `NUMBERS`, which are NaN if the votes are too few."""
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
                numbers: tuple[float, ...] = (math.nan,) * len(NUMBERS)
                try:
                    report = rfsize.size(outputs, method=options.method, alpha=alpha, **criterion)
                    changed = truth.loss_at(int(min(report.n_trees, theory.MAX_TREES - 1))).value
                    sizes = truth.size_at(alpha), report.n_trees, *report.interval, report.upper(0.8)
                    rows = min(report.estimate.details.label_shares.values()) * report.estimate.n_rows
                    if report.estimate.problem is None:
                        numbers = *sizes, changed / (1.0 - alpha), float(bool(report.warnings)), rows
                except rfsize.exceptions.FewVotesError:
                    pass
                yield n_trees, groups or "", voting, average, alpha, *numbers


def figures(records: pd.DataFrame) -> list[object]:
    """What the cases come to."""
    known = records[np.isfinite(records["truth"])]
    refused, n_cases = records["estimate"].isna().sum(), known["case"].nunique()
    if not n_cases:
        return [refused, *["–"] * 9]
    truth, estimate, low, high, upper, real, warned, _ = known[NUMBERS].to_numpy(dtype=float).T
    off, of_cases = np.minimum(np.log(estimate / truth), FARTHEST), known.groupby("case")["real"].mean()
    count = n_cases if n_cases == len(known) else f"{len(known)} of {n_cases} sets"
    return [
        refused, count, f"{np.median(truth):.0f}", share((low <= truth) & (truth <= high), n_cases),
        f"{np.sum(truth > high)}, {np.sum(truth < low)}", share(truth <= upper, n_cases),
        f"{np.median(high / low):.1f}", f"{math.sqrt(np.mean(off**2)):.2f}", mean_and_error(of_cases, ".2f"),
        f"{np.max(real):.2f}, {np.max(real * (1.0 - warned)):.2f}",
    ]  # fmt: skip


def share(holds: Array, n_cases: int) -> str:
    """In what share of the estimates it holds, and the 95 % interval for so many cases."""
    low, high = binomtest(round(holds.mean() * n_cases), n_cases).proportion_ci()
    return f"{holds.mean():.0%} ({low:.0%} to {high:.0%})"


def main() -> None:
    """Print a line for each problem and framework, for each framework, for all, and by rows of the rarest label."""
    numbers = {"repetitions": 10, "first": 0, "rows": [400], "given": 0, "fresh": 8000, "trees": [100], "truth": 1111}
    rules = {"voting": ["hard", "soft"], "average": ["micro"], "method": "auto", "copies": 1, "class_weight": ""}
    arguments = parser(__doc__, tables=True, alpha=[0.95, 0.99], columns=0.3, **numbers, **rules)
    known = PROBLEMS | {problem.__name__: problem for problem in CORNERS}
    arguments.add_argument("--problems", nargs="+", choices=known, default=[of.__name__ for of in TWO_CLASSES])
    arguments.add_argument("--groups", nargs="+", choices=("rows", "copies"), default=[None])
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    problems: dict[str, Draw] = {name: partial(drawn, known[name]) for name in options.problems}
    if options.tables:
        problems = {name: partial(halves, rows) for name, rows in tables(options).items()}
    print_head("problem", "framework", *KINDS, *NAMES)
    records = pd.DataFrame()
    for framework, (name, draw) in product(options.frameworks, problems.items()):
        of_problem = pd.DataFrame(
            [
                (name, framework, f"{name}, {framework}, {seed}", *record)
                for seed in range(options.first, options.first + options.repetitions)
                for record in estimates(draw, framework, seed, options)
            ],
            columns=["problem", "framework", "case", *KINDS, *NUMBERS],
        )
        records = pd.concat([records, of_problem])
        for kind, group in of_problem.groupby(KINDS):
            print_line(name, framework, *kind, *figures(group))
    for (framework, *kind), group in records.groupby(["framework", *KINDS]):
        print_line("**all**", framework, *kind, *figures(group))
    rows = pd.cut(records["rows"], [-1, 9.5, 49.5, math.inf], labels=["fewer than 10", "10 to 49", "50 or more"])
    for fields in (["alpha"], ["alpha", rows], [rows]):
        for kind, group in records.groupby(fields, observed=True):
            print_line("**all**", *kind, *[""] * (6 - len(kind)), *figures(group))
    print_line("**all**", *[""] * 6, *figures(records))


if __name__ == "__main__":
    main()
