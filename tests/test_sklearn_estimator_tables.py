"""The stop tables of `RightSizedClassifier`, and the rows that certify them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from xgboost import XGBClassifier

import rfsize
from helpers.classifiers import KINDS, lightgbm, xgboost
from helpers.forests import Data
from rfsize import RightSizedClassifier

TREES = [name for name in KINDS if name != "bagging of others"]


@pytest.fixture(params=["lightgbm", "xgboost"])
def booster_kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.mark.parametrize("rule", ["threshold", "optimal", "robust"])
def test_the_stop_table_is_built_from_the_out_of_bag_votes(rule: str, booster_kind: Any, data: Data) -> None:
    y = np.array(["no", "yes"])[data.y]
    model = RightSizedClassifier(booster_kind, alpha=0.97, stop_table=rule).fit(data.X, y)
    prior = rfsize.tree_outputs(model, data.X, oob=True).votes
    table = rfsize.StopTable.build(model.n_trees_, alpha=0.97, prior=prior, rule=rule)
    assert model.table_.to_dict() == table.to_dict()
    labels, asked = rfsize.compile(model, table).predict(data.fresh, return_trees=True)
    assert np.array_equal(model.predict(data.fresh), labels)
    assert asked.mean() < 0.6 * model.n_trees_
    assert np.array_equal(model.predict_proba(data.fresh), model.estimator_.predict_proba(data.fresh))


@pytest.mark.parametrize("voting", ["auto", "hard"])
def test_without_trees_that_change_no_label(voting: str, kind: Any, data: Data, tmp_path: Path) -> None:
    """Labels are those of the whole forest, by averaged scores as the estimator's own or by the majority vote."""
    limits = {"alpha": 0.8, "max_trees": 200, "min_trees": 40, "cv": 2}
    model = RightSizedClassifier(kind, voting=voting, stop_table="lossless", **limits)
    y = np.array(["c", "a", "b"])[data.three]
    if isinstance(kind, BaggingClassifier) and kind.estimator is not None:
        with pytest.raises(rfsize.exceptions.NotAForestError, match="tree"):
            model.fit(data.X, y)
        return
    model.fit(data.X, y)
    majority = model.classes_[rfsize.tree_outputs(model.estimator_, data.fresh).votes.counts.argmax(axis=1)]
    labels = {"hard": majority, "auto": model.set_params(stop_table=None).estimator_.predict(data.fresh)}[voting]
    expected = model.classes_[labels] if labels.dtype.kind == "i" else labels
    by = "hard" if voting == "hard" else "soft"
    assert (model.report_._answer.goal.voting, model.compiled_.voting) == (by, by)
    assert np.array_equal(model.predict(data.fresh), expected)
    if isinstance(kind, LGBMClassifier):  # whose votes and averages differ most
        assert (majority != expected).any() == (voting == "auto")
    model.compiled_.save(tmp_path / "forest.npz")
    assert np.array_equal(rfsize.load(tmp_path / "forest.npz").predict(data.fresh), expected)


def test_a_robust_table_of_three_classes_is_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="rule='robust'"):
        RightSizedClassifier(lightgbm(), alpha=0.9, stop_table="robust").fit(data.X, data.three)


@pytest.mark.parametrize(("given", "expected"), [(2, 2), (None, -1), (0, -1)])
def test_the_compiled_forest_uses_as_many_threads_as_the_estimator(given: Any, expected: int, data: Data) -> None:
    model = RightSizedClassifier(xgboost(n_jobs=given), alpha=0.8, stop_table="lossless", min_trees=40)
    assert model.fit(data.X, data.y).compiled_.n_jobs == expected


class UntrainedForest(RandomForestClassifier):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise AssertionError("trained")


@pytest.mark.parametrize(
    ("estimator", "stop_table", "message"),
    [
        (UntrainedForest(), "robust", "two classes"),
        (BaggingClassifier(GradientBoostingClassifier()), "lossless", "leave stop_table=None"),
    ],
)
def test_impossible_stop_tables_are_refused_before_the_training(
    estimator: Any, stop_table: str, message: str, data: Data
) -> None:
    with pytest.raises(ValueError, match=message):
        RightSizedClassifier(estimator, stop_table=stop_table).fit(data.X, data.three)


# ---------------------------------------------------------------------------------------------------------
# Certified tables


