"""Scikit-learn's forests and bagging ensembles, against scikit-learn itself."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.fixes import parse_version

import reference.counting
import reference.stopping
import rfsize
from helpers.forests import Data
from helpers.outputs import votes_of
from helpers.sklearn_forests import ALL, FORESTS, ROWS, fitted, own_bags, own_votes


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ALL)
def test_votes_are_those_of_the_members(kind: str, n_classes: int, data: Data) -> None:
    model = fitted(kind, data, n_classes)
    own = own_votes(model, data.fresh)
    assert np.array_equal(rfsize.tree_outputs(model, data.fresh).by_tree(), own.T)
    votes = rfsize.tree_outputs(model, data.fresh).votes
    assert np.array_equal(votes.counts, reference.counting.votes(own, n_classes))
    assert np.array_equal(votes.classes, model.classes_)
    bags = own_bags(model)
    assert np.array_equal(rfsize.inbag(model, data.X[:ROWS]), bags)
    out_of_bag = rfsize.tree_outputs(model, data.X[:ROWS], oob=True).votes
    assert np.array_equal(out_of_bag.counts, reference.counting.votes(own_votes(model, data.X[:ROWS]), n_classes, bags))
    report = rfsize.size(model, data.X[:ROWS], oob=True)
    assert report.source == "oob"
    assert report.available == len(model.estimators_)


@pytest.mark.parametrize("kind", ALL)
def test_a_truncated_ensemble_is_that_of_a_smaller_fit(kind: str, data: Data) -> None:
    model = fitted(kind, data, 3, oob_score=ALL[kind].bootstrap)
    before = own_votes(model, data.fresh)
    small = rfsize.truncate(model, n_trees=4)
    expected = fitted(kind, data, 3, n_estimators=4)
    assert type(small) is type(model)
    assert small.n_estimators == len(small.estimators_) == 4
    assert np.array_equal(small.predict(data.fresh), expected.predict(data.fresh))
    assert (
        rfsize.tree_outputs(small, data.X[:ROWS], oob=True).votes
        == rfsize.tree_outputs(expected, data.X[:ROWS], oob=True).votes
    )
    # Nothing is left of what the whole ensemble scored, and the whole ensemble is what it was.
    assert not hasattr(small, "oob_score_")
    assert hasattr(model, "oob_score_") == ALL[kind].bootstrap
    assert np.array_equal(own_votes(model, data.fresh), before)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", FORESTS)
def test_a_compiled_forest_votes_and_stops_as_its_trees_do(
    kind: str, n_classes: int, data: Data, tmp_path: Path
) -> None:
    model = fitted(kind, data, n_classes)
    rows = np.random.default_rng(3).normal(size=(700, 8))
    own = own_votes(model, rows)
    table = rfsize.StopTable.build(31, prior=rfsize.tree_outputs(model, data.fresh).votes)
    rfsize.compile(model, table).save(tmp_path / "forest.npz")
    for fast in (rfsize.compile(model, table), rfsize.load(tmp_path / "forest.npz")):
        assert np.array_equal(fast.votes(rows).counts, reference.counting.votes(own, n_classes))
        assert fast.predict_proba(rows) == pytest.approx(model.predict_proba(rows), abs=1e-12)
        predicted, asked = fast.predict(rows, return_trees=True)
        expected = [reference.stopping.vote_in_order(table, list(votes)) for votes in own.T]
        assert np.array_equal(predicted, model.classes_[[answer for answer, _ in expected]])
        assert np.array_equal(asked, [trees for _, trees in expected])


def test_values_are_compared_in_single_precision(data: Data) -> None:
    model = fitted("random forest", data)
    thresholds = np.concatenate([tree.tree_.threshold[tree.tree_.feature == 0] for tree in model.estimators_])
    rows = np.zeros((3 * thresholds.size, 8))
    rows[:, 0] = np.concatenate([thresholds, np.nextafter(thresholds, -9), np.nextafter(thresholds, 9)])
    assert np.array_equal(rfsize.compile(model).votes(rows).counts, reference.counting.votes(own_votes(model, rows), 2))


@pytest.mark.parametrize("in_training", [True, False])
def test_missing_values_go_where_scikit_learn_sends_them(in_training: bool, data: Data) -> None:
    X, rows = data.X[:ROWS].copy(), data.fresh.copy()
    rng = np.random.default_rng(0)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    if in_training:
        X[rng.random(X.shape) < 0.2] = np.nan
    model = RandomForestClassifier(31, random_state=2).fit(X, data.y[:ROWS])
    assert np.array_equal(rfsize.compile(model).votes(rows).counts, reference.counting.votes(own_votes(model, rows), 2))
    if in_training and parse_version(sklearn.__version__) < parse_version("1.8"):
        with pytest.raises(rfsize.exceptions.InbagError, match="Before scikit-learn"):
            rfsize.inbag(model, X)
    else:
        assert np.array_equal(rfsize.inbag(model, X), own_bags(model))


@pytest.mark.parametrize("kind", FORESTS)
def test_infinite_values_are_refused_as_scikit_learn_refuses_them(kind: str, data: Data) -> None:
    model, rows = fitted(kind, data), data.fresh.copy()
    for value in (np.inf, -np.inf, 1e39):
        rows[3, 2] = value
        for predict in (model.predict, rfsize.compile(model).predict, rfsize.compile(model).predict_proba):
            with pytest.raises(ValueError, match=r"infinity|single precision"):
                predict(rows)


def test_members_that_see_one_feature(data: Data) -> None:
    model = fitted("subspaces", data, max_features=1)
    assert np.array_equal(
        rfsize.compile(model).votes(data.fresh).counts, reference.counting.votes(own_votes(model, data.fresh), 2)
    )


@pytest.mark.parametrize("kind", ["random forest", "bagging", "subspaces", "neighbours"])
def test_sparse_rows(kind: str, data: Data) -> None:
    X = np.where(np.abs(data.X[:ROWS]) < 0.6, 0.0, data.X[:ROWS])
    model = clone(ALL[kind]).fit(csr_matrix(X), data.y[:ROWS])
    assert rfsize.tree_outputs(model, csr_matrix(X)).votes == rfsize.tree_outputs(model, X).votes
    assert np.array_equal(rfsize.inbag(model, csr_matrix(X)), own_bags(model))
    if kind != "neighbours":
        assert rfsize.compile(model).votes(csr_matrix(X)) == rfsize.tree_outputs(model, X).votes


def test_a_class_that_some_bags_lack(data: Data) -> None:
    y = np.array(["b", "c"])[data.y[:ROWS]]
    y[:2] = "a"
    model = BaggingClassifier(n_estimators=40, max_samples=0.3, random_state=0)
    with config_context(enable_metadata_routing=True):
        # Trees that ask for no weights are given the rows of their bag, some of them several times.
        model.fit(data.X[:ROWS], y)
        assert np.array_equal(rfsize.inbag(model, data.X[:ROWS]), own_bags(model))
    assert {len(tree.classes_) for tree in model.estimators_} == {2, 3}
    own = own_votes(model, data.fresh)
    assert np.array_equal(rfsize.tree_outputs(model, data.fresh).by_tree(), own.T)
    fast = rfsize.compile(model)
    assert np.array_equal(fast.votes(data.fresh).counts, reference.counting.votes(own, 3))
    assert fast.predict_proba(data.fresh) == pytest.approx(model.predict_proba(data.fresh), abs=1e-12)


def test_a_threshold_of_two_classes(data: Data) -> None:
    model = fitted("shallow forest", data)
    probability = np.array([tree.predict_proba(data.fresh)[:, 1] for tree in model.estimators_])
    expected = reference.counting.votes((probability > 0.3).astype(int), 2)
    assert np.array_equal(rfsize.tree_outputs(model, data.fresh, threshold=0.3).votes.counts, expected)
    assert np.array_equal(rfsize.compile(model, threshold=0.3).votes(data.fresh).counts, expected)
    neighbours = fitted("neighbours", data)
    probability = np.array([member.predict_proba(data.fresh)[:, 1] for member in neighbours.estimators_])
    expected = reference.counting.votes((probability > 0.3).astype(int), 2)
    assert np.array_equal(rfsize.tree_outputs(neighbours, data.fresh, threshold=0.3).votes.counts, expected)


def test_bags_are_proven_or_refused(data: Data) -> None:
    model = fitted("random forest", data)
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        rfsize.inbag(model, data.X[:ROWS][::-1])
    with pytest.raises(rfsize.exceptions.InbagError, match="trained on 400 rows, but X has 300"):
        rfsize.inbag(model, data.X[:300])
    with pytest.raises(rfsize.exceptions.InbagError, match="trained on all rows"):
        rfsize.size(ExtraTreesClassifier(5).fit(data.X, data.y), data.X, oob=True)
    with pytest.raises(ValueError, match="leave out seed"):
        rfsize.inbag(model, data.X[:ROWS], seed=3)
    warm = BaggingClassifier(n_estimators=5, warm_start=True, random_state=0).fit(data.X, data.y)
    warm.set_params(n_estimators=8).fit(data.X, data.y)
    with pytest.raises(rfsize.exceptions.InbagError, match="samples of only 3 of the 8 members"):
        rfsize.tree_outputs(warm, data.X, oob=True)
    assert rfsize.tree_outputs(warm, data.fresh).votes.n_trees == 8


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (make_pipeline(RandomForestClassifier(3)), "pipeline"),
        (LogisticRegression(), "LogisticRegression"),
        (VotingClassifier([("a", LogisticRegression())]), "VotingClassifier"),
    ],
)
def test_other_models_are_refused(model: Any, found: str, data: Data) -> None:
    for call in (votes_of, rfsize.size, rfsize.truncate, rfsize.compile):
        with pytest.raises(rfsize.exceptions.NotAForestError, match=found):
            call(model.fit(data.X, data.y), *([] if call is rfsize.compile else [data.fresh]))
    with pytest.raises(rfsize.exceptions.NotAForestError, match=found):
        rfsize.grow(model, data.X, data.y)


def test_numbers_are_not_voted_on(data: Data) -> None:
    model = RandomForestRegressor(3).fit(data.X, data.y)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="cast no votes"):
        votes_of(model, data.fresh)
    for call in (rfsize.size, rfsize.truncate):
        with pytest.raises(ValueError, match="give y \\(the tolerance is then"):
            call(model, data.fresh)
        with pytest.raises(rfsize.exceptions.NotAForestError, match="cast no votes"):
            call(model, data.fresh, alpha=0.9)


def test_what_cannot_be_voted_on_is_refused(data: Data) -> None:
    several = RandomForestClassifier(3).fit(data.X, np.stack([data.y, data.three], axis=1))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="several labels"):
        rfsize.tree_outputs(several, data.fresh)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="one class only"):
        rfsize.tree_outputs(RandomForestClassifier(3).fit(data.X, np.ones(len(data.X), dtype=int)), data.fresh)
    with pytest.raises(NotFittedError):
        rfsize.tree_outputs(RandomForestClassifier(3), data.fresh)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="decision trees"):
        rfsize.compile(fitted("neighbours", data))
    model = RandomForestClassifier(3).fit(data.X, data.y)
    with pytest.raises(ValueError, match="X has 3 columns"):
        rfsize.tree_outputs(model, data.fresh[:, :3])


def test_data_frames_are_matched_by_name(data: Data) -> None:
    frame = pd.DataFrame(data.X[:ROWS], columns=list("abcdefgh"))
    fresh = pd.DataFrame(data.fresh, columns=list("abcdefgh"))
    named = RandomForestClassifier(11, random_state=0).fit(frame, data.y[:ROWS])
    nameless = RandomForestClassifier(11, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = rfsize.tree_outputs(nameless, data.fresh).votes
        assert rfsize.tree_outputs(named, fresh).votes == rfsize.tree_outputs(nameless, fresh).votes == expected
        assert rfsize.compile(named).votes(fresh) == expected


def test_rows_without_names_are_asked_without_a_warning_for_each_pass(data: Data) -> None:
    names = list("abcdefgh")
    named = RandomForestClassifier(40, random_state=0).fit(pd.DataFrame(data.X[:ROWS], columns=names), data.y[:ROWS])
    nameless = RandomForestClassifier(40, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (data.fresh, csr_matrix(data.fresh)):
            assert str(rfsize.size(named, rows, alpha=0.9)) == str(rfsize.size(nameless, rows, alpha=0.9))
        assert np.array_equal(rfsize.oob_predict(named, data.X[:ROWS]), rfsize.oob_predict(nameless, data.X[:ROWS]))
    assert named.feature_names_in_.tolist() == names


class Contrary(DecisionTreeClassifier):
    """A tree that answers otherwise than its leaves say."""

    def predict_proba(self, X: Any, check_input: bool = True) -> np.ndarray:
        return 1.0 - super().predict_proba(X, check_input)


def test_trees_that_answer_otherwise_are_asked_themselves(data: Data) -> None:
    model = BaggingClassifier(Contrary(max_depth=3), 7, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    outputs = rfsize.tree_outputs(model, data.fresh)
    of_each = np.stack([one.predict_proba(data.fresh) for one in model.estimators_], axis=1)
    assert np.array_equal(outputs.by_tree(), of_each.argmax(axis=2))
    np.testing.assert_allclose(outputs.predict_proba(), model.predict_proba(data.fresh), atol=1e-12)
    with pytest.raises(rfsize.exceptions.NotAForestError):
        rfsize.compile(model)


class Constant(ClassifierMixin, BaseEstimator):
    """A learner without probabilities that gives every row one answer."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer

    def fit(self, X: Any, y: Any) -> Constant:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.answer)


