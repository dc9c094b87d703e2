"""Forests of a learning rate other than 1, which squeezes what they predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import rfsize
from helpers.forests import Data
from helpers.xgboost_forests import KINDS, labels
from rfsize.models.framework import read_forest

SAMPLED = {"num_parallel_tree": 30, "subsample": 0.6, "max_depth": 4, "seed": 3, "nthread": 1}


def train(data: Data, kind: str = "binary", **params: Any) -> xgb.Booster:
    return xgb.train({**KINDS[kind], **SAMPLED, **params}, xgb.DMatrix(data.X, labels(kind, data)), 1)


def from_file(model: xgb.Booster) -> xgb.Booster:
    return xgb.Booster(model_file=model.save_raw("ubj"))


def warned(call: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in found if each.category is rfsize.exceptions.ShrunkenScoresWarning]


@pytest.mark.parametrize("rate", [None, 0.05, 0.9, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_is_told_of_models_and_of_files(kind: str, rate: float | None, data: Data) -> None:
    model = train(data, kind, **({} if rate is None else {"eta": rate}))
    assert f"learning_rate={rate or 0.3:g}," in read_forest(model).learning_rate.caveat
    assert read_forest(from_file(model)).learning_rate is None  # a file does not keep settings
    assert read_forest(train(data, kind, eta=1)).learning_rate is None


@pytest.mark.parametrize("settings", [{"reg_alpha": 1.0}, {"max_delta_step": 0.3}, {"reg_lambda": 20.0}], ids=str)
def test_of_other_regularisation_settings_tell(settings: dict[str, Any], data: Data) -> None:
    assert "learning_rate=0.3," in read_forest(train(data, **settings)).learning_rate.caveat
    assert read_forest(train(data, eta=1, **settings)).learning_rate is None


def test_trees_that_were_cut_keep_theirs(data: Data) -> None:
    assert "learning_rate=0.3," in read_forest(rfsize.truncate(train(data), n_trees=11)).learning_rate.caveat
    assert read_forest(rfsize.truncate(train(data, eta=1), n_trees=11)).learning_rate is None


def test_it_warns_where_numbers_are_asked_for(data: Data) -> None:
    model, X, y = train(data, base_score=0.5, num_parallel_tree=120), data.X, data.y
    counted = rfsize.tree_outputs(model, X, oob=True)
    numbers = {
        "probability": lambda: rfsize.size(model, X, oob=True, metric="probabilities", tolerance=0.05),
        "brier": lambda: rfsize.size(model, X, y, oob=True, metric="brier", tolerance=0.05),
        "oob_score": lambda: rfsize.oob_score(model, X, y, metric="brier"),
        "compile": lambda: rfsize.compile(model),
        "count": lambda: rfsize.size(counted, metric="probabilities", tolerance=0.05),
        "calibrate": lambda: rfsize.StopTable.calibrate(model, data.fresh, metric="probabilities", tolerance=0.1),
        "another threshold": lambda: rfsize.size(rfsize.tree_outputs(model, X, oob=True, threshold=0.3), alpha=0.9),
    }
    for name, call in numbers.items():
        (message,) = warned(call)
        assert "labels are the same as with learning_rate=1, since base_score favours no class" in message, name
        assert "Train with learning_rate=1" in message
    for call in (
        lambda: rfsize.size(model, X, oob=True, alpha=0.9),
        lambda: rfsize.oob_score(model, X, y, metric="accuracy"),
        lambda: rfsize.StopTable.calibrate(model, data.fresh, alpha=0.9),
        lambda: rfsize.tree_outputs(model, X).votes,
    ):
        assert warned(call) == []


def test_labels_stay_only_where_base_score_favours_none(data: Data) -> None:
    """What the warning says of labels, which are compared with those of the same trees at a rate of 1."""
    assert set(map(bool, np.unique(data.y))) == {False, True}
    for base_score, differ in ((0.5, False), (0.8, True)):
        shrunken, whole = (train(data, base_score=base_score, eta=eta) for eta in (0.3, 1.0))
        rows = xgb.DMatrix(data.fresh)
        assert np.any((shrunken.predict(rows) > 0.5) != (whole.predict(rows) > 0.5)) == differ
        said = warned(lambda model=shrunken: rfsize.size(model, data.fresh, alpha=0.9))
        assert len(said) == differ
        if differ:
            assert "labels lean towards the classes that base_score favours" in said[0]
        # The squeeze itself: margins are 0.3 of the whole ones.
        start = np.log(base_score / (1 - base_score))
        squeezed, margin = (model.predict(rows, output_margin=True) - start for model in (shrunken, whole))
        np.testing.assert_allclose(squeezed, 0.3 * margin, rtol=1e-4, atol=1e-5)


def test_training_warns_where_the_rate_is_named(data: Data) -> None:
    params = {**KINDS["binary"], "max_depth": 4, "nthread": 1}
    dtrain, goal = xgb.DMatrix(data.X, data.y), {"alpha": 0.8, "min_trees": 60}
    assert warned(lambda: rfsize.grow(params, dtrain, **goal)[0]) == []
    (message,) = warned(lambda: rfsize.grow({**params, "learning_rate": 0.5}, dtrain, **goal)[0])
    assert "learning_rate=0.5," in message
    estimator = xgb.XGBClassifier(n_estimators=1, subsample=0.5, max_depth=4, n_jobs=1)
    for call in (
        lambda: rfsize.grow(estimator, data.X, data.y, **goal)[0],
        lambda: rfsize.RightSizedClassifier(estimator, alpha=0.8, min_trees=60).fit(data.X, data.y),
    ):
        assert len(warned(call)) == 1
