"""What labels make of the leaves of XGBoost's forests, whose trees all begin at base_score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.leaf_labels import LeafLabels, known_labels, known_numbers
from rfsize.integrations.xgboost.first_round import Gradients
from rfsize.integrations.xgboost.model_json import VOTING
from rfsize.utils.typing import Floats


def leaf_labels(
    objective: str, classes: NDArray[Any], prediction: Floats, gradient: Gradients, weight: Floats, y: Any, n_rows: int
) -> LeafLabels | None:
    """What labels make of the leaves; None where they are not the model's.

    Parameters
    ----------
    objective, classes
        Of the model, of constant hessian.
    prediction : ndarray of float64, shape (n_outputs,)
        Before any tree.
    gradient : Gradients
        Of the model's nodes.
    weight : ndarray of float64, shape (n_nodes,)
        Sum of the weights of their rows.
    y
        Labels of training.
    n_rows : int
        Training rows.
    """
    label = known_labels(classes, y, n_rows) if objective in VOTING else known_numbers(y, n_rows)
    if label is None:
        return None
    kept = label.astype(np.float32)  # as XGBoost keeps it
    target = kept if prediction.size == 1 else kept[:, None] == np.arange(prediction.size)
    return LeafLabels(target.reshape(n_rows, -1) - prediction, -gradient.total, weight, error=gradient.error)
