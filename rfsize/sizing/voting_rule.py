"""VotingRule: what is estimated by one rule of voting, and the rows that it is from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.representative import too_many_untold
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.estimation import hard, soft
from rfsize.estimation.base import Curves, Estimate
from rfsize.estimation.strata import ByClass, by_class, by_group_sizes, of_group_sizes, within_classes
from rfsize.sizing.goal import LabelGoal
from rfsize.utils.typing import Int64s
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes


class _Rows(ABC):
    """Rows that a forest is sized by, and what its trees say of them."""

    at_least: int
    """Trees that must have been asked about a row."""

    @property
    @abstractmethod
    def asked(self) -> NDArray[np.int32]:
        """Trees asked, shape (n_rows,)."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Classes, of which any may lead."""

    @abstractmethod
    def estimate(self, rows: NDArray[np.bool_] | slice) -> Estimate:
        """The estimate of some of the rows."""

    @abstractmethod
    def leaders(self) -> Int64s:
        """Index of the class that leads on each row, shape (n_rows,)."""

    @abstractmethod
    def leaders_of(self, blocks: TreeBlocks) -> Int64s:
        """The same of the rows of blocks."""


@dataclass(frozen=True, eq=False)
class VotedRows(_Rows):
    """Rows by their votes."""

    votes: Votes
    estimated_by: Callable[[Votes], Estimate]

    at_least = 1

    @property
    def asked(self) -> NDArray[np.int32]:
        return self.votes.asked

    @property
    def n_classes(self) -> int:
        return len(self.votes.classes)

    def estimate(self, rows: NDArray[np.bool_] | slice) -> Estimate:
        return self.estimated_by(self.votes.take(rows))

    def leaders(self) -> Int64s:
        return _most_voted(self.votes.counts)

    def leaders_of(self, blocks: TreeBlocks) -> Int64s:
        return _most_voted(blocks.counts)


@dataclass(frozen=True, eq=False)
class ScoredRows(_Rows):
    """Rows by their scores, those of two classes over a cut, and what blocks of trees say of some of them."""

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
        blocks = self.blocks
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


