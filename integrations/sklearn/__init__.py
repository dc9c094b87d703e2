"""Scikit-learn: random forests, extremely randomised trees, bagging, AdaBoost and gradient boosting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaseEnsemble,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils.validation import check_is_fitted

from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.model import (
    BAGGING,
    THRESHOLD_CLASSIFIERS,
    SklearnBagging,
    SklearnForest,
    inside_threshold_classifier,
    is_tree,
    several_outputs,
)
from rfsize.models.framework import Framework
from rfsize.models.model import Forest, Model

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor, *BAGGING)


class ScikitLearn(Framework):
    """scikit-learn, as rfsize reads its models."""

    name = "scikit-learn"

    def read(self, model: Any) -> Model:
        if isinstance(model, THRESHOLD_CLASSIFIERS):
            return inside_threshold_classifier(model)
        if isinstance(model, FORESTS):
            return _read_forest(model)
        raise NotAForestError(_why_not(model))


def _read_forest(model: Any) -> Forest:
    check_is_fitted(model)
    _check_outputs(model)
    return SklearnForest(model) if all(map(is_tree, model.estimators_)) else SklearnBagging(model)


def _check_outputs(model: Any) -> None:
    classes = getattr(model, "classes_", None)
    if classes is None:
        if getattr(model.estimators_[0], "n_outputs_", 1) > 1:
            raise NotAForestError(several_outputs("numbers", "Regressor"))
    elif np.ndim(classes[0]) > 0:
        raise NotAForestError(several_outputs("labels", "Classifier"))
    elif len(classes) < 2:
        raise NotAForestError(f"the model knows one class only, {classes.tolist()[0]!r}: train it on two or more")


def _why_not(model: Any) -> str:
    name = type(model).__name__
    if hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        return (
            f"a {name} holds a model: give the fitted one inside, pipeline[-1] (and the rows that the other steps "
            "make) or search.best_estimator_"
        )
    if any(base.__module__.startswith("rfsize.") for base in type(model).__mro__):
        return f"the {name} is not fitted: fit it first, which grows its forest"
    return f"rfsize does not read a {name}: give a random forest, extremely randomised trees, bagging or boosted trees"


framework = ScikitLearn()
