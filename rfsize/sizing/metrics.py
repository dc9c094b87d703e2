"""Metrics of predictions, with the truth of all rows, for losses and for `oob_score`."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from reprlib import repr as abridged
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s
from rfsize.exceptions import RfsizeError
from rfsize.sizing.ranking import Bins, Levels

LARGEST = 1e300
"""Metrics are limited to this value, so that their means and differences are finite."""


@dataclass(frozen=True, eq=False)
class Metric(ABC):
    """A metric, with the truth of all rows.

    Attributes
    ----------
    name : str
    truth : ndarray, shape (n_rows,)
        The truth in the form that the metric takes.
    weight : ndarray of float64, shape (n_rows,)
    range : tuple of float
        The smallest and the largest possible value.
    steps : bool
        Whether the metric is a share of rows.
    by_order : bool
        Whether the metric depends only on the order of the rows.
    larger_is_better : bool or None
        Whether larger values are better; None if unknown.
    """

    name: str
    truth: NDArray[Any]
    weight: Floats
    range: tuple[float, float]
    steps: bool = field(default=False, kw_only=True)
    by_order: bool = field(default=False, kw_only=True)
    larger_is_better: bool | None = field(default=False, kw_only=True)

    @property
    def worse(self) -> float:
        """The sign of the change when the metric gets worse."""
        return -1.0 if self.larger_is_better else 1.0

    @abstractmethod
    def start(self, n_replicates: int, at_hand: Floats) -> Measuring:
        """The object to add predictions to; ``at_hand`` are the forest's predictions on some rows, to lay bins by."""

    @abstractmethod
    def value(self, rows: Int64s, predicted: Floats) -> float:
        """The metric of some rows, from predictions of shape (n_rows, n_outputs); NaN if undefined."""

    def influence(self, rows: Int64s, predicted: Floats) -> Floats | None:
        """What each row adds to the metric, to first order; None if there is no formula."""
        return None

    def most_rows(self, n_replicates: int, n_outputs: int) -> int | None:
        """The most rows that the replicates can be computed on; None means no limit."""
        return None


@dataclass(frozen=True, eq=False)
class MeanMetric(Metric):
    """A metric that depends on the mean of one number per row.

    Attributes
    ----------
    by_row : callable
        The number of each row, shape (n_replicates, n_rows), from predictions of shape (n_replicates, n_rows,
        n_outputs) and the truth.
    form : {"mean", "root", "explained"}
        The mean, its root, or 1 minus its ratio to the variance of the truth.
    """

    by_row: Callable[[Floats, NDArray[Any]], Floats]
    form: str = "mean"

    def start(self, n_replicates: int, at_hand: Floats) -> MeanOfRows:
        return MeanOfRows(self, n_replicates)

    def value(self, rows: Int64s, predicted: Floats) -> float:
        weight = self.weight[rows]
        mean = np.atleast_1d(self.by_row(predicted[None], self.truth[rows]) @ weight / weight.sum())
        return float(self.finished(mean, self.variance(self.truth[rows], weight))[0])

    def finished(self, mean: Floats, variance: float) -> Floats:
        """The metric, from the mean over the rows and the variance of the truth."""
        if self.form == "mean":
            return mean
        return np.sqrt(mean) if self.form == "root" else 1.0 - mean / variance

    def variance(self, truth: NDArray[Any], weight: Floats) -> float:
        """Variance of the truth, if the form needs it; ``ValueError`` if it is 0."""
        if self.form != "explained":
            return 1.0
        found = float(np.average((truth - np.average(truth, weights=weight)) ** 2, weights=weight))
        if not found > 0.0:
            raise ValueError("metric 'r2' compares with the variance of y, and y is the same on all rows: take 'rmse'")
        return found

    def influence(self, rows: Int64s, predicted: Floats) -> Floats | None:
        truth, weight = self.truth[rows], self.weight[rows]
        added = self.by_row(predicted[None], truth)[0]
        mean = float(np.average(added, weights=weight))
        away = added - mean
        if self.form == "root":
            away = away / (2.0 * math.sqrt(mean)) if mean > 0.0 else 0.0 * away
        if self.form == "explained":
            variance = self.variance(truth, weight)
            away = (mean / variance * (truth - np.average(truth, weights=weight)) ** 2 - added) / variance
        return np.asarray(weight * away / weight.sum())


@dataclass(frozen=True, eq=False)
class RankMetric(Metric):
    """A metric of the order of rows of two classes.

    Attributes
    ----------
    of_levels, slopes : callable
        The metric and its derivative by the weight at each level, as in `ranking`.
    """

    of_levels: Callable[[Floats, Floats], Floats]
    slopes: Callable[[Floats, Floats], tuple[Floats, Floats]]
    by_order: bool = field(default=True, kw_only=True)
    larger_is_better: bool | None = field(default=True, kw_only=True)

    def start(self, n_replicates: int, at_hand: Floats) -> RanksOfRows:
        return RanksOfRows(self, n_replicates, at_hand)

    def value(self, rows: Int64s, predicted: Floats) -> float:
        return float(self.of_levels(*self._levels(rows, predicted).weights))

    def influence(self, rows: Int64s, predicted: Floats) -> Floats | None:
        levels = self._levels(rows, predicted)
        return levels.of_rows(*self.slopes(*levels.weights))

    def _levels(self, rows: Int64s, predicted: Floats) -> Levels:
        return Levels(self.truth[rows], predicted[:, -1], self.weight[rows])


