"""XGBoost forests tree by tree, grown in blocks or at once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from scipy.special import expit

from helpers.forests import Data
from rfsize.integrations.xgboost.training import XgboostTrainer


def class_margins(model: xgb.Booster, X: np.ndarray, trees: Any) -> np.ndarray:
    """Margins of each class from each tree alone, read from the leaves, (n_trees, n_rows, n_classes).

    What the booster adds to the sum of all leaves, it adds to each tree alone.
    """
    frame = model.trees_to_dataframe().set_index(["Tree", "Node"])["Gain"]
    leaf = model.predict(xgb.DMatrix(X), pred_leaf=True, strict_shape=True)[:, 0].astype(int)
    n_classes, per_class = leaf.shape[1:]
    value = frame.to_dict()
    leaves = np.array(
        [[[value[k * per_class + t, row[k, t]] for k in range(n_classes)] for row in leaf] for t in range(per_class)]
    )
    base = model.predict(xgb.DMatrix(X), output_margin=True) - leaves.sum(axis=0)
    assert np.ptp(base, axis=0).max() < 1e-5
    return base.mean(axis=0) + per_class * leaves[list(trees)]


def only_multi_output_tree(model: xgb.Booster, tree: int) -> xgb.Booster:
    """A forest whose trees score all classes, reduced to one of them that weighs as much as all."""
    document = json.loads(model.save_raw("json"))
    forest = document["learner"]["gradient_booster"]["model"]
    one, n_trees = forest["trees"][tree], len(forest["trees"])
    one["id"] = 0
    for name in {"base_weights", "leaf_weights"} & one.keys():
        one[name] = [value * n_trees for value in one[name]]
    forest.update(trees=[one], tree_info=[0], iteration_indptr=[0, 1])
    forest["gbtree_model_param"].update(num_trees="1", num_parallel_tree="1")
    alone = xgb.Booster()
    alone.load_model(bytearray(json.dumps(document).encode()))
    return alone


VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
PARAMS = {"objective": "binary:logistic", "subsample": 0.632, "colsample_bynode": 0.6, "max_depth": 5, "seed": 3}
GROWTH = {"bynode": True, "max_depth": 5}
MULTICLASS = {**PARAMS, "objective": "multi:softprob", "num_class": 3}
MULTI_OUTPUT = {**MULTICLASS, "multi_strategy": "multi_output_tree"}
KINDS = {
    "binary": PARAMS,
    "multiclass": MULTICLASS,
    "softmax": {**MULTICLASS, "objective": "multi:softmax"},
    "multi_output": MULTI_OUTPUT,
    "regression": {**PARAMS, "objective": "reg:squarederror"},
    "probability": {**PARAMS, "objective": "reg:logistic"},
    "count": {**PARAMS, "objective": "count:poisson"},
}


def labels(kind: str, data: Data) -> np.ndarray:
    numbers = {"regression": data.X[:, 0] - 3.0, "probability": expit(data.X[:, 0]), "count": data.three}
    return numbers.get(kind, data.y if kind == "binary" else data.three)


def grown(kind: str, data: Data, blocks: tuple[int, ...] = (6, 3, 4), **params: Any) -> tuple[XgboostTrainer, Any]:
    if kind == "multi_output" and VERSION < (3, 2):
        pytest.skip("XGBoost stores no hessians in such trees before 3.2")
    training = XgboostTrainer({**KINDS[kind], **params}, xgb.DMatrix(data.X, labels(kind, data)))
    forest = training.start()
    for trees in blocks:
        forest.add(trees)
    return training, forest


def margins(booster: xgb.Booster, X: np.ndarray) -> np.ndarray:
    margin = booster.predict(xgb.DMatrix(X), output_margin=True).astype(np.float64)
    return margin.reshape(len(X), -1)


def block_seeds(seed: int, blocks: int) -> list[int]:
    return [seed] + [int(np.random.SeedSequence([seed, block]).generate_state(1)[0]) for block in range(1, blocks)]


def plain_blocks(kind: str, data: Data, blocks: tuple[int, ...] = (6, 3, 4)) -> list[xgb.Booster]:
    """The same blocks, each trained by XGBoost alone."""
    dtrain = xgb.DMatrix(data.X, labels(kind, data))
    settings = [
        {**KINDS[kind], "eta": 1, "seed": seed, "num_parallel_tree": trees}
        for seed, trees in zip(block_seeds(3, len(blocks)), blocks, strict=True)
    ]
    return [xgb.train(each, dtrain, 1) for each in settings]
