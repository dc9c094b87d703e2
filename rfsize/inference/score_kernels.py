"""The compiled loops that add up the scores of a `Forest`, stop by a table, and predict.

Scores are added in the order and the precision in which the framework adds them, so that sums are equal to its own to
the last bit. Like `vote_kernels`, all take plain tuples, in the order of `Nodes` and `ScoreStop`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfsize.utils.jit import compiled
from rfsize.walking.row_kernels import AT_ONCE, leaves_of_row, places_of_row
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

LOGISTIC, SOFTMAX, ONE_VS_ALL, IDENTITY, EXP, SQUARE = range(6)  # in the order of `LINKS`

# Rows so few that each goes down as many trees together instead.
_FEW = 16


@compiled
def add_scores(q: Any, trees: Any, n_outputs: Any, total: Any) -> None:
    """Add the scores of all trees on quantised rows to ``total``, shape (rows, n_scores)."""
    _, value, _, tree_start, _, _ = trees
    together, rows = group(min(TOGETHER, q.shape[0]), q.shape[1], trees), np.arange(q.shape[0])
    for first in range(0, q.shape[0], TOGETHER):
        going, sums = rows[first : first + TOGETHER], total[first : first + TOGETHER]
        gather(q, going, together)
        for tree in range(tree_start.size - 1):
            leaf = to_leaves(q, going.size, trees, tree, together)
            # Either several trees make up a member, or a leaf has several scores.
            for part in range(value.shape[1]):
                for j in range(leaf.size):
                    sums[j, tree % n_outputs + part] += value[leaf[j], part]


@compiled
def settle(q: Any, trees: Any, n_outputs: Any, stop: Any, total: Any, label: Any, asked: Any) -> None:
    """Ask trees until each row's label is settled; ``label`` and ``asked`` have shape (rows,).

    ``total``, of shape (rows, n_scores), starts with what the framework's sums start with, and ends with the sums of
    all trees where rows ask all; of these, ``label``, which is -1 before, and ``asked`` stay as they are.
    """
    _, _, _, tree_start, _, _ = trees
    # A plain 0 is a type of its own, for which all that takes it would be compiled once more.
    n_members, member, n = (tree_start.size - 1) // n_outputs, np.int64(0), q.shape[0]
    going, together = np.arange(n), group(min(TOGETHER, n), q.shape[1], trees)
    last = max(stop[0], FIRST_STAGE)
    while n > _FEW and member < n_members:
        # Stage by stage, so that those who ask on are many enough to go down trees together.
        last, kept = min(last, n_members), np.int64(0)
        for first in range(0, n, TOGETHER):
            some = going[first : min(first + TOGETHER, n)]
            open_ = _settle_together(q, some, member, last, trees, n_outputs, stop, together, total, label, asked)
            kept = moved_up(going, kept, first, open_)
        n, member, last = kept, last, last * STAGES_GROW
    place = places_of_row(n_outputs)
    for j in range(n):
        ask_ahead(going[j : j + 1], member, q, trees, n_outputs, stop, place, total, label, asked)


@compiled
def _settle_together(
    q: Any,
    going: Any,
    member: Any,
    last: Any,
    trees: Any,
    n_outputs: Any,
    stop: Any,
    together: Any,
    total: Any,
    label: Any,
    asked: Any,
) -> Any:
    """Ask some members about the rows that are ``going``, and count those still open, which then stand in front.

    Rows that are settled go on until they are many.
    """
    _, value, _, tree_start, _, _ = trees
    first_look, every, _, _, _, _ = stop
    n_members, n, open_ = (tree_start.size - 1) // n_outputs, going.size, going.size
    gather(q, going, together)
    while member < last and open_ > 0:
        for output in range(n_outputs):
            leaf = to_leaves(q, n, trees, member * n_outputs + output, together)
            for part in range(value.shape[1]):
                for j in range(n):
                    total[going[j], output + part] += value[leaf[j], part]
        member += 1
        if member < first_look or member == n_members or (member - first_look) % every:
            continue
        open_ -= _settled_now(stop, member, going[:n], total, label, asked)
        if open_ <= SHARE_OPEN * n:
            n = leave_out(label, going[:n], together)
    return still_open(label, going[:n])


@compiled
def ask_ahead(
    going: Any,
    member: Any,
    q: Any,
    trees: Any,
    n_outputs: Any,
    stop: Any,
    place: Any,
    total: Any,
    label: Any,
    asked: Any,
) -> None:
    """Take the one row that is ``going`` to its label, several members at a time; those beyond it do not count."""
    _, value, _, tree_start, _, _ = trees
    first_look, every, _, _, _, _ = stop
    n_members, together, row = (tree_start.size - 1) // n_outputs, max(1, AT_ONCE // n_outputs), going[0]
    while member < n_members:
        ahead = min(together, n_members - member)
        first = member * n_outputs
        for start in range(0, ahead * n_outputs, AT_ONCE):
            leaves_of_row(q, row, trees, first + start, place[start : start + AT_ONCE])
        for j in range(ahead):
            for output in range(n_outputs):
                for part in range(value.shape[1]):
                    total[row, output + part] += value[place[j * n_outputs + output], part]
            member += 1
            if member < first_look or member == n_members or (member - first_look) % every:
                continue
            if _settled_now(stop, member, going, total, label, asked):
                return


@compiled
def _settled_now(stop: Any, member: Any, going: Any, total: Any, label: Any, asked: Any) -> Any:
    """Settle those of the rows that are ``going`` which so many members are enough for, and count them."""
    _, _, low, high, needed, drift = stop
    settled = 0
    if total.shape[1] == 1:
        lowest, highest = low[member], high[member]
        for j in range(going.size):
            row, score = going[j], np.float64(total[going[j], 0])
            if (score <= lowest or score >= highest) and label[row] < 0:
                label[row], asked[row] = np.int64(score > lowest), member
                settled += 1
        return settled
    left, lead = 1.0 - member / (needed.size - 1.0), needed[member]
    for j in range(going.size):
        row, leader = going[j], 0
        most, next_most = np.float64(total[row, 0]) - left * drift[0], -np.inf
        for other in range(1, total.shape[1]):
            score = np.float64(total[row, other]) - left * drift[other]
            if score > most:
                leader, most, next_most = other, score, most
            else:
                next_most = max(score, next_most)
        if most - next_most >= lead and label[row] < 0:
            label[row], asked[row] = leader, member
            settled += 1
    return settled


@compiled
def predict_from(total: Any, divisor: Any, slope: Any, link: Any, predicted: Any) -> None:
    """What the framework predicts from sums of scores, in the precision of the sums.

    ``predicted`` has shape (rows, n_classes), or (rows, 1) for regression, and may be of double precision.
    """
    score, own = np.empty(total.shape[1], total.dtype), np.empty(3, total.dtype)
    own[0], own[1], own[2] = divisor, slope, 1.0
    for i in range(total.shape[0]):
        for k in range(score.size):
            score[k] = own[1] * (total[i, k] / own[0])
        if link == SOFTMAX:
            softmax(score)
        elif link != IDENTITY:
            for k in range(score.size):
                score[k] = linked(score[k], link, own[2])
        if predicted.shape[1] > score.size:
            predicted[i, 0], predicted[i, 1] = own[2] - score[0], score[0]
        else:
            for k in range(score.size):
                predicted[i, k] = score[k]


@compiled
def linked(score: Any, link: Any, one: Any) -> Any:
    if link == EXP:
        return math.exp(score)
    if link == SQUARE:
        return score * abs(score)
    return one / (one + math.exp(-score))


@compiled
def softmax(score: Any) -> None:
    # Loops, for what numba makes of NumPy's max and astype takes half a second to compile.
    largest, whole = score[0], 0.0
    for k in range(1, score.size):
        largest = max(largest, score[k])
    for k in range(score.size):
        score[k] = math.exp(score[k] - largest)
        whole += score[k]
    rounded = score.dtype.type(whole)
    for k in range(score.size):
        score[k] /= rounded
