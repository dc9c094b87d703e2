"""Estimators with stored predictions, for scikit-learn's scorers. A row is the number of a prediction."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from rfsize._util import Floats, Int64s


class _Stored(BaseEstimator):  # type: ignore[misc]
    """An estimator that needs no fitting."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Do nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True


class StoredClassifier(ClassifierMixin, _Stored):  # type: ignore[misc]
    """A classifier that returns stored labels, shape (n_rows,), and probabilities, shape (n_rows, n_classes)."""

    def __init__(self, classes: NDArray[Any], label: NDArray[Any], probability: Floats) -> None:
        self.classes_ = classes
        self.label = label
        self.probability = probability

    def predict(self, rows: Int64s) -> NDArray[Any]:
        """Labels of rows, shape (n, 1)."""
        return self.label[rows[:, 0]]

    def predict_proba(self, rows: Int64s) -> Floats:
        """Probabilities of rows, shape (n, 1)."""
        return self.probability[rows[:, 0]]


class StoredRegressor(RegressorMixin, _Stored):  # type: ignore[misc]
    """A regressor that returns stored numbers, shape (n_rows,)."""

    def __init__(self, number: Floats) -> None:
        self.number = number

    def predict(self, rows: Int64s) -> Floats:
        """Numbers of rows, shape (n, 1)."""
        return self.number[rows[:, 0]]
