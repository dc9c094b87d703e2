"""What labels make of the leaves of XGBoost's forests, whose trees all begin at base_score."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from rfsize.adapters.leaf_labels import LeafLabels, kept_as_single, known_labels, known_numbers
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
    target = kept_as_single(label, prediction.size) - prediction
    return LeafLabels(target, -gradient.total, weight, error=gradient.error)
