"""What rows an estimator of scikit-learn says that it takes."""

from __future__ import annotations

import copy
from typing import Any

from sklearn.base import is_regressor
from sklearn.utils import get_tags


def input_tags(estimator: Any) -> Any:
    """Its input tags."""
    tags = copy.copy(get_tags(estimator).input_tags)
    # LightGBM before 4.6 says it in an older way only.
    older = estimator._more_tags() if hasattr(estimator, "_more_tags") else {}
    tags.allow_nan |= older.get("allow_nan", False)
    tags.sparse |= "sparse" in older.get("X_types", ())
    return tags


def is_regression(estimator: Any) -> bool:
    """Whether an estimator says that it predicts numbers; those of LightGBM before 4.6 say it in an older way."""
    if hasattr(estimator, "__sklearn_tags__"):
        return bool(is_regressor(estimator))
    return getattr(estimator, "_estimator_type", None) == "regressor"


def allows_nan(estimator: Any) -> bool:
    """Whether it takes rows with missing values."""
    return bool(input_tags(estimator).allow_nan)
