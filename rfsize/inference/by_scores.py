"""What a compiled forest says by the averaged scores of its trees: what the framework's own predict says."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.inference.few_rows import FewRows, predicting
from rfsize.inference.rows import Rows
from rfsize.stopping.rules.averages import AverageStops
from rfsize.stopping.rules.base import Stops
from rfsize.stopping.rules.on_sums import lossless
from rfsize.stopping.rules.spread import SpreadStops
from rfsize.utils import matrix
from rfsize.utils.typing import Floats, Int64s
from rfsize.walking.layout import Forest


class ByScores:
    """Averaged scores.

    Parameters
    ----------
    forest : Forest
        The trees.
    rows : Rows
        Its reader of rows.
    stops : Stops or None
        Where rows stop asking about labels, or about numbers; by default where the trees left can no longer change the
        label, and never.
    """

    def __init__(self, forest: Forest, rows: Rows, stops: Stops | None) -> None:
        self._forest, self._rows, self._stops = forest, rows, stops
        self._n_predicted = max(1, len(forest.classes))

    def labels(self, X: Any) -> tuple[Int64s, Int64s]:
        """Index of the class that each row is answered with, and how many trees it asked."""
        rows = self._few.rows(X)
        few = None if rows is None else self._few.labels(rows)
        if few is not None:
            return few[0], few[1]
        forest, stop = self._forest, self._native_stop
        X = self._rows.checked(X)
        label = np.full(matrix.n_rows(X), -1, dtype=np.int64)
        asked = np.full(len(label), forest.n_trees, dtype=np.int64)

        def work(some: _core.Rows, rows: slice) -> None:
            total = np.tile(forest.start, (len(some), 1))
            some.settle(stop, total, label[rows], asked[rows])
            open_ = label[rows] < 0
            if open_.any():
                number = np.empty((np.count_nonzero(open_), self._n_predicted))
                predicting(forest, forest.link_of_labels).predict(total[open_], number)
                label[rows][open_] = self._labels_of(number)

        self._rows.each_block(X, work)
        return label, asked

    def predictions(self, X: Any) -> tuple[Floats, Int64s]:
        """Probabilities of all classes, shape (n_rows, n_classes), or numbers, shape (n_rows, 1), and trees asked."""
        spread = self._spread
        rows = None if spread is not None else self._few.rows(X)
        few = None if rows is None else self._few.predictions(rows, self._n_predicted)
        if few is not None:
            asked = np.empty(len(few), dtype=np.int64)
            asked.fill(self._forest.n_trees)  # in a sixth of the time of np.full, which counts for one row
            return few, asked
        X = self._rows.checked(X)
        found = np.empty((matrix.n_rows(X), self._n_predicted))
        asked = np.full(len(found), self._forest.n_trees)

        def work(some: _core.Rows, rows: slice) -> None:
            total = np.tile(self._forest.start, (len(some), 1))
            if spread is None:
                some.add_scores(total)
            else:
                some.settle_numbers(spread, total, asked[rows])
            self._predicting.predict(total, found[rows])

        self._rows.each_block(X, work)
        return found, asked

    @cached_property
    def _spread(self) -> _core.SpreadStop | None:
        """Stops by spread as the compiled loop takes them; None where rows stop by something else, or never."""
        return self._stops.native(self._forest) if isinstance(self._stops, SpreadStops) else None

    @cached_property
    def _predicting(self) -> _core.Predicting:
        return predicting(self._forest, self._forest.conventions.link)

    def _labels_of(self, number: NDArray[np.floating[Any]]) -> Int64s:
        """Index of the class that the framework predicts from what `Forest.link_of_labels` makes of its scores."""
        if self._forest.n_scores == 1:
            own = self._forest.trees.value.dtype.type(self._forest.threshold)  # as precise as what it is compared with
            return np.asarray(number[:, 1] > own, dtype=np.int64)
        return np.asarray(number.argmax(axis=1), dtype=np.int64)

    @cached_property
    def _few(self) -> FewRows:
        return FewRows(self._forest, self._native_stop)

    @cached_property
    def _native_stop(self) -> _core.ScoreStop:
        stops, forest = self._stops, self._forest
        return _core.ScoreStop(*(stops.on_sums(forest) if isinstance(stops, AverageStops) else lossless(forest)))
