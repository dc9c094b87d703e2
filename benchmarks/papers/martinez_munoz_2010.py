"""Martínez-Muñoz, Suárez 2010: out-of-bag estimation of the optimal sample size in bagging.

Ensembles of 200 unpruned trees from bags of several sizes, with and without replacement. LightGBM and XGBoost draw
without replacement only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.papers.grown import Trees, bagged, framework_forest, majority, votes
from benchmarks.papers.problems import Rows, parts, tenth

TREES = 200
WITH, WITHOUT = "with replacement", "without replacement"
# m/n in the tables, then in the grid that out-of-bag votes choose from; without replacement, r/(1 + r) of the rows.
RATIOS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
GRID = tuple(round(0.1 * step, 1) for step in range(1, 13))
STANDARD = 1.0

PROBLEMS = (
    *("twonorm", "threenorm", "ringnorm", "waveform", "led24", "breast", "glass", "ionosphere", "iris", "wine"),
    *("vehicle", "vowel", "soybean", "audio", "australian", "balance", "diabetes", "ecoli", "german", "heart"),
    *("hepatitis", "horse-colic", "labor", "new-thyroid", "segment", "sonar", "tic-tac-toe", "votes"),
)
VARIANTS = [{"sampling": WITH}, {"sampling": WITHOUT}]
NOT_ELSEWHERE = [{"sampling": WITH}]


def run(case: dict[str, Any], repetition: int, table: Callable[[str], Rows]) -> dict[str, Any]:
    """Test error, out-of-bag error and training error of each ratio of the grid, and the ratio that is chosen."""
    sizes = 200 if case["problem"] == "led24" else 300, 5000
    training, test = parts(case["problem"], repetition, table, sizes, tenth)
    n_classes = int(training[1].max()) + 1
    curves = {}
    for ratio in GRID:
        trees = of_ratio(case["framework"], case["sampling"], ratio, training, test, repetition)
        curves[ratio] = [
            float(np.mean(majority(trees.test, n_classes) != test[1])),
            out_of_bag_error(trees, training[1], n_classes),
            float(np.mean(majority(trees.train, n_classes) != training[1])),
            float(trees.inbag.mean()),
        ]
    chosen = min(GRID, key=lambda ratio: curves[ratio][1])
    named = {
        name: {str(ratio): curve[place] for ratio, curve in curves.items()}
        for place, name in enumerate(("test", "oob", "train", "seen"))
    }
    errors = named["test"]
    return {**named, "chosen": chosen, "standard": errors[str(STANDARD)], "selected": errors[str(chosen)]}


def of_ratio(framework: str, sampling: str, ratio: float, training: Rows, test: Rows, seed: int) -> Trees:
    """The votes of an ensemble from bags of a size."""
    share = ratio if sampling == WITH else ratio / (1.0 + ratio)
    if framework == "scikit-learn":
        rows = max(1, round(share * len(training[1])))
        return bagged(training, test[0], TREES, seed, rows=rows, replace=sampling == WITH)
    return votes(framework_forest(framework, training, TREES, seed, fraction=share), training, test)


def out_of_bag_error(trees: Trees, y: np.ndarray, n_classes: int) -> float:
    """Error of the votes of the trees that did not see a row, over the rows that have such votes."""
    unseen = ~trees.inbag
    counts = np.stack([((trees.train == k) & unseen).sum(axis=1) for k in range(n_classes)], axis=1)
    has_votes = unseen.any(axis=1)
    return float(np.mean(counts.argmax(axis=1)[has_votes] != y[has_votes]))
