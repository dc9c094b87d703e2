"""What rows an estimator of scikit-learn says that it takes."""

from __future__ import annotations

import copy
from typing import Any

from sklearn.utils import get_tags


def input_tags(estimator: Any) -> Any:
    """Its input tags."""
    tags = copy.copy(get_tags(estimator).input_tags)
    # LightGBM before 4.6 says it in an older way only.
    older = estimator._more_tags() if hasattr(estimator, "_more_tags") else {}
    tags.allow_nan |= older.get("allow_nan", False)
    tags.sparse |= "sparse" in older.get("X_types", ())
    return tags


def allows_nan(estimator: Any) -> bool:
    """Whether it takes rows with missing values."""
    return bool(input_tags(estimator).allow_nan)
