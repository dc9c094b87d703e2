"""Data, and scores of a LightGBM forest added up plainly, for the tests of what is read in training."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
from conftest import LIGHTGBM

from rfsize.training import trainer_for

SEVERAL = {**LIGHTGBM, "objective": "multiclass", "num_class": 3}


def problem(n_classes: int, n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n_rows, 6))
    score = X @ rng.normal(size=(6, n_classes)) + X[:, :1] * X[:, 1:2] + rng.normal(size=(n_rows, n_classes))
    return X, score.argmax(axis=1)


def out_of_bag_scores(model: lgb.Booster, X: np.ndarray, inbag: np.ndarray) -> np.ndarray:
    """Sums of the trees' raw scores over the trees that did not see the row, one tree at a time."""
    total = np.zeros((len(X), model.num_model_per_iteration()))
    for tree, seen in enumerate(inbag):
        alone = model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1).reshape(len(X), -1)
        total[~seen] += alone[~seen]
    return total


def centred(score: np.ndarray) -> np.ndarray:
    return score - score.mean(axis=1, keepdims=True)


def grown(params: dict[str, Any], X: Any, y: Any, trees: int = 20, **dataset: Any) -> Any:
    forest = trainer_for(params, lgb.Dataset(X, y, **dataset)).start()
    forest.add(trees // 2)
    forest.add(trees - trees // 2)
    return forest
