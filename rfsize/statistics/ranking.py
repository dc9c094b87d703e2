"""Metrics of a ranking of two classes, and what each row adds to them, from the weights of both classes by score."""

from __future__ import annotations

import numpy as np

from rfsize._util import Bools, Floats, Int64s


def auc(low: Floats, high: Floats) -> Floats:
    """Area under the ROC curve; pairs of rows with the same score count half.

    Parameters
    ----------
    low, high : ndarray of float, shape (..., n_levels)
        Weight of the rows of class 0 and of class 1 at each level of the score, lowest level first.

    Returns
    -------
    ndarray of float, shape (...)
        The area; NaN if a class has no weight.
    """
    below = np.cumsum(low, axis=-1) - low / 2.0
    pairs = low.sum(axis=-1) * high.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(high * below, axis=-1) / pairs)


def average_precision(low: Floats, high: Floats) -> Floats:
    """Average precision: the precision at each level, weighted by the recall it adds; arguments as of `auc`."""
    hits = np.cumsum(high[..., ::-1], axis=-1)
    taken = hits + np.cumsum(low[..., ::-1], axis=-1)
    precision = hits / np.where(taken > 0.0, taken, 1.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(high[..., ::-1] * precision, axis=-1) / high.sum(axis=-1))


def auc_slopes(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Derivative of the area by the weight of a row at each level, of class 0 and of class 1."""
    area, n_low, n_high = auc(low, high), low.sum(), high.sum()
    lower = (np.cumsum(low) - low / 2.0) / n_low
    higher = 1.0 - (np.cumsum(high) - high / 2.0) / n_high
    return (higher - area) / n_low, (lower - area) / n_high


def average_precision_slopes(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Derivative of the average precision by the weight of a row at each level, of class 0 and of class 1."""
    low, high = low[::-1], high[::-1]
    hits, n_high = np.cumsum(high), high.sum()
    taken = hits + np.cumsum(low)
    taken = np.where(taken > 0.0, taken, 1.0)
    precision = hits / taken
    # A row counts at its own level and at all lower levels.
    gained, lost = (np.cumsum(part[::-1])[::-1] for part in (high / taken, high * precision / taken))
    of_high = (precision + gained - lost - np.sum(high * precision) / n_high) / n_high
    return (-lost / n_high)[::-1], of_high[::-1]


def levels(is_high: Bools, score: Floats, weight: Floats) -> tuple[Int64s, Floats, Floats]:
    """Level of each row's score, and the weight of class 0 and of class 1 at each level, lowest level first.

    Rows in the same leaves are ties, but the last bits of their sums may differ: scores are compared in single
    precision.
    """
    distinct, level = np.unique(score.astype(np.float32), return_inverse=True)
    low, high = (
        np.bincount(level, weights=np.where(of_class, weight, 0.0), minlength=len(distinct)).astype(np.float64)
        for of_class in (~is_high, is_high)
    )
    return level, low, high
