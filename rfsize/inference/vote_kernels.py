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
from rfsize.walking.together import (
    FIRST_STAGE,
    SHARE_OPEN,
    STAGES_GROW,
    TOGETHER,
    gather,
    group,
    leave_out,
    moved_up,
    still_open,
    to_leaves,
)

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
    weights. Where ``stop`` never stops, these are all votes; ``label``, which is -1 before, and ``asked`` then stay as
    they are, as they do on rows whose weighted votes are level up to rounding.
    """
    _, _, _, tree_start, _, _ = trees
    # A plain 0 is a type of its own, for which all that takes it would be compiled once more.
    n_members, member, n = (tree_start.size - 1) // (alone.size - 1), np.int64(0), q.shape[0]
    going, together = np.arange(n), group(min(TOGETHER, n), q.shape[1], trees)
    leaders, last = np.zeros((n, 2), np.int64), FIRST_STAGE
    leaders[:, 1] = 1
    while n > _FEW and member < n_members:
        # Stage by stage, so that those who ask on are many enough to go down trees together.
        last, kept = min(last, n_members), np.int64(0)
        for first in range(0, n, TOGETHER):
            some = going[first : min(first + TOGETHER, n)]
            open_ = _decide_together(q, some, member, last, trees, alone, stop, together, leaders, counts, label, asked)
            kept = moved_up(going, kept, first, open_)
        n, member, last = kept, last, last * STAGES_GROW
    walk = walkers(_FEW * (alone.size - 1))
    for j in range(n):
        _ask_ahead(going[j : j + 1], member, q, trees, alone, stop, walk, leaders, counts, label, asked)


@compiled
def _decide_together(
    q: Any,
    going: Any,
    member: Any,
    last: Any,
    trees: Any,
    alone: Any,
    stop: Any,
    together: Any,
    leaders: Any,
    counts: Any,
    label: Any,
    asked: Any,
) -> Any:
    """Ask some members about the rows that are ``going``, and count those still open, which then stand in front.

    Rows that are decided go on until they are many; their votes count no more.
    """
    _, _, _, weight_of, _, _, _, _ = stop
    n, open_, follows = going.size, going.size, _needs_leaders(stop, counts)
    vote, best = np.empty(n, np.int64), np.empty(n, alone.dtype)
    gather(q, going, together)
    while member < last and open_ > 0:
        _ask_member(member, q, n, trees, alone, together, vote, best)
        _count(going[:n], vote, weight_of[member], follows, leaders, counts, label)
        member += 1
        if not _looks(stop, member):
            continue
        open_ -= _decided_now(stop, member, going[:n], leaders, counts, label, asked)
        if open_ <= SHARE_OPEN * n:
            n = leave_out(label, going[:n], together)
    return still_open(label, going[:n])


@compiled
def cast(q: Any, trees: Any, alone: Any, votes: Any) -> None:
    """Let every member vote on quantised rows; ``votes`` has shape (rows, members)."""
    together, rows = group(min(TOGETHER, q.shape[0]), q.shape[1], trees), np.arange(q.shape[0])
    vote, best = np.empty(TOGETHER, np.int64), np.empty(TOGETHER, alone.dtype)
    for first in range(0, q.shape[0], TOGETHER):
        going = rows[first : first + TOGETHER]
        gather(q, going, together)
        for member in range(votes.shape[1]):
            _ask_member(member, q, going.size, trees, alone, together, vote, best)
            for j in range(going.size):
                votes[going[j], member] = vote[j]


@compiled
def _ask_member(member: Any, q: Any, n: Any, trees: Any, alone: Any, together: Any, vote: Any, best: Any) -> None:
    """Let one member vote on the ``n`` rows that were gathered."""
    _, value, leaf_vote, _, _, _ = trees
    n_outputs = alone.size - 1
    for output in range(n_outputs):
        leaf = to_leaves(q, n, trees, member * n_outputs + output, together)
        for j in range(n):
            if n_outputs == 1:
                vote[j] = leaf_vote[leaf[j]]
            else:
                score = alone[output + 1] + value[leaf[j], 0] * alone[0]
                if output == 0 or score > best[j]:
                    best[j], vote[j] = score, output


@compiled
def _needs_leaders(stop: Any, counts: Any) -> Any:
    """Whether decisions go by who leads; of two classes the counts themselves tell sooner."""
    return stop[0] == _LEADERS or (stop[0] == _WEIGHTED and counts.shape[1] > 2)


@compiled
def _count(going: Any, vote: Any, weight: Any, follows: Any, leaders: Any, counts: Any, label: Any) -> None:
    """Add the votes of one member on rows that are not decided, and where asked for keep up who leads, and who is next.

    Only the class that got the vote can move up, so that it need be compared with these two alone. Ties go to the
    lowest class.
    """
    if not follows:
        for j in range(going.size):
            if label[going[j]] < 0:
                counts[going[j], vote[j]] += weight
        return
    for j in range(going.size):
        row, one = going[j], vote[j]
        if label[row] >= 0:
            continue
        counts[row, one] += weight
        leader, rival = leaders[row]
        if one != leader and _is_before(one, leader, counts[row]):
            leaders[row, 0], leaders[row, 1] = one, leader
        elif one not in (leader, rival) and _is_before(one, rival, counts[row]):
            leaders[row, 1] = one


@compiled
def _is_before(one: Any, other: Any, counts: Any) -> Any:
    return counts[one] > counts[other] or (counts[one] == counts[other] and one < other)


@compiled
def _ask_ahead(
    going: Any,
    member: Any,
    q: Any,
    trees: Any,
    alone: Any,
    stop: Any,
    walk: Any,
    leaders: Any,
    counts: Any,
    label: Any,
    asked: Any,
) -> None:
    """Take one row to its decision, several members at a time; those beyond the decision do not count."""
    _, value, leaf_vote, tree_start, _, _ = trees
    _, _, _, weight_of, _, _, _, _ = stop
    walk_row, place, _ = walk
    n_outputs, vote, follows = alone.size - 1, np.empty(1, np.int64), _needs_leaders(stop, counts)
    n_members = (tree_start.size - 1) // n_outputs
    while member < n_members:
        ahead = min(_FEW, n_members - member)
        first = member * n_outputs
        for j in range(ahead * n_outputs):
            walk_row[j], place[j] = going[0], tree_start[first + j]
        descend(q, trees, ahead * n_outputs, balanced_depth(tree_start, first), walk)
        for j in range(ahead):
            leaf = place[j * n_outputs : (j + 1) * n_outputs]
            vote[0] = np.int64(leaf_vote[leaf[0]]) if n_outputs == 1 else 0
            best = alone[1] + value[leaf[0], 0] * alone[0]
            for output in range(1, n_outputs):
                score = alone[output + 1] + value[leaf[output], 0] * alone[0]
                if score > best:
                    best, vote[0] = score, output
            _count(going, vote, weight_of[member], follows, leaders, counts, label)
            member += 1
            if _looks(stop, member) and _decided_now(stop, member, going, leaders, counts, label, asked):
                return


@compiled
def _looks(stop: Any, asked: Any) -> Any:
    """Whether any row may stop after so many trees."""
    kind, n_trees, every, _, _, _, _, needed = stop
    if kind == _WEIGHTED:
        return 2.0 * needed[asked] <= needed[0]  # else no lead exceeds the weight asked
    return kind != _NEVER and (asked % every == 0 or asked == n_trees)


@compiled
def _decided_now(stop: Any, member: Any, going: Any, leaders: Any, counts: Any, label: Any, asked: Any) -> Any:
    """Decide those of the rows that are ``going`` which so many members are enough for, and count them.

    `stops` has the rules.
    """
    kind, n_trees, _, _, lower, upper, decision, needed = stop
    decided, follows = 0, _needs_leaders(stop, counts)
    if kind == _BINARY:
        lowest, highest = lower[member], upper[member]
        for j in range(going.size):
            row, count = going[j], counts[going[j], 1]
            if (count <= lowest or count >= highest) and label[row] < 0:
                label[row], asked[row] = np.int64(count > lowest), member
                decided += 1
        return decided
    for j in range(going.size):
        row, answer = going[j], -1
        if label[row] >= 0:
            continue
        leader, rival = leaders[row]
        if not follows:
            leader = np.int64(counts[row, 1] > counts[row, 0])
            rival = 1 - leader
        if kind == _TERNARY:
            answer = np.int64(decision[ternary_index(member, np.int64(counts[row, 0]), np.int64(counts[row, 1]))])
        elif kind == _WEIGHTED:
            lead = counts[row, leader] - counts[row, rival]
            if lead > needed[member] or (lead == needed[member] and leader < rival):
                answer = leader
        else:
            most, next_most = np.int64(counts[row, leader]), np.int64(counts[row, rival])
            is_settled = most - next_most + (leader < rival) > n_trees - member
            if is_settled or most >= upper[most + next_most]:
                answer = leader
        if answer >= 0:
            label[row], asked[row] = answer, member
            decided += 1
    return decided
