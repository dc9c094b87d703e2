"""Metrics: their formulas, and their values on rows.

A metric is two functions of the truth, the predictions and the weights of rows: its value, and what each row adds to
it. To add one, see "To add a metric" in docs/contributing/architecture.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Caution, Floats, Int64s, how_many, in_percent
from rfsize.exceptions import ForestWarning, RfsizeError

_LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric of predictions, which have shape (n_rows, n_outputs): probabilities of all classes, or one number.

    Attributes
    ----------
    name : str
    value : callable
        The metric of (truth, predicted, weight), for predictions of shape (…, n_rows, n_outputs) an array of shape (…);
        NaN if it is undefined.
    influence : callable or None
        What each row adds to the metric of one forest, to first order; arguments as of ``value``. None if there is no
        formula.
    bounds : tuple of float
        The smallest and the largest possible value.
    larger_is_better : bool or None
        None if it is unknown.
    is_ranking : bool
        Whether the metric depends only on the order of the rows.
    truth, weight : ndarray, shape (n_rows,)
        The truth of rows, in the form that the functions take, and the weights of the rows. See `metric_on_rows`.
    """

    name: str
    value: Callable[[NDArray[Any], Floats, Floats], Any]
    influence: Callable[[NDArray[Any], Floats, Floats], Floats] | None = None
    bounds: tuple[float, float] = (0.0, math.inf)
    larger_is_better: bool | None = False
    is_ranking: bool = False
    truth: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    weight: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def label(self) -> str:
        """See `label_of`."""
        return label_of(self.name)

    @property
    def worse(self) -> float:
        """The sign of the change when the metric gets worse."""
        return -1.0 if self.larger_is_better else 1.0


ByRow = Callable[[Floats, NDArray[Any]], Floats]
"""From predictions, shape (…, n_rows, n_outputs), and the truth, a number for each row, shape (…, n_rows)."""


def values_of(metric: Metric, rows: Int64s, predicted: Floats) -> Floats:
    """The metric on some rows, of predictions of shape (…, n_rows, n_outputs); ``ValueError`` if it is no number."""
    check_weight(metric.weight[rows])
    values = metric.value(metric.truth[rows], predicted, metric.weight[rows])
    if np.isfinite(values).all():
        return np.asarray(values)
    why = "compares rows of two classes, and all rows with a weight above 0 are of one class"
    if not metric.is_ranking:
        why = "is no finite number: train on the target in other units"
    raise RfsizeError(f"metric '{metric.name}' {why}")


def value_of(metric: Metric, rows: Int64s, predicted: Floats) -> float:
    """The metric of one forest on some rows, as a float."""
    return float(values_of(metric, rows, predicted))


def value_or_nan(metric: Metric, rows: Int64s, predicted: Floats) -> float:
    """The metric on rows that may lack a rare class; NaN if it is undefined on them, or a callable fails."""
    if not len(rows):
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = float(metric.value(metric.truth[rows], predicted, metric.weight[rows]))
        except (ValueError, ArithmeticError, LookupError):
            return math.nan
    return value if math.isfinite(value) else math.nan


def _of_means(name: str, by_row: ByRow, *, form: str = "mean") -> Metric:
    """A metric that depends on the mean of one number per row.

    ``form`` is "mean", "root" of the mean, or "explained": 1 − mean / variance of the truth.
    """

    def value(truth: NDArray[Any], predicted: Floats, weight: Floats) -> Floats:
        mean = by_row(predicted, truth) @ weight / weight.sum()
        if form == "explained":
            return 1.0 - mean / _variance(truth, weight)
        return np.sqrt(mean) if form == "root" else mean

    def influence(truth: NDArray[Any], predicted: Floats, weight: Floats) -> Floats:
        numbers = by_row(predicted, truth)
        mean = float(np.average(numbers, weights=weight))
        deviation = numbers - mean
        if form == "root":
            deviation = deviation / (2.0 * math.sqrt(mean)) if mean > 0.0 else 0.0 * deviation
        if form == "explained":
            variance, centre = _variance(truth, weight), np.average(truth, weights=weight)
            deviation = (mean / variance * (truth - centre) ** 2 - numbers) / variance
        return np.asarray(weight * deviation / weight.sum())

    return Metric(name, value, influence)


