"""Hernández-Lobato, Martínez-Muñoz, Suárez 2013: how large should ensembles of classifiers be?

Each run grows 10,000 trees as the infinite ensemble. Its first trees are the ensembles that are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rfsize
from benchmarks.papers.grown import Trees, grown
from benchmarks.papers.problems import Rows, parts, two_thirds
from rfsize.theory import ensemble_size, instance_size

ALPHA, INFINITE, START = 0.99, 10_000, 100
ENSEMBLES = ("RF", "bagging")
ALPHAS = (0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995)  # of figure 6
SIZES = (1, 3, 7, 15, 31, 63, 101, 201, 401, 801, 1601, 3201, 5001)  # of figure 4
TAIL = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)  # of figure 2
BINS = 20  # of figure 1
AROUND_HALF = 0.05  # vote fractions within this distance of one half give the density there
OF_BANFIELD = 2000  # most trees that Banfield's rule gets

PROBLEMS = (
    *("twonorm", "ringnorm", "circle", "breast", "ionosphere", "spam", "spiral"),
    *("abalone", "australian", "banana", "german", "heart", "hepatitis", "horse", "labor", "magic"),
    *("phoneme", "pima", "sonar", "tic-tac-toe", "votes"),
)
SIZES_OF_ROWS = {"spiral": (5000, 10_000)}
VARIANTS = [{"ensemble": ensemble} for ensemble in ENSEMBLES]
NOT_ELSEWHERE: list[dict[str, str]] = []


def run(case: dict[str, Any], repetition: int, table: Callable[[str], Rows]) -> dict[str, Any]:
    """Sizes by three rules, what they cost, and the curves of the figures."""
    name = "ringnorm of mlbench" if case["problem"] == "ringnorm" else case["problem"]
    training, test = parts(name, repetition, table, SIZES_OF_ROWS.get(name, (300, 1000)), two_thirds)
    trees = grown(case["framework"], case["ensemble"], training, test, INFINITE, repetition)
    judged = Judged(trees, test[1])
    unseen = ~trees.inbag
    sizes = {
        "test": grown_size(lambda size: trees.test[:, :size].mean(axis=1)),
        "oob": grown_size(lambda size: out_of_bag(trees.train[:, :size], unseen[:, :size])),
        "banfield": banfield(trees, training[1]),
    }
    fractions = trees.test.mean(axis=1, dtype=np.float64)
    by_alpha = [size_of(alpha, out_of_bag(trees.train, unseen)) for alpha in ALPHAS]
    return {
        "rules": {rule: [size, *judged.of(size)] for rule, size in sizes.items()},
        "infinite": judged.of(INFINITE)[0],
        "disagreement": [judged.of(size)[1] for size in SIZES],
        "alphas": [[size, judged.of(size)[0]] for size in by_alpha],
        "histogram": np.histogram(fractions, BINS, (0.0, 1.0))[0].tolist(),
        "tail": [float(np.mean(instance_size(ALPHA, fractions) > size)) for size in TAIL],
        "density": float(np.mean(np.abs(fractions - 0.5) < AROUND_HALF) / (2.0 * AROUND_HALF)),
    }


class Judged:
    """The first trees compared with all trees, on the test rows."""

    def __init__(self, trees: Trees, y: np.ndarray) -> None:
        self.votes, self.y = trees.test, y
        self.infinite = self.labels(INFINITE)

    def labels(self, size: int) -> np.ndarray:
        """The majority of the first trees."""
        return 2 * self.votes[:, :size].sum(axis=1, dtype=np.int64) > size

    def of(self, size: int) -> tuple[float, float]:
        """Test error, and disagreement with the infinite ensemble."""
        labels = self.labels(size)
        return float(np.mean(labels != self.y)), float(np.mean(labels != self.infinite))


def out_of_bag(votes: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Out-of-bag vote fractions for class 1; rows without votes are left out."""
    n_votes = unseen.sum(axis=1)
    return (votes * unseen).sum(axis=1, dtype=np.int64)[n_votes > 0] / n_votes[n_votes > 0]


def size_of(alpha: float, fractions: np.ndarray) -> int:
    """T*(α) by equation (17), at most the trees at hand."""
    return int(min(ensemble_size(alpha, fractions), INFINITE))


def grown_size(fractions: Callable[[int], np.ndarray]) -> int:
    """T* as the paper grows it: from 100 trees to T*, but at most twice as many, until there are T* trees."""
    size = START
    while (wanted := size_of(ALPHA, fractions(size))) > size:
        size = min(wanted, 2 * size)
    return wanted


def banfield(trees: Trees, y: np.ndarray) -> int:
    """The size of the smoothed out-of-bag accuracy."""
    votes = np.where(trees.inbag, -1, trees.train)[:, :OF_BANFIELD]
    return rfsize.baselines.banfield_size(votes, y, classes=np.unique(y)).n_trees
