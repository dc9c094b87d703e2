"""All of an XGBoost model but its trees is the same after rfsize made another one of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.command_line import run
from helpers.forests import Data
from rfsize.integrations.xgboost.model_json import VERSION

NAMES = ["größe", "年齢", 'quoted "€" \\u00e4', "\x01 control \x08", "farbe", "plain"]
SETTINGS = {"learning_rate": 1, "subsample": 0.632, "colsample_bynode": 0.6, "n_jobs": 1, "random_state": 0}
PARAMS = {"objective": "binary:logistic", "eta": 1, "subsample": 0.632, "colsample_bynode": 0.6, "nthread": 1}
CATEGORIES = ["rot", "blau", "grün"]


@pytest.fixture(scope="module")
def frame(data: Data) -> pd.DataFrame:
    frame = pd.DataFrame(data.X[:, :6], columns=NAMES)
    frame["farbe"] = pd.Categorical(np.array(CATEGORIES)[np.digitize(data.X[:, 4], [-0.5, 0.5])], CATEGORIES)
    frame["plain"] = np.arange(len(frame)) % 7
    return frame


@pytest.fixture(scope="module")
def booster(frame: pd.DataFrame, data: Data) -> xgb.Booster:
    rows = xgb.DMatrix(frame, data.y, enable_categorical=True)
    made = xgb.train({**PARAMS, "num_parallel_tree": 40}, rows, 1)
    made.set_attr(note="größe \x0c\n \\u00f6", ключ="😀")
    return made


def kept(booster: xgb.Booster) -> dict[str, Any]:
    """All that can be read of a booster but its trees, and what rfsize notes."""
    config = json.loads(booster.save_config())["learner"]
    del config["gradient_booster"]["gbtree_model_param"]
    stored = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    return {
        "names": booster.feature_names,
        "types": booster.feature_types,
        "n_features": booster.num_features(),
        "attributes": {name: text for name, text in booster.attributes().items() if not name.startswith("rfsize")},
        "categories": stored.get("cats"),
        "rounds": booster.num_boosted_rounds(),
        "config": config,
    }


def n_trees(booster: xgb.Booster) -> int:
    """As the configuration tells it."""
    told = json.loads(booster.save_config())["learner"]["gradient_booster"]["gbtree_model_param"]
    assert int(told["num_trees"]) == len(booster.get_dump())
    return int(told["num_parallel_tree"])


MADE: dict[str, Callable[..., xgb.Booster]] = {
    "truncate": lambda booster, frame: rfsize.truncate(booster, n_trees=10),
    "shrink": lambda booster, frame: rfsize.shrink(booster, frame, n_trees=10)[0],
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_names_types_attributes_and_categories(
    make: Callable[..., xgb.Booster], booster: xgb.Booster, frame: pd.DataFrame
) -> None:
    others = frame.assign(**{name: -frame[name] for name in NAMES[:4]})
    small = make(booster, others)
    assert kept(small) == kept(booster)
    assert n_trees(small) == 10
    assert n_trees(booster) == 40
    rows = xgb.DMatrix(frame, enable_categorical=True)
    assert small.predict(rows).shape == (len(frame),)
    again = xgb.Booster()
    again.load_model(small.save_raw("ubj"))
    assert again.feature_names == NAMES


def test_all_trees_predict_the_same(booster: xgb.Booster, frame: pd.DataFrame) -> None:
    rows = xgb.DMatrix(frame, enable_categorical=True)
    assert rfsize.truncate(booster, n_trees=40).predict(rows).tolist() == booster.predict(rows).tolist()


@pytest.mark.skipif(VERSION < (3, 1), reason="XGBoost keeps categories from 3.1 on")
def test_categories_are_read_as_before(booster: xgb.Booster) -> None:
    pytest.importorskip("pyarrow")
    models = booster, rfsize.truncate(booster, n_trees=3)
    before, after = (dict(model.get_categories(export_to_arrow=True).to_arrow()) for model in models)
    assert list(before) == list(after) == NAMES
    known = [name for name in NAMES if before[name] is not None]
    assert known == [name for name in NAMES if after[name] is not None] == ["farbe"]
    assert before["farbe"].equals(after["farbe"])


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_of_several_classes(strategy: str, frame: pd.DataFrame, data: Data) -> None:
    params = {**PARAMS, "objective": "multi:softprob", "num_class": 3, "multi_strategy": strategy}
    rows = frame.drop(columns="farbe")
    model = xgb.train({**params, "num_parallel_tree": 12}, xgb.DMatrix(rows, data.three), 1)
    assert kept(rfsize.truncate(model, n_trees=5)) == kept(model)


def test_estimators(frame: pd.DataFrame, data: Data) -> None:
    kind = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=30, enable_categorical=True, **SETTINGS)
    model = kind.fit(frame, data.y)
    grown, _ = rfsize.grow(kind, frame, data.y, alpha=0.8, max_trees=150)
    for made in (rfsize.truncate(model, n_trees=7), grown):
        assert made.feature_names_in_.tolist() == NAMES
        assert made.n_features_in_ == len(NAMES)
        assert made.classes_.tolist() == [0, 1]
        assert kept(made.get_booster()) == kept(model.get_booster())
        before, after = model.get_params(), made.get_params()
        assert after.pop("num_parallel_tree") == n_trees(made.get_booster())
        assert repr(after) == repr({name: value for name, value in before.items() if name != "num_parallel_tree"})
        assert made.predict(frame).shape == (len(frame),)


def test_right_sized(frame: pd.DataFrame, data: Data) -> None:
    rows = frame.drop(columns="farbe")
    estimator = xgb.XGBClassifier(n_estimators=1, **SETTINGS)
    sized = rfsize.RightSizedClassifier(estimator, alpha=0.8, max_trees=150).fit(rows, data.y)
    assert sized.predict(rows).shape == (len(rows),)


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_the_command_line(ending: str, frame: pd.DataFrame, data: Data, tmp_path: Path) -> None:
    rows = frame[NAMES[:2]]
    rows.assign(y=data.y).to_csv(tmp_path / "rows.csv", index=False)
    model = xgb.train({**PARAMS, "num_parallel_tree": 20}, xgb.DMatrix(rows, data.y), 1)
    model.set_attr(note="größe")
    model.save_model(tmp_path / f"model.{ending}")
    arguments = [f"model.{ending}", "rows.csv", "--labels", "y", "--alpha", "0.8", "-o", str(tmp_path / f"s.{ending}")]
    assert run(tmp_path, "truncate", *arguments) == 0
    small = xgb.Booster(model_file=tmp_path / f"s.{ending}")
    assert (small.feature_names, small.attr("note")) == (NAMES[:2], "größe")
