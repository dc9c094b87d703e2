"""How labels give the leaf values of LightGBM forests, in which every tree begins at the mean label."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit

from rfsize.integrations.lightgbm.model_text import ForestText, numbers
from rfsize.models.leaves import LeafLabels, kept_as_single, known_truth
from rfsize.utils.typing import Floats
from rfsize.utils.validation import sample_weights

# The error of scores from the six digits of a model text, and from another order of summation.
_DIGITS = 6e-6

# With these values of the parameters, a leaf is the regularised mean of its gradients.
_PLAIN = {
    "lambda_l1": 0.0,
    "max_delta_step": 0.0,
    "path_smooth": 0.0,
    "use_quantized_grad": 0.0,
    "is_unbalance": 0.0,
    "scale_pos_weight": 1.0,
    "reg_sqrt": 0.0,
}


def leaf_labels(forest: ForestText, classes: Any, y: Any, sample_weight: Any, n_rows: int) -> LeafLabels | None:
    """How labels give the leaf values; None if LightGBM used another formula."""
    objective = forest.header.get("objective", "custom").partition(" ")[0]
    if objective not in ("binary", "cross_entropy", "multiclass", "multiclassova", "regression"):
        return None
    label = known_truth(np.zeros(0) if objective in ("cross_entropy", "regression") else classes, y, n_rows)
    if label is None or not _is_plain(forest.parameters):
        return None
    weight = sample_weights(sample_weight, n_rows).astype(np.float32).astype(np.float64)  # as LightGBM keeps them
    target = kept_as_single(label, forest.n_outputs)
    if not weight.sum() > 0.0:
        return None
    mean, from_mean = np.average(target, axis=0, weights=weight), forest.parameters["boost_from_average"] == "1"
    if not from_mean:
        mean = np.full_like(mean, {"regression": 0.0, "multiclass": 1.0 / forest.n_outputs}.get(objective, 0.5))
    start, slope, hessian = _start(objective, mean, forest.sigmoid)
    if not from_mean:
        start = np.zeros_like(start)
    if not (np.isfinite(start) & (hessian > 0.0)).all():
        return None
    sizes = [value.size for value in forest.leaf_value]
    output = np.repeat(np.arange(len(sizes)) % forest.n_outputs, sizes)
    stored = np.concatenate([_leaf_weight(tree, size) for tree, size in zip(forest.trees, sizes, strict=True)])
    raw = np.concatenate(forest.leaf_value) - start[output]
    per_score = (stored + float(forest.parameters["lambda_l2"])) / slope
    error = _DIGITS * (np.abs(raw) + np.abs(start[output])) * per_score
    of_rows = None if sample_weight is None else lambda first, last: weight[first:last, None, None]
    return LeafLabels(target - mean, raw * per_score, stored / hessian[output], of_rows, error)


def _is_plain(parameters: dict[str, str]) -> bool:
    try:
        plain = all(float(parameters[name]) == value for name, value in _PLAIN.items())
        unlimited = not parameters["monotone_constraints"] and float(parameters["lambda_l2"]) >= 0.0
        return plain and unlimited and "boost_from_average" in parameters
    except (KeyError, ValueError):
        return False


def _start(objective: str, mean: Floats, sigmoid: float) -> tuple[Floats, float, Floats]:
    """Score before any tree, slope of the gradient by the label, and hessian of a row of unit weight; by output."""
    with np.errstate(divide="ignore"):
        if objective == "regression":
            return mean, 1.0, np.ones_like(mean)
        if objective == "multiclass":
            return np.log(mean), 1.0, mean.size / (mean.size - 1) * mean * (1.0 - mean)
        slope = 1.0 if objective == "cross_entropy" else sigmoid
        return logit(mean) / slope, slope, slope**2 * mean * (1.0 - mean)


def _leaf_weight(tree: str, n_leaves: int) -> Floats:
    """Hessians of the leaves of a tree; NaN if a value depends on more, as after a categorical split."""
    weight = numbers(tree, "leaf_weight")
    is_told = weight.size == n_leaves > 1 and not numbers(tree, "num_cat").any()
    return weight if is_told else np.full(n_leaves, np.nan)
