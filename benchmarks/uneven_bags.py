"""Do out-of-bag intervals contain the truth if bags are drawn by class weight, or rows have few votes?

    python benchmarks/uneven_bags.py --forests 20

Three problems of two classes. For each random forest of scikit-learn (from 1.9 on, which draws bags by class weight),
their rows are split anew into training rows and 4,000 fresh rows. Printed, by case: how many forests get a score and
how many are refused; and the share of 95 % intervals that contain the metric of the same forest on the fresh rows, or,
for T*(0.97), the size by the votes on the fresh rows. Forests that give a class no probability have no log loss.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import rfsize

FRESH = 4000
Rows = tuple[np.ndarray, np.ndarray]


def clusters(n_rows: int, share: float) -> Rows:
    """Clusters of scikit-learn's, 3 % of the labels by chance."""
    return make_classification(
        n_rows, 12, n_informative=6, weights=[1 - share], flip_y=0.03, class_sep=0.9, random_state=77
    )


def waves(n_rows: int, share: float) -> Rows:
    """A sine and a product, with noise."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (n_rows, 6))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.6 * rng.normal(size=n_rows)
    return X, (signal > np.quantile(signal, 1 - share)).astype(int)


def rings(n_rows: int, share: float) -> Rows:
    """Normal rows, those of class 1 wider and shifted."""
    rng = np.random.default_rng(6)
    y = (rng.random(n_rows) < share).astype(int)
    return rng.normal(size=(n_rows, 8)) * np.where(y, 1.5, 1)[:, None] + np.where(y, 0.4, 0)[:, None], y


class Case(NamedTuple):
    """Forests of one kind: share of class 1, training rows, and about how many copies each of them has."""

    problem: Callable[[int, float], Rows]
    share: float
    n_rows: int
    n_trees: int
    class_weight: str | None = None
    copies: int = 1

    def __str__(self) -> str:
        weighted = "" if self.class_weight is None else f", class_weight={self.class_weight!r}"
        grouped = "" if self.copies == 1 else f", groups of {self.copies}"
        return f"{self.problem.__name__}, {self.share:.0%} of {self.n_rows}, {self.n_trees} trees{weighted}{grouped}"


CASES = (
    Case(clusters, 0.25, 800, 200, "balanced"),
    Case(waves, 0.15, 800, 400, "balanced"),
    Case(rings, 0.2, 600, 300, "balanced"),
    Case(clusters, 0.1, 800, 300, "balanced"),
    Case(waves, 0.4, 800, 30),
    Case(rings, 0.3, 600, 32),
    Case(clusters, 0.1, 1000, 30),
    Case(clusters, 0.3, 900, 100, copies=2),
    Case(waves, 0.3, 900, 240, copies=3),
)


def trained(case: Case, seed: int) -> tuple[Any, Any, Rows]:
    """A forest, its out-of-bag outputs, and fresh rows."""
    rng, n_rows = np.random.default_rng(500 + seed), case.n_rows // case.copies
    X, y = case.problem(n_rows + FRESH, case.share)
    order = rng.permutation(len(y))
    own, fresh = order[:n_rows], order[n_rows:]
    group = np.repeat(np.arange(n_rows), case.copies)
    near = 0.0 if case.copies == 1 else 0.1 * X.std(axis=0) * rng.normal(size=(len(group), X.shape[1]))
    X_train, y_train = X[own][group] + near, y[own][group]
    forest = RandomForestClassifier(
        case.n_trees, class_weight=case.class_weight, min_samples_leaf=3, random_state=seed
    ).fit(X_train, y_train)
    groups = "rows" if case.copies == 1 else group
    return forest, rfsize.tree_outputs(forest, X_train, y_train, oob=True, groups=groups), (X[fresh], y[fresh])


def told(case: Case, seed: int) -> Iterator[tuple[str, bool | None]]:
    """For each metric and for T*: whether the interval contains the truth; None if it is refused."""
    forest, counted, (X, y) = trained(case, seed)
    chance = forest.predict_proba(X)[:, 1]
    on_fresh = {"accuracy": accuracy_score(y, chance > 0.5), "auc": roc_auc_score(y, chance)}
    on_fresh["log_loss"] = log_loss(y, chance)
    for metric, value in on_fresh.items():
        try:
            low, high = rfsize.oob_score(counted, metric=metric).interval
            yield metric, bool(low <= value <= high)
        except rfsize.exceptions.FewVotesError:
            yield metric, None
        except rfsize.exceptions.RfsizeError:
            continue
    try:
        low, high = rfsize.size(counted, alpha=0.97).interval
        yield "T*", bool(low <= rfsize.size(forest, X, alpha=0.97).n_trees <= high)
    except rfsize.exceptions.FewVotesError:
        yield "T*", None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forests", type=int, default=20, help="of each case")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| | accuracy | AUC | log loss | T*(0.97) |\n|---|---|---|---|---|")
    for case in CASES:
        found: dict[str, list[bool | None]] = {"accuracy": [], "auc": [], "log_loss": [], "T*": []}
        for seed in range(args.forests):
            for what, holds in told(case, seed):
                found[what].append(holds)
        print(f"| {case} | {' | '.join(map(in_words, found.values()))} |", flush=True)


def in_words(found: list[bool | None]) -> str:
    """How many of the intervals contain the truth, and how many were refused."""
    held = [holds for holds in found if holds is not None]
    refused = len(found) - len(held)
    parts = [f"{sum(held)} of {len(held)}"] if held else []
    return ", ".join([*parts, *([f"{refused} refused"] if refused else [])]) or "none"


if __name__ == "__main__":
    main()
