"""Rules that count votes, all alike or with weights; and the loops and the C that count them on a compiled forest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.stopping.rules import CHECK_EVERY, MAX_TREES, Rule, described, first_settled, leads, outside
from rfsize.walking.c_text import array, part
from rfsize.walking.layout import PackedForest

MAX_WEIGHT = 1e300
"""The largest weight of a member, so that no sum of weights overflows."""


@dataclass(frozen=True, eq=False)
class VoteRule(Rule):
    """Stop by the votes so far; ties go to the lowest class index.

    Two classes have bounds. More classes stop where the remaining votes cannot change the label, and if one of the
    other arrays says so. After all T votes, every row stops.

    Attributes
    ----------
    low, high : ndarray of int32, shape (T + 1,), or None
        Two classes: after t trees, at most ``low[t]`` votes for class 1 give class 0, at least ``high[t]`` class 1.
        −1 ≤ low[t] < t/2 < high[t] ≤ t + 1, because only a class that leads is answered.
    margin : ndarray of int32, shape (T + 1,), or None
        More classes: the lead of the first class over the second that stops a row, at least 1.
    upper : ndarray of int32, shape (T + 1,), or None
        More classes: the votes of the first class that stop a row, by the votes for the first two classes together.
        s/2 < upper[s] ≤ s + 1, because only a leader is answered; s + 1 means that no row stops.
    bits : ndarray of uint8, or None
        More classes: one bit for each tally of up to T votes, in the order of `tally_order`.
    """

    voting = "hard"
    metric = "labels"

    low: NDArray[np.int32] | None = None
    high: NDArray[np.int32] | None = None
    margin: NDArray[np.int32] | None = None
    upper: NDArray[np.int32] | None = None
    bits: NDArray[np.uint8] | None = None

    @property
    def kind(self) -> str:
        return "leaders" if self.low is None else "binary"

    def labels(self, n_used: Any, votes: NDArray[Any], n_trees: int) -> Int64s:
        """The labels of tallies, shape (…, n_classes), after ``n_used`` of ``n_trees`` votes; -1 to go on."""
        if self.low is not None and self.high is not None:
            return outside(votes[..., 1], self.low[n_used], self.high[n_used])
        leader, lead, comes_first = leads(votes)
        stops = lead + comes_first > n_trees - n_used
        if self.margin is not None:
            stops |= lead >= self.margin[n_used]
        elif self.upper is not None:
            most = votes.max(axis=-1)
            stops |= most >= self.upper[2 * most - lead]
        elif self.bits is not None:
            choose, sums = tally_order(n_trees, votes.shape[-1]), np.cumsum(votes[..., :-1], axis=-1)
            number = choose[-1, n_used] + choose[np.arange(len(choose) - 1), sums].sum(axis=-1)
            stops |= (self.bits[number >> 3] >> (number & 7) & 1).astype(np.bool_)
        return np.where(stops, leader, -1)

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        n_trees = outputs.shape[1]
        return first_settled(self.labels(np.arange(1, n_trees + 1), tallies(outputs, n_classes), n_trees))

    def on(self, forest: PackedForest) -> LabelsByVotes:
        return LabelsByVotes(forest, self)

    def to_dict(self) -> dict[str, Any]:
        if self.bits is not None:
            return {"tallies": self.bits.tobytes().hex()}
        bounds = {"low": self.low, "high": self.high, "margin": self.margin}
        of_votes = {name: bound[1:].tolist() for name, bound in bounds.items() if bound is not None}
        return of_votes if self.upper is None else {"upper": self.upper.tolist()}


def tallies(votes: NDArray[Any], n_classes: int) -> NDArray[np.int32]:
    """The votes of the first 1, …, T trees for each class, shape (n, T, n_classes), from votes, shape (n, T)."""
    is_for = votes == np.arange(n_classes)[:, None, None]  # class by class, which adds up faster
    return np.moveaxis(np.cumsum(is_for, axis=2, dtype=np.int32), 0, -1)


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


def lossless_bounds(n_trees: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The earliest stops of two classes that never change a label, because the remaining votes cannot.

    Returns
    -------
    (ndarray of int32, ndarray of int32), each of shape (T + 1,)
        ``low`` and ``high`` as in `VoteRule`.

    Examples
    --------
    If the first three of five votes are for one class, the other class can no longer win:

    >>> from rfsize.stopping.votes import lossless_bounds
    >>> low, high = lossless_bounds(5)
    >>> low.tolist(), high.tolist()
    ([-1, -1, -1, 0, 1, 2], [1, 2, 3, 3, 3, 3])
    """
    n_used = np.arange(n_trees + 1)
    low = np.maximum(n_trees // 2 - n_trees + n_used, -1)
    high = np.minimum(n_trees // 2 + 1, n_used + 1)
    return low.astype(np.int32), high.astype(np.int32)


@dataclass(frozen=True, eq=False)
class LabelsByVotes:
    """A rule of votes on rows of one compiled forest.

    Attributes
    ----------
    forest : PackedForest
    rule : VoteRule
    every : int
        Number of trees between two checks of a row. There is always a check after the last tree.
    """

    forest: PackedForest
    rule: VoteRule
    every: int = 1

    @cached_property
    def native(self) -> _core.VoteStop:
        """The rule for the compiled loop."""
        rule, nothing = self.rule, np.zeros(0, dtype=np.int32)
        bounds = rule.low, rule.high, rule.margin, rule.upper
        low, high, margin, upper = (nothing if of is None else of for of in bounds)
        bits = np.zeros(0, dtype=np.uint8) if rule.bits is None else rule.bits
        return _core.VoteStop(self.forest.n_trees, len(self.forest.classes), self.every, low, high, margin, upper, bits)

    def label_in_c(self) -> str:
        """The C functions ``vote_of`` and ``label_of``."""
        forest, n_classes = self.forest, len(self.forest.classes)
        if forest.n_outputs == 1:
            vote = part("vote_of_leaf", n_classes=n_classes)
        else:
            # What turns leaf values into scores of a single tree: a factor, then a summand for each tree of a member.
            alone = np.append(forest.n_trees / forest.divisor, forest.start).astype(forest.precision)
            vote = part("vote_of_trees", n_classes=n_classes, alone=array("alone", alone))
        tally = "int" if forest.n_trees < 1 << 15 else "long"
        return vote + part("label_by_votes", every=self.every, tally=tally, answer=self._answer_in_c())

    def _answer_in_c(self) -> str:
        n_trees, rule = self.forest.n_trees, self.rule
        if rule.low is not None and rule.high is not None:
            looks = np.minimum(np.arange(0, n_trees + self.every, self.every), n_trees)
            return part("answer_by_bounds", low=array("low", rule.low[looks]), high=array("high", rule.high[looks]))
        table, stops = "", "0"
        if rule.margin is not None:
            table, stops = array("margin", rule.margin), "ahead >= margin[n_used]"
        elif rule.upper is not None:
            table, stops = array("upper", rule.upper), "votes[leader] >= upper[votes[leader] + votes[next]]"
        elif rule.bits is not None:
            choose = array("choose", tally_order(n_trees, len(self.forest.classes)).ravel(), "int32_t")
            table = part("in_a_table", stops=array("stops", rule.bits), choose=choose)
            stops = "is_in_table(n_used, votes)"
        return part("answer_by_leaders", table=table, stops=stops)


def majority_on(forest: PackedForest) -> LabelsByVotes:
    """Stops that never change the majority of all trees, on rows of a forest of classes."""
    bounds = lossless_bounds(forest.n_trees) if len(forest.classes) == 2 else ()
    return LabelsByVotes(forest, VoteRule(*bounds), CHECK_EVERY)


@dataclass(frozen=True, eq=False)
class WeightedVote(Rule):
    """Add up the heaviest members first, and stop when the remaining weight cannot change the label.

    The score of a class is the total weight of the members that vote for it, less w/(K − 1) for each member of weight w
    that votes for another, divided by all weight. The highest score wins, and a tie goes to the lowest class index.
    Scores are summed in the order of the model and in double precision, so that labels equal those of
    ``AdaBoostClassifier.predict`` even if its rounding decides. If all weights are equal, votes are counted.

    Attributes
    ----------
    weights : ndarray of float, shape (T,)
        Weight of each member, at least 0. Members of weight 0 are left out.
    """

    kind = "weighted"
    voting = "hard"
    metric = "labels"

    weights: Floats

    @cached_property
    def _order(self) -> Int64s:
        """The members of a weight above 0: by descending weight, then by index."""
        order = np.argsort(-self.weights, kind="stable").astype(np.int64)
        return order[: np.count_nonzero(self.weights)]

    @cached_property
    def _added(self) -> Floats:
        """What each member of `_order` adds to the class that it votes for: its weight, or 1 if all count alike."""
        weights = self.weights[self._order]
        return weights if np.ptp(weights) else np.ones_like(weights)

    def remaining(self, n_classes: int) -> Floats:
        """The weight that remains after 0, 1, … members, and the most that rounding can change a lead.

        Let n weights sum to W, and u be the unit roundoff. The sums of two classes in the order of the model err by
        less than (2n + 1)uW together. The division by W hides differences of at most 2uW. The tallies in order of
        weight and the remaining weight err by less than (n + 2)uW. Together that is (3n + 5)uW; (4n + 16)uW also covers
        the terms of higher order, and the smallest normal number covers underflow. Equal weights are counted, and
        multiples of 1/4096 that are not too large add up exactly.
        """
        left = np.append(np.cumsum(self._added[::-1])[::-1], 0.0)
        against = -1 / (n_classes - 1) * self.weights
        adds_exactly = left[0] <= 2.0**36 and not np.any(np.append(self.weights, against) * 4096.0 % 1.0)
        if adds_exactly or not np.ptp(self._added):
            return left
        double = np.finfo(np.float64)
        return np.asarray(left + ((2 * self.weights.size + 8) * double.eps * self.weights.sum() + double.tiny))

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        order, left = self._order, self.remaining(n_classes)[1:]
        is_for = outputs[:, order, None] == np.arange(n_classes)
        leader, lead, comes_first = leads(np.cumsum(np.where(is_for, self._added[:, None], 0.0), axis=1))
        labels, n_used = first_settled(np.where((lead > left) | ((lead == left) & comes_first), leader, -1))
        is_open = labels < 0
        labels[is_open] = self._labels_of_all(outputs[is_open], n_classes)
        return labels, n_used

    def on(self, forest: PackedForest) -> NoReturn:
        raise ValueError(
            "the table is for members with weights, and the trees of a forest count alike: make a table for this "
            "model, StopTable.calibrate(model, X)"
        )

    def _labels_of_all(self, votes: NDArray[Any], n_classes: int) -> Int64s:
        """Class with the highest score of all members, summed in the order of the model."""
        scores = np.zeros((len(votes), n_classes))
        for member, weight in enumerate(self.weights):
            scores += np.where(votes[:, member, None] == np.arange(n_classes), weight, -1 / (n_classes - 1) * weight)
        return (scores / self.weights.sum()).argmax(axis=1)

    def to_dict(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist()}


def checked_weights(weights: ArrayLike) -> Floats:
    """Check the weights of a vote, and return them as an array; ``ValueError`` if they are invalid."""
    given = np.asarray(weights)
    is_list = given.ndim == 1 and given.dtype.kind in "iuf" and 1 <= given.size <= MAX_TREES
    if not is_list or not ((given >= 0.0) & (given <= MAX_WEIGHT)).all() or not given.any():
        raise ValueError(
            f"weights must be 1 to {MAX_TREES} numbers from 0 to {MAX_WEIGHT:g}, not all 0, one for each member: found "
            f"{described(given)}. Leave out members that have no weight; of two classes, turn the votes of one with a "
            "negative weight round"
        )
    return given.astype(np.float64)
