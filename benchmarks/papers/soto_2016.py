"""Soto, Suárez, Martínez-Muñoz 2016: an urn model for majority voting.

Random forests of 101 trees, with stop tables from a uniform prior (SIBA) and from out-of-bag votes (HYPER), compared
with HYPER by the smoothing of the authors' program, and with a certified table of votes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rfsize
from benchmarks.papers.grown import Trees, forest, majority, votes
from benchmarks.papers.problems import Rows, parts, tenth
from rfsize import StopTable

TREES, ALPHA = 101, 0.99
ALPHAS = (0.999, 0.995, 0.99, 0.95)  # of figure 1
TO_CERTIFY = 2000  # rows, if the problem can be drawn
PROBLEMS = (
    *("twonorm", "threenorm", "ringnorm", "waveform", "breast", "ionosphere", "spam", "wine", "australian", "diabetes"),
    *("german", "heart", "horse-colic", "labor", "mushroom", "new-thyroid", "sonar", "tic-tac-toe", "votes"),
)
VARIANTS: list[dict[str, str]] = [{}]
NOT_ELSEWHERE: list[dict[str, str]] = []


def run(case: dict[str, Any], repetition: int, table: Callable[[str], Rows]) -> dict[str, Any]:
    """Trees used, disagreement and test error by rule, and the disagreement by α."""
    training, test, *to_certify = parts(case["problem"], repetition, table, (300, 5000, TO_CERTIFY), tenth)
    model = forest(case["framework"], "RF", training, TREES, repetition)
    trees = votes(model, training, test)
    n_classes = int(training[1].max()) + 1
    prior = out_of_bag(trees, n_classes)
    all_labels = majority(trees.test, n_classes)
    tables = {
        "RF*": StopTable.build(TREES, alpha=1.0, n_classes=n_classes),
        "SIBA": StopTable.build(TREES, alpha=ALPHA, n_classes=n_classes),
        "HYPER": StopTable.build(TREES, alpha=ALPHA, prior=prior),
    }
    if n_classes == 2:
        tables["authors' ends"] = StopTable.build(TREES, alpha=ALPHA, prior=smoothed_by_the_authors(prior))
    for rows, _ in to_certify:
        tables["certified"] = StopTable.calibrate(model, rows, alpha=ALPHA, voting="hard")

    def judged(stops: StopTable) -> list[float]:
        labels, n_used = stops.apply(trees.test)
        return [float(n_used.mean()), float(np.mean(labels != all_labels)), float(np.mean(labels != test[1]))]

    return {
        "rules": {rule: judged(stops) for rule, stops in tables.items()},
        "error": float(np.mean(all_labels != test[1])),
        "expected": tables["HYPER"].expected_trees(),
        "alphas": [by_alpha(alpha, prior, trees, all_labels, n_classes) for alpha in ALPHAS],
        "histogram": np.histogram((trees.test == 1).mean(axis=1), 20, (0.0, 1.0))[0].tolist(),
    }


def out_of_bag(trees: Trees, n_classes: int) -> rfsize.Votes:
    """The out-of-bag votes on each training row."""
    counts = [((trees.train == k) & ~trees.inbag).sum(axis=1) for k in range(n_classes)]
    return rfsize.Votes(np.stack(counts, axis=1), n_trees=TREES)


def smoothed_by_the_authors(votes: rfsize.Votes) -> np.ndarray:
    """HYPER's prior as the authors' program smooths it: the window of five shrinks symmetrically at the ends.

    The tallies of no vote and of all votes for a class are then not smoothed at all.
    """
    counts = votes.counts[votes.n_votes > 0].astype(np.int64)
    tally = np.ceil(TREES * counts[:, 1] / counts.sum(axis=1) - 0.5).astype(np.int64)
    histogram = np.bincount(tally, minlength=TREES + 1)
    reach = np.minimum(np.minimum(np.arange(TREES + 1), np.arange(TREES + 1)[::-1]), 2)
    return np.array([histogram[n - r : n + r + 1].mean() for n, r in enumerate(reach)])


def by_alpha(alpha: float, prior: rfsize.Votes, trees: Trees, all_labels: np.ndarray, n_classes: int) -> list[float]:
    """Disagreement of HYPER, of SIBA, and of a fixed number of trees, the mean that HYPER uses."""
    differ = []
    for of in ({"prior": prior}, {"n_classes": n_classes}):
        labels, n_used = StopTable.build(TREES, alpha=alpha, **of).apply(trees.test)
        differ.append((float(np.mean(labels != all_labels)), float(n_used.mean())))
    fixed = majority(trees.test[:, : max(1, round(differ[0][1]))], n_classes)
    return [differ[0][0], differ[1][0], float(np.mean(fixed != all_labels))]
