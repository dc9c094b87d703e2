"""Compiled loops over rows and draws of trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.jit import compiled
from rfsize.utils.typing import Floats


@compiled
def add_to_bins(
    score: Floats,
    is_high: NDArray[np.bool_],
    weight: Floats,
    start: float,
    per_unit: float,
    bin_at: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Add the weight of each row to the bin that its score is in, of its class.

    Parameters
    ----------
    score : ndarray of float, shape (n_replicates, n_rows)
    is_high : ndarray of bool, shape (n_rows,)
        Whether the row is of class 1.
    weight : ndarray of float, shape (n_rows,)
    start, per_unit : float
        Where the first knot of ``bin_at`` is, and knots to a unit of the score.
    bin_at : ndarray of float, shape (n_knots,)
        Bins up to each knot, rising from 0 to ``n_bins``, and in between as a straight line.
    low, high : ndarray of float, shape (n_replicates, n_bins)
        Weight of class 0 and 1 in each bin, added to.
    """
    last_cell, last_bin = len(bin_at) - 2, low.shape[1] - 1
    for replicate in range(score.shape[0]):
        for row in range(score.shape[1]):
            place = (score[replicate, row] - start) * per_unit
            place = min(max(place, 0.0), last_cell + 0.999999)
            cell = int(place)
            at = bin_at[cell] + (place - cell) * (bin_at[cell + 1] - bin_at[cell])
            index = min(int(at), last_bin)
            if is_high[row]:
                high[replicate, index] += weight[row]
            else:
                low[replicate, index] += weight[row]
