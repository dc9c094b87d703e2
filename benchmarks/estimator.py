"""How accurate the estimates of T* from the out-of-bag votes of 50 to 1000 trees are.

    python benchmarks/estimator.py spam.csv.gz BreastCancer.csv.gz Ionosphere.csv.gz
    python benchmarks/estimator.py --frameworks LightGBM XGBoost --repetitions 3 -- spam.csv.gz
    python benchmarks/estimator.py --many --frameworks "random forest" LightGBM --repetitions 3 -- Vehicle.csv.gz

A synthetic problem draws 300 training rows, and 8000 fresh rows for the truth (or as many as --fresh says). There are
five problems of two classes; with --many there is one, waveform, of three classes. Each file is a table with the
features first and the class in its last column, named target; half of its rows train, the other half gives the truth.
The truth is T* by the plug-in estimate from the votes of 2001 trees on the rows that were not trained on (of 5001 trees
if T* is in the thousands). The votes of a table's repetitions are joined for it, since half of a small table has few
rows. The estimates use the out-of-bag votes of the first trees of the same forest.

Printed, over the repetitions: the mean (bias) and the root mean square (rms) of log(T̂*/T*), where an infinite T̂*
counts as 100 times T*, and the share of the 95 % intervals that contain T*. For each alpha: the median T*, and the
standard deviation of log T*, by the bootstrap over the rows of the truth, and over the training sets of a synthetic
problem. The line "fresh" uses all votes on 300 of the fresh rows, and shows the error that comes from 300 rows only.
The last lines are means over the problems.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from forests import forest
from problems import Rows, circle, first_wave, ringnorm, threenorm, twonorm, waveform
from sklearn.model_selection import train_test_split

import rfsize
from rfsize import Votes

TREES, MORE_TREES = 2001, 5001
HARD = ("waveform", "Vehicle")  # problems with T*(0.99) above 1000
FIRST_TREES = (50, 100, 200, 1000)
ALPHAS = (0.95, 0.99, 0.995)
TRAINING_ROWS = 300
ESTIMATORS = ("plugin", "auto")
INFINITE = 100.0
FRAMEWORKS = ("random forest", "LightGBM", "XGBoost", "XGBoost, vector leaves")
COLUMNS = 0.3  # share of the features that LightGBM samples for each tree, at least two features


class Counted(NamedTuple):
    """Votes of one forest: out of bag by number of trees, and of all trees on rows it was not trained on."""

    out_of_bag: dict[int, Votes]
    fresh: Votes


class Problem(NamedTuple):
    """A problem and how it is drawn, by seed."""

    name: str
    draw: Callable[[int], tuple[Rows, np.ndarray]]
    is_table: bool


def counted(framework: str, problem: Problem, seed: int, store: Path | None) -> Counted:
    """Train a forest and count its votes, or take those that were stored."""
    path = store and store / f"{framework}-{problem.name}-{seed}.npz".replace(" ", "_").replace(",", "")
    if path is None or not path.exists():
        (X, y), fresh = problem.draw(seed)
        n_trees = MORE_TREES if problem.name in HARD else TREES
        # If each tree knows only one of two features, half of the trees vote against the others: one row in ten ties.
        model = forest(framework, n_trees, seed, max(COLUMNS, 2.0 / X.shape[1])).fit(X, y)
        out_of_bag = {n: rfsize.tree_outputs(rfsize.truncate(model, n_trees=n), X, oob=True).votes for n in FIRST_TREES}
        found = Counted(out_of_bag, rfsize.tree_outputs(model, fresh).votes)
        if path is None:
            return found
        np.savez(path, fresh=found.fresh.counts, **{str(n): votes.counts for n, votes in out_of_bag.items()})
    with np.load(path) as stored:
        return Counted({n: Votes(stored[str(n)], n_trees=n) for n in FIRST_TREES}, Votes(stored["fresh"]))


def synthetic(problem: Callable[[int, np.random.Generator], Rows], n_fresh: int, seed: int) -> tuple[Rows, np.ndarray]:
    """Training rows, and the features of fresh ones."""
    generator = np.random.default_rng(seed)
    return problem(TRAINING_ROWS, generator), problem(n_fresh, generator)[0]


def halves(path: Path, seed: int) -> tuple[Rows, np.ndarray]:
    """One half of a table's rows for training, and the features of the other."""
    table = pd.read_csv(path)
    X = table.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float32)
    y = table["target"].astype("category").cat.codes.to_numpy()
    X, fresh, y, _ = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    return (X, y), fresh


