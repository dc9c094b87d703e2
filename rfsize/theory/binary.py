"""The mathematics of majority voting between two classes; see `rfsize.theory.multiclass` for more classes.

On one row, each tree votes for class 1 with probability π. This is the row's *vote fraction* in an unlimited
forest, the forest that you would get if training never stopped. Given the training data, the trees' votes are
independent draws. So the number of votes for class 1 is binomial, and every function here follows from that.

Equation numbers refer to

    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

``n_trees`` is the ensemble size T, ``pi`` the vote fraction π of class 1, and ``alpha`` the confidence α. An
*instance* in the paper is a row here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from rfsize._util import Floats, in_percent
from rfsize.theory.arguments import MAX_TREES, checked_alpha, checked_fractions, checked_sizes, checked_weights, single
from rfsize.theory.smallest_size import ROUNDING, smallest_size


def class_probability(n_trees: ArrayLike, pi: ArrayLike) -> Floats:
    """Probability that a forest of ``n_trees`` predicts class 1 on a row, equation (7).

    P(class 1) = I_π(⌊T/2⌋ + 1, T − ⌊T/2⌋), where I is the regularised incomplete beta function. If an even
    number of trees ties, class 0 wins, the lowest class index.

    Parameters
    ----------
    n_trees : array_like of int
        Ensemble size T, 1 to 2³¹ − 1.
    pi : array_like of float
        Vote fraction π of class 1, between 0 and 1. Broadcast against ``n_trees``.

    Returns
    -------
    ndarray of float
        Probabilities, in the broadcast shape.

    Raises
    ------
    ValueError
        If a size is below 1 or above 2³¹ − 1, or a fraction is outside [0, 1].

    Examples
    --------
    >>> from rfsize.theory import class_probability
    >>> class_probability([1, 11, 101], 0.6).round(4).tolist()
    [0.6, 0.7535, 0.9791]
    """
    trees, fraction = checked_sizes(n_trees), checked_fractions(pi)
    half = np.floor(trees / 2.0)
    return np.asarray(betainc(half + 1.0, trees - half, fraction))


def agreement(n_trees: ArrayLike, pi: ArrayLike) -> Floats:
    """Probability that a forest of ``n_trees`` gives a row the unlimited forest's label, equation (9).

    For odd T, agreement(T, π) = I_q(⌊T/2⌋ + 1, T − ⌊T/2⌋) with q = max(π, 1 − π). At π = 1/2 the unlimited
    forest is tied. The agreement is then 1/2 for every odd size, so more trees do not help such a row.

    Parameters
    ----------
    n_trees, pi
        As in `class_probability`.

    Returns
    -------
    ndarray of float
        Agreement, in the broadcast shape. It never falls from one odd size to the next.

    Examples
    --------
    At π = 0.4, 101 trees agree with a probability of 98 %. On a tie, no number of trees helps:

    >>> from rfsize.theory import agreement
    >>> agreement([1, 11, 101], 0.4).round(4).tolist()
    [0.6, 0.7535, 0.9791]
    >>> agreement([1, 11, 101], 0.5).round(4).tolist()
    [0.5, 0.5, 0.5]
    """
    return 1.0 - disagreement(n_trees, pi)


def disagreement(n_trees: ArrayLike, pi: ArrayLike) -> Floats:
    """One minus `agreement`, accurate even where the agreement rounds to one.

    Parameters
    ----------
    n_trees, pi
        As in `class_probability`.

    Returns
    -------
    ndarray of float
        Disagreement, in the broadcast shape.

    Examples
    --------
    >>> from rfsize.theory import agreement, disagreement
    >>> float(agreement(1001, 0.9))
    1.0
    >>> 0.0 < float(disagreement(1001, 0.9)) < 1e-200
    True
    """
    trees, fraction = checked_sizes(n_trees), checked_fractions(pi)
    half = np.floor(trees / 2.0)
    class_1_wins = betainc(half + 1.0, trees - half, fraction)
    class_0_wins = betainc(trees - half, half + 1.0, 1.0 - fraction)
    return np.where(fraction > 0.5, class_0_wins, class_1_wins)


def instance_size(alpha: ArrayLike, pi: ArrayLike) -> Floats:
    """Smallest odd forest that gives one row the unlimited forest's label with probability α, equation (10).

    This size is T*(α, π).

    Parameters
    ----------
    alpha : array_like of float
        Confidence α, strictly between 0 and 1. Broadcast against ``pi``.
    pi : array_like of float
        Vote fraction π, between 0 and 1.

    Returns
    -------
    ndarray of float
        Odd whole numbers; ``inf`` if even `MAX_TREES` trees are too few, as at π = 1/2.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rfsize.theory import instance_size
    >>> instance_size(0.99, [0.9, 0.6, 0.51, 0.5]).tolist()
    [5.0, 133.0, 13527.0, inf]
    """
    confidence, fraction = np.broadcast_arrays(checked_alpha(alpha), checked_fractions(pi))
    # `smallest_size` takes one loss; here each row has its own, and all are bisected at once.
    allowed = (1.0 - confidence) * (1.0 + ROUNDING)
    # Sizes are T = 2h + 1. Throughout, low is too small; high is large enough on each row that is reachable.
    low = np.full(fraction.shape, -1, dtype=np.int64)
    high = np.full(fraction.shape, (MAX_TREES - 1) // 2, dtype=np.int64)
    reachable = disagreement(MAX_TREES, fraction) <= allowed
    while np.any(high - low > 1):
        middle = np.maximum((low + high) // 2, 0)
        enough = disagreement(2 * middle + 1, fraction) <= allowed
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return np.where(reachable, 2.0 * high + 1.0, np.inf)


def mean_agreement(n_trees: int, pi: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean agreement of a forest of ``n_trees`` with the unlimited forest over rows, equations (15) and (17).

    With true vote fractions the result is equation (15). With vote fractions estimated from counted votes, the
    result is the plug-in estimate of equation (17).

    Parameters
    ----------
    n_trees : int
        Ensemble size T, 1 to 2³¹ − 1.
    pi : array_like of float, shape (n,)
        Vote fractions of the rows.
    weights : array_like of float, shape (n,), optional
        How many rows each vote fraction stands for; 1 by default.

    Returns
    -------
    float
        Mean agreement, between 0 and 1.

    Raises
    ------
    ValueError
        If an argument is out of range, no vote fraction is given, or a weight is negative or all are 0.

    Examples
    --------
    >>> from rfsize.theory import mean_agreement
    >>> round(mean_agreement(101, [0.03, 0.4, 0.55, 0.95]), 4)
    0.9557
    """
    return 1.0 - mean_disagreement(n_trees, pi, weights)


