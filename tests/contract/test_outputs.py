"""Tree outputs: what was counted once answers as the model and its rows do, out of bag or by cross-validation."""

from __future__ import annotations

import ast
import pickle
import re
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

import rfsize
from helpers.models import (
    N_ROWS,
    N_TREES,
    NUMBER,
    ONE_ROUND,
    TWO,
    WEIGHT,
    WRAPPER,
    X,
    model,
)
from rfsize.exceptions import FewVotesError, ForestWarning

GOALS: dict[str, dict[str, Any]] = {
    "labels": {"alpha": 0.9},
    "votes": {"alpha": 0.9, "voting": "hard"},
    "probabilities": {"metric": "probabilities", "tolerance": 0.1},
    "scores": {"metric": "scores", "tolerance": 0.5},
}


@pytest.mark.parametrize(
    ("kind", "goal", "oob"),
    [("lightgbm", "labels", True), ("lightgbm", "scores", False), ("xgboost softprob", "votes", True),
     ("xgboost regression", "scores", True), ("random forest of names", "labels", False),
     ("bagging of neighbours", "labels", True), ("random forest", "probabilities", True)],
)  # fmt: skip
def test_outputs_answer_as_model_and_rows(kind: str, goal: str, oob: bool) -> None:
    forest = model(kind)
    rows = forest.X if oob else forest.fresh
    outputs = rfsize.tree_outputs(forest.model, rows, forest.y if oob else None, oob=oob)
    expected = rfsize.size(forest.model, rows, oob=oob, **GOALS[goal])
    again = pickle.loads(stored := pickle.dumps(outputs))
    assert len(stored) < 200 * outputs.scores.mean.nbytes
    for given in (outputs, again):
        report = rfsize.size(given, **GOALS[goal])
        assert (report.n_trees, report.interval) == (expected.n_trees, expected.interval)
        assert (report.source, report.loss_at(5).value) == (expected.source, expected.loss_at(5).value)
    assert np.array_equal(again.scores.mean, outputs.scores.mean)
    assert np.array_equal(again.y, outputs.y)


@pytest.mark.parametrize("metric", ["log_loss", "accuracy"])
def test_truth_may_be_told_later(metric: str) -> None:
    forest = model("lightgbm")
    later, at_once = (rfsize.tree_outputs(forest.model, X, y, oob=True) for y in (None, TWO))
    expected = rfsize.oob_score(at_once, metric=metric)
    assert rfsize.oob_score(later, y=TWO, metric=metric).value == expected.value
    assert rfsize.oob_score(later.with_truth(TWO), metric=metric).value == expected.value
    assert later.y is None
    weighted = later.with_truth(TWO, sample_weight=WEIGHT)
    given = rfsize.tree_outputs(forest.model, X, TWO, oob=True, sample_weight=WEIGHT)
    assert rfsize.oob_score(weighted, metric=metric).value == rfsize.oob_score(given, metric=metric).value
    assert rfsize.oob_score(weighted, metric=metric).value != expected.value


FILLS: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "uint8": (np.array([0, 255], np.uint8), (0, -1, 300, 0.25), ("none", [1, 2])),
    "bool": (np.array([False, True]), (True, -1), ("none",)),
    "words": (np.array(["no", "yes"]), ("no", "a long word"), (-1, b"no")),
    "objects": (np.array(["no", "yes"], dtype=object), ("no", "a long word", -1), ()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILLS)
def test_fill_is_what_you_gave(kind: str) -> None:
    labels, fills, refused = FILLS[kind]
    forest = RandomForestClassifier(3, random_state=0).fit(X, labels[TWO])
    unseen = rfsize.inbag(forest, X).all(axis=0)
    with pytest.raises(FewVotesError) as error:
        rfsize.oob_predict(forest, X)
    advised = ast.literal_eval(re.search(r"fill=(\S+),", str(error.value))[1])
    assert advised not in labels.tolist()
    known = np.where(unseen, None, rfsize.oob_predict(forest, X, fill=labels[0]).astype(object))
    for fill in (*fills, advised):
        expected = [fill if label is None else label for label in known]
        assert rfsize.oob_predict(forest, X, fill=fill).tolist() == expected
    for fill in refused:
        with pytest.raises(ValueError, match="fill"):
            rfsize.oob_predict(forest, X, fill=fill)


