"""XGBRFClassifier and XGBRFRegressor, for as long as XGBoost has them: since 3.4 it warns of their end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone

import rfsize
from helpers.forests import Data

pytestmark = [
    pytest.mark.skipif(not hasattr(xgb, "XGBRFClassifier"), reason="this XGBoost has the wrappers no more"),
    pytest.mark.filterwarnings("ignore:`XGBRF.*` is deprecated:FutureWarning"),
]


@pytest.fixture
def classifier() -> Any:
    return xgb.XGBRFClassifier(n_estimators=41, random_state=1)


def test_a_classifier_is_sized_and_truncated(classifier: Any, data: Data) -> None:
    model = classifier.fit(data.X, data.y)
    parameters, before = model.get_params(), model.predict_proba(data.fresh)
    small = rfsize.truncate(model, n_trees=11)
    assert type(small) is type(model)
    assert (small.n_estimators, rfsize.size(small, data.fresh, alpha=0.6).available) == (11, 11)
    assert (
        rfsize.tree_outputs(clone(small).fit(data.X, data.y), data.fresh).votes
        == rfsize.tree_outputs(small, data.fresh).votes
    )
    assert rfsize.size(model, data.X, alpha=0.9, oob=True).source == "oob"
    assert model.get_params() == parameters
    assert np.array_equal(model.predict_proba(data.fresh), before)


@pytest.mark.parametrize("fitted", [False, True])
def test_a_classifier_grows(fitted: bool, classifier: Any, data: Data) -> None:
    given = classifier.fit(data.X, data.y) if fitted else classifier
    grown, report = rfsize.grow(given, data.X, data.y, alpha=0.98)
    assert type(grown) is type(given)
    assert given.n_estimators == 41
    n_trees = max(report.n_kept, 41) if fitted else report.n_kept
    assert grown.n_estimators == rfsize.tree_outputs(grown, data.fresh).votes.n_trees == n_trees
    assert np.mean(grown.predict(data.X) == data.y) > 0.7


def test_a_right_sized_classifier_takes_it(classifier: Any, data: Data) -> None:
    y = np.array(["no", "yes"])[data.y]
    model = rfsize.RightSizedClassifier(classifier, alpha=0.9).fit(data.X, y)
    assert model.estimator_.n_estimators == model.n_trees_
    assert set(model.predict(data.fresh)) == {"no", "yes"}


def test_a_regressor_is_truncated(data: Data) -> None:
    model = xgb.XGBRFRegressor(n_estimators=60, random_state=1).fit(data.X, data.X[:, 0])
    small = rfsize.truncate(model, data.X, oob=True, metric="scores", tolerance=0.1)
    assert type(small) is type(model)
    assert small.n_estimators == rfsize.size(small, data.fresh, metric="scores", tolerance=0.1).available < 60
