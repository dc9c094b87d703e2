"""Forests inside scikit-learn's models of a threshold, beside what these predict."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier

import rfsize
from helpers.compiled_forests import LIGHTGBM, XGBOOST
from helpers.forests import Data
from rfsize.exceptions import NotAForestError

FORESTS = {
    "lightgbm": LGBMClassifier(**LIGHTGBM),
    "xgboost": XGBClassifier(**XGBOOST),
    "sklearn": RandomForestClassifier(20, random_state=0),  # of full trees, whose means are often at the threshold
}


@pytest.fixture(params=FORESTS)
def forest(request: pytest.FixtureRequest) -> Any:
    return clone(FORESTS[request.param])


@pytest.fixture
def rows(data: Data) -> tuple[np.ndarray, np.ndarray]:
    return data.X, data.y.astype(int)


def around(forest: Any, threshold: Any = 0.25, **options: Any) -> FixedThresholdClassifier:
    return FixedThresholdClassifier(forest, threshold=threshold, **options)


@pytest.mark.parametrize("pos_label", [None, 0, 1])
@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.9, "auto"])
def test_labels_are_the_models(forest: Any, threshold: Any, pos_label: Any, rows: Any, data: Data) -> None:
    model = around(forest, threshold, pos_label=pos_label).fit(*rows)
    assert rfsize.compile(model).predict(data.fresh).tolist() == model.predict(data.fresh).tolist()
    outputs = rfsize.tree_outputs(model, data.fresh)
    assert outputs.predict().tolist() == model.predict(data.fresh).tolist()


def test_sizes_are_at_the_threshold(forest: Any, rows: Any, data: Data) -> None:
    # Not at 1/4, which shares of 20 trees reach: this estimator takes ties for class 1.
    model = around(forest, 0.26).fit(*rows)
    at = rfsize.tree_outputs(model.estimator_, data.fresh, threshold=0.26)
    assert rfsize.size(model, data.fresh, alpha=0.9).n_trees == rfsize.size(at, alpha=0.9).n_trees
    counts = rfsize.tree_outputs(model, data.X, oob=True).votes.counts
    assert (
        counts.tolist() == rfsize.tree_outputs(model.estimator_, data.X, oob=True, threshold=0.26).votes.counts.tolist()
    )


def test_what_is_cut_is_the_same_kind_of_model(forest: Any, rows: Any, data: Data) -> None:
    of_class_0 = make_scorer(f1_score, pos_label=0)
    for model in (
        around(forest).fit(*rows),
        TunedThresholdClassifierCV(forest, scoring="f1", cv=3, random_state=0).fit(*rows),
        TunedThresholdClassifierCV(forest, scoring=of_class_0, cv=3, random_state=0).fit(*rows),
        around(FrozenEstimator(clone(forest).fit(*rows))).fit(*rows),
    ):
        before = model.predict(data.fresh)
        small = rfsize.truncate(model, n_trees=5)
        assert type(small) is type(model)
        assert rfsize.compile(small).n_trees == 5
        assert rfsize.compile(small).predict(data.fresh).tolist() == small.predict(data.fresh).tolist()
        assert rfsize.compile(model).predict(data.fresh).tolist() == model.predict(data.fresh).tolist()
        assert model.predict(data.fresh).tolist() == before.tolist()


def test_a_cut_forgets_the_whole_forest(rows: Any) -> None:
    """What the constructor was given is pickled too."""
    forest = RandomForestClassifier(40, random_state=0).fit(*rows)
    alone = len(pickle.dumps(rfsize.truncate(forest, n_trees=5)))
    for inside in (forest, FrozenEstimator(forest)):
        small = rfsize.truncate(around(inside).fit(*rows), n_trees=5)
        assert len(pickle.dumps(small)) < 1.2 * alone
        assert clone(small).get_params()["threshold"] == small.threshold


def test_votes_are_shares_at_a_threshold(rows: Any, data: Data) -> None:
    """A learner without probabilities votes, and a threshold is one of the share of the votes."""
    model = around(BaggingClassifier(LinearSVC(), 60, max_samples=0.1, random_state=0)).fit(*rows)
    outputs = rfsize.tree_outputs(model, data.fresh)
    assert outputs.predict().tolist() == model.predict(data.fresh).tolist()
    report = rfsize.size(outputs, target="forest", alpha=0.9)
    small = rfsize.truncate(model, n_trees=report)
    assert report.certificate.disagreements == np.sum(small.predict(data.fresh) != model.predict(data.fresh))
    assert "majority" not in str(rfsize.size(outputs, voting="soft"))
    assert "averaged scores" in str(rfsize.size(outputs, voting="hard"))


def test_tables_are_for_the_threshold(rows: Any, data: Data) -> None:
    model = around(RandomForestClassifier(101, min_samples_leaf=5, random_state=0)).fit(*rows)
    table = rfsize.StopTable.calibrate(model, data.fresh, alpha=0.9)
    assert table.threshold == pytest.approx(0.25)
    assert np.mean(rfsize.compile(model, table).predict(data.fresh) == model.predict(data.fresh)) > 0.9


def test_a_right_sized_forest_inside(rows: Any, data: Data) -> None:
    right_sized = rfsize.RightSizedClassifier(RandomForestClassifier(random_state=0), alpha=0.9, min_trees=20)
    model = around(right_sized).fit(*rows)
    assert rfsize.compile(model).predict(data.fresh).tolist() == model.predict(data.fresh).tolist()
    small = rfsize.truncate(model, n_trees=5)
    assert small.predict(data.fresh).tolist() == rfsize.compile(small).predict(data.fresh).tolist()


def test_refusals(rows: Any) -> None:
    forest = RandomForestClassifier(5, random_state=0)
    for model, found in (
        (around(forest, 1.5), "1.5"),
        (around(forest, 0.0), "0"),
    ):
        with pytest.raises(NotAForestError, match=found):
            rfsize.compile(model.fit(*rows))
