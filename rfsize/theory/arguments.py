"""Check the arguments of the equations: sizes, fractions, confidences and weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rfsize._util import Floats, as_numbers

MAX_TREES = 10**9 + 1
"""The largest ensemble size that a search tries. Beyond it the incomplete beta function loses its last digits."""

# The equations take no larger size. Votes are counted in 32 bits, and at 1e12 trees only four digits would be left.
_LARGEST_SIZE = 2**31 - 1

_MOST_DENSE = 1e100  # up to here (density / (1 − α))² does not overflow


def checked_sizes(n_trees: ArrayLike, at_most: float = _LARGEST_SIZE) -> Floats:
    trees = as_numbers("n_trees", n_trees)
    if not np.all(trees >= 1):
        raise ValueError(f"n_trees must be at least 1, found {np.min(trees):g}")
    if not np.all(trees <= at_most):
        raise ValueError(
            f"n_trees must be at most {at_most:,}, found {np.max(trees)}; for larger forests take "
            "rfsize.theory.asymptotic_disagreement"
        )
    return trees


def checked_fractions(pi: ArrayLike) -> Floats:
    fraction = as_numbers("vote fractions", pi)
    if not np.all((fraction >= 0.0) & (fraction <= 1.0)):
        raise ValueError("vote fractions must lie between 0 and 1; found values outside, or NaN")
    return fraction


def checked_alpha(alpha: ArrayLike) -> Floats:
    confidence = as_numbers("alpha", alpha)
    if not np.all((confidence > 0.0) & (confidence < 1.0)):
        raise ValueError(
            f"alpha must lie strictly between 0 and 1, found {alpha!r}: it is the share of rows on which the "
            "forest agrees with an unlimited forest, and only an unlimited forest reaches 1"
        )
    return confidence


def single(name: str, numbers: Floats) -> float:
    if numbers.ndim:
        raise ValueError(f"{name} must be one number, found an array of shape {numbers.shape}")
    return float(numbers)


def checked_density(density_at_half: ArrayLike) -> Floats:
    density = as_numbers("density_at_half", density_at_half)
    if not np.all((density >= 0.0) & (density <= _MOST_DENSE)):
        raise ValueError(f"a density must lie between 0 and {_MOST_DENSE:g}; found {density_at_half!r}")
    return density


def checked_weights(pi: ArrayLike, weights: ArrayLike | None) -> Floats:
    shape = np.shape(pi)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"vote fractions must be a non-empty 1-D array, found shape {shape}")
    if weights is None:
        return np.ones(shape)
    weight = as_numbers("weights", weights)
    if weight.shape != shape or not np.all((weight >= 0.0) & np.isfinite(weight)) or not weight.any():
        raise ValueError(
            f"weights must be finite, non-negative, not all zero, and of shape {shape}; found {weight.shape}"
        )
    largest = weight.max()
    # Scale extreme weights: sums of huge numbers overflow, and products of tiny numbers vanish.
    return weight if 1e-100 < largest < 1e100 else weight / largest
