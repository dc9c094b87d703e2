"""The formulas once more, as slowly and plainly as possible; every fast path is tested against these."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import xgboost as xgb


def class_probability(n_trees: int, pi: float) -> float:
    """Equation (7) as a sum of the binomial, in exact integers."""
    return float(_majority(n_trees, pi))


def disagreement(n_trees: int, pi: float) -> float:
    """One minus equation (9); the infinite forest predicts class 1 where π > 1/2."""
    class_1 = _majority(n_trees, pi)
    return float(1 - class_1 if pi > 0.5 else class_1)


def _majority(n_trees: int, pi: float) -> Fraction:
    numerator, denominator = pi.as_integer_ratio()
    ways = sum(
        math.comb(n_trees, votes) * numerator**votes * (denominator - numerator) ** (n_trees - votes)
        for votes in range(n_trees // 2 + 1, n_trees + 1)
    )
    return Fraction(ways, denominator**n_trees)


def ensemble_size(alpha: float, pis: list[float], largest: int = 2001) -> float:
    """T*(α) by trying every odd size."""
    for n_trees in range(1, largest + 1, 2):
        if np.mean([1.0 - disagreement(n_trees, pi) for pi in pis]) >= alpha - 1e-14:
            return n_trees
    return math.inf


def histogram(counts: np.ndarray) -> dict[tuple[int, int], int]:
    """Rows of each (votes for class 1, trees asked)."""
    cells: dict[tuple[int, int], int] = {}
    for against, for_class_1 in counts.tolist():
        if against + for_class_1 > 0:
            cell = (for_class_1, against + for_class_1)
            cells[cell] = cells.get(cell, 0) + 1
    return cells


def winner(counts: np.ndarray) -> list[int]:
    """Index of the class with the most votes, the lowest where they tie."""
    return [max(range(len(row)), key=lambda index: (row[index], -index)) for row in counts.tolist()]


def lightgbm_inbag(n_trees: int, n_rows: int, seed: int, fraction: float) -> np.ndarray:
    """LightGBM's bags, one draw at a time."""
    inbag = np.zeros((n_trees, n_rows), dtype=bool)
    states = [(seed + block) % 2**32 for block in range((n_rows + 1023) // 1024)]
    for tree in range(n_trees):
        for row in range(n_rows):
            state = (214013 * states[row // 1024] + 2531011) % 2**32
            states[row // 1024] = state
            inbag[tree, row] = (state >> 16 & 0x7FFF) / 32768 < fraction
    return inbag


def xgboost_inbag(model: Any, n_rows: int, seed: int, subsample: float, **growth: Any) -> np.ndarray:
    """XGBoost's bags in the order of the model's trees, one draw at a time."""
    trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    places, place = [], 0
    for tree in trees:
        places.append(place)
        place += 1 + xgboost_column_draws(tree, **growth)
    if tuple(int(part) for part in xgb.__version__.split(".")[:2]) < (3, 3):
        places = list(range(1, len(trees) + 1))
    outputs = np.random.RandomState(seed).randint(0, 2**32, size=places[-1] + 1, dtype=np.uint32)
    inbag = np.zeros((len(trees), n_rows), dtype=bool)
    for index, place in enumerate(places):
        state = int(outputs[place])
        for row in range(n_rows):
            state = 16807 * state % 2**63
            inbag[index, row] = state / 2**63 < float(np.float32(subsample))
    return inbag


def xgboost_column_draws(
    tree: dict[str, Any], *, bytree: bool = False, bylevel: bool = False, bynode: bool = False, max_depth: int = 0
) -> int:
    """Times that XGBoost sampled columns for a tree grown without a limit on its leaves."""
    tried = [0]  # depths of the nodes it tried to split

    def descend(node: int, depth: int) -> None:
        left, right = tree["left_children"][node], tree["right_children"][node]
        if left == -1:
            return
        if max_depth == 0 or depth + 1 < max_depth:
            tried.extend([depth + 1, depth + 1])
        descend(left, depth + 1)
        descend(right, depth + 1)

    descend(0, 0)
    return bytree + bylevel * len(set(tried)) + bynode * len(tried)


def votes(tree_labels: np.ndarray, n_classes: int, inbag: np.ndarray | None = None) -> np.ndarray:
    """Counts per row and class from each tree's label, shape (n_trees, n_rows)."""
    counts = np.zeros((tree_labels.shape[1], n_classes), dtype=int)
    for tree in range(tree_labels.shape[0]):
        for row in range(tree_labels.shape[1]):
            if inbag is None or not inbag[tree, row]:
                counts[row, tree_labels[tree, row]] += 1
    return counts
