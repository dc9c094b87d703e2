"""How much the metric loses when columns are shuffled, and how uncertain that is over rows and trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from rfsize._util import Bools, Floats, Int64s
from rfsize.estimation.intervals import TAIL


@dataclass(frozen=True, eq=False)
class Measured:
    """How much the metric loses when each set of columns is shuffled.

    Attributes
    ----------
    score : float
        The metric with all columns as they are.
    value : ndarray of float64, shape (n_sets,)
        By how much the metric becomes worse when the set is shuffled.
    of_rows : ndarray of float64, shape (n_sets,)
        Variance of ``value`` over other draws of rows.
    of_parts : ndarray of float64, shape (n_parts, n_sets)
        Losses of the parts of the forest, which are single trees or blocks of trees. The parts are independent draws,
        and ``value`` is their mean.
    trees_per_part : float
        Trees in one part.
    n_rows : int
        Number of rows that were used.
    votes_per_row : float
        Trees asked about a row, on average.
    """

    score: float
    value: Floats
    of_rows: Floats
    of_parts: Floats
    trees_per_part: float
    n_rows: int
    votes_per_row: float

    @property
    def of_trees(self) -> Floats:
        """Variance of ``value`` over forests with other seeds, shape (n_sets,)."""
        return np.asarray(self.of_parts.var(axis=0, ddof=1) / len(self.of_parts))

    @property
    def off(self) -> Floats:
        """Half the length of the 95 % interval of ``value``, shape (n_sets,)."""
        wide = float(student.ppf(1.0 - TAIL, len(self.of_parts) - 1.0))
        return np.asarray(wide * np.sqrt(self.of_rows + self.of_trees))

    @property
    def is_noise(self) -> Bools:
        """Whether the 95 % interval of each set reaches down to 0 or below, shape (n_sets,)."""
        return np.asarray(self.value <= self.off)


def noise_of_rows(of_rows: Floats, of_pairs: Floats, units: Int64s | None) -> Floats:
    """Variance of a loss over other draws of rows, where each row takes the columns of another row.

    The loss is a sum over pairs of rows. Pairs that have a row in common vary together: P. Aronow, C. Samii, V.
    Assenova (2015). "Cluster-robust variance estimation for dyadic data." Political Analysis 23(4), 564-577.

    Parameters
    ----------
    of_rows : ndarray of float64, shape (n_rows, n_sets)
        For each row, what its pairs add to the loss, minus what they are expected to add.
    of_pairs : ndarray of float64, shape (n_sets,)
        Sum of squares over the pairs, to subtract: each pair counts at both of its rows. Subtract it once to keep the
        noise of the pairs themselves, and twice to remove that noise too.
    units : ndarray of int64, shape (n_rows,), or None
        Number of each row's group; None if every row is a group of its own.
    """
    of_units = np.ascontiguousarray(of_rows.T)
    if units is not None:
        _, unit = np.unique(units, return_inverse=True)
        of_units = np.stack([np.bincount(unit, weights=one) for one in of_units])
    n_units = max(2, of_units.shape[1])
    return np.maximum(sums_of_sets((of_units**2).T) * (n_units / (n_units - 1.0)) - of_pairs, 0.0)


def sums_of_sets(numbers: Floats) -> Floats:
    """Sums over the first axis, shape (n_sets,); the last bit does not depend on how many sets are given."""
    return np.array([one.sum() for one in np.ascontiguousarray(numbers.T)])
