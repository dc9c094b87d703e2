"""Probabilities and other numbers: rows stop by the spread of their own scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import MAX_CLASSES, Floats, Int64s
from rfsize.counting.training_rows import TreesOnRows, one_in
from rfsize.models.link import LINKS, Link
from rfsize.statistics.certify import Certificate, RiskTarget
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.base import TREES_BETWEEN_LOOKS, Drawing, Settling
from rfsize.stopping.rules.scores import TRIED, ScoreStops, Tallies
from rfsize.stopping.terms import MAX_TREES, Terms
from rfsize.walking.layout import PackedForest

# In the spread of one row, the pooled spread counts as much as this many trees.
_PRIOR_TREES = 16.0

# Limits to try, relative to the tolerance; and one row in this many gives the pooled spread.
_LIMITS = 1e-3, 1e2
_ROWS_PER_POOL = 10


@dataclass(frozen=True, eq=False)
class SpreadStops(ScoreStops):
    """Stop when the remaining trees can change little, judged by the spread of the trees asked.

    Scores are those of single trees, before the link. After t of T trees, m is the mean score. The variance s² around m
    includes the ``pooled`` variance with the weight of ``weight`` trees:
    s² = (weight · pooled² + Σ(x − m)²)/(weight + t − 1). A row stops when s · √(1/t − 1/T), times the steepness of the
    link at m, is at most ``limit`` for every output. The prediction is the link of m.

    Attributes
    ----------
    limit : float
        At least 0.
    pooled : ndarray of float64, shape (n_scores,)
        Standard deviation of one tree's scores around the row's mean, over rows.
    weight : float
        At least 1.
    every : int
        Number of trees between two checks of a row, because a check takes as long as a few trees.
    link : Link
        From mean scores to the predictions that the tolerance is about.
    metric : {"probabilities", "scores"}
        What the table predicts.
    tolerance : float
        How far a prediction may be from that of all trees. With several outputs, the largest distance counts.
    """

    kind = "spread"
    stored = ("limit", "pooled", "weight", "every", "link", "slope", "metric", "tolerance")
    calibrates = ("probabilities", "scores")

    limit: float
    pooled: Floats
    weight: float
    every: int
    link: Link
    metric: str
    tolerance: float

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        return True

    @classmethod
    def calibrated(cls, trees: TreesOnRows, promise: RiskTarget) -> tuple[Terms, SpreadStops, Certificate]:
        """Take the pooled spread from one row in ten, and certify on the other rows.

        The same rows must not do both: the rules to test must not depend on the rows that test them.
        """
        terms, metric, tolerance = Terms.of_forest(trees, promise), promise.metric, promise.tolerance
        n_classes = trees.forest.classes.size
        link = trees.forest.link if metric == "probabilities" or not n_classes else Link("identity")
        cautious = cls(0.0, _pooled_spread(trees), _PRIOR_TREES, TREES_BETWEEN_LOOKS, link, metric, tolerance)
        limits = np.concatenate([[0.0], tolerance * np.geomspace(*_LIMITS, TRIED - 1)])
        read = partial(_tallied_spread, cautious=cautious, cut=trees.cut, n_classes=n_classes, limits=limits)
        tallies = trees.added_up("scores", read, partial(Tallies.nothing, terms.n_classes, limits.size))
        rule = tallies.boldest(promise, terms.class_labels)
        if rule < 0:
            raise ValueError(
                f"even rows whose trees are all alike are off by more than tolerance={tolerance!r} too often for "
                f"alpha={promise.alpha!r}: give a larger tolerance, more rows or a lower alpha"
            )
        return terms, replace(cautious, limit=float(limits[rule])), tallies.certificate(rule, promise)

    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        left, mean = self.left_to_change(outputs)
        stop = left <= self.limit
        stop[:, -1] = True
        n_used = stop.argmax(axis=1) + 1
        return self.predictions(mean[np.arange(len(mean)), n_used - 1], n_classes), n_used.astype(np.int64)

    def predictions(self, mean: Floats, n_classes: int) -> Floats:
        """Predictions from mean scores of shape (…, n_scores)."""
        of_classes = n_classes if self.metric == "probabilities" else 0
        return self.link.predictions(mean, of_classes)

    def left_to_change(self, tree_scores: NDArray[Any]) -> tuple[Floats, Floats]:
        """The numbers to compare with the limit, shape (n, T), and the mean scores, shape (n, T, n_scores)."""
        n_trees = tree_scores.shape[1]
        n_used = np.arange(1, n_trees + 1)[:, None]
        mean = np.cumsum(tree_scores, axis=1, dtype=np.float64) / n_used
        # Distances from the first tree's score, because the squares of large scores would cancel.
        apart = np.subtract(tree_scores, tree_scores[:, :1], dtype=np.float64)
        squares = np.cumsum(np.square(apart), axis=1) - np.square(np.cumsum(apart, axis=1)) / n_used
        variance = (self.weight * self.pooled**2 + np.maximum(squares, 0.0)) / (self.weight + n_used - 1.0)
        trees_left = np.sqrt(1.0 / n_used[:, 0] - 1.0 / n_trees)
        left = (np.sqrt(variance) * self.link.steepness(mean)).max(axis=2) * trees_left
        left[:, (n_used[:, 0] % self.every > 0) & (n_used[:, 0] < n_trees)] = np.inf
        return left, mean

    @property
    def goes_by(self) -> str:
        return f"metric={self.metric!r}, tolerance={self.tolerance:g}"

    def to_dict(self) -> dict[str, Any]:
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

    @classmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> SpreadStops:
        limit, weight, slope, tolerance = map(fields.real, ("limit", "weight", "slope", "tolerance"))
        pooled, every = fields.numbers("pooled", float), fields.whole("every", 1, MAX_TREES)
        if limit < 0.0 or weight < 1.0 or slope <= 0.0 or tolerance <= 0.0 or (pooled < 0.0).any():
            refuse("limit and pooled must be at least 0, weight at least 1, slope and tolerance above 0")
        fits = {1: range(1, MAX_CLASSES + 1), 2: (1, 2)}.get(n_classes, (n_classes,))
        if len(pooled) not in fits:
            refuse(f"pooled must hold one number for each score of a tree, found {len(pooled)} for {n_classes} classes")
        metric = fields.choice("metric", ("probabilities", "scores") if n_classes > 1 else ("scores",))
        return cls(limit, pooled, weight, every, Link(fields.choice("link", LINKS), slope), metric, tolerance)

    def on(self, forest: PackedForest) -> Settling:
        return _NumbersBySpread(self, forest)

    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        """The largest spread of the trees' scores that stops a row, in the unit of the predictions."""
        n_used = np.arange(1, n_trees)
        most = self.limit / np.sqrt(1.0 / n_used - 1.0 / n_trees)
        going, stops = (most, np.full(len(most), most.max(initial=0.0))), {"stop: scores spread by no more": most}
        return Drawing(n_used, going, stops, "trees asked", f"standard deviation of the trees,\nas {self.metric}")


