"""Estimators of scikit-learn's interface: the data that they are fitted on, their number of trees, and their tags."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from rfsize._util import Int64s
from rfsize.models.framework import framework_of, training_of
from rfsize.models.rows import rows_at


@dataclass(frozen=True)
class TrainingData:
    """Rows with their labels or numbers, weights and groups.

    ``label`` holds indices into the sorted classes, or for regression, where ``classes`` is empty, numbers.
    """

    X: Any
    classes: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    groups: Any = None

    def part(self, rows: NDArray[np.int64]) -> TrainingData:
        """Some of the rows, with only the classes that occur in them."""
        weight = None if self.weight is None else self.weight[rows]
        if not len(self.classes):
            return TrainingData(rows_at(self.X, rows), self.classes, self.label[rows], weight)
        present, label = np.unique(self.label[rows], return_inverse=True)
        if len(present) < 2:
            raise ValueError("outside one fold all rows are of one class: give more rows, or other folds as cv")
        return TrainingData(rows_at(self.X, rows), self.classes[present], label, weight)

    @property
    def truth(self) -> NDArray[Any]:
        """Labels as the user gave them, or numbers."""
        return self.classes[self.label] if len(self.classes) else self.label

    def target(self, estimator: Any) -> NDArray[Any]:
        """Labels as the estimator takes them."""
        return self.label if training_of(estimator).labels_are_indices else self.truth

    def fitted(self, estimator: Any) -> Any:
        """A copy of the estimator, fitted on the rows; the estimator itself does not change."""
        weighted = {} if self.weight is None else {"sample_weight": self.weight}
        return clone(estimator).fit(self.X, self.target(estimator), **weighted)


def tree_counts(estimator: Any) -> set[str]:
    """Names of the parameters that set an estimator's number of trees; empty if it trains no trees."""
    framework = framework_of(estimator)
    if framework is None or framework.training is None:
        return set()
    return framework.training.tree_count_names(estimator) & estimator.get_params().keys()


def chosen_tree_count(estimator: Any) -> int | None:
    """The number of trees that an unfitted estimator is set to train; None if it is the default of its class."""
    defaults: dict[str, Any] = {}
    for kind in reversed(type(estimator).__mro__):  # XGBClassifier passes parameters on to its base class
        defaults |= {name: parameter.default for name, parameter in signature(kind).parameters.items()}
    counts = {name: estimator.get_params()[name] for name in tree_counts(estimator)}
    chosen = [count for name, count in counts.items() if count not in (None, defaults.get(name))]
    if not chosen:
        return None
    with suppress(NotFittedError):
        check_is_fitted(estimator)
        return None
    return max(chosen)


def of_size(estimator: Any, n_trees: int) -> Any:
    """An unfitted copy of the estimator that will train ``n_trees`` trees."""
    return clone(estimator).set_params(**dict.fromkeys(tree_counts(estimator), n_trees))


def checked_target(y: Any, n_rows: int, *, of_labels: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """The classes and each row's class index; for regression, an empty array and each row's number."""
    what = "label" if of_labels else "number"
    if y is None:
        raise ValueError(f"training requires y to be passed, but the target y is None: give one {what} per row")
    given = check_array(y, ensure_2d=False, dtype=None if of_labels else np.float64, input_name="y")
    if given.ndim > 1 and given.shape[1] > 1:
        raise ValueError(f"y has {given.shape[1]} columns: fit one forest for each column, as sklearn.multioutput does")
    target = column_or_1d(given, warn=True)
    if len(target) != n_rows:
        raise ValueError(f"X has {n_rows} rows and y {len(target)} {what}s: give one {what} per row")
    return _classes_of(target) if of_labels else (np.zeros(0), target)


def _classes_of(labels: NDArray[Any]) -> tuple[NDArray[Any], Int64s]:
    """The classes, at least two, and each row's class index."""
    try:
        check_classification_targets(labels)
        classes, label = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = ", ".join(sorted({type(value).__name__ for value in labels}))
        raise ValueError(f"y holds labels of {kinds}, which scikit-learn does not take: {error}") from None
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes.tolist()}; trees have nothing to vote on")
    return classes, label


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
