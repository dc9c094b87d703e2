"""The compiled loop that stops where the spread of a row's own scores says that its prediction will hardly change."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.inference.score_kernels import (
    EXP,
    IDENTITY,
    SOFTMAX,
    SQUARE,
    linked,
    softmax,
)
from rfsize.utils.jit import compiled
from rfsize.walking.together import SHARE_OPEN, TOGETHER, gather, group, leave_out, to_leaves


@compiled
def settle_numbers(
    q: Any, trees: Any, n_outputs: Any, scale: Any, start: Any, spread: Any, total: Any, asked: Any
) -> None:
    """Ask trees until each row's prediction is settled, as `SpreadStops` has it; ``asked`` has shape (rows,).

    ``total``, of shape (rows, n_scores), starts with ``start``, and ends with sums of all trees, where rows that
    stopped have those that their mean scores would sum up to. A tree alone scores ``scale`` times its value and
    ``start`` more.
    """
    together, rows = group(min(TOGETHER, q.shape[0]), q.shape[1], trees), np.arange(q.shape[0])
    sums, settled = np.zeros((2, q.shape[0], start.size)), np.full(q.shape[0], -1, np.int64)
    for first in range(0, q.shape[0], TOGETHER):
        going = rows[first : first + TOGETHER]
        _settle_together(q, going, trees, n_outputs, scale, start, spread, together, sums, settled, total, asked)


@compiled
def _settle_together(
    q: Any,
    going: Any,
    trees: Any,
    n_outputs: Any,
    scale: Any,
    start: Any,
    spread: Any,
    together: Any,
    sums: Any,
    settled: Any,
    total: Any,
    asked: Any,
) -> None:
    """Settle the rows that are ``going``; ``sums`` are those of values and of their squares."""
    _, value, _, tree_start, _, _ = trees
    limit, every, _, _, _, _ = spread
    n_members, n, open_ = (tree_start.size - 1) // n_outputs, going.size, going.size
    mean, predicted = np.empty(start.size), np.empty(start.size)
    gather(q, going, together)
    for member in range(n_members):
        for output in range(n_outputs):
            leaf = to_leaves(q, n, trees, member * n_outputs + output, together)
            for part in range(value.shape[1]):
                k = output + part
                for j in range(n):
                    row, added = going[j], value[leaf[j], part]
                    if settled[row] < 0:
                        total[row, k] += added
                        sums[0, row, k] += added
                        sums[1, row, k] += np.float64(added) * added
        if (member + 1) % every or member + 1 == n_members:
            continue
        for j in range(n):
            row = going[j]
            if settled[row] >= 0:
                continue
            left = _left_to_change(member + 1, n_members, scale, start, spread, sums[:, row], mean, predicted)
            if left <= limit:
                for k in range(start.size):
                    total[row, k] = start[k] + (mean[k] - start[k]) * n_members / scale
                asked[row], settled[row] = member + 1, 0
                open_ -= 1
        if open_ <= SHARE_OPEN * n:
            n = leave_out(settled, going[:n], together)
        if open_ == 0:
            return


@compiled
def _left_to_change(
    asked: Any, n_members: Any, scale: Any, start: Any, spread: Any, sums: Any, mean: Any, predicted: Any
) -> Any:
    """What is compared with the limit; fills ``mean`` with mean scores, and needs ``predicted`` on the way."""
    _, _, pooled, weight, link, slope = spread
    for k in range(start.size):
        mean[k] = start[k] + scale * sums[0, k] / asked
        predicted[k] = slope * mean[k]
    if link == SOFTMAX:
        softmax(predicted)
    elif link not in (IDENTITY, SQUARE):
        for k in range(start.size):
            predicted[k] = linked(predicted[k], link, 1.0)
    largest = 0.0
    for k in range(start.size):
        squares = max(scale * scale * (sums[1, k] - sums[0, k] * sums[0, k] / asked), 0.0)
        variance = (weight * pooled[k] * pooled[k] + squares) / (weight + asked - 1.0)
        steepness = slope
        if link == EXP:
            steepness = slope * predicted[k]
        elif link == SQUARE:
            steepness = 2.0 * slope * slope * abs(mean[k])
        elif link != IDENTITY:
            steepness = slope * predicted[k] * (1.0 - predicted[k])
        largest = max(largest, np.sqrt(variance) * steepness)
    return largest * np.sqrt(1.0 / asked - 1.0 / n_members)
