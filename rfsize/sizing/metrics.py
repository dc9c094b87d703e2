"""Metrics of predictions, with the truth of all rows, as `metric_gap` takes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from reprlib import repr as abridged
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.estimation.base import REPLICATES
from rfsize.utils.typing import Floats
from rfsize.utils.validation import choice, class_indices, sample_weights

LARGEST = 1e300
"""The bound of metrics, of which means and differences are then finite."""

_UNBOUNDED = (-math.inf, math.inf)
_LEAST_PROBABILITY = float(np.finfo(np.float64).eps)
_OF_CLASSES, _OF_NUMBERS = ("logloss", "auc", "accuracy"), ("rmse", "mae")
_NO_WEIGHT = "sample_weight is 0 on all rows that were used"

# What a user may ask for: a name, or a function of the truth and the predictions.
MetricLike = str | Callable[[NDArray[Any], NDArray[Any]], float]


@dataclass(frozen=True, eq=False)
class MeanMetric:
    """A metric that is a mean over rows, with the truth of all of them.

    Attributes
    ----------
    name : str
    truth : ndarray, shape (n_rows,)
        As the metric takes it.
    weight : ndarray of float64, shape (n_rows,)
    by_row : callable
        What each row adds to the mean, shape (n_replicates, n_rows), from predictions of shape (n_replicates, n_rows,
        n_outputs) and the truth.
    root : bool
        Whether the metric is the root of the mean.
    steps : bool
        Whether rows add one of two values.
    either_way : bool
        Whether draws of trees tell how far the metric may rise, whatever change they foretell.
    range : tuple of float
        The least and the largest value it can have.
    """

    name: str
    truth: NDArray[Any]
    weight: Floats
    by_row: Callable[[Floats, NDArray[Any]], Floats]
    root: bool = False
    steps: bool = False
    either_way: bool = False
    range: tuple[float, float] = (0.0, math.inf)

    def start(self, n_replicates: int) -> MeanOfRows:
        """What the predictions of rows are added to."""
        return MeanOfRows(self, n_replicates)


@dataclass(frozen=True, eq=False)
class WholeMetric:
    """A metric of all rows at once, with their truth.

    Attributes
    ----------
    name, truth, weight, range
        As in `MeanMetric`.
    whole : callable
        The metric from the truth, predictions of shape (n_rows, n_outputs) and weights of all rows.
    """

    name: str
    truth: NDArray[Any]
    weight: Floats
    whole: Callable[[NDArray[Any], Floats, Floats], float]
    steps: ClassVar[bool] = False
    either_way: ClassVar[bool] = False
    range: tuple[float, float] = (0.0, math.inf)

    def start(self, n_replicates: int) -> HeldRows:
        """What the predictions of rows are added to."""
        return HeldRows(self)


class MeanOfRows:
    """Adds up what the rows say."""

    def __init__(self, metric: MeanMetric, n_replicates: int) -> None:
        self._metric, self._sum, self._weight, self._chance = metric, np.zeros(n_replicates), 0.0, 0.0
        self._infinite = 0

    def add(self, rows: NDArray[np.int64], predicted: Floats) -> None:
        """Add rows, and predictions of shape (n_replicates, n_rows, n_outputs)."""
        counts = self._metric.weight[rows] > 0.0
        rows, predicted = rows[counts], predicted[:, counts]
        weight = self._metric.weight[rows]
        found = self._metric.by_row(predicted, self._metric.truth[rows])
        self._infinite += int(np.isinf(found[0]).sum())
        self._sum += found @ weight
        self._weight += weight.sum()
        if self._metric.steps:
            differs = np.abs(found[1:] - found[0])[-REPLICATES:].mean(axis=0)
            self._chance += np.sum((weight * differs) ** 2)

    def conclude(self) -> Floats:
        """The metric of each replicate; ``ValueError`` where it is infinite, or no row has a weight."""
        if self._weight == 0.0:
            raise ValueError(_NO_WEIGHT)
        if self._infinite:
            raise ValueError(
                f"the {self._metric.name} is infinite: no tree asked about {self._infinite:,} of the rows gives the "
                "row's class any probability. Take 'auc' or 'accuracy', or train trees whose leaves hold more rows"
            )
        mean = self._sum / self._weight
        return np.sqrt(mean) if self._metric.root else mean

    def chance(self) -> float:
        """Variance of the change that draws foretell, from where the rows at a tie happened to fall."""
        return float(self._chance / self._weight**2)


class HeldRows:
    """Holds all predictions, for a metric of all rows at once."""

    def __init__(self, metric: WholeMetric) -> None:
        self._metric = metric
        self._rows: list[NDArray[np.int64]] = []
        self._predicted: list[Floats] = []

    def add(self, rows: NDArray[np.int64], predicted: Floats) -> None:
        """Add rows, and predictions of shape (n_replicates, n_rows, n_outputs)."""
        self._rows.append(rows)
        self._predicted.append(predicted)

    def conclude(self) -> Floats:
        """The metric of each replicate; ``ValueError`` where it is no number, or no row has a weight."""
        rows = np.concatenate(self._rows)
        truth, weight = self._metric.truth[rows], self._metric.weight[rows]
        if not weight.any():
            raise ValueError(_NO_WEIGHT)
        # A callable may alter what it is given.
        every = zip(*self._predicted, strict=True)
        return np.array([_number(self._metric.whole(truth.copy(), np.concatenate(one), weight)) for one in every])

    def chance(self) -> float:
        """0: such metrics make no steps."""
        return 0.0


def _number(found: Any) -> float:
    """What a metric gave, as a float; raises ``ValueError`` where it is no finite number."""
    if isinstance(found, np.ndarray) and found.ndim == 0:
        found = found.item()
    try:
        value = float(found) if isinstance(found, Real) else math.nan
    except OverflowError:
        value = math.inf
    if not abs(value) < LARGEST:
        shown = repr(value) if isinstance(found, Real) else abridged(found)
        raise ValueError(f"the metric must give one finite number, below {LARGEST:g}, found {shown}")
    return value


def metric_with_truth(
    metric: MetricLike, rows: ForestOnRows, y: ArrayLike, sample_weight: ArrayLike | None
) -> MeanMetric | WholeMetric:
    """The metric with its truth; raises ``ValueError`` where they do not fit the forest."""
    classes, n_rows = rows.adapter.classes, rows.n_rows
    weight = sample_weights(sample_weight, n_rows)
    if not isinstance(metric, str) and callable(metric):
        given: Callable[[NDArray[Any], NDArray[Any]], float] = metric
        if sample_weight is not None:
            raise ValueError(
                "sample_weight is for the metrics that rfsize knows by name; let the callable weigh its rows"
            )
        truth = np.asarray(y)
        if truth.shape != (n_rows,):
            raise ValueError(f"y must hold one value per row of X: {n_rows} expected, found shape {truth.shape}")
        name = getattr(metric, "__name__", type(metric).__name__)
        as_given = _probabilities_as_given if classes.size else _numbers_as_given
        return WholeMetric(
            name,
            truth,
            weight,
            whole=lambda truth, predicted, _: given(truth, as_given(predicted)),
            range=_UNBOUNDED,
        )
    names = _OF_CLASSES if classes.size else _OF_NUMBERS
    kind = "classification" if classes.size else "regression"
    choice("metric", metric, names, f"; or give a callable of y and the predictions of this {kind} forest")
    if not classes.size:
        return _of_numbers(metric, y, weight)
    truth = class_indices(classes, y, n_rows)
    if metric == "logloss":
        averages = rows.adapter.link.kind == "identity"
        by_row = _logloss_of_averages if averages else _logloss
        return MeanMetric(metric, truth, weight, by_row, either_way=averages)
    if metric == "accuracy":
        threshold = rows.threshold if len(classes) == 2 else None
        return MeanMetric(
            metric,
            truth,
            weight,
            by_row=lambda found, truth: _is_right(found, truth, threshold),
            steps=True,
            range=(0.0, 1.0),
        )
    if len(classes) > 2:
        raise ValueError(f"metric 'auc' is for two classes, and the forest has {len(classes)}; give a callable")
    if len(np.unique(truth)) < 2:
        raise ValueError("metric 'auc' compares rows of two classes, and y holds one only")
    return WholeMetric(metric, truth, weight, _auc, range=(0.0, 1.0))


def _of_numbers(metric: str, y: ArrayLike, weight: Floats) -> MeanMetric:
    try:
        truth = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        truth = np.zeros(0)
    if truth.shape != weight.shape or not np.isfinite(truth).all():
        raise ValueError(f"y must hold one finite number per row of X ({len(weight)} rows)")
    if metric == "rmse":
        return MeanMetric(metric, truth, weight, lambda found, truth: (found[..., 0] - truth) ** 2, root=True)
    return MeanMetric(metric, truth, weight, lambda found, truth: np.abs(found[..., 0] - truth))


def _numbers_as_given(predicted: Floats) -> Floats:
    return predicted[:, 0]


def _probabilities_as_given(predicted: Floats) -> Floats:
    """Probabilities as metrics take them, within [0, 1] and with the same sum: of two classes that of class 1."""
    cut = np.clip(predicted, 0.0, 1.0)
    cut *= (predicted.sum(axis=1) / np.maximum(cut.sum(axis=1), _LEAST_PROBABILITY))[:, None]
    np.minimum(cut, 1.0, out=cut)  # the last bit of the product
    return cut[:, 1] if cut.shape[1] == 2 else cut


def _logloss(predicted: Floats, truth: NDArray[Any]) -> Floats:
    of_truth = predicted[:, np.arange(len(truth)), truth]
    return -np.log(np.clip(of_truth / predicted.sum(axis=2), _LEAST_PROBABILITY, 1.0))


def _logloss_of_averages(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """To second order around the first of the predictions; infinite on rows where that is 0."""
    of_truth = predicted[:, np.arange(len(truth)), truth]
    known = of_truth[0] > _LEAST_PROBABILITY
    now = np.where(known, of_truth[0], 1.0)
    away = (of_truth - of_truth[0]) / now
    return np.where(known, -np.log(now) - away + away**2 / 2.0, np.inf)


def _is_right(predicted: Floats, truth: NDArray[Any], threshold: float | None) -> Floats:
    label = predicted.argmax(axis=2) if threshold is None else predicted[..., 1] > threshold
    return (label == truth).astype(np.float64)


def _auc(truth: NDArray[Any], predicted: Floats, weight: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    if len(np.unique(truth[weight > 0.0])) < 2:
        raise ValueError(
            "metric 'auc' compares rows of two classes, and those that were used with weight hold one only"
        )
    # Rows of the same leaves are tied, whatever the last bits of their sums say.
    return float(roc_auc_score(truth, predicted[:, 1].astype(np.float32), sample_weight=weight))
