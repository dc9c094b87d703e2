"""Does a lucky block of trees end the growth of a forest? On 100,000 rows, T*(0.97), the first look at 30 trees.

    python benchmarks/sure_growth.py
    python benchmarks/sure_growth.py --rows 20000 --seeds 4

LightGBM forests of 31 leaves and half of the features for each tree share what they get wrong: their blocks of 100
trees scatter far more than rows by themselves tell. Forests of several seeds are grown by `rfsize.grow` with sure=0.5,
which ends at the estimate of T* itself, and with sure=0.8. Printed are their trees, T* by the votes of 2000 trees of
the same seed on fresh rows (another seed's forest would differ by LightGBM's way of sampling features), and the share
of labels that differ from those of these 2000, where 3 % are asked for; beneath, how many of the forests have T* trees.
"""

from __future__ import annotations

import argparse
import warnings

import lightgbm as lgb
import numpy as np
from problems import draw

import rfsize

ALPHA, FIRST_LOOK, LARGE = 0.97, 30, 2000
SETTINGS = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "num_leaves": 31,
    "verbose": -1,
}


def main() -> None:
    """Print a line for each forest, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
    rng = np.random.default_rng(0)
    X, y = draw(rng, options.rows)
    fresh, _ = draw(rng, 20_000)
    grown: dict[float, list[int]] = {0.5: [], 0.8: []}
    truths = []
    for seed in range(options.seeds):
        settings = {**SETTINGS, "seed": seed}
        votes = rfsize.tree_outputs(lgb.train(settings, lgb.Dataset(X, y), LARGE), fresh).votes
        truths.append(rfsize.size(votes, alpha=ALPHA).n_trees)
        line = f"seed {seed}: T* = {truths[-1]}"
        for sure, sizes in grown.items():
            options = {"alpha": ALPHA, "voting": "hard", "min_trees": FIRST_LOOK, "confidence": sure}
            forest = rfsize.grow(settings, lgb.Dataset(X, y), **options)[0]
            sizes.append(forest.num_trees())
            differ = np.mean(rfsize.tree_outputs(forest, fresh).votes.winner() != votes.winner())
            line += f"; sure={sure}: {sizes[-1]} trees, {differ:.1%} of the labels differ"
        print(line, flush=True)
    for sure, sizes in grown.items():
        print(f"sure={sure}: {np.mean(np.array(sizes) >= np.array(truths)):.0%} of the forests have T* trees")


if __name__ == "__main__":
    main()
