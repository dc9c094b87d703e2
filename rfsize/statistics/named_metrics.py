"""Metrics as a user names them: by rfsize's names or scikit-learn's, by a callable, or by a scorer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rfsize._util import Floats, choice, sample_weights, training_labels
from rfsize.counting.outputs import TreeOutputs, predictor_of
from rfsize.counting.task import Task, check_truth
from rfsize.exceptions import NotAForestError, RfsizeError
from rfsize.models.link import Predictor
from rfsize.statistics.metrics import METRICS, OF_CLASSES, OF_NUMBERS, Metric, accuracy_by, check_weight

MetricLike = str | Callable[..., float]
"""What a user can give: a name, a function of the truth and the predictions, or a scikit-learn scorer."""


# scikit-learn's names of the same metrics, as scorers or functions, without "neg_" before and "_score" behind.
_ALIASES = {
    "logloss": "log_loss",
    "roc_auc": "auc",
    "brier_score_loss": "brier",
    "root_mean_squared_error": "rmse",
    "mean_absolute_error": "mae",
}


def one_name(metric: MetricLike) -> MetricLike:
    """rfsize's name of a metric, from any of its names, in upper or lower case."""
    if not isinstance(metric, str):
        return metric
    name = metric.strip().lower().replace("-", "_").replace(" ", "_")
    short = name.removeprefix("neg_").removesuffix("_score")
    known = _ALIASES.get(short, short)
    return known if known in METRICS else name


def other_names() -> list[str]:
    """Names of metrics that rfsize accepts besides its own."""
    from sklearn.metrics import get_scorer_names

    return [*_ALIASES, *get_scorer_names()]


def goes_by_labels(metric: MetricLike) -> bool:
    """Whether a metric, by rfsize's name, may depend on labels, and so on the threshold; a scorer may."""
    return metric == "accuracy" or scorer_of(metric) is not None


def usual_metric(outputs: TreeOutputs, of_classes: str = "accuracy") -> str:
    """The metric of a score if none is given; R² of a regression."""
    return of_classes if len(outputs.classes) else "r2"


def name_of(metric: MetricLike) -> str:
    """The name of a metric, a scorer or a callable in reports."""
    if isinstance(metric, str):
        return metric
    score = getattr(metric, "_score_func", metric)
    return str(getattr(score, "__name__", type(score).__name__))


def scorer_of(metric: MetricLike) -> Callable[..., float] | None:
    """The scorer of a name that is not rfsize's, or the callable if it is a scorer; otherwise None."""
    if not isinstance(metric, str):  # a scorer is called as scorer(estimator, X, y)
        return metric if callable(metric) and "estimator" in _parameters(metric)[:1] else None
    if metric in METRICS:
        return None
    from sklearn.metrics import get_scorer, get_scorer_names

    scorer: Callable[..., float] | None = get_scorer(metric) if metric in get_scorer_names() else None
    return scorer


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def metric_of(metric: MetricLike, outputs: TreeOutputs) -> Metric:
    """The metric with the truth of the rows; ``ValueError`` if the truth is unknown or does not fit the forest."""
    if outputs.scores is None or outputs.predictor is None:
        raise no_scores_error(name_of(metric))
    return metric_on_rows(metric, predictor_of(outputs), outputs.n_rows, outputs.y, outputs.sample_weight)


def check_metric(metric: MetricLike, task: Task, *, has_loss: bool = True) -> None:
    """Raise ``ValueError`` if a metric or the truth does not fit a task, before trees predict its rows.

    With ``has_loss`` it must be known whether larger is better. Errors of scorers show by made-up predictions.
    """
    check_truth(task)
    y = None if task.y is None else task.forest.truth(task.y)
    fitted = metric_on_rows(metric, task.predictor, task.n_rows, y, task.sample_weight)
    if has_loss:
        check_direction(fitted)
    _value_of_made_up(fitted, task.predictor)


