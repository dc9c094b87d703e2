"""What a compiled forest says by the averaged scores of its trees: what the framework's own predict says."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.inference.few_rows import FewRows, packed_stop
from rfsize.inference.rows import Rows
from rfsize.inference.score_stops import ScoreStop, by_table, lossless, never
from rfsize.stopping.spread import SpreadStops
from rfsize.stopping.stops import AverageStops
from rfsize.utils import matrix
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.links import LINKS
from rfsize.walking.layout import Forest


class ByScores:
    """Averaged scores.

    Parameters
    ----------
    forest : Forest
        The trees.
    rows : Rows
        Its reader of rows.
    stops : AverageStops, SpreadStops or None
        Where rows stop asking about labels, or about numbers; by default where the trees left can no longer change the
        label, and never.
    """

    def __init__(self, forest: Forest, rows: Rows, stops: AverageStops | SpreadStops | None) -> None:
        self._forest, self._rows, self._stops = forest, rows, stops
        self._n_predicted = max(1, len(forest.classes))

    def labels(self, X: Any) -> tuple[Int64s, Int64s]:
        """Index of the class that each row is answered with, and how many trees it asked."""
        rows = self._few.rows(X)
        few = None if rows is None else self._few.labels(rows, self._few_stop)
        if few is not None:
            return few[0], few[1]
        from rfsize.inference.score_kernels import settle

        forest, stop = self._forest, tuple(self._stop)
        X, trees = self._rows.checked(X), tuple(forest.trees)
        label = np.full(matrix.n_rows(X), -1, dtype=np.int64)
        asked = np.full(len(label), forest.n_trees, dtype=np.int64)

        def work(q: NDArray[np.uint16], rows: slice) -> None:
            total = np.tile(forest.start, (len(q), 1))
            settle(q, trees, forest.n_outputs, stop, total, label[rows], asked[rows])
            open_ = label[rows] < 0
            if open_.any():
                label[rows][open_] = self._labels_of(self._predicted(total[open_]))

        self._rows.each_block(X, work)
        return label, asked

    def predictions(self, X: Any) -> tuple[Floats, Int64s]:
        """Probabilities of all classes, shape (n_rows, n_classes), or numbers, shape (n_rows, 1), and trees asked."""
        stops = self._stops if isinstance(self._stops, SpreadStops) else None
        rows = None if stops is not None else self._few.rows(X)
        few = None if rows is None else self._few.predictions(rows, self._few_never, self._n_predicted)
        if few is not None:
            return few, np.full(len(few), self._forest.n_trees)
        X = self._rows.checked(X)
        found = np.empty((matrix.n_rows(X), self._n_predicted))
        asked = np.full(len(found), self._forest.n_trees)

        def work(q: NDArray[np.uint16], rows: slice) -> None:
            total = np.tile(self._forest.start, (len(q), 1))
            self._add(q, stops, total, asked[rows])
            found[rows] = self._predicted(total)

        self._rows.each_block(X, work)
        return found, asked

    def _add(
        self, q: NDArray[np.uint16], stops: SpreadStops | None, total: NDArray[np.floating[Any]], asked: Int64s
    ) -> None:
        """Add up the scores of quantised rows, of as many trees as their predictions take."""
        forest, trees = self._forest, tuple(self._forest.trees)
        if stops is None:
            from rfsize.inference.score_kernels import add_scores

            add_scores(q, trees, forest.n_outputs, total)
            return
        from rfsize.inference.spread_kernels import settle_numbers

        start, scale = forest.start.astype(np.float64), forest.n_trees / forest.divisor
        settle_numbers(q, trees, forest.n_outputs, scale, start, self._spread(stops), total, asked)

    def _spread(self, stops: SpreadStops) -> tuple[Any, ...]:
        """Stops by spread as the compiled loop takes them."""
        # Both classes of two may be added up where the table knows of one: they spread alike.
        pooled, link = np.resize(stops.pooled, self._forest.n_scores), LINKS.index(stops.link.kind)
        return stops.limit, stops.every, pooled, stops.weight, link, stops.link.slope

    def _predicted(self, total: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """What is predicted from sums of scores, in their own precision."""
        from rfsize.inference.score_kernels import predict_from

        forest, conventions = self._forest, self._forest.conventions
        predicted = np.empty((len(total), self._n_predicted), dtype=total.dtype)
        predict_from(total, forest.divisor, conventions.slope, LINKS.index(conventions.link), predicted)
        return predicted

    def _labels_of(self, probability: NDArray[np.floating[Any]]) -> Int64s:
        """Index of the class that the framework predicts from probabilities."""
        if self._forest.n_scores == 1:
            return np.asarray(probability[:, 1] > self._forest.threshold, dtype=np.int64)
        return np.asarray(probability.argmax(axis=1), dtype=np.int64)

    @cached_property
    def _few(self) -> FewRows:
        return FewRows(self._forest)

    @cached_property
    def _stop(self) -> ScoreStop:
        if isinstance(self._stops, AverageStops):
            return by_table(self._forest, self._stops)
        return lossless(self._forest, cut_of(self._forest))

    @cached_property
    def _few_stop(self) -> Floats:
        return packed_stop(self._stop)

    @cached_property
    def _few_never(self) -> Floats:
        return packed_stop(never(self._forest))


def cut_of(forest: Forest) -> float:
    """Mean score above which class 1 is predicted; of two classes."""
    if forest.conventions.link == "identity":
        return forest.threshold
    return math.log(forest.threshold / (1.0 - forest.threshold)) / forest.conventions.slope
