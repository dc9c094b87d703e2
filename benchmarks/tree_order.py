"""How much the disagreement of a compiled forest with a stop table depends on the order of its trees.

    python benchmarks/tree_order.py

Forests of 101 trees, with the threshold table at α = 0.99 and a prior from the votes on other rows. Printed: the
disagreement that the table expects, the one in the trees' own order, and its mean and standard deviation over random
orders.
"""

from __future__ import annotations

import numpy as np
from forests import train_lightgbm, train_xgboost
from problems import draw

import rfsize
from rfsize.models.framework import read_forest

TREES, FORESTS, ORDERS = 101, 6, 20


def main() -> None:
    """Print one line per framework and size of tree."""
    rng = np.random.default_rng(0)
    for leaves in (31, 255):
        for framework, train in (("LightGBM", train_lightgbm), ("XGBoost", train_xgboost)):
            expected, in_order, shuffled = [], [], []
            for _ in range(FORESTS):
                rows, (X, _), (other_rows, _) = draw(rng, 20_000), draw(rng, 10_000), draw(rng, 10_000)
                forest = read_forest(train(*rows, TREES, leaves))
                table = rfsize.StopTable.build(TREES, alpha=0.99, prior=rfsize.tree_outputs(forest, other_rows).votes)
                expected.append(table.expected_disagreement())
                vote = rfsize.tree_outputs(forest, X).by_tree().astype(np.int8)
                whole = 2 * vote.sum(axis=1) > TREES
                in_order.append(np.mean(table.apply(vote)[0] != whole))
                orders = (rng.permutation(TREES) for _ in range(ORDERS))
                shuffled.append([np.mean(table.apply(vote[:, order])[0] != whole) for order in orders])
            print(
                f"{framework:9} {leaves:3} leaves: expected {np.mean(expected):.2%}, in order {np.mean(in_order):.2%}, "
                f"random orders {np.mean(shuffled):.2%}, standard deviation {np.std(shuffled):.2%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