def goes_by_labels_alone(metric: Metric, forest: Predictor) -> bool:
    """Whether a metric, such as F1, is the same for probabilities that give the same labels."""
    if not forest.classes.size:
        return False
    return bool(_value_of_made_up(metric, forest) == _value_of_made_up(metric, forest, are_sure=True))


def _value_of_made_up(metric: Metric, forest: Predictor, *, are_sure: bool = False) -> Any:
    """The metric of made-up predictions; ``are_sure`` makes their probabilities 0 and 1, with the same labels."""
    predicted, n_classes = metric.truth[::-1, None], forest.classes.size
    if n_classes:
        predicted = np.random.default_rng(0).dirichlet(np.ones(n_classes), len(metric.truth))
    if are_sure:
        predicted = np.eye(n_classes)[forest.labels(predicted)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.value(metric.truth, predicted, metric.weight)


def no_scores_error(name: str) -> NotAForestError:
    """The error if a metric, probabilities or scores are wanted of counted votes."""
    advice = "give the model and its rows, or size the labels"
    return NotAForestError(f"metric={name!r} needs the trees' scores, and counted Votes have none: {advice}")


def metric_on_rows(
    metric: MetricLike, forest: Predictor, n_rows: int, y: ArrayLike | None, sample_weight: ArrayLike | None
) -> Metric:
    """The metric with the truth of ``n_rows`` rows; ``ValueError`` if it is unknown, or does not fit the forest."""
    if y is None:
        raise ValueError(f"y is missing: metric {name_of(metric)!r} needs the truth of the rows")
    metric, classes = one_name(metric), forest.classes
    weight, scorer = sample_weights(sample_weight, n_rows), scorer_of(metric)
    check_weight(weight)
    if scorer is not None or callable(metric):
        # Imported here, because importing scikit-learn takes long.
        from rfsize.statistics.scorers import metric_by

        function: Any = metric if scorer is None else scorer
        is_weighted = sample_weight is not None
        if is_weighted and "sample_weight" not in _parameters(getattr(function, "_score_func", function)):
            advice = "give it the parameter, or leave sample_weight out"
            raise ValueError(f"{name_of(metric)!r} takes no sample_weight: {advice}")
        how = {"is_scorer": scorer is not None, "is_weighted": is_weighted}
        return metric_by(function, name_of(metric), forest, y, weight, **how)
    names = [known.name for known in (OF_CLASSES if classes.size else OF_NUMBERS)]
    choice("metric", metric, names, "; or give a scorer of scikit-learn's, or a callable of y and the predictions")
    known = accuracy_by(forest.labels) if metric == "accuracy" else METRICS[str(metric)]
    if known.is_ranking and len(classes) > 2:
        advice = "take metric='roc_auc_ovr' or 'log_loss'"
        raise ValueError(f"metric '{metric}' is for two classes, and the forest has {len(classes)}: {advice}")
    truth = training_labels(classes, y, n_rows)
    if known.is_ranking and len(np.unique(truth)) < 2:
        raise RfsizeError(f"metric '{metric}' compares rows of two classes, and y holds only one")
    return replace(known, truth=truth, weight=weight)


def check_direction(metric: Metric) -> None:
    """Raise ``ValueError`` if it is unknown whether larger is better: the metric then has no loss."""
    if metric.larger_is_better is None:
        advice = "give a scorer, sklearn.metrics.make_scorer(..., greater_is_better=...)"
        raise ValueError(f"the callable {metric.name!r} does not say whether larger values are better: {advice}")


def predictions_for(outputs: TreeOutputs, metric: Metric) -> Callable[[Floats], Floats]:
    """Makes predictions from mean scores, for a metric; for a ranking by single scores, the scores themselves do."""
    if metric.is_ranking and outputs.scores is not None and outputs.scores.n_scores == 1:
        return np.asarray
    return predictor_of(outputs).predictions
