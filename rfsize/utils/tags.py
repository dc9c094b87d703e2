"""Reads the tags of scikit-learn estimators."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

from sklearn.base import is_regressor
from sklearn.utils import get_tags


def input_tags(estimator: Any) -> Any:
    """The input tags of an estimator."""
    tags = copy.copy(get_tags(estimator).input_tags)
    older: dict[str, Any] = {}
    with suppress(AttributeError):  # only LightGBM before 4.6 needs the older form of tags; others may have half of it
        older = estimator._more_tags()
    tags.allow_nan |= older.get("allow_nan", False)
    tags.sparse |= "sparse" in older.get("X_types", ())
    return tags


def is_regression(estimator: Any) -> bool:
    """Whether an estimator predicts numbers. LightGBM before 4.6 has only the older form of tags."""
    if hasattr(estimator, "__sklearn_tags__"):
        return bool(is_regressor(estimator))
    return getattr(estimator, "_estimator_type", None) == "regressor"


def allows_nan(estimator: Any) -> bool:
    """Whether an estimator takes rows with missing values."""
    return bool(input_tags(estimator).allow_nan)
