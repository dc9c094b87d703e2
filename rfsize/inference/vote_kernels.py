"""The compiled loops by which the trees of a `Forest` vote, and stop by a table of votes.

They take plain tuples in the order of `Nodes` and `Stop`: numba's files on disk would name the classes, and fail to
load when a later version of rfsize has others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rfsize.stopping.kernels import ternary_index
from rfsize.stopping.stops import BinaryStops, TernaryStops, VoteStops, WeightedStops
from rfsize.utils.jit import compiled
from rfsize.walking.kernels import balanced_depth, descend, walkers

# Rows so few that each goes down as many trees together instead.
_FEW = 16

_NEVER, _BINARY, _TERNARY, _LEADERS, _WEIGHTED = 0, 1, 2, 3, 4


class Stop(NamedTuple):
    """The arrays of a stop table; those that its kind does not have are empty.

    ``weight`` is what the vote of each tree adds to a tally, of the tally's own type: a whole 1, or its weight. Rows
    stop after ``every`` so many trees only, or after the last.
    """

    kind: int
    n_trees: int
    every: int
    weight: Any
    lower: Any
    upper: Any
    decision: Any
    needed: Any

    @classmethod
    def of(cls, stops: VoteStops | None, n_trees: int, every: int = 1) -> Stop:
        """What `decide` reads of a table; the trees of a weighted one are laid out in the order of its stops."""
        never = cls(
            kind=_NEVER,
            n_trees=n_trees,
            every=every,
            weight=np.ones(n_trees, dtype=np.int32),
            lower=np.zeros(0, dtype=np.int32),
            upper=np.zeros(0, dtype=np.int32),
            decision=np.zeros(0, dtype=np.int8),
            needed=np.zeros(0),
        )
        if stops is None:
            return never
        if isinstance(stops, BinaryStops):
            return never._replace(kind=_BINARY, lower=stops.lower, upper=stops.upper)
        if isinstance(stops, TernaryStops):
            return never._replace(kind=_TERNARY, decision=stops.decision)
        if isinstance(stops, WeightedStops):
            return never._replace(kind=_WEIGHTED, weight=stops.weights[stops.order], needed=stops.needed)
        return never._replace(kind=_LEADERS, upper=stops.upper)


@compiled
def decide(q: Any, trees: Any, alone: Any, stop: Any, counts: Any, label: Any, asked: Any) -> None:
    """Ask trees until each row's votes are decided; ``label`` and ``asked`` have shape (rows,).

    Where a member is a tree for each class, tree k alone scores its value times ``alone[0]`` and ``alone[k + 1]`` more.

    ``counts``, of shape (rows, classes), starts at zero and ends with the votes that each row asked for, or their
    weights. Where ``stop`` never stops, these are all votes; ``label`` and ``asked`` then stay as they are, as they do
    on rows whose weighted votes are level up to rounding.
    """
    _, _, _, tree_start, _, _ = trees
    _, _, _, weight_of, _, _, _, _ = stop
    n_outputs = alone.size - 1
    n_members, n = (tree_start.size - 1) // n_outputs, q.shape[0]
    walk = walkers(max(n, _FEW * n_outputs))
    voting, vote, best, answer = np.arange(n), np.empty(n, np.int64), np.empty(n, alone.dtype), np.empty(n, np.int64)
    member = 0
    while n > _FEW and member < n_members:
        _ask_member(member, q, trees, alone, voting[:n], walk, vote, best)
        weight = weight_of[member]
        for j in range(n):
            counts[voting[j], vote[j]] += weight
        member += 1
        if not _looks(stop, member):
            continue
        kept = 0
        _answer(stop, member, voting[:n], counts, answer)
        for j in range(n):
            if answer[j] >= 0:
                label[voting[j]], asked[voting[j]] = answer[j], member
            else:
                voting[kept] = voting[j]
                kept += 1
        n = kept
    for j in range(n):
        _ask_ahead(voting[j : j + 1], member, q, trees, alone, stop, walk, counts, answer, label, asked)


@compiled
def cast(q: Any, trees: Any, alone: Any, votes: Any) -> None:
    """Let every member vote on quantised rows; ``votes`` has shape (rows, members)."""
    n = q.shape[0]
    walk, best = walkers(n), np.empty(n, alone.dtype)
    voting, vote = np.arange(n), np.empty(n, np.int64)
    for member in range(votes.shape[1]):
        _ask_member(member, q, trees, alone, voting, walk, vote, best)
        votes[:, member] = vote


@compiled
def _ask_member(member: Any, q: Any, trees: Any, alone: Any, voting: Any, walk: Any, vote: Any, best: Any) -> None:
    """Let one member vote on the rows still voting."""
    _, value, leaf_vote, tree_start, _, _ = trees
    row, place, _ = walk
    n_outputs = alone.size - 1
    for output in range(n_outputs):
        tree = member * n_outputs + output
        for j in range(voting.size):
            row[j], place[j] = voting[j], tree_start[tree]
        descend(q, trees, voting.size, balanced_depth(tree_start, tree), walk)
        for j in range(voting.size):
            if n_outputs == 1:
                vote[j] = leaf_vote[place[j]]
            else:
                score = alone[output + 1] + value[place[j], 0] * alone[0]
                if output == 0 or score > best[j]:
                    best[j], vote[j] = score, output


@compiled
def _ask_ahead(
    voting: Any,
    member: Any,
    q: Any,
    trees: Any,
    alone: Any,
    stop: Any,
    walk: Any,
    counts: Any,
    answer: Any,
    label: Any,
    asked: Any,
) -> None:
    """Take one row to its decision, several members at a time; those beyond the decision do not count."""
    _, value, leaf_vote, tree_start, _, _ = trees
    _, _, _, weight_of, _, _, _, _ = stop
    walk_row, place, _ = walk
    n_outputs = alone.size - 1
    n_members, row = (tree_start.size - 1) // n_outputs, voting[0]
    while member < n_members:
        ahead = min(_FEW, n_members - member)
        first = member * n_outputs
        for j in range(ahead * n_outputs):
            walk_row[j], place[j] = row, tree_start[first + j]
        descend(q, trees, ahead * n_outputs, balanced_depth(tree_start, first), walk)
        for j in range(ahead):
            leaf = place[j * n_outputs : (j + 1) * n_outputs]
            vote = 0
            if n_outputs == 1:
                vote = np.int64(leaf_vote[leaf[0]])
            best = alone[1] + value[leaf[0], 0] * alone[0]
            for output in range(1, n_outputs):
                score = alone[output + 1] + value[leaf[output], 0] * alone[0]
                if score > best:
                    best, vote = score, output
            counts[row, vote] += weight_of[member]
            member += 1
            if not _looks(stop, member):
                continue
            _answer(stop, member, voting, counts, answer)
            if answer[0] >= 0:
                label[row], asked[row] = answer[0], member
                return


@compiled
def _looks(stop: Any, asked: Any) -> Any:
    """Whether any row may stop after so many trees."""
    kind, n_trees, every, _, _, _, _, needed = stop
    if kind == _WEIGHTED:
        return 2.0 * needed[asked] <= needed[0]  # else no lead exceeds the weight asked
    return kind != _NEVER and (asked % every == 0 or asked == n_trees)


@compiled
def _answer(stop: Any, asked: Any, voting: Any, counts: Any, answer: Any) -> None:
    """The class that each voting row's tally is answered with, -1 where it asks on; `stops` has the rules."""
    kind, n_trees, _, _, lower, upper, decision, needed = stop
    if kind == _BINARY:
        for j in range(voting.size):
            count = counts[voting[j], 1]
            answer[j] = 0 if count <= lower[asked] else 1 if count >= upper[asked] else -1
    elif kind == _TERNARY:
        for j in range(voting.size):
            row = voting[j]
            answer[j] = decision[ternary_index(asked, np.int64(counts[row, 0]), np.int64(counts[row, 1]))]
    elif kind == _WEIGHTED and counts.shape[1] == 2:
        # To look for the leaders would take longer than to walk down a stump.
        for j in range(voting.size):
            lead = counts[voting[j], 1] - counts[voting[j], 0]
            answer[j] = 1 if lead > needed[asked] else 0 if -lead >= needed[asked] else -1
    elif kind == _WEIGHTED:
        for j in range(voting.size):
            leader, rival = _two_leaders(counts, voting[j])
            lead = counts[voting[j], leader] - counts[voting[j], rival]
            is_settled = lead > needed[asked] or (lead == needed[asked] and leader < rival)
            answer[j] = leader if is_settled else -1
    else:
        for j in range(voting.size):
            leader, rival = _two_leaders(counts, voting[j])
            most, next_most = np.int64(counts[voting[j], leader]), np.int64(counts[voting[j], rival])
            is_settled = most - next_most + (leader < rival) > n_trees - asked
            answer[j] = leader if is_settled or most >= upper[most + next_most] else -1


@compiled
def _two_leaders(counts: Any, row: Any) -> Any:
    """The classes with the most and the second most votes, the lowest where they tie."""
    leader = 0
    for other in range(1, counts.shape[1]):
        if counts[row, other] > counts[row, leader]:
            leader = other
    rival = 1 if leader == 0 else 0
    for other in range(rival + 1, counts.shape[1]):
        if other != leader and counts[row, other] > counts[row, rival]:
            rival = other
    return leader, rival
