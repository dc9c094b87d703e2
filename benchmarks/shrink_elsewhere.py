"""Shrunken forests compared with first trees and with published leaf refinement, at 50, 20 and 10 % of the trees.

    python benchmarks/shrink_elsewhere.py --forests 6
    python benchmarks/shrink_elsewhere.py --forests 0 spam.csv.gz
    python benchmarks/shrink_elsewhere.py --forests 0 --splits 200
    python benchmarks/shrink_elsewhere.py --forests 0 --timing

Forests of two classes, by LightGBM and XGBoost in turn, on the synthetic problems and tables of ``shrink.py``. Leaf
refinement (S. Buschjäger, K. Morik 2021, arXiv 2110.10075) takes the first trees and moves all their leaves by
stochastic gradient descent on the log loss of the training labels: 20 epochs in batches of 128 rows. It gets the best
of the step sizes 0.1, 1 and 10 and of all epochs, judged on the rows that certify. For each way, the table shows the
loss of log loss and AUC on fresh rows against all trees (negative for a gain), and the share of labels that differ from
those of all trees.

``--splits`` shrinks this number of forests, each on its own rows, and counts those that change more than 1 − α of the
labels on 20,000 fresh rows. ``--timing`` shrinks 500 trees of 255 leaves on 100,000 rows, and prints time and peak
memory.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from certified import FRAMEWORKS, forest, made, thirds
from scipy.special import expit
from scipy.stats import binom
from sklearn.metrics import log_loss, roc_auc_score

import rfsize
from rfsize.models.framework import read_forest

ROWS, FRESH, SHARES = 5000, 20_000, (0.5, 0.2, 0.1)
EPOCHS, BATCH, STEPS = 20, 128, (0.1, 1.0, 10.0)

Parts = list[tuple[np.ndarray, np.ndarray]]


def refined(raw: np.ndarray, leaf: np.ndarray, y: np.ndarray, leaf_chosen: np.ndarray, y_chosen: np.ndarray) -> Any:
    """Scores of leaves, refined by stochastic gradient on the log loss; leaves of rows in some trees, (n, k)."""
    best, k = (np.inf, raw), leaf.shape[1]
    for step in STEPS:
        scores, generator = raw.copy(), np.random.default_rng(0)
        for _ in range(EPOCHS):
            for batch in np.array_split(generator.permutation(len(y)), max(1, len(y) // BATCH)):
                error = expit(scores[leaf[batch]].mean(axis=1)) - y[batch]
                np.subtract.at(scores, leaf[batch], np.repeat(step * error[:, None] / len(batch), k, axis=1))
            loss = log_loss(y_chosen, expit(scores[leaf_chosen].mean(axis=1)))
            best = min(best, (loss, scores.copy()), key=lambda pair: pair[0])
    return best[1]


def compared(name: str, model: Any, parts: Parts) -> list[list[float]]:
    """What each way loses at each share of the trees: of log loss, AUC and labels."""
    (train, y_train), (certify, y_certify), (fresh, y) = parts
    forest = read_forest(model)
    on_train, on_certify, on_fresh = (forest.apply(X)[:, :, 0] for X in (train, certify, fresh))
    scores = forest.ensemble.tree_scores.astype(float)
    whole = expit(scores[on_fresh].mean(axis=1))
    np.testing.assert_allclose(whole, model.predict_proba(fresh)[:, 1], atol=1e-5)
    found = []
    for share in SHARES:
        k = round(share * forest.n_trees)
        new = refined(scores, on_train[:, :k], y_train, on_certify[:, :k], y_certify)
        small, _ = rfsize.shrink(model, certify, rows=train, n_trees=k)
        first = [expit(of_leaves[on_fresh[:, :k]].mean(axis=1)) for of_leaves in (scores, new)]
        of_ways = [*first, small.predict_proba(fresh)[:, 1]]
        for by in of_ways:
            lost = log_loss(y, by) - log_loss(y, whole), roc_auc_score(y, whole) - roc_auc_score(y, by)
            found.append([*lost, float(np.mean((by > 0.5) != (whole > 0.5)))])
        shown = " | ".join(f"{one[0]:.5f}, {one[1]:.5f}, {one[2]:.2%}" for one in found[-3:])
        print(f"| {name} | {share:.0%} | {shown} |", flush=True)
    return found


def made_forest(number: int, framework: str) -> tuple[str, Any, Parts]:
    """A forest of two classes on a made problem, its rows to train, to certify and to compare."""
    generator = np.random.default_rng(30_000 + number)
    X, y = made(2 * ROWS + FRESH, 2, generator, 30_000 + number)
    parts = [(X[rows], y[rows]) for rows in np.split(np.arange(len(y)), [ROWS, 2 * ROWS])]
    n_leaves = (31, 63, 255)[number % 3]
    name = f"made {number}, {framework}, {n_leaves} leaves"
    return name, forest(framework, 300, n_leaves, number).fit(*parts[0]), parts


def table_forest(path: Path, framework: str) -> tuple[str, Any, Parts]:
    """A forest of two classes on a third of a table."""
    parts = [*thirds(path, 0)]
    return f"{path.name.split('.')[0]}, {framework}", forest(framework, 300, 63, 0).fit(*parts[0]), parts


def splits(n: int) -> None:
    """How often certificates of fresh splits fail."""
    above, surely, kept = 0, 0, []
    for number in range(n):
        generator = np.random.default_rng(40_000 + number)
        X, y = made(4000 + FRESH, 2, generator, 40_000 + number)
        model = forest(FRAMEWORKS[number % 2], 100, 31, number).fit(X[:2000], y[:2000])
        small, report = rfsize.shrink(model, X[2000:4000], rows=X[:2000], alpha=0.97)
        differ = int(np.sum(small.predict(X[4000:]) != model.predict(X[4000:])))
        above += differ > 0.03 * FRESH
        surely += binom.sf(differ - 1, FRESH, 0.03) < 0.05
        kept.append(report.n_trees)
    print(
        f"{n} splits, α = 0.97: {above} above 1 − α, {surely} surely; {np.median(kept):.0f} of 100 trees kept (median)"
    )


def timing() -> None:
    """One large forest."""
    X, y = made(120_000, 2, np.random.default_rng(0), 0)
    model = forest("LightGBM", 500, 255, 0).fit(X[:20_000], y[:20_000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, of_processor = time.perf_counter(), time.process_time()
    _, report = rfsize.shrink(model, X[20_000:], alpha=0.99)
    seconds, of_processor = time.perf_counter() - start, time.process_time() - of_processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"500 trees of 255 leaves, 100,000 rows: {seconds:.1f} s ({of_processor:.1f} s of processors), "
        f"peak {peak / 1e6:.2f} GB ({before / 1e6:.2f} GB before), {report.n_trees} trees kept at α = 0.99"
    )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--forests", type=int, default=6)
    parser.add_argument("--splits", type=int, default=0)
    parser.add_argument("--timing", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    jobs = [(made_forest, number, FRAMEWORKS[number % 2]) for number in range(options.forests)]
    jobs += [(table_forest, path, framework) for path in options.tables for framework in FRAMEWORKS[:2]]
    if jobs:
        print("| forest | trees | first: log loss, AUC, labels | leaf refinement | shrunk |\n|---|---|---|---|---|")
        found = np.array([compared(*job(*given)) for job, *given in jobs]).reshape(len(jobs), len(SHARES), 3, 3)
        for share, median in zip(SHARES, np.median(found, axis=0), strict=True):
            shown = " | ".join(f"{one[0]:.5f}, {one[1]:.5f}, {one[2]:.2%}" for one in median)
            print(f"| median | {share:.0%} | {shown} |")
    if options.splits:
        splits(options.splits)
    if options.timing:
        timing()


if __name__ == "__main__":
    main()
