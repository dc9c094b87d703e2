"""How accurate the estimates of T* for averaged scores from the out-of-bag scores of 50 to 1000 trees are.

    python benchmarks/soft_estimator.py spam.csv.gz BreastCancer.csv.gz Ionosphere.csv.gz
    python benchmarks/soft_estimator.py --many --frameworks LightGBM --repetitions 3 -- Vehicle.csv.gz DNA.csv.gz
    python benchmarks/soft_estimator.py --normal --frameworks LightGBM XGBoost -- spam.csv.gz

Problems and output are those of benchmarks/estimator.py, with 8000 fresh rows. The truth is T* by the plug-in estimate
from the scores of 2001 trees. With --rows, synthetic problems have more than 300 training rows.

With --normal, the assumption behind the estimates is tested. 5 to 201 trees are drawn from all 2001. Their disagreement
with the mean of all trees is divided by the disagreement of the normal law, on the fresh rows of each problem (3000 of
a synthetic one), in 400 draws; each draw takes the same trees for all rows. With several classes, the normal law is
applied to each rival, and both the product and the sum over the rivals are compared.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any, NamedTuple

import estimator
import numpy as np
from estimator import ALPHAS, COLUMNS, FIRST_TREES, FRAMEWORKS, INFINITE, TREES, Problem, print_lines, print_summary
from forests import forest
from scipy.special import ndtr

import rfsize
from rfsize.counting.outputs import outputs_of
from rfsize.counting.sums import Scores
from rfsize.counting.task import Task
from rfsize.estimation import soft
from rfsize.models.framework import read_forest
from rfsize.walking.leaves import leaves_by_framework

PARTS = ("asked", "mean", "scatter")
SIZES, DRAWS = (5, 11, 21, 41, 61, 101, 201), 400
ESTIMATORS = ("plugin", "auto")


class Scored(NamedTuple):
    """Scores of one forest: out of bag by number of trees, and of all trees on rows it was not trained on."""

    out_of_bag: dict[int, Scores]
    fresh: Scores
    cut: float


def trained(framework: str, problem: Problem, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A forest, the features of its training rows, and the features of fresh rows."""
    (X, y), fresh = problem.draw(seed)
    return forest(framework, TREES, seed, max(COLUMNS, 2.0 / X.shape[1])).fit(X, y), X, fresh


def scored(framework: str, problem: Problem, seed: int, options: argparse.Namespace) -> Scored:
    """Train a forest and gather its scores, or take those that were stored."""
    name = f"{framework}-{problem.name}-{'' if problem.is_table else options.rows}-{seed}.npz"
    path = options.scores and options.scores / name.replace(" ", "_").replace(",", "")
    if path is not None and path.exists():
        with np.load(path) as stored:
            by_trees = {n: Scores(*(stored[f"{n}-{part}"] for part in PARTS)) for n in (*FIRST_TREES, TREES)}
            return Scored(by_trees, by_trees.pop(TREES), float(stored["cut"]))
    model, X, fresh = trained(framework, problem, seed)

    def out_of_bag(n_trees: int) -> Scores:
        return outputs_of(Task.of(rfsize.truncate(model, n_trees=n_trees), X, oob=True)).scores

    whole = outputs_of(Task.of(model, fresh))
    found = Scored({n: out_of_bag(n) for n in FIRST_TREES}, whole.scores, whole.predictor.raw_threshold)
    if path is not None:
        by_trees = {**found.out_of_bag, TREES: found.fresh}
        arrays = {f"{n}-{part}": getattr(scores, part) for n, scores in by_trees.items() for part in PARTS}
        np.savez(path, cut=found.cut, **arrays)
    return found


def outcome(scores: Scores, cut: float, name: str, truth: list[int | float]) -> list[tuple[float, ...]]:
    """For each alpha: log of the ratio to T*, whether the interval contains T*, its width, and the method used."""
    found = soft.ESTIMATORS[name](scores, cut)
    outcomes = []
    for alpha, size in zip(ALPHAS, truth, strict=True):
        estimate = found.size(alpha)
        curves = found.replicates(estimate)
        low, high = curves.quantile(alpha, 0.025), curves.quantile(alpha, 0.975)
        low, high = min(low, estimate), max(high, estimate)
        outcomes.append(
            (
                min(math.log(estimate / size), math.log(INFINITE)),
                low <= size <= high,
                math.log(high / low) if math.isfinite(high) else math.inf,
                found.name == "smooth",
            )
        )
    return outcomes