@pytest.mark.parametrize("answer", [-1, 99])
def test_answers_that_are_no_class_are_refused(answer: int, data: Data) -> None:
    model = BaggingClassifier(Constant(answer), 5, random_state=0).fit(data.X[:ROWS], data.y[:ROWS])
    with pytest.raises(ValueError, match=f"{answer}.*not all indices"):
        rfsize.tree_outputs(model, data.fresh)


def test_samples_of_other_members_are_not_taken_for_those_of_the_first(data: Data) -> None:
    warm = BaggingClassifier(GaussianNB(), 5, warm_start=True, random_state=0).fit(data.X, data.y)
    warm.set_params(n_estimators=10).fit(data.X, data.y)
    small = rfsize.truncate(warm, n_trees=5)
    with pytest.raises(rfsize.exceptions.InbagError, match="samples of only 0 of the 5 members"):
        rfsize.tree_outputs(small, data.X, oob=True)
    assert len(warm._seeds) == 5


def test_a_row_drawn_often_is_still_in_the_bag(data: Data) -> None:
    """Counts are kept in a byte."""
    model = BaggingClassifier(GaussianNB(), 99, max_samples=1.0, random_state=0)
    model.fit(np.repeat(data.X[:2], 256, axis=0), np.repeat([0, 1], 256))
    model._n_samples, model._max_samples = 2, 512  # a float max_samples counts weights, in scikit-learn 1.8 and later
    assert any(np.bincount(samples)[0] == 256 for samples in model.estimators_samples_)
    assert rfsize.inbag(model, data.X[:2], sample_weight=[0.0, 1.0]).all()


