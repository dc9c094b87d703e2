"""The kinds of stops that a `StopTable` holds: where voting ends, and which class is answered.

Each kind is a small record of arrays with two methods: `settle` answers a block of rows, from the votes of the trees or
from their scores, and `to_dict` gives the arrays as a stop table's file holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize.stopping.spread import SpreadStops
from rfsize.utils.typing import Floats, Int64s

Answers = tuple[Int64s, Int64s]


MAX_TREES = 10_001
"""The largest forest that a table can be built for."""

MAX_TERNARY = 201
"""The largest forest of three classes for which every state is kept; larger ones use the two leaders."""

ROUNDING = 1e-9
"""Relative rounding error of an expected disagreement, by which it may exceed its bound."""

MOST_WEIGHT = 1e300
"""The largest weight of a member, so that no sum of weights overflows."""


def ternary_index(asked: Any, n_0: Any, n_1: Any) -> Any:
    """Place of the state of ``asked`` votes, ``n_0`` for class 0 and ``n_1`` for class 1, in `TernaryStops.decision`.

    t(t + 1)(t + 2)/6 + n0(t + 1) − n0(n0 − 1)/2 + n1: layer by layer, then by n0, then by n1. Integers or arrays.
    """
    return asked * (asked + 1) * (asked + 2) // 6 + n_0 * (asked + 1) - n_0 * (n_0 - 1) // 2 + n_1


@dataclass(frozen=True, eq=False)
class BinaryStops:
    """Two classes: after t trees with n votes for class 1, stop with class 0 if n ≤ lower[t], 1 if n ≥ upper[t].

    Attributes
    ----------
    lower, upper : ndarray of int32, shape (T + 1,)
        −1 ≤ lower[t] < upper[t] ≤ t + 1. Nothing stops at t = 0 and everything at t = T, where a tie goes to
        class 0: lower[T] = ⌊T/2⌋, upper[T] = ⌊T/2⌋ + 1.
    """

    kind: ClassVar[str] = "binary"

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]

    def settle(self, tree_votes: NDArray[Any], n_classes: int) -> Answers:
        """Class answered and trees asked, for votes of shape (n, T)."""
        count = np.cumsum(tree_votes == 1, axis=1, dtype=np.int32)
        stop = (count <= self.lower[1:]) | (count >= self.upper[1:])
        asked = stop.argmax(axis=1) + 1
        labels = count[np.arange(len(count)), asked - 1] >= self.upper[asked]
        return labels.astype(np.int64), asked.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The arrays as plain lists."""
        return {"lower": self.lower.tolist(), "upper": self.upper.tolist()}


