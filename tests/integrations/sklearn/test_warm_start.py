"""Scikit-learn's ensembles grown by more members."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import rfsize
from helpers.forests import Data
from helpers.reports import as_sure, same
from helpers.sklearn_forests import ALL, ROWS, labels, own_votes


@pytest.mark.parametrize("kind", ["random forest", "extra-trees", "bagging", "subspaces", "neighbours"])
def test_a_grown_ensemble_is_that_of_a_single_fit(kind: str, data: Data) -> None:
    X, y = data.X[:ROWS], labels(data, 3)
    asked_for = clone(ALL[kind]).set_params(n_estimators=10)
    grown, report = rfsize.grow(asked_for, X, y, alpha=0.9, min_trees=10)
    assert report.enough
    assert report.available > 10
    assert report.n_trees <= len(grown.estimators_) == grown.n_estimators == report._wanted
    assert not grown.warm_start
    assert asked_for.n_estimators == 10
    expected = clone(grown).fit(X, y)
    assert np.array_equal(own_votes(grown, data.fresh), own_votes(expected, data.fresh))
    assert rfsize.tree_outputs(grown, X, oob=True).votes == rfsize.tree_outputs(expected, X, oob=True).votes
    whole = clone(grown).set_params(n_estimators=report.available).fit(X, y)
    assert same(as_sure(rfsize.size(whole, X, y, alpha=0.9, oob=True)), as_sure(report))


def test_a_finished_forest_takes_more_trees(data: Data) -> None:
    X, y = data.X[:ROWS], data.y[:ROWS]
    model = RandomForestClassifier(20, class_weight="balanced_subsample", oob_score=True, random_state=4).fit(X, y)
    weight = np.where(np.arange(ROWS) % 5 == 0, 0.0, 1.0)
    weighted = RandomForestClassifier(20, random_state=4).fit(X, y, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", rfsize.exceptions.LabelsOnlyWarning)
        grown = rfsize.grow(model, X, y, alpha=0.95)[0]
    assert len(grown.estimators_) > 20 == len(model.estimators_)
    assert grown.oob_score
    assert np.array_equal(own_votes(grown, data.fresh)[:20], own_votes(model, data.fresh))
    larger = rfsize.grow(weighted, X, y, alpha=0.95, sample_weight=weight)[0]
    assert np.array_equal(own_votes(larger, data.fresh), own_votes(clone(larger).fit(X, y, weight), data.fresh))
    with pytest.raises(ValueError, match="lacks the classes"):
        rfsize.grow(model, X, np.zeros(ROWS, dtype=int))


def test_growing_without_bags_takes_validation_rows(data: Data) -> None:
    trees = ExtraTreesClassifier(10, random_state=0)
    with pytest.raises(rfsize.exceptions.InbagError, match="trained on all rows"):
        rfsize.grow(trees, data.X[:ROWS], data.y[:ROWS])
    grown, report = rfsize.grow(trees, data.X[:ROWS], data.y[:ROWS], alpha=0.9, min_trees=10, validation=data.fresh)
    whole = ExtraTreesClassifier(report.available, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    assert as_sure(rfsize.size(whole, data.fresh, alpha=0.9)) == as_sure(report)
    assert len(grown.estimators_) == report._wanted


def test_growing_leaves_the_callers_generator_alone(data: Data) -> None:
    generator = np.random.RandomState(5)
    model = RandomForestClassifier(10, random_state=generator).fit(data.X[:ROWS], data.y[:ROWS])
    before = generator.get_state(legacy=False)["state"]["pos"]
    rfsize.grow(model, data.X[:ROWS], data.y[:ROWS], alpha=0.95)
    assert generator.get_state(legacy=False)["state"]["pos"] == before
