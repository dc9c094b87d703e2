"""Class labels of any kind, checked as scikit-learn checks them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from rfsize.utils.typing import Int64s
from rfsize.utils.words import how_many


def checked_labels(y: Any, n_rows: int) -> tuple[NDArray[Any], Int64s]:
    """The classes, and the index of each row's."""
    if y is None:
        raise ValueError("RightSizedClassifier requires y to be passed, but the target y is None")
    given = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    if given.ndim > 1 and given.shape[1] > 1:
        raise ValueError(
            f"y has {given.shape[1]} columns; T*(α) is about one label per row: fit one forest for each column, as "
            "sklearn.multioutput.MultiOutputClassifier does"
        )
    labels = column_or_1d(given, warn=True)
    if len(labels) != n_rows:
        raise ValueError(
            f"X has {how_many(n_rows, 'row')} and y {how_many(len(labels), 'label')}; give one label per row"
        )
    try:
        check_classification_targets(labels)
        classes, label = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in labels})
        if len(kinds) == 1:
            raise ValueError(
                f"y holds labels of the type {kinds[0]}, which scikit-learn does not take: {error}"
            ) from None
        raise ValueError(f"y mixes labels of the types {', '.join(kinds)}; give labels of one type") from None
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes.tolist()}; trees have nothing to vote on")
    return classes, label
