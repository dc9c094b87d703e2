"""T*(0.99) compared with older rules: McNemar's test (2001) and Banfield's smoothed accuracy (2007).

    python benchmarks/older_rules.py Satellite.csv.gz DNA.csv.gz spam.csv.gz

Each file is a table with the features first and the class in its last column, named target; in addition, 7400 rows of
ringnorm (Breiman 1996) are drawn. Each split trains scikit-learn's RandomForestClassifier on two thirds of the rows.
McNemar's test uses half of the held-out rows: for all pairs among the first 200 trees, and incrementally, by 10 trees.
Banfield's rule and T*(0.99) use the out-of-bag votes. Every size is then judged on the other half of the held-out rows,
by its test error and by the share of rows on which it differs from a forest of other trees with another seed.

Values are means over the splits, ± their standard error. "Settled" counts the splits in which the rule stopped before
the trees ran out (for T*: in which the forest has as many trees; in the other splits, all trees are judged). The last
line is the time for all pairs of 200 sizes on 10,000 rows, the fastest of three runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from problems import Rows, ringnorm, split
from sklearn.ensemble import RandomForestClassifier

import rfsize

RINGNORM_ROWS = 7400

Chosen = dict[str, tuple[int, bool]]


def chosen_sizes(forest: RandomForestClassifier, training: Rows, validation: Rows) -> Chosen:
    """Number of trees, and whether it is settled, by rule."""
    X, y = training
    held = rfsize.tree_outputs(forest, validation[0]).by_tree()
    classes = forest.classes_
    pairs = rfsize.baselines.mcnemar_size(held[:, :200], validation[1], exact=True, classes=classes)
    growing = rfsize.baselines.mcnemar_size(held, validation[1], step=10, patience=10, exact=True, classes=classes)
    batches = rfsize.baselines.banfield_size(
        rfsize.tree_outputs(forest, X).by_tree(), y, inbag=rfsize.inbag(forest, X), classes=classes
    )
    report = rfsize.size(forest, X, oob=True, alpha=0.99, voting="hard")
    n_trees = len(forest.estimators_)
    return {
        "McNemar, all pairs": (pairs.n_trees, pairs.enough),
        "McNemar, by 10": (growing.n_trees, growing.enough),
        "Banfield": (batches.n_trees, batches.enough),
        "T*(0.99)": (int(min(report.n_trees, n_trees)), report.n_trees <= n_trees),
        "all trees": (n_trees, True),
    }


def one_split(training: Rows, held_out: Rows, seed: int, options: argparse.Namespace) -> dict[str, tuple[float, ...]]:
    """Trees, whether they are settled, test error and disagreement, by rule."""
    half = len(held_out[1]) // 2
    validation, (X_test, y_test) = ((held_out[0][rows], held_out[1][rows]) for rows in (np.s_[:half], np.s_[half:]))
    forest = RandomForestClassifier(options.trees, random_state=seed).fit(*training)
    other = RandomForestClassifier(options.others, random_state=seed + 1000).fit(*training)
    expected = rfsize.tree_outputs(other, X_test).votes.winner()
    found = {}
    for rule, (trees, settled) in chosen_sizes(forest, training, validation).items():
        answer = rfsize.tree_outputs(rfsize.truncate(forest, n_trees=trees), X_test).votes.winner()
        found[rule] = (trees, settled, float((answer != y_test).mean()), float((answer != expected).mean()))
    return found


def problems(tables: list[Path]) -> Iterator[tuple[str, Rows]]:
    """Names and rows, the classes as indices."""
    for path in tables:
        table = pd.read_csv(path)
        X = table.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float32)
        yield path.name.split(".")[0], (X, table["target"].astype("category").cat.codes.to_numpy())
    yield "ringnorm", ringnorm(RINGNORM_ROWS, np.random.default_rng(0))


def print_problem(name: str, splits: list[dict[str, tuple[float, ...]]]) -> None:
    """One line per rule."""
    for rule in splits[0]:
        values = np.array([found[rule] for found in splits])
        trees, settled, *shares = values.T
        cells = [f"{share.mean():.2%} ± {share.std(ddof=1) / np.sqrt(len(share)):.2%}" for share in shares]
        print(
            f"{name:10} {rule:19} {np.median(trees):>6.0f} {trees.min():>5.0f} to {trees.max():<5.0f}"
            f"{settled.sum():>4.0f} of {len(splits):<3} {cells[0]:>16} {cells[1]:>16}",
            flush=True,
        )


def print_seconds() -> None:
    """All pairs of 200 sizes on 10,000 rows."""
    generator = np.random.default_rng(0)
    votes, y = generator.integers(0, 2, (10_000, 200)), generator.integers(0, 2, 10_000)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        rfsize.baselines.mcnemar_size(votes, y)
        seconds.append(time.perf_counter() - start)
    print(f"McNemar's test, 200 x 200 sizes on 10,000 rows: {min(seconds):.3f} s")


def main() -> None:
    """Print one line per problem and rule, then the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--trees", type=int, default=1001, help="of the forest whose size is chosen")
    parser.add_argument("--others", type=int, default=2001, help="trees that it is compared with")
    options = parser.parse_args()
    print(f"{'problem':10} {'rule':19} {'trees':>6} {'from to':>12} {'settled':>9} {'test error':>18} {'differ':>16}")
    for name, (X, y) in problems(options.tables):
        print_problem(name, [one_split(*split(X, y, seed), seed, options) for seed in range(options.splits)])
    print_seconds()


if __name__ == "__main__":
    main()
