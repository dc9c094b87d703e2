"""How many votes a row are needed to tell T* of many classes: do intervals from few trees contain the truth?

    python benchmarks/many_classes.py
    python benchmarks/many_classes.py --frameworks LightGBM "XGBoost, vector leaves" --classes 5 8 --repetitions 2

Each repetition draws a problem by scikit-learn's `make_classification`: 12 columns of which 6 are informative, two
clusters a class, one label in fifty at random, 600 training rows. It trains a forest of 600 trees and sizes it for
averaged scores by pilots: the out-of-bag scores of its first 50 and 100 trees, and the scores of its first 25 and 50
trees on 600 fresh rows. The truth is T* by all trees on 2,000 other fresh rows. Printed: the votes a row, and how many
rfsize requires; the median of T̂*/T*; and how many 95 % intervals contain T*, as if the votes were enough.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple

import numpy as np
from forests import forest
from sklearn.datasets import make_classification

import rfsize
from rfsize.counting.coverage import fewest_votes
from rfsize.counting.outputs import TreeOutputs, outputs_of
from rfsize.counting.task import Task
from rfsize.estimation import soft

TREES, TRAINING, FRESH, TRUTH = 600, 600, 600, 2000
ALPHAS = (0.95, 0.99)
PILOTS = (("out of bag", 50), ("out of bag", 100), ("fresh rows", 25), ("fresh rows", 50))


class Pilot(NamedTuple):
    """The result of a pilot: votes a row, T̂*/T*, and whether the interval contains T*."""

    votes: float
    ratio: float
    holds: bool


def sized(outputs: TreeOutputs, truth: list[int | float]) -> list[Pilot]:
    """The results of one pilot, for each alpha."""
    assert outputs.scores is not None
    found = soft.smooth_or_plug_in(outputs.scores, outputs.cut, outputs.sums.blocks)
    votes, pilots = float(outputs.scores.n_votes.mean()), []
    for alpha, size in zip(ALPHAS, truth, strict=True):
        estimate = found.size(alpha)
        curves = found.replicates_with(found.tree_noise(outputs.sums.blocks), estimate)
        low, high = curves.quantile(alpha, 0.025), curves.quantile(alpha, 0.975)
        pilots.append(Pilot(votes, estimate / size, min(low, estimate) <= size <= max(high, estimate)))
    return pilots


def one(framework: str, n_classes: int, seed: int) -> list[list[Pilot]]:
    """The results of each pilot, for each alpha."""
    rows = TRAINING + FRESH + TRUTH
    X, y = make_classification(
        rows, 12, n_informative=6, n_classes=n_classes, n_clusters_per_class=2, flip_y=0.02, random_state=seed
    )
    training, fresh, others = np.split(X, [TRAINING, TRAINING + FRESH])
    model = forest(framework, TREES, seed, 0.3).fit(training, y[:TRAINING])

    def outputs(model: Any, rows: np.ndarray, oob: bool = False) -> TreeOutputs:
        return outputs_of(Task.of(model, rows, oob=oob))

    whole = outputs(model, others)
    assert whole.scores is not None
    truth = [soft.smooth_or_plug_in(whole.scores, whole.predictor.raw_threshold).size(alpha) for alpha in ALPHAS]
    found = []
    for source, n_trees in PILOTS:
        first = rfsize.truncate(model, n_trees=n_trees)
        oob = source == "out of bag"
        found.append(sized(outputs(first, training if oob else fresh, oob), truth))
    return found


def main() -> None:
    """Print one line per framework, number of classes and pilot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", nargs="+", default=["random forest"])
    parser.add_argument("--classes", nargs="+", type=int, default=[3, 5, 8, 12])
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print(f"{'framework':24} {'classes':>7} {'pilot':16} {'votes':>6} {'asked for':>9}", end="")
    print("".join(f"   ratio, holds at {alpha}" for alpha in ALPHAS))
    for framework in options.frameworks:
        for n_classes in options.classes:
            repetitions = [one(framework, n_classes, seed) for seed in range(options.repetitions)]
            for place, (source, n_trees) in enumerate(PILOTS):
                pilots = [repetition[place] for repetition in repetitions]
                votes = np.mean([pilot[0].votes for pilot in pilots])
                print(
                    f"{framework:24} {n_classes:7} {source} {n_trees:5} {votes:6.1f} {fewest_votes(n_classes):9}",
                    end="",
                )
                for at in range(len(ALPHAS)):
                    ratio = math.exp(np.median([math.log(pilot[at].ratio) for pilot in pilots]))
                    print(f"   {ratio:5.2f} {sum(pilot[at].holds for pilot in pilots):5} of {len(pilots)}", end="")
                print(flush=True)


if __name__ == "__main__":
    main()
