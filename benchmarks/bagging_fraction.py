"""Table 4 of the 2010 paper on the sample size in bagging, and test errors where your own fraction is kept.

    python benchmarks/bagging_fraction.py Ionosphere.csv.gz Vowel.csv.gz
    python benchmarks/bagging_fraction.py --keep --learners LightGBM XGBoost -- Ionosphere.csv.gz Vehicle.csv.gz

Without an option: the test error of standard bagging is compared with the test error at the fraction of least
out-of-bag error. Standard bagging draws half of the rows without replacement, which is worth as many draws with
replacement as there are rows. Forests have 200 unpruned trees on all features, by LightGBM, XGBoost and scikit-learn's
BaggingClassifier. Problems are synthetic ones after Breiman (1996) with 300 training rows, and two thirds of tables
with the features first and the class in their last column, named target. With three or more classes, LightGBM trains
one tree for each class, so a vote goes to the highest of several scores.

With --keep, for LightGBM and XGBoost: 1/2 is the user's own fraction. `rule="keep"` changes it only if another fraction
is better by more than noise; `rule="best"` takes the fraction of least error. Both rules read one search. Printed: how
much worse than at 1/2 the test error is at either rule's fraction, and how often "keep" changes 1/2.

Values are means over the repetitions, ± their standard error.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from forests import prepared
from problems import Rows, split, synthetic, threenorm, twonorm, waveform
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from rfsize.models.framework import training_of
from rfsize.training.bagging_fraction import DEFAULT_FRACTIONS, select_bagging_fraction

TREES = 200
STANDARD = 0.5

# Test errors of standard bagging and of the estimated best ratio in the paper's table 4, in percent.
PAPER = {"twonorm": (6.7, 5.1), "waveform": (19.5, 18.1), "Ionosphere": (8.1, 7.1)}

# What a forest usually has: features drawn at each split, and coarser bins.
USUAL: dict[str, dict[str, Any]] = {
    "LightGBM": {"feature_fraction_bynode": 0.2, "max_bin": 63, "min_data_in_leaf": 3},
    "XGBoost": {"colsample_bynode": 0.2, "max_bin": 64},
}


def held_out_error(params: dict[str, Any], dtrain: Any, fraction: float, test: Rows) -> float:
    """Error of the majority vote of a forest of 200 trees."""
    forest = training_of(dtrain).trainer(params, dtrain).start(fraction=fraction)
    forest.add(TREES)
    return float(np.mean(rfsize.tree_outputs(forest.booster(), test[0]).votes.winner() != test[1]))


def by_framework(framework: str, training: Rows, test: Rows, seed: int) -> tuple[float, float, float]:
    """Chosen fraction, test error at the standard fraction, and test error at the chosen one."""
    params, dtrain = prepared(framework, *training, seed)
    found = select_bagging_fraction(params, dtrain, n_trees=TREES, rule="best", voting="hard", progress=False)
    errors = [held_out_error(params, dtrain, fraction, test) for fraction in (STANDARD, found.best)]
    return found.best, errors[0], errors[1]


def by_both_rules(framework: str, training: Rows, test: Rows, seed: int) -> tuple[float, float, float, bool]:
    """Test errors at the standard fraction, by `rule="best"` and by `rule="keep"`, and whether "keep" changes 1/2."""
    own = {"bagging_fraction" if framework == "LightGBM" else "subsample": STANDARD}
    params, dtrain = prepared(framework, *training, seed)
    found = select_bagging_fraction({**params, **own}, dtrain, n_trees=TREES, voting="hard", progress=False)
    best = float(found.curve["fraction"][found.curve["difference"].argmin()])
    errors = {each: held_out_error(params, dtrain, each, test) for each in {STANDARD, best}}
    return errors[STANDARD], errors[best], errors[found.best], found.best != STANDARD


def by_scikit_learn(training: Rows, test: Rows, seed: int) -> tuple[float, float, float]:
    """The same three numbers with scikit-learn's bagging, through arrays of votes."""
    X, y = training
    n_classes = int(y.max()) + 1
    out_of_bag, errors = [], {}
    for fraction in DEFAULT_FRACTIONS:
        tree = DecisionTreeClassifier()
        forest = BaggingClassifier(tree, TREES, max_samples=fraction, bootstrap=False, random_state=seed).fit(X, y)
        counts, unseen = np.zeros((len(test[0]), n_classes), dtype=int), np.zeros((len(X), n_classes), dtype=int)
        for member, seen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
            rows = np.setdiff1d(np.arange(len(X)), seen)
            unseen[rows, member.predict(X[rows]).astype(int)] += 1
            counts[np.arange(len(counts)), member.predict(test[0]).astype(int)] += 1
        out_of_bag.append(np.mean(rfsize.Votes(unseen).winner() != y))
        errors[fraction] = float(np.mean(rfsize.Votes(counts).winner() != test[1]))
    best = DEFAULT_FRACTIONS[int(np.argmin(out_of_bag))]
    return best, errors[STANDARD], errors[best]


