"""The compiled loops that add up the scores of a `Forest`, stop by a table, and predict.

Scores are added in the order and the precision in which the framework adds them, so that sums are equal to its own to
the last bit. Like `vote_kernels`, all take plain tuples, in the order of `Nodes` and `ScoreStop`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfsize.utils.jit import compiled
from rfsize.walking.kernels import balanced_depth, descend, walkers
from rfsize.walking.row_kernels import TOGETHER, leaves_of_row, places_of_row

LOGISTIC, SOFTMAX, ONE_VS_ALL, IDENTITY, EXP, SQUARE = range(6)  # in the order of `LINKS`

# Rows so few that each goes down as many trees together instead.
_FEW = 16


@compiled
def add_scores(q: Any, trees: Any, n_outputs: Any, total: Any) -> None:
    """Add the scores of all trees on quantised rows to ``total``, shape (rows, n_scores)."""
    _, _, _, tree_start, _, _ = trees
    _add_members(0, (tree_start.size - 1) // n_outputs, q, trees, n_outputs, walkers(q.shape[0]), total)


@compiled
def tree_scores(q: Any, trees: Any, n_outputs: Any, score: Any) -> None:
    """What each member adds to the sums of quantised rows; ``score`` has shape (rows, members, n_scores)."""
    _, value, _, tree_start, _, _ = trees
    walk = walkers(q.shape[0])
    row, place, _ = walk
    row[:] = np.arange(q.shape[0])
    for tree in range(tree_start.size - 1):
        place[:] = tree_start[tree]
        descend(q, trees, q.shape[0], balanced_depth(tree_start, tree), walk)
        for j in range(q.shape[0]):
            for part in range(value.shape[1]):
                score[j, tree // n_outputs, tree % n_outputs + part] = value[place[j], part]


@compiled
def settle(q: Any, trees: Any, n_outputs: Any, stop: Any, total: Any, label: Any, asked: Any) -> None:
    """Ask trees until each row's label is settled; ``label`` and ``asked`` have shape (rows,).

    ``total``, of shape (rows, n_scores), starts with what the framework's sums start with, and ends with the sums of
    the trees asked. Where rows ask all trees, ``label`` and ``asked`` stay as they are.
    """
    _, _, _, tree_start, _, _ = trees
    first_look, every, _, _, _, _ = stop
    n_members, n = (tree_start.size - 1) // n_outputs, q.shape[0]
    walk, going, member = walkers(n), np.arange(n), 0
    if n > _FEW:
        member = first_look - 1
        _add_members(0, member, q, trees, n_outputs, walk, total)
    while n > _FEW and member < n_members - 1:
        _add_member(member, q, trees, n_outputs, going[:n], walk, total)
        member += 1
        if (member - first_look) % every:
            continue
        kept = 0
        for j in range(n):
            row = going[j]
            answer = _answer(stop, member, row, total)
            if answer >= 0:
                label[row], asked[row] = answer, member
            else:
                going[kept] = row
                kept += 1
        n = kept
    place = places_of_row(n_outputs)
    for j in range(n):
        ask_ahead(going[j], member, q, trees, n_outputs, stop, place, total, label, asked)


@compiled
def _add_members(first: Any, last: Any, q: Any, trees: Any, n_outputs: Any, walk: Any, total: Any) -> None:
    """Add what some members score on all rows."""
    _, value, _, tree_start, _, _ = trees
    row, place, _ = walk
    for j in range(q.shape[0]):
        row[j] = j
    for tree in range(first * n_outputs, last * n_outputs):
        for j in range(q.shape[0]):
            place[j] = tree_start[tree]
        descend(q, trees, q.shape[0], balanced_depth(tree_start, tree), walk)
        for j in range(q.shape[0]):
            # Either several trees make up a member, or a leaf has several scores.
            for part in range(value.shape[1]):
                total[j, tree % n_outputs + part] += value[place[j], part]


@compiled
def _add_member(member: Any, q: Any, trees: Any, n_outputs: Any, going: Any, walk: Any, total: Any) -> None:
    """Add what one member scores on the rows that ask on."""
    _, value, _, tree_start, _, _ = trees
    row, place, _ = walk
    for output in range(n_outputs):
        tree = member * n_outputs + output
        for j in range(going.size):
            row[j], place[j] = going[j], tree_start[tree]
        descend(q, trees, going.size, balanced_depth(tree_start, tree), walk)
        for j in range(going.size):
            for part in range(value.shape[1]):
                total[going[j], output + part] += value[place[j], part]


@compiled
def ask_ahead(
    row: Any, member: Any, q: Any, trees: Any, n_outputs: Any, stop: Any, place: Any, total: Any, label: Any, asked: Any
) -> None:
    """Take one row to its label, several members at a time; those beyond the label do not count."""
    _, value, _, tree_start, _, _ = trees
    first_look, every, _, _, _, _ = stop
    n_members, together = (tree_start.size - 1) // n_outputs, max(1, TOGETHER // n_outputs)
    while member < n_members:
        ahead = min(together, n_members - member)
        first = member * n_outputs
        for start in range(0, ahead * n_outputs, TOGETHER):
            leaves_of_row(q, row, trees, first + start, place[start : start + TOGETHER])
        for j in range(ahead):
            for output in range(n_outputs):
                for part in range(value.shape[1]):
                    total[row, output + part] += value[place[j * n_outputs + output], part]
            member += 1
            if member < first_look or member == n_members or (member - first_look) % every:
                continue
            answer = _answer(stop, member, row, total)
            if answer >= 0:
                label[row], asked[row] = answer, member
                return


@compiled
def _answer(stop: Any, asked: Any, row: Any, total: Any) -> Any:
    """The class that a row is answered with after so many trees, -1 where it asks on."""
    _, _, low, high, needed, drift = stop
    if total.shape[1] == 1:
        score = np.float64(total[row, 0])
        return 0 if score <= low[asked] else 1 if score >= high[asked] else -1
    left, leader = 1.0 - asked / (needed.size - 1.0), 0
    most, next_most = np.float64(total[row, 0]) - left * drift[0], -np.inf
    for other in range(1, total.shape[1]):
        score = np.float64(total[row, other]) - left * drift[other]
        if score > most:
            leader, most, next_most = other, score, most
        else:
            next_most = max(score, next_most)
    return leader if most - next_most >= needed[asked] else -1


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
            _softmax(score)
        elif link != IDENTITY:
            for k in range(score.size):
                score[k] = _linked(score[k], link, own[2])
        if predicted.shape[1] > score.size:
            predicted[i, 0], predicted[i, 1] = own[2] - score[0], score[0]
        else:
            for k in range(score.size):
                predicted[i, k] = score[k]


@compiled
def _linked(score: Any, link: Any, one: Any) -> Any:
    if link == EXP:
        return math.exp(score)
    if link == SQUARE:
        return score * abs(score)
    return one / (one + math.exp(-score))


@compiled
def _softmax(score: Any) -> None:
    largest, whole = score.max(), 0.0
    for k in range(score.size):
        score[k] = math.exp(score[k] - largest)
        whole += score[k]
    rounded = np.full(1, whole).astype(score.dtype)[0]
    for k in range(score.size):
        score[k] /= rounded
