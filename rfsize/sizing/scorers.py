"""scikit-learn's scorers, as metrics of predictions: each is called as ``scorer(estimator, X, y)``.

The estimator that it gets predicts what a forest did, of rows that are named by their numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats
from rfsize.voting.links import Predictor

Scorer = Callable[..., float]


def scorer_names() -> list[str]:
    """Names of scikit-learn's scorers."""
    from sklearn.metrics import get_scorer_names

    return list(get_scorer_names())


def scorer_of(metric: Any, known: Collection[str]) -> Scorer | None:
    """The scorer that is meant by a name which is not ``known`` otherwise, or by a callable; None where it is none."""
    from sklearn.metrics import get_scorer, get_scorer_names

    if isinstance(metric, str):
        scorer: Scorer | None = get_scorer(metric) if metric not in known and metric in get_scorer_names() else None
        return scorer
    return metric if callable(metric) and "estimator" in _parameters(metric)[:1] else None


def takes_weights(scorer: Scorer) -> bool:
    """Whether it can be given weights of the rows."""
    return "sample_weight" in _parameters(getattr(scorer, "_score_func", scorer))


def name_of(scorer: Scorer) -> str:
    """What reports call it."""
    score = getattr(scorer, "_score_func", scorer)
    return str(getattr(score, "__name__", type(score).__name__))


def scored(
    scorer: Scorer,
    truth: NDArray[Any],
    predicted: Floats,
    forest: Predictor,
    sample_weight: Floats | None,
) -> float:
    """What a scorer says of predictions of a forest: probabilities of all classes, or numbers where there are none."""
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    rows = np.arange(len(truth))[:, None]
    return scorer(_estimator(predicted, forest), rows, truth, **weights)


def _estimator(predicted: Floats, forest: Predictor) -> Any:
    """An estimator that has predicted all rows, and finds them by their numbers."""
    # Here, because scikit-learn takes long to import.
    from rfsize.utils.stored import StoredClassifier, StoredRegressor

    if not len(forest.classes):
        return StoredRegressor(predicted)
    return StoredClassifier(forest.classes, forest.classes[forest.labels(predicted)], predicted)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
