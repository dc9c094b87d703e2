"""Calls that are refused: each with the argument, or the value of one, that its message must name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import (
    RandomForestClassifier,
    RandomForestRegressor,
)

import rfsize
import rfsize.dask
from helpers.advised import advised_calls, keywords_of, without_calls
from helpers.models import FRESH, LIGHTGBM, NUMBER, TWO, XGBOOST, X, model
from rfsize import RightSizedClassifier, RightSizedRegressor, SizeCallback, StopTable

N_FRESH = len(FRESH)
FOREST = RandomForestClassifier(n_estimators=20, max_depth=3)  # never fitted itself
AUC: dict[str, Any] = {"metric": "auc", "tolerance": 0.01}
RMSE: dict[str, Any] = {"metric": "rmse", "tolerance": 10.0}
SHARES: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.1}
SCORES: dict[str, Any] = {"metric": "scores", "tolerance": 0.3}
TABLE = pd.DataFrame(X, columns=list("abcdef"))
ALL: dict[str, Any] = {"target": "model"}
TRUTH = TWO[:N_FRESH]
COUNTED = rfsize.Votes([[3, 97], [20, 80]])
GOSS = LIGHTGBM | {"data_sample_strategy": "goss", "bagging_freq": 0, "bagging_fraction": 1.0}
VOTES, LABELS = np.tile([0, 1, 1], (6, 10)), np.array([0, 1, 1, 0, 1, 1])
POLARS = polars.DataFrame(np.zeros((3, 6)), schema=list("abcdef"))


def lightgbm(rows: Any = X, y: Any = TWO, n_trees: int = 31, **params: Any) -> lgb.Booster:
    return lgb.train(LIGHTGBM | params, lgb.Dataset(rows, y), n_trees)


def xgboost(y: Any = TWO, weight: Any = None, rounds: int = 1, **params: Any) -> xgb.Booster:
    return xgb.train(XGBOOST | params, xgb.DMatrix(X, y, weight=weight), rounds)


def loaded() -> xgb.Booster:
    """Its file keeps neither seed nor subsample."""
    return xgb.Booster(model_file=model("xgboost").model.save_raw("json"))


def own(kind: str = "lightgbm") -> Any:
    return model(kind).model


def fitted(kind: Any = FOREST, y: Any = TWO, **params: Any) -> Any:
    return clone(kind).set_params(**params).fit(X, y)


def size(trained: Any, rows: Any = FRESH, y: Any = None, **options: Any) -> Any:
    return rfsize.size(trained, rows, y, **options)


def outputs(trained: Any = None, rows: Any = FRESH, **options: Any) -> Any:
    return rfsize.tree_outputs(own() if trained is None else trained, rows, **options)


def calibrate(trained: Any, rows: Any = FRESH, **options: Any) -> Any:
    return StopTable.calibrate(trained, rows, **{"alpha": 0.9, **options})


def compiled(kind: str = "lightgbm", **options: Any) -> Any:
    return rfsize.compile(own(kind), **options)


def mean_of(*models: Any, **options: Any) -> Any:
    return rfsize.compile([lightgbm(n_trees=3), *models], **options)


def right_sized(kind: Any = FOREST, rows: Any = X, y: Any = TWO, weight: Any = None, **options: Any) -> Any:
    return RightSizedClassifier(kind, **{"min_trees": 20, "max_trees": 40, **options}).fit(rows, y, weight)


def right_sized_number(kind: Any = None, y: Any = NUMBER, **options: Any) -> Any:
    kind = RandomForestRegressor(20) if kind is None else kind
    return RightSizedRegressor(kind, **{"tolerance": 0.3, "min_trees": 20, **options}).fit(X, y)


def written(content: bytes) -> Path:
    Path("file").write_bytes(content)
    return Path("file")


def cut_off() -> Path:
    compiled().save("forest.rfsize")
    return written(Path("forest.rfsize").read_bytes()[:-100])


def inbag(trained: Any, **options: Any) -> Any:
    return rfsize.inbag(trained, X, **options)


def called(y: Any = TWO, params: Any = None, **options: Any) -> Any:
    """LightGBM's training with a callback of these options."""
    return lgb.train(LIGHTGBM | (params or {}), lgb.Dataset(X, y), 110, callbacks=[SizeCallback(**options)])


