"""What permuted columns lose, and how uncertain that is over rows and trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from rfsize.estimation.intervals import TAIL
from rfsize.utils.typing import Bools, Floats, Int64s


@dataclass(frozen=True, eq=False)
class Measured:
    """What each set of columns loses where it is permuted.

    Attributes
    ----------
    score : float
        The metric with all columns as they are.
    value : ndarray of float64, shape (n_sets,)
        By how much it becomes worse.
    of_rows : ndarray of float64, shape (n_sets,)
        Variance of the value as the rows might have been others.
    of_parts : ndarray of float64, shape (n_parts, n_sets)
        Independent draws, one for each part of the forest, whose mean is the value: what single trees lose, or blocks
        of trees.
    trees_per_part : float
    n_rows : int
        Rows that were used.
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
        """Variance of the value as the trees might have been of other seeds, shape (n_sets,)."""
        return np.asarray(self.of_parts.var(axis=0, ddof=1) / len(self.of_parts))

    @property
    def off(self) -> Floats:
        """Half the length of 95 % intervals of the value, shape (n_sets,)."""
        wide = float(student.ppf(1.0 - TAIL, len(self.of_parts) - 1.0))
        return np.asarray(wide * np.sqrt(self.of_rows + self.of_trees))

    @property
    def is_noise(self) -> Bools:
        """Which sets are not told apart from those that lose nothing, shape (n_sets,)."""
        return np.asarray(self.value <= self.off)


def noise_of_rows(of_rows: Floats, of_pairs: Floats, units: Int64s | None) -> Floats:
    """Variance of sums over pairs of rows, each of which takes the columns of another, as the rows might be others.

    Pairs that have a row in common vary together: P. Aronow, C. Samii, V. Assenova (2015). "Cluster-robust variance
    estimation for dyadic data." Political Analysis 23(4), 564-577.

    Parameters
    ----------
    of_rows : ndarray of float64, shape (n_rows, n_sets)
        What pairs with a row add, beyond what is expected of it.
    of_pairs : ndarray of float64, shape (n_sets,)
        Sums of squares over the pairs, which belong to two rows each; what is left of their own noise.
    units : ndarray of int64, shape (n_rows,), or None
        A number for each row, the same for rows of one group.
    """
    of_units = np.ascontiguousarray(of_rows.T)
    if units is not None:
        _, unit = np.unique(units, return_inverse=True)
        of_units = np.stack([np.bincount(unit, weights=one) for one in of_units])
    n_units = max(2, of_units.shape[1])
    return np.maximum(sums_of_sets((of_units**2).T) * (n_units / (n_units - 1.0)) - of_pairs, 0.0)


def sums_of_sets(numbers: Floats) -> Floats:
    """Sums over the first axis, shape (n_sets,), to the same last bit however many sets are added up together."""
    return np.array([one.sum() for one in np.ascontiguousarray(numbers.T)])
