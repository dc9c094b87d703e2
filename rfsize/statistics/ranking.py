"""Metrics of a ranking of two classes, and what each row adds to them, from the weights of both classes by score."""

from __future__ import annotations

import numpy as np

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, each_range

N_BINS = 1 << 14
# Number of cells to look up the bin of a score, and how far they reach beyond the scores, as a share of their range.
_N_CELLS, _MARGIN = 1 << 13, 0.1
_AT_ONCE = 50  # replicates that one thread counts


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


class Bins:
    """Rows of both classes in bins of their scores, for several replicates of the scores.

    Half of the bins hold about equally many rows each, by the scores on some rows. The other half have equal width, so
    that scores outside the range of these rows find bins too. Rows in one bin count as ties. The AUC is therefore off
    by at most half of the pairs in one bin, a share of about 1/`N_BINS` of all pairs, and by nearly the same in all
    replicates.

    Parameters
    ----------
    score : ndarray of float, shape (n,)
        The scores that determine the bins.

    Attributes
    ----------
    low, high : ndarray of float, shape (n_replicates, N_BINS)
        Weight of the rows of class 0 and of class 1; without rows, of no replicate.
    """

    def __init__(self, score: Floats) -> None:
        self.low, self.high = np.zeros((2, 0, N_BINS))
        least, most = score.min(), score.max()
        margin = _MARGIN * (most - least) or 1.0
        knots = np.linspace(least - margin, most + margin, _N_CELLS + 1)
        below = np.searchsorted(np.sort(score), knots) / len(score)
        self._bin_at = N_BINS * (below + np.linspace(0.0, 1.0, _N_CELLS + 1)) / 2.0
        self._start, self._per_unit = float(knots[0]), float(_N_CELLS / (knots[-1] - knots[0]))

    def add(self, score: Floats, is_high: Bools, weight: Floats) -> None:
        """Count rows; ``score`` has shape (n_replicates, n_rows)."""
        if not len(self.low):
            self.low, self.high = np.zeros((2, len(score), N_BINS))
        score, rows = np.ascontiguousarray(score), (np.ascontiguousarray(is_high), np.ascontiguousarray(weight))

        def add(start: int, stop: int) -> None:
            counts = self.low[start:stop], self.high[start:stop]
            _core.add_to_bins(score[start:stop], *rows, self._start, self._per_unit, self._bin_at, *counts)

        each_range(add, len(score), _AT_ONCE)
