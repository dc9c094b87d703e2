"""The urn posterior behind the stop tables: how likely each class is to win, given the first votes.

A row's T votes are balls in an urn, drawn without replacement. Let P be a prior over the final tally. After t
draws the tally is n, and the *masses* of that state are, for every class k,

    m_k(t, n) = P(tally n after t votes, and class k wins all T votes),

so that m = Σ m_k is the probability of the tally, and m_k / m is the probability that class k wins. At t = T the
masses are the prior itself. Those after one vote fewer are a sum of positive terms,

    m_k(t, n) = Σ_j m_k(t + 1, n + e_j) · (n_j + 1) / (t + 1),

which is numerically stable. This module holds the priors and the masses at t = T. Compiled loops
(rfsize/_native/urn.hpp) go back from there to t = 0.

References: G. Martínez-Muñoz, D. Hernández-Lobato, A. Suárez (2009), "Statistical instance-based pruning in
ensembles of independent classifiers", IEEE TPAMI 31(2), 364-369 (SIBA, the uniform prior); V. Soto, G.
Martínez-Muñoz, A. Suárez (2016), "An urn model for majority voting in classification ensembles", NIPS (HYPER).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln, xlogy

from rfsize.utils.typing import Floats
from rfsize.voting.votes import Votes

Bounds = tuple[NDArray[np.int32], NDArray[np.int32]]

_REACH = 2  # two classes: a moving average over the tallies at most this many votes away, the paper's window of 5

# The quadrature of ∫ f·F·F for gamma distributions: its nodes, and its reach into the tails in standard deviations.
_NODES, _SPREAD = 128, 11.0


def uniform_prior(n_trees: int, n_classes: int) -> Floats:
    """Equal weight on every final tally, the prior of SIBA.

    Parameters
    ----------
    n_trees : int
        Ensemble size T.
    n_classes : {2, 3}
        Number of classes.

    Returns
    -------
    ndarray of float
        Two classes: shape (T + 1,), by votes for class 1. Three: shape (T + 1, T + 1), indexed [votes for
        class 0, votes for class 1], 0 where the two sum to more than T.

    Examples
    --------
    >>> from rfsize.stopping.urn import uniform_prior
    >>> uniform_prior(4, n_classes=2).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    >>> uniform_prior(101, n_classes=3).shape
    (102, 102)
    """
    if n_classes == 2:
        return np.full(n_trees + 1, 1.0 / (n_trees + 1))
    inside = simplex(n_trees)
    return inside / inside.sum()


def simplex(n_trees: int) -> NDArray[np.bool_]:
    """Which [votes for class 0, votes for class 1] are tallies of ``n_trees`` votes, shape (T + 1, T + 1).

    Parameters
    ----------
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of bool, shape (T + 1, T + 1)
        True where the two sum to at most T.

    Examples
    --------
    >>> from rfsize.stopping.urn import simplex
    >>> simplex(2).astype(int).tolist()
    [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    """
    count = np.arange(n_trees + 1)
    return np.add.outer(count, count) <= n_trees


def votes_prior(votes: Votes, n_trees: int) -> Floats:
    """The prior of HYPER, from the votes on rows of two or three classes.

    The vote fractions of each row are scaled to ``n_trees`` votes and rounded. Then the histogram of these tallies
    is smoothed: the weight of each row is spread evenly over a window, the tallies in which no class has more than
    r votes more or fewer. With two classes r = 2, the paper's window of 5. With three classes the window holds the
    same share of all tallies, so r ≈ √(5T/6). With r = 2, a prior from a few hundred rows has so many gaps that the
    tables break their promise on new rows. At the edges the window holds fewer tallies, and each gets a larger
    share, so that no weight is lost. Halves round towards class 0, because class 0 wins ties.

    Parameters
    ----------
    votes : Votes
        Two or three classes. Rows may have different numbers of votes, as out-of-bag rows do. Rows without votes
        are left out.
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float
        Weights that sum to one, in the shapes of `uniform_prior`.

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
    if len(votes.classes) == 2:
        cells = votes.histogram()
        tally = _rounded(cells.count * n_trees, cells.asked)
        counted = np.bincount(tally, weights=_some(cells.rows), minlength=n_trees + 1)
        return smoothed(counted.astype(np.float64))
    counts = voted_rows(votes)
    asked = counts.sum(axis=1)
    class_2 = _rounded(counts[:, 2] * n_trees, asked)
    # The first two share what class 2 leaves, so that the three always sum to T.
    both = np.maximum(counts[:, 0] + counts[:, 1], 1)
    class_1 = _rounded(counts[:, 1] * (n_trees - class_2), both)
    prior = np.zeros((n_trees + 1, n_trees + 1))
    np.add.at(prior, (n_trees - class_1 - class_2, class_1), 1.0)
    return smoothed(prior)


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
    leading = np.sort(voted_rows(votes), axis=1)[:, -2:]
    runner_up = _rounded(leading[:, 0] * n_trees, leading.sum(axis=1))
    counted = np.bincount(runner_up, minlength=n_trees + 1)
    return smoothed(np.asarray(0.5 * (counted + counted[::-1])))


def voted_rows(votes: Votes) -> NDArray[np.int64]:
    """The vote counts, without the rows that have no vote.

    Parameters
    ----------
    votes : Votes
        Any number of classes.

    Returns
    -------
    ndarray of int64, shape (n, n_classes)
        The counts of the rows that have a vote, in their order.

    Raises
    ------
    ValueError
        If no row has a vote.

    Examples
    --------
    >>> import rfsize
    >>> from rfsize.stopping.urn import voted_rows
    >>> voted_rows(rfsize.Votes([[3, 7], [0, 0], [9, 1]])).tolist()
    [[3, 7], [9, 1]]
    """
    return _some(votes.counts[votes.asked > 0].astype(np.int64))


def _some(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(rows):
        raise ValueError("the votes given as prior hold no row with a vote; give votes of rows that trees voted on")
    return rows


def _rounded(numerator: NDArray[np.int64], denominator: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest whole number, halves downwards, in exact integer arithmetic."""
    return np.asarray((2 * numerator + denominator - 1) // (2 * denominator))


def smoothed(histogram: Floats) -> Floats:
    """A moving average of the histogram that loses no weight at the edges, normalised; see `votes_prior`.

    Parameters
    ----------
    histogram : ndarray of float, shape (T + 1,) or (T + 1, T + 1)
        Number of rows with each final tally, for two or three classes.

    Returns
    -------
    ndarray of float, same shape
        Weights that sum to one; 0 in cells that are no tally.

    Examples
    --------
    >>> import numpy as np
    >>> from rfsize.stopping.urn import smoothed
    >>> smoothed(np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])).round(2).tolist()
    [0.0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.0]
    >>> smoothed(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(2).tolist()
    [0.33, 0.33, 0.33, 0.0, 0.0, 0.0, 0.0]
    """
    reach = _REACH
    inside = np.ones(len(histogram))
    if histogram.ndim == 2:
        reach = three_class_reach(len(histogram) - 1)
        inside = simplex(len(histogram) - 1).astype(np.float64)
    window = _window_sums(inside, reach)
    spread = _window_sums(np.divide(histogram, window, where=inside > 0, out=np.zeros(inside.shape)), reach) * inside
    return np.asarray(spread / spread.sum())


def three_class_reach(n_trees: int) -> int:
    """The reach of the window for three classes, so that it holds a share 5/(T + 1) of all tallies.

    A window of reach r holds 3r² + 3r + 1 of the (T + 1)(T + 2)/2 tallies.

    Parameters
    ----------
    n_trees : int
        Ensemble size T.

    Returns
    -------
    int
        The reach r in votes, at least 2.

    Examples
    --------
    >>> from rfsize.stopping.urn import three_class_reach
    >>> three_class_reach(10), three_class_reach(201)
    (3, 13)
    """
    reach = _REACH
    while 3 * reach * (reach + 1) + 1 < (2 * _REACH + 1) * (n_trees + 2) / 2:
        reach += 1
    return reach


def _window_sums(weights: Floats, reach: int) -> Floats:
    """Sums over the tallies that differ by at most ``reach`` votes in each class. Cells that are no tally must be 0."""
    steps = range(-reach, reach + 1)
    n = len(weights)
    padded = np.pad(weights, reach)
    sums = np.zeros(weights.shape)
    for i in steps:
        if weights.ndim == 1:
            sums += padded[reach + i : reach + i + n]
            continue
        for j in steps:
            if abs(i + j) <= reach:
                sums += padded[reach + i : reach + i + n, reach + j : reach + j + n]
    return sums


def winning_masses(prior: Floats, target: str) -> Floats:
    """The masses after all T votes: the prior, split by the class that wins.

    Parameters
    ----------
    prior : ndarray of float, shape (T + 1,) or (T + 1, T + 1)
        Weights of the final tallies, as from `uniform_prior`.
    target : {"forest", "limit"}
        "forest": the class with the most of the T votes wins, and a tie goes to the lowest index. "limit": the
        class with the most votes in an unlimited forest wins. Given the tally, the vote fractions of that forest
        have the posterior Dirichlet(tally + 1).

    Returns
    -------
    ndarray of float, shape (n_classes, T + 1) or (n_classes, T + 1, T + 1)
        The masses sum to the prior over the first axis.

    Examples
    --------
    In a forest of three trees, two votes decide. In an unlimited forest the class of these two votes can still lose:

    >>> from rfsize.stopping.urn import uniform_prior, winning_masses
    >>> winning_masses(uniform_prior(3, n_classes=2), "forest").tolist()
    [[0.25, 0.25, 0.0, 0.0], [0.0, 0.0, 0.25, 0.25]]
    >>> winning_masses(uniform_prior(3, n_classes=2), "limit").round(3).tolist()
    [[0.234, 0.172, 0.078, 0.016], [0.016, 0.078, 0.172, 0.234]]
    """
    n_trees = len(prior) - 1
    if prior.ndim == 1:
        count = np.arange(n_trees + 1)
        if target == "limit":
            class_0 = betainc(count + 1.0, n_trees - count + 1.0, 0.5)
            return np.stack([class_0, class_0[::-1]]) * prior
        class_0 = count <= n_trees // 2
        return np.stack([class_0, ~class_0]) * prior
    if target == "limit":
        return largest_fraction(n_trees) * prior
    winner = np.stack(three_counts(n_trees)).argmax(axis=0)
    return (winner == np.arange(3)[:, None, None]) * prior


def three_counts(n_trees: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Votes of each class in every cell [n0, n1].

    Parameters
    ----------
    n_trees : int
        Ensemble size T.

    Returns
    -------
    tuple of three ndarrays of int64, shape (T + 1, T + 1)
        The votes for classes 0, 1 and 2. The third array is negative in cells that are no tally.

    Examples
    --------
    >>> from rfsize.stopping.urn import three_counts
    >>> class_0, class_1, class_2 = three_counts(101)
    >>> int(class_0[60, 30]), int(class_1[60, 30]), int(class_2[60, 30])
    (60, 30, 11)
    """
    count = np.arange(n_trees + 1)
    class_0, class_1 = np.meshgrid(count, count, indexing="ij")
    return class_0, class_1, n_trees - class_0 - class_1


def largest_fraction(n_trees: int) -> Floats:
    """P(class k has the largest vote fraction | tally), for Dirichlet(tally + 1) over three classes.

    With independent G_k ~ Gamma(n_k + 1), P(G_k is the largest) = ∫ f_k(x) F_i(x) F_j(x) dx, where i and j are the
    other two classes. The integrand is entire, so Gauss-Legendre quadrature over the bulk of f_k converges fast.

    Parameters
    ----------
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float, shape (3, T + 1, T + 1)
        Indexed [k, votes for class 0, votes for class 1]; 0 where the two sum to more than T. Accurate to 1e-10.

    Examples
    --------
    >>> from rfsize.stopping.urn import largest_fraction
    >>> largest_fraction(3)[:, 1, 1].round(3).tolist()
    [0.333, 0.333, 0.333]
    >>> largest_fraction(3)[:, 3, 0].round(3).tolist()
    [0.887, 0.056, 0.056]
    """
    count = np.arange(n_trees + 1)
    rule = np.polynomial.legendre.leggauss(_NODES)
    wins = np.array([_beats_both(int(own), count, rule) for own in count])  # [own votes, one rival's, the other's]
    class_0, class_1, class_2 = three_counts(n_trees)
    inside = class_2 >= 0
    class_2 = np.maximum(class_2, 0)
    shares = np.stack(
        [
            wins[class_0, class_1, class_2],
            wins[class_1, class_0, class_2],
            wins[class_2, class_0, class_1],
        ]
    )
    # The error of the quadrature must not change the sum of the masses.
    return np.asarray(np.where(inside, shares / shares.sum(axis=0), 0.0))


def _beats_both(own: int, rivals: NDArray[np.int64], rule: tuple[Floats, Floats]) -> Floats:
    """P(Gamma(own + 1) exceeds both rivals), shape (rivals, rivals), by a quadrature rule on (-1, 1)."""
    shape = own + 1.0
    reach = _SPREAD * np.sqrt(shape)
    start, end = max(0.0, shape - reach), shape + reach + 3.0 * _SPREAD
    x = start + (end - start) * (rule[0] + 1.0) / 2.0
    weight = rule[1] * (end - start) / 2.0 * np.exp(xlogy(own, x) - x - gammaln(shape))
    # F of Gamma(j + 1) at x: a Poisson count of mean x exceeds j.
    poisson = np.exp(xlogy(rivals[:, None], x) - x - gammaln(rivals[:, None] + 1.0))
    below = np.maximum(1.0 - np.cumsum(poisson, axis=0), 0.0)
    return np.asarray((below * weight) @ below.T)


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
    asked = np.arange(n_trees + 1)
    lower = np.maximum(n_trees // 2 - n_trees + asked, -1)
    upper = np.minimum(n_trees // 2 + 1, asked + 1)
    return lower.astype(np.int32), upper.astype(np.int32)


def checked_prior(weights: ArrayLike, n_trees: int) -> Floats:
    """Check the weights of a prior over the final tallies, and normalise them.

    Parameters
    ----------
    weights : array_like of float, shape (T + 1,) or (T + 1, T + 1)
        For two classes by votes for class 1; for three classes by votes for classes 0 and 1.
    n_trees : int
        Ensemble size T.

    Returns
    -------
    ndarray of float, same shape
        Weights that sum to one.

    Raises
    ------
    ValueError
        If the weights are not finite non-negative numbers of shape (T + 1,) or (T + 1, T + 1), if all are zero, or
        if a cell that is no tally of T votes has weight.

    Examples
    --------
    >>> from rfsize.stopping.urn import checked_prior
    >>> checked_prior([1, 2, 1], n_trees=2).tolist()
    [0.25, 0.5, 0.25]
    """
    prior = np.asarray(weights)
    shapes = [(n_trees + 1,), (n_trees + 1, n_trees + 1)]
    if prior.dtype.kind not in "iuf" or prior.shape not in shapes:
        raise ValueError(
            f"prior must be 'uniform', rfsize.Votes, or numbers of shape {shapes[0]} (two classes, by votes for class "
            f"1) or {shapes[1]} (three classes, by votes for classes 0 and 1) for {n_trees} trees; found shape "
            f"{prior.shape}, dtype {prior.dtype}"
        )
    prior = prior.astype(np.float64)
    if not (np.isfinite(prior) & (prior >= 0.0)).all() or not 0.0 < prior.max() < np.inf:
        raise ValueError("prior must hold finite, non-negative weights that are not all zero; found others")
    if prior.ndim == 2 and prior[~simplex(n_trees)].any():
        raise ValueError(
            f"prior[n0, n1] must be 0 where n0 + n1 exceeds the {n_trees} trees: no row can have that tally"
        )
    # Divided by the largest first, because the sum of large weights could overflow.
    prior = prior / prior.max()
    return np.asarray(prior / prior.sum())