@dataclass(frozen=True, eq=False)
class _NumbersBySpread(Settling):
    """Stops by the spread of scores, run on rows of a forest."""

    stops: SpreadStops
    forest: PackedForest

    @cached_property
    def _native(self) -> _core.SpreadStop:
        stops, forest = self.stops, self.forest
        # A forest of two classes can add up both scores while the table has one; both scores have the same spread.
        pooled, link = np.resize(stops.pooled, forest.n_scores), LINKS.index(stops.link.kind)
        start, scale = forest.start.astype(np.float64), forest.n_trees / forest.divisor
        return _core.SpreadStop(stops.limit, stops.every, pooled, stops.weight, link, stops.link.slope, scale, start)

    def settle(self, rows: _core.Rows, answer: NDArray[Any], n_used: Int64s) -> None:
        self._native.settle(rows, answer, n_used)


def _tallied_spread(
    scores: NDArray[Any], place: Int64s, *, cautious: SpreadStops, cut: float, n_classes: int, limits: Floats
) -> Tallies:
    """What each limit on the spread does, on all rows but those that gave the pooled spread."""
    with np.errstate(over="ignore", invalid="ignore"):  # a link far from the scores of any row
        left, mean = cautious.left_to_change(scores[~one_in(_ROWS_PER_POOL, place)])
        predicted = cautious.predictions(mean, n_classes)
        differs = np.abs(predicted - predicted[:, -1:]).max(axis=2) > cautious.tolerance
    always = np.ones(scores.shape[1])
    return Tallies.of(-left, differs, _labels_of(mean[:, -1], cut, n_classes), -limits, always, max(1, n_classes))


def _pooled_spread(trees: TreesOnRows) -> Floats:
    """Standard deviation of the scores around the mean of their row, from one row in ten; shape (n_scores,)."""
    squares = np.concatenate(trees.added_up("scores", _squares, list))
    return np.sqrt(squares.sum(axis=0) / max(len(squares) * (trees.forest.n_trees - 1), 1))


def _squares(scores: NDArray[Any], place: Int64s) -> list[Floats]:
    """The squared distances of scores from the mean of their row, for one row in ten.

    They are kept row by row, because the last bits of a sum would depend on the blocks of rows.
    """
    given = scores[one_in(_ROWS_PER_POOL, place)].astype(np.float64)
    mean = np.sum(given, axis=1, keepdims=True) / given.shape[1]
    return [np.sum((given - mean) ** 2, axis=1)]


def _labels_of(mean: Floats, cut: float, n_classes: int) -> Int64s:
    """Class by mean scores; 0 for a regression."""
    if not n_classes:
        return np.zeros(len(mean), dtype=np.int64)
    return mean.argmax(axis=1) if mean.shape[1] > 1 else (mean[:, 0] > cut).astype(np.int64)
