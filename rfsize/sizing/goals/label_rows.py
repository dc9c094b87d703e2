"""Rows by the votes or the scores of trees, from which agreement of labels is estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.evidence import Evidence
from rfsize.estimation import hard, soft
from rfsize.estimation.base import Estimate
from rfsize.utils.typing import Int64s
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes


@dataclass(frozen=True, eq=False)
class VotedRows:
    """Rows by their votes."""

    votes: Votes
    estimated_by: Callable[[Votes], Estimate]

    at_least = 1
    """Trees that must have been asked about a row."""

    @property
    def asked(self) -> NDArray[np.int32]:
        """Trees asked, shape (n_rows,)."""
        return self.votes.asked

    @property
    def n_classes(self) -> int:
        """Classes, of which any may lead."""
        return len(self.votes.classes)

    def estimate(self, rows: NDArray[np.bool_] | slice) -> Estimate:
        """The estimate of some of the rows."""
        return self.estimated_by(self.votes.take(rows))

    def leaders(self) -> Int64s:
        """Index of the class that leads on each row, shape (n_rows,)."""
        return _most_voted(self.votes.counts)

    def leaders_of(self, blocks: TreeBlocks) -> Int64s:
        """The same of the rows of blocks."""
        return _most_voted(blocks.counts)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The same by their scores, those of two classes over a cut, and what blocks of trees say of some of the rows."""

    scores: Scores
    cut: float
    estimated_by: Callable[[Scores, float, TreeBlocks | None], Estimate]
    number: Int64s
    blocks: TreeBlocks | None

    at_least = 2

    @property
    def asked(self) -> NDArray[np.int32]:
        return self.scores.asked

    @property
    def n_classes(self) -> int:
        return max(2, self.scores.n_scores)

    def estimate(self, rows: NDArray[np.bool_] | slice) -> Estimate:
        # Halves of the trees tell the bias of several scores; one has none.
        blocks = self.blocks if self.scores.n_scores > 1 else None
        if blocks is not None:
            blocks = blocks.where(np.isin(blocks.rows, self.number[rows]))
        return self.estimated_by(self.scores.take(rows), self.cut, blocks)

    def leaders(self) -> Int64s:
        return self._highest(self.scores)

    def leaders_of(self, blocks: TreeBlocks) -> Int64s:
        return self._highest(blocks.scores)

    def _highest(self, scores: Scores) -> Int64s:
        if scores.n_scores == 1:
            return (scores.mean[:, 0] > self.cut).astype(np.int64)
        return scores.leading()


def _most_voted(counts: NDArray[np.int32]) -> Int64s:
    """Index of the class with the most votes; classes that are tied take turns, so that none of them is favoured."""
    leader = counts.argmax(axis=1).astype(np.int64)
    first = counts == counts.max(axis=1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(first, axis=1) > 1)
    tied = tied[np.lexsort(counts[tied].T)]  # whatever the order of the rows
    place = np.cumsum(first[tied], axis=1)
    turn = 1 + np.arange(len(tied)) % place[:, -1]
    leader[tied] = (place >= turn[:, None]).argmax(axis=1)
    return leader


LabelRows = VotedRows | ScoredRows
"""Rows that a forest is sized by, and what its trees say of them."""


def label_rows(outputs: Evidence, voting: str, method: str) -> LabelRows:
    """The rows by a rule of voting, with the method by which agreement is estimated from them.

    Raises
    ------
    ValueError
        If averaged scores are asked for where there are none.
    """
    if voting == "hard":
        return VotedRows(outputs.votes, hard.ESTIMATORS[method])
    if outputs.scores is None:
        raise ValueError(
            "voting='soft' averages the trees' scores, and counted Votes do not tell them: give rfsize.size the model "
            "and its rows, or take voting='hard'"
        )
    number = np.arange(outputs.n_rows)[outputs.scored]
    return ScoredRows(outputs.scores, outputs.cut, soft.ESTIMATORS[method], number, outputs.blocks)
