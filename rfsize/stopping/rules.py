"""When rows stop: by an interval on the partial sum, or by their tally of votes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Floats, Int64s, whole
from rfsize.stopping.on_forest import LabelRule, LabelsBySums, LabelsByVotes, cut_of, tally_order
from rfsize.walking.layout import PackedForest

MAX_TREES = 10_001
"""The largest forest that a table can be built for."""

MAX_WEIGHT = 1e300
"""The largest weight of a member, so that no sum of weights overflows."""

_SAME_CUT = 1e-6  # two cuts this close count as equal
_CELLS_PER_BLOCK = 2_000_000  # votes or scores

# The labels of rows after t trees, -1 where a row goes on, from the sums of the trees so far, shape (n, n_sums).
Decide = Callable[[int, NDArray[Any]], Int64s]


class Rule(ABC):
    """When rows stop, and which answer they get.

    Attributes
    ----------
    kind : str
        Its name in files and in `repr`.
    voting : {"hard", "soft"}
        Whether it reads the votes of the trees ("hard") or their scores.
    metric : {"labels", "probabilities", "scores"}
        What a row gets as answer.
    adds_up : bool
        Whether it is for boosted trees, whose partial scores it reads, and not for trees that are independent draws.
    """

    voting: str
    metric: str
    adds_up: bool = False

    @property
    @abstractmethod
    def kind(self) -> str: ...

    @abstractmethod
    def on(self, forest: PackedForest) -> Any:
        """The rule on rows of a forest; ``ValueError`` if it does not fit."""

    @abstractmethod
    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """The answer of each row, and the number of trees until it stops.

        Parameters
        ----------
        outputs : ndarray, shape (n, T) of votes, (n, T, n_scores) of scores
            Outputs of all trees, in the order of the model. If `adds_up`: partial scores, those of the first 1, …, T
            trees together.
        n_classes : int
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Arrays and numbers as plain Python values."""


@dataclass(frozen=True, eq=False)
class IntervalRule(Rule):
    """Stop when the partial sum leaves an interval.

    The sum adds up what the trees say: votes (1 for the class of the vote, 0 for the others), or scores before the
    link. Of independent trees, the mean of the scores so far is taken; of boosted trees, their partial score. Votes for
    more than two classes also stop where the remaining votes cannot change the label.

    Attributes
    ----------
    voting : {"hard", "soft"}
        Whether votes or scores are added up.
    low, high : ndarray of int32, shape (T + 1,), or None
        Votes for two classes: after t trees, at most ``low[t]`` votes for class 1 give class 0, at least ``high[t]``
        give class 1. −1 ≤ low[t] < t/2 < high[t] ≤ t + 1, because only a class that leads is answered. All rows stop at
        t = T, where a tie goes to class 0.
    margin : ndarray, shape (T + 1,), or None
        The lead of the first class over the second that stops a row; ties go to the lowest index. For scores: ∞ before
        the first tree, 0 after the last, and never larger after one more tree. For votes: whole numbers, at least 1.
    cut : float or None
        With one score: the mean or partial score above which the label is class 1. The lead is the distance from it.
    adds_up : bool
        Whether the trees are boosted.
    every : int
        Of scores: number of trees between two looks at a row. There is always one after the last tree.
    """

    metric = "labels"

    voting: str
    low: NDArray[np.int32] | None = None
    high: NDArray[np.int32] | None = None
    margin: NDArray[Any] | None = None
    cut: float | None = None
    adds_up: bool = False
    every: int = 1

    @property
    def kind(self) -> str:
        if self.voting == "soft":
            return "sums" if self.adds_up else "averages"
        return "leaders" if self.low is None else "binary"

    def decide(self, n_trees: int, n_classes: int) -> Decide:
        """What labels rows get after t trees, from sums of scores or votes."""
        margin = np.zeros(0) if self.margin is None else self.margin  # votes for two classes have bounds of their own

        def by_score(t: int, sums: NDArray[Any]) -> Int64s:
            if t % self.every and t < n_trees:
                return np.full(len(sums), -1)
            score = sums if self.adds_up else sums / t
            if self.cut is not None:
                return _outside(score[:, 0], self.cut - margin[t], self.cut + margin[t])
            leader, lead, _ = leads(score)
            return np.where(lead >= margin[t], leader, -1)

        def by_count(t: int, votes: NDArray[Any]) -> Int64s:
            if self.low is not None and self.high is not None:
                return _outside(votes[:, 1], self.low[t], self.high[t])
            leader, lead, comes_first = leads(votes)
            return np.where((lead >= margin[t]) | (lead + comes_first > n_trees - t), leader, -1)

        return by_score if self.voting == "soft" else by_count

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        decide = self.decide(outputs.shape[1], n_classes)
        if self.voting == "soft":
            return sum_scores(outputs, decide, are_sums=self.adds_up)
        return sum_votes(outputs, np.ones(outputs.shape[1], dtype=np.int32), n_classes, decide)

    def on(self, forest: PackedForest) -> LabelRule:
        """The rule on rows of a forest; ``ValueError`` if the labels of the forest turn at another score."""
        if self.voting == "hard":
            return LabelsByVotes(forest, 1, self.low, self.high, self.margin)
        assert self.margin is not None
        scale = SumScale.of(forest, has_cut=self.cut is not None)
        share, origin = np.append(1.0, scale.share), scale.origin
        may_stop = np.arange(len(share)) >= self.every
        if self.cut is None or forest.n_scores > 1:
            needed = self.margin * share
            return LabelsBySums.of(forest, may_stop, self.every, needed, needed, needed, scale.drift)
        cut = cut_of(forest)
        if abs(self.cut - cut) > _SAME_CUT * max(1.0, abs(cut)):
            raise ValueError(
                f"the table stops at a score of {self.cut:g}, and the forest's labels turn at {cut:g}: make a "
                "table from this forest, StopTable.calibrate(model, X)"
            )
        low = origin + (self.cut - self.margin - origin) * share
        high = origin + (self.cut + self.margin - origin) * share
        return LabelsBySums.of(forest, may_stop, self.every, low, high, self.margin, scale.drift)

    def to_dict(self) -> dict[str, Any]:
        bounds = {"low": self.low, "high": self.high, "margin": self.margin}
        content: dict[str, Any] = {name: bound[1:].tolist() for name, bound in bounds.items() if bound is not None}
        of_scores = {"every": self.every} if self.voting == "soft" else {}
        return {**content, **of_scores, **({} if self.cut is None else {"cut": self.cut})}


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
    def _is_plain(self) -> bool:
        return bool(np.ptp(self.weights[self._order]) == 0.0)

    def remaining(self, n_classes: int) -> Floats:
        """The weight that remains after 0, 1, … members, and the most that rounding can change a lead.

        Let n weights sum to W, and u be the unit roundoff. The sums of two classes in the order of the model err by
        less than (2n + 1)uW together. The division by W hides differences of at most 2uW. The tallies in order of
        weight and the remaining weight err by less than (n + 2)uW. Together that is (3n + 5)uW; (4n + 16)uW also covers
        the terms of higher order, and the smallest normal number covers underflow. Equal weights are counted, and
        multiples of 1/4096 that are not too large add up exactly.
        """
        if self._is_plain:
            return np.arange(len(self._order), -1.0, -1.0)
        left = np.append(np.cumsum(self.weights[self._order][::-1])[::-1], 0.0)
        against = -1 / (n_classes - 1) * self.weights
        if left[0] <= 2.0**36 and not np.any(np.append(self.weights, against) * 4096.0 % 1.0):
            return left
        double = np.finfo(np.float64)
        return np.asarray(left + ((2 * self.weights.size + 8) * double.eps * self.weights.sum() + double.tiny))

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        order, left = self._order, self.remaining(n_classes)

        def decide(t: int, sums: NDArray[Any]) -> Int64s:
            leader, lead, comes_first = leads(sums)
            return np.where((lead > left[t]) | ((lead == left[t]) & comes_first), leader, -1)

        weights = np.ones(len(order)) if self._is_plain else self.weights[order]
        labels, n_used = sum_votes(outputs[:, order], weights, n_classes, decide)
        is_open = labels < 0
        labels[is_open] = self._labels_of_all(outputs[is_open], n_classes)
        return labels, n_used

    def on(self, forest: PackedForest) -> NoReturn:
        raise ValueError("the table is for members with weights, and the trees of a forest count alike")

    def _labels_of_all(self, votes: NDArray[Any], n_classes: int) -> Int64s:
        """Class with the highest score of all members, summed in the order of the model."""
        scores = np.zeros((len(votes), n_classes))
        for member, weight in enumerate(self.weights):
            scores += np.where(votes[:, member, None] == np.arange(n_classes), weight, -1 / (n_classes - 1) * weight)
        return (scores / self.weights.sum()).argmax(axis=1)

    def to_dict(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist()}


@dataclass(frozen=True, eq=False)
class TallyRule(Rule):
    """More than two classes: stop at tallies of votes that a prior marks, or where the remaining votes cannot decide.

    Attributes
    ----------
    upper : ndarray of int32, shape (T + 1,), or None
        By the votes for the two leading classes together: the votes of the first that stop a row. s/2 < upper[s] ≤
        s + 1, because only a leader is answered; s + 1 means that no row stops.
    bits : ndarray of uint8, or None
        One bit for each tally of up to T votes, in the order of `rfsize.stopping.on_forest.tally_order`.
    """

    kind = "leaders"
    voting = "hard"
    metric = "labels"

    upper: NDArray[np.int32] | None = None
    bits: NDArray[np.uint8] | None = None

    def decide(self, n_trees: int, n_classes: int) -> Decide:
        """What labels rows get after t trees, from votes."""
        choose = None if self.bits is None else tally_order(n_trees, n_classes)

        def decide(t: int, votes: NDArray[Any]) -> Int64s:
            leader, lead, comes_first = leads(votes)
            stops = lead + comes_first > n_trees - t
            if self.upper is not None:
                most = votes.max(axis=1)
                stops |= most >= self.upper[2 * most - lead]
            if self.bits is not None and choose is not None:
                sums = np.cumsum(votes[:, :-1], axis=1)
                number = choose[-1, t] + choose[np.arange(n_classes - 1), sums].sum(axis=1)
                stops |= (self.bits[number >> 3] >> (number & 7) & 1).astype(np.bool_)
            return np.where(stops, leader, -1)

        return decide

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        n_trees = outputs.shape[1]
        return sum_votes(outputs, np.ones(n_trees, dtype=np.int32), n_classes, self.decide(n_trees, n_classes))

    def on(self, forest: PackedForest) -> LabelsByVotes:
        """The rule on rows of a forest."""
        return LabelsByVotes(forest, upper=self.upper, bits=self.bits)

    def to_dict(self) -> dict[str, Any]:
        if self.bits is not None:
            return {"tallies": self.bits.tobytes().hex()}
        return {} if self.upper is None else {"upper": self.upper.tolist()}


def sum_votes(votes: NDArray[Any], weights: NDArray[Any], n_classes: int, decide: Decide) -> tuple[Int64s, Int64s]:
    """Labels, -1 if a row never stops, and trees until then, by the sums of the weights of the votes for each class."""

    def add(sums: NDArray[Any], rows: Int64s, tree: int) -> None:
        sums[np.arange(len(rows)), votes[rows, tree]] += weights[tree]

    return _in_turn(np.zeros((len(votes), n_classes), dtype=weights.dtype), len(weights), add, decide)


def sum_scores(scores: NDArray[Any], decide: Decide, *, are_sums: bool) -> tuple[Int64s, Int64s]:
    """The same by the sums of scores, shape (n, T, n_scores), or by scores that are sums already."""

    def add(sums: NDArray[Any], rows: Int64s, tree: int) -> None:
        sums[:] = scores[rows, tree] if are_sums else sums + scores[rows, tree]

    return _in_turn(np.zeros((len(scores), scores.shape[2])), scores.shape[1], add, decide)


def _in_turn(
    sums: NDArray[Any], n_trees: int, add: Callable[[NDArray[Any], Int64s, int], None], decide: Decide
) -> tuple[Int64s, Int64s]:
    labels, n_used = np.full((2, len(sums)), -1, dtype=np.int64)
    n_used[:] = n_trees
    going = np.arange(len(sums))
    for t in range(1, n_trees + 1):
        add(sums, going, t - 1)
        label = decide(t, sums)
        is_settled = label >= 0
        if is_settled.any():
            labels[going[is_settled]], n_used[going[is_settled]] = label[is_settled], t
            going, sums = going[~is_settled], sums[~is_settled]
    return labels, n_used


def leads(sums: NDArray[Any]) -> tuple[Int64s, NDArray[Any], NDArray[np.bool_]]:
    """The class with the largest sum, its lead over the next, and whether it comes before that. Ties: lowest index."""
    row, leader = np.arange(len(sums)), sums.argmax(axis=1)
    others = sums.copy()
    others[row, leader] = np.iinfo(sums.dtype).min if sums.dtype.kind == "i" else -np.inf
    following = others.argmax(axis=1)
    return leader, sums[row, leader] - sums[row, following], leader < following


def _outside(number: NDArray[Any], low: Any, high: Any) -> Int64s:
    """0 for numbers of at most ``low``, 1 for others of at least ``high``, -1 for those between."""
    return np.where(number <= low, 0, np.where(number >= high, 1, -1))


def in_blocks(rule: Rule, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
    """`Rule.answers`, block by block."""
    step = max(1, _CELLS_PER_BLOCK // max(int(np.prod(outputs.shape[1:])), n_classes))
    starts = range(0, max(1, len(outputs)), step)
    blocks = [rule.answers(outputs[start : start + step], n_classes) for start in starts]
    answers, n_used = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return answers, n_used


def checked_outputs(rule: Rule, outputs: ArrayLike, n_trees: int, n_classes: int) -> NDArray[Any]:
    """Check votes or scores of all trees; ``ValueError`` if they are not what the rule reads."""
    values = np.asarray(outputs)
    if rule.voting == "hard":
        if values.ndim != 2 or values.shape[1] != n_trees or values.dtype.kind not in "iub":
            raise ValueError(
                f"tree_votes must hold the class index of each tree, whole numbers of shape (n_rows, {n_trees}); "
                f"found shape {values.shape}, dtype {values.dtype}"
            )
        if values.size and (values.min() < 0 or values.max() >= n_classes):
            raise ValueError(
                f"tree_votes must hold class indices from 0 to {n_classes - 1}; found {values.min()} to {values.max()}"
            )
        return values.astype(np.int64) if values.dtype.kind == "b" else values
    if values.ndim == 2:
        values = values[:, :, None]
    n_scores = {1, 2} if n_classes == 2 else {n_classes}
    fits = values.ndim == 3 and values.shape[1] == n_trees and (values.shape[2] in n_scores or n_classes == 1)
    if not fits or values.dtype.kind not in "iuf":
        which = "the first 1, …, T trees together" if rule.adds_up else "each tree alone"
        raise ValueError(
            f"this table goes by scores: give those of {which}, before the link, numbers of shape (n_rows, {n_trees}, "
            f"{n_classes if n_classes > 2 else 1}); found shape {values.shape} of {values.dtype}"
        )
    if not np.isfinite(values).all():
        raise ValueError("the scores hold NaN or infinity: give finite scores")
    return values


def checked_trees(n_trees: int) -> int:
    """Check that a forest is not too large for a table."""
    try:
        return whole("n_trees", n_trees, at_least=1, at_most=MAX_TREES)
    except ValueError as error:
        raise ValueError(f"{error}; truncate a larger forest first (rfsize.truncate)") from None


def checked_weights(weights: ArrayLike) -> Floats:
    """Check the weights of a vote, and return them as an array; ``ValueError`` if they are invalid."""
    given = np.asarray(weights)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise ValueError(
            f"weights must be numbers, one per member: found shape {given.shape}, dtype {given.dtype}; give an array "
            "of shape (n_members,)"
        )
    if not 1 <= given.size <= MAX_TREES:
        raise ValueError(f"weights must be those of 1 to {MAX_TREES} members, found {given.size}")
    given = given.astype(np.float64)
    if not np.isfinite(given).all():
        raise ValueError("weights must be finite, found NaN or infinity; leave out members that have no weight")
    if (given < 0.0).any():
        raise ValueError(
            f"weights must be at least 0, found {given.min():g}: a member of negative weight votes against its own "
            "class; leave it out, or of two classes turn its votes and its sign round"
        )
    if not given.any():
        raise ValueError(
            "weights are all 0, so that there is no vote; for a plain majority use StopTable.build(n_trees, alpha=1)"
        )
    if given.max() > MAX_WEIGHT:
        raise ValueError(f"weights must be at most {MAX_WEIGHT:g}, found {given.max():g}; divide all of them by that")
    return given