def mean_disagreement(n_trees: int, pi: ArrayLike, weights: ArrayLike | None = None) -> float:
    """One minus `mean_agreement`, accurate even where the agreement rounds to one.

    Parameters
    ----------
    n_trees, pi, weights
        As in `mean_agreement`.

    Returns
    -------
    float
        Mean disagreement, between 0 and 1.

    Examples
    --------
    >>> from rfsize.theory import mean_disagreement
    >>> round(mean_disagreement(101, [0.03, 0.4, 0.55, 0.95]), 4)
    0.0443
    """
    size = single("n_trees", checked_sizes(n_trees))
    return float(np.average(disagreement(size, pi), weights=checked_weights(pi, weights)))


def limit_agreement(pi: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The mean agreement that no odd size exceeds: 1 minus half the share of tied rows (π = 1/2).

    Parameters
    ----------
    pi, weights
        As in `mean_agreement`.

    Returns
    -------
    float
        The limit of `mean_agreement` for many trees, between 1/2 and 1.

    Examples
    --------
    One row of four is tied:

    >>> from rfsize.theory import limit_agreement
    >>> limit_agreement([0.1, 0.5, 0.7, 0.9])
    0.875
    """
    return 1.0 - 0.5 * float(np.average(checked_fractions(pi) == 0.5, weights=checked_weights(pi, weights)))


def ensemble_size(alpha: float, pi: ArrayLike, weights: ArrayLike | None = None) -> int | float:
    """Smallest odd forest with a mean agreement of at least α over rows: T*(α).

    The mean agreement of equation (15) or (17) never falls from one odd size to the next, so bisection finds
    the smallest size exactly.

    Parameters
    ----------
    alpha : float
        Confidence α, strictly between 0 and 1.
    pi, weights
        As in `mean_agreement`.

    Returns
    -------
    int or float
        An odd size, or ``math.inf`` if even `MAX_TREES` trees are too few; `why_infinite` says why.

    Examples
    --------
    >>> from rfsize.theory import ensemble_size
    >>> ensemble_size(0.95, [0.03, 0.4, 0.55, 0.95])
    89

    If most rows have a clear majority, a few trees are enough:

    >>> ensemble_size(0.95, [0.03, 0.4, 0.55, 0.95], weights=[10, 1, 1, 10])
    3
    """
    weight = checked_weights(pi, weights)
    fraction = checked_fractions(pi)
    level = 1.0 - single("alpha", checked_alpha(alpha))
    return smallest_size(lambda size: float(np.average(disagreement(size, fraction), weights=weight)), level, odd=True)


def why_infinite(alpha: float, pi: ArrayLike, weights: ArrayLike | None = None) -> str:
    """Say in one sentence why `ensemble_size` found no size.

    Parameters
    ----------
    alpha, pi, weights
        As in `ensemble_size`.

    Returns
    -------
    str
        That too many rows are tied, or that the size would exceed `MAX_TREES`.

    Examples
    --------
    >>> from rfsize.theory import ensemble_size, why_infinite
    >>> ensemble_size(0.9, [0.1, 0.5, 0.7, 0.9])
    inf
    >>> print(why_infinite(0.9, [0.1, 0.5, 0.7, 0.9]))
    25 % of the rows have exactly half of their votes for each class; ...
    """
    limit = limit_agreement(pi, weights)
    if limit < single("alpha", checked_alpha(alpha)):
        return (
            f"{in_percent(2.0 * (1.0 - limit))} of the rows have exactly half of their votes for each class; they "
            f"never converge, so mean agreement cannot exceed {in_percent(limit)}"
        )
    return f"more than {MAX_TREES:,} trees would be needed"
