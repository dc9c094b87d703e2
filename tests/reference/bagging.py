"""The frameworks' own bags, one draw at a time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xgboost as xgb


def lightgbm_inbag(n_trees: int, n_rows: int, seed: int, fraction: Any, freq: int = 1) -> np.ndarray:
    """LightGBM's bags, one draw at a time; of one fraction, or one for each row; ``freq`` trees share a bag."""
    inbag = np.zeros((n_trees, n_rows), dtype=bool)
    states = [(seed + block) % 2**32 for block in range((n_rows + 1023) // 1024)]
    by_row = np.broadcast_to(fraction, n_rows)
    for tree in range(n_trees):
        if tree % freq:
            inbag[tree] = inbag[tree - 1]
            continue
        for row in range(n_rows):
            state = (214013 * states[row // 1024] + 2531011) % 2**32
            states[row // 1024] = state
            inbag[tree, row] = (state >> 16 & 0x7FFF) / 32768 < by_row[row]
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