def grow(y: Any = TWO, params: Any = None, **options: Any) -> Any:
    return rfsize.grow(LIGHTGBM | (params or {}), lgb.Dataset(X, y, free_raw_data=False), **options)


def crossed(**options: Any) -> Any:
    return rfsize.tree_outputs(RandomForestClassifier(5), X, options.pop("y", TWO), **options)


def counted(**options: Any) -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(own(), X, TWO, oob=True, **options)


def score(metric: Any = None, kind: str = "lightgbm", **options: Any) -> Any:
    return rfsize.oob_score(own(kind), X, model(kind).y, metric=metric, **options)


def shrink(rows: Any = FRESH, y: Any = None, trained: Any = None, **options: Any) -> Any:
    return rfsize.shrink(own() if trained is None else trained, rows, y, **options)


def fraction(**options: Any) -> Any:
    options = {"n_trees": 40, **options}
    return rfsize.select_bagging_fraction(LIGHTGBM, lgb.Dataset(X, TWO, free_raw_data=False), **options)


def importance(**options: Any) -> Any:
    return rfsize.oob_importance(counted(), **options)


@cache
def sized() -> rfsize.Report:
    return size(own())


def shares(y: Any, p: Any) -> float:
    return float(np.mean(p))


def with_object(value: Any) -> np.ndarray:
    rows = np.zeros((3, 6), dtype=object)
    rows[1, 2] = value
    return rows


def with_column(column: Any) -> pd.DataFrame:
    frame = pd.DataFrame(np.zeros((3, 6)), columns=list("abcdef"))
    return frame.assign(c=pd.Series(column, dtype=object) if isinstance(column, list) else column)


Case = tuple[Callable[[], Any], str]  # the argument, or the value of one, that the message must name


def refused(call: Callable[..., Any], **options: list[Any]) -> Iterator[Case]:
    """The call with each of these values of an option, which the message must name."""
    for name, values in options.items():
        for value in values:
            yield lambda name=name, value=value: call(**{name: value}), name


def parameters(cases: list[tuple[type[Exception], list[Case]]]) -> list[Any]:
    return [
        pytest.param(error, call, names, id=f"{error.__name__}, {names}, {number}")
        for error, calls in cases
        for number, (call, names) in enumerate(calls)
    ]


# Parameters of trainings too: with a value, it may be that which a message speaks of.
OF_TRAININGS = {"seed", "subsample", "missing", "n_trees", "estimator"}
CALLS = (rfsize.size, rfsize.truncate, rfsize.oob_score, rfsize.oob_predict, rfsize.oob_importance, rfsize.grow)
OPTIONS = {
    name
    for function in (*CALLS, rfsize.tree_outputs, rfsize.inbag, rfsize.compile, rfsize.shrink)
    for name in keywords_of(function)
}


def assert_refused(error: type[Exception], call: Callable[[], Any], names: str) -> None:
    """The call raises this error; its message names the argument, and what it advises works as written."""
    with pytest.raises(error, match=re.escape(names)) as raised:
        call()
    assert type(raised.value) is error
    message = str(raised.value)
    for name, function, given in advised_calls(message):
        assert function is not None, name
        assert given <= keywords_of(function), name
    assert _said_to_the_caller(message) <= _arguments(raised.tb)


def _said_to_the_caller(message: str) -> set[str]:
    """The options of rfsize that a message names outside of a call: those of the function that the user called."""
    named = re.findall(r"(?<![\w.'{])(\w+)=(\S?)", without_calls(message))
    return {name for name, value in named if name in OPTIONS and (name not in OF_TRAININGS or value in {"", ",", "."})}


def _arguments(traceback: Any) -> set[str]:
    """The arguments of the outermost function of rfsize's in the traceback, and of what owns it: fit, or a callback."""
    while "rfsize" not in traceback.tb_frame.f_globals["__name__"].split("."):
        traceback = traceback.tb_next
    frame: FrameType = traceback.tb_frame
    owner = type(frame.f_locals.get("self"))
    made_with = inspect.signature(owner).parameters if hasattr(owner, "fit") or owner is SizeCallback else ()
    return {*inspect.getargs(frame.f_code).args, *made_with}
