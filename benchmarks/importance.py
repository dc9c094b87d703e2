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
from typing import Any

import numpy as np
from problems import Array, Rows, few_of_many, first_wave, forest, print_head, print_line
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestRegressor

import rfsize
from rfsize.statistics.permutation import rank_correlation, share_in_common

FIRST, FORETELLING, TREES = 5, 4, (50, 100, 400)
DATA_SETS, FRESH = 40, 5000


def measure_speed(options: argparse.Namespace) -> None:
    """Print seconds and the peak of memory beyond what rows, forest and tree outputs take."""
    rng = np.random.default_rng(0)
    X, slopes = rng.normal(size=(options.rows, options.columns)), rng.exponential(size=options.columns) ** 2
    signal = (X @ slopes) / np.linalg.norm(slopes) + X[:, 0] * X[:, 1] + rng.normal(size=options.rows)
    # Columns are sampled once a tree, which takes a third of the time of sampling them at each split.
    model = forest("LightGBM", options.trees, 0, columns=0.3, n_jobs=-1).set_params(num_leaves=options.leaves)
    y = (signal > 0.0).astype(np.int64)
    model.fit(X, y)
    started = time.perf_counter()
    outputs = rfsize.tree_outputs(model, X, y, oob=True)
    print(f"tree outputs with the proof of the bags: {time.perf_counter() - started:.1f} s", flush=True)
    for metric in ("brier", "auc"):
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        rfsize.oob_importance(outputs, metric=metric)
        seconds = time.perf_counter() - started
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
        print(f"{metric}: {seconds:.1f} s, {peak:.2f} GB more", flush=True)


def measure_seeds(n_seeds: int) -> None:
    """Print the agreement of importances between retrained forests, and the predicted agreement."""
    cancer, wave = load_breast_cancer(return_X_y=True), first_wave(300, np.random.default_rng(1))
    few, wine = few_of_many(500, np.random.default_rng(2)), load_wine(return_X_y=True)
    problems: dict[tuple[str, str], Rows] = {
        ("breast cancer", "random forest"): cancer,
        ("breast cancer", "LightGBM"): cancer,
        ("wine", "random forest"): wine,
        ("diabetes", "random forest"): load_diabetes(return_X_y=True),
        ("waveform", "XGBoost"): wave,
        ("three of thirty", "random forest"): few,
        ("three of thirty", "LightGBM"): few,
    }
    names = ("rank correlation", "foretold", f"of the first {FIRST} in common", "foretold", "s.e. / scatter")
    print_head("problem", "framework", "trees", *names)
    for (name, framework), rows in problems.items():
        foretelling = [importances_of(framework, rows, 100, 1000 + seed) for seed in range(FORETELLING)]
        for trees in TREES:
            of_seeds = [importances_of(framework, rows, trees, seed) for seed in range(n_seeds)]
            value = np.array([[one[f"x{k}"].value for k in range(len(one.columns))] for one in of_seeds])
            first, second = np.array(list(itertools.combinations(range(n_seeds), 2))).T
            cells = []
            for similarity, top in ((rank_correlation, None), (share_in_common(FIRST), FIRST)):
                foretold = [1.0 - one.size(top=top).loss_at(trees).value for one in foretelling]
                cells += [f"{similarity(value[first], value[second]).mean():.2f}", f"{np.mean(foretold):.2f}"]
            losses = [one.block_losses for one in of_seeds]
            claimed = np.mean([blocks.var(axis=0, ddof=1).sum() / len(blocks) for blocks in losses])
            cells.append(f"{np.sqrt(claimed / value.var(axis=0, ddof=1).sum()):.2f}")
            print_line(name, framework, trees, *cells)


def importances_of(framework: str, rows: Rows, trees: int, seed: int) -> rfsize.Importances:
    """Importances by Brier score or R²."""
    is_number = rows[1].dtype.kind == "f"
    model = forest(framework, trees, seed, regression=is_number).fit(*rows)
    return rfsize.oob_importance(model, *rows, metric="r2" if is_number else "brier")


def on_fresh_rows(model: Any, X: Array, y: Array, rng: np.random.Generator) -> Array:
    """Loss of R² on fresh rows if each column is permuted."""
    now, losses = np.mean((model.predict(X) - y) ** 2), []
    for column in range(X.shape[1]):
        other = X.copy()
        other[:, column] = X[rng.permutation(len(X)), column]
        losses.append(np.mean((model.predict(other) - y) ** 2) - now)
    return np.array(losses) / y.var()


def measure_intervals() -> None:
    """Print how often intervals contain the importance by trees with other seeds on fresh rows."""
    slopes = np.array([2.0, 1.0, 0.5, 0.25, 0.12, 0.0, 0.0, 0.0])
    held, noise, wide = [], [], []
    for seed in range(DATA_SETS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400 + FRESH, len(slopes)))
        y = X @ slopes + X[:, 0] * X[:, 1] + rng.normal(size=len(X))
        settings: dict[str, Any] = {"min_samples_leaf": 5, "max_features": 0.5}
        forests = [
            RandomForestRegressor(100, random_state=number, **settings).fit(X[:400], y[:400])
            for number in (seed, 1000 + seed)
        ]
        truth = on_fresh_rows(forests[1], X[400:], y[400:], rng)
        importances = rfsize.oob_importance(forests[0], X[:400], y[:400])
        columns = [importances[f"x{column}"] for column in range(len(slopes))]
        ends = np.array([column.interval for column in columns])
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        noise.append([column.is_noise for column in columns])
        ranks = np.array([column.rank_interval for column in columns[:4]])
        wide.append((ranks[:, 0] <= np.arange(1, 5)) & (np.arange(1, 5) <= ranks[:, 1]))
    print_head("slope", *(f"{slope:g}" for slope in slopes))
    print_line("interval holds the loss on fresh rows", *(f"{share:.0%}" for share in np.mean(held, axis=0)))
    print_line("called noise", *(f"{share:.0%}" for share in np.mean(noise, axis=0)))
    print(f"ranks of the first four within their intervals: {np.mean(wide):.0%}")


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["speed", "seeds", "intervals"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    for name, default in (("rows", 100_000), ("columns", 100), ("trees", 200), ("leaves", 255), ("seeds", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if "speed" in options.parts:
        measure_speed(options)
    if "seeds" in options.parts:
        measure_seeds(options.seeds)
    if "intervals" in options.parts:
        measure_intervals()


if __name__ == "__main__":
    main()