@dataclass(frozen=True, eq=False)
class GivenMetric(Metric):
    """A user's callable, which takes all rows at once.

    Attributes
    ----------
    given : callable
        Computes the metric from the truth, the predictions made by `as_given`, and the weights of the rows.
    as_given : callable
    """

    given: Callable[[NDArray[Any], NDArray[Any], Floats], float]
    as_given: Callable[[Floats], Floats]
    larger_is_better: bool | None = field(default=None, kw_only=True)

    # The predictions of all replicates are held in memory at once.
    _CELLS_HELD: ClassVar[int] = 1 << 25

    def start(self, n_replicates: int, at_hand: Floats) -> HeldRows:
        return HeldRows(self)

    def value(self, rows: Int64s, predicted: Floats) -> float:
        # Copied, because a callable may change its arguments.
        return _number(self.given(self.truth[rows], self.as_given(predicted.copy()), self.weight[rows]))

    def most_rows(self, n_replicates: int, n_outputs: int) -> int | None:
        return max(1, self._CELLS_HELD // (n_replicates * n_outputs))


class MeanOfRows:
    """Adds up the numbers of the rows for a `MeanMetric`.

    Like every `Measuring`, it takes blocks of rows: their numbers, and predictions of shape (n_replicates, n_rows,
    n_outputs), of which the first replicate is the forest at hand. ``conclude`` returns the metric of each replicate;
    ``ValueError`` if it is no number, or no row has a weight.
    """

    def __init__(self, metric: MeanMetric, n_replicates: int) -> None:
        self._metric, self._sum, self._weight = metric, np.zeros(n_replicates), 0.0
        self._rows: list[Int64s] = []

    def add(self, rows: Int64s, predicted: Floats) -> None:
        counts = self._metric.weight[rows] > 0.0
        rows, predicted = rows[counts], predicted[:, counts]
        weight = self._metric.weight[rows]
        self._sum += self._metric.by_row(predicted, self._metric.truth[rows]) @ weight
        self._weight += weight.sum()
        self._rows.append(rows)

    def conclude(self) -> Floats:
        if self._weight == 0.0:
            raise no_weight()
        rows = np.concatenate(self._rows)
        variance = self._metric.variance(self._metric.truth[rows], self._metric.weight[rows])
        return self._metric.finished(self._sum / self._weight, variance)


class RanksOfRows:
    """Counts the rows of both classes in fine bins of the score, for a `RankMetric`."""

    def __init__(self, metric: RankMetric, n_replicates: int, at_hand: Floats) -> None:
        self._metric, self._bins = metric, Bins(n_replicates, at_hand[:, -1])

    def add(self, rows: Int64s, predicted: Floats) -> None:
        self._bins.add(predicted[..., -1], self._metric.truth[rows] == 1, self._metric.weight[rows])

    def conclude(self) -> Floats:
        low, high = self._bins.low, self._bins.high
        if not (low.any() or high.any()):
            raise no_weight()
        if not (low.any() and high.any()):
            raise one_class_only(self._metric.name)
        return np.array([self._metric.of_levels(*one) for one in zip(low, high, strict=True)])


class HeldRows:
    """Holds all predictions, for a `GivenMetric`."""

    def __init__(self, metric: GivenMetric) -> None:
        self._metric = metric
        self._rows: list[Int64s] = []
        self._predicted: list[Floats] = []

    def add(self, rows: Int64s, predicted: Floats) -> None:
        self._rows.append(rows)
        self._predicted.append(predicted)

    def conclude(self) -> Floats:
        rows = np.concatenate(self._rows)
        every = zip(*self._predicted, strict=True)
        return np.array([self._metric.value(rows, np.concatenate(one)) for one in every])


Measuring = MeanOfRows | RanksOfRows | HeldRows
"""Computes a metric for several replicates of the predictions, from blocks of rows."""


def value_of(judge: Metric, rows: Int64s, predicted: Floats) -> float:
    """The metric of some rows; ``ValueError``, with the reason, if it is no number."""
    if not judge.weight[rows].any():
        raise no_weight()
    found = judge.value(rows, predicted)
    if math.isfinite(found):
        return found
    if isinstance(judge, RankMetric):
        raise one_class_only(judge.name)
    raise RfsizeError(
        f"metric '{judge.name}' is beyond the largest floating-point number: train on the target in other units"
    )


class OfRows(Protocol):
    """A metric, or a difference of metrics; methods as of `Metric`."""

    def value(self, rows: Int64s, predicted: Floats) -> float: ...

    def influence(self, rows: Int64s, predicted: Floats) -> Floats | None: ...


def value_or_nan(judge: OfRows, rows: Int64s, predicted: Floats) -> float:
    """The metric of some of the rows that it is defined on; NaN if it is undefined on these, or a callable fails.

    These may be rows without a rare class.
    """
    if not len(rows):
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = judge.value(rows, predicted)
        except (ValueError, ArithmeticError, LookupError):
            return math.nan
    return value if math.isfinite(value) else math.nan


def no_weight() -> RfsizeError:
    """The error if no row has a weight."""
    return RfsizeError("sample_weight is 0 on all rows that were used: give a row that counts a weight above 0")


def one_class_only(name: str) -> RfsizeError:
    """The error if a ranking has rows of only one class."""
    return RfsizeError(
        f"metric '{name}' compares rows of two classes, and all rows with a weight above 0 are of one class"
    )


def _number(found: Any) -> float:
    """The value of a metric as a float; ``ValueError`` if it is no finite number."""
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