@dataclass(frozen=True, eq=False)
class TernaryStops:
    """Three classes: the decision in every state.

    Attributes
    ----------
    decision : ndarray of int8, shape ((T + 1)(T + 2)(T + 3)/6,)
        −1 to go on, else the class answered, at `ternary_index` (t, votes for class 0, votes for class 1).
    """

    kind: ClassVar[str] = "ternary"

    decision: NDArray[np.int8]

    def settle(self, tree_votes: NDArray[Any], n_classes: int) -> Answers:
        """Class answered and trees asked, for votes of shape (n, T)."""
        count_0 = np.cumsum(tree_votes == 0, axis=1, dtype=np.int64)
        count_1 = np.cumsum(tree_votes == 1, axis=1, dtype=np.int64)
        decided = self.decision[ternary_index(np.arange(1, count_0.shape[1] + 1), count_0, count_1)]
        asked = (decided >= 0).argmax(axis=1) + 1
        labels = decided[np.arange(len(decided)), asked - 1]
        return labels.astype(np.int64), asked.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The decisions as runs of equal ones: states of equal answers are neighbours."""
        starts = np.concatenate([[0], np.flatnonzero(np.diff(self.decision)) + 1])
        lengths = np.diff(np.append(starts, len(self.decision)))
        return {"runs": lengths.tolist(), "answers": self.decision[starts].tolist()}


@dataclass(frozen=True, eq=False)
class LeaderStops:
    """Any number of classes: stop by the votes of the two leading classes alone.

    Of the classes, let a have the most votes after t trees and b the second most, the lowest index where they
    tie. Voting stops with a if n_a ≥ upper[n_a + n_b], or if n_a − n_b, plus 1 where a < b, exceeds the T − t
    remaining votes: then no class can overtake a, nor tie with it and go first.

    Attributes
    ----------
    upper : ndarray of int32, shape (T + 1,)
        1 ≤ upper[s] ≤ s + 1; s + 1 is never reached.
    """

    kind: ClassVar[str] = "leaders"

    upper: NDArray[np.int32]

    def settle(self, tree_votes: NDArray[Any], n_classes: int) -> Answers:
        """Class answered and trees asked, for votes of shape (n, T)."""
        n_rows, n_trees = tree_votes.shape
        labels, asked = np.empty((2, n_rows), dtype=np.int64)
        going = np.arange(n_rows)
        counts = np.zeros((n_rows, n_classes), dtype=np.int32)
        for t in range(1, n_trees + 1):
            counts[np.arange(len(going)), tree_votes[going, t - 1]] += 1
            leader, rival, most, next_most = _two_leaders(counts)
            stop = most >= self.upper[most + next_most]
            stop |= most - next_most + (leader < rival) > n_trees - t
            if stop.any():
                labels[going[stop]], asked[going[stop]] = leader[stop], t
                going, counts = going[~stop], counts[~stop]
        return labels, asked

    def to_dict(self) -> dict[str, Any]:
        """The array as a plain list."""
        return {"upper": self.upper.tolist()}


@dataclass(frozen=True, eq=False)
class WeightedStops:
    """Members with weights, asked from the heaviest down: stop when the remaining weight cannot change the outcome.

    With all votes cast, a class scores the sum of the weights of the members that vote for it plus ``against`` times
    the weights of the others, over ``total``; the highest score wins, the lowest class index where scores are equal.
    The sum runs in the members' own order and in double precision, so that the labels are those of
    ``AdaBoostClassifier.predict`` even where its rounding decides.

    Attributes
    ----------
    weights : ndarray of float, shape (T,)
        By member, at least 0; members of weight 0 are never asked.
    against : float
        −1/(K − 1) in the boosting of K classes (SAMME, Zhu et al. 2009), 0 in a plain vote.
    total : float
        What the scores are divided by: the sum of the weights, as the model that they come from rounds it, or of more
        where the model keeps weights of members that it lost.
    """

    kind: ClassVar[str] = "weighted"

    weights: Floats
    against: float
    total: float

    @cached_property
    def order(self) -> Int64s:
        """Members as they are asked: by descending weight, then by index."""
        return np.argsort(-self.weights, kind="stable").astype(np.int64)

    @property
    def most_asked(self) -> int:
        """Members that have a weight."""
        return int(np.count_nonzero(self.weights))

    @cached_property
    def worth(self) -> Floats:
        """What a member's vote adds to the class voted for, and to each other class; shape (2, T)."""
        return np.stack([self.weights, self.against * self.weights])

    @cached_property
    def needed(self) -> Floats:
        """Lead over the runner-up that settles a row after 0, …, T members: the remaining weight and `slack`."""
        remaining = np.cumsum(self.weights[self.order][::-1])[::-1]
        return np.append(remaining, 0.0) + self.slack

    @cached_property
    def slack(self) -> float:
        """What rounding could take off a lead, at most.

        With n weights of sum W and unit roundoff u, the sums of two classes in the members' own order err by less than
        (2n + 1)uW together, their division by ``total`` levels differences of at most 2uW, and the tallies in order of
        weight and the remaining weight err by less than (n + 2)uW: (3n + 5)uW, taken as (4n + 16)uW to cover the terms
        of higher order, and the smallest normal number for what underflows. Weights that are multiples of 1/4096 and
        not too large add up exactly.
        """
        if self.total <= 2.0**36 and not np.any(self.worth * 4096.0 % 1.0):
            return 0.0
        double = np.finfo(np.float64)
        return float((2 * self.weights.size + 8) * double.eps * self.weights.sum() + double.tiny)

    def settle(self, tree_votes: NDArray[Any], n_classes: int) -> Answers:
        """Class answered and members asked, for votes of shape (n, T) in the members' own order."""
        labels, asked = np.full((2, len(tree_votes)), self.most_asked, dtype=np.int64)
        going = np.arange(len(tree_votes))
        tallies = np.zeros((len(tree_votes), n_classes))
        for t, member in enumerate(self.order[: self.most_asked], start=1):
            tallies[np.arange(len(going)), tree_votes[going, member]] += self.weights[member]
            leader, rival, most, next_most = _two_leaders(tallies)
            lead = most - next_most
            stop = (lead > self.needed[t]) | ((lead == self.needed[t]) & (leader < rival))
            if stop.any():
                labels[going[stop]], asked[going[stop]] = leader[stop], t
                going, tallies = going[~stop], tallies[~stop]
        labels[going] = self.winner(tree_votes[going], n_classes)
        return labels, asked

    def winner(self, tree_votes: NDArray[Any], n_classes: int) -> Int64s:
        """Class of the highest score of all members, summed in their own order."""
        scores = np.zeros((len(tree_votes), n_classes))
        for member, (worth, against) in enumerate(self.worth.T):
            scores += np.where(tree_votes[:, member, None] == np.arange(n_classes), worth, against)
        return (scores / self.total).argmax(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """The weights as a plain list, and the two numbers."""
        return {"weights": self.weights.tolist(), "against": self.against, "total": self.total}


@dataclass(frozen=True, eq=False)
class AverageStops:
    """Averaged scores: stop when the first class is far enough ahead in the mean of the trees asked.

    Scores are those of a tree alone, before the link. After t trees the lead is that of the largest mean score over the
    second, or of one score, which two classes may have, the distance of its mean from ``cut``. Voting stops when
    lead ≥ needed[t], with class 1 where the mean of the one score is above ``cut``, else the class of the largest mean,
    the lowest index where they tie.

    Attributes
    ----------
    needed : ndarray of float64, shape (T + 1,)
        Leads that stop: ∞ before the first tree, 0 after the last, and never more after another tree.
    cut : float
        Mean score above which class 1 is answered, of one score; not used of several.
    """

    kind: ClassVar[str] = "averages"

    needed: Floats
    cut: float

    def settle(self, tree_scores: NDArray[Any], n_classes: int) -> Answers:
        """Class answered and trees asked, for scores of shape (n, T, n_scores)."""
        lead, label = running_leads(tree_scores, self.cut)
        asked = (lead >= self.needed[1:]).argmax(axis=1) + 1
        return label[np.arange(len(label)), asked - 1].astype(np.int64), asked.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The leads after 1, …, T trees as a plain list, and the cut."""
        return {"needed": self.needed[1:].tolist(), "cut": self.cut}


def running_leads(tree_scores: NDArray[Any], cut: float) -> tuple[Floats, NDArray[np.int32]]:
    """Lead and first class in the mean of the first 1, …, T trees, for scores of shape (n, T, n_scores)."""
    lead = np.empty(tree_scores.shape[:2])
    label = np.empty(tree_scores.shape[:2], dtype=np.int32)
    _core.running_leads(np.ascontiguousarray(tree_scores, dtype=np.float64), cut, lead, label)
    return lead, label


def _two_leaders(tallies: NDArray[Any]) -> tuple[Int64s, Int64s, NDArray[Any], NDArray[Any]]:
    """The classes with the most and the second most votes, the lowest index where they tie, and these votes."""
    row = np.arange(len(tallies))
    leader = tallies.argmax(axis=1)
    most = tallies[row, leader]
    tallies[row, leader] = -1
    rival = tallies.argmax(axis=1)
    next_most = tallies[row, rival]
    tallies[row, leader] = most
    return leader, rival, most, next_most


VoteStops = BinaryStops | TernaryStops | LeaderStops | WeightedStops
Stops = VoteStops | AverageStops | SpreadStops


def checked_weights(weights: ArrayLike) -> Floats:
    """Weights of the members of a vote as an array; ``ValueError`` where they are none."""
    found = np.asarray(weights)
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise ValueError(
            f"weights must be numbers, one per member: found shape {found.shape}, dtype {found.dtype}; give an array "
            "of shape (n_members,)"
        )
    if not 1 <= found.size <= MAX_TREES:
        raise ValueError(f"weights must be those of 1 to {MAX_TREES} members, found {found.size}")
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError("weights must be finite, found NaN or infinity; leave out members that have no weight")
    if (found < 0.0).any():
        raise ValueError(
            f"weights must be at least 0, found {found.min():g}: a member of negative weight votes against its own "
            "class; leave it out, or of two classes turn its votes and its sign round"
        )
    if not found.any():
        raise ValueError(
            "weights are all 0, so that there is no vote; for a plain majority use StopTable.build(n_trees, alpha=1)"
        )
    if found.max() > MOST_WEIGHT:
        raise ValueError(f"weights must be at most {MOST_WEIGHT:g}, found {found.max():g}; divide all of them by that")
    return found
