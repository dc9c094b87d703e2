"""Convert between sampling ratios with replacement and bagging fractions without replacement."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import as_numbers


@overload
def ratio_with_replacement(fraction: float) -> float: ...


@overload
def ratio_with_replacement(fraction: ArrayLike) -> NDArray[np.float64]: ...


def ratio_with_replacement(fraction: Any) -> Any:
    """Sampling ratio with replacement that is equivalent to a bagging fraction without replacement, equation (1).

    The ratio is r / (1 − r). Forests trained in either way have about the same error. For example, standard bagging
    draws n of n rows with replacement, which is equivalent to drawing half of the rows without replacement.

    Parameters
    ----------
    fraction : array_like
        Share r of the rows drawn without replacement, strictly between 0 and 1.

    Returns
    -------
    float or ndarray of float64, same shape
        Draws with replacement, divided by the number of rows.

    Raises
    ------
    ValueError
        If a fraction is not strictly between 0 and 1.

    References
    ----------
    G. Martínez-Muñoz, A. Suárez (2010). "Out-of-bag estimation of the optimal sample size in bagging." Pattern
    Recognition 43(1), 143-152.

    Examples
    --------
    >>> import rfsize
    >>> float(rfsize.theory.ratio_with_replacement(0.5))
    1.0
    >>> rfsize.theory.ratio_with_replacement([0.1, 0.2]).round(3).tolist()
    [0.111, 0.25]
    """
    given = as_numbers("fraction", fraction)
    if not ((given > 0.0) & (given < 1.0)).all():
        raise ValueError(f"a fraction without replacement lies strictly between 0 and 1, found {fraction!r}")
    return (given / (1.0 - given))[()]


@overload
def fraction_without_replacement(ratio: float) -> float: ...


@overload
def fraction_without_replacement(ratio: ArrayLike) -> NDArray[np.float64]: ...


def fraction_without_replacement(ratio: Any) -> Any:
    """Bagging fraction without replacement that is equivalent to a sampling ratio with replacement.

    The fraction is m / (1 + m), where m is the sampling ratio: the inverse of `ratio_with_replacement`.

    Parameters
    ----------
    ratio : array_like
        Draws with replacement, divided by the number of rows; above 0.

    Returns
    -------
    float or ndarray of float64, same shape
        Share of the rows drawn without replacement.

    Raises
    ------
    ValueError
        If a ratio is not a finite number above 0.

    Examples
    --------
    >>> import rfsize
    >>> float(rfsize.theory.fraction_without_replacement(1.0))
    0.5
    >>> rfsize.theory.fraction_without_replacement([0.1, 0.25]).round(3).tolist()
    [0.091, 0.2]
    """
    given = as_numbers("ratio", ratio)
    if not (np.isfinite(given) & (given > 0.0)).all():
        raise ValueError(f"a sampling ratio is a finite number above 0, found {ratio!r}")
    return (given / (1.0 + given))[()]


# The grid of the 2010 paper: 0.1, 0.2, … 1.2 with replacement.
DEFAULT_FRACTIONS: tuple[float, ...] = tuple(k / (10 + k) for k in range(1, 13))
