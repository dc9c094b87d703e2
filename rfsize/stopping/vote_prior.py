"""Tables of votes from a prior: how likely each class is to win, given the first votes.

A row's T votes are balls in an urn, drawn without replacement. Let P be a prior over the final tally. After t
draws with the tally n (n_j votes for class j), the *masses* of that state are, for all classes k,

    m_k(t, n) = P(the first t votes have the tally n, and class k wins all T votes),

so that their sum m is the probability of the tally, and m_k / m is the probability that class k wins. At t = T the
masses are the prior itself. Those after one vote fewer are a sum of positive terms, with e_j one vote for class j,

    m_k(t, n) = Σ_j m_k(t + 1, n + e_j) · (n_j + 1) / (t + 1),

which is numerically stable. This module holds the priors. Compiled loops (rfsize/_native/urn.hpp) go back from t = T.

References: D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2009), "Statistical instance-based pruning in
ensembles of independent classifiers", IEEE TPAMI 31(2), 364-369 (SIBA, the uniform prior); V. Soto, A. Suárez,
G. Martínez-Muñoz (2016), "An urn model for majority voting in classification ensembles", NIPS (HYPER).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import MAX_CLASSES, Floats, choice, whole
from rfsize.counting.collect import outputs_of_votes
from rfsize.counting.outputs import TreeOutputs, coverage, distinct
from rfsize.counting.votes import Votes
from rfsize.stopping.votes import VoteRule, tally_order

_REACH = 2  # votes on each side in the moving average: the paper's window of 5

# More than two classes are solved exactly up to so many tallies, and classes; each pass takes the classes squared.
_MAX_TALLIES, _MAX_EXACT_CLASSES = 10_000_000, 20

# More than two classes: this share of the votes of each tally is drawn anew, which smooths their histogram.
_REDRAWN = 1 / 3


# By class: the share of the rows that all trees give it, the share of these that get another label, and mean trees.
Outcomes = list[tuple[float, float, float]]


def checked_prior(alpha: float, prior: Any, n_classes: int | None) -> tuple[Votes | ArrayLike | str, int]:
    """Check arguments of `rfsize.StopTable.build`: the prior, or the votes that it is made from, and its classes.

    Raises
    ------
    ValueError
        If an argument is out of range, or does not fit the others.
    FewVotesError
        If votes are out of bag and some kind of rows lacks votes, so that the other rows do not stand for new rows.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must be a number above 0 and at most 1 (1 for the lossless table), found {alpha!r}")
    if n_classes is not None:
        n_classes = whole("n_classes", n_classes, at_least=2, at_most=MAX_CLASSES)
    if isinstance(prior, str):
        choice("prior", prior, ("uniform",), "; or give what rfsize.tree_outputs returns")
        return prior, n_classes or 2
    votes = _representative(prior) if isinstance(prior, Votes | TreeOutputs) else prior
    of_prior = len(votes.classes) if isinstance(votes, Votes) else 2
    if n_classes not in (None, of_prior):
        raise ValueError(f"n_classes is {n_classes}, but prior is over {of_prior} classes; leave n_classes out")
    return votes, of_prior


def rule_from(
    prior: Votes | ArrayLike | str, n_trees: int, n_classes: int, alpha: float
) -> tuple[VoteRule, Outcomes | None]:
    """The rule of the papers for a prior that `checked_prior` returned, and what it expects for each class.

    The outcomes are None if they are not known.
    """
    if n_classes == 2:
        return _two_classes(two_class_prior(prior, n_trees), alpha)
    votes = prior if isinstance(prior, Votes) else None
    if is_solved_exactly(n_trees, n_classes):
        return _more_classes(votes, n_trees, n_classes, alpha)
    if alpha == 1.0:
        return VoteRule(), None
    # The leader has K − 1 rivals, which share the disagreement of 1 − α.
    rule, _ = _two_classes(pair_prior(votes, n_trees), 1.0 - (1.0 - alpha) / (n_classes - 1))
    return VoteRule(upper=rule.high), None


