"""Forests of some of the trees at hand: what they predict, and how a metric of it scatters with the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rfsize.estimation.intervals import SEED
from rfsize.estimation.shared_trees import weighted_sums
from rfsize.sizing.metrics import Metric
from rfsize.utils.matrix import CELLS_PER_BLOCK
from rfsize.utils.typing import Floats, Int64s

Predicted = Callable[[Floats], Floats]
"""What a forest predicts from mean scores, as a metric takes it."""

# Of a metric without influence: groups of rows that are left out in turn, and the part of the forests that is tried.
_ROW_GROUPS, _TRIED = 20, 3


@dataclass(frozen=True, eq=False)
class ForestParts:
    """What parts of a forest say of rows: blocks of its trees, or trees one by one.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Numbers of the rows, as the truth of metrics has them.
    total : ndarray of float64, shape (n_rows, n_parts, n_scores)
        Sums of the scores of the trees of each part.
    asked : ndarray, shape (n_rows, n_parts, 1 or n_scores)
        Trees that were asked for each of the scores.
    predicted : callable
    """

    rows: Int64s
    total: Floats
    asked: NDArray[np.generic]
    predicted: Predicted

    @cached_property
    def whole(self) -> Floats:
        """What all parts together predict, shape (n_rows, n_outputs)."""
        return self._predictions(slice(None), np.ones((1, self.total.shape[1])))[0]

    def values(self, judge: Metric, forests: Floats, turn: Int64s | None = None) -> Floats:
        """The metric of several forests, the first of which is the whole.

        Parameters
        ----------
        judge : Metric
        forests : ndarray of float, shape (n_forests, n_parts)
            Which parts are in each forest.
        turn : ndarray of int64, shape (n_rows,), optional
            Which part is the first of each row, the others in turn.
        """
        measuring = judge.start(len(forests), self.whole)
        step = max(1, CELLS_PER_BLOCK // (len(forests) * max(self.total.shape[2], self.whole.shape[1])))
        for start in range(0, len(self.rows), step):
            rows = slice(start, start + step)
            measuring.add(self.rows[rows], self._predictions(rows, forests, turn))
        return measuring.conclude()

    def scatter_of_rows(self, judge: Metric, kinds: list[Floats], units: Int64s | None) -> Floats:
        """Covariance of what forests of several kinds lose, as the rows, or groups of them, might have been others.

        Parameters
        ----------
        judge : Metric
        kinds : list of ndarray of float, shape (n_forests, n_parts)
            Forests of each kind, over which their losses are averaged.
        units : ndarray of int64 or None
            Numbers of the groups that the rows of the metric's truth belong to; None where each is its own.

        Returns
        -------
        ndarray of float, shape (n_kinds, n_kinds)
        """
        _, unit = np.unique(self.rows if units is None else units[self.rows], return_inverse=True)
        now = judge.influence(self.rows, self.whole)
        if now is None:
            return self._scatter_by_trying(judge, kinds, unit)
        lost = np.zeros((len(kinds), len(self.rows)))
        for of_kind, forests in zip(lost, kinds, strict=True):
            for index in range(len(forests)):
                added = judge.influence(self.rows, self._predictions(slice(None), forests[index : index + 1])[0])
                assert added is not None
                of_kind += (added - now) / len(forests)
        by_unit = np.stack([np.bincount(unit, weights=of_kind) for of_kind in lost])
        return np.asarray(by_unit @ by_unit.T)

    def _scatter_by_trying(self, judge: Metric, kinds: list[Floats], unit: Int64s) -> Floats:
        """The same by leaving out groups of rows in turn."""
        left_out = np.random.default_rng(SEED).permutation(int(unit.max()) + 1)[unit] % _ROW_GROUPS
        tried = [self._predictions(slice(None), forests[: max(1, len(forests) // _TRIED)]) for forests in kinds]
        found = []
        for group in range(_ROW_GROUPS):
            kept = left_out != group
            now = judge.value(self.rows[kept], self.whole[kept])
            found.append([np.mean([judge.value(self.rows[kept], one[kept]) - now for one in of]) for of in tried])
        return np.atleast_2d(np.cov(np.array(found).T)) * (_ROW_GROUPS - 1.0) ** 2 / _ROW_GROUPS

    def _predictions(self, rows: slice, forests: Floats, turn: Int64s | None = None) -> Floats:
        """What forests predict of some rows, shape (n_forests, n_rows, n_outputs)."""
        total, asked = self.total[rows], self.asked[rows]
        if turn is not None:
            n_parts = total.shape[1]
            order = (turn[rows][:, None, None] + np.arange(n_parts)[:, None]) % n_parts
            total, asked = np.take_along_axis(total, order, axis=1), np.take_along_axis(asked, order, axis=1)
        return self.predicted(weighted_sums(total, forests) / weighted_sums(asked, forests))