def certified(estimator: Any, **params: Any) -> RightSizedClassifier:
    settings = {"stop_table": "certified", "alpha": 0.9, "max_trees": 200, "min_trees": 40, "random_state": 1}
    return RightSizedClassifier(estimator, **{**settings, **params})


def as_of_the_estimator(model: RightSizedClassifier, labels: np.ndarray) -> np.ndarray:
    return model.classes_[labels] if isinstance(model.estimator_, XGBClassifier) else labels


@pytest.mark.parametrize("name", TREES)
def test_a_table_is_certified_on_rows_that_are_held_out(name: str, data: Data) -> None:
    y = np.array(["c", "a", "b"])[data.three]
    model = certified(KINDS[name]).fit(data.X, y)
    out = model.calibration_rows_
    expected = rfsize.StopTable.calibrate(model, data.X[out], alpha=0.9)
    assert (model.table_.promise, model.table_.voting, model.report_._answer.goal.voting) == (
        "certified",
        "soft",
        "soft",
    )
    assert model.table_ == expected
    assert model.table_.certificate.rows == len(out)
    labels, asked = rfsize.compile(model, expected).predict(data.fresh, return_trees=True)
    assert np.array_equal(model.predict(data.fresh), labels)
    whole = as_of_the_estimator(model, model.estimator_.predict(data.fresh))
    assert (model.predict(data.fresh) != whole).mean() <= 0.1
    assert asked.mean() < 0.9 * model.n_trees_
    # What was grown is the forest of the other rows.
    kept = np.setdiff1d(np.arange(len(y)), out)
    alone = certified(KINDS[name], stop_table=None).fit(data.X[kept], y[kept])
    assert np.array_equal(alone.predict_proba(data.fresh), model.predict_proba(data.fresh))


def test_rows_are_held_out_of_each_class_alike(data: Data) -> None:
    n_rows = len(data.X)
    y = np.where(np.arange(n_rows) % 10 == 3, 2, data.y)
    y[5] = 7  # the only one of its class, which is trained on
    model = certified(RandomForestClassifier(random_state=0), calibration_fraction=0.3).fit(data.X, y)
    out = model.calibration_rows_
    assert abs(len(out) - 0.3 * n_rows) < 5
    assert 5 not in out
    for label in (0, 1, 2):
        assert abs(np.sum(y[out] == label) - 0.3 * np.sum(y == label)) <= 2
    again = certified(RandomForestClassifier(random_state=0), calibration_fraction=0.3).fit(data.X, y)
    assert np.array_equal(again.calibration_rows_, out)
    other = certified(RandomForestClassifier(random_state=0), calibration_fraction=0.3, random_state=2)
    assert not np.array_equal(other.fit(data.X, y).calibration_rows_, out)
    assert RightSizedClassifier(lightgbm(), alpha=0.8).fit(data.X, y).calibration_rows_ is None


def test_weights_groups_and_categories_are_split_alike(data: Data) -> None:
    patient = np.arange(len(data.X)) // 2
    X = pd.DataFrame(data.X, columns=list("abcdefgh")).assign(
        colour=pd.Categorical(np.array(["blue", "red"])[(data.X[:, 0] > 0).astype(int)])
    )
    weight = 1.0 + data.y
    model = certified(lightgbm()).fit(X, data.y, weight, groups=pd.Series(patient))
    out = model.calibration_rows_
    kept = np.setdiff1d(np.arange(len(X)), out)
    assert not np.isin(patient[out], patient[kept]).any()
    alone = certified(lightgbm(), stop_table=None).fit(X.iloc[kept], data.y[kept], weight[kept], groups=patient[kept])
    assert np.array_equal(alone.predict_proba(X), model.predict_proba(X))
    assert model.oob_decision_function_.shape == (len(kept), 2)


def test_copies_of_a_row_are_held_out_together(data: Data) -> None:
    X, y = np.repeat(data.X[:400], 3, axis=0), np.repeat(data.y[:400], 3)
    model = certified(lightgbm(), alpha=0.8).fit(X, y, groups="copies")
    original = np.repeat(np.arange(400), 3)
    kept = np.setdiff1d(np.arange(len(X)), model.calibration_rows_)
    assert not np.isin(original[model.calibration_rows_], original[kept]).any()


def test_groups_that_have_all_rows_of_a_class(data: Data) -> None:
    """By the class of its first row, every group is of class 0."""
    patient = np.arange(400) // 40
    y = (np.arange(400) % 40 > 0) & (patient == 3)
    model = certified(lightgbm(), alpha=0.6, calibration_fraction=0.5, random_state=0)
    with pytest.raises(ValueError, match="have all rows of the class True: give fit rows of other groups"):
        model.fit(data.X[:400], y, groups=patient)


