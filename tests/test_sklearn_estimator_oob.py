"""Out-of-bag predictions, scores and importances of RightSizedClassifier."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron

import rfsize
from helpers.classifiers import KINDS, lightgbm
from helpers.forests import Data
from rfsize import RightSizedClassifier

ROWS = 300
NAMES = np.array(["ash", "elm", "oak"])


def fitted(estimator: Any, data: Data, **options: Any) -> RightSizedClassifier:
    X, y = data.X[:ROWS], NAMES[data.three[:ROWS]]
    return RightSizedClassifier(estimator, alpha=0.8, min_trees=60, max_trees=120, **options).fit(X, y)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest", "bagging"])
@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_those_of_the_forest(kind: str, weighted: bool, data: Data) -> None:
    X, label = data.X[:ROWS], data.three[:ROWS]
    weight = np.random.default_rng(0).integers(1, 3, ROWS).astype(float) if weighted else None
    model = RightSizedClassifier(KINDS[kind], alpha=0.8, min_trees=60, max_trees=120)
    model.fit(X, NAMES[label], sample_weight=weight)
    if model.report_.source != "oob":
        pytest.skip(f"sized by cross-validation: {model.oob_refusal_}")
    expected = rfsize.tree_outputs(model.estimator_, X, oob=True, sample_weight=weight).predict_proba()
    np.testing.assert_array_equal(model.oob_decision_function_, expected)
    known = ~np.isnan(expected).any(axis=1)
    assert model.oob_score_ == np.mean(expected[known].argmax(axis=1) == label[known])
    again = pickle.loads(pickle.dumps(model))
    assert again.oob_score_ == model.oob_score_


def test_groups(data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    groups = np.arange(ROWS) // 3
    model = RightSizedClassifier(lightgbm(subsample=0.3), alpha=0.7, max_trees=200).fit(X, y, groups=groups)
    expected = rfsize.oob_predict_proba(model.estimator_, X, groups=groups)
    np.testing.assert_array_equal(model.oob_decision_function_, expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("learner", [Perceptron(), LogisticRegression()])
def test_bagging_over_other_learners(learner: Any, data: Data) -> None:
    model = fitted(BaggingClassifier(learner, random_state=0), data)
    found = model.oob_decision_function_
    np.testing.assert_array_equal(found, rfsize.oob_predict_proba(model.estimator_, data.X[:ROWS]))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (lightgbm(), {"cv": 3}, "sized by cross-validation"),
        (lightgbm(subsample_freq=0), {"cv": 3}, "sized by cross-validation"),
    ],
)
def test_where_there_are_none(estimator: Any, options: dict[str, Any], message: str, data: Data) -> None:
    model = fitted(estimator, data, **options)
    for name in ("oob_decision_function_", "oob_score_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"no {name}: .*{message}"):
            getattr(model, name)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest"])
def test_importances_are_those_of_the_forest(kind: str, data: Data) -> None:
    model = fitted(KINDS[kind], data)
    np.testing.assert_array_equal(model.feature_importances_, model.estimator_.feature_importances_)
    assert model.feature_importances_.argmax() == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_importances(data: Data) -> None:
    model = fitted(BaggingClassifier(random_state=0), data)
    with pytest.raises(AttributeError, match="BaggingClassifier has no feature_importances_"):
        _ = model.feature_importances_


def test_before_fit() -> None:
    model = RightSizedClassifier(clone(KINDS["random forest"]))
    for name in ("oob_decision_function_", "oob_score_", "feature_importances_"):
        assert not hasattr(model, name)
        with pytest.raises(NotFittedError):
            getattr(model, name)
