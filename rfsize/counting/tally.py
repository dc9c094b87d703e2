"""Tally: add up the trees' votes and scores, one block of rows after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.counting.averages import Averages
from rfsize.counting.bag_proof import BagProof
from rfsize.counting.blocks import N_BLOCKS, TreeBlocks, dealt, first_asked, rows_in_blocks
from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.leaves import (
    ROWS_PER_THREAD,
    Ask,
    SeenByGroup,
    asked_of,
    out_of_bag_members,
    trees_of_members,
    visit_answers,
)
from rfsize.counting.scores import Scores
from rfsize.counting.tallied import Tallied
from rfsize.counting.votes import two_leaders
from rfsize.models.bags import Bags
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import Forest
from rfsize.utils.threads import each_range
from rfsize.utils.typing import Bools, Int64s


class Tally:
    """Votes and scores of a forest's trees, added up while the rows are visited in order.

    Parameters
    ----------
    adapter : Forest
        The forest.
    n_rows : int
        Number of rows that will be visited.
    threshold : float
        As in `rfsize.tree_outputs`, checked.
    scored : ndarray of bool, shape (n_rows,), optional
        Rows to keep scores of; none by default.
    in_blocks : ndarray of bool, shape (n_rows,), optional
        Rows to keep `TreeBlocks` of; none by default.
    averages : Averages, optional
        Object to fill with the averaged scores of all rows.
    first : int, default 0
        Number of the first row, if the rows are a part of more rows.
    """

    def __init__(
        self,
        adapter: Forest,
        n_rows: int,
        threshold: float,
        *,
        scored: Bools | None = None,
        in_blocks: Bools | None = None,
        averages: Averages | None = None,
        first: int = 0,
    ) -> None:
        self._cast = adapter.leaf_class(threshold)
        self._n_classes, self._n_scores = len(adapter.classes), adapter.n_scores
        nobody = np.zeros(n_rows, dtype=np.bool_)
        self._scored, self._in_blocks = (nobody if rows is None else rows for rows in (scored, in_blocks))
        self._averages, self._first = averages, first
        self._counts = np.zeros((n_rows, self._n_classes), dtype=np.int32)
        self._scores = [Scores.nothing(0, self._n_scores)]
        self._blocks: list[TreeBlocks] = []

    def add(self, rows: slice, answers: LeafIds, inbag: Bools | None) -> None:
        """Add the answers on some rows; a `Visit`."""
        ordered, may_vote = out_of_bag_members(answers, inbag)
        if self._n_classes:
            self._count_votes(ordered, may_vote, self._counts[rows])
        if (scored := self._scored[rows]).any():
            some: Any = slice(None) if scored.all() else scored
            self._scores.append(self.scores(ordered.take(some), may_vote[some]))
        if self._averages is not None:
            self._averages.fill(rows, answers.scores, asked_of(answers, inbag))
        some = np.flatnonzero(self._in_blocks[rows])
        if some.size:
            asked, counts = asked_of(answers, inbag)[some], self._counts[rows][some]
            numbers, select = self._first + rows.start + some, (ordered.take(some), may_vote[some])
            self._blocks.append(self._blocks_of(numbers, answers.take(some), asked, *select, counts))

    @property
    def result(self) -> Tallied:
        """Everything added up so far."""
        nothing = TreeBlocks.nothing(np.zeros(0, dtype=np.int64), self._n_classes, self._n_scores)
        blocks = TreeBlocks.stacked(self._blocks) if self._blocks else nothing
        return Tallied(self._counts, Scores.stacked(self._scores), blocks, self._averages)

    def _count_votes(self, answers: LeafIds, may_vote: Bools, counts: NDArray[np.int32]) -> None:
        """Count the votes of the members that may vote."""

        def count(start: int, stop: int) -> None:
            vote = self._cast(answers.take(slice(start, stop)))
            vote = np.ascontiguousarray(vote, dtype=np.bool_ if vote.dtype == np.bool_ else np.int64)
            _core.count_votes(vote, may_vote[start:stop], counts[start:stop])

        each_range(count, len(counts), ROWS_PER_THREAD)

    def scores(self, answers: LeafIds, may_vote: Bools) -> Scores:
        """Scores of the members that may vote, as `Scores.of` computes them."""
        found = Scores.nothing(len(answers.leaf), self._n_scores)
        leaf, may_vote = np.ascontiguousarray(answers.leaf, dtype=np.int64), np.ascontiguousarray(may_vote)
        raw = answers.in_double

        def add(start: int, stop: int) -> None:
            part = slice(start, stop)
            _core.add_up_scores(
                leaf[part], may_vote[part], raw, found.asked[part], found.mean[part], found.scatter[part]
            )

        each_range(add, len(leaf), ROWS_PER_THREAD)
        return found

    def _blocks_of(
        self,
        rows: Int64s,
        answers: LeafIds,
        asked: Bools,
        ordered: LeafIds,
        may_vote: Bools,
        counts: NDArray[np.int32],
    ) -> TreeBlocks:
        """Blocks of trees on the rows numbered ``rows``: ``answers`` by tree, ``ordered`` by the members that vote."""
        score = np.where(asked, answers.scores, np.float64(0.0))
        votes = np.zeros((len(rows), N_BLOCKS, self._n_classes), dtype=np.int32)
        if self._n_classes and asked.shape[2] == 1:
            vote = np.asarray(self._cast(ordered))
            of_class = [dealt((vote == index) & may_vote) for index in range(self._n_classes)]
            votes = np.stack(of_class, axis=2).astype(np.int32)
        elif self._n_classes:
            votes = _votes_of_mixed_members(self._cast(ordered), may_vote, counts, trees_of_members(~asked))
        return TreeBlocks(
            rows,
            counts=counts,
            scores=Scores.of(ordered.scores, may_vote),
            votes=votes,
            total=dealt(score),
            squares=dealt(score * score),
            asked=dealt(asked).astype(np.int32),
            first=first_asked(score, asked),
            n_trees=may_vote.shape[1],
        )


def _votes_of_mixed_members(
    vote: NDArray[Any], may_vote: Bools, counts: NDArray[np.int32], tree: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Votes by block if the trees that cast one vote together are in several blocks.

    A vote counts in the blocks of two trees. The first is the tree of the class voted for. The second is the tree of
    the row's leading class or, if the vote is for the leader, of the runner-up.
    """
    leader, runner_up = two_leaders(counts)
    other = np.where(vote == leader[:, None], runner_up[:, None], leader[:, None])
    row, member = np.nonzero(may_vote)
    winner, loser = vote[row, member], other[row, member]
    blocks = [tree[row, member, one] % N_BLOCKS for one in (winner, loser)]
    votes = np.zeros((len(vote), N_BLOCKS, counts.shape[1]), dtype=np.int32)
    np.add.at(votes, (row, blocks[0], winner), 1)
    apart = blocks[0] != blocks[1]
    np.add.at(votes, (row[apart], blocks[1][apart], winner[apart]), 1)
    return votes


def out_of_bag(
    adapter: Forest,
    bags: Bags,
    ask: Ask,
    threshold: float = 0.5,
    groups: Groups = ALONE,
) -> Tallied:
    """Add up the out-of-bag votes and scores of a finished forest, and prove its bags.

    Parameters
    ----------
    adapter : Forest
        The forest.
    bags : Bags
        Bags of the forest.
    ask : callable
        Returns the members' answers on rows ``start`` to ``stop``.
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
    in_blocks = np.zeros(bags.n_rows, dtype=np.bool_)
    in_blocks[rows_in_blocks(bags.n_rows, len(adapter.classes), adapter.n_scores)] = True
    scored = np.ones(bags.n_rows, dtype=np.bool_)
    tally = Tally(adapter, bags.n_rows, adapter.checked_threshold(threshold), scored=scored, in_blocks=in_blocks)

    proof, seen = BagProof(adapter, bags), SeenByGroup.of(bags, groups)
    visit_answers(adapter, bags.n_rows, ask, tally.add, what="out-of-bag votes", proof=proof, seen=seen)
    proof.conclude()
    return tally.result
