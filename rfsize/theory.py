"""Equations of ensemble size: how often a forest of T trees gives the labels of an unlimited forest.

On one row, each tree votes for class 1 with probability π. This is the row's *vote fraction* in an unlimited
forest, the forest that you would get if training never stopped. Given the training data, the trees' votes are
independent draws. So the number of votes for class 1 is binomial, and every function of two classes follows from that.
With K classes the votes are a multinomial draw, see `multiclass_agreement`.

Equation numbers refer to

    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

``n_trees`` is the ensemble size T, ``pi`` the vote fraction π of class 1, and ``alpha`` the confidence α. An
*instance* in the paper is a row here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, ndtri

from rfsize import _core
from rfsize._util import Floats, as_numbers, each_range

MAX_TREES = 10**9 + 1
"""The largest ensemble size that a search tries. Beyond it the incomplete beta function loses its last digits."""

HALF_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)
"""∫₀^∞ Φ(−v) dv = 0.398942…, the constant of equations (14) and (16)."""

# The equations take no larger size: votes are counted in 32 bits. The power laws take any that does not overflow.
_LARGEST_SIZE, _LARGEST_OF_POWER_LAWS = 2**31 - 1, 1e100
_ROUNDING = 1e-12  # a loss of up to (1 + _ROUNDING) times the level counts as small enough
_PAIRS_PER_PIECE = 20_000  # fewer are solved before a second thread has started


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
    trees, fraction = _checked_sizes(n_trees), _checked_fractions(pi)
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
    trees, fraction = _checked_sizes(n_trees), _checked_fractions(pi)
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
    confidence, fraction = np.broadcast_arrays(_checked_shares("alpha", alpha), _checked_fractions(pi))
    # `smallest_size` takes one loss; here each row has its own, and all are bisected at once.
    allowed = (1.0 - confidence) * (1.0 + _ROUNDING)
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
    size = _single("n_trees", _checked_sizes(n_trees))
    return float(np.average(disagreement(size, pi), weights=_checked_weights(pi, weights)))


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
    return 1.0 - 0.5 * float(np.average(_checked_fractions(pi) == 0.5, weights=_checked_weights(pi, weights)))


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
        An odd size, or ``math.inf`` if even `MAX_TREES` trees are too few. See `limit_agreement` for tied rows.

    Examples
    --------
    >>> from rfsize.theory import ensemble_size
    >>> ensemble_size(0.95, [0.03, 0.4, 0.55, 0.95])
    89

    If most rows have a clear majority, a few trees are enough:

    >>> ensemble_size(0.95, [0.03, 0.4, 0.55, 0.95], weights=[10, 1, 1, 10])
    3
    """
    weight, fraction = _checked_weights(pi, weights), _checked_fractions(pi)
    level = 1.0 - _single("alpha", _checked_shares("alpha", alpha))
    return smallest_size(lambda size: float(np.average(disagreement(size, fraction), weights=weight)), level, odd=True)


def multiclass_agreement(n_trees: int, pi: ArrayLike) -> Floats:
    """Probability that a forest of ``n_trees`` gives a row the unlimited forest's label, for K classes.

    For each rival class, rfsize computes the exact probability that the rival does not overtake the leading class
    in T votes. If two classes tie, the lower class index wins. The result is the product over the rivals. It is
    exact for two classes and for one tree. Otherwise the product is too low rather than too high: all rivals
    compete with the same leader's votes, so the events go together (for many trees by Slepian's inequality). No
    vote fractions were found where the product is noticeably too high. The product is closer to the truth than
    one minus the sum of the probabilities that a rival overtakes.

    Parameters
    ----------
    n_trees : int
        Ensemble size T, at least 1.
    pi : array_like of float, shape (n, K)
        Vote fractions of each row; they sum to 1.

    Returns
    -------
    ndarray of float, shape (n,)
        Agreement.

    Raises
    ------
    ValueError
        If the size is below 1 or above 2³¹ − 1, or a row has a negative vote fraction or does not sum to 1.

    Examples
    --------
    >>> from rfsize.theory import multiclass_agreement
    >>> multiclass_agreement(101, [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]).round(3).tolist()
    [0.99, 0.72]
    """
    return 1.0 - multiclass_disagreement(n_trees, pi)


