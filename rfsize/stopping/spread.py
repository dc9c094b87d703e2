"""Stops by the spread of a row's own scores, for probabilities and other numbers that a forest predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.links import Link

PRIOR_TREES = 16.0
"""Trees that the pooled spread counts for, in that of one row."""

TREES_BETWEEN_LOOKS = 8
"""Trees after which a row is looked at again."""


@dataclass(frozen=True, eq=False)
class SpreadStops:
    """Predicted numbers: stop when what the trees left may change is small, by the spread of the trees asked.

    Scores are those of a tree alone, before the link. After t of T trees, m is the mean score and s² the variance of
    the scores around it, shrunk to the ``pooled`` one as if that were of ``weight`` trees more:
    s² = (weight · pooled² + Σ(x − m)²)/(weight + t − 1). Voting stops when s · √(1/t − 1/T), times the steepness of
    the link at m, is at most ``limit``, for the output where it is largest; the prediction is the link of m.

    Attributes
    ----------
    limit : float
        At least 0.
    pooled : ndarray of float64, shape (n_scores,)
        Standard deviation of one tree's scores around the row's mean, over rows.
    weight : float
        At least 1.
    every : int
        Rows may stop after each so many trees: to look costs as much as to walk down a few.
    link : Link
        From mean scores to what must keep within the tolerance.
    metric : {"probabilities", "scores"}
        What the table's predictions are.
    tolerance : float
        How far a prediction may be from that of all trees, in the output where it is farthest.
    """

    kind: ClassVar[str] = "spread"

    limit: float
    pooled: Floats
    weight: float
    every: int
    link: Link
    metric: str
    tolerance: float

    def settle(self, tree_scores: NDArray[Any], n_classes: int) -> tuple[Floats, Int64s]:
        """Predictions and trees asked, for scores of shape (n, T, n_scores)."""
        left, mean = self.left_to_change(tree_scores)
        stop = left <= self.limit
        stop[:, -1] = True
        asked = stop.argmax(axis=1) + 1
        return self.predictions(mean[np.arange(len(mean)), asked - 1], n_classes), asked.astype(np.int64)

    def predictions(self, mean: Floats, n_classes: int) -> Floats:
        """What is predicted from mean scores of shape (…, n_scores)."""
        of_classes = n_classes if self.metric == "probabilities" else 0
        return self.link.predictions(mean, of_classes)

    def left_to_change(self, tree_scores: NDArray[Any]) -> tuple[Floats, Floats]:
        """What is compared with the limit, shape (n, T), and the mean scores, shape (n, T, n_scores)."""
        n_trees = tree_scores.shape[1]
        asked = np.arange(1, n_trees + 1)[:, None]
        total = np.cumsum(tree_scores, axis=1, dtype=np.float64)
        mean = total / asked
        squares = np.cumsum(np.square(tree_scores, dtype=np.float64), axis=1) - total * mean
        variance = (self.weight * self.pooled**2 + np.maximum(squares, 0.0)) / (self.weight + asked - 1.0)
        trees_left = np.sqrt(1.0 / asked[:, 0] - 1.0 / n_trees)
        left = (np.sqrt(variance) * self.link.steepness(mean)).max(axis=2) * trees_left
        left[:, (asked[:, 0] % self.every > 0) & (asked[:, 0] < n_trees)] = np.inf
        return left, mean

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain values."""
        return {
            "limit": self.limit,
            "pooled": self.pooled.tolist(),
            "weight": self.weight,
            "every": self.every,
            "link": self.link.kind,
            "slope": self.link.slope,
            "metric": self.metric,
            "tolerance": self.tolerance,
        }
