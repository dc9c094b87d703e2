"""Out-of-bag importances: seconds and memory, agreement between seeds, and whether intervals contain the truth.

    python benchmarks/importance.py [--parts speed seeds intervals] [--rows 100000] [--columns 100] [--trees 200]
        [--leaves 255] [--seeds 8]

speed: a LightGBM forest on many rows and columns, by Brier score and AUC.

seeds: forests of several sizes are trained again with other seeds. The agreement of their importances (Brier score or
R²), pair by pair, is compared with the prediction from the first 100 trees of one forest, averaged over four such
forests. Printed too: the standard error over seeds that blocks of trees give, as a share of the scatter over seeds.

intervals: the true importance of a column is measured on 5,000 fresh rows by 100 trees with another seed. Printed: how
often the 95 % interval of a forest of 100 trees contains the truth, and how often a column without effect is
recognised.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from forests import train_lightgbm
from problems import few_of_many, first_wave
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from rfsize.statistics.stability import rank_correlation, share_in_common

Train = Callable[[np.ndarray, np.ndarray, int, int], Any]
FIRST, FORETELLING, TREES = 5, 4, (50, 100, 400)
DATA_SETS, FRESH, TREES_OF_DATA_SET = 40, 5000, 100


def measure_speed(rows: int, columns: int, trees: int, leaves: int) -> None:
    """Print seconds and the peak of memory beyond what rows, forest and tree outputs take."""
    rng = np.random.default_rng(0)
    X, slopes = rng.normal(size=(rows, columns)), rng.exponential(size=columns) ** 2
    y = ((X @ slopes) / np.linalg.norm(slopes) + X[:, 0] * X[:, 1] + rng.normal(size=rows) > 0.0).astype(np.int64)
    # Columns are sampled once a tree, which takes a third of the time of sampling them at each split.
    model = train_lightgbm(X, y, trees, leaves, feature_fraction_bynode=1.0, feature_fraction=0.3)
    started = time.perf_counter()
    outputs = rfsize.tree_outputs(model, X, y, oob=True)
    print(f"{rows:,} rows × {columns} columns × {trees} trees of {leaves} leaves", flush=True)
    print(f"tree outputs with the proof of the bags: {time.perf_counter() - started:.1f} s", flush=True)
    for metric in ("brier", "auc"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        rfsize.oob_importance(outputs, metric=metric)
        seconds = time.perf_counter() - started
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
        print(f"{metric}: {seconds:.1f} s, {peak:.2f} GB more", flush=True)


def of_sklearn(kind: Any, **params: Any) -> Train:
    """A function that trains scikit-learn forests, from a number of trees and a seed."""
    return lambda X, y, trees, seed: kind(trees, random_state=seed, **params).fit(X, y)


def of_lightgbm(X: np.ndarray, y: np.ndarray, trees: int, seed: int) -> Any:
    """A LightGBM forest with this number of trees and this seed."""
    import lightgbm as lgb

    params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "verbose": -1}
    return lgb.train({**params, "feature_fraction": 0.5, "seed": seed}, lgb.Dataset(X, y), trees)


def of_xgboost(X: np.ndarray, y: np.ndarray, trees: int, seed: int) -> Any:
    """An XGBoost forest with this number of trees and this seed."""
    from xgboost import XGBClassifier

    params = {"n_estimators": 1, "learning_rate": 1, "subsample": 0.632, "colsample_bynode": 0.4}
    return XGBClassifier(**params, num_parallel_tree=trees, random_state=seed).fit(X, y)


def measure_seeds(n_seeds: int) -> None:
    """Print the agreement of importances between retrained forests, and the predicted agreement."""
    cancer, wave = load_breast_cancer(return_X_y=True), first_wave(300, np.random.default_rng(1))
    few, wine = few_of_many(500, np.random.default_rng(2)), load_wine(return_X_y=True)
    problems: dict[str, tuple[Train, tuple[np.ndarray, np.ndarray]]] = {
        "breast cancer, scikit-learn": (of_sklearn(RandomForestClassifier), cancer),
        "breast cancer, LightGBM": (of_lightgbm, cancer),
        "wine, scikit-learn": (of_sklearn(RandomForestClassifier), wine),
        "diabetes, scikit-learn": (of_sklearn(RandomForestRegressor), load_diabetes(return_X_y=True)),
        "waveform, XGBoost": (of_xgboost, wave),
        "three of thirty, scikit-learn": (of_sklearn(RandomForestClassifier), few),
        "three of thirty, LightGBM": (of_lightgbm, few),
    }
    print(f"| | trees | rank correlation | foretold | of the first {FIRST} in common | foretold | s.e. / scatter |")
    print("|---|---|---|---|---|---|---|")
    for name, (train, (X, y)) in problems.items():
        foretelling = [importances_of(train(X, y, 100, 1000 + seed), X, y) for seed in range(FORETELLING)]
        for trees in TREES:
            of_seeds = [importances_of(train(X, y, trees, seed), X, y) for seed in range(n_seeds)]
            value = np.stack([_values(importances) for importances in of_seeds])
            first, second = np.array(list(itertools.combinations(range(n_seeds), 2))).T
            cells = []
            for similarity, top in ((rank_correlation, None), (share_in_common(FIRST), FIRST)):
                foretold = [1.0 - importances.size(top=top).loss_at(trees).value for importances in foretelling]
                cells += [f"{similarity(value[first], value[second]).mean():.2f}", f"{np.mean(foretold):.2f}"]
            losses = [importances.block_losses for importances in of_seeds]
            claimed = np.mean([blocks.var(axis=0, ddof=1).sum() / len(blocks) for blocks in losses])
            cells.append(f"{np.sqrt(claimed / value.var(axis=0, ddof=1).sum()):.2f}")
            print(f"| {name} | {trees} | {' | '.join(cells)} |", flush=True)


def importances_of(forest: Any, X: np.ndarray, y: np.ndarray) -> rfsize.Importances:
    """Importances by Brier score or R²."""
    return rfsize.oob_importance(forest, X, y, metric="r2" if y.dtype.kind == "f" else "brier")


def on_fresh_rows(forest: Any, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Loss of R² on fresh rows if each column is permuted."""
    now, losses = np.mean((forest.predict(X) - y) ** 2), []
    for column in range(X.shape[1]):
        other = X.copy()
        other[:, column] = X[rng.permutation(len(X)), column]
        losses.append(np.mean((forest.predict(other) - y) ** 2) - now)
    return np.array(losses) / y.var()