def test_rows_that_every_tree_saw_have_no_prediction() -> None:
    forest, numbers = (kind(3, random_state=0) for kind in (RandomForestClassifier, RandomForestRegressor))
    unseen = rfsize.inbag(forest.fit(X, TWO), X).all(axis=0)
    with pytest.warns(ForestWarning):
        assert np.isnan(rfsize.oob_predict_proba(forest, X)).all(axis=1).tolist() == unseen.tolist()
    unseen = rfsize.inbag(numbers.fit(X, NUMBER), X).all(axis=0)
    with pytest.warns(ForestWarning):
        assert np.isnan(rfsize.oob_predict(numbers, X)).tolist() == unseen.tolist()
    assert (rfsize.oob_predict(numbers, X, fill=1e9) == 1e9).tolist() == unseen.tolist()


ESTIMATORS: dict[str, Any] = {
    "LightGBM": LGBMClassifier(**WRAPPER),
    "XGBoost": XGBClassifier(**ONE_ROUND),
    "scikit-learn": RandomForestClassifier(N_TREES, max_depth=5, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(max_depth=3), N_TREES, random_state=0),
    "neighbours": BaggingClassifier(KNeighborsClassifier(), N_TREES, random_state=0),
    "LightGBM, numbers": LGBMRegressor(**WRAPPER),
    "XGBoost, numbers": XGBRegressor(**ONE_ROUND),
    "scikit-learn, numbers": RandomForestRegressor(N_TREES, max_depth=5, random_state=0),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_cross_validation_predicts_as_scikit_learn(kind: str) -> None:
    estimator, folds = ESTIMATORS[kind], KFold(3, shuffle=True, random_state=0)
    numbers, method = kind.endswith("numbers"), "predict" if kind.endswith("numbers") else "predict_proba"
    y = NUMBER if numbers else TWO
    outputs = rfsize.tree_outputs(estimator, X, y, cv=folds)
    expected = cross_val_predict(estimator, X, y, cv=folds, method=method)
    assert outputs.source == "cross-validation"
    goal = {"metric": "scores", "tolerance": 0.5} if numbers else {"alpha": 0.8}
    assert rfsize.size(outputs, **goal).source == "cross-validation"
    score = outputs.scores.mean[:, 0]
    actual = score if numbers or kind in ("scikit-learn", "bagging", "neighbours") else 1 / (1 + np.exp(-score))
    np.testing.assert_allclose(actual, expected if numbers else expected[:, 1], atol=1e-5)
    assert (
        rfsize.tree_outputs(estimator, X, y, cv=list(folds.split(X))).scores.mean.tolist()
        == outputs.scores.mean.tolist()
    )
    with pytest.raises(ValueError, match="cross-validation"):
        rfsize.truncate(outputs, **goal)


def test_folds_may_leave_rows_out_and_lack_classes() -> None:
    y = np.where(np.arange(N_ROWS) < 10, 7, TWO)
    rows = np.arange(N_ROWS)
    folds = [(rows[10:], rows[:10]), (rows[:200], rows[:299:-1])]
    outputs = rfsize.tree_outputs(ESTIMATORS["LightGBM"], X, y, cv=iter(folds))
    assert outputs.classes.tolist() == [0, 1, 7]
    assert (outputs.votes.counts[:10, 2] == 0).all()
    assert outputs.votes.n_votes.tolist() == np.repeat([N_TREES, 0, N_TREES], [10, 290, 200]).tolist()
    report = rfsize.size(outputs, alpha=0.8)
    assert (report.estimate.n_rows + report.estimate.n_dropped, report.available) == (N_ROWS, N_TREES)


def test_folds_hold_out_groups_whole() -> None:
    groups = np.arange(N_ROWS) // 5
    outputs = rfsize.tree_outputs(ESTIMATORS["scikit-learn"], X, TWO, cv=4, groups=groups, threshold=0.3)
    assert outputs.votes.threshold == 0.3
    assert (outputs.votes.n_votes == N_TREES).all()
    alone = rfsize.tree_outputs(ESTIMATORS["scikit-learn"], X, TWO, cv=StratifiedKFold(4), threshold=0.3)
    assert outputs.votes != alone.votes
    with pytest.raises(ValueError, match="groups"):
        rfsize.tree_outputs(ESTIMATORS["scikit-learn"], X, TWO, cv=[(np.arange(3), np.arange(3, 6))], groups=groups)
