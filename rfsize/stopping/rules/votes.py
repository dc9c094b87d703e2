"""The shared part of the rules that read votes of trees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Int64s
from rfsize.stopping.rules.base import Settling, Stops
from rfsize.stopping.terms import Terms
from rfsize.walking.c_text import part
from rfsize.walking.layout import PackedForest


class VoteStops(Stops):
    """Stops on votes."""

    voting = "hard"
    metric = "labels"

    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        votes = np.asarray(outputs)
        if votes.ndim != 2 or votes.shape[1] != terms.n_trees or votes.dtype.kind not in "iub":
            raise ValueError(
                f"tree_votes must hold the class index of each tree, whole numbers of shape (n_rows, {terms.n_trees}); "
                f"found shape {votes.shape}, dtype {votes.dtype}"
            )
        if votes.size and (votes.min() < 0 or votes.max() >= terms.n_classes):
            raise ValueError(
                f"tree_votes must hold class indices from 0 to {terms.n_classes - 1}; found {votes.min()} to "
                f"{votes.max()}"
            )
        return votes

    def on(self, forest: PackedForest, every: int = 1) -> LabelsByVotes:
        """The rule on rows of a forest, checked after ``every`` trees and after the last tree."""
        return LabelsByVotes(self, forest, every)

    @abstractmethod
    def native(self, every: int) -> _core.VoteStop:
        """The rule for the compiled loop, which checks a row after ``every`` trees and after the last tree."""

    def answer_in_c(self, every: int) -> str:
        """The C function ``answer``, and its constants."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class LabelsByVotes(Settling):
    """Stops on votes, run on rows of a forest.

    Attributes
    ----------
    stops : VoteStops
    forest : PackedForest
    every : int
        Number of trees between two checks of a row. There is always a check after the last tree.
    """

    stops: VoteStops
    forest: PackedForest
    every: int

    @cached_property
    def _rule(self) -> _core.VoteStop:
        return self.stops.native(self.every)

    @property
    def native(self) -> _core.VoteStop | None:
        return self._rule

    def settle(self, rows: _core.Rows, answer: Int64s, n_used: Int64s) -> None:
        self._rule.settle(rows, self.forest.alone, len(self.forest.classes), answer, n_used)

    def label_in_c(self) -> str:
        tally = "int" if self.forest.n_trees < 1 << 15 else "long"
        return part("label_by_votes", every=self.every, tally=tally, answer=self.stops.answer_in_c(self.every))


def ask_in_turn(
    votes: NDArray[Any], weights: NDArray[Any], n_classes: int, settles: Callable[..., NDArray[np.bool_]]
) -> tuple[Int64s, Int64s]:
    """Labels by the votes for the two leading classes of each row, -1 if a row is never settled; and trees asked.

    Parameters
    ----------
    votes : ndarray of int, shape (n, T)
    weights : ndarray, shape (T,)
        Weights of the trees; votes are added up in their dtype.
    n_classes : int
    settles : callable
        Takes the number of trees asked, whether the leading class has a lower index than the second (a tie goes to the
        lowest index), and the votes of the two. Returns which rows are settled.
    """
    labels, n_used = np.full((2, len(votes)), -1, dtype=np.int64)
    n_used[:] = len(weights)
    going, tallies = np.arange(len(votes)), np.zeros((len(votes), n_classes), dtype=weights.dtype)
    for t, weight in enumerate(weights, start=1):
        row = np.arange(len(going))
        tallies[row, votes[going, t - 1]] += weight
        leader = tallies.argmax(axis=1)
        most = tallies[row, leader]
        tallies[row, leader] = -1
        rival = tallies.argmax(axis=1)
        next_most = tallies[row, rival]
        tallies[row, leader] = most
        stop = settles(t, leader < rival, most, next_most)
        if stop.any():
            labels[going[stop]], n_used[going[stop]] = leader[stop], t
            going, tallies = going[~stop], tallies[~stop]
    return labels, n_used