def measure_intervals() -> None:
    """Print how often intervals contain the importance by trees with other seeds on fresh rows."""
    slopes = np.array([2.0, 1.0, 0.5, 0.25, 0.12, 0.0, 0.0, 0.0])
    held, noise, wide = [], [], []
    for seed in range(DATA_SETS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400 + FRESH, len(slopes)))
        y = X @ slopes + X[:, 0] * X[:, 1] + rng.normal(size=len(X))
        train = of_sklearn(RandomForestRegressor, min_samples_leaf=5, max_features=0.5)
        forests = [train(X[:400], y[:400], TREES_OF_DATA_SET, number) for number in (seed, 1000 + seed)]
        truth = on_fresh_rows(forests[1], X[400:], y[400:], rng)
        importances = rfsize.oob_importance(forests[0], X[:400], y[:400])
        columns = [importances[f"x{column}"] for column in range(len(slopes))]
        ends = np.array([column.interval for column in columns])
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        noise.append([column.is_noise for column in columns])
        ranks = np.array([column.rank_interval for column in columns[:4]])
        wide.append((ranks[:, 0] <= np.arange(1, 5)) & (np.arange(1, 5) <= ranks[:, 1]))
    print("| slope | " + " | ".join(f"{slope:g}" for slope in slopes) + " |")
    print("|---|" + "---|" * len(slopes))
    print("| interval holds the loss on fresh rows | " + " | ".join(f"{s:.0%}" for s in np.mean(held, axis=0)) + " |")
    print("| called noise | " + " | ".join(f"{share:.0%}" for share in np.mean(noise, axis=0)) + " |")
    print(f"ranks of the first four within their intervals: {np.mean(wide):.0%}")


def _values(importances: rfsize.Importances) -> np.ndarray:
    """The importance of each column."""
    return np.array([importances[f"x{column}"].value for column in range(len(importances.columns))])


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["speed", "seeds", "intervals"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    if "speed" in options.parts:
        measure_speed(options.rows, options.columns, options.trees, options.leaves)
    if "seeds" in options.parts:
        measure_seeds(options.seeds)
    if "intervals" in options.parts:
        measure_intervals()


if __name__ == "__main__":
    main()
