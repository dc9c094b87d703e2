"""Votes and predictions of forests are those of their single trees, which the framework itself asks."""

from __future__ import annotations

import re
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import reference.counting
import reference.groups
import reference.predictions
import reference.scores
import rfsize
from helpers.models import (
    FRESH,
    LIGHTGBM,
    N_ROWS,
    N_TREES,
    NAMES,
    NUMBER,
    THREE,
    TWO,
    Forest,
    X,
    model,
)

SINGLE = 3e-6  # XGBoost adds its leaves in single precision
PATIENTS = np.random.default_rng(3).integers(0, 250, N_ROWS)


def oob_counts(forest: Forest, bags: np.ndarray) -> np.ndarray:
    """Votes out of bag by plain loops; where each class has bags of its own, its trees are paired in their order."""
    if bags.shape[2] == 1:
        return reference.counting.votes(forest.tree_labels(forest.X), forest.n_classes, bags[:, :, 0])
    by_class = bags.transpose(2, 0, 1)
    return reference.scores.counts(reference.scores.left_out(forest.tree_scores(forest.X), by_class))


def spread(bags: np.ndarray, groups: Any) -> np.ndarray:
    return np.stack([reference.groups.spread(bags[:, :, k], groups) for k in range(bags.shape[2])], axis=2)


def test_votes_are_single_trees(of_classes: Forest) -> None:
    outputs, labels = rfsize.tree_outputs(of_classes.model, of_classes.fresh), of_classes.tree_labels(of_classes.fresh)
    assert np.array_equal(outputs.by_tree(), labels.T)
    assert np.array_equal(outputs.votes.counts, reference.counting.votes(labels, of_classes.n_classes))
    assert outputs.votes.classes.tolist() == np.unique(of_classes.y).tolist()
    assert (outputs.n_trees, outputs.n_rows) == (N_TREES, len(of_classes.fresh))


def test_predictions_are_the_models(forest: Forest) -> None:
    outputs, own = rfsize.tree_outputs(forest.model, forest.fresh), forest.predict(forest.fresh)
    actual = outputs.predict()
    assert actual.shape == own.shape
    tolerance = {"rel": SINGLE, "abs": SINGLE} if own.dtype.kind == "f" else {}
    assert actual.tolist() == (pytest.approx(own, **tolerance) if tolerance else own.tolist())


def test_inbag_is_the_frameworks(forest: Forest) -> None:
    actual = rfsize.inbag(forest.model, forest.X, **forest.training)
    assert actual.dtype == bool
    assert np.array_equal(actual, forest.inbag)


def test_oob_votes_leave_out_bags(of_classes: Forest) -> None:
    outputs = rfsize.tree_outputs(of_classes.model, of_classes.X, oob=True, **of_classes.training)
    assert np.array_equal(outputs.votes.counts, oob_counts(of_classes, of_classes.bags))
    assert (outputs.by_tree()[of_classes.inbag.T] == -1).all()
    assert outputs.source == "oob"


@pytest.mark.parametrize("groups", ["rows", PATIENTS], ids=["rows", "patients"])
def test_oob_predictions_are_means_of_trees(forest: Forest, groups: Any) -> None:
    seen = forest.bags if isinstance(groups, str) else spread(forest.bags, groups)
    mean = reference.predictions.mean_scores(forest.tree_scores(forest.X), seen)
    expected = forest.predicted(mean)
    outputs = rfsize.tree_outputs(forest.model, forest.X, oob=True, groups=groups, **forest.training)
    actual = outputs.predict_proba(fill=np.nan) if forest.n_classes else outputs.predict(fill=np.nan)
    np.testing.assert_allclose(actual, expected, rtol=SINGLE, atol=SINGLE)


@pytest.mark.parametrize("threshold", [0.23, 0.77])
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest", "bagging of neighbours"])
def test_threshold_moves_votes_and_labels(kind: str, threshold: float) -> None:
    forest = model(kind)
    score = forest.tree_scores(forest.fresh)[:, :, 0]
    above = score > (threshold if forest.framework == "sklearn" else logit(threshold))
    outputs = rfsize.tree_outputs(forest.model, forest.fresh, threshold=threshold)
    assert np.array_equal(outputs.votes.counts, reference.counting.votes(above.astype(int), 2))
    share = forest.predict_proba(forest.fresh)[:, 1]
    assert np.array_equal(outputs.predict_labels(), (share > threshold).astype(int))
    assert outputs.votes.threshold == threshold
    oob = rfsize.tree_outputs(forest.model, forest.X, oob=True, threshold=threshold)
    high = rfsize.tree_outputs(forest.model, forest.X, oob=True, threshold=0.95)
    assert oob.votes.n_votes.tolist() == high.votes.n_votes.tolist()
    assert (oob.votes.counts[:, 1] >= high.votes.counts[:, 1]).all()


@pytest.mark.parametrize("kind", ["random forest of names", "extra-trees", "bagging", "bagging of neighbours"])
def test_oob_equals_scikit_learn(kind: str) -> None:
    own = clone(model(kind).model).set_params(n_estimators=60, bootstrap=True, oob_score=True)
    y = model(kind).y
    trained = own.fit(X, y)
    np.testing.assert_allclose(rfsize.oob_predict_proba(trained, X), trained.oob_decision_function_, atol=1e-12)
    assert np.mean(rfsize.oob_predict(trained, X) == y) == pytest.approx(trained.oob_score_)
    assert rfsize.oob_score(trained, X, y, metric="accuracy").value == pytest.approx(trained.oob_score_)


