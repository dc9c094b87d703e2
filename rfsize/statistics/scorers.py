"""Calls functions of the truth and the predictions, and scikit-learn's scorers, on stored predictions.

It imports scikit-learn, which takes long: import this module only where a metric is a callable.
"""

from __future__ import annotations

import math
from reprlib import repr as abridged
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from rfsize._util import Floats, Int64s, training_labels
from rfsize.models.link import Predictor
from rfsize.statistics.metrics import Metric

_LARGEST = 1e300  # values are limited to it, so that their means and differences are finite
_LEAST_SUM = float(np.finfo(np.float64).eps)


def metric_by(
    function: Any, name: str, forest: Predictor, y: Any, weight: Floats, *, is_scorer: bool, is_weighted: bool
) -> Metric:
    """A metric by a function of the truth and the predictions, or by a scorer; ``y`` and weights are those of the rows.

    ``is_weighted`` says that the function gets the weights.
    """
    classes, truth = forest.classes, np.asarray(y)
    if is_scorer:
        truth = training_labels(classes, y, len(weight))
        truth = classes[truth] if classes.size else truth  # it takes the model's own labels
    if truth.shape != weight.shape:
        raise ValueError(f"y must hold one value per row of X: {len(weight)} expected, found shape {truth.shape}")

    def of_forest(truth: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        weights = {"sample_weight": weight} if is_weighted else {}
        # A copy, because a callable may change it.
        output = _probabilities(predicted) if forest.classes.size else predicted[:, 0].copy()
        if is_scorer:
            return _number(function(_estimator(output, forest), np.arange(len(truth))[:, None], truth, **weights))
        return _number(function(truth, output[:, 1] if len(forest.classes) == 2 else output, **weights))

    def value(truth: NDArray[Any], predicted: Floats, weight: Floats) -> Floats:
        *shape, n_rows, n_outputs = predicted.shape
        by_forest = predicted.reshape(-1, n_rows, n_outputs)
        values = [of_forest(truth, predicted_by_forest, weight) for predicted_by_forest in by_forest]
        return np.reshape(values, shape)

    unbounded, larger_is_better = (-math.inf, math.inf), True if is_scorer else None
    return Metric(name, value, None, unbounded, larger_is_better, truth=truth, weight=weight)


def _probabilities(predicted: Floats) -> Floats:
    """Probabilities of all classes as callables take them, within [0, 1] and with the same sum."""
    cut = np.clip(predicted, 0.0, 1.0)
    cut *= (predicted.sum(axis=1) / np.maximum(cut.sum(axis=1), _LEAST_SUM))[:, None]
    return np.minimum(cut, 1.0)  # the last bit of the product


def _number(value: Any) -> float:
    """The value of a metric as a float; ``ValueError`` if it is no finite number."""
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "biuf" or not abs(float(number)) < _LARGEST:
        raise ValueError(f"the metric must give one finite number, below {_LARGEST:g}, found {abridged(value)}")
    return float(number)


# Estimators with stored predictions, for scorers: a row is the number of a prediction


def _estimator(predicted: Floats, forest: Predictor) -> Any:
    if not len(forest.classes):
        return _StoredRegressor(predicted)
    return _StoredClassifier(forest.classes[forest.labels(predicted)], predicted, forest.classes)


class _Stored(BaseEstimator):  # type: ignore[misc]
    """An estimator that needs no fitting: it returns stored labels or numbers, and probabilities of all classes."""

    def __init__(self, answer: NDArray[Any], probability: Floats | None = None, classes: Any = None) -> None:
        self.answer, self.probability, self.classes_ = answer, probability, classes

    def fit(self, X: Any, y: Any = None) -> Any:
        """Do nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, rows: Int64s) -> NDArray[Any]:
        """Labels or numbers of rows, shape (n, 1)."""
        return self.answer[rows[:, 0]]

    def predict_proba(self, rows: Int64s) -> Any:
        """Probabilities of rows, shape (n, 1)."""
        assert self.probability is not None
        return self.probability[rows[:, 0]]


class _StoredClassifier(ClassifierMixin, _Stored):  # type: ignore[misc]
    """Stored labels and probabilities."""


class _StoredRegressor(RegressorMixin, _Stored):  # type: ignore[misc]
    """Stored numbers."""
