"""How often intervals of `rfsize.compare` contain the true difference of two settings, and how wide they are.

    python benchmarks/comparing.py --repetitions 100

The two settings draw different numbers of features at each split: the usual square root, and all. scikit-learn trains
forests of 100 trees with each on 1,000 rows of threenorm; they are asked out of bag. The truth is the difference on
20,000 fresh rows between forests of 300 trees with other seeds, trained on the same rows.

The first column says how often the 95 % interval for infinitely many trees contains the truth. The second says how
often the interval for two forests of the same setting excludes 0. Then follow the width of the interval compared with
that of two scores taken as independent, and how often each of them tells the settings apart.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import made
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import brier_score_loss, roc_auc_score

import rfsize

ROWS, FRESH, TREES, MANY = 1000, 20_000, 100, 300
METRICS = {"brier": brier_score_loss, "auc": roc_auc_score}


def forest(trees: int, features: Any, seed: int, rows: Any) -> Any:
    return RandomForestClassifier(trees, max_features=features, min_samples_leaf=3, random_state=seed).fit(*rows)


def repetition(seed: int) -> list[list[float]]:
    """For each metric: interval holds, false alarm, relative width, significance by pairs and by two scores."""
    rows, fresh = (made.threenorm(n, seed=s) for n, s in ((ROWS, seed), (FRESH, 10_000 + seed)))
    forests = [forest(TREES, *of, rows) for of in (("sqrt", seed), (None, seed), ("sqrt", 20_000 + seed))]
    truth = [forest(MANY, features, 30_000 + seed, rows).predict_proba(fresh[0])[:, 1] for features in ("sqrt", None)]
    usual, all_features, again = (rfsize.tree_outputs(one, *rows, oob=True) for one in forests)
    found = []
    for metric, score in METRICS.items():
        difference = score(fresh[1], truth[0]) - score(fresh[1], truth[1])
        told, same = (rfsize.compare(usual, other, metric=metric) for other in (all_features, again))
        assert told.limit is not None
        assert same.limit is not None
        low, high = told.limit.interval
        alone = [rfsize.oob_score(one, metric=metric) for one in (usual, all_features)]
        width = np.hypot(*(one.interval[1] - one.interval[0] for one in alone))
        apart = abs(alone[0].at_all_trees - alone[1].at_all_trees) > width / 2.0
        found.append(
            [
                low <= difference <= high,
                same.limit.better is not None,
                (high - low) / width,
                told.limit.better is not None,
                apart,
            ]
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore")
    found = np.array([repetition(seed) for seed in range(repetitions)], dtype=float).mean(axis=0)
    print(f"{'metric':<8}{'holds':>8}{'one setting apart':>20}{'width':>8}{'told apart':>12}{'by two scores':>15}")
    for metric, (holds, alarm, width, told, alone) in zip(METRICS, found, strict=True):
        print(f"{metric:<8}{holds:>8.0%}{alarm:>20.0%}{width:>8.2f}{told:>12.0%}{alone:>15.0%}")


if __name__ == "__main__":
    main()
