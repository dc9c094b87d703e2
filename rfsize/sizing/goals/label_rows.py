"""Rows with the trees' votes or scores, from which the agreement of labels is estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Int64s
from rfsize.counting.outputs import TreeOutputs, predictor_of, sums_of
from rfsize.counting.part_sums import Blocks, Scores, leading
from rfsize.counting.votes import Votes
from rfsize.estimation import hard, soft
from rfsize.estimation.base import Estimate


@dataclass(frozen=True, eq=False)
class VotedRows:
    """Rows with the trees' votes."""

    votes: Votes
    estimated_by: Callable[[Votes], Estimate]

    at_least = 1
    """The fewest trees that must have predicted a row."""

    @property
    def asked(self) -> NDArray[np.int32]:
        """Number of trees that predicted each row, shape (n_rows,)."""
        return self.votes.asked

    @property
    def n_classes(self) -> int:
        """Number of classes that can lead."""
        return len(self.votes.classes)

    def estimate(self, rows: NDArray[np.bool_] | slice) -> Estimate:
        """The estimate of agreement on some of the rows."""
        return self.estimated_by(self.votes.take(rows))

    def leaders(self) -> Int64s:
        """Index of the class that leads on each row, shape (n_rows,)."""
        return _most_voted(self.votes.counts)

    def leaders_of(self, blocks: Blocks) -> Int64s:
        """Index of the class that leads on each row of the blocks."""
        return _most_voted(blocks.counts)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with the trees' scores (of two classes, relative to the threshold), and blocks of trees on some rows."""

    scores: Scores
    cut: float
    estimated_by: Callable[[Scores, float, Blocks | None], Estimate]
    blocks: Blocks | None

    at_least = 2

    @property
    def asked(self) -> NDArray[np.int32]:
        return self.scores.asked

    @property
    def n_classes(self) -> int:
        return max(2, self.scores.n_scores)

    def estimate(self, rows: NDArray[np.bool_] | slice) -> Estimate:
        blocks = self.blocks
        if blocks is not None:
            blocks = blocks.where(np.isin(blocks.rows, self.scores.number[rows]))
        return self.estimated_by(self.scores.take(rows), self.cut, blocks)

    def leaders(self) -> Int64s:
        return leading(self.scores.mean, self.cut)

    def leaders_of(self, blocks: Blocks) -> Int64s:
        return leading(blocks.scores.mean, self.cut)


def _most_voted(counts: NDArray[np.int32]) -> Int64s:
    """Index of the class with the most votes; tied classes take turns, so that no class is favoured."""
    leader = counts.argmax(axis=1).astype(np.int64)
    first = counts == counts.max(axis=1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(first, axis=1) > 1)
    tied = tied[np.lexsort(counts[tied].T)]  # whatever the order of the rows
    place = np.cumsum(first[tied], axis=1)
    turn = 1 + np.arange(len(tied)) % place[:, -1]
    leader[tied] = (place >= turn[:, None]).argmax(axis=1)
    return leader


LabelRows = VotedRows | ScoredRows
"""Rows that a forest is sized by, with the trees' votes or scores."""


def label_rows(outputs: TreeOutputs, voting: str, method: str) -> LabelRows:
    """The rows for a voting rule, with the method that estimates agreement from them.

    Raises
    ------
    ValueError
        If the rule is averaged scores, and the outputs have no scores.
    """
    if voting == "hard":
        return VotedRows(outputs.votes, hard.ESTIMATORS[method])
    if outputs.scores is None:
        raise ValueError(
            "voting='soft' averages the trees' scores, and counted Votes have none: give rfsize.size the model "
            "and its rows, or take voting='hard'"
        )
    cut = predictor_of(outputs).raw_threshold
    return ScoredRows(outputs.scores, cut, soft.ESTIMATORS[method], sums_of(outputs).blocks)