@dataclass(frozen=True, eq=False)
class VotingRule:
    """The estimates by one rule of voting, and the rows that they are from, as a report has them.

    Rows that belong together may have no votes left, and are not like the others: unless they are few, ``untold`` says
    that T* is not known.

    The mean over the classes is estimated once it is asked for, and so is that over the rows. A pickle has both, and
    not what the trees say of the rows.
    """

    n_rows: int
    n_dropped: int
    votes_per_row: float
    untold: bool
    _rows: _Rows | None
    _strata: Int64s | None
    _blocks: TreeBlocks | None

    @classmethod
    def of(cls, rows: _Rows, strata: Int64s | None, blocks: TreeBlocks | None, average: str) -> VotingRule:
        """From the rows of which enough trees were asked, with one of the estimates made at once.

        ``strata`` are those of the sizes of the rows' groups, which blocks know too; None where rows stand alone.
        """
        asked = rows.asked
        used = asked[asked >= rows.at_least]
        n_dropped = len(asked) - len(used)
        untold = strata is not None and too_many_untold(n_dropped, len(asked))
        found = cls(len(used), n_dropped, float(used.mean()), untold, rows, strata, blocks)
        found.estimate(average)
        return found

    def estimate(self, average: str) -> Estimate:
        """The estimate of agreement by an average over the rows or the classes."""
        return self.of_classes if average == "macro" else self._of_rows

    @cached_property
    def _of_rows(self) -> Estimate:
        assert self._rows is not None
        if self._strata is None:
            return self._rows.estimate(slice(None))
        return by_group_sizes(self._strata, self._used, self._rows.estimate)

    @cached_property
    def of_classes(self) -> ByClass:
        """The estimates of the classes, and their mean."""
        assert self._rows is not None
        return by_class(within_classes(self._strata, self._leaders), self._used, self._rows.estimate)

    @cached_property
    def rows_by_class(self) -> Int64s:
        """Rows on which each class leads, shape (n_classes,)."""
        assert self._rows is not None
        return np.bincount(self._leaders[self._used], minlength=self._rows.n_classes)

    @property
    def _used(self) -> NDArray[np.bool_]:
        assert self._rows is not None
        return self._rows.asked >= self._rows.at_least

    @property
    def _leaders(self) -> Int64s:
        assert self._rows is not None
        return self._rows.leaders()

    @cached_property
    def _blocks_by_class(self) -> TreeBlocks | None:
        """The blocks, whose rows know what class leads on them."""
        if self._blocks is None:
            return None
        assert self._rows is not None
        return replace(self._blocks, strata=within_classes(self._blocks.strata, self._rows.leaders_of(self._blocks)))

    def curves(self, alpha: float, average: str) -> Curves:
        """Disagreement around T*(α) as it might also have come out, of other rows and other trees."""
        estimate = self.estimate(average)
        blocks = self._blocks_by_class if average == "macro" else self._blocks
        return estimate.shaken_replicates(estimate.size(alpha), blocks)

    def interval(self, n_trees: int, average: str) -> tuple[float, float]:
        """95 % interval of the disagreement of so many trees."""
        estimate = self.estimate(average)
        blocks = self._blocks_by_class if average == "macro" else self._blocks
        curves = estimate.shaken_replicates(n_trees, blocks)
        at = [float(np.interp(math.log(n_trees), np.log(curves.sizes), one)) for one in curves.disagreement]
        low, high = np.quantile(at, [0.025, 0.975])
        return float(low), float(high)

    def size(self, alpha: float, average: str) -> int | float:
        """T*(α); infinite where it is not known."""
        return math.inf if self.untold else self.estimate(average).size(alpha)

    def said(self, alpha: float, average: str) -> dict[str, Any]:
        """What a report says by this rule."""
        rows = {name: getattr(self, name) for name in ("n_rows", "n_dropped", "votes_per_row")}
        return {"n_trees": self.size(alpha, average), **rows}

    def __getstate__(self) -> dict[str, Any]:
        if self._rows is not None:
            for name in ("_of_rows", "of_classes", "rows_by_class", "_blocks_by_class"):
                getattr(self, name)
        return {**self.__dict__, "_rows": None, "_strata": None}


def rules_of(outputs: TreeOutputs, goal: LabelGoal, *, both: bool) -> dict[str, VotingRule]:
    """What is estimated by the rule of voting that a goal asks for, and where it can be ``both``.

    Averaged scores are left out where no row has those of two trees.

    Raises
    ------
    ValueError
        If the estimator does not fit the votes, or averaged scores are asked for where there are none.
    """
    votes, scores, sizes, blocks = outputs.votes, outputs.scores, outputs.groups.sizes, outputs.blocks
    voting = outputs.voting(goal.voting)
    if voting == "soft" and scores is None:
        raise ValueError(
            "voting='soft' sizes the trees' averaged scores, of which counted Votes know nothing, nor do members that "
            "are no trees: give a model of trees, or take voting='hard'"
        )
    strata = of_group_sizes(sizes) if outputs.strata is None and sizes is not None else outputs.strata
    if blocks is not None and strata is not None:
        blocks = replace(blocks, strata=strata[blocks.rows])
    rules = {}
    if both or voting == "hard":
        voted = VotedRows(votes, hard.ESTIMATORS[goal.estimator])
        rules["hard"] = VotingRule.of(voted, strata, blocks, goal.average)
    # Where scores are no numbers there are votes all the same; asked for averaged scores, they are refused.
    if scores is not None and (scores.asked > 1).any() and (voting == "soft" or (both and scores.are_finite())):
        strata = None if strata is None else strata[outputs.scored]
        number = np.arange(len(votes))[outputs.scored]
        of_scores = ScoredRows(scores, outputs.cut, soft.ESTIMATORS[goal.estimator], number, blocks)
        rules["soft"] = VotingRule.of(of_scores, strata, blocks, goal.average)
    return rules
