"""Rules that go by the votes of trees: what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize.stopping.rules.base import Settling, Stops
from rfsize.stopping.terms import Terms
from rfsize.utils.typing import Int64s
from rfsize.walking.c_text import part
from rfsize.walking.layout import Forest


class VoteStops(Stops):
    """Stops on votes."""

    voting = "hard"
    metric = "labels"

    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        found = np.asarray(outputs)
        if found.ndim != 2 or found.shape[1] != terms.n_trees or found.dtype.kind not in "iub":
            raise ValueError(
                f"tree_votes must hold the class index of each tree, whole numbers of shape (n_rows, {terms.n_trees}); "
                f"found shape {found.shape}, dtype {found.dtype}"
            )
        if found.size and (found.min() < 0 or found.max() >= terms.n_classes):
            raise ValueError(
                f"tree_votes must hold class indices from 0 to {terms.n_classes - 1}; found {found.min()} to "
                f"{found.max()}"
            )
        return found

    def on(self, forest: Forest, every: int = 1) -> LabelsByVotes:
        """The rule on rows of a forest, which are looked at after ``every`` so many trees, and after the last."""
        return LabelsByVotes(self, forest, every)

    @abstractmethod
    def native(self, every: int) -> _core.VoteStop:
        """What the compiled loop takes, which looks after ``every`` so many trees, or after the last."""

    def answer_in_c(self, every: int) -> str:
        """The function ``answer`` in C, and the constants that it reads."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class LabelsByVotes(Settling):
    """Stops on votes, on rows of a forest.

    Attributes
    ----------
    stops : VoteStops
    forest : Forest
    every : int
        Rows are looked at after so many trees, and after the last.
    """

    stops: VoteStops
    forest: Forest
    every: int

    @cached_property
    def _native(self) -> _core.VoteStop:
        return self.stops.native(self.every)

    def settle(self, rows: _core.Rows, answer: Int64s, asked: Int64s) -> None:
        self._native.settle(rows, self.forest.alone, len(self.forest.classes), answer, asked)

    def label_in_c(self) -> str:
        tally = "int" if self.forest.n_trees < 1 << 15 else "long"
        return part("label_by_votes", every=self.every, tally=tally, answer=self.stops.answer_in_c(self.every))


def ask_in_turn(
    votes: NDArray[Any], weights: NDArray[Any], n_classes: int, settles: Callable[..., NDArray[np.bool_]]
) -> tuple[Int64s, Int64s]:
    """Labels of rows by the votes of their two leading classes, -1 where nothing settles a row, and the trees asked.

    Parameters
    ----------
    votes : ndarray of int, shape (n, T)
    weights : ndarray, shape (T,)
        Of the trees, in whose type votes are added up.
    n_classes : int
    settles : callable
        Whether so many trees settle rows, by whether their leader has the lower index than the runner-up, which is the
        lowest where classes tie, and by the votes of the two.
    """
    labels, asked = np.full((2, len(votes)), -1, dtype=np.int64)
    asked[:] = len(weights)
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
            labels[going[stop]], asked[going[stop]] = leader[stop], t
            going, tallies = going[~stop], tallies[~stop]
    return labels, asked
