"""Leaf sums of scikit-learn's trees from training labels: a leaf stores class shares or a mean label."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rfsize.integrations.sklearn.ensemble import SklearnBags
from rfsize.models.leaves import LeafLabels, Leaves, known_truth
from rfsize.utils.typing import Floats
from rfsize.utils.validation import sample_weights

_OF_MEANS = {"squared_error", "friedman_mse", "poisson"}  # regression criteria with mean labels in the leaves


def leaf_labels(
    model: Any, leaves: Leaves, value: Floats, weight: Floats, bags: SklearnBags, y: Any, sample_weight: Any
) -> LeafLabels | None:
    """Leaf sums from the labels; None if leaves follow another formula, or training used other weights.

    Parameters
    ----------
    model
        An ensemble of trees.
    leaves
        Table of the ensemble's nodes.
    value : ndarray of float64, shape (n_nodes, n_classes or 1)
        Class shares at each node, or the mean label.
    weight : ndarray of float64, shape (n_nodes,)
        Summed weights of the rows in each node.
    bags, y, sample_weight
        Bags, labels and weights of the training rows.
    """
    tree, classes = model.estimators_[0], getattr(model, "classes_", np.zeros(0))
    label = known_truth(classes, y, bags.n_rows)
    if label is None or getattr(tree, "monotonic_cst", None) is not None:
        return None
    if len(classes):
        # Give each class a random number. One sum then checks the shares of all classes: nobody can know the numbers
        # and forge a leaf with the same sum.
        number = np.random.default_rng().uniform(-1.0, 1.0, len(classes))
        target, mean = number[label], value @ number
    elif tree.criterion in _OF_MEANS:
        target, mean = label - label.mean(), value[:, 0] - label.mean()
    else:
        return None
    # Since scikit-learn 1.8, ensembles draw rows with probabilities set by the weights, and count each draw once.
    for of_row in (sample_weights(sample_weight, bags.n_rows), np.ones(bags.n_rows)):
        drawn = partial(bags.drawn_weights, of_row)
        if np.allclose(drawn(0, bags.n_rows).sum(axis=(0, 2)), weight[leaves.offset[:, 0]], rtol=1e-9):
            return LeafLabels(target[:, None], mean * weight, weight, drawn)
    return None
