"""A curve of losses over ensemble sizes, read on logarithmic axes, size by size."""

from __future__ import annotations

import math


def loss_at(sizes: list[int], losses: list[float], n_trees: int) -> float:
    """The loss on the straight line between the next known sizes; that of the first or last size beyond them."""
    for (small, before), (large, after) in zip(
        zip(sizes, losses, strict=True), zip(sizes[1:], losses[1:], strict=False), strict=False
    ):
        if small <= n_trees <= large:
            part = math.log(n_trees / small) / math.log(large / small)
            return before ** (1.0 - part) * after**part
    return losses[0] if n_trees < sizes[0] else losses[-1]


def smallest_size(sizes: list[int], losses: list[float], level: float, step: int) -> float:
    """The smallest of the sizes 1, 1 + step, … whose loss, or that of a smaller size, is at most ``level``."""
    falling = [min(losses[: place + 1]) for place in range(len(losses))]
    for n_trees in range(1, sizes[-1] + 1, step):
        if loss_at(sizes, falling, n_trees) <= level * (1.0 + 1e-9):
            return n_trees
    return math.inf


def quantile(values: list[float], share: float) -> float:
    """The smallest value that a share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]
