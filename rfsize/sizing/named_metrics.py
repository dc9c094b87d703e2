"""Metrics: by name, by a callable, or by a scikit-learn scorer.

To add a metric, see "To add a metric" in docs/contributing/architecture.md.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import Floats, choice, class_indices, did_you_mean, sample_weights, training_labels
from rfsize.counting.outputs import TreeOutputs, predictor_of
from rfsize.exceptions import RfsizeError
from rfsize.models.link import Predictor
from rfsize.sizing import ranking
from rfsize.sizing.metrics import GivenMetric, MeanMetric, Metric, RankMetric, no_weight

_LEAST_PROBABILITY = float(np.finfo(np.float64).eps)
MOST_LOG_LOSS = -math.log(_LEAST_PROBABILITY)
"""The log loss of a row whose class has probability 0."""

_OF_CLASSES, _OF_NUMBERS = ("log_loss", "auc", "accuracy", "brier", "average_precision"), ("rmse", "mae", "r2")
METRICS = (*_OF_CLASSES, *_OF_NUMBERS)
"""Names of the metrics that compare predictions with the truth."""

# scikit-learn's names of the same metrics, as scorers or functions.
_ALIASES = {
    **dict.fromkeys(("logloss", "neg_log_loss"), "log_loss"),
    **dict.fromkeys(("roc_auc", "roc_auc_score"), "auc"),
    "accuracy_score": "accuracy",
    **dict.fromkeys(("brier_score", "neg_brier_score", "brier_score_loss"), "brier"),
    "average_precision_score": "average_precision",
    **dict.fromkeys(("root_mean_squared_error", "neg_root_mean_squared_error"), "rmse"),
    **dict.fromkeys(("mean_absolute_error", "neg_mean_absolute_error"), "mae"),
    "r2_score": "r2",
}

_SCORERS = {
    "log_loss": "neg_log_loss",
    "auc": "roc_auc",
    "brier": "neg_brier_score",
    "rmse": "neg_root_mean_squared_error",
    "mae": "neg_mean_absolute_error",
}

Scorer = Callable[..., float]
"""A scikit-learn scorer, called as ``scorer(estimator, X, y)``; the estimator returns stored predictions."""

# What a user can give: a name, a function of the truth and the predictions, or a scikit-learn scorer.
MetricLike = str | Callable[..., float]


def one_name(metric: MetricLike) -> MetricLike:
    """rfsize's name of a metric, from any of its names, in upper or lower case."""
    if not isinstance(metric, str):
        return metric
    name = metric.strip().lower().replace("-", "_").replace(" ", "_")
    return _ALIASES.get(name, name)


def scorer_name(metric: str) -> str:
    """scikit-learn's name of the scorer of a metric, from any of its names; ``ValueError`` if there is none."""
    name = str(one_name(metric))
    name = _SCORERS.get(name, name)
    if name not in scorer_names():
        meant = did_you_mean(metric, [*METRICS, *scorer_names()])
        raise ValueError(
            f"metric={metric!r} is no scorer that scikit-learn knows{meant}; "
            "sklearn.metrics.get_scorer_names() has them"
        )
    return name


def is_metric(metric: MetricLike) -> bool:
    """Whether it is a metric or a scorer, by rfsize's name."""
    return callable(metric) or metric in METRICS or scorer_of(metric, METRICS) is not None


def other_names() -> list[str]:
    """Names of metrics that rfsize accepts besides its own."""
    return [*_ALIASES, *scorer_names()]


def goes_by_labels(metric: MetricLike) -> bool:
    """Whether a metric may depend on labels, and so on the threshold; a scorer may."""
    metric = one_name(metric)
    return metric == "accuracy" or scorer_of(metric, METRICS) is not None


def usual_metric(outputs: TreeOutputs) -> str:
    """The metric of a score if none is given: accuracy or R²."""
    return "accuracy" if len(outputs.classes) else "r2"


def judge_of(metric: MetricLike, outputs: TreeOutputs) -> Metric:
    """The metric with the truth of the rows; ``ValueError`` if the truth is unknown or does not fit the forest."""
    if outputs.y is None:
        raise ValueError(f"y is missing: {_named(metric)} needs the truth of the rows")
    return metric_with_truth(metric, predictor_of(outputs), outputs.n_rows, outputs.y, outputs.sample_weight)


def check_direction(judge: Metric) -> None:
    """Raise ``ValueError`` if it is unknown whether larger is better: the metric then has no loss."""
    if judge.larger_is_better is None:
        raise ValueError(
            f"the callable {judge.name!r} does not say whether larger values are better: give a scorer, "
            "sklearn.metrics.make_scorer(..., greater_is_better=...)"
        )


def _named(metric: MetricLike) -> str:
    return f"metric {metric!r}" if isinstance(metric, str) else "a metric"


