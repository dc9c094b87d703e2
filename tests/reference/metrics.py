"""Metrics of two classes and of numbers, once more: without the milliseconds that each call of scikit-learn's takes."""

from __future__ import annotations

import numpy as np


def auc(y: np.ndarray, p: np.ndarray) -> float:
    """Share of the pairs of a row of each class that are in order; ties count half."""
    high, low = p[y == 1][:, None], p[y == 0]
    return float(np.mean((high > low) + (high == low) / 2.0))


def average_precision(y: np.ndarray, p: np.ndarray) -> float:
    """Precision at the probability of each row of class 1, averaged over them."""
    levels, level = np.unique(p, return_inverse=True)
    at_least = [np.bincount(level[of], minlength=len(levels))[::-1].cumsum()[::-1] for of in (y == 1, y >= 0)]
    return float(np.mean((at_least[0] / at_least[1])[level[y == 1]]))


def logloss(y: np.ndarray, p: np.ndarray) -> float:
    """Mean of -log of what the row's class is given, clipped as by scikit-learn; ``p`` of class 1, or of all."""
    of_class = np.where(y == 1, p, 1.0 - p) if p.ndim == 1 else p[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.clip(of_class, np.finfo(float).eps, 1.0))))


def accuracy(y: np.ndarray, label: np.ndarray) -> float:
    """Share of the rows."""
    return float(np.mean(y == label))


def rmse(y: np.ndarray, predicted: np.ndarray) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def r2(y: np.ndarray, predicted: np.ndarray) -> float:
    """1 less the mean squared error as a share of the variance."""
    return float(1.0 - np.mean((predicted - y) ** 2) / np.var(y))
