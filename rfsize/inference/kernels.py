"""The compiled loops over a `Forest`: quantising rows, walking down trees, and stopping by a table.

They take plain tuples in the order of `Nodes`, `Columns`, `Reading` and `Stop`: numba's files on disk would name the
classes, and fail to load when a later version of rfsize has others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rfsize.adapters.trees import Missing
from rfsize.inference import layout
from rfsize.stopping.kernels import ternary_index
from rfsize.stopping.stops import BinaryStops, Stops, TernaryStops, WeightedStops
from rfsize.utils.jit import compiled

# Values that are quantised together.
_BLOCK = 512
# Steps between two looks at which rows have reached a leaf.
_STEPS = 2
# Rows so few that each goes down as many trees together instead.
_FEW = 16

_NEVER, _BINARY, _TERNARY, _LEADERS, _WEIGHTED = 0, 1, 2, 3, 4

_HIGHEST, _LEFT_SHIFT, _COLUMN_SHIFT = layout.HIGHEST_RANK, layout.LEFT_SHIFT, layout.COLUMN_SHIFT
_COLUMN_MASK, _RANK_MASK, _CATEGORICAL = layout.COLUMN_MASK, layout.RANK_MASK, layout.CATEGORICAL
_ZERO_RIGHT, _ZERO_LEFT = int(Missing.ZERO_RIGHT), int(Missing.ZERO_LEFT)
_NAN_RIGHT, _NAN_LEFT, _CATEGORY = int(Missing.NAN_RIGHT), int(Missing.NAN_LEFT), int(Missing.CATEGORY)
_ONE = np.uint64(1)

# ---------------------------------------------------------------------------------------------------------
# Quantising


@compiled
def quantise_dense(X: Any, columns: Any, reading: Any, out: Any) -> None:
    """Quantise the rows of a dense matrix into ``out``, shape (rows, columns)."""
    feature, _, _, _, _, _ = columns
    value, key, rank = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK, np.uint64)
    for first in range(0, X.shape[0], _BLOCK):
        rows = min(_BLOCK, X.shape[0] - first)
        for entry in range(feature.size):
            for i in range(rows):
                value[i] = _read(X[first + i, feature[entry]], reading)
            _quantise(value, rows, entry, columns, reading, key, rank, out[first : first + rows])


@compiled
def quantise_sparse(
    data: Any, index: Any, start: Any, absent: Any, entry_of: Any, columns: Any, reading: Any, out: Any
) -> None:
    """Quantise the rows of a compressed sparse row matrix.

    ``absent`` is the quantised row that stores nothing, and ``entry_of`` the first entry of each feature.
    """
    value, key, rank = np.empty(1), np.empty(1), np.empty(1, np.uint64)
    for i in range(out.shape[0]):
        out[i] = absent
        for stored in range(start[i], start[i + 1]):
            feature = index[stored]
            value[0] = _read(data[stored], reading)
            for entry in range(entry_of[feature], entry_of[feature + 1]):
                _quantise(value, 1, entry, columns, reading, key, rank, out[i : i + 1])


@compiled
def _read(value: Any, reading: Any) -> Any:
    """A value as the framework reads it, NaN where it is missing."""
    single_precision, missing, zero_within, _ = reading
    number = np.float64(value)
    if single_precision:
        number = np.float64(np.float32(number))
    if number == missing:
        return np.nan
    return 0.0 if abs(number) <= zero_within else number


@compiled
def _quantise(value: Any, rows: Any, entry: Any, columns: Any, reading: Any, key: Any, rank: Any, out: Any) -> None:
    """Fill the columns of one feature from its values."""
    _, cut_start, cuts, start, kind, base = columns
    cuts = cuts[cut_start[entry] : cut_start[entry + 1]]
    first, last = start[entry], start[entry + 1]
    is_category = kind[first] == _CATEGORY
    for i in range(rows):
        number = 0.0 if np.isnan(value[i]) else value[i]
        key[i] = np.trunc(number) if is_category else number
    _rank(key, rows, cuts, rank)
    if is_category:
        for i in range(rows):
            out[i, first] = _category(value[i], key[i], np.int64(rank[i]), cuts, reading[3])
        return
    for column in range(first, last):
        missing, lowest = kind[column], base[column]
        for i in range(rows):
            is_zero = value[i] == 0.0 or np.isnan(value[i])
            if (missing == _ZERO_RIGHT and is_zero) or (missing == _NAN_RIGHT and np.isnan(value[i])):
                out[i, column] = _HIGHEST
            elif (missing == _ZERO_LEFT and is_zero) or (missing == _NAN_LEFT and np.isnan(value[i])):
                out[i, column] = 0
            else:
                out[i, column] = min(max(np.int64(rank[i]) - lowest, 0), _HIGHEST)


@compiled
def _rank(key: Any, rows: Any, cuts: Any, rank: Any) -> None:
    """How many of the ascending ``cuts`` are below each key.

    All rows take each step of the bisection together, so that none waits for its comparison to be decided.
    """
    for i in range(rows):
        rank[i] = 0
    size = np.uint64(cuts.size)
    while size > _ONE:
        half = size >> _ONE
        for i in range(rows):
            rank[i] += half * np.uint64(cuts[rank[i] + half - _ONE] < key[i])
        size -= half
    if size == _ONE:
        for i in range(rows):
            rank[i] += np.uint64(cuts[rank[i]] < key[i])


@compiled
def _category(value: Any, whole: Any, rank: Any, known: Any, lowest: Any) -> Any:
    """Rank of a category: one more than those of all known ones where it is missing, two where it is unknown."""
    if np.isnan(value):
        return known.size
    if value > lowest and rank < known.size and known[rank] == whole:
        return rank
    return known.size + 1


# ---------------------------------------------------------------------------------------------------------
# Voting


class _Space(NamedTuple):
    """Working memory for a block of rows, by their order among those still voting."""

    row: Any
    place: Any
    open: Any
    vote: Any
    best: Any


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
    def of(cls, stops: Stops | None, n_trees: int, every: int = 1) -> Stop:
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
def decide(q: Any, trees: Any, n_outputs: Any, stop: Any, counts: Any, label: Any, asked: Any) -> None:
    """Ask trees until each row's votes are decided; ``label`` and ``asked`` have shape (rows,).

    ``counts``, of shape (rows, classes), starts at zero and ends with the votes that each row asked for, or their
    weights. Where ``stop`` never stops, these are all votes; ``label`` and ``asked`` then stay as they are, as they do
    on rows whose weighted votes are level up to rounding.
    """
    _, _, _, tree_start, _, _ = trees
    _, _, _, weight_of, _, _, _, _ = stop
    n_members, n = (tree_start.size - 1) // n_outputs, q.shape[0]
    walk = _walkers(max(n, _FEW * n_outputs))
    voting, vote, best, answer = np.arange(n), np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64)
    member = 0
    while n > _FEW and member < n_members:
        _ask_member(member, q, trees, n_outputs, voting[:n], walk, vote, best)
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
        _ask_ahead(voting[j : j + 1], member, q, trees, n_outputs, stop, walk, counts, answer, label, asked)


@compiled
def cast(q: Any, trees: Any, n_outputs: Any, votes: Any) -> None:
    """Let every member vote on quantised rows; ``votes`` has shape (rows, members)."""
    n = q.shape[0]
    walk, best = _walkers(n), np.empty(n)
    voting, vote = np.arange(n), np.empty(n, np.int64)
    for member in range(votes.shape[1]):
        _ask_member(member, q, trees, n_outputs, voting, walk, vote, best)
        votes[:, member] = vote


@compiled
def add_scores(q: Any, trees: Any, n_outputs: Any, total: Any) -> None:
    """Add the scores of all trees on quantised rows to ``total``, shape (rows, 1 or classes)."""
    _, value, _, tree_start, _, _ = trees
    walk = _walkers(q.shape[0])
    row, place, _ = walk
    row[:] = np.arange(q.shape[0])
    for tree in range(tree_start.size - 1):
        place[:] = tree_start[tree]
        _descend(q, trees, q.shape[0], _balanced_depth(tree_start, tree), walk)
        for j in range(q.shape[0]):
            # Either several trees make up a member, or a leaf has several scores.
            for score in range(value.shape[1]):
                total[j, tree % n_outputs + score] += value[place[j], score]


@compiled
def _ask_member(member: Any, q: Any, trees: Any, n_outputs: Any, voting: Any, walk: Any, vote: Any, best: Any) -> None:
    """Let one member vote on the rows still voting."""
    _, value, leaf_vote, tree_start, _, _ = trees
    row, place, _ = walk
    for output in range(n_outputs):
        tree = member * n_outputs + output
        for j in range(voting.size):
            row[j], place[j] = voting[j], tree_start[tree]
        _descend(q, trees, voting.size, _balanced_depth(tree_start, tree), walk)
        for j in range(voting.size):
            if n_outputs == 1:
                vote[j] = leaf_vote[place[j]]
            elif output == 0 or value[place[j], 0] > best[j]:
                best[j], vote[j] = value[place[j], 0], output


@compiled
def _ask_ahead(
    voting: Any,
    member: Any,
    q: Any,
    trees: Any,
    n_outputs: Any,
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
    n_members, row = (tree_start.size - 1) // n_outputs, voting[0]
    while member < n_members:
        ahead = min(_FEW, n_members - member)
        first = member * n_outputs
        for j in range(ahead * n_outputs):
            walk_row[j], place[j] = row, tree_start[first + j]
        _descend(q, trees, ahead * n_outputs, _balanced_depth(tree_start, first), walk)
        for j in range(ahead):
            leaf = place[j * n_outputs : (j + 1) * n_outputs]
            vote = 0
            if n_outputs == 1:
                vote = np.int64(leaf_vote[leaf[0]])
            for output in range(1, n_outputs):
                if value[leaf[output], 0] > value[leaf[vote], 0]:
                    vote = output
            counts[row, vote] += weight_of[member]
            member += 1
            if not _looks(stop, member):
                continue
            _answer(stop, member, voting, counts, answer)
            if answer[0] >= 0:
                label[row], asked[row] = answer[0], member
                return


@compiled
def _walkers(n: Any) -> Any:
    """Memory for walkers down trees: the row of each, its node, and which of them have not reached a leaf."""
    return np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.uint32)


@compiled
def _balanced_depth(tree_start: Any, tree: Any) -> Any:
    """Depth that a tree of as many nodes has at least."""
    nodes, depth = tree_start[tree + 1] - tree_start[tree], 0
    while 2 << depth <= nodes:
        depth += 1
    return depth


@compiled
def _descend(q: Any, trees: Any, n: Any, steps: Any, walk: Any) -> None:
    """Take ``n`` walkers down to leaves.

    All take each step together, so that none waits for the memory of another. After ``steps`` of them only those go
    on that have not reached a leaf.
    """
    row, place, open_ = walk
    nodes, _, _, _, bit_start, bits = trees
    categorical = bits.size > 0
    for _ in range(steps):
        for j in range(n):
            place[j] = _child(q, nodes, bit_start, bits, categorical, row[j], place[j])
    for j in range(n):
        open_[j] = j
    while n > 0:
        kept = 0
        for k in range(n):
            j = open_[k]
            open_[kept] = j
            kept += np.int64((nodes[place[j]] & _RANK_MASK) != _RANK_MASK)
        n = kept
        for _ in range(_STEPS):
            for k in range(n):
                j = open_[k]
                place[j] = _child(q, nodes, bit_start, bits, categorical, row[j], place[j])


@compiled
def _child(q: Any, nodes: Any, bit_start: Any, bits: Any, categorical: Any, row: Any, place: Any) -> Any:
    """The node that a row goes to from a node; from a leaf, the leaf itself."""
    node = nodes[place]
    value = q[row, (node >> _COLUMN_SHIFT) & _COLUMN_MASK]
    if categorical and node & _CATEGORICAL:
        word = bits[bit_start[place] + (value >> 5)]
        return (node >> _LEFT_SHIFT) + (np.uint64(~word) >> np.uint64(value & 31) & _ONE)
    return (node >> _LEFT_SHIFT) + np.uint64(np.uint64(value) > (node & _RANK_MASK))


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