@pytest.mark.parametrize("kind", ["random forest regressor", "bagging regressor", "bagging of neighbouring numbers"])
def test_oob_numbers_equal_scikit_learn(kind: str) -> None:
    trained = clone(model(kind).model).set_params(n_estimators=60, oob_score=True).fit(X, NUMBER)
    np.testing.assert_allclose(rfsize.oob_predict(trained, X), trained.oob_prediction_, rtol=1e-12)
    assert rfsize.oob_score(trained, X, NUMBER, metric="r2").value == pytest.approx(trained.oob_score_)


class OfTwo(ClassifierMixin, BaseEstimator):
    """A learner that answers for two classes even where its bag has one."""

    def fit(self, X: Any, y: Any) -> OfTwo:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile([1.0, 0.0], (len(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.classes_[0])


class Contrary(DecisionTreeClassifier):
    """A tree that answers otherwise than its leaves say."""

    def predict_proba(self, X: Any, check_input: bool = True) -> np.ndarray:
        return 1.0 - super().predict_proba(X, check_input)


@pytest.mark.parametrize(
    ("learner", "y"),
    [
        (Perceptron(), THREE),  # which has no probabilities
        (LogisticRegression(), NAMES[THREE]),
        (lgb.LGBMClassifier(n_estimators=5, verbose=-1), TWO),
        (KNeighborsClassifier(), np.where(np.arange(N_ROWS) < 1, "rare", NAMES[TWO])),  # which most bags lack
        (DecisionTreeClassifier(), np.where(np.arange(N_ROWS) < 1, "rare", NAMES[TWO])),
        (OfTwo(), (np.arange(N_ROWS) == 0).astype(int)),
        (Contrary(max_depth=3), TWO),
    ],
    ids=["labels", "probabilities", "boosting", "rare class", "trees of a rare class", "more classes", "contrary"],
)
def test_bagging_of_any_learner(learner: Any, y: np.ndarray) -> None:
    trained = BaggingClassifier(learner, 20, max_features=0.7, random_state=0).fit(X, y)
    outputs = rfsize.tree_outputs(trained, FRESH)
    np.testing.assert_allclose(outputs.predict_proba(), trained.predict_proba(FRESH), atol=1e-12)
    for place, (member, columns) in enumerate(zip(trained.estimators_, trained.estimators_features_, strict=True)):
        own = member.predict(FRESH[:, columns])
        if isinstance(member, Contrary):
            own = member.predict_proba(FRESH[:, columns]).argmax(axis=1)
        assert np.array_equal(outputs.by_tree()[:, place], own)
    inbag = [np.isin(np.arange(N_ROWS), drawn) for drawn in trained.estimators_samples_]
    assert np.array_equal(rfsize.inbag(trained, X), inbag)


def test_learners_answer_for_rows_out_of_bag_only() -> None:
    rows: list[int] = []

    class Counting(KNeighborsClassifier):
        def predict_proba(self, X: Any) -> Any:
            rows.append(len(X))
            return super().predict_proba(X)

    trained = BaggingClassifier(Counting(), 10, random_state=0).fit(X, TWO)
    votes = rfsize.tree_outputs(trained, X, oob=True).votes
    assert sum(rows) == votes.n_votes.sum() == N_ROWS * 10 - rfsize.inbag(trained, X).sum()


@pytest.mark.parametrize("kind", ["lightgbm categories", "xgboost softprob", "random forest with gaps"])
def test_many_rows_repeat_few(kind: str) -> None:
    """Rows go in batches, and by compiled loops where there are many: each row gets what it gets among few."""
    forest = model(kind)
    times = 5_000_000 // forest.tree_scores(forest.fresh).size
    repeat = pd.concat if isinstance(forest.fresh, pd.DataFrame) else np.concatenate
    few, many = (rfsize.tree_outputs(forest.model, rows) for rows in (forest.fresh, repeat([forest.fresh] * times)))
    assert np.array_equal(many.votes.counts, np.tile(few.votes.counts, (times, 1)))
    np.testing.assert_allclose(many.predict_proba(), np.tile(few.predict_proba(), (times, 1)), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.TrainingRowsWarning")
def test_many_training_rows() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(70_000, 6))
    trained = lgb.train(LIGHTGBM | {"num_leaves": 4}, lgb.Dataset(rows, (rows[:, 0] > 0).astype(int)), 64)
    outside = ~rfsize.inbag(trained, rows).T
    by_tree = rfsize.tree_outputs(trained, rows).by_tree()
    counts = np.stack([(outside & (by_tree == label)).sum(axis=1) for label in (0, 1)], axis=1)
    assert np.array_equal(rfsize.tree_outputs(trained, rows, oob=True, groups="rows").votes.counts, counts)
    leaf = trained.predict(rows, pred_leaf=True)
    for tree, text in enumerate(trained.dump_model()["tree_info"][:5]):
        stored = re.findall(r"'leaf_index': (\d+).*?'leaf_count': (\d+)", str(text))
        counted = np.bincount(leaf[~outside[:, tree], tree])
        assert {int(index): int(count) for index, count in stored} == dict(enumerate(counted.tolist()))