def metric_with_truth(
    metric: MetricLike, forest: Predictor, n_rows: int, y: ArrayLike, sample_weight: ArrayLike | None
) -> Metric:
    """The metric with the truth of ``n_rows`` rows; ``ValueError`` if they do not fit the forest."""
    metric, classes = one_name(metric), forest.classes
    weight = sample_weights(sample_weight, n_rows)
    scorer = scorer_of(metric, known=METRICS)
    if scorer is not None:
        name = metric if isinstance(metric, str) else name_of(scorer)
        return _of_scorer(name, scorer, forest, n_rows, y, None if sample_weight is None else weight)
    if not isinstance(metric, str) and callable(metric):
        takes_weight = _takes_weight_of(metric, sample_weight)
        truth = np.asarray(y)
        if truth.shape != (n_rows,):
            raise ValueError(f"y must hold one value per row of X: {n_rows} expected, found shape {truth.shape}")
        as_given = _probabilities_as_given if classes.size else _numbers_as_given

        def given(truth: NDArray[Any], predicted: NDArray[Any], weight: Floats) -> float:
            return metric(truth, predicted, sample_weight=weight) if takes_weight else metric(truth, predicted)

        return GivenMetric(name_of(metric), truth, weight, (-math.inf, math.inf), given=given, as_given=as_given)
    names = _OF_CLASSES if classes.size else _OF_NUMBERS
    kind = "classification" if classes.size else "regression"
    advice = f"; or give a scorer of scikit-learn's, or a callable of y and the predictions of this {kind} forest"
    if isinstance(metric, str) and metric in {*_OF_CLASSES, *_OF_NUMBERS, *other_names()}.difference(names):
        raise ValueError(f"metric={metric!r} does not fit a {kind} forest: take one of {', '.join(names)}{advice}")
    choice("metric", metric, names, advice, others=other_names())
    if not weight.any():
        raise no_weight()
    return _of_classes(metric, forest, y, weight) if classes.size else _of_numbers(metric, y, weight)


def _of_classes(metric: str, forest: Predictor, y: ArrayLike, weight: Floats) -> Metric:
    classes = forest.classes
    truth = class_indices(classes, y, len(weight))
    positive = (0.0, math.inf)
    if metric == "log_loss":
        return MeanMetric(metric, truth, weight, positive, _logloss)
    if metric == "brier":
        return MeanMetric(metric, truth, weight, positive, _brier)
    if metric == "accuracy":
        return MeanMetric(
            metric,
            truth,
            weight,
            (0.0, 1.0),
            lambda found, truth: (forest.labels(found) == truth).astype(np.float64),
            steps=True,
            larger_is_better=True,
        )
    if len(classes) > 2:
        scorer = ", or the scorer 'roc_auc_ovr'" if metric == "auc" else ""
        raise ValueError(
            f"metric '{metric}' is for two classes, and the forest has {len(classes)}: take 'log_loss', 'brier' or "
            f"'accuracy'{scorer}"
        )
    if len(np.unique(truth)) < 2:
        raise RfsizeError(f"metric '{metric}' compares rows of two classes, and y holds only one")
    if metric == "auc":
        return RankMetric(metric, truth, weight, (0.0, 1.0), ranking.auc, ranking.auc_slopes)
    of_levels, slopes = ranking.average_precision, ranking.average_precision_slopes
    return RankMetric(metric, truth, weight, (0.0, 1.0), of_levels, slopes)


def _of_scorer(
    name: str, scorer: Scorer, forest: Predictor, n_rows: int, y: ArrayLike, weight: Floats | None
) -> Metric:
    """A scorer as a metric; the scorer gets the model's own labels."""
    classes, truth = forest.classes, training_labels(forest.classes, y, n_rows)
    truth = classes[truth] if classes.size else truth
    weighs = _takes_weight_of(scorer, weight)

    def score(truth: NDArray[Any], predicted: NDArray[Any], weight: Floats) -> float:
        return scored(scorer, truth, predicted, forest, weight if weighs else None)

    return GivenMetric(
        name,
        truth,
        np.ones(n_rows) if weight is None else weight,
        (-math.inf, math.inf),
        given=score,
        as_given=_all_probabilities if classes.size else _numbers_as_given,
        larger_is_better=True,
    )


def clipped_rows(judge: Metric) -> Metric | None:
    """The share of rows whose log loss is clipped, as a metric; None if the metric is no log loss."""
    if isinstance(judge, MeanMetric) and judge.by_row is _logloss:
        return replace(judge, name="clipped rows", by_row=_is_clipped, range=(0.0, 1.0))
    return None


