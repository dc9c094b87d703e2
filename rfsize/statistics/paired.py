"""What a smaller forest loses against all trees of the forest at hand, measured on the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from rfsize._util import Floats, Int64s
from rfsize.exceptions import RfsizeError
from rfsize.models.link import Predictor
from rfsize.statistics.curve import TAIL
from rfsize.statistics.metrics import Metric, influence_of, metric_on_rows, value_or_nan


class PairedLoss(NamedTuple):
    """A metric of a smaller forest compared with the metric of the whole forest, on the same rows.

    Attributes
    ----------
    lost : float
        How much worse the smaller forest is.
    error : float
        Standard error of ``lost``, over the choice of the rows.
    """

    lost: float
    error: float

    @classmethod
    def of(cls, metric: Metric, predicted: Floats, by_all: Floats) -> PairedLoss:
        """From the predictions of both forests, for a metric whose first-order terms by row are known."""
        rows = np.arange(len(metric.truth))
        of_few, of_all = (influence_of(metric, rows, predictions) for predictions in (predicted, by_all))
        assert of_few is not None
        assert of_all is not None
        lost = metric.worse * (value_or_nan(metric, rows, predicted) - value_or_nan(metric, rows, by_all))
        return cls(lost, float(np.sqrt(np.square(of_few - of_all).sum())))


def paired_metrics(predictor: Predictor, n_rows: int, y: Any, weight: Any = None) -> Iterator[Metric]:
    """The metrics that smaller forests are compared by, without those that these rows do not define."""
    for name in {0: ("rmse",), 2: ("auc", "log_loss")}.get(len(predictor.classes), ("log_loss",)):
        with suppress(RfsizeError):
            yield metric_on_rows(name, predictor, n_rows, y, weight)


@dataclass(frozen=True, eq=False)
class PairedCurve:
    """How much worse a metric is in smaller forests than in the whole forest, on the same rows; see `Curve`.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n,)
        Sizes that were tried, ascending.
    losses : list of PairedLoss, length n
    n_trees : int
        Number of trees of the whole forest.
    """

    sizes: Int64s
    losses: list[PairedLoss]
    n_trees: int

    def at(self, n_trees: int) -> float:
        """See `Curve.at`; only for sizes that were tried."""
        return self._at(n_trees).lost

    def interval(self, n_trees: int) -> tuple[float, float]:
        """See `Curve.interval`."""
        loss = self._at(n_trees)
        half_width = float(ndtri(1.0 - TAIL)) * loss.error
        return loss.lost - half_width, loss.lost + half_width

    def error(self, n_trees: int) -> float:
        """Standard error of the loss, over the choice of the rows."""
        return self._at(n_trees).error

    def size(self, level: float) -> int:
        """The smallest size tried that loses no more than ``level``."""
        return min([int(size) for size in self.sizes if self.at(int(size)) <= level], default=self.n_trees)

    def size_quantile(self, level: float, share: float) -> int:
        """The whole forest, since nothing is certified of a metric."""
        return self.n_trees

    def _at(self, n_trees: int) -> PairedLoss:
        if n_trees >= self.n_trees:
            return PairedLoss(0.0, 0.0)
        return self.losses[int(np.searchsorted(self.sizes, n_trees))]
