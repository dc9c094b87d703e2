"""LightGBM forests grown in blocks, their data, and the scores of each tree alone."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np

from helpers.forests import LIGHTGBM
from rfsize.integrations.lightgbm.training import LightGbmTrainer

SEVERAL = {**LIGHTGBM, "objective": "multiclass", "num_class": 3}


def problem(n_classes: int, n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n_rows, 6))
    score = X @ rng.normal(size=(6, n_classes)) + X[:, :1] * X[:, 1:2] + rng.normal(size=(n_rows, n_classes))
    return X, score.argmax(axis=1)


def each_tree(model: lgb.Booster, X: np.ndarray, trees: int | None = None) -> np.ndarray:
    """Raw scores of each tree alone, (n_trees, n_rows, n_scores)."""
    trees = model.current_iteration() if trees is None else trees
    return np.stack(
        [
            model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1).reshape(len(X), -1)
            for tree in range(trees)
        ]
    )


def grown(params: dict[str, Any], X: Any, y: Any, trees: int = 20, **dataset: Any) -> Any:
    forest = LightGbmTrainer(params, lgb.Dataset(X, y, **dataset)).start()
    forest.add(trees // 2)
    forest.add(trees - trees // 2)
    return forest


def without_parameters(booster: lgb.Booster) -> str:
    head, _, rest = booster.model_to_string().partition("\nparameters:\n")
    return head + rest.partition("end of parameters\n")[2]