def _of_numbers(metric: str, y: ArrayLike, weight: Floats) -> Metric:
    truth = training_labels(np.zeros(0), y, len(weight))
    if metric == "mae":
        return MeanMetric(metric, truth, weight, (0.0, math.inf), lambda found, truth: np.abs(found[..., 0] - truth))
    span, form = ((0.0, math.inf), "root") if metric == "rmse" else ((-math.inf, 1.0), "explained")
    larger = metric == "r2"

    def square(found: Floats, truth: NDArray[Any]) -> Floats:
        return np.asarray((found[..., 0] - truth) ** 2)

    return MeanMetric(metric, truth, weight, span, square, form=form, larger_is_better=larger)


def predictions_for(outputs: TreeOutputs, judge: Metric) -> Callable[[Floats], Floats]:
    """Makes predictions from mean scores, for a metric; for a ranking by single scores, the scores themselves do."""
    if judge.by_order and outputs.scores is not None and outputs.scores.n_scores == 1:
        return _as_they_are
    return predictor_of(outputs).predictions


def _as_they_are(mean: Floats) -> Floats:
    return mean


def _numbers_as_given(predicted: Floats) -> Floats:
    return predicted[:, 0]


def _probabilities_as_given(predicted: Floats) -> Floats:
    """Probabilities as a user's metric takes them, within [0, 1] and with sum 1; of two classes, only class 1."""
    cut = _all_probabilities(predicted)
    return cut[:, 1] if cut.shape[1] == 2 else cut


def _all_probabilities(predicted: Floats) -> Floats:
    """The same probabilities of all classes."""
    cut = np.clip(predicted, 0.0, 1.0)
    cut *= (predicted.sum(axis=1) / np.maximum(cut.sum(axis=1), _LEAST_PROBABILITY))[:, None]
    np.minimum(cut, 1.0, out=cut)  # the last bit of the product
    return np.asarray(cut)


def _of_truth(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """The probability of each row's class; one-vs-all probabilities are divided by their sum."""
    return np.asarray(predicted[:, np.arange(len(truth)), truth] / predicted.sum(axis=2))


def _logloss(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """scikit-learn's log loss: probabilities are clipped, so that it is always a number."""
    return -np.log(np.clip(_of_truth(predicted, truth), _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY))


def _is_clipped(predicted: Floats, truth: NDArray[Any]) -> Floats:
    return (_of_truth(predicted, truth) < _LEAST_PROBABILITY).astype(np.float64)


def _brier(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """Squared distance from the truth; of two classes, only the probability of class 1."""
    if predicted.shape[2] == 2:
        return np.asarray((predicted[..., 1] - truth) ** 2)
    of_truth = predicted[:, np.arange(len(truth)), truth]
    return np.asarray(np.sum(predicted**2, axis=2) - 2.0 * of_truth + 1.0)


def scorer_names() -> list[str]:
    """Names of scikit-learn's scorers."""
    from sklearn.metrics import get_scorer_names

    return list(get_scorer_names())


def scorer_of(metric: Any, known: Collection[str]) -> Scorer | None:
    """The scorer of a name that is not in ``known``, or the callable if it is a scorer; otherwise None."""
    from sklearn.metrics import get_scorer, get_scorer_names

    if isinstance(metric, str):
        scorer: Scorer | None = get_scorer(metric) if metric not in known and metric in get_scorer_names() else None
        return scorer
    return metric if callable(metric) and "estimator" in _parameters(metric)[:1] else None


def _takes_weight_of(metric: Callable[..., float], sample_weight: ArrayLike | None) -> bool:
    """Whether to give the weights of the rows to a scorer or callable; ``ValueError`` if it does not take them."""
    if sample_weight is None:
        return False
    if "sample_weight" not in _parameters(getattr(metric, "_score_func", metric)):
        raise ValueError(
            f"{name_of(metric)!r} takes no sample_weight: give it the parameter, or leave sample_weight out"
        )
    return True


def name_of(scorer: Scorer) -> str:
    """The scorer's name in reports."""
    score = getattr(scorer, "_score_func", scorer)
    return str(getattr(score, "__name__", type(score).__name__))


def scored(
    scorer: Scorer,
    truth: NDArray[Any],
    predicted: Floats,
    forest: Predictor,
    sample_weight: Floats | None,
) -> float:
    """The score of a forest's predictions: probabilities of all classes, or numbers of a regression."""
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    rows = np.arange(len(truth))[:, None]
    return scorer(_estimator(predicted, forest), rows, truth, **weights)


def _estimator(predicted: Floats, forest: Predictor) -> Any:
    """An estimator that returns stored predictions, by the numbers of the rows."""
    # Imported here, because importing scikit-learn takes long.
    from rfsize.sizing.stored_predictions import StoredClassifier, StoredRegressor

    if not len(forest.classes):
        return StoredRegressor(predicted)
    return StoredClassifier(forest.classes, forest.classes[forest.labels(predicted)], predicted)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
