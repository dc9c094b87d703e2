"""Sizes, fractions, confidences and weights, checked for the equations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rfsize.utils.typing import Floats


def checked_fractions(n_trees: ArrayLike, pi: ArrayLike) -> tuple[Floats, Floats]:
    trees = np.asarray(n_trees, dtype=np.float64)
    if not np.all(trees >= 1):
        raise ValueError(f"n_trees must be at least 1, found {np.min(trees):g}")
    fraction = np.asarray(pi, dtype=np.float64)
    if not np.all((fraction >= 0.0) & (fraction <= 1.0)):
        raise ValueError("vote fractions must lie between 0 and 1; found values outside, or NaN")
    return trees, fraction


def checked_alpha(alpha: ArrayLike) -> Floats:
    confidence = np.asarray(alpha, dtype=np.float64)
    if not np.all((confidence > 0.0) & (confidence < 1.0)):
        raise ValueError(
            f"alpha must lie strictly between 0 and 1, found {alpha!r}: it is the share of rows on which the "
            "forest agrees with the infinite forest, and only the infinite forest reaches 1"
        )
    return confidence


def checked_density(density_at_half: ArrayLike) -> Floats:
    density = np.asarray(density_at_half, dtype=np.float64)
    if not np.all(density >= 0.0):
        raise ValueError("a density cannot be negative or NaN")
    return density


def checked_weights(pi: ArrayLike, weights: ArrayLike | None) -> Floats:
    shape = np.shape(pi)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"vote fractions must be a non-empty 1-D array, found shape {shape}")
    if weights is None:
        return np.ones(shape)
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != shape or not np.all(weight >= 0.0) or not weight.sum() > 0.0:
        raise ValueError(f"weights must be non-negative, not all zero, and of shape {shape}; found {weight.shape}")
    return weight