def _of_levels(
    name: str,
    of_levels: Callable[..., Floats],
    slopes: Callable[..., tuple[Floats, Floats]],
    of_equal_weights: Callable[[NDArray[Any], Floats], Floats] | None = None,
) -> Metric:
    """A metric of the order of rows of two classes.

    Rows in the same leaves are ties, but the last bits of their sums may differ: scores are compared in single
    precision. ``of_levels`` and its derivatives ``slopes`` are functions of the weights of both classes at each level;
    ``of_equal_weights`` is a faster way, of the truth and the score of rows with equal weights.
    """

    def levels(score: Floats, truth: NDArray[Any], weight: Floats) -> tuple[Int64s, Bools, Floats, Floats]:
        """An order of the rows, whether each begins a level, and the weights of both classes at each level."""
        score = score.astype(np.float32)
        order = np.argsort(score)
        score, truth, weight = score[order], truth[order], weight[order]
        is_first = np.append(True, score[1:] != score[:-1])
        by_class = [np.where(truth == label, weight, 0.0) for label in (0, 1)]
        low, high = (np.add.reduceat(of_class, np.flatnonzero(is_first)) for of_class in by_class)
        return order, is_first, low, high

    def value(truth: NDArray[Any], predicted: Floats, weight: Floats) -> Floats:
        by_forest = predicted[..., -1].reshape(-1, len(truth))
        if of_equal_weights is not None and weight.min() == weight.max() > 0.0:
            values = [of_equal_weights(truth, score) for score in by_forest]
        else:
            values = [of_levels(*levels(score, truth, weight)[2:]) for score in by_forest]
        return np.reshape(values, predicted.shape[:-2])

    def influence(truth: NDArray[Any], predicted: Floats, weight: Floats) -> Floats:
        order, is_first, low, high = levels(predicted[:, -1], truth, weight)
        level, terms = np.cumsum(is_first) - 1, np.empty(len(truth))
        of_low, of_high = slopes(low, high)
        terms[order] = np.where(truth[order] == 1, of_high[level], of_low[level])
        return weight * terms

    return Metric(name, value, influence, (0.0, 1.0), larger_is_better=True, is_ranking=True)


def _variance(truth: NDArray[Any], weight: Floats) -> float:
    variance = float(np.average((truth - np.average(truth, weights=weight)) ** 2, weights=weight))
    if not variance > 0.0:
        raise ValueError("metric 'r2' compares with the variance of y, and y is the same on all rows: take 'rmse'")
    return variance


def check_weight(weight: Floats) -> None:
    if not weight.any():
        raise RfsizeError("sample_weight is 0 on all rows that were used: give some row a weight above 0")


# Rankings of two classes, from the weights of both classes by level of the score


def auc(low: Floats, high: Floats) -> Floats:
    """Area under the ROC curve, NaN if a class has no weight; pairs of rows with the same score count half.

    ``low`` and ``high`` are the weights of the rows of both classes at each level of the score, lowest level first.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(high * (np.cumsum(low) - low / 2.0)) / (low.sum() * high.sum()))


def auc_of_equal_weights(truth: NDArray[Any], score: Floats) -> Floats:
    """The same for rows of equal weight, by one sort of whole numbers that hold the score and, below it, the class."""
    bits = (score.astype(np.float32) + np.float32(0.0)).view(np.int32).astype(np.int64)  # -0.0 is 0.0
    key = np.sort((bits ^ bits >> 31 & 0x7FFFFFFF) << 1 | truth)
    is_high = key & 1
    n_high = int(is_high.sum())
    pairs = n_high * (len(key) - n_high)
    # At a level of both classes each row of class 1 comes after those of class 0, and its pairs with them count half.
    tied = np.flatnonzero(key[1:] ^ key[:-1] == 1)
    n_tied = (tied + 1 - np.searchsorted(key, key[tied])) @ (np.searchsorted(key, key[tied + 1], "right") - tied - 1)
    ahead = is_high @ np.arange(len(key)) - n_high * (n_high - 1) / 2 - n_tied / 2
    return np.asarray(ahead / pairs if pairs else math.nan)


def average_precision(low: Floats, high: Floats) -> Floats:
    """Average precision: the precision at each level, weighted by the recall it adds; arguments as of `auc`."""
    low, high = low[::-1], high[::-1]
    hits = np.cumsum(high)
    taken = hits + np.cumsum(low)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(high * (hits / np.where(taken > 0.0, taken, 1.0))) / high.sum())


def auc_slopes(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Derivative of the area by the weight of a row at each level, of class 0 and of class 1."""
    area, n_low, n_high = auc(low, high), low.sum(), high.sum()
    lower = (np.cumsum(low) - low / 2.0) / n_low
    higher = 1.0 - (np.cumsum(high) - high / 2.0) / n_high
    return (higher - area) / n_low, (lower - area) / n_high