LEARNERS: dict[str, Callable[..., tuple[float, float, float]]] = {
    "LightGBM": partial(by_framework, "LightGBM"),
    "XGBoost": partial(by_framework, "XGBoost"),
    "scikit-learn": by_scikit_learn,
}

SYNTHETIC = {"twonorm": twonorm, "threenorm": threenorm, "waveform": waveform}


def print_table_4(
    name: str, rows: Callable[[int], tuple[Rows, Rows]], repetitions: int, learners: Sequence[str]
) -> None:
    """One line per learner."""
    paper = " to ".join(map(str, PAPER.get(name, ())))
    for learner in learners:
        start = time.perf_counter()
        found = [LEARNERS[learner](*rows(seed), seed) for seed in range(repetitions)]
        best, standard, chosen = np.array(found).T
        seconds = (time.perf_counter() - start) / repetitions
        print(
            f"{name:12} {learner:12} {paper:>12} {mean(standard)} {mean(chosen)} {mean(chosen - standard)}"
            f"{np.median(best):>9.3f}{np.mean(best == STANDARD):>8.0%}{seconds:>9.1f}",
            flush=True,
        )


def print_kept(name: str, rows: Callable[[int], tuple[Rows, Rows]], repetitions: int, learners: Sequence[str]) -> None:
    """One line per framework."""
    for framework in learners:
        found = np.array([by_both_rules(framework, *rows(seed), seed) for seed in range(repetitions)])
        standard, best, kept, is_left = found.T
        print(
            f"{name:12} {framework:12} {mean(standard)} {mean(best - standard)} {mean(kept - standard)}"
            f"{is_left.sum():>8.0f} of {repetitions}",
            flush=True,
        )


def mean(errors: np.ndarray) -> str:
    """Mean of some errors, in percent, ± its standard error."""
    return f"{100.0 * errors.mean():>8.2f} ± {100.0 * errors.std(ddof=1) / np.sqrt(len(errors)):.2f}"


def main() -> None:
    """Print either table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="leave the standard fraction unless another is better")
    parser.add_argument("--synthetic", nargs="*", choices=SYNTHETIC, default=list(SYNTHETIC))
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    options = parser.parse_args()
    if options.keep and "scikit-learn" in options.learners:
        parser.error("--keep searches for LightGBM and XGBoost: name them with --learners")
    warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
    if options.keep:
        print(
            f"{'problem':12} {'learner':12} {'at 1/2, %':>15}{'best less it':>16}{'keep less it':>16}{'leaves it':>13}"
        )
    else:
        headings = f"{'standard, %':>15}{'chosen, %':>16}{'difference':>16}{'fraction':>9}{'1/2':>8}{'seconds':>9}"
        print(f"{'problem':12} {'learner':12} {'paper':>12} {headings}")
    print_errors = partial(print_kept if options.keep else print_table_4, learners=options.learners)
    for problem in options.synthetic:
        print_errors(problem, partial(synthetic, SYNTHETIC[problem]), options.repetitions)
    for path in options.tables:
        table = pd.read_csv(path)
        X = table.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float32)
        y = table["target"].astype("category").cat.codes.to_numpy()
        print_errors(path.name.split(".")[0], partial(split, X, y), options.repetitions)


if __name__ == "__main__":
    main()
