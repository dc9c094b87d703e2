"""Forests inside a FixedThresholdClassifier or TunedThresholdClassifierCV, which sets the decision threshold."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils.validation import check_is_fitted

from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_forest
from rfsize.models.model import Forest, Wrapper

# How far two probabilities that add up to 1 may be from that sum, once they are rounded.
_ROUNDED = 2.0 * float(np.finfo(np.float64).eps)

DECIDERS = (FixedThresholdClassifier, TunedThresholdClassifierCV)


def deciding(model: Any, *, casts_votes: bool) -> Forest:
    """The adapter of the forest inside ``model``, which votes and predicts labels at the threshold of ``model``.

    Raises
    ------
    NotAForestError
        If the threshold is not a probability of one of two classes.
    """
    check_is_fitted(model)
    adapter = read_forest(_inside(model.estimator_), casts_votes=casts_votes)

    def around(forest: Any) -> Any:
        small = copy.copy(model)
        small.estimator_ = _as_inside(
            model.estimator_, forest if adapter.wrapper is None else adapter.wrapper.around(forest)
        )
        # The constructor's estimator is saved too, and may hold the whole forest.
        is_frozen = isinstance(model.estimator, FrozenEstimator)
        small.estimator = small.estimator_ if is_frozen else clone(model.estimator)
        return small

    return adapter.wrapped_by(
        Wrapper(type(model).__name__, around, threshold=_threshold(model, adapter)), adapter.classes
    )


def _threshold(model: Any, adapter: Forest) -> float:
    """Probability of the second class above which the model predicts that class."""
    name = type(model).__name__
    if model.response_method == "decision_function":
        raise NotAForestError(f"the {name} decides by a decision_function, and forests predict probabilities")
    is_tuned = isinstance(model, TunedThresholdClassifierCV)
    positive = model._curve_scorer._get_pos_label() if is_tuned else model.pos_label
    given = model.best_threshold_ if is_tuned else model.threshold
    threshold = 0.5 if isinstance(given, str) else float(given)
    if not 0.0 < threshold < 1.0:
        raise NotAForestError(
            f"at the threshold {threshold:g} of the {name}, all rows are of one class: there is nothing to vote on"
        )
    # scikit-learn predicts the positive class also if its probability equals the threshold.
    if positive is None or positive == adapter.classes[1]:
        return float(np.nextafter(threshold, 0.0))
    return 1.0 - threshold + _ROUNDED


def _inside(estimator: Any) -> Any:
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def _as_inside(estimator: Any, forest: Any) -> Any:
    return FrozenEstimator(forest) if isinstance(estimator, FrozenEstimator) else forest