def multiclass_disagreement(n_trees: int, pi: ArrayLike) -> Floats:
    """One minus `multiclass_agreement`, accurate even where the agreement rounds to one.

    Parameters
    ----------
    n_trees, pi
        As in `multiclass_agreement`.

    Returns
    -------
    ndarray of float, shape (n,)
        Disagreement.

    Examples
    --------
    One tree disagrees if it votes for a rival:

    >>> from rfsize.theory import multiclass_disagreement
    >>> multiclass_disagreement(1, [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]).round(3).tolist()
    [0.5, 0.6]
    """
    size, fraction = int(_single("n_trees", _checked_sizes(n_trees))), as_numbers("vote fractions", pi)
    if fraction.ndim != 2 or fraction.shape[0] == 0 or fraction.shape[1] < 2:
        raise ValueError(f"vote fractions must have shape (n ≥ 1, K ≥ 2), found {fraction.shape}")
    if not ((fraction >= 0.0).all() and np.allclose(fraction.sum(axis=1), 1.0, atol=1e-6)):
        raise ValueError("each row of vote fractions must be non-negative and sum to 1; found others, or NaN")
    leader = fraction.max(axis=1)
    if size == 1:
        return 1.0 - leader
    # Each row's rivals, the other classes with a vote, row after row. A rival with a lower class index wins ties.
    leading, is_rival = fraction.argmax(axis=1), fraction > 0.0
    is_rival[np.arange(len(fraction)), leading] = False
    row, label = np.nonzero(is_rival)
    rivals, wins_ties = fraction[row, label], label < leading[row]
    first, out = np.append(0, np.cumsum(is_rival.sum(axis=1))), np.empty(len(fraction))

    def solve(start: int, stop: int) -> None:
        _core.disagreement(size, leader[start:stop], first[start : stop + 1], rivals, wins_ties, out[start:stop])

    each_range(solve, len(out), max(1, len(out) * _PAIRS_PER_PIECE // max(1, len(rivals))))
    return out


def smallest_size(loss: Callable[[int], float], level: float, *, guess: float = 1, odd: bool = False) -> int | float:
    """Find the smallest ensemble size with a loss of at most ``level``, if the loss falls with the size.

    Parameters
    ----------
    loss : callable
        Function of the size that returns the loss, for sizes up to `MAX_TREES`.
    level : float
        The largest loss allowed, above 0.
    guess : int or float, default 1
        Size to try first. A good guess saves calls of ``loss``.
    odd : bool, default False
        Try odd sizes only, so that votes for two classes never tie.

    Returns
    -------
    int or float
        The size, or ``math.inf`` if even `MAX_TREES` trees are too few.

    Raises
    ------
    ValueError
        If the level is not above 0.

    Examples
    --------
    >>> from rfsize.theory import smallest_size
    >>> smallest_size(lambda n_trees: 1.0 / n_trees, 0.03)
    34
    >>> smallest_size(lambda n_trees: 1.0 / n_trees, 0.03, odd=True)
    35
    """
    if not level > 0.0:
        raise ValueError(f"level must be above 0, which only an unlimited forest reaches; found {level!r}")
    allowed, step = level * (1.0 + _ROUNDING), 2 if odd else 1
    # Sizes are step·k + 1. The size at ``low`` is too small; the size at ``high`` is enough.
    last = (MAX_TREES - 1) // step
    low, high = -1, last + 1
    at_low, at_high = math.inf, 0.0
    place = int(min(max((min(guess, MAX_TREES) - 1) // step, 0), last))
    doublings = 1.0
    while high - low > 1:
        value = loss(step * place + 1)
        if value <= allowed:
            high, at_high = place, value
        else:
            low, at_low = place, value
        if low == last:
            return math.inf
        if high > last:
            place, doublings = min(math.ceil((low + 1) * 2.0**doublings), last), doublings + 1.0
        elif low < 0:
            place, doublings = math.floor(high / 2.0**doublings), doublings + 1.0
        else:
            place = _between(low, high, at_low, at_high, allowed)
    return step * high + 1


def _between(low: int, high: int, at_low: float, at_high: float, allowed: float) -> int:
    """Next size to try: where a power law through both ends reaches the allowed loss.

    The size stays a tenth of the way off either end, so that the search always gets shorter.
    """
    lower, upper = math.log(low + 0.5), math.log(high + 0.5)
    way = 0.5
    if at_high > 0.0:
        way = math.log(at_low / allowed) / math.log(at_low / at_high)
    size = math.exp(lower + min(max(way, 0.1), 0.9) * (upper - lower))
    return min(max(round(size - 0.5), low + 1), high - 1)


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
    confidence, fraction = np.broadcast_arrays(_checked_shares("alpha", alpha), _checked_fractions(pi))
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
    trees = _in_range("n_trees", n_trees, 1, _LARGEST_OF_POWER_LAWS)
    quantile = np.maximum(ndtri(_checked_shares("alpha", alpha)), 0.0)
    return np.minimum(_checked_density(density_at_half) * quantile / np.sqrt(trees), 1.0)


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
    trees = _in_range("n_trees", n_trees, 1, _LARGEST_OF_POWER_LAWS)
    return _checked_density(density_at_half) * HALF_NORMAL / np.sqrt(trees)


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
    return (_checked_density(density_at_half) * HALF_NORMAL / (1.0 - _checked_shares("alpha", alpha))) ** 2


def ratio_with_replacement(fraction: ArrayLike) -> Floats:
    """Sampling ratio with replacement that is equivalent to a bagging fraction without replacement, equation (1).

    The ratio is r / (1 − r). Forests trained in either way have about the same error. For example, standard bagging
    draws n of n rows with replacement, which is equivalent to drawing half of the rows without replacement.

    Parameters
    ----------
    fraction : array_like
        Share r of the rows drawn without replacement, strictly between 0 and 1.

    Returns
    -------
    ndarray of float, same shape
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
    share = _checked_shares("a fraction without replacement", fraction)
    return share / (1.0 - share)


def fraction_without_replacement(ratio: ArrayLike) -> Floats:
    """Bagging fraction without replacement that is equivalent to a sampling ratio with replacement.

    The fraction is m / (1 + m), where m is the sampling ratio: the inverse of `ratio_with_replacement`.

    Parameters
    ----------
    ratio : array_like
        Draws with replacement, divided by the number of rows; above 0.

    Returns
    -------
    ndarray of float, same shape
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
    draws = as_numbers("ratio", ratio)
    if not (np.isfinite(draws) & (draws > 0.0)).all():
        raise ValueError(f"a sampling ratio is a finite number above 0, found {ratio!r}")
    return draws / (1.0 + draws)


# Arguments


def _in_range(name: str, value: ArrayLike, low: float, high: float) -> Floats:
    """The value as numbers; ``ValueError`` if one is outside of the range, or NaN."""
    numbers = as_numbers(name, value)
    if not np.all((numbers >= low) & (numbers <= high)):
        raise ValueError(f"{name} must lie between {low:g} and {high:,}, found {value!r}")
    return numbers


def _checked_sizes(n_trees: ArrayLike) -> Floats:
    return _in_range("n_trees", n_trees, 1, _LARGEST_SIZE)


def _checked_fractions(pi: ArrayLike) -> Floats:
    return _in_range("vote fractions", pi, 0, 1)


def _checked_shares(name: str, value: ArrayLike) -> Floats:
    numbers = as_numbers(name, value)
    if not np.all((numbers > 0.0) & (numbers < 1.0)):
        raise ValueError(f"{name} must lie strictly between 0 and 1, found {value!r}")
    return numbers


def _single(name: str, numbers: Floats) -> float:
    if numbers.ndim:
        raise ValueError(f"{name} must be one number, found an array of shape {numbers.shape}")
    return float(numbers)


def _checked_density(density_at_half: ArrayLike) -> Floats:
    return _in_range("density_at_half", density_at_half, 0, _LARGEST_OF_POWER_LAWS)


def _checked_weights(pi: ArrayLike, weights: ArrayLike | None) -> Floats:
    shape = np.shape(pi)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"vote fractions must be a non-empty 1-D array, found shape {shape}")
    if weights is None:
        return np.ones(shape)
    weight = as_numbers("weights", weights)
    if weight.shape != shape or not np.all((weight >= 0.0) & np.isfinite(weight)) or not weight.any():
        raise ValueError(f"weights must be finite, non-negative, not all 0, and of shape {shape}; found {weight.shape}")
    largest = weight.max()
    # Scale extreme weights: sums of huge numbers overflow, and products of tiny numbers vanish.
    return weight if 1e-100 < largest < 1e100 else weight / largest
