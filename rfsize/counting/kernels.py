"""The compiled loops over rows × trees of counting; see `rfsize.walking.together` for how trees are walked."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.utils.jit import compiled
from rfsize.walking.together import TOGETHER, gather, group, to_leaves


@compiled
def reach(q: Any, trees: Any, index: Any, leaf: Any) -> None:
    """Write into ``leaf``, shape (rows, trees), the ``index`` of the leaf that each quantised row reaches."""
    _, _, _, tree_start, _, _ = trees
    together, rows = group(min(TOGETHER, q.shape[0]), q.shape[1], trees), np.arange(q.shape[0])
    for first in range(0, q.shape[0], TOGETHER):
        going, reached = rows[first : first + TOGETHER], leaf[first : first + TOGETHER]
        gather(q, going, together)
        for tree in range(tree_start.size - 1):
            place = to_leaves(q, going.size, trees, tree, together)
            for j in range(place.size):
                reached[j, tree] = index[place[j]]


@compiled
def count_votes(vote: Any, may_vote: Any, counts: Any) -> None:
    """Add to ``counts``, shape (rows, classes), the votes of the members that may vote, both of (rows, members)."""
    for i in range(vote.shape[0]):
        if counts.shape[1] == 2:
            ones = asked = np.int64(0)
            for member in range(vote.shape[1]):
                ones += np.int64(may_vote[i, member]) & np.int64(vote[i, member])
                asked += np.int64(may_vote[i, member])
            counts[i, 0] += asked - ones
            counts[i, 1] += ones
        else:
            for member in range(vote.shape[1]):
                counts[i, np.int64(vote[i, member])] += np.int64(may_vote[i, member])


@compiled
def add_up_one_score(leaf: Any, may_vote: Any, raw: Any, asked: Any, mean: Any, scatter: Any) -> None:
    """Write the mean of the scores and their scatter, as `Scores` has them, where members are one tree of one score."""
    score = np.empty(leaf.shape[1])
    for i in range(leaf.shape[0]):
        n = 0
        for member in range(leaf.shape[1]):
            score[n] = raw[_checked(leaf[i, member, 0], raw), 0]
            n += np.int64(may_vote[i, member])
        total = 0.0
        for j in range(n):
            total += score[j]
        middle = total / max(n, 1)
        squares = 0.0
        for j in range(n):
            squares += (score[j] - middle) ** 2
        asked[i], mean[i, 0], scatter[i, 0] = n, middle, squares


@compiled
def add_up_scores(leaf: Any, may_vote: Any, raw: Any, asked: Any, mean: Any, scatter: Any) -> None:
    """`add_up_one_score` where members have a score for each class, of one tree or of several."""
    n_members, n_outputs = leaf.shape[1], leaf.shape[2]
    n_scores = mean.shape[1]
    score = np.empty((n_members, n_scores))
    for i in range(leaf.shape[0]):
        n = 0
        for member in range(n_members):
            if may_vote[i, member]:
                for k in range(n_scores):
                    if n_outputs > 1:
                        score[n, k] = raw[_checked(leaf[i, member, k], raw), 0]
                    else:
                        score[n, k] = raw[_checked(leaf[i, member, 0], raw), k]
                n += 1
        asked[i] = n
        for k in range(n_scores):
            total = 0.0
            for j in range(n):
                total += score[j, k]
            mean[i, k] = total / max(n, 1)
        for j in range(n):
            pair = 0
            for k in range(n_scores):
                away = score[j, k] - mean[i, k]
                for other in range(k, n_scores):
                    scatter[i, pair] += away * (score[j, other] - mean[i, other])
                    pair += 1


@compiled
def add_at_leaves(leaf: Any, seen: Any, value: Any, total: Any) -> None:
    """Add to ``total``, by leaf, the values of rows, members and outputs that are ``seen``.

    Either's last two dimensions may be 1 where members or outputs share a value, or a bag.
    """
    members, outputs = np.int64(value.shape[1] > 1), np.int64(value.shape[2] > 1)
    several_bags = np.int64(seen.shape[2] > 1)
    for i in range(leaf.shape[0]):
        if leaf.shape[2] == 1 and value.shape[1] == 1:
            shared = value[i, 0, 0]
            for member in range(leaf.shape[1]):
                total[_checked(leaf[i, member, 0], total)] += shared if seen[i, member, 0] else 0.0
            continue
        for member in range(leaf.shape[1]):
            for output in range(leaf.shape[2]):
                index = _checked(leaf[i, member, output], total)
                added = value[i, member * members, output * outputs]
                total[index] += added if seen[i, member, output * several_bags] else 0.0


@compiled
def _checked(index: Any, table: Any) -> Any:
    """An index that a framework gave: no loop may read or write beyond a table."""
    place = np.uint64(index)  # which is beyond as well where the index is negative
    if place >= np.uint64(table.shape[0]):
        raise IndexError("a leaf_index names a leaf that its tree does not have")
    return place
