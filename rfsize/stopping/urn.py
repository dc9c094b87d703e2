"""The urn posterior behind the stop tables: how likely each class is to win, given the first votes.

A row's T votes are balls in an urn, drawn without replacement. Let P be a prior over the final tally. After t
draws, n of them votes for class 1, the *masses* of that state are, for both classes k,

    m_k(t, n) = P(n of t votes are for class 1, and class k wins all T votes),

so that m = m_0 + m_1 is the probability of the tally, and m_k / m is the probability that class k wins. At t = T the
masses are the prior itself. Those after one vote fewer are a sum of positive terms,

    m_k(t, n) = m_k(t + 1, n + 1) · (n + 1) / (t + 1) + m_k(t + 1, n) · (t + 1 - n) / (t + 1),

which is numerically stable. This module holds the priors and the masses at t = T. Compiled loops
(rfsize/_native/urn.hpp) go back from there to t = 0.

References: D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2009), "Statistical instance-based pruning in
ensembles of independent classifiers", IEEE TPAMI 31(2), 364-369 (SIBA, the uniform prior); V. Soto, A. Suárez,
G. Martínez-Muñoz (2016), "An urn model for majority voting in classification ensembles", NIPS (HYPER).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Floats
from rfsize.counting.votes import Votes

Bounds = tuple[NDArray[np.int32], NDArray[np.int32]]

_REACH = 2  # votes on each side in the moving average: the paper's window of 5


def uniform_prior(n_trees: int) -> Floats:
    """Equal weight on every final tally, the prior of SIBA.

    Parameters
    ----------
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float, shape (T + 1,)
        Weights that sum to one, by votes for class 1.

    Examples
    --------
    >>> from rfsize.stopping.urn import uniform_prior
    >>> uniform_prior(4).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    return np.full(n_trees + 1, 1.0 / (n_trees + 1))


def votes_prior(votes: Votes, n_trees: int) -> Floats:
    """The prior of HYPER, from the votes on rows of two classes.

    The vote fractions of each row are scaled to ``n_trees`` votes and rounded; halves round towards class 0, which wins
    ties. Then the histogram of these tallies is `smoothed`.

    Parameters
    ----------
    votes : Votes
        Two classes. Rows may have different numbers of votes, as out-of-bag rows do. Rows without votes are left out.
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float, shape (T + 1,)
        Weights that sum to one, by votes for class 1.

    Raises
    ------
    ValueError
        If no row has a vote.

    Examples
    --------
    A row with 97 of 100 votes for class 1 and a row with 40 votes, each spread over the tallies near it:

    >>> import rfsize
    >>> from rfsize.stopping.urn import votes_prior
    >>> votes_prior(rfsize.Votes([[3, 97], [60, 40]]), n_trees=10).round(2).tolist()
    [0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0, 0.17, 0.17, 0.17]
    """
    cells = votes.histogram()
    tally = _rounded(cells.count * n_trees, cells.n_votes)
    counted = np.bincount(tally, weights=_with_votes(cells.rows), minlength=n_trees + 1)
    return smoothed(counted.astype(np.float64))


def pair_prior(votes: Votes, n_trees: int) -> Floats:
    """The symmetric prior over the tally of the two leading classes, for any number of classes.

    The votes for the two leading classes of a row are scaled so that they sum to ``n_trees``. Each row counts in
    both orders, with weight one half each. The histogram is smoothed as in `votes_prior`.

    Parameters
    ----------
    votes : Votes
        Two classes or more. Rows without votes are left out.
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float, shape (T + 1,)
        Weights that sum to one.

    Raises
    ------
    ValueError
        If no row has a vote.

    Examples
    --------
    >>> import rfsize
    >>> from rfsize.stopping.urn import pair_prior
    >>> prior = pair_prior(rfsize.Votes([[70, 20, 10, 0]]), n_trees=20)
    >>> prior.shape, round(float(prior.sum()), 6)
    ((21,), 1.0)
    >>> bool(abs(prior - prior[::-1]).max() < 1e-12)
    True
    """
    counts = _with_votes(votes.counts[votes.n_votes > 0].astype(np.int64))
    leading = np.sort(counts, axis=1)[:, -2:]
    runner_up = _rounded(leading[:, 0] * n_trees, leading.sum(axis=1))
    counted = np.bincount(runner_up, minlength=n_trees + 1)
    return smoothed(np.asarray(0.5 * (counted + counted[::-1])))


