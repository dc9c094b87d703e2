"""Count: add up the votes and scores of a forest's trees on rows, here or part by part where the rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s, each_range
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.leaves import ROWS_PER_THREAD, Lookup, leaf_lookup
from rfsize.counting.part_sums import N_BLOCKS, Blocks, Means, Parts, PartSums, Scores, deal, scored_every
from rfsize.counting.proof import BagCheck, GroupInbag
from rfsize.counting.task import Batch, Pass, Task, oob_order, pair_oob_trees
from rfsize.counting.votes import two_leaders
from rfsize.models.bags import Bags, LaidOutBags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest
from rfsize.models.rows import DistributedRows


@dataclass(frozen=True, eq=False)
class Sums:
    """Votes and scores of a forest's trees on rows.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class; no columns for regression.
    scores : Scores
        Scores before the link, of the rows whose scores are kept.
    parts : PartSums
        Sums over parts of the forest on some of the rows.
    means : Means or None
        Mean scores of all rows, if they are kept.
    """

    counts: NDArray[np.int32]
    scores: Scores
    parts: PartSums
    means: Means | None = None

    @classmethod
    def nothing(cls, n_rows: int, n_classes: int, n_scores: int) -> Sums:
        """The sums of a forest without trees."""
        rows = np.arange(0, n_rows, Parts.of(n_rows, 0, n_scores).every)
        return cls(
            np.zeros((n_rows, n_classes), dtype=np.int32),
            Scores.nothing(n_rows, n_scores, every=scored_every(n_rows, n_scores)),
            PartSums.nothing(rows, n_rows, n_classes, n_scores),
        )

    @cached_property
    def blocks(self) -> Blocks:
        """Sums over blocks of the trees, for estimates."""
        return self.parts.blocks(self.counts, self.scores)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        means = 0 if self.means is None else self.means.nbytes
        return self.counts.nbytes + self.scores.nbytes + self.parts.nbytes + means

    def take(self, rows: Bools) -> Sums:
        """The sums on the rows of a mask."""
        scores = self.scores.take(rows[self.scores.number])
        number = None if self.scores.rows is None else (np.cumsum(rows) - 1)[scores.number]
        return Sums(self.counts[rows], replace(scores, rows=number), self.parts.take(rows))

    def plus(self, other: Sums) -> Sums:
        """The sums of the trees of both, on the same rows."""
        return Sums(self.counts + other.counts, self.scores.plus(other.scores), self.parts.plus(other.parts))

    @classmethod
    def stacked(cls, sums: Sequence[Sums]) -> Sums:
        """The sums of the same trees on other rows, one after another."""
        counts, means = [of.counts for of in sums], [of.means for of in sums if of.means is not None]
        scores, parts = (Scores.stacked([of.scores for of in sums]), PartSums.stacked([of.parts for of in sums]))
        return cls(np.concatenate(counts), scores, parts, Means.stacked(means) if means else None)


def count(task: Task, *, means: bool = False) -> Sums:
    """Add up votes and scores over all rows of a task, and ``means`` if you need them; return only proven bags.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    if isinstance(task.X, DistributedRows):
        return _count_elsewhere(task, means)
    return _added_up(task.walk, Part(range(task.n_rows), task.n_rows, means, task.threshold))


def out_of_bag(forest: Forest, bags: Bags, lookup: Lookup, threshold: float = 0.5, groups: Groups = NO_GROUPS) -> Sums:
    """Add up the out-of-bag votes and scores of trees just trained, and prove their bags.

    Parameters
    ----------
    forest : Forest
        The new trees.
    bags : Bags
        Their bags.
    lookup : callable
        Returns the leaves of rows ``start`` to ``stop``, such as `leaf_lookup` makes it.
    threshold : float, default 0.5
        As in `rfsize.tree_outputs`.
    groups : Groups, optional
        Rows that belong together.

    Raises
    ------
    InbagError
        If the proof fails.
    ValueError
        If a threshold is given for more than two classes.
    """
    rows = Pass(forest, bags.n_rows, lookup, bags, GroupInbag.of(bags, groups))
    return _added_up(rows, Part(range(bags.n_rows), bags.n_rows, False, forest.checked_threshold(threshold)))