def _representative(prior: Votes | TreeOutputs) -> Votes:
    """The votes of a prior, after a check that they stand for the votes on new rows."""
    outputs = outputs_of_votes(prior) if isinstance(prior, Votes) else distinct(prior)
    problem = coverage(outputs).problem_of_some("where voting may stop") if outputs.votes.is_out_of_bag else None
    if problem is not None:
        raise problem
    return outputs.votes


# Rules


def _two_classes(prior: Floats, alpha: float) -> tuple[VoteRule, Outcomes]:
    """The rule of the papers for two classes, and its exact figures."""
    n_trees = len(prior) - 1
    # The masses after all T votes: the prior, split by the class that wins; a tie goes to class 0.
    is_class_0 = np.arange(n_trees + 1) <= n_trees // 2
    wins = np.stack([is_class_0, ~is_class_0]) * prior
    low, high = np.empty((2, n_trees + 1), dtype=np.int32)
    outcomes = _core.solve_two_classes(wins[0], wins[1], alpha, low, high)
    return VoteRule(low, high), _of_rows([(float(of.sum()), *rest) for of, rest in zip(wins, outcomes, strict=True)])


def _more_classes(votes: Votes | None, n_trees: int, n_classes: int, alpha: float) -> tuple[VoteRule, Outcomes]:
    """The rule of the papers for more classes (equation 3 of 2016), and its exact figures.

    Compiled code first draws a third of the votes of each tally anew: they are taken back at random, and drawn again
    one by one, each class with the weight of its votes so far plus one. A moving average of five tallies, as for two
    classes, would leave gaps in a prior of a few hundred rows.
    """
    bits = np.zeros(-(-math.comb(n_trees + n_classes, n_classes) // 8), dtype=np.uint8)
    outcomes, n_redrawn = np.empty((n_classes, 3)), 0 if votes is None else round(_REDRAWN * n_trees)
    _core.solve_tallies(n_trees, n_classes, tally_prior(votes, n_trees, n_classes), n_redrawn, alpha, bits, outcomes)
    return VoteRule(bits=bits if alpha < 1.0 else None), _of_rows(outcomes.tolist())


def _of_rows(outcomes: Sequence[Sequence[float]]) -> Outcomes:
    """The figures of each class per row, from masses."""
    none = math.nan
    return [(mass, wrong / mass, trees / mass) if mass > 0.0 else (0.0, none, none) for mass, wrong, trees in outcomes]


# Priors


def is_solved_exactly(n_trees: int, n_classes: int) -> bool:
    """Whether there are few enough tallies of votes for more than two classes."""
    return n_classes <= _MAX_EXACT_CLASSES and math.comb(n_trees + n_classes, n_classes) <= _MAX_TALLIES


def two_class_prior(prior: str | Votes | ArrayLike, n_trees: int) -> Floats:
    """Weights of the final tallies of two classes, by votes for class 1; shape (T + 1,).

    "uniform" gives equal weights. The vote fractions of each row of votes are scaled to ``n_trees`` votes and rounded;
    halves round towards class 0, which wins ties. Then the histogram of these tallies is `smoothed`. Rows may have
    different numbers of votes, as out-of-bag rows do. Rows without votes are left out.

    Raises
    ------
    ValueError
        If no row has a vote; if weights are not finite non-negative numbers of shape (T + 1,), or if all are zero.

    Examples
    --------
    A row with 97 of 100 votes for class 1 and a row with 40 votes, each spread over the tallies near it:

    >>> import rfsize
    >>> from rfsize.stopping.vote_prior import two_class_prior
    >>> two_class_prior(rfsize.Votes([[3, 97], [60, 40]]), n_trees=10).round(2).tolist()
    [0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0, 0.17, 0.17, 0.17]
    >>> two_class_prior("uniform", n_trees=4).tolist(), two_class_prior([1, 2, 1], n_trees=2).tolist()
    ([0.2, 0.2, 0.2, 0.2, 0.2], [0.25, 0.5, 0.25])
    """
    if isinstance(prior, Votes):
        counts = _with_votes(prior)
        tally = _rounded(counts[:, 1] * n_trees, counts.sum(axis=1))
        return smoothed(np.bincount(tally, minlength=n_trees + 1))
    weights = np.ones(n_trees + 1) if isinstance(prior, str) else np.asarray(prior)
    fits = weights.dtype.kind in "iuf" and weights.shape == (n_trees + 1,)
    if not fits or not ((weights >= 0.0) & (weights <= np.finfo(np.float64).max)).all() or not weights.any():
        raise ValueError(
            f"prior must be 'uniform', what rfsize.tree_outputs returns, rfsize.Votes, or {n_trees + 1} finite "
            f"weights of at least 0, not all 0, one for each count of votes for class 1 of {n_trees} trees; found "
            f"shape {weights.shape}, dtype {weights.dtype}"
        )
    # Divided by the largest first, because the sum of large weights could overflow.
    weights = weights.astype(np.float64) / weights.max()
    return np.asarray(weights / weights.sum())


def tally_prior(votes: Votes | None, n_trees: int, n_classes: int) -> Floats:
    """Weights of the tallies of T votes for more than two classes, in the order of `tally_order`; None is uniform.

    Each row of votes is scaled to ``n_trees`` votes and rounded.
    """
    choose = tally_order(n_trees, n_classes)
    if votes is None:
        n_tallies = int(choose[-1, n_trees + 1] - choose[-1, n_trees])
        return np.full(n_tallies, 1.0 / n_tallies)
    counts = _with_votes(votes)
    # Scaled from the last class on, so that halves round towards the first.
    from_last = np.cumsum(counts[:, ::-1], axis=1)
    after = _rounded(from_last * n_trees, from_last[:, -1:])
    sums = n_trees - after[:, -2::-1]  # votes for the classes up to k
    number = choose[np.arange(n_classes - 1), sums].sum(axis=1)
    return np.bincount(number, minlength=choose[-1, n_trees + 1] - choose[-1, n_trees]) / len(counts)


def pair_prior(votes: Votes | None, n_trees: int) -> Floats:
    """The symmetric prior over the tally of the two leading classes, for any number of classes; None is uniform.

    The votes for the two leading classes of a row are scaled so that they sum to ``n_trees``. Each row counts in
    both orders, with weight one half each. The histogram is `smoothed`. Rows without votes are left out.

    Raises
    ------
    ValueError
        If no row has a vote.

    Examples
    --------
    >>> import rfsize
    >>> from rfsize.stopping.vote_prior import pair_prior
    >>> prior = pair_prior(rfsize.Votes([[70, 20, 10, 0]]), n_trees=20)
    >>> prior.shape, round(float(prior.sum()), 6)
    ((21,), 1.0)
    >>> bool(abs(prior - prior[::-1]).max() < 1e-12)
    True
    """
    if votes is None:
        return np.full(n_trees + 1, 1.0 / (n_trees + 1))
    counts = _with_votes(votes)
    leading = np.sort(counts, axis=1)[:, -2:]
    runner_up = _rounded(leading[:, 0] * n_trees, leading.sum(axis=1))
    counted = np.bincount(runner_up, minlength=n_trees + 1)
    return smoothed(np.asarray(0.5 * (counted + counted[::-1])))


def _with_votes(votes: Votes) -> NDArray[np.int64]:
    """The counts of the rows with a vote; ``ValueError`` if there is none."""
    counts = votes.counts[votes.n_votes > 0].astype(np.int64)
    if not len(counts):
        raise ValueError("the votes given as prior hold no row with a vote; give votes of rows that trees voted on")
    return counts


def _rounded(numerator: NDArray[np.int64], denominator: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest whole number, halves downwards, in exact integer arithmetic."""
    return np.asarray((2 * numerator + denominator - 1) // (2 * denominator))


def smoothed(histogram: NDArray[Any]) -> Floats:
    """A moving average over five tallies that loses no weight at the ends, normalised.

    The weight of each tally is spread evenly over the tallies at most two votes away. At the ends these are fewer, and
    each gets a larger share. The authors' program smooths with a window that shrinks symmetrically, and so leaves the
    end tallies as they are; such a prior can be given to `rfsize.StopTable.build` as an array.

    Parameters
    ----------
    histogram : ndarray, shape (T + 1,)
        Number of rows with each final tally.

    Returns
    -------
    ndarray of float, same shape
        Weights that sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from rfsize.stopping.vote_prior import smoothed
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
