"""Scikit-learn: random forests, extremely randomised trees and bagging; AdaBoost for compiling only."""

from __future__ import annotations

from pathlib import Path
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

from rfsize.exceptions import NotAForestError
from rfsize.integrations.sklearn.adaboost import BoostedTrees
from rfsize.integrations.sklearn.bagging import SklearnBagging, several
from rfsize.integrations.sklearn.forest import SklearnForest, is_tree
from rfsize.integrations.sklearn.model_files import read_model, write_model
from rfsize.integrations.sklearn.threshold import DECIDERS, deciding
from rfsize.integrations.sklearn.warm_start import SklearnTrainer, fraction_of, with_fraction
from rfsize.models.framework import Framework
from rfsize.models.model import Forest
from rfsize.utils.tags import is_regression

_CLASSIFIERS = (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier)
_REGRESSORS = (RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor)


class ScikitLearn(Framework):
    """The integration of scikit-learn."""

    name = "scikit-learn"
    file_kind = "a scikit-learn model in a skops file"
    file_ending = ".skops"
    default_n_jobs = 1

    def adapt(self, model: Any, *, casts_votes: bool = True) -> Forest:
        if isinstance(model, DECIDERS):
            return deciding(model, casts_votes=casts_votes)
        is_regressor = not casts_votes and isinstance(model, _REGRESSORS)
        if not (is_regressor or isinstance(model, _CLASSIFIERS)):
            raise NotAForestError(_why_not(model))
        check_is_fitted(model)
        of_trees = all(map(is_tree, model.estimators_))
        if is_regressor:
            _check_regressor(model)
        else:
            _check_classes(model.classes_)
        return SklearnForest.sampled(model) if of_trees else SklearnBagging(model)

    def weighted(self, model: Any) -> BoostedTrees | None:
        return BoostedTrees(model) if isinstance(model, AdaBoostClassifier) else None

    def check_estimator(self, estimator: Any) -> None:
        if isinstance(estimator, BaseEnsemble) and not isinstance(estimator, (*_CLASSIFIERS, *_REGRESSORS)):
            raise NotAForestError(_why_not(estimator))

    def with_fraction(self, estimator: Any, fraction: float, n_rows: int) -> Any:
        return with_fraction(estimator, fraction, n_rows)

    def fraction_of(self, estimator: Any, n_rows: int) -> float | None:
        return fraction_of(estimator, n_rows)

    def trainer_of(self, adapter: Any, X: Any, y: Any, sample_weight: Any) -> SklearnTrainer:
        return SklearnTrainer(adapter, X, y, sample_weight)

    def recognises(self, content: bytes) -> bool:
        return content.startswith(b"PK") and b"schema.json" in content

    def load(self, path: Path) -> Any:
        return read_model(path)

    def check_path(self, path: Path) -> None:
        if path.suffix != ".skops":
            raise ValueError(f"a scikit-learn model is written to a .skops file, found {path}")

    def save(self, model: Any, path: Path) -> None:
        write_model(model, path)


def _check_classes(classes: Any) -> None:
    if np.ndim(classes[0]) > 0:
        raise NotAForestError(several("labels", "Classifier"))
    if len(classes) < 2:
        (only,) = classes.tolist()
        raise NotAForestError(f"the ensemble knows one class only, {only!r}: there is nothing to vote on")


def _check_regressor(model: Any) -> None:
    if getattr(model.estimators_[0], "n_outputs_", 1) > 1:
        raise NotAForestError(several("numbers", "Regressor"))


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
        sized = ": size it by what it predicts, with metric='scores' and a tolerance"
        return f"found a {name}, whose members cast no votes{sized if isinstance(model, _REGRESSORS) else ''}"
    if isinstance(model, AdaBoostClassifier):
        return (
            f"found an {name}, which has no T*(α): each member is trained on the errors of those before and has a "
            "weight of its own, so the members are not independent draws. Its predictions can stop early without "
            "loss: rfsize.compile(model) for decision trees, for others "
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


framework = ScikitLearn()
