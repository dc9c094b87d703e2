"""Standardized margins of votes and averaged scores once more, row by row and tree by tree, in plain floats."""

from __future__ import annotations

import math
from statistics import fmean, stdev


def of_scores(trees: list[list[float]], cut: float) -> list[float]:
    """Mean over standard deviation of the winner's scores less each rival's, in the order of the classes.

    ``trees`` holds the scores that each tree gives one row; a single one is that of class 1, won by exceeding the cut.
    """
    if len(trees[0]) == 1:
        sign = 1.0 if fmean(score for (score,) in trees) > cut else -1.0
        return [_ratio([sign * (score - cut) for (score,) in trees])]
    means = [fmean(column) for column in zip(*trees, strict=True)]
    winner = means.index(max(means))
    rivals = [index for index in range(len(means)) if index != winner]
    return [_ratio([tree[winner] - tree[rival] for tree in trees]) for rival in rivals]


def of_votes(counts: list[int]) -> list[float]:
    """The same of votes, which are scores of 0 and 1; a class without votes is no rival."""
    voted = [label for label, votes in enumerate(counts) if votes]
    trees = [[float(label == vote) for label in voted] for vote in voted for _ in range(counts[vote])]
    return of_scores(trees, 0.0) if len(voted) > 1 else []


def _ratio(ahead: list[float]) -> float:
    spread = stdev(ahead)
    return fmean(ahead) / spread if spread > 0.0 else math.inf


def disagreement(rows: list[list[float]], n_trees: int) -> float:
    """Mean over rows of one minus the product over the rivals of Φ(√T·margin)."""
    return fmean(
        1.0 - math.prod(1.0 - 0.5 * math.erfc(margin * math.sqrt(n_trees / 2.0)) for margin in margins)
        for margins in rows
    )


def size(rows: list[list[float]], alpha: float) -> int:
    """The smallest odd number of trees that agrees with the limit on a share α of the rows, tried one by one."""
    n_trees = 1
    while disagreement(rows, n_trees) > 1.0 - alpha:
        n_trees += 2
    return n_trees


def log_likelihood(margin: float, n_trees: int, fraction: float) -> float:
    """Of a measured margin over a rival that a fraction of votes is for, up to a constant."""
    angle = math.atan(margin / math.sqrt(1.0 - 1.0 / n_trees))
    most = math.atan(max(1.0, 3.0 / math.sqrt(n_trees)))
    true = math.atan((1.0 - 2.0 * fraction) / math.sqrt(4.0 * fraction * (1.0 - fraction)))
    if angle < most:
        near, far = (-n_trees * (angle - sign * true) ** 2 / 2.0 for sign in (1.0, -1.0))
        return near + math.log1p(math.exp(far - near))
    return math.log(
        sum(0.5 * math.erfc((most - sign * true) * math.sqrt(n_trees) / math.sqrt(2.0)) for sign in (1.0, -1.0))
    )
