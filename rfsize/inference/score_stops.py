"""When rows need not ask the remaining trees, in sums of scores as a `Forest` adds them up."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.stopping.stops import AverageStops
from rfsize.utils.typing import Floats
from rfsize.walking.layout import HIGHEST_RANK, RANK_MASK, Forest

# Without a table. To look at all rows after every tree would take longer than to walk down it.
_TREES_BETWEEN_LOOKS = 8
# Rounding errors that a link adds to a score, at most, in units of its precision.
_OF_A_LINK = 16.0


class ScoreStop(NamedTuple):
    """What the compiled loop compares sums of scores with.

    Attributes
    ----------
    first_look, every : int
        Rows may stop after ``first_look`` trees, and after each ``every`` more.
    low, high : ndarray of float64, shape (T + 1,)
        Of one score: sums of at most ``low[t]`` are answered with class 0 after t trees, of at least ``high[t]`` with
        class 1.
    needed : ndarray of float64, shape (T + 1,)
        Of several: the lead of the first class over the second that settles a row.
    drift : ndarray of float64, shape (n_scores,)
        Of several: what is taken from each sum before they are compared, times the share of trees not yet asked.
    """

    first_look: int
    every: int
    low: Floats
    high: Floats
    needed: Floats
    drift: Floats


def lossless(forest: Forest, cut: float) -> ScoreStop:
    """Stops where the trees left cannot change the label any more, whatever leaves a row reaches.

    Parameters
    ----------
    forest : Forest
        A forest of classes.
    cut : float
        Score above which class 1 is predicted; two classes of one score only.
    """
    least, most = _extremes(forest)
    left_least, left_most = _left(least), _left(most)
    start = forest.start.astype(np.float64)
    slack = _slack(forest, np.maximum(np.abs(least), np.abs(most)), cut)
    if forest.n_scores == 1:
        level = cut * forest.divisor
        low, high = level - left_most[:, 0] - slack, level - left_least[:, 0] + slack
        # What the sums may be at most, to leave out looks at which none can stop.
        reach = np.maximum(start + _asked(most)[:, 0] - high, low - start - _asked(least)[:, 0])
        return _stop(reach >= 0.0, _TREES_BETWEEN_LOOKS, low, high, np.zeros(len(low)), np.zeros(1))
    needed = _largest_turn(forest, least, most) + slack
    lead = np.max(start) - np.min(start) + np.max(_asked(most), axis=1) - np.min(_asked(least), axis=1)
    return _stop(lead >= needed, _TREES_BETWEEN_LOOKS, needed, needed, needed, np.zeros(forest.n_scores))


def by_table(forest: Forest, stops: AverageStops) -> ScoreStop:
    """The stops of a table on averaged scores."""
    n_trees = forest.n_trees
    asked = np.arange(n_trees + 1)
    start: Floats = forest.start.astype(np.float64)
    share = asked / n_trees * forest.divisor
    if forest.n_scores == 1:
        # The mean score of t trees is start + T/t·(sum − start), where sums are not divided by the number of trees.
        level = start + (stops.cut - start) * share
        lead = stops.needed * np.where(asked > 0, share, 1.0)
        return _stop(asked > 0, 1, level - lead, level + lead, stops.needed, start)
    # Two shares that sum to 1 are twice as far apart as each is from a half.
    apart = 2.0 if forest.conventions.link == "identity" and len(forest.classes) == 2 else 1.0
    needed = stops.needed * np.where(asked > 0, share, 1.0) * apart
    return _stop(asked > 0, 1, needed, needed, needed, start)


def _stop(
    may_stop: NDArray[np.bool_], every: int, low: Floats, high: Floats, needed: Floats, drift: Floats
) -> ScoreStop:
    """Stops from the first number of trees on after which any row may stop."""
    first = int(np.argmax(may_stop)) if may_stop.any() else len(may_stop) - 1
    return ScoreStop(max(first, 1), every, *(np.ascontiguousarray(array) for array in (low, high, needed, drift)))


def _extremes(forest: Forest) -> tuple[Floats, Floats]:
    """The smallest and largest value of the leaves of each member, for each score; shape (n_trees, n_scores)."""
    value, start = forest.trees.value.astype(np.float64), forest.trees.tree_start[:-1]
    is_leaf = (forest.trees.nodes & RANK_MASK == HIGHEST_RANK)[:, None]
    least = np.minimum.reduceat(np.where(is_leaf, value, math.inf), start, axis=0)
    most = np.maximum.reduceat(np.where(is_leaf, value, -math.inf), start, axis=0)
    return least.reshape(forest.n_trees, -1), most.reshape(forest.n_trees, -1)


def _asked(of_members: Floats) -> Floats:
    """Sums over the first 0, …, T members."""
    return np.concatenate([np.zeros((1, of_members.shape[1])), np.cumsum(of_members, axis=0)])


def _left(of_members: Floats) -> Floats:
    """Sums over the members after the first 0, …, T."""
    return _asked(of_members[::-1])[::-1]


def _largest_turn(forest: Forest, least: Floats, most: Floats) -> Floats:
    """By how much the members left can move one class over another at most, after 0, …, T of them."""
    if forest.n_outputs == 1:
        # A leaf scores all classes, and so moves them together.
        value, start = forest.trees.value, forest.trees.tree_start[:-1]
        apart = np.maximum.reduceat(np.ptp(value.astype(np.float64), axis=1), start)
        return _left(apart[:, None])[:, 0]
    gain, loss = _left(most), _left(least)
    first, second = np.argsort(-gain, axis=1)[:, :2].T
    rows = np.arange(len(gain))
    turn = np.full(len(gain), -math.inf)
    for of in (first, second):
        other = loss.copy()
        other[rows, of] = math.inf
        turn = np.maximum(turn, gain[rows, of] - other.min(axis=1))
    return turn


def _slack(forest: Forest, largest: Floats, cut: float) -> float:
    """What rounding could move a sum, and the link what comes of it, at most."""
    slope, steepness = forest.conventions.slope, 1.0
    if forest.conventions.link == "logistic":
        with np.errstate(over="ignore"):  # next to a probability of 0 or 1 no stop is safe
            steepness = float((1.0 + np.exp(abs(slope * cut))) / slope)
    of_link = _OF_A_LINK * max(steepness, abs(cut), 1.0) * forest.divisor
    size = float(np.abs(forest.start).max()) + float(largest.sum(axis=0).max())
    return float(np.finfo(forest.trees.value.dtype).eps) * ((2.0 * forest.n_trees + 8.0) * size + of_link)
