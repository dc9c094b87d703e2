"""Does a forest cut to T*(α) trees agree with a much larger forest on a share α of fresh rows?

    python benchmarks/agreement.py spam.csv.gz BreastCancer.csv.gz
    python benchmarks/agreement.py --columns 0.5 --alpha 0.98 0.99 -- Vehicle.csv.gz DNA.csv.gz
    python benchmarks/agreement.py --trees 501 --others 2001 --frameworks "stumps, bagged" -- BreastCancer.csv.gz

Each file is a table with the features first and the class in its last column, named target. There are ten splits. In
each, two thirds of the rows train a forest of 2001 trees. T*(α) is estimated from its out-of-bag votes on these rows,
and from its votes on half of the held-out rows, by all trees or by the first ones. The forest is then cut. Its labels
of the held-out rows (of the other half, if one half gave the votes) are compared with those of 5000 other trees,
trained with another seed: with their majority vote for hard voting, with the model's own `predict` for soft voting. If
there are too few out-of-bag votes, their line is left out.

"Enough" counts the splits in which the forest had T*(α) trees; in the others, all trees are compared. "Expected" is 1 −
α with the noise of the other trees, for rows that are dense around a tie: (1 − α)·√(1 + T*/other trees).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from forests import FRAMEWORKS, forest
from sklearn.model_selection import train_test_split

import rfsize

FEWEST_VOTES = 10  # per row, to size a forest by


def labels(model: Any, X: pd.DataFrame, voting: str) -> np.ndarray:
    """The labels of a forest under a voting rule."""
    return rfsize.tree_outputs(model, X).votes.winner() if voting == "hard" else np.asarray(model.predict(X))


class Case(NamedTuple):
    """One line of the table."""

    source: str
    voting: str
    alpha: float


def one_split(
    framework: str, X: pd.DataFrame, y: pd.Series, seed: int, options: argparse.Namespace
) -> dict[Case, tuple[float, ...]]:
    """T*, whether the forest has as many trees, the disagreement, and the seconds to size."""
    X, X_held, y, _ = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=y)
    model = forest(framework, options.trees, seed, options.columns).fit(X, y)
    other = forest(framework, options.others, seed + 1000, options.columns).fit(X, y)
    first = rfsize.truncate(model, n_trees=options.first_trees or options.trees)
    half = len(X_held) // 2
    sources = {
        "out-of-bag": ({"X": X, "oob": True}, X_held),
        "validation rows": ({"X": X_held[:half]}, X_held[half:]),
    }
    found = {}
    for voting in options.voting:
        expected = labels(other, X_held, voting)
        for source, (given, fresh) in sources.items():
            start = time.perf_counter()
            report = rfsize.size(first, voting=voting, **given)
            seconds = time.perf_counter() - start
            if report.votes_per_row < FEWEST_VOTES:
                continue
            for alpha in options.alpha:
                trees = report.size_at(alpha)
                small = rfsize.truncate(model, n_trees=int(min(trees, options.trees)))
                differs = float(np.mean(labels(small, fresh, voting) != expected[-len(fresh) :]))
                found[Case(source, voting, alpha)] = (trees, trees <= options.trees, differs, seconds)
    return found


def main() -> None:
    """Print one line per table, framework and source of the votes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS[:2])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trees", type=int, default=2001, help="of the forest that is truncated")
    parser.add_argument("--others", type=int, default=5000, help="trees that it is compared with")
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.99])
    parser.add_argument("--first-trees", type=int, help="trees whose votes tell T*; all by default")
    parser.add_argument("--voting", nargs="+", choices=("hard", "soft"), default=["hard"])
    parser.add_argument("--columns", type=float, default=0.3, help="features LightGBM samples for each tree")
    options = parser.parse_args()
    print(
        f"{'table':14} {'framework':22} {'votes':16} {'voting':6} {'alpha':>6} {'T* (median)':>12} {'enough':>6} "
        f"{'disagreement':>17} {'expected':>8} {'seconds':>8}"
    )
    for path in options.tables:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes
        for framework in options.frameworks:
            splits = [one_split(framework, X, y, seed, options) for seed in range(options.splits)]
            for case in splits[0]:
                trees, enough, differs, seconds = np.array([split[case] for split in splits]).T
                error = differs.std(ddof=1) / np.sqrt(len(differs))
                expected = (1.0 - case.alpha) * np.sqrt(1.0 + np.minimum(trees, options.trees) / options.others).mean()
                print(
                    f"{path.name.split('.')[0]:14} {framework:22} {case.source:16} {case.voting:6} "
                    f"{case.alpha:>6} {np.median(trees):>12.0f} {enough.sum():>6.0f} "
                    f"{differs.mean():>9.2%} ± {error:.2%} {expected:>8.2%} {np.median(seconds):>8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