def problems(options: argparse.Namespace) -> list[Problem]:
    """The synthetic ones, and the tables."""
    synthetics = (waveform,) if options.many else (twonorm, ringnorm, threenorm, circle, first_wave)
    return [Problem(problem.__name__, partial(synthetic, problem, options.fresh), False) for problem in synthetics] + [
        Problem(path.name.split(".")[0], partial(halves, path), True) for path in options.tables
    ]


class Truth(NamedTuple):
    """T* for each alpha, and the standard deviation of its logarithm, from the finite number of rows."""

    sizes: list[int | float]
    errors: list[float]


def truths(problem: Problem, repetitions: list[Counted]) -> list[Truth]:
    """T* of each repetition."""
    fresh = [repetition.fresh for repetition in repetitions]
    reports = [rfsize.size(votes, method="plugin") for votes in fresh]
    errors = [[spread(votes, alpha) for alpha in ALPHAS] for votes in fresh]
    if problem.is_table:
        # All halves come from the same rows: together they are worth one whole table.
        reports = [rfsize.size(reduce(Votes.concat, fresh), method="plugin")] * len(fresh)
        errors = [(np.median(errors, axis=0) / math.sqrt(min(len(fresh), 2))).tolist()] * len(fresh)
    return [
        Truth([report.size_at(alpha) for alpha in ALPHAS], error) for report, error in zip(reports, errors, strict=True)
    ]


def spread(votes: Votes, alpha: float) -> float:
    """Standard deviation of log T*, from the bootstrap's 95 % interval."""
    low, high = rfsize.size(votes, alpha=alpha, method="plugin").interval
    return math.log(high / low) / 3.92


class Outcome(NamedTuple):
    """The result of one estimate: log of its ratio to T*, whether its interval contains T*, its width, its method."""

    log_ratio: float
    covered: bool
    log_width: float
    is_smooth: bool


def outcome(votes: Votes, estimator: str, alpha: float, truth: int | float) -> Outcome:
    """Compare one estimate with the truth."""
    report = rfsize.size(votes, alpha=alpha, method=estimator)
    low, high = report.interval
    return Outcome(
        min(math.log(report.n_trees / truth), math.log(INFINITE)),
        low <= truth <= high,
        math.log(high / low) if math.isfinite(high) else math.inf,
        report._answer.estimate.name == "smooth",
    )


