"""Count: add up the votes and scores of a forest's trees on rows, here or part by part where the rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.counting.averages import Averages
from rfsize.counting.blocks import N_BLOCKS, TreeBlocks, dealt, first_asked, rows_in_blocks
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.leaves import ROWS_PER_THREAD, Lookup, leaf_lookup
from rfsize.counting.proof import BagCheck, GroupInbag
from rfsize.counting.scores import Scores, scored_every
from rfsize.counting.task import Batch, Pass, Task, oob_order, pair_oob_trees
from rfsize.counting.votes import two_leaders
from rfsize.models.bags import Bags, LaidOutBags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest
from rfsize.models.rows import DistributedRows
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Bools, Floats, Int64s

# What is added up: votes; what sizes need; or all that `rfsize.tree_outputs` keeps.
Keeps = Literal["votes", "outputs", "all"]


@dataclass(frozen=True, eq=False)
class Sums:
    """Votes and scores of a forest's trees on rows.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class; no columns for regression.
    scores : Scores
        Scores before the link, of the rows whose scores are kept.
    blocks : TreeBlocks or None
        Votes and scores of some of the rows by blocks of trees; None if nobody needs them.
    averages : Averages or None
        Averaged scores of all rows, if they are kept.
    """

    counts: NDArray[np.int32]
    scores: Scores
    blocks: TreeBlocks | None = None
    averages: Averages | None = None

    @classmethod
    def nothing(cls, n_rows: int, n_classes: int, n_scores: int) -> Sums:
        """The sums of a forest without trees."""
        rows = np.arange(n_rows)[rows_in_blocks(n_rows, n_classes, n_scores)]
        blocks = TreeBlocks.nothing(rows, n_classes, n_scores)
        scores = Scores.nothing(n_rows, n_scores, every=scored_every(n_rows, n_scores))
        return cls(np.zeros((n_rows, n_classes), dtype=np.int32), scores, blocks)

    def plus(self, other: Sums) -> Sums:
        """The sums of the trees of both, on the same rows."""
        blocks = None if self.blocks is None or other.blocks is None else self.blocks.plus(other.blocks)
        return Sums(self.counts + other.counts, self.scores.plus(other.scores), blocks)

    @classmethod
    def stacked(cls, parts: Sequence[Sums]) -> Sums:
        """The sums of the same trees on the rows of all parts, in their order."""
        blocks = [part.blocks for part in parts if part.blocks is not None]
        averages = [part.averages for part in parts if part.averages is not None]
        return cls(
            np.concatenate([part.counts for part in parts]),
            Scores.stacked([part.scores for part in parts]),
            TreeBlocks.stacked(blocks) if blocks else None,
            Averages.stacked(averages) if averages else None,
        )


def count(task: Task, keeps: Keeps = "outputs") -> Sums:
    """Add up votes and scores over all rows of a task; return only if the bags are proven.

    Raises
    ------
    InbagError
        If the bags cannot be proven.
    """
    what = "votes" if keeps == "votes" else "votes and scores"
    if isinstance(task.X, DistributedRows):
        return _count_elsewhere(task, keeps, what)
    return _added_up(task.walk, Kept(range(task.n_rows), task.n_rows, keeps), task.threshold, what)


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
    kept = Kept(range(bags.n_rows), bags.n_rows)
    return _added_up(rows, kept, forest.checked_threshold(threshold), "out-of-bag votes")


class Kept(NamedTuple):
    """What is kept of which rows: the rows counted are those with the numbers ``rows`` among ``n_rows``."""

    rows: range
    n_rows: int
    keeps: Keeps = "outputs"


def _added_up(rows: Pass, kept: Kept, threshold: float, what: str, check: BagCheck | None = None) -> Sums:
    adder = _Adder(rows, kept, threshold)
    with np.errstate(over="ignore", invalid="ignore"):  # an error later, if deviations are needed
        for batch in rows.batches(what, check=check):
            adder.add(batch)
    return adder.sums


class Part(NamedTuple):
    """All that is needed to count some of the rows where they lie.

    Attributes
    ----------
    kept : Kept
    threshold : float
        As in `Task`.
    bags : LaidOutBags or None
        Bags of these rows.
    group_inbag : GroupInbag or None
        Trees that saw rows of the same groups.
    """

    kept: Kept
    threshold: float
    bags: LaidOutBags | None
    group_inbag: GroupInbag | None


def count_part(X: Any, forest: Forest, part: Part) -> tuple[Sums, Floats | None]:
    """Add up votes and scores on a part of the rows, and the rows in each leaf, which prove the bags of all parts."""
    opened, bags = forest.open(X), part.bags
    lookup = leaf_lookup(forest, opened, part.kept.n_rows)
    rows = Pass(forest, opened.n_rows, lookup, bags, part.group_inbag)
    check = None if bags is None else BagCheck(forest, bags)
    sums = _added_up(rows, part.kept, part.threshold, "votes and scores", check)
    return sums, None if check is None else check.rebuilt


def _count_elsewhere(task: Task, keeps: Keeps, what: str) -> Sums:
    """Count each part of the rows where it lies; prove the bags here."""
    check = None if task.bags is None else BagCheck(task.forest, task.bags)
    part_of, parts = partial(_part, task, keeps, GroupInbag.of(task.bags, task.groups)), []
    for sums, rebuilt in task.X.each_with(count_part, task.forest, part_of, what=what):
        parts.append(sums)
        if check is not None:
            check.include(rebuilt)
    if check is not None:
        check.conclude()
    return Sums.stacked(parts)


def _part(task: Task, keeps: Keeps, of_groups: GroupInbag | None, rows: range) -> Part:
    bags = task.bags
    if bags is not None:
        assert isinstance(bags, LaidOutBags)
        bags = bags.part(rows.start, rows.stop)
    of_groups = None if of_groups is None else of_groups.part(rows.start, rows.stop)
    return Part(Kept(rows, task.n_rows, keeps), task.threshold, bags, of_groups)


class _Adder:
    """Adds up batches of rows in order."""

    def __init__(self, of: Pass, kept: Kept, threshold: float) -> None:
        forest, (rows, n_rows, keeps) = of.forest, kept
        number = np.arange(rows.start, rows.stop)
        self._leaf_class = forest.leaf_class(threshold)
        self._n_classes, self._n_scores, self._first = len(forest.classes), forest.n_scores, rows.start
        every = scored_every(n_rows, self._n_scores)
        in_blocks = rows_in_blocks(n_rows, self._n_classes, self._n_scores).step
        self._scored = (number % every == 0) & (keeps != "votes")
        self._in_blocks = (number % in_blocks == 0) & (keeps != "votes")
        self._counts = np.zeros((len(rows), self._n_classes), dtype=np.int32)
        self._rows_scored = None if every == 1 else number[self._scored]
        self._scores = [Scores.nothing(0, self._n_scores)]
        self._blocks = [TreeBlocks.nothing(number[:0], self._n_classes, self._n_scores)]
        self._averages = None
        if keeps == "all":
            self._averages = Averages.empty(rows, n_rows, forest.n_trees, self._n_scores, of.n_bags)

    def add(self, batch: Batch) -> None:
        paired, may_vote = pair_oob_trees(batch.leaves, batch.seen)
        if self._n_classes:
            self._count_votes(paired, may_vote, self._counts[batch.rows])
        if (scored := self._scored[batch.rows]).any():
            rows: Any = slice(None) if scored.all() else scored
            self._scores.append(_scores_of(paired.take(rows), may_vote[rows], self._n_scores))
        if self._averages is not None:
            self._averages.fill(batch.rows, batch.leaves.scores, batch.may_score)
        rows = np.flatnonzero(self._in_blocks[batch.rows])
        if rows.size:
            number = self._first + batch.rows.start + rows
            pair = (paired.take(rows), may_vote[rows])
            self._blocks.append(self._blocks_of(number, batch.take(rows), pair, self._counts[batch.rows][rows]))

    @property
    def sums(self) -> Sums:
        """Everything added up so far."""
        blocks = self._blocks[1:] or self._blocks
        scores = replace(Scores.stacked(self._scores), rows=self._rows_scored)
        return Sums(self._counts, scores, TreeBlocks.stacked(blocks), self._averages)

    def _count_votes(self, leaves: LeafIds, may_vote: Bools, counts: NDArray[np.int32]) -> None:
        def add(start: int, stop: int) -> None:
            vote = self._leaf_class(leaves.take(slice(start, stop)))
            vote = np.ascontiguousarray(vote, dtype=np.bool_ if vote.dtype == np.bool_ else np.int64)
            _core.count_votes(vote, may_vote[start:stop], counts[start:stop])

        each_range(add, len(counts), ROWS_PER_THREAD)

    def _blocks_of(
        self, number: Int64s, batch: Batch, pair: tuple[LeafIds, Bools], counts: NDArray[np.int32]
    ) -> TreeBlocks:
        """Blocks of trees on the rows with these numbers."""
        (paired, may_vote), may_score = pair, batch.may_score
        score = np.where(may_score, batch.leaves.scores, np.float64(0.0))
        votes = np.zeros((len(number), N_BLOCKS, self._n_classes), dtype=np.int32)
        if self._n_classes and may_score.shape[2] == 1:
            vote = np.asarray(self._leaf_class(paired))
            of_class = [dealt((vote == index) & may_vote) for index in range(self._n_classes)]
            votes = np.stack(of_class, axis=2).astype(np.int32)
        elif self._n_classes:
            votes = _votes_of_paired_trees(self._leaf_class(paired), may_vote, counts, oob_order(~may_score))
        return TreeBlocks(
            number,
            counts=counts,
            scores=Scores.of(paired.scores, may_vote),
            votes=votes,
            total=dealt(score),
            squares=dealt(score * score),
            asked=dealt(may_score).astype(np.int32),
            first=first_asked(score, may_score),
            n_trees=may_vote.shape[1],
        )


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
