"""Rules of stopping on the trees of one compiled forest, in the units that it adds up: for the loops and for C."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.models.link import Link
from rfsize.walking.c_text import array, part, real
from rfsize.walking.layout import HIGHEST_RANK, RANK_MASK, PackedForest

CHECK_EVERY = 8
"""A row is checked after this many trees, if a check after each tree would take longer than the tree itself."""

# The largest rounding error of a link, in units of the precision of a score.
_OF_A_LINK = 16.0

# The framework compares these scores: probabilities, or what they are made of.
_OF_PROBABILITIES = "    sum score[SCORES];\n    predict_from(total, score);\n"
_OF_SUMS = "    sum score[SCORES];\n    for (int k = 0; k < SCORES; k++) score[k] = (sum)(total[k] / DIVISOR);\n"

_BY_BOUNDS = """    const int look = (n_used + EVERY - 1) / EVERY;
    return votes[1] <= low[look] ? 0 : votes[1] >= high[look] ? 1 : -1;
"""
_BY_LEADERS = """    int leader, next, ahead;
    two_leaders(votes, &leader, &next);
    ahead = votes[leader] - votes[next];
    if (ahead + (leader < next) > TREES - n_used) return leader;
    return $stops ? leader : -1;
"""


class LabelRule(ABC):
    """A rule for labels that runs on rows of one compiled forest."""

    @property
    @abstractmethod
    def native(self) -> _core.ScoreStop | _core.VoteStop:
        """The rule for the compiled loop."""

    @abstractmethod
    def settle(self, rows: _core.Rows, label: Int64s, n_used: Int64s) -> None:
        """Send rows down the trees until each is settled.

        Parameters
        ----------
        rows : _core.Rows
            Rows in the form that the trees compare.
        label : ndarray of int64, shape (n,)
            For the index of each label; filled with -1 before the call.
        n_used : ndarray of int64, shape (n,)
            For the number of trees; filled with T before the call.
        """

    @abstractmethod
    def label_in_c(self) -> str:
        """The C function ``label_of``."""


# Votes


@dataclass(frozen=True, eq=False)
class LabelsByVotes(LabelRule):
    """Counts of votes, and what they are compared with; see `VoteStop` in rfsize/_native/stop_votes.hpp.

    Attributes
    ----------
    forest : PackedForest
    every : int
        Number of trees between two checks of a row. There is always a check after the last tree.
    low, high : ndarray of int32, shape (T + 1,), or None
        Two classes: after t trees, at most ``low[t]`` votes for class 1 give class 0, at least ``high[t]`` class 1.
    margin : ndarray of int32, shape (T + 1,), or None
        More classes: the lead of the first class over the second that settles a row.
    upper : ndarray of int32, shape (T + 1,), or None
        More classes: the votes of the first class that settle a row, by the votes for the first two classes together.
    bits : ndarray of uint8, or None
        More classes: whether each tally settles a row; see `rfsize.stopping.rules.TallyRule`.
    """

    forest: PackedForest
    every: int = 1
    low: NDArray[np.int32] | None = None
    high: NDArray[np.int32] | None = None
    margin: NDArray[np.int32] | None = None
    upper: NDArray[np.int32] | None = None
    bits: NDArray[np.uint8] | None = None

    @cached_property
    def native(self) -> _core.VoteStop:
        """The rule for the compiled loop."""
        nothing = np.zeros(0, dtype=np.int32)
        low, high, margin, upper = (
            nothing if bound is None else bound for bound in (self.low, self.high, self.margin, self.upper)
        )
        bits = np.zeros(0, dtype=np.uint8) if self.bits is None else self.bits
        n_trees, n_classes = self.forest.n_trees, len(self.forest.classes)
        return _core.VoteStop(n_trees, n_classes, self.every, low, high, margin, upper, bits)

    def settle(self, rows: _core.Rows, label: Int64s, n_used: Int64s) -> None:
        self.native.settle(rows, self.forest.alone, len(self.forest.classes), label, n_used)

    def label_in_c(self) -> str:
        tally = "int" if self.forest.n_trees < 1 << 15 else "long"
        return part("label_by_votes", every=self.every, tally=tally, answer=self._answer_in_c())

    def _answer_in_c(self) -> str:
        n_trees, n_classes = self.forest.n_trees, len(self.forest.classes)
        if self.low is not None and self.high is not None:
            looks = np.minimum(np.arange(0, n_trees + self.every, self.every), n_trees)
            bounds = array("low", self.low[looks]) + array("high", self.high[looks])
            return bounds + part("answer_by_votes", body=_BY_BOUNDS)
        tables, stops = part("two_leaders"), "0"
        if self.margin is not None:
            tables, stops = tables + array("margin", self.margin), "ahead >= margin[n_used]"
        elif self.upper is not None:
            tables, stops = tables + array("upper", self.upper), "votes[leader] >= upper[votes[leader] + votes[next]]"
        elif self.bits is not None:
            order = tally_order(n_trees, n_classes)
            numbers = array("stops", self.bits) + array("choose", order.ravel(), "int32_t")
            tables, stops = tables + part("in_a_table", tables=numbers), "is_in_table(n_used, votes)"
        return tables + part("answer_by_votes", body=_BY_LEADERS.replace("$stops", stops))


def tally_order(n_trees: int, n_classes: int) -> Int64s:
    """C(s + k, k + 1) for k = 0, …, K − 1 and s = 0, …, T + 1, by which all tallies of up to T votes are numbered.

    With s_k votes for the classes up to k, a tally of t votes is number C(t + K − 1, K) + Σ C(s_k + k, k + 1), where
    the sum is over k < K − 1. Tallies of fewer votes come first.
    """
    choose = np.empty((n_classes, n_trees + 2), dtype=np.int64)
    choose[0] = np.arange(n_trees + 2)
    for k in range(1, n_classes):
        choose[k] = np.cumsum(choose[k - 1])
    return choose


def majority_on(forest: PackedForest) -> LabelsByVotes:
    """Stops that never change the majority of all trees, on rows of a forest of classes."""
    low, high = lossless_bounds(forest.n_trees) if len(forest.classes) == 2 else (None, None)
    return LabelsByVotes(forest, CHECK_EVERY, low, high)


def lossless_bounds(n_trees: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The earliest stops of two classes that never change a label, because the remaining votes cannot.

    Returns
    -------
    (ndarray of int32, ndarray of int32), each of shape (T + 1,)
        ``low`` and ``high`` as in `LabelsByVotes`.

    Examples
    --------
    If the first three of five votes are for one class, the other class can no longer win:

    >>> from rfsize.stopping.on_forest import lossless_bounds
    >>> low, high = lossless_bounds(5)
    >>> low.tolist(), high.tolist()
    ([-1, -1, -1, 0, 1, 2], [1, 2, 3, 3, 3, 3])
    """
    n_used = np.arange(n_trees + 1)
    low = np.maximum(n_trees // 2 - n_trees + n_used, -1)
    high = np.minimum(n_trees // 2 + 1, n_used + 1)
    return low.astype(np.int32), high.astype(np.int32)


# Sums of scores


@dataclass(frozen=True, eq=False)
class LabelsBySums(LabelRule):
    """The bounds that the sums of scores are compared with.

    Attributes
    ----------
    forest : PackedForest
    first_look, every : int
        Rows may stop after ``first_look`` trees, and then after every ``every`` more.
    low, high : ndarray of float64, shape (T + 1,)
        With one score: after t trees, a sum of at most ``low[t]`` gives class 0, a sum of at least ``high[t]`` class 1.
    needed : ndarray of float64, shape (T + 1,)
        With several scores: the lead of the first class over the second that settles a row.
    drift : ndarray of float64, shape (n_scores,)
        With several scores: subtracted from the sums before the comparison, times the share of trees not yet used.
    """

    forest: PackedForest
    first_look: int
    every: int
    low: Floats
    high: Floats
    needed: Floats
    drift: Floats

    @classmethod
    def of(cls, forest: PackedForest, may_stop: NDArray[np.bool_], every: int, *bounds: Floats) -> LabelsBySums:
        """Make the stops, which begin at the first tree after which any row may stop; ``bounds`` are the arrays."""
        first = int(np.argmax(may_stop)) if may_stop.any() else len(may_stop) - 1
        return cls(forest, max(first, 1), every, *map(np.ascontiguousarray, bounds))

    @cached_property
    def native(self) -> _core.ScoreStop:
        """The rule for the compiled loop."""
        return _core.ScoreStop(self.first_look, self.every, self.low, self.high, self.needed, self.drift)

    def settle(self, rows: _core.Rows, label: Int64s, n_used: Int64s) -> None:
        forest = self.forest
        total = np.tile(forest.start, (len(rows), 1))
        if self.first_look < len(self.low) - 1:
            self.native.settle(rows, total, label, n_used)
        else:  # no row stops
            rows.add_scores(total)
        is_open = label < 0
        if is_open.any():
            label[is_open] = predicted_labels(forest, total[is_open])

    def label_in_c(self) -> str:
        # If probabilities cannot change the label after the last tree, they are not computed.
        forest, last, n_trees = self.forest, lossless_on(self.forest), self.forest.n_trees
        looks = np.arange(self.first_look, n_trees, self.every)
        low, high, needed = (
            np.append(getattr(self, name)[looks], getattr(last, name)[n_trees]) for name in ("low", "high", "needed")
        )
        score = _OF_SUMS if forest.conventions.labels_of_scores else _OF_PROBABILITIES
        known: dict[str, object] = {"first_look": self.first_look, "every": self.every, "score": score}
        if forest.n_scores == 1:
            single = forest.precision == np.float32
            known["threshold"] = real(float(forest.precision.type(forest.label_threshold)), single=single)
            label = part("label_by_one_score", low=array("low", low), high=array("high", high), **known)
        else:
            drift = part("drift", drift=array("drift", self.drift)) if self.drift.any() else part("no_drift")
            label = part("label_by_scores", needed=array("needed", needed), drift=drift, **known)
        return label + part("ask_by_scores")


def predicted_labels(forest: PackedForest, total: NDArray[np.floating]) -> Int64s:
    """Index of the class that the framework predicts from the sums of all scores. Overwrites the sums."""
    number = np.empty((len(total), len(forest.classes)))
    forest.predicting(forest.label_link).predict(total, number)
    if forest.n_scores == 1:
        own = forest.precision.type(forest.label_threshold)  # in the precision of the probability
        return np.asarray(number[:, 1] > own, dtype=np.int64)
    return np.asarray(number.argmax(axis=1), dtype=np.int64)


def predicted_numbers(forest: PackedForest, total: NDArray[np.floating], out: Floats) -> None:
    """What the framework predicts from the sums of all scores, for each class or one number. Overwrites the sums."""
    forest.predicting(forest.compiled_link).predict(total, out)
    if forest.links_by_scipy:
        link = Link(forest.conventions.link, forest.conventions.slope)
        out[...] = link.predicted(out.astype(forest.precision))


def cut_of(forest: PackedForest) -> float:
    """For two classes: the mean score above which class 1 is predicted."""
    if forest.label_link == "identity":
        return forest.label_threshold
    return math.log(forest.threshold / (1.0 - forest.threshold)) / forest.conventions.slope


def lossless_on(forest: PackedForest) -> LabelsBySums:
    """Stops of a classifier that never change a label, whatever the remaining trees score.

    The first trees of gradient boosting add most, and the others can still reverse them until nearly the last. Looks
    would take longer than the few trees that they save, so no row stops. AdaBoost's trees vote, and soon are decided.
    """
    cut = cut_of(forest) if forest.n_scores == 1 else 0.0
    least, most = _extremes(forest)
    left_least, left_most = _left(least), _left(most)
    start = forest.start.astype(np.float64)
    slack = _slack(forest, np.maximum(np.abs(least), np.abs(most)), cut)
    may_stop = np.full(len(left_most), forest.is_forest or forest.conventions.divisor != 1.0)
    if forest.n_scores == 1:
        # If rounding can move a sum by any amount, no stop is safe at any cut. The cut can be infinite too.
        level = cut * forest.divisor if math.isfinite(slack) else 0.0
        low, high = level - left_most[:, 0] - slack, level - left_least[:, 0] + slack
        # The largest possible sums, to leave out checks at which no row can stop.
        reach = np.maximum(start + _used(most)[:, 0] - high, low - start - _used(least)[:, 0])
        may_stop &= reach >= 0.0
        return LabelsBySums.of(forest, may_stop, CHECK_EVERY, low, high, np.zeros(len(low)), np.zeros(1))
    needed = _largest_turn(forest, least, most) + slack
    lead = np.max(start) - np.min(start) + np.max(_used(most), axis=1) - np.min(_used(least), axis=1)
    no_drift = np.zeros(forest.n_scores)
    return LabelsBySums.of(forest, may_stop & (lead >= needed), CHECK_EVERY, needed, needed, needed, no_drift)


def _extremes(forest: PackedForest) -> tuple[Floats, Floats]:
    """The smallest and the largest leaf value of each tree, for each score; shape (n_trees, n_scores)."""
    value, start = forest.trees.value.astype(np.float64), forest.trees.tree_start[:-1]
    is_leaf = (forest.trees.nodes & RANK_MASK == HIGHEST_RANK)[:, None]
    least = np.minimum.reduceat(np.where(is_leaf, value, math.inf), start, axis=0)
    most = np.maximum.reduceat(np.where(is_leaf, value, -math.inf), start, axis=0)
    return least.reshape(forest.n_trees, -1), most.reshape(forest.n_trees, -1)


def _used(select: Floats) -> Floats:
    """Sums over the first 0, …, T trees."""
    return np.concatenate([np.zeros((1, select.shape[1])), np.cumsum(select, axis=0)])


def _left(select: Floats) -> Floats:
    """Sums over the trees after the first 0, …, T."""
    return _used(select[::-1])[::-1]


def _largest_turn(forest: PackedForest, least: Floats, most: Floats) -> Floats:
    """The most that the remaining trees can raise one class over another, after 0, …, T trees."""
    if forest.n_outputs == 1:
        # One leaf scores all classes, so only differences within a leaf count.
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


def _slack(forest: PackedForest, largest: Floats, cut: float) -> float:
    """The most that rounding can move a sum, including the rounding of the link."""
    slope, steepness = forest.conventions.slope, 1.0
    if forest.conventions.link == "logistic":
        with np.errstate(over="ignore"):  # next to a probability of 0 or 1 no stop is safe
            steepness = float((1.0 + np.exp(abs(slope * cut))) / slope)
    of_link = _OF_A_LINK * max(steepness, abs(cut), 1.0) * forest.divisor
    size = float(np.abs(forest.start).max()) + float(largest.sum(axis=0).max())
    return float(np.finfo(forest.trees.value.dtype).eps) * ((2.0 * forest.n_trees + 8.0) * size + of_link)
