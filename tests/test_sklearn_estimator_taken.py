"""`RightSizedClassifier` and `RightSizedRegressor` given to the functions that take models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rfsize
from helpers import classifiers, regressors
from helpers.forests import Data
from rfsize import RightSizedClassifier, RightSizedRegressor

WORDS = np.array(["violet", "amber", "olive"])  # not in the order of the indices
FOREST = classifiers.xgboost(subsample=0.5)
LIMITS: dict[str, Any] = {"alpha": 0.8, "min_trees": 40}


def fitted(data: Data, estimator: Any = FOREST, **options: Any) -> RightSizedClassifier:
    return RightSizedClassifier(estimator, **(LIMITS | options)).fit(data.X, WORDS[data.three])


@pytest.fixture(scope="module")
def model(data: Data) -> RightSizedClassifier:
    return fitted(data, alpha=0.985)


@pytest.fixture(scope="module")
def numbers(data: Data) -> RightSizedRegressor:
    limits = {"min_trees": 30}
    return RightSizedRegressor(regressors.xgboost(), tolerance=0.3, **limits).fit(data.X, regressors.numbers(data))


def test_all_answer_in_the_words_of_the_labels(model: RightSizedClassifier, data: Data) -> None:
    y = WORDS[data.three]
    assert rfsize.compile(model).predict(data.fresh).tolist() == model.predict(data.fresh).tolist()
    assert rfsize.compile(model).classes.tolist() == sorted(WORDS)
    found, of_indices = (
        rfsize.tree_outputs(model, data.X, oob=True).votes,
        rfsize.tree_outputs(model.estimator_, data.X, oob=True).votes,
    )
    assert found.classes.tolist() == sorted(WORDS)
    assert np.array_equal(found.counts, of_indices.counts)
    assert rfsize.oob_score(model, data.X, y).value == pytest.approx(model.oob_score_)
    labels = rfsize.oob_predict(model, data.X, fill="none")
    assert set(labels) <= {"none", *WORDS}
    assert np.mean(labels[labels != "none"] == y[labels != "none"]) == pytest.approx(model.oob_score_)
    assert np.array_equal(rfsize.oob_predict_proba(model, data.X), model.oob_decision_function_, equal_nan=True)


def test_sizes_and_tables_and_bags_are_those_of_the_forest_inside(model: RightSizedClassifier, data: Data) -> None:
    y, index = WORDS[data.three], np.searchsorted(model.classes_, WORDS[data.three])
    inside = model.estimator_
    assert np.array_equal(rfsize.inbag(model, data.X, y), rfsize.inbag(inside, data.X, index))
    assert rfsize.size(model, data.X, oob=True).n_trees == rfsize.size(inside, data.X, oob=True).n_trees
    options: dict[str, Any] = {"oob": True, "metric": "brier", "tolerance": 0.02}
    assert rfsize.size(model, data.X, y, **options).n_trees == rfsize.size(inside, data.X, index, **options).n_trees
    table = rfsize.StopTable.calibrate(model, data.fresh, alpha=0.9)
    assert table.certificate == rfsize.StopTable.calibrate(inside, data.fresh, alpha=0.9).certificate
    stopped = rfsize.compile(model, table).predict(data.fresh)
    assert stopped.tolist() == model.classes_[rfsize.compile(inside, table).predict(data.fresh)].tolist()


def test_cut_to_fewer_trees_it_is_another_estimator(model: RightSizedClassifier, data: Data) -> None:
    before = model.predict_proba(data.fresh)
    small = rfsize.truncate(model, n_trees=4)
    assert (type(small), small.n_trees_, model.n_trees_ > 4) == (RightSizedClassifier, 4, True)
    expected = rfsize.truncate(model.estimator_, n_trees=4).predict_proba(data.fresh)
    assert np.array_equal(small.predict_proba(data.fresh), expected)
    assert set(small.predict(data.fresh)) <= set(WORDS)
    with pytest.raises(AttributeError, match="cut after fit"):
        _ = small.oob_score_
    assert np.array_equal(model.predict_proba(data.fresh), before)
    assert 0.0 < model.oob_score_ <= 1.0
    by_size = rfsize.truncate(model, data.X, oob=True, alpha=0.9)
    assert by_size.n_trees_ == rfsize.size(model, data.X, oob=True, alpha=0.9).n_trees < model.n_trees_


def test_regressors_are_taken_too(numbers: RightSizedRegressor, data: Data) -> None:
    expected = rfsize.compile(numbers.estimator_).predict(data.fresh)
    assert np.array_equal(rfsize.compile(numbers).predict(data.fresh), expected)
    small = rfsize.truncate(numbers, n_trees=3)
    assert (type(small), small.n_trees_, numbers.n_trees_ > 3) == (RightSizedRegressor, 3, True)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="RightSizedRegressor is a regression forest"):
        rfsize.size(numbers, data.fresh, alpha=0.9)


def test_what_is_not_fitted_is_refused(model: RightSizedClassifier, data: Data) -> None:
    with pytest.raises(
        rfsize.exceptions.NotAForestError, match="RightSizedClassifier that is not fitted: fit it first"
    ):
        rfsize.compile(clone(model))
    with pytest.raises(NotFittedError):
        _ = clone(model).adapter


def test_it_grows_by_its_own_fit(model: RightSizedClassifier, data: Data) -> None:
    for estimator in (model, clone(model)):
        with pytest.raises(rfsize.exceptions.NotAForestError, match=r"RightSizedClassifier.*fit it"):
            rfsize.grow(estimator, data.X, WORDS[data.three])