@pytest.mark.parametrize("table", ["certified", "threshold", "optimal"])
def test_rows_to_certify_on_may_be_given(table: str, booster_kind: Any, data: Data) -> None:
    y = np.array(["no", "yes"])[data.y]
    model = certified(booster_kind).set_params(stop_table=table).fit(data.X, y, X_calibration=data.fresh)
    assert model.calibration_rows_ is None
    assert model.table_.promise == "certified"
    assert (model.table_.voting, model.report_._answer.goal.voting) == (
        ("soft",) * 2 if table == "certified" else ("hard",) * 2
    )
    assert model.table_.certificate.rows == len(data.fresh)
    if table == "certified":
        expected = rfsize.StopTable.calibrate(model, data.fresh, alpha=0.9)
    else:
        prior = rfsize.tree_outputs(model, data.X, oob=True).votes
        expected = rfsize.StopTable.build(model.n_trees_, alpha=0.9, prior=prior, rule=table)
        expected = expected.certified(model, data.fresh)
    assert model.table_ == expected
    assert np.array_equal(model.predict(data.fresh), rfsize.compile(model, expected).predict(data.fresh))
    alone = certified(booster_kind, stop_table=None, voting=model.report_._answer.goal.voting).fit(data.X, y)
    assert np.array_equal(alone.predict_proba(data.fresh), model.predict_proba(data.fresh))


def test_a_certified_table_of_votes(data: Data) -> None:
    model = certified(lightgbm(), voting="hard", calibration_fraction=0.4).fit(data.X, data.three)
    out = model.calibration_rows_
    expected = rfsize.StopTable.calibrate(model.estimator_, data.X[out], alpha=0.9, voting="hard")
    assert (model.table_, model.table_.voting, model.report_._answer.goal.voting) == (expected, "hard", "hard")
    majority = rfsize.tree_outputs(model.estimator_, data.fresh).votes.counts.argmax(axis=1)
    assert (model.predict(data.fresh) != majority).mean() <= 0.1


def test_each_class_may_be_certified_by_itself(data: Data) -> None:
    model = certified(lightgbm(), average="macro", calibration_fraction=0.4).fit(data.X, data.y)
    assert model.table_.certificate.average == "macro"
    assert model.table_.certificate.bound <= 0.1


def test_a_certified_forest_in_a_search(data: Data) -> None:
    search = GridSearchCV(certified(lightgbm()), {"alpha": [0.8, 0.9]}, cv=2, error_score="raise")
    best = search.fit(data.X, data.y).best_estimator_
    assert best.table_.alpha == search.best_params_["alpha"]


@pytest.mark.parametrize(
    ("params", "given", "message"),
    [
        (
            {"alpha": 0.99},
            None,
            "takes 299 rows that are not trained on, found 80 by calibration_fraction=0.2",
        ),
        ({"alpha": 0.99}, 100, "takes 299 rows that are not trained on, found 100 in X_calibration: give more"),
        ({"alpha": 0.99, "voting": "hard"}, None, "takes 374 rows"),
        ({"calibration_fraction": 1.0}, None, "calibration_fraction must be a number strictly between 0 and 1"),
        ({"stop_table": "lossless"}, 100, "X_calibration certifies a stop table, and with stop_table='lossless'"),
        ({"stop_table": None}, 100, "set stop_table='certified'"),
        ({"stop_table": "optimal", "voting": "soft"}, None, "use stop_table='certified'"),
        ({"metric": "probabilities", "tolerance": 0.1}, None, "settles labels, and metric='probabilities'"),
    ],
)
def test_certificates_that_cannot_be_had_are_refused_before_the_training(
    params: dict[str, Any], given: int | None, message: str, data: Data
) -> None:
    rows = None if given is None else data.fresh[:given]
    with pytest.raises(ValueError, match=message):
        certified(UntrainedForest(), **params).fit(data.X[:400], data.y[:400], X_calibration=rows)


def test_enough_rows_are_as_many_as_the_refusal_says(data: Data) -> None:
    with pytest.raises(ValueError, match="fit on at least 150 rows"):
        certified(lightgbm()).fit(data.X[:100], data.y[:100])
    assert certified(lightgbm(), max_trees=40).fit(data.X[:150], data.y[:150]).table_.promise == "certified"
