"""The rule that compares scores with bounds, and what it compares on a compiled forest: for the loops and for C."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.stopping.rules import CHECK_EVERY, Rule, first_settled, leads, outside
from rfsize.walking.c_text import array, part, real
from rfsize.walking.layout import HIGHEST_RANK, RANK_MASK, PackedForest

_SAME_CUT = 1e-6  # two cuts this close count as equal

# The largest rounding error of a link, in units of the precision of a score.
_OF_A_LINK = 16.0


@dataclass(frozen=True, eq=False)
class IntervalRule(Rule):
    """Stop when the score so far leaves an interval.

    Of independent trees, that is the mean of the scores so far, before the link; of boosted trees, their partial score.

    Attributes
    ----------
    margin : ndarray of float64, shape (T + 1,)
        The lead of the first class over the second that stops a row; ties go to the lowest index. ∞ before the first
        tree, 0 after the last, and never larger after one more tree.
    cut : float or None
        With one score: the mean or partial score above which the label is class 1. The lead is the distance from it.
    adds_up : bool
        Whether the trees are boosted.
    every : int
        Number of trees between two looks at a row. There is always one after the last tree.
    """

    voting = "soft"
    metric = "labels"

    margin: Floats
    cut: float | None = None
    adds_up: bool = False
    every: int = 1

    @property
    def kind(self) -> str:
        return "sums" if self.adds_up else "averages"

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        n_used, margin = np.arange(1, outputs.shape[1] + 1), self.margin[1:]
        score = outputs.astype(np.float64)
        if (self.cut is None) != (score.shape[2] > 1):
            raise ValueError(
                f"the table goes by {'the scores of both classes' if self.cut is None else 'one score of a row'}, and "
                f"there are {score.shape[2]}: give the scores as the model adds them up"
            )
        if not self.adds_up:
            score = np.cumsum(score, axis=1) / n_used[:, None]
        if self.cut is not None:
            label = outside(score[..., 0], self.cut - margin, self.cut + margin)
        else:
            leader, lead, _ = leads(score)
            label = np.where(lead >= margin, leader, -1)
        label[:, (n_used % self.every > 0) & (n_used < len(n_used))] = -1
        return first_settled(label)

    def on(self, forest: PackedForest) -> LabelsBySums:
        """The rule on rows of a forest; ``ValueError`` if the labels of the forest turn at another score."""
        scale = SumScale.of(forest, has_cut=self.cut is not None)
        share, origin = np.append(1.0, scale.share), scale.origin
        low = high = self.margin * share
        if self.cut is not None and forest.n_scores == 1:
            cut = cut_of(forest)
            if abs(self.cut - cut) > _SAME_CUT * max(1.0, abs(cut)):
                raise ValueError(
                    f"the table stops at a score of {self.cut:g}, and the forest's labels turn at {cut:g}: make a "
                    "table from this forest, StopTable.calibrate(model, X)"
                )
            low, high = (origin + (self.cut + away - origin) * share for away in (-self.margin, self.margin))
        return LabelsBySums(forest, min(self.every, forest.n_trees), self.every, low, high, scale.drift)

    def to_dict(self) -> dict[str, Any]:
        content = {"margin": self.margin[1:].tolist(), "every": self.every}
        return content if self.cut is None else {**content, "cut": self.cut}


@dataclass(frozen=True, eq=False)
class SumScale:
    """Turns bounds on the score of the first t trees into bounds on the sum that is added up.

    Attributes
    ----------
    share : ndarray of float64, shape (T,)
        After 1, …, T trees: the factor of a score, or of a margin; see `PackedForest.shares`.
    origin : float
        With one score: the start of the sums, which counts in full before the first tree. A bound b on the score is
        origin + (b − origin) · share on the sum.
    drift : ndarray of float64, shape (n_scores,)
        With several scores: the part of the start that counts in proportion to the trees so far.
    """

    share: Floats
    origin: float
    drift: Floats

    @classmethod
    def of(cls, forest: PackedForest, *, has_cut: bool) -> SumScale:
        """The scale of the sums of a forest; ``has_cut`` if margins are distances of one score from a cut."""
        start, share = forest.start.astype(np.float64), forest.shares * forest.divisor
        if forest.n_scores == 1:
            return cls(share, float(start[0]), start)
        # Two shares that sum to 1 are twice as far from each other as one of them from one half.
        return cls(share * (2.0 if has_cut else 1.0), 0.0, start if forest.is_forest else np.zeros_like(start))


@dataclass(frozen=True, eq=False)
class LabelsBySums:
    """The bounds that the sums of scores of one compiled forest are compared with.

    Attributes
    ----------
    forest : PackedForest
    first_look, every : int
        Rows may stop after ``first_look`` trees, and then after every ``every`` more.
    low, high : ndarray of float64, shape (T + 1,)
        With one score: after t trees, a sum of at most ``low[t]`` gives class 0, a sum of at least ``high[t]`` class 1.
        With several scores, both are the lead of the first class over the second that settles a row.
    drift : ndarray of float64, shape (n_scores,)
        With several scores: subtracted from the sums before the comparison, times the share of trees not yet used.
    """

    forest: PackedForest
    first_look: int
    every: int
    low: Floats
    high: Floats
    drift: Floats

    @cached_property
    def native(self) -> _core.ScoreStop:
        """The rule for the compiled loop."""
        return _core.ScoreStop(self.first_look, self.every, self.low, self.high, self.drift)

    def label_in_c(self) -> str:
        """The C function ``label_of``."""
        # If probabilities cannot change the label after the last tree, they are not computed.
        forest, last, n_trees = self.forest, lossless_on(self.forest), self.forest.n_trees
        looks = np.arange(self.first_look, n_trees, self.every)
        low, high = (np.append(*ends) for ends in ((self.low[looks], last.low[-1]), (self.high[looks], last.high[-1])))
        looked = {"first_look": self.first_look, "every": self.every, "of_sums": forest.conventions.labels_of_scores}
        if forest.n_scores == 1:
            threshold = real(forest.label_threshold, single=forest.precision == np.float32)
            bounds = {"low": array("low", low), "high": array("high", high), "threshold": threshold}
            return part("label_by_one_score", **looked, **bounds) + part("ask_by_scores")
        drift = part("drift", drift=array("drift", self.drift)) if self.drift.any() else part("no_drift")
        return part("label_by_scores", **looked, needed=array("needed", high), drift=drift) + part("ask_by_scores")


def predicted_labels(forest: PackedForest, total: NDArray[np.floating]) -> Int64s:
    """Index of the class that the framework predicts from the sums of all scores. Overwrites the sums."""
    number = np.empty((len(total), len(forest.classes)))
    forest.predicting(forest.label_link).predict(total, number)
    if forest.n_scores == 1:
        # The threshold in the precision of the probability.
        return np.asarray(number[:, 1] > forest.precision.type(forest.label_threshold), dtype=np.int64)
    return np.asarray(number.argmax(axis=1), dtype=np.int64)


def predicted_numbers(forest: PackedForest, total: NDArray[np.floating], out: Floats) -> None:
    """What the framework predicts from the sums of all scores, for each class or one number. Overwrites the sums."""
    forest.predicting(forest.compiled_link).predict(total, out)
    if forest.link_by_scipy:
        out[...] = forest.link_by_scipy.predicted(out.astype(forest.precision))


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
    start = forest.start.astype(np.float64)
    slack = _slack(forest, np.maximum(np.abs(least), np.abs(most)), cut)
    if forest.n_scores == 1:
        # If rounding can move a sum by any amount, no stop is safe at any cut. The cut can be infinite too.
        level = cut * forest.divisor if math.isfinite(slack) else 0.0
        low, high = level - _left(most)[:, 0] - slack, level - _left(least)[:, 0] + slack
        # The largest possible sums, to leave out checks at which no row can stop.
        may_stop = np.maximum(start + _used(most)[:, 0] - high, low - start - _used(least)[:, 0]) >= 0.0
    else:
        low = high = _largest_turn(forest, least, most) + slack
        lead = np.max(start) - np.min(start) + np.max(_used(most), axis=1) - np.min(_used(least), axis=1)
        may_stop = lead >= high
    may_stop &= forest.is_forest or forest.conventions.divisor != 1.0
    first_look = max(int(np.argmax(may_stop)), 1) if may_stop.any() else forest.n_trees
    return LabelsBySums(forest, first_look, CHECK_EVERY, low, high, np.zeros(forest.n_scores))


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
    (highest, next_highest), (lowest, next_lowest) = -np.sort(-gain, axis=1)[:, :2].T, np.sort(loss, axis=1)[:, :2].T
    of_one_class = gain.argmax(axis=1) == loss.argmin(axis=1)
    return np.where(of_one_class, np.maximum(highest - next_lowest, next_highest - lowest), highest - lowest)


def _slack(forest: PackedForest, largest: Floats, cut: float) -> float:
    """The most that rounding can move a sum, including the rounding of the link."""
    slope, steepness = forest.conventions.slope, 1.0
    if forest.conventions.link == "logistic":
        with np.errstate(over="ignore"):  # next to a probability of 0 or 1 no stop is safe
            steepness = float((1.0 + np.exp(abs(slope * cut))) / slope)
    of_link = _OF_A_LINK * max(steepness, abs(cut), 1.0) * forest.divisor
    size = float(np.abs(forest.start).max()) + float(largest.sum(axis=0).max())
    return float(np.finfo(forest.trees.value.dtype).eps) * ((2.0 * forest.n_trees + 8.0) * size + of_link)
