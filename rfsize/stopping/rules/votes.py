"""Rules that go by the votes of trees: what they share, and how they are certified on rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.stopping.calibration import TreesOnRows, one_in
from rfsize.stopping.certificate import Certificate, ClassCounts, Wanted
from rfsize.stopping.rules.base import Stops
from rfsize.utils.typing import Int64s

# Nominal disagreements that are tried, relative to 1 − α: four for each doubling.
_NOMINAL = 2.0 ** np.arange(-6.0, 6.75, 0.25)

# Votes that are held: of more rows × trees, evenly spaced rows.
_VOTES_HELD = 1 << 28
_BLOCK = 2_000_000

LEADERS_IN_C = """
/* The classes with the most and the second most votes, the lowest where they tie. */
static void two_leaders(const tally *votes, int *leader, int *rival)
{
    *leader = 0;
    for (int k = 1; k < CLASSES; k++)
        if (votes[k] > votes[*leader]) *leader = k;
    *rival = *leader == 0;
    for (int k = *rival + 1; k < CLASSES; k++)
        if (k != *leader && votes[k] > votes[*rival]) *rival = k;
}
"""

ANSWER_IN_C = """
/* The class that a row is answered with after so many votes, -1 where it asks on. */
static int answer(int asked, const tally *votes)
{
%s}
"""

_COUNT_IN_C = """
static int label_of(const level *q, int *asked)
{
    tally votes[CLASSES] = {0};
    for (*asked = 1; ; ++*asked) {
        votes[vote_of(q, *asked - 1)]++;
        if (*asked % EVERY == 0 || *asked == TREES) {
            const int label = answer(*asked, votes);
            if (label >= 0 || *asked == TREES) return label;
        }
    }
}
"""


class VoteStops(Stops):
    """Stops on votes."""

    voting = "hard"
    metric = "labels"

    @abstractmethod
    def native(self, every: int) -> _core.VoteStop:
        """What the compiled loop takes, which looks after ``every`` so many trees, or after the last."""

    def label_in_c(self, n_trees: int, n_classes: int, every: int) -> str:
        """The function ``label_of`` in C, by what ``vote_of`` gives."""
        head = f"enum {{ EVERY = {every} }};\ntypedef {'int' if n_trees < 1 << 15 else 'long'} tally;\n"
        return head + self.answer_in_c(every) + _COUNT_IN_C

    def answer_in_c(self, every: int) -> str:
        """The function ``answer`` in C, and the constants that it reads."""
        raise NotImplementedError


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


@dataclass(frozen=True, eq=False)
class VotesOnRows:
    """The vote of each tree on rows, and the majority of all.

    Attributes
    ----------
    votes : ndarray of unsigned int, shape (n, T)
    winner : ndarray of int64, shape (n,)
    n_classes : int
    """

    votes: NDArray[Any]
    winner: Int64s
    n_classes: int

    @classmethod
    def of(cls, trees: TreesOnRows) -> VotesOnRows:
        """Of a forest; of very many rows, of some from the first to the last."""
        n_rows, n_trees, n_classes = trees.rows.n_rows, trees.adapter.n_trees, trees.adapter.classes.size
        every = 1 + n_rows * n_trees // _VOTES_HELD
        read = partial(_some_votes, every=every, dtype=np.min_scalar_type(n_classes - 1))
        votes = np.concatenate(trees.added_up("votes", read, list))
        step = max(1, _BLOCK // max(n_trees, n_classes))
        blocks = [votes[start : start + step] for start in range(0, max(len(votes), 1), step)]
        return cls(votes, np.concatenate([_majority(block, n_classes) for block in blocks]), n_classes)

    def parts(self, every: int) -> tuple[VotesOnRows, VotesOnRows]:
        """One row in so many, and the others."""
        one = np.arange(len(self.votes)) % every == 0
        first, others = (VotesOnRows(self.votes[some], self.winner[some], self.n_classes) for some in (one, ~one))
        return first, others

    def counts(self) -> NDArray[np.int64]:
        """Votes for each class, shape (n, n_classes)."""
        return np.stack([(self.votes == index).sum(axis=1) for index in range(self.n_classes)], axis=1)

    def outcome(self, stops: VoteStops) -> ClassCounts:
        """What stops do on these rows."""
        labels, asked = stops.settled(self.votes, self.n_classes)
        return ClassCounts.of(self.winner, labels != self.winner, asked, self.n_classes)

    def certified(
        self, wanted: Wanted, labels: Sequence[Any], build: Callable[[float], VoteStops]
    ) -> tuple[float, VoteStops, Certificate]:
        """The boldest stops that are certified, of a sequence of nominal α, and the nominal α.

        The first are lossless, and right about every row; each is built only if those before have passed.
        """
        sizes = np.bincount(self.winner, minlength=self.n_classes).astype(np.int64)
        wanted.check_rows(sizes, labels)
        nominal = [alpha for alpha in 1.0 - (1.0 - wanted.alpha) * _NOMINAL if alpha > 0.0]
        best, stops = 1.0, build(1.0)
        counts = self.outcome(stops)
        for alpha in nominal:
            bolder = build(float(alpha))
            found = self.outcome(bolder)
            if wanted.boldest(np.array(found.disagreements)[:, None], sizes) < 0:
                break
            best, stops, counts = float(alpha), bolder, found
        return best, stops, wanted.certificate(counts)


def _some_votes(votes: NDArray[Any], place: Int64s, *, every: int, dtype: np.dtype[Any]) -> list[NDArray[Any]]:
    """The votes on one row in so many, in few bytes."""
    return [votes[one_in(every, place)].astype(dtype)]


def _majority(votes: NDArray[Any], n_classes: int) -> Int64s:
    """Class with the most votes, the lowest index where they tie."""
    place = np.arange(len(votes))[:, None] * n_classes + votes
    counts = np.bincount(place.ravel(), minlength=len(votes) * n_classes)
    return counts.reshape(len(votes), n_classes).argmax(axis=1)
