"""Order the trees so that the first few predict nearly what the whole forest predicts."""

from __future__ import annotations

import numpy as np

from rfsize._util import Int64s
from rfsize.shrinking.leaves_of_rows import LeavesOfRows


def order_of_trees(rows: LeavesOfRows) -> Int64s:
    """Choose trees one after another, so that their mean score comes nearest to the mean score of all trees.

    The distance is the sum of squares over the rows. This is ordered bagging (Martínez-Muñoz and Suárez 2006) with the
    predictions of the whole forest in place of the labels.
    """
    n_trees = rows.forest.n_trees
    products = rows.products
    own, with_chosen = np.diagonal(products), np.zeros(n_trees)
    is_left, order = np.ones(n_trees, dtype=np.bool_), np.empty(n_trees, dtype=np.int64)
    for place in range(n_trees):
        order[place] = np.argmin(np.where(is_left, own + 2.0 * with_chosen, np.inf))
        is_left[order[place]] = False
        with_chosen += products[order[place]]
    return order
