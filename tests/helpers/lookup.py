"""Forests whose members predict for row i what a table holds for it, so that all about them is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import BaggingClassifier, BaggingRegressor


def rows_of(table: np.ndarray) -> np.ndarray:
    """X for all rows of a table: the number of the row."""
    return np.arange(len(table), dtype=float)[:, None]


class _Numbers(RegressorMixin, BaseEstimator):
    def fit(self, X: Any, y: Any) -> _Numbers:
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.table[np.asarray(X)[:, 0].astype(int)]


class _Classes(ClassifierMixin, BaseEstimator):
    def fit(self, X: Any, y: Any) -> _Classes:
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.table[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def regressor(score: np.ndarray, y: Any = None, **bags: Any) -> BaggingRegressor:
    """A forest of ``score``, shape (n_rows, n_trees)."""
    y = np.arange(len(score), dtype=float) if y is None else y
    return _fitted(BaggingRegressor(_Numbers(), score.shape[1], random_state=0, **bags), score, y)


def classifier(probability: np.ndarray, y: Any = None, **bags: Any) -> BaggingClassifier:
    """A forest of ``probability``, shape (n_rows, n_trees, n_classes), or of class 1 alone, (n_rows, n_trees)."""
    if probability.ndim == 2:
        probability = np.stack([1.0 - probability, probability], axis=2)
    y = np.arange(len(probability)) % probability.shape[2] if y is None else y
    return _fitted(BaggingClassifier(_Classes(), probability.shape[1], random_state=0, **bags), probability, y)


def by_scores(score: np.ndarray, **bags: Any) -> BaggingClassifier:
    """A forest whose probabilities differ between the classes as ``score`` does, shape (n_rows, n_trees, n_classes)."""
    apart = score - score.mean(axis=2, keepdims=True)
    n_classes = score.shape[2]
    return classifier(1.0 / n_classes + apart / (n_classes * np.abs(apart).max()), **bags)


def by_one_score(score: np.ndarray, **bags: Any) -> BaggingClassifier:
    """A forest of class 1 where the mean of ``score``, shape (n_rows, n_trees), exceeds 0."""
    return by_scores(np.stack([-score, score], axis=2), **bags)


def _fitted(model: Any, table: np.ndarray, y: np.ndarray) -> Any:
    model.fit(rows_of(table), y)
    for tree, member in enumerate(model.estimators_):
        member.table = table[:, tree]
        member.classes_ = np.arange(table.shape[-1])  # a bag may lack one
    return model
