"""Does a lucky block of trees end the growth of a forest? On 100,000 rows, T*(0.97), the first look at 30 trees.

    python benchmarks/sure_growth.py
    python benchmarks/sure_growth.py --rows 20000 --seeds 4

LightGBM forests of 31 leaves and half of the features for each tree share what they get wrong: their blocks of 100
trees scatter far more than rows by themselves tell. Forests of several seeds are grown by `rfsize.grow` with sure=0.5,
which ends at the estimate of T* itself, and with sure=0.8. Printed are their trees, and on fresh rows the share of
labels that differ from those of a forest of 3000 trees of other seeds, where 3 % are asked for; beneath, T* by the
votes of that forest, and the share of forests that have as many trees.
"""

from __future__ import annotations

import argparse
import warnings

import lightgbm as lgb
import numpy as np
from problems import draw

import rfsize

ALPHA, FIRST_LOOK, INFINITE = 0.97, 30, 3000
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
    warnings.simplefilter("ignore", rfsize.NotConvergedWarning)
    rng = np.random.default_rng(0)
    X, y = draw(rng, options.rows)
    fresh, _ = draw(rng, 20_000)
    infinite = lgb.train({**SETTINGS, "seed": 1000}, lgb.Dataset(X, y), INFINITE)
    votes = rfsize.votes(infinite, fresh)
    truth, limit = rfsize.size(votes, alpha=ALPHA).n_trees, votes.winner()
    for sure in (0.5, 0.8):
        sizes, differ = [], []
        for seed in range(options.seeds):
            forest = rfsize.grow(
                {**SETTINGS, "seed": seed}, lgb.Dataset(X, y), alpha=ALPHA, min_trees=FIRST_LOOK, sure=sure
            )
            sizes.append(forest.num_trees())
            differ.append(np.mean(rfsize.votes(forest, fresh).winner() != limit))
        print(f"sure={sure}: trees {sizes}, labels that differ {', '.join(f'{share:.1%}' for share in differ)}")
        large = np.mean(np.array(sizes) >= truth)
        print(
            f"sure={sure}: {large:.0%} of the forests have T* = {truth} trees; {np.mean(differ):.2%} differ on average"
        )


if __name__ == "__main__":
    main()
