"""Latinne, Debeir, Decaestecker 2001: limiting the number of trees in random forests by McNemar's test.

Five kinds of ensembles of 200 trees on three folds: one to train, one to find the size, one to test. Our trees are
unpruned CART; the paper's are C4.5, pruned except in Bagrf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

import rfsize
from benchmarks.papers.comparing import printed
from benchmarks.papers.grown import BOOTSTRAP, bagged, framework_forest, majority
from benchmarks.papers.problems import Rows, drawn
from rfsize.baselines import McNemarSize

TREES = 200
RINGNORM_ROWS = 7400
METHODS = ("one tree", "Bagging", "MFS", "Bagfs", "Bagrf")
ROLES = tuple(permutations(range(3)))
GRID = tuple(range(10, TREES + 1, 10))  # sizes of figure 1's matrix that are kept
PROBLEMS = ("ringnorm", "satimage", "dna", "image", "letter")
FEATURES = {row["dataset"].lower(): (int(row["f_opt"]), int(row["F"])) for row in printed("latinne_2001_table1")}
# Our table has three columns of 0 and 1 for each of the paper's 60 nominal features.
FEATURES["dna"] = (3 * FEATURES["dna"][0], 3 * FEATURES["dna"][1])


VARIANTS = [{"method": method} for method in METHODS]
NOT_ELSEWHERE = [{"method": "one tree"}]


def run(case: dict[str, Any], repetition: int, table: Callable[[str], Rows]) -> dict[str, Any]:
    """Accuracy of all trees, and the sizes by McNemar's test on validation rows and on test rows."""
    problem = case["problem"]
    rows = drawn("ringnorm", 0, (RINGNORM_ROWS,))[0] if problem == "ringnorm" else table(problem)
    learn, validation, test = thirds(rows, repetition)
    n_classes = int(rows[1].max()) + 1
    judged = np.concatenate([validation[0], test[0]])
    votes = tree_votes(case["framework"], case["method"], FEATURES[problem], learn, judged, repetition)
    on_validation, on_test = votes[: len(validation[1])], votes[len(validation[1]) :]
    accuracy = float(np.mean(majority(on_test, n_classes) == test[1]))
    if case["method"] == "one tree":
        return {"accuracy": accuracy}
    size_of = partial(rfsize.baselines.mcnemar_size, classes=np.arange(n_classes))
    told = size_of(on_validation, validation[1])
    small = majority(on_test[:, : told.n_trees], n_classes)
    return {
        "accuracy": accuracy,
        "accuracy_of_size": float(np.mean(small == test[1])),
        "size": told.n_trees,
        "size_on_test": size_of(on_test, test[1]).n_trees,
        "by_ten": size_of(on_validation, validation[1], step=10).n_trees,
        "beaten": share_beaten(told),
        "fewer_beat_more": fewer_beat_more(told),
    }


def thirds(rows: Rows, repetition: int) -> list[Rows]:
    """Rows to train on, to find the size, and to test; the roles rotate with the repetition."""
    X, y = rows
    folds = StratifiedKFold(3, shuffle=True, random_state=repetition // len(ROLES)).split(X, y)
    parts = [(X[part], y[part]) for _, part in folds]
    return [parts[role] for role in ROLES[repetition % len(ROLES)]]


def tree_votes(
    framework: str, method: str, features: tuple[int, int], learn: Rows, X: np.ndarray, seed: int
) -> np.ndarray:
    """The vote of each tree on rows."""
    bootstrap = method in ("Bagging", "Bagfs", "Bagrf")
    by_tree = features[0] if method in ("MFS", "Bagfs") else None
    by_split = features[1] if method == "Bagrf" else None
    if framework == "scikit-learn":
        n_trees = 1 if method == "one tree" else TREES
        bags: dict[str, Any] = {"rows": len(learn[1]), "replace": bootstrap}
        return bagged(learn, X, n_trees, seed, **bags, features=by_tree, by_split=by_split).test
    fraction = BOOTSTRAP if bootstrap else 1.0
    model = framework_forest(framework, learn, TREES, seed, fraction=fraction, by_tree=by_tree, by_split=by_split)
    return rfsize.tree_outputs(model, X).by_tree()


def share_beaten(test: McNemarSize) -> list[float]:
    """For each of the sizes 10, 20, …: the share of the larger sizes that beat it."""
    return [float(test.beaten[size - 1, size:].mean()) if size < TREES else 0.0 for size in GRID]


def fewer_beat_more(test: McNemarSize) -> int:
    """Number of pairs of sizes in which the smaller size is significantly better."""
    worse = (test.p_values < test.level) & (test.accuracy[:, None] > test.accuracy[None, :])
    return int(np.triu(worse, 1).sum())