class Part(NamedTuple):
    """All that is needed to count some of the rows where they lie, beside the forest.

    Attributes
    ----------
    rows : range
        Numbers of these rows among all rows.
    n_rows : int
        Number of all rows.
    means : bool
        Whether to keep mean scores of all rows.
    threshold : float
        As in `Task`.
    bags : LaidOutBags or None
        Bags of these rows.
    group_inbag : GroupInbag or None
        Trees that saw rows of the same groups.
    """

    rows: range
    n_rows: int
    means: bool
    threshold: float
    bags: LaidOutBags | None = None
    group_inbag: GroupInbag | None = None


def _added_up(rows: Pass, part: Part, check: BagCheck | None = None) -> Sums:
    adder = _Adder(rows.forest, part)
    with np.errstate(over="ignore", invalid="ignore"):  # an error later, if deviations are needed
        for batch in rows.batches("votes and scores", check=check):
            adder.add(batch)
    return adder.sums


def count_part(X: Any, forest: Forest, part: Part) -> tuple[Sums, Floats | None]:
    """Add up votes and scores on a part of the rows, and the rows in each leaf, which prove the bags of all parts."""
    opened, bags = forest.open(X), part.bags
    lookup = leaf_lookup(forest, opened, part.n_rows)
    rows = Pass(forest, opened.n_rows, lookup, bags, part.group_inbag)
    check = None if bags is None else BagCheck(forest, bags)
    return _added_up(rows, part, check), None if check is None else check.rebuilt


def _count_elsewhere(task: Task, means: bool) -> Sums:
    """Count each part of the rows where it lies; prove the bags here."""
    check = None if task.bags is None else BagCheck(task.forest, task.bags)
    assert isinstance(task.X, DistributedRows)
    part_of, parts = partial(_part, task, means, GroupInbag.of(task.bags, task.groups)), []
    for sums, rebuilt in task.X.each_with(count_part, task.forest, part_of, what="votes and scores"):
        parts.append(sums)
        if check is not None:
            check.include(rebuilt)
    if check is not None:
        check.conclude()
    return Sums.stacked(parts)


def _part(task: Task, means: bool, of_groups: GroupInbag | None, rows: range) -> Part:
    bags = task.bags
    if bags is not None:
        assert isinstance(bags, LaidOutBags)
        bags = bags.part(rows.start, rows.stop)
    of_groups = None if of_groups is None else of_groups.part(rows.start, rows.stop)
    return Part(rows, task.n_rows, means, task.threshold, bags, of_groups)


