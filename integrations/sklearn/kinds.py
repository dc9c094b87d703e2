"""Which kind of ensemble a model of scikit-learn is, and why others are none."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    BaseEnsemble,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils.validation import check_is_fitted

from rfsize.adapters.base import Adapter
from rfsize.errors import NotAForestError
from rfsize.integrations.sklearn.bagging import SklearnBagging
from rfsize.integrations.sklearn.forest import SklearnForest, is_tree
from rfsize.utils.tags import is_regression

REGRESSORS = (RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor)


def adapt(model: Any, *, casts_votes: bool = True) -> Adapter:
    """The adapter of a scikit-learn ensemble; raises `NotAForestError` where there is none that ``casts_votes``."""
    if not casts_votes and isinstance(model, REGRESSORS):
        return _adapt_regressor(model)
    if not isinstance(model, (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier)):
        raise NotAForestError(_why_not(model))
    check_is_fitted(model)
    if np.ndim(model.classes_[0]) > 0:
        raise NotAForestError("the ensemble predicts several labels at once; train one for each")
    if len(model.classes_) < 2:
        raise NotAForestError(f"the ensemble knows one class only, {model.classes_[0]!r}: there is nothing to vote on")
    return SklearnForest.sampled(model) if all(map(is_tree, model.estimators_)) else SklearnBagging(model)


def _adapt_regressor(model: Any) -> Adapter:
    check_is_fitted(model)
    if not all(map(is_tree, model.estimators_)):
        raise NotAForestError(
            f"the members of the {type(model).__name__} are no regression trees; rfsize sizes what trees predict"
        )
    if model.estimators_[0].n_outputs_ > 1:
        raise NotAForestError("the ensemble predicts several numbers at once; train one for each")
    return SklearnForest.sampled(model)


def _why_not(model: Any) -> str:
    name = type(model).__name__
    if hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        return (
            f"found a {name}; give the fitted model inside: pipeline[-1] (and the rows that the other steps make), "
            "search.best_estimator_"
        )
    if any(base.__module__.startswith("rfsize.") for base in type(model).__mro__):
        return f"found a {name} that is not fitted: fit it first, which grows its forest"
    if is_regression(model):
        sized = ": size it by what it predicts, with criterion='score' and a tolerance"
        return f"found a {name}, whose members cast no votes{sized if isinstance(model, REGRESSORS) else ''}"
    if isinstance(model, AdaBoostClassifier):
        return (
            f"found an {name}, whose members are no independent draws: each is trained on the errors of those before "
            "and has a weight of its own, so that there is no infinite ensemble for T*(α) to agree with. Stop it where "
            "the remaining weight cannot change the label: rfsize.compile(model) for decision trees, for others "
            "rfsize.StopTable.lossless(model.estimator_weights_, n_classes=…).apply(votes of the members)"
        )
    if isinstance(model, BaseEnsemble):
        return (
            f"found a {name}, whose members are not independent draws of one kind; T*(α) needs a random forest, "
            "extremely randomised trees or bagging"
        )
    return (
        f"found a {name}; rfsize sizes RandomForestClassifier, ExtraTreesClassifier and BaggingClassifier of "
        "scikit-learn, and forests of LightGBM and XGBoost"
    )