def compare(problem: Problem, framework: str, options: argparse.Namespace) -> np.ndarray:
    """Outcomes, shape (estimators, numbers of trees, confidences, repetitions, 4); prints what they come to."""
    repetitions = [
        scored(framework, problem, seed, options) for seed in range(options.seed, options.seed + options.repetitions)
    ]
    fresh = [repetition.fresh for repetition in repetitions]
    if problem.is_table:
        fresh = [Scores.stacked(fresh)] * len(fresh)
    whole = [soft.plug_in(one, repetition.cut) for one, repetition in zip(fresh, repetitions, strict=True)]
    truth = [[one.size(alpha) for alpha in ALPHAS] for one in whole]
    print(f"\n{problem.name}, {framework}: T* " + " ".join(f"{size:g}" for size in np.median(truth, axis=0)))
    found = np.array(
        [
            [
                [outcome(r.out_of_bag[n], r.cut, name, sizes) for r, sizes in zip(repetitions, truth, strict=True)]
                for n in FIRST_TREES
            ]
            for name in ESTIMATORS
        ]
    ).transpose(0, 1, 3, 2, 4)
    ratio = found[..., 0]
    print_lines(ESTIMATORS, ratio.mean(axis=-1), np.sqrt((ratio**2).mean(axis=-1)))
    covered = found[-1, ..., 1].mean(axis=-1)
    print("covered  " + " | ".join("  ".join(f"{share:9.0%}" for share in shares) for shares in covered))
    return found


def ratios_to_the_normal_law(problem: Problem, framework: str, seed: int) -> tuple[list[float], list[float]]:
    """True disagreement with all trees over that of the normal law, by size; for product and sum over the rivals."""
    model, _, fresh = trained(framework, problem, seed)
    forest = read_forest(model)
    rows = forest.open(fresh)
    score = leaves_by_framework(forest, rows.whole().read(0, rows.n_rows)).scores.astype(np.float32)
    cut = forest.raw_threshold(0.5) if score.shape[2] == 1 else 0.0
    leads = soft.Leads.of(Scores.of(score), cut).lead
    estimate = soft.SoftLeads(leads, np.ones(len(leads)))

    def said(mean: np.ndarray) -> np.ndarray:
        return mean[:, 0] > cut if mean.shape[1] == 1 else mean.argmax(axis=1)

    limit = said(score.mean(axis=1))
    rng = np.random.default_rng(seed)
    by_product, by_sum = [], []
    for size in SIZES:
        near = leads.min(axis=1) < 5.0 / math.sqrt(size)
        close = score[near]
        differs = [
            np.mean(said(close[:, some].mean(axis=1)) != limit[near]) for some in rng.integers(0, TREES, (DRAWS, size))
        ]
        real = float(np.mean(differs) * near.mean())
        by_product.append(real / estimate.disagreement(size))
        by_sum.append(real / float(ndtr(-math.sqrt(size) * leads).sum(axis=1).mean()))
    return by_product, by_sum


def main() -> None:
    """Print each problem, and the means over the problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS[:1])
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--many", action="store_true", help="problems of several classes")
    parser.add_argument("--scores", type=Path, help="folder to keep the forests' scores in, and to take them from")
    parser.add_argument("--rows", type=int, default=300, help="training rows of a synthetic problem")
    parser.add_argument("--normal", action="store_true", help="how well the normal law holds")
    parser.add_argument("--seed", type=int, default=100, help="of the first repetition")
    options = parser.parse_args()
    estimator.TRAINING_ROWS, options.fresh = options.rows, 3000 if options.normal else 8000
    header = " ".join(f"{f'α = {alpha}':11}" for alpha in ALPHAS)
    sizes = FIRST_TREES if not options.normal else SIZES
    print("real disagreement over the normal law's; trees:" if options.normal else f"bias and rms, for each {header};")
    print(", ".join(map(str, sizes)) + " trees")
    for framework in options.frameworks:
        outcomes = []
        for problem in estimator.problems(options):
            if options.normal:
                for kind, ratios in zip(
                    ("product", "sum") if options.many else ("",),
                    ratios_to_the_normal_law(problem, framework, options.seed),
                    strict=False,
                ):
                    cells = " ".join(f"{ratio:5.2f}" for ratio in ratios)
                    print(f"{problem.name:14} {framework:22} {kind:8} {cells}", flush=True)
            else:
                outcomes.append(compare(problem, framework, options))
        if outcomes:
            print_summary(framework, outcomes)


if __name__ == "__main__":
    main()