def _with_votes(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(rows):
        raise ValueError("the votes given as prior hold no row with a vote; give votes of rows that trees voted on")
    return rows


def _rounded(numerator: NDArray[np.int64], denominator: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest whole number, halves downwards, in exact integer arithmetic."""
    return np.asarray((2 * numerator + denominator - 1) // (2 * denominator))


def smoothed(histogram: Floats) -> Floats:
    """A moving average over five tallies that loses no weight at the ends, normalised.

    The weight of each tally is spread evenly over the tallies at most two votes away. At the ends these are fewer, and
    each gets a larger share. The authors' program smooths with a window that shrinks symmetrically, and so leaves the
    end tallies as they are; such a prior can be given to `rfsize.StopTable.build` as an array.

    Parameters
    ----------
    histogram : ndarray of float, shape (T + 1,)
        Number of rows with each final tally.

    Returns
    -------
    ndarray of float, same shape
        Weights that sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from rfsize.stopping.urn import smoothed
    >>> smoothed(np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])).round(2).tolist()
    [0.0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.0]
    >>> smoothed(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(2).tolist()
    [0.33, 0.33, 0.33, 0.0, 0.0, 0.0, 0.0]
    """
    window = np.ones(2 * _REACH + 1)
    spread = _moving_sums(histogram / _moving_sums(np.ones(len(histogram)), window), window)
    return np.asarray(spread / spread.sum())


def _moving_sums(weights: Floats, window: Floats) -> Floats:
    """Sums over the tallies in the window around each tally."""
    return np.convolve(weights, window)[_REACH : _REACH + len(weights)]


def winning_masses(prior: Floats) -> Floats:
    """The masses after all T votes: the prior, split by the class that wins; a tie goes to class 0.

    Parameters
    ----------
    prior : ndarray of float, shape (T + 1,)
        Weights of the final tallies, by votes for class 1.

    Returns
    -------
    ndarray of float, shape (2, T + 1)
        The masses sum to the prior over the first axis.

    Examples
    --------
    In a forest of three trees, two votes decide:

    >>> from rfsize.stopping.urn import uniform_prior, winning_masses
    >>> winning_masses(uniform_prior(3)).tolist()
    [[0.25, 0.25, 0.0, 0.0], [0.0, 0.0, 0.25, 0.25]]
    """
    class_0 = np.arange(len(prior)) <= (len(prior) - 1) // 2
    return np.stack([class_0, ~class_0]) * prior


def lossless_bounds(n_trees: int) -> Bounds:
    """The earliest stops of two classes that never change a label, because the remaining votes cannot.

    Parameters
    ----------
    n_trees : int
        Ensemble size T.

    Returns
    -------
    (ndarray of int32, ndarray of int32), each of shape (T + 1,)
        ``lower`` and ``upper`` as in `rfsize.stopping.rules.binary.BinaryStops`.

    Examples
    --------
    If the first three of five votes are for one class, the other class can no longer win:

    >>> from rfsize.stopping.urn import lossless_bounds
    >>> lower, upper = lossless_bounds(5)
    >>> lower.tolist(), upper.tolist()
    ([-1, -1, -1, 0, 1, 2], [1, 2, 3, 3, 3, 3])
    """
    n_used = np.arange(n_trees + 1)
    lower = np.maximum(n_trees // 2 - n_trees + n_used, -1)
    upper = np.minimum(n_trees // 2 + 1, n_used + 1)
    return lower.astype(np.int32), upper.astype(np.int32)


def checked_prior(weights: ArrayLike, n_trees: int) -> Floats:
    """Check the weights of a prior over the final tallies of two classes, and normalise them.

    Parameters
    ----------
    weights : array_like of float, shape (T + 1,)
        By votes for class 1.
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float, same shape
        Weights that sum to one.

    Raises
    ------
    ValueError
        If the weights are not finite non-negative numbers of shape (T + 1,), or if all are zero.

    Examples
    --------
    >>> from rfsize.stopping.urn import checked_prior
    >>> checked_prior([1, 2, 1], n_trees=2).tolist()
    [0.25, 0.5, 0.25]
    """
    prior = np.asarray(weights)
    if prior.dtype.kind not in "iuf" or prior.shape != (n_trees + 1,):
        raise ValueError(
            f"prior must be 'uniform', what rfsize.tree_outputs returns, rfsize.Votes, or {n_trees + 1} numbers, one "
            f"for each count of votes for class 1 of {n_trees} trees; found shape {prior.shape}, dtype {prior.dtype}"
        )
    prior = prior.astype(np.float64)
    if not (np.isfinite(prior) & (prior >= 0.0)).all() or not 0.0 < prior.max() < np.inf:
        raise ValueError("prior must hold finite, non-negative weights that are not all zero; found others")
    # Divided by the largest first, because the sum of large weights could overflow.
    prior = prior / prior.max()
    return np.asarray(prior / prior.sum())
