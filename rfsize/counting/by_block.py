"""What the trees of a finished forest say of some rows, block by block of trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.base import Adapter, Voter
from rfsize.counting.walk import asked_of, out_of_bag_members, trees_of_members, votes_by_class, voting_members
from rfsize.utils.typing import Int64s
from rfsize.voting.blocks import N_BLOCKS, TreeBlocks, dealt, first_asked
from rfsize.voting.scores import Scores
from rfsize.voting.votes import two_leaders


def tree_blocks(
    adapter: Adapter, cast: Voter, n_classes: int, rows: Int64s, leaf: NDArray[Any], inbag: NDArray[np.bool_] | None
) -> TreeBlocks:
    """The blocks of a forest's trees on rows that reach these leaves; arguments as `visit_leaves` gives them.

    ``n_classes`` is 0 where the trees cast no votes.
    """
    asked = asked_of(leaf, inbag)
    score = np.where(asked, adapter.leaves.raw_scores(leaf), np.float64(0.0))
    ordered, may_vote = out_of_bag_members(leaf, inbag)
    votes = np.zeros((len(leaf), N_BLOCKS, n_classes), dtype=np.int32)
    counts = np.zeros((len(leaf), n_classes), dtype=np.int32)
    if n_classes:
        vote = np.asarray(cast(ordered))
        counts = votes_by_class(vote, n_classes, may_vote)
        may = voting_members(leaf, may_vote)
        if asked.shape[2] == 1 or inbag is None:
            votes = np.stack([dealt((vote == index) & may) for index in range(n_classes)], axis=2).astype(np.int32)
        else:
            votes = _votes_of_mixed_members(vote, may, counts, trees_of_members(inbag))
    return TreeBlocks(
        rows,
        counts=counts,
        scores=Scores.of(adapter.leaves.raw_scores(ordered), may_vote),
        votes=votes,
        total=dealt(score),
        squares=dealt(score * score),
        asked=dealt(asked).astype(np.int32),
        first=first_asked(score, asked),
        n_trees=leaf.shape[1],
    )


def _votes_of_mixed_members(
    vote: NDArray[Any], may_vote: NDArray[np.bool_], counts: NDArray[np.int32], tree: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Votes by block where the trees of one vote are in several blocks.

    Between the two leading classes of a row, a vote hangs on both of their trees, and counts in the blocks of both: the
    trees of its own class, and of the leader or, for the leader, of the runner-up.
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
