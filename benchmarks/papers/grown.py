"""Forests of unpruned trees by three frameworks, and the votes of each tree."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from benchmarks.papers.problems import Rows

FRAMEWORKS = ("scikit-learn", "LightGBM", "XGBoost")
BOOTSTRAP = 0.632  # share of the rows in a bootstrap sample; LightGBM and XGBoost draw it without replacement
TREES_PER_FOREST = 1000

# Trees on all features, grown until each leaf has one class.
LIGHTGBM = {"boosting": "rf", "bagging_freq": 1, "num_leaves": 4096, "min_sum_hessian_in_leaf": 0.0}
LIGHTGBM |= {"min_data_in_leaf": 1, "min_data_in_bin": 1, "max_bin": 511, "verbosity": -1, "num_threads": 1}
XGBOOST = {"max_depth": 0, "min_child_weight": 0.0, "reg_lambda": 1e-6, "max_bin": 512, "eta": 1.0, "nthread": 1}


class Trees(NamedTuple):
    """Each tree's vote, as a class index: of test rows (n_test, T) and of training rows (n, T), and its bag (n, T)."""

    test: np.ndarray
    train: np.ndarray
    inbag: np.ndarray


def grown(framework: str, ensemble: str, training: Rows, test: Rows, n_trees: int, seed: int) -> Trees:
    """The votes of ``n_trees`` trees, from forests of a thousand trees with different seeds."""
    seeds = [1000 * seed + block for block in range(math.ceil(n_trees / TREES_PER_FOREST))]
    size = min(n_trees, TREES_PER_FOREST)
    blocks = [votes(forest(framework, ensemble, training, size, seed), training, test) for seed in seeds]
    return Trees(*(np.concatenate(parts, axis=1)[:, :n_trees] for parts in zip(*blocks, strict=True)))


def votes(model: Any, training: Rows, test: Rows) -> Trees:
    """The votes of one forest's trees."""
    X, y = training
    with warnings.catch_warnings():
        # The papers' experiments contain equal rows, and votes of trees on rows that they saw.
        warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
        inbag = rfsize.inbag(model, X, y).T
        votes_of_trees = [rfsize.tree_outputs(model, rows).by_tree().astype(np.int8) for rows in (test[0], X)]
    return Trees(votes_of_trees[0], votes_of_trees[1], inbag)


def forest(framework: str, ensemble: str, training: Rows, n_trees: int, seed: int) -> Any:
    """A trained forest: ``ensemble`` is "RF", which draws √p features at each split, or "bagging", which draws none."""
    X, y = training
    per_split = max(1, int(math.sqrt(X.shape[1]))) if ensemble == "RF" else X.shape[1]
    if framework == "scikit-learn":
        return RandomForestClassifier(n_trees, max_features=per_split, random_state=seed).fit(X, y)
    return framework_forest(framework, training, n_trees, seed, by_split=per_split)


def framework_forest(
    framework: str,
    training: Rows,
    n_trees: int,
    seed: int,
    *,
    fraction: float = BOOTSTRAP,
    by_split: int | None = None,
    by_tree: int | None = None,
) -> Any:
    """A LightGBM or XGBoost forest with a bagging fraction, and features drawn at each split or for each tree."""
    X, y = training
    n_features, n_classes = X.shape[1], int(y.max()) + 1
    if framework == "LightGBM":
        objective = {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
        shares = {"feature_fraction_bynode": by_split, "feature_fraction": by_tree}
        sampling = {name: lightgbm_share(drawn, training) for name, drawn in shares.items()}
        params = {**LIGHTGBM, **sampling, **objective, "bagging_fraction": fraction, "seed": seed}
        return lgb.train(params, lgb.Dataset(X, y, params={"verbosity": -1}, free_raw_data=False), n_trees)
    objective = {"objective": "binary:logistic"}
    if n_classes > 2:
        # One tree, and so one bag, for all classes.
        objective = {"objective": "multi:softprob", "num_class": n_classes, "multi_strategy": "multi_output_tree"}
    shares = {"colsample_bynode": by_split, "colsample_bytree": by_tree}
    sampling = {name: (drawn or n_features) / n_features for name, drawn in shares.items()}
    params = {**XGBOOST, **sampling, **objective, "num_parallel_tree": n_trees, "subsample": fraction, "seed": seed}
    return xgb.train(params, xgb.DMatrix(X, y), 1)


def lightgbm_share(drawn: int | None, training: Rows) -> float:
    """The smallest share of the features, of at least ``drawn`` features, that LightGBM draws evenly.

    Where it draws few, and all trees of an iteration an even number together, it meets some more often than others,
    all through a forest: `rfsize.exceptions.ForestWarning`.
    """
    y, n_features = training[1], training[0].shape[1]
    if drawn is None:
        return 1.0
    n_outputs = int(y.max()) + 1 if y.max() > 1 else 1
    while drawn < n_features and drawn * n_outputs % 2 == 0 and drawn <= n_features / max(math.log2(drawn), 1e-9):
        drawn += 1
    return drawn / n_features


def bagged(
    training: Rows,
    X_test: np.ndarray,
    n_trees: int,
    seed: int,
    *,
    rows: int,
    replace: bool,
    features: int | None = None,
    by_split: int | None = None,
) -> Trees:
    """Unpruned CART trees of scikit-learn, each trained on a bag of rows and, if given, a few features."""
    X, y = (np.asarray(training[0], dtype=np.float32), training[1])
    X_test = np.asarray(X_test, dtype=np.float32)
    generator = np.random.default_rng(seed)
    votes_of_trees, of_training = np.empty((len(X_test), n_trees), np.int8), np.empty((len(X), n_trees), np.int8)
    inbag = np.zeros((len(X), n_trees), dtype=bool)
    for k in range(n_trees):
        bag = generator.choice(len(X), rows, replace=replace)
        inbag[bag, k] = True
        kept = slice(None) if features is None else generator.choice(X.shape[1], features, replace=False)
        tree = DecisionTreeClassifier(max_features=by_split, random_state=int(generator.integers(2**31)))
        tree.fit(X[bag][:, kept], y[bag])
        votes_of_trees[:, k], of_training[:, k] = tree.predict(X_test[:, kept]), tree.predict(X[:, kept])
    return Trees(votes_of_trees, of_training, inbag)


def majority(tree_votes: np.ndarray, n_classes: int) -> np.ndarray:
    """The class with the most votes; of equal ones, the lowest index."""
    return np.stack([(tree_votes == k).sum(axis=1) for k in range(n_classes)]).argmax(axis=0)