class _Adder:
    """Adds up batches of rows in order."""

    def __init__(self, forest: Forest, part: Part) -> None:
        rows, self._n_rows, self._keeps_means = part.rows, part.n_rows, part.means
        self._leaf_class, self._number = forest.leaf_class(part.threshold), np.arange(rows.start, rows.stop)
        self._n_classes, self._n_scores = len(forest.classes), forest.n_scores
        self._every, self._dealt = (
            scored_every(self._n_rows, self._n_scores),
            Parts.of(self._n_rows, forest.n_trees, self._n_scores),
        )
        self._counts = np.zeros((len(rows), self._n_classes), dtype=np.int32)
        self._scores = [Scores.nothing(0, self._n_scores)]
        self._parts = [PartSums.nothing(self._number[:0], self._n_rows, self._n_classes, self._n_scores)]
        self._means: list[Means] = []

    def add(self, batch: Batch) -> None:
        """Add the votes and scores of some rows."""
        paired, may_vote = pair_oob_trees(batch.leaves, batch.seen)
        counts, number = self._counts[batch.rows], self._number[batch.rows]
        if self._n_classes:
            self._count_votes(paired, may_vote, counts)
        rows = np.flatnonzero(number % self._every == 0)
        scored: Any = slice(None) if len(rows) == len(number) else rows
        scores = _scores_of(paired.take(scored), may_vote[scored], self._n_scores)
        self._scores.append(replace(scores, rows=None if self._every == 1 else number[rows]))
        if self._keeps_means:
            self._means.append(Means.of(batch.leaves.scores, batch.may_score))
        rows = np.flatnonzero(number % self._dealt.every == 0)
        if rows.size:
            pair = paired.take(rows), may_vote[rows]
            self._parts.append(self._parts_of(number[rows], batch.take(rows), pair, counts[rows]))

    @property
    def sums(self) -> Sums:
        """Everything added up so far."""
        parts = PartSums.stacked(self._parts[1:] or self._parts)
        scores = Scores.stacked(self._scores)
        if self._every > 1 and scores.rows is None:
            scores = replace(scores, rows=self._number[:0])
        return Sums(self._counts, scores, parts, Means.stacked(self._means) if self._means else None)

    def _count_votes(self, leaves: LeafIds, may_vote: Bools, counts: NDArray[np.int32]) -> None:
        def add(start: int, stop: int) -> None:
            vote = self._leaf_class(leaves.take(slice(start, stop)))
            vote = np.ascontiguousarray(vote, dtype=np.bool_ if vote.dtype == np.bool_ else np.int64)
            _core.count_votes(vote, may_vote[start:stop], counts[start:stop])

        each_range(add, len(counts), ROWS_PER_THREAD)

    def _parts_of(
        self, number: Int64s, batch: Batch, pair: tuple[LeafIds, Bools], counts: NDArray[np.int32]
    ) -> PartSums:
        """Sums over parts of the forest on the rows with these numbers."""
        (paired, may_vote), may_score = pair, batch.may_score
        votes = np.zeros((len(number), N_BLOCKS, self._n_classes), dtype=np.int32)
        if self._n_classes and may_score.shape[2] == 1:
            vote = np.where(may_vote, self._leaf_class(paired), -1)
            votes = deal((vote[:, :, None] == np.arange(self._n_classes)).astype(np.int32), N_BLOCKS)
        elif self._n_classes:
            votes = _votes_of_paired_trees(self._leaf_class(paired), may_vote, counts, oob_order(~may_score))
        total = self._dealt.deal(np.where(may_score, batch.leaves.scores, np.float64(0.0)))
        n_scored = self._dealt.deal(may_score.astype(np.uint16))
        return PartSums(number, self._n_rows, may_vote.shape[1], votes, total, n_scored)


def _scores_of(leaves: LeafIds, may_vote: Bools, n_scores: int) -> Scores:
    """Scores of the votes that count, as `Scores.of` computes them."""
    scores = Scores.nothing(len(leaves.leaf), n_scores)
    leaf, may_vote = np.ascontiguousarray(leaves.leaf, dtype=np.int64), np.ascontiguousarray(may_vote)

    def add(start: int, stop: int) -> None:
        rows = slice(start, stop)
        of_rows = scores.asked[rows], scores.mean[rows], scores.scatter[rows]
        _core.add_up_scores(leaf[rows], may_vote[rows], leaves.in_double, *of_rows)

    each_range(add, len(leaf), ROWS_PER_THREAD)
    return scores


def _votes_of_paired_trees(
    vote: NDArray[Any], may_vote: Bools, counts: NDArray[np.int32], tree: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Votes by block if the trees that cast one vote together are in several blocks.

    A vote counts in the blocks of two trees. The first is the tree of the class voted for. The second is the tree of
    the row's leading class or, if the vote is for the leader, of the runner-up.
    """
    leader, runner_up = two_leaders(counts)
    other = np.where(vote == leader[:, None], runner_up[:, None], leader[:, None])
    row, number = np.nonzero(may_vote)
    winner, loser = vote[row, number], other[row, number]
    first, second = (tree[row, number, of_class] % N_BLOCKS for of_class in (winner, loser))
    votes = np.zeros((len(vote), N_BLOCKS, counts.shape[1]), dtype=np.int32)
    np.add.at(votes, (row, first, winner), 1)
    apart = first != second
    np.add.at(votes, (row[apart], second[apart], winner[apart]), 1)
    return votes