def test_other_weights_than_those_of_training_are_noticed(data: Data) -> None:
    weight = np.random.default_rng(0).integers(0, 3, ROWS).astype(float)
    X, y = data.X[:ROWS], data.y[:ROWS]
    for kind in ("random forest", "bagging"):
        model = clone(ALL[kind]).fit(X, y, sample_weight=weight)
        with pytest.raises(ValueError, match=r"other sample weights|could not be proven"):
            rfsize.grow(model, X, y, alpha=0.999)


def test_missing_values_of_sparse_rows_are_refused_as_scikit_learn_refuses_them(data: Data) -> None:
    model = fitted("random forest", data)
    rows = csr_matrix(np.where(data.fresh > 1.0, np.nan, data.fresh))
    for predict in (model.predict, rfsize.compile(model).predict):
        with pytest.raises(ValueError, match=r"NaN|missing values"):
            predict(rows)


@pytest.mark.parametrize("kind", ["random forest", "bagging"])
def test_nullable_columns(kind: str, data: Data) -> None:
    rows = data.X[:ROWS].copy()
    rows[::7, 1] = np.nan
    frame = pd.DataFrame(rows, columns=list("abcdefgh")).astype("Float64")
    named = clone(ALL[kind]).fit(frame, data.y[:ROWS])
    nameless = clone(ALL[kind]).fit(rows, data.y[:ROWS])
    assert (
        rfsize.tree_outputs(named, frame).votes
        == rfsize.tree_outputs(nameless, frame).votes
        == rfsize.tree_outputs(nameless, rows).votes
    )
    assert rfsize.compile(named).votes(frame) == rfsize.tree_outputs(nameless, rows).votes


def test_members_that_read_text_are_given_text(data: Data) -> None:
    rows = np.where(data.X[:200, :2] > 0, "high", "low")
    member = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    model = BaggingClassifier(member, 12, random_state=0).fit(rows, data.y[:200])
    assert rfsize.tree_outputs(model, rows).votes.n_trees == 12
    assert rfsize.tree_outputs(model, rows.astype(object)).votes == rfsize.tree_outputs(model, rows).votes
