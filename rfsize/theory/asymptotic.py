"""Large forests: power laws of T* and of disagreement, equations (12) to (14) and (16) of the 2013 paper.

`rfsize.theory.binary` cites the paper and explains the arguments.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from rfsize._util import Floats
from rfsize.theory.arguments import checked_alpha, checked_density, checked_fractions, checked_sizes

HALF_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)
"""∫₀^∞ Φ(−v) dv = 0.398942…, the constant of equations (14) and (16)."""

_MOST = 1e300  # the power laws take any size that does not overflow


def instance_size_closed_form(alpha: ArrayLike, pi: ArrayLike) -> Floats:
    """Trees that one row needs, T*(α, π), by the normal approximation of the binomial, equation (12).

    T*(α, π) ≈ Φ⁻¹(α)² · π(1 − π) / (π − 1/2)². This is accurate for large sizes, and not rounded to an odd number.

    Parameters
    ----------
    alpha : array_like of float
        Confidence α, strictly between 0 and 1. Broadcast against ``pi``.
    pi : array_like of float
        Vote fraction π, between 0 and 1.

    Returns
    -------
    ndarray of float
        Sizes: 0 for α ≤ 1/2, and ``inf`` at π = 1/2 for larger α.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    Large sizes are close to those of `instance_size`:

    >>> from rfsize.theory import instance_size_closed_form
    >>> instance_size_closed_form(0.99, [0.9, 0.6, 0.51, 0.5]).round().tolist()
    [3.0, 130.0, 13524.0, inf]
    """
    confidence, fraction = np.broadcast_arrays(checked_alpha(alpha), checked_fractions(pi))
    quantile = np.maximum(ndtri(confidence), 0.0)
    margin = np.abs(fraction - 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = quantile**2 * fraction * (1.0 - fraction) / margin**2
    return np.where(quantile == 0.0, 0.0, np.where(margin == 0.0, np.inf, size))


def size_tail(n_trees: ArrayLike, alpha: ArrayLike, density_at_half: ArrayLike) -> Floats:
    """Share of rows that need more than ``n_trees`` trees, P(T* > T), equation (13).

    By the closed form (12), a row has T*(α, π) > T if abs(π − 1/2) < Φ⁻¹(α) / (2√T), to leading order. So
    P(T* > T) ≈ f(1/2) · Φ⁻¹(α) / √T. Every data set follows this power law, with exponent −1/2.

    Parameters
    ----------
    n_trees : array_like of float
        Ensemble size T, at least 1.
    alpha : array_like of float
        Confidence α, strictly between 0 and 1.
    density_at_half : array_like of float
        Density f(1/2) of the rows' vote fractions at one half.

    Returns
    -------
    ndarray of float
        Shares, at most 1.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    With 100 times as many trees, a tenth as many rows need more:

    >>> from rfsize.theory import size_tail
    >>> size_tail([100, 10_000], alpha=0.99, density_at_half=0.5).round(4).tolist()
    [0.1163, 0.0116]
    """
    trees = checked_sizes(n_trees, at_most=_MOST)
    quantile = np.maximum(ndtri(checked_alpha(alpha)), 0.0)
    return np.minimum(checked_density(density_at_half) * quantile / np.sqrt(trees), 1.0)


def asymptotic_disagreement(n_trees: ArrayLike, density_at_half: ArrayLike) -> Floats:
    """Mean disagreement of a large forest with the unlimited forest, equation (14).

    1 − α(T) ≈ f(1/2) · 0.398942 / √T.

    Parameters
    ----------
    n_trees, density_at_half
        As in `size_tail`.

    Returns
    -------
    ndarray of float
        Disagreement rates.

    Examples
    --------
    >>> from rfsize.theory import asymptotic_disagreement
    >>> asymptotic_disagreement([100, 10_000], density_at_half=0.5).round(4).tolist()
    [0.0199, 0.002]
    """
    trees = checked_sizes(n_trees, at_most=_MOST)
    return checked_density(density_at_half) * HALF_NORMAL / np.sqrt(trees)


def asymptotic_size(alpha: ArrayLike, density_at_half: ArrayLike) -> Floats:
    """Ensemble size T*(α) as α → 1, equation (16).

    T*(α) ≈ (f(1/2) · 0.398942 / (1 − α))², not rounded to an odd number.

    Parameters
    ----------
    alpha, density_at_half
        As in `size_tail`.

    Returns
    -------
    ndarray of float
        Ensemble sizes.

    Examples
    --------
    A tenth of the disagreement takes 100 times as many trees:

    >>> from rfsize.theory import asymptotic_size
    >>> asymptotic_size([0.99, 0.999], density_at_half=0.5).round().tolist()
    [398.0, 39789.0]
    """
    return (checked_density(density_at_half) * HALF_NORMAL / (1.0 - checked_alpha(alpha))) ** 2