def average_precision_slopes(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Derivative of the average precision by the weight of a row at each level, of class 0 and of class 1."""
    low, high = low[::-1], high[::-1]
    hits, n_high = np.cumsum(high), high.sum()
    taken = hits + np.cumsum(low)
    taken = np.where(taken > 0.0, taken, 1.0)
    precision = hits / taken
    # A row counts at its own level and at all lower levels.
    gained, lost = (np.cumsum(part[::-1])[::-1] for part in (high / taken, high * precision / taken))
    of_high = (precision + gained - lost - np.sum(high * precision) / n_high) / n_high
    return (-lost / n_high)[::-1], of_high[::-1]


# The formulas, of predictions of shape (…, n_rows, n_outputs)


def _of_truth(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """The probability of each row's class; one-vs-all probabilities are divided by their sum."""
    if predicted.shape[-1] == 2:
        return np.where(truth == 1, predicted[..., 1], predicted[..., 0])
    return np.asarray(predicted[..., np.arange(len(truth)), truth] / predicted.sum(axis=-1))


def _log_loss(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """scikit-learn's log loss: probabilities are clipped, so that it is always a number."""
    return -np.log(np.clip(_of_truth(predicted, truth), _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY))


def _is_clipped(predicted: Floats, truth: NDArray[Any]) -> Floats:
    return (_of_truth(predicted, truth) < _LEAST_PROBABILITY).astype(np.float64)


def _brier(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """Squared distance from the truth; of two classes, only the probability of class 1."""
    if predicted.shape[-1] == 2:
        return np.asarray((predicted[..., 1] - truth) ** 2)
    of_truth = predicted[..., np.arange(len(truth)), truth]
    return np.asarray(np.sum(predicted**2, axis=-1) - 2.0 * of_truth + 1.0)


def accuracy_by(labels: Callable[[Floats], NDArray[np.int64]]) -> Metric:
    """The accuracy of labels that are made from probabilities."""

    def is_right(predicted: Floats, truth: NDArray[Any]) -> Floats:
        return (labels(predicted) == truth).astype(np.float64)

    return replace(_of_means("accuracy", is_right), bounds=(0.0, 1.0), larger_is_better=True)


def _square(predicted: Floats, truth: NDArray[Any]) -> Floats:
    return np.asarray((predicted[..., 0] - truth) ** 2)


def _distance(predicted: Floats, truth: NDArray[Any]) -> Floats:
    return np.abs(predicted[..., 0] - truth)


OF_CLASSES = (
    _of_means("log_loss", _log_loss),
    _of_levels("auc", auc, auc_slopes, auc_of_equal_weights),
    accuracy_by(lambda predicted: np.asarray(predicted.argmax(axis=-1))),
    _of_means("brier", _brier),
    _of_levels("average_precision", average_precision, average_precision_slopes),
)
OF_NUMBERS = (
    _of_means("rmse", _square, form="root"),
    _of_means("mae", _distance),
    replace(_of_means("r2", _square, form="explained"), bounds=(-math.inf, 1.0), larger_is_better=True),
)
METRICS = {metric.name: metric for metric in (*OF_CLASSES, *OF_NUMBERS)}
"""The metrics that compare predictions with the truth, by name."""

SQUARED_ERROR = _of_means("mean squared error", _square)

_CLIPPED_ROWS = replace(_of_means("clipped rows", _is_clipped), bounds=(0.0, 1.0))


_LABELS = {"log_loss": "log loss", "auc": "AUC", "brier": "Brier score", "rmse": "RMSE", "mae": "MAE", "r2": "R²"}


def label_of(name: str) -> str:
    """What sentences call a metric."""
    return _LABELS.get(name, name)


# Where clipping decides the log loss


def clipped_rows(metric: Metric) -> Metric | None:
    """The share of rows whose log loss is clipped, as a metric; None if the metric is not the log loss.

    If all trees send a row to leaves without rows of its class, its log loss would be infinite. scikit-learn clips
    probabilities at the precision of a float, so that such a row counts 36. A few of these rows decide the mean, and
    smaller forests have more.
    """
    if metric.value is not METRICS["log_loss"].value:
        return None
    return replace(_CLIPPED_ROWS, truth=metric.truth, weight=metric.weight)


def clipping_of_rows(metric: Metric, rows: Int64s, predicted: Floats, n_trees: int) -> tuple[Caution, ...]:
    """A warning if the log loss of some rows is clipped, by their predictions."""
    clipped = clipped_rows(metric)
    return () if clipped is None else clipping_warnings(value_of(clipped, rows, predicted), n_trees)


def clipping_warnings(share: float, n_trees: int) -> tuple[Caution, ...]:
    """A warning if forests of ``n_trees`` trees clip the log loss of a share of the rows."""
    if not share > 0.0:
        return ()
    rows, mean = in_percent(share), -share * math.log(_LEAST_PROBABILITY)
    text = f"{how_many(n_trees, 'tree')} give {rows} of the rows a probability of 0 for their class: clipping decides"
    advice = "take metric='brier', or train trees whose leaves hold more rows"
    return (Caution(ForestWarning, f"{text} the log loss, by {mean:.2g} in the mean; {advice}"),)