def compare(problem: Problem, framework: str, options: argparse.Namespace) -> np.ndarray:
    """Outcomes, shape (estimators, numbers of trees, confidences, repetitions, 4); prints what they come to."""
    seeds = range(options.seed, options.seed + options.repetitions)
    repetitions = [counted(framework, problem, seed, options.votes) for seed in seeds]
    truth = truths(problem, repetitions)
    sizes = np.array([one.sizes for one in truth])
    errors = np.median([one.errors for one in truth], axis=0)
    apart = ["" if problem.is_table else f"; {np.log(column).std(ddof=1):.2f}" for column in sizes.T]
    columns = zip(np.median(sizes, axis=0), errors, apart, strict=True)
    shown = ", ".join(f"{size:g} (± {error:.2f}{varies})" for size, error, varies in columns)
    print(f"\n{problem.name}, {framework}: T* {shown}")

    def of(votes: list[Votes], estimator: str) -> list[list[Outcome]]:
        return [
            [outcome(one, estimator, alpha, size) for one, size in zip(votes, sizes[:, i], strict=True)]
            for i, alpha in enumerate(ALPHAS)
        ]

    found = np.array(
        [[of([r.out_of_bag[n] for r in repetitions], estimator) for n in FIRST_TREES] for estimator in ESTIMATORS]
    )
    ratio = found[..., 0]
    print_lines(ESTIMATORS, ratio.mean(axis=-1), np.sqrt((ratio**2).mean(axis=-1)))
    covered = found[-1, ..., 1].mean(axis=-1)
    print("covered  " + " | ".join("  ".join(f"{share:9.0%}" for share in shares) for shares in covered))
    if not problem.is_table:
        rng = np.random.default_rng(options.seed)
        few = [r.fresh.counts[rng.choice(len(r.fresh), TRAINING_ROWS, replace=False)] for r in repetitions]
        ratio = np.array(of([Votes(counts) for counts in few], ESTIMATORS[-1]))[None, None, ..., 0]
        print_lines(("fresh",), ratio.mean(axis=-1), np.sqrt((ratio**2).mean(axis=-1)))
    return found


def print_lines(names: tuple[str, ...], bias: np.ndarray, rms: np.ndarray) -> None:
    """Bias and rms, each of shape (names, numbers of trees, confidences)."""
    for name, biases, errors in zip(names, bias, rms, strict=True):
        cells = [
            " ".join(f"{b:+.2f} {r:.2f} " for b, r in zip(*pair, strict=True))
            for pair in zip(biases, errors, strict=True)
        ]
        print(f"{name:8} " + "| ".join(cells), flush=True)


def print_summary(framework: str, outcomes: list[np.ndarray]) -> None:
    """Means over the problems, of the size of the bias and of the rms; and how the intervals did."""
    by_problem = np.stack([found[..., 0] for found in outcomes])
    print(f"\nall problems, {framework}: mean |bias| and mean rms")
    bias = np.abs(by_problem.mean(axis=-1)).mean(axis=0)
    print_lines(ESTIMATORS, bias, np.sqrt((by_problem**2).mean(axis=-1)).mean(axis=0))
    print("share of the 95 % intervals that cover T*, and their median width as a factor")
    covered = np.mean([found[..., 1].mean(axis=-1) for found in outcomes], axis=0)
    width = np.exp(np.median(np.concatenate([found[..., 2] for found in outcomes], axis=-1), axis=-1))
    for name, shares, factors in zip(ESTIMATORS, covered, width, strict=True):
        cells = [
            " ".join(f"{s:4.0%} {w:5.2f}" for s, w in zip(*pair, strict=True))
            for pair in zip(shares, factors, strict=True)
        ]
        print(f"{name:8} " + " | ".join(cells))
    is_smooth = np.concatenate([found[-1, :, 0, :, 3].ravel() for found in outcomes])
    print(f"the smooth estimate was taken for {is_smooth.sum():.0f} of {is_smooth.size} forests", flush=True)


def main() -> None:
    """Print each problem, and the means over the problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS[:1])
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--many", action="store_true", help="problems of several classes")
    parser.add_argument(
        "--fresh", type=int, default=8000, help="rows that the truth of synthetic problems is taken from"
    )
    parser.add_argument("--votes", type=Path, help="folder to keep the forests' votes in, and to take them from")
    parser.add_argument("--seed", type=int, default=100, help="of the first repetition")
    options = parser.parse_args()
    header = " ".join(f"{f'α = {alpha}':11}" for alpha in ALPHAS)
    print(f"bias and rms; {', '.join(map(str, FIRST_TREES))} trees, for each {header}")
    for framework in options.frameworks:
        outcomes = [compare(problem, framework, options) for problem in problems(options)]
        print_summary(framework, outcomes)


if __name__ == "__main__":
    main()
