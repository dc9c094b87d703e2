"""What labels make of the leaves of scikit-learn's trees: shares of the classes, or a mean."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rfsize.adapters.base import Leaves
from rfsize.adapters.leaf_labels import LeafLabels, known_labels, known_numbers
from rfsize.integrations.sklearn.ensemble import SklearnBags
from rfsize.utils.typing import Floats
from rfsize.utils.validation import sample_weights

_OF_MEANS = {"squared_error", "friedman_mse", "poisson"}  # criteria of regression whose leaves are means


def leaf_labels(
    model: Any, leaves: Leaves, value: Floats, weight: Floats, bags: SklearnBags, y: Any, sample_weight: Any
) -> LeafLabels | None:
    """What labels make of the leaves; None where the formula is another, or the weights are not those given.

    Parameters
    ----------
    model
        An ensemble of trees.
    leaves
        Its nodes.
    value : ndarray of float64, shape (n_nodes, n_classes or 1)
        Shares of the classes at each node, or a mean.
    weight : ndarray of float64, shape (n_nodes,)
        Sum of the weights of the rows of each node.
    bags, y, sample_weight
        Of its training.
    """
    tree = model.estimators_[0]
    if getattr(tree, "monotonic_cst", None) is not None:
        return None
    if hasattr(model, "classes_"):
        label = known_labels(model.classes_, y, bags.n_rows)
        if label is None:
            return None
        # A number for each class: the sum of them tells the shares of all classes, where nobody knows the numbers.
        number = np.random.default_rng().uniform(-1.0, 1.0, len(model.classes_))
        target, mean = number[label], value @ number
    else:
        numbers = known_numbers(y, bags.n_rows)
        if numbers is None or tree.criterion not in _OF_MEANS:
            return None
        target, mean = numbers - numbers.mean(), value[:, 0] - numbers.mean()
    # Since scikit-learn 1.8, ensembles draw rows by their weights, and then count each draw once.
    for of_row in (sample_weights(sample_weight, bags.n_rows), np.ones(bags.n_rows)):
        drawn = partial(bags.drawn_weights, of_row)
        if np.allclose(drawn(0, bags.n_rows).sum(axis=(0, 2)), weight[leaves.offset[:, 0]], rtol=1e-9):
            return LeafLabels(target[:, None], mean * weight, weight, drawn)
    return None
