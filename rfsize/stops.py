"""The three kinds of stops that a `StopTable` holds: where voting ends, and which class is answered.

Each kind is a small record of arrays with one method, `settle`, which votes on a block of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Answers = tuple[Int64s, Int64s]


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
            row = np.arange(len(going))
            counts[row, tree_votes[going, t - 1]] += 1
            leader = counts.argmax(axis=1)
            most = counts[row, leader]
            counts[row, leader] = -1
            rival = counts.argmax(axis=1)
            next_most = counts[row, rival]
            counts[row, leader] = most
            stop = most >= self.upper[most + next_most]
            stop |= most - next_most + (leader < rival) > n_trees - t
            if stop.any():
                labels[going[stop]], asked[going[stop]] = leader[stop], t
                going, counts = going[~stop], counts[~stop]
        return labels, asked


Stops = BinaryStops | TernaryStops | LeaderStops
