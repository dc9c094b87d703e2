"""Forests inside a FixedThresholdClassifier or a TunedThresholdClassifierCV, which decide above its threshold."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils.validation import check_is_fitted

from rfsize.adapters.base import Adapter, Holder
from rfsize.adapters.registry import adapter_for
from rfsize.exceptions import NotAForestError

DECIDERS = (FixedThresholdClassifier, TunedThresholdClassifierCV)


def deciding(model: Any, *, casts_votes: bool) -> Adapter:
    """The forest inside, which votes and is labelled above the threshold of the model around it.

    Raises
    ------
    NotAForestError
        If the threshold is no probability of the second class.
    """
    check_is_fitted(model)
    adapter = adapter_for(_inside(model.estimator_), casts_votes=casts_votes)

    def around(forest: Any) -> Any:
        small = copy.copy(model)
        small.estimator_ = _as_inside(
            model.estimator_, forest if adapter.holder is None else adapter.holder.around(forest)
        )
        # What was given to the constructor may hold the whole forest, and is saved too.
        is_frozen = isinstance(model.estimator, FrozenEstimator)
        small.estimator = small.estimator_ if is_frozen else clone(model.estimator)
        return small

    return adapter.held_by(Holder(type(model).__name__, around, threshold=_threshold(model, adapter)), adapter.classes)


def _threshold(model: Any, adapter: Adapter) -> float:
    """The probability of the second class above which the model says so."""
    name = type(model).__name__
    if model.response_method == "decision_function":
        raise NotAForestError(f"the {name} decides by a decision_function, and forests predict probabilities")
    is_tuned = isinstance(model, TunedThresholdClassifierCV)
    positive = model._curve_scorer._get_pos_label() if is_tuned else model.pos_label
    if positive is not None and positive != adapter.classes[1]:
        raise NotAForestError(
            f"the {name} has a threshold for class {positive!r}, and rfsize needs one for the second class, "
            f"{adapter.classes[1]!r}: train it with that pos_label, and 1 minus the threshold"
        )
    given = model.best_threshold_ if is_tuned else model.threshold
    threshold = 0.5 if isinstance(given, str) else float(given)
    if not 0.0 < threshold < 1.0:
        raise NotAForestError(
            f"at the threshold {threshold:g} of the {name}, every row, or none, is of class {adapter.classes[1]!r}: "
            "there is nothing to vote on"
        )
    # scikit-learn decides for the second class at the threshold too.
    return float(np.nextafter(threshold, 0.0))


def _inside(estimator: Any) -> Any:
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def _as_inside(estimator: Any, forest: Any) -> Any:
    return FrozenEstimator(forest) if isinstance(estimator, FrozenEstimator) else forest
