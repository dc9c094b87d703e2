"""Other tools' rules for the number of trees, restated in plain code; `peers.py` compares them.

H2O's rule is `ScoreKeeper.stopEarly` in h2o-3. optRF's rule is `opt_prediction` and `opt_importance` in optRF 2.0.0.
Both were read in the sources in 2026. The plateau rule is the loop that scikit-learn's example on out-of-bag errors
suggests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import curve_fit

# opt_prediction trains ten forests of each size; a smaller gain by one more tree counts as none.
OPTRF_SIZES = (250, 500, 750, 1000, 2000)
OPTRF_REPETITIONS = 10
_OPTRF_GAIN = 1e-6
_OPTRF_LEAST = 500


class Choice(NamedTuple):
    """Trees trained before the rule stopped, trees kept, and whether the rule stopped before the trees ran out."""

    trained: int
    kept: int
    settled: bool = True


def plateau(errors: Sequence[float], step: int, patience: int = 5) -> Choice:
    """From the errors after `step`, 2 `step`, … trees: stop after `patience` steps in a row without a new best."""
    best, idle = np.inf, 0
    for position, error in enumerate(errors):
        best, idle = (error, 0) if error < best else (best, idle + 1)
        if idle == patience:
            return Choice((position + 1) * step, (position + 1) * step)
    return Choice(len(errors) * step, len(errors) * step, settled=False)


def h2o(losses: Sequence[float], interval: int, rounds: int = 3, tolerance: float = 1e-3) -> Choice:
    """From the losses after `interval`, 2 `interval`, … trees: H2O's `stopping_rounds` and `stopping_tolerance`."""
    for scored in range(1, len(losses) + 1):
        if h2o_stops(losses[:scored], rounds, tolerance):
            return Choice(scored * interval, scored * interval)
    return Choice(len(losses) * interval, len(losses) * interval, settled=False)


def h2o_stops(losses: Sequence[float], rounds: int, tolerance: float) -> bool:
    """Whether the best of the last moving averages is no better, by the tolerance, than the one before them."""
    if len(losses) - 1 < 2 * rounds:  # the first scoring is not counted
        return False
    last = losses[-2 * rounds :]
    reference, *later = (float(np.mean(last[start : start + rounds])) for start in range(rounds + 1))
    return reference == 0.0 or min(later) / reference >= 1.0 - tolerance


def fleiss_kappa(labels: ArrayLike) -> float:
    """Agreement beyond chance of the labels of each row, shape (n_rows, n_labels); 1 if all labels are equal."""
    given = np.asarray(labels)
    n_rows, n_labels = given.shape
    counts = np.stack([(given == label).sum(axis=1) for label in np.unique(given)], axis=1)
    agreement = float(((counts**2).sum(axis=1) - n_labels).mean()) / (n_labels * (n_labels - 1))
    by_chance = float(((counts.sum(axis=0) / (n_rows * n_labels)) ** 2).sum())
    return 1.0 if by_chance == 1.0 else (agreement - by_chance) / (1.0 - by_chance)


def _stability(n_trees: NDArray[Any], half: float, slope: float) -> NDArray[Any]:
    """optRF's curve, which reaches one half at `half` trees."""
    return 1.0 / (1.0 + (half / n_trees) ** slope)


def optrf(stabilities: ArrayLike) -> int | None:
    """optRF's recommended number of trees, from the stability at each of its sizes; None if it has none.

    The curve is fitted, and the first number of trees taken at which one more gains 1e-6 or less, to the nearest
    thousand and at least 500. One below the curve's half is not trusted: a tenth of the gain is then asked for.
    """
    sizes = np.array(OPTRF_SIZES, dtype=np.float64)
    middle = sizes[round(len(sizes) / 2) - 1]
    bounds = ([0.0, 0.0], [np.inf, np.inf])
    (half, slope), _ = curve_fit(_stability, sizes, stabilities, p0=(middle, 0.5), bounds=bounds, max_nfev=10_000)
    n_trees = np.arange(10, 1_000_001, 10, dtype=np.float64)
    gain = np.diff(_stability(n_trees, half, slope)) / 10.0
    wanted = _OPTRF_GAIN
    while (enough := gain < wanted).any():
        chosen = round(int(n_trees[1:][enough.argmax()]), -3)
        if chosen >= half:
            return max(chosen, _OPTRF_LEAST)
        wanted /= 10.0
    return None
