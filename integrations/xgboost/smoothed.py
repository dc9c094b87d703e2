"""What each row adds to the sums of its leaf under absolute and quantile errors, from XGBoost 3.4 on.

Up to 3.2 each row adds 1. From 3.4 on XGBoost smooths these errors. A row then adds less if its label y is further from
base_score b. With r = b − y, row weights w and the scale S = (Σ w √|r| / Σ w)² of all training rows, it adds

    w · S / √(S² + r²)                                 for reg:absoluteerror,
    w / 0.08 · max(tanh(x)/x, 0.0003), x = r / 0.04 S  for reg:quantileerror.

See MeanAbsoluteError in src/objective/regression_obj.cu and QuantileRegression in quantile_obj.cu of XGBoost 3.4.
"""

from __future__ import annotations

import numpy as np

from rfsize.utils.typing import Floats

_SMOOTHING, _LEAST = 0.04, 3.0e-4


def smoothed_masses(objective: str, start: float, label: Floats, weight: Floats) -> Floats:
    """What the rows add, shape (n_rows,); ``start`` is the prediction of the booster before any tree."""
    residual = np.float64(np.float32(start)) - np.asarray(label, dtype=np.float32).astype(np.float64)
    scale = (weight @ np.sqrt(np.abs(residual)) / max(weight.sum(), 1e-300)) ** 2
    if scale == 0.0:  # all labels are base_score, and no tree splits
        return weight
    if objective == "reg:absoluteerror":
        return np.asarray(weight * scale / np.hypot(scale, residual))
    x = residual / (_SMOOTHING * scale)
    ratio = np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0.0)
    return np.asarray(weight * 0.5 / _SMOOTHING * np.maximum(ratio, _LEAST))
