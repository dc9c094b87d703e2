"""What is particular to XGBoost."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.forests import TREES, Data, predict, train_xgboost
from helpers.outputs import votes_of
from helpers.xgboost_forests import class_margins


def test_multiclass_truncation_is_the_mean_of_the_first_trees(xgb_multiclass: xgb.Booster, data: Data) -> None:
    X = data.fresh[:50]
    small = rfsize.truncate(xgb_multiclass, n_trees=8)
    mean = class_margins(xgb_multiclass, X, range(8)).mean(axis=0)
    assert small.predict(xgb.DMatrix(X), output_margin=True) == pytest.approx(mean, abs=4e-6)
    assert np.array_equal(rfsize.tree_outputs(small, X).votes.counts.sum(axis=1), np.full(50, 8))
    assert np.array_equal(rfsize.inbag(small, data.X), rfsize.inbag(xgb_multiclass, data.X)[:8])


def test_learning_rate_below_one_is_part_of_the_vote(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 5, eta=0.3, base_score=0.3)
    alone = rfsize.truncate(model, n_trees=1)
    assert np.array_equal(rfsize.tree_outputs(alone, data.fresh).votes.counts[:, 1], predict(alone, data.fresh) > 0.5)


@pytest.mark.parametrize("kind", ["json", "ubj", "pickle"])
def test_saved_models(kind: str, xgb_booster: xgb.Booster, data: Data, tmp_path: Path) -> None:
    small = rfsize.truncate(xgb_booster, n_trees=9)
    if kind == "pickle":
        loaded = pickle.loads(pickle.dumps(small))
        assert np.array_equal(rfsize.inbag(loaded, data.X), rfsize.inbag(xgb_booster, data.X)[:9])
    else:
        small.save_model(tmp_path / f"small.{kind}")
        loaded = xgb.Booster(model_file=tmp_path / f"small.{kind}")
    assert np.array_equal(predict(loaded, data.fresh), predict(small, data.fresh))


def test_a_forest_without_names_goes_by_position(data: Data) -> None:
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=9, subsample=0.6).fit(data.X, data.y)
    named = pd.DataFrame(data.fresh, columns=["a b", "a_b", "c[d", "e<f", "g,h", "i", "j", "k"])
    assert rfsize.tree_outputs(model, named).votes == rfsize.tree_outputs(model, data.fresh).votes


def test_truncation_keeps_names_types_categories_and_attributes(data: Data) -> None:
    table = pd.DataFrame(data.X, columns=list("abcdefgh"))
    table["b"] = pd.Categorical(np.digitize(data.X[:, 1], [-1, 0, 1]))
    model = train_xgboost(table, data.y, 11, tree_method="hist")
    model.set_attr(owner="me")
    small = rfsize.truncate(model, n_trees=4)
    assert small.feature_names == model.feature_names
    assert small.feature_types == model.feature_types
    assert small.attr("owner") == "me"
    assert small.num_features() == model.num_features()
    assert json.loads(small.save_config())["learner"]["generic_param"]["seed"] == "3"
    assert len(small.get_dump()) == 4
    assert predict(small, table).shape == (len(table),)


def test_the_callers_model_is_untouched(xgb_booster: xgb.Booster, data: Data) -> None:
    before = (bytes(xgb_booster.save_raw("ubj")), xgb_booster.save_config())
    rfsize.truncate(xgb_booster, data.X, alpha=0.9, oob=True)
    assert (bytes(xgb_booster.save_raw("ubj")), xgb_booster.save_config()) == before


def test_a_dmatrix_serves_as_rows(xgb_booster: xgb.Booster, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 50 * TREES)
    expected = rfsize.tree_outputs(xgb_booster, data.fresh).votes
    assert rfsize.tree_outputs(xgb_booster, xgb.DMatrix(data.fresh)).votes == expected
    with pytest.raises(ValueError, match="base_margin"):
        rfsize.tree_outputs(xgb_booster, xgb.DMatrix(data.fresh, base_margin=np.ones(len(data.fresh))))
    with pytest.raises(ValueError, match="QuantileDMatrix"):
        rfsize.tree_outputs(xgb_booster, xgb.QuantileDMatrix(data.fresh))


def test_missing_marker_of_a_classifier(data: Data) -> None:
    X = np.where(data.X < -1.5, -999.0, data.X)
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=15, subsample=0.8, missing=-999.0).fit(X, data.y)
    alone = rfsize.truncate(model, n_trees=1)
    assert np.array_equal(rfsize.tree_outputs(alone, X).votes.counts[:, 1], alone.predict(X))


def _edited(model: xgb.Booster, name: str, value: Any) -> xgb.Booster:
    document = json.loads(model.save_raw("json"))
    document["learner"]["gradient_booster"]["model"][name] = value
    edited = xgb.Booster()
    edited.load_model(bytearray(json.dumps(document).encode()))
    return edited


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda data: train_xgboost(data.X, data.y, 5, rounds=3), "boosted for 3 rounds"),
        (lambda data: train_xgboost(data.X, data.y, 1, rounds=30), "boosted for 30 rounds"),
        (lambda data: train_xgboost(data.X, data.y, 5, booster="dart", rounds=2), "'dart'|boosted for 2 rounds"),
        (lambda data: train_xgboost(data.X, data.y, 1, booster="gblinear"), "'gblinear'"),
        (lambda data: train_xgboost(data.X, data.y, 5, objective="reg:squarederror"), "cast no votes"),
        (lambda data: train_xgboost(data.X, data.y, 5, rounds=0), "no trees"),
        (lambda data: xgb.XGBClassifier(n_estimators=3).fit(data.X, data.y), "boosted for 3 rounds"),
        (lambda data: xgb.DMatrix(data.X), "is no model"),
        (
            lambda data: xgb.XGBClassifier(n_estimators=1).fit(data.X, np.stack([data.y, 1 - data.y], axis=1)),
            "several targets",
        ),
        (lambda data: _edited(train_xgboost(data.X, data.y, 5), "tree_info", [0, 0, 3, 0, 0]), "equally many trees"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_no_forest_is_refused(train: Any, message: str, data: Data) -> None:
    model = train(data)
    for call in (rfsize.size, rfsize.truncate):
        with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
            call(model, data.X, alpha=0.9)
    if message != "cast no votes":  # the trees of a regression have bags
        with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
            rfsize.inbag(model, data.X)


def _suggestion(call: Any) -> str:
    """What an error says to write in place of a boosted model."""
    with pytest.raises(
        rfsize.exceptions.NotAForestError, match=r"boosted for 3 rounds.*one round, as .* does$"
    ) as refused:
        call()
    return str(refused.value).partition("one round, as ")[2].removesuffix(" does")


@pytest.mark.parametrize("fitted", [False, True])
def test_boosted_classifiers_are_told_what_to_write(fitted: bool, data: Data) -> None:
    boosted = xgb.XGBClassifier(n_estimators=3)
    calls = [
        lambda model: rfsize.grow(model, data.X, data.y, alpha=0.9)[0],
        lambda model: rfsize.RightSizedClassifier(model, alpha=0.9).fit(data.X, data.y),
    ]
    if fitted:
        boosted.fit(data.X, data.y)
        calls.append(lambda model: rfsize.size(model.fit(data.X, data.y), data.X, oob=True, alpha=0.9))
    for call in calls:
        call(eval(_suggestion(lambda call=call: call(boosted)), {"XGBClassifier": xgb.XGBClassifier}))


def test_other_boosted_models_are_told_what_to_write(data: Data) -> None:
    wanted = {"oob": True, "metric": "scores", "tolerance": 0.1}
    regressor = xgb.XGBRegressor(n_estimators=3).fit(data.X, data.X[:, 0])
    forest = eval(_suggestion(lambda: rfsize.size(regressor, data.X, **wanted)), {"XGBRegressor": xgb.XGBRegressor})
    assert rfsize.size(forest.fit(data.X, data.X[:, 0]), data.X, **wanted).available == 100
    params, dtrain = {"objective": "binary:logistic"}, xgb.DMatrix(data.X, data.y)
    booster = xgb.train(params, dtrain, 3)
    names = {"xgboost": xgb, "params": params, "dtrain": dtrain}
    forest = eval(_suggestion(lambda: rfsize.size(booster, data.X, oob=True)), names)
    assert rfsize.size(forest, data.X, oob=True, alpha=0.9).available == 100


def test_estimators_that_boost_are_refused_before_they_are_trained() -> None:
    for estimator in (xgb.XGBClassifier(), xgb.XGBClassifier(num_parallel_tree=50)):
        with pytest.raises(rfsize.exceptions.NotAForestError, match="would be boosted for 100 rounds"):
            rfsize.grow(estimator, None, [0, 1])
        with pytest.raises(rfsize.exceptions.NotAForestError, match="would be boosted for 100 rounds"):
            rfsize.RightSizedClassifier(estimator).fit(None, None)


def test_a_classifier_without_bagging_is_told_so(data: Data) -> None:
    unfitted = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=5, learning_rate=1, colsample_bynode=0.6)
    model = xgb.XGBClassifier(**unfitted.get_params()).fit(data.X, data.y)
    for call in (votes_of, rfsize.size):
        with pytest.raises(rfsize.exceptions.InbagError, match=r"trained without bagging.*subsample below 1"):
            call(model, data.X, oob=True)
    for estimator in (unfitted, model):
        with pytest.raises(rfsize.exceptions.InbagError, match=r"trained without bagging.*subsample below 1"):
            rfsize.grow(estimator, data.X, data.y)


def test_unfitted_classifiers_are_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="fit"):
        rfsize.tree_outputs(xgb.XGBClassifier(), data.X)
