"""What scikit-learn 1.6 and later do in other ways than 1.3 to 1.5."""

from __future__ import annotations

import copy
from typing import Any

from sklearn.utils import validation

IS_OLD = not hasattr(validation, "validate_data")


def input_tags(estimator: Any) -> Any:
    """What rows an estimator says that it takes, as scikit-learn 1.6 and later have it."""
    from sklearn.utils import get_tags

    tags = copy.copy(get_tags(estimator).input_tags)
    # LightGBM before 4.6 says so in the older way only.
    older = estimator._more_tags() if hasattr(estimator, "_more_tags") else {}
    tags.allow_nan |= older.get("allow_nan", False)
    tags.sparse |= "sparse" in older.get("X_types", ())
    return tags


def allows_nan(estimator: Any) -> bool:
    """Whether an estimator says that it takes rows with missing values."""
    if IS_OLD:
        from sklearn.utils._tags import _safe_tags

        return bool(_safe_tags(estimator, "allow_nan"))
    return bool(input_tags(estimator).allow_nan)


def checked_rows(estimator: Any, X: Any, *, reset: bool, finite: bool) -> Any:
    """``X`` as a numeric array or CSR matrix, its number of features kept in ``estimator`` or compared with that."""
    if IS_OLD:
        return estimator._validate_data(X, reset=reset, accept_sparse="csr", force_all_finite=finite)
    return validation.validate_data(estimator, X, reset=reset, accept_sparse="csr", ensure_all_finite=finite)


def check_table(estimator: Any, X: Any, *, reset: bool) -> None:
    """Keep names and number of the columns of a table in ``estimator``, or compare them with those it keeps."""
    if IS_OLD:
        estimator._check_feature_names(X, reset=reset)
        estimator._check_n_features(X, reset=reset)
    else:
        validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
