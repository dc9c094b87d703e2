"""Every public function with every kind of model and of rows, and which of the calls end in a fault.

A call may work, raise an error that rfsize raises itself, or raise what the framework raises on the same rows. All else
is a fault: another exception, a warning of NumPy's, a model that the call changed.
"""

from __future__ import annotations

import ast
import contextlib
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_X_y

import rfsize
from helpers import models
from helpers.models import FRESH, LIGHTGBM, N_ROWS, N_TREES, NUMBER, TWO, XGBOOST, X

_SOURCES = [Path(rfsize.__file__).parent, Path(rfsize.__file__).parents[1] / "integrations"]

KINDS = ["lightgbm", "lightgbm multiclass", "lightgbm regression", "LGBMClassifier", "LGBMRegressor", "xgboost"]
KINDS += ["xgboost softprob", "xgboost regression", "xgboost weights", "XGBClassifier", "XGBRegressor", "random forest"]
KINDS += ["random forest of names", "random forest regressor", "bagging", "bagging of neighbours", "bagging regressor"]
_FOREST = RandomForestClassifier(20, max_depth=4, random_state=3)
_OTHERS: dict[str, Callable[[], Any]] = {
    "xgboost loaded": lambda: xgb.Booster(model_file=model("xgboost").save_raw("json")),
    "extra-trees that saw all": lambda: ExtraTreesClassifier(N_TREES, max_depth=4, random_state=3).fit(X, TWO),
    "compiled": lambda: rfsize.compile(model("lightgbm")),
    "compiled regression": lambda: rfsize.compile(model("xgboost regression")),
    "right-sized": lambda: rfsize.RightSizedClassifier(_FOREST, alpha=0.9, max_trees=100).fit(X, TWO),
    "right-sized regressor": lambda: rfsize.RightSizedRegressor(
        RandomForestRegressor(max_depth=4, random_state=3), tolerance=0.3, max_trees=100
    ).fit(X, NUMBER),
    "lightgbm boosted": lambda: lgb.train(LIGHTGBM | {"boosting": "gbdt"}, lgb.Dataset(X, TWO), 5),
    "xgboost boosted": lambda: xgb.train(XGBOOST | {"num_parallel_tree": 1}, xgb.DMatrix(X, TWO), 3),
    "adaboost": lambda: AdaBoostClassifier(n_estimators=5, random_state=3).fit(X, TWO),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=5, random_state=3).fit(X, TWO),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=5, random_state=3).fit(X, TWO),
    "logistic regression": lambda: LogisticRegression().fit(X, TWO),
    "pipeline": lambda: make_pipeline(StandardScaler(), clone(_FOREST)).fit(X, TWO),
    "unfitted": lambda: clone(_FOREST),
    "unfitted lightgbm": lambda: lgb.LGBMClassifier(**models.WRAPPER),
    "text": lambda: "model.txt",
    "nothing": lambda: None,
}
MODELS = (*KINDS, *_OTHERS)


@cache
def model(name: str) -> Any:
    """The model of a name, the same at each call."""
    return models.model(name).model if name in KINDS else _OTHERS[name]()


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "size": lambda model, X, y: rfsize.size(model, X, y, alpha=0.9),
    "size oob": lambda model, X, y: rfsize.size(model, X, y, oob=True),
    "size log_loss": lambda model, X, y: rfsize.size(model, X, y, metric="log_loss", tolerance=0.01),
    "size certified": lambda model, X, y: rfsize.size(model, X, y, target="model", alpha=0.9),
    "truncate": lambda model, X, y: rfsize.truncate(model, X, y),
    "truncate max_bytes": lambda model, X, y: rfsize.truncate(model, X, y, max_bytes=20_000),
    "shrink": lambda model, X, y: rfsize.shrink(model, X, y, n_trees=5),
    "tree_outputs": lambda model, X, y: rfsize.tree_outputs(model, X, y),
    "tree_outputs cv": lambda model, X, y: rfsize.tree_outputs(model, X, y, cv=2),
    "by_tree": lambda model, X, y: rfsize.tree_outputs(model, X).by_tree(),
    "compare": lambda model, X, y: rfsize.compare(*[rfsize.tree_outputs(model, X, y, oob=True)] * 2),
    "oob_predict": lambda model, X, y: rfsize.oob_predict(model, X, y, fill=0),
    "oob_predict_proba": lambda model, X, y: rfsize.oob_predict_proba(model, X, y),
    "oob_score": lambda model, X, y: rfsize.oob_score(model, X, y),
    "oob_importance": lambda model, X, y: rfsize.oob_importance(model, X, y),
    "compile": lambda model, X, y: rfsize.compile(model).predict(X),
    "compile folds": lambda model, X, y: rfsize.compile([model, model]).predict(X),
    "calibrate": lambda model, X, y: rfsize.StopTable.calibrate(model, X, alpha=0.8),
    "build": lambda model, X, y: rfsize.StopTable.build(40, prior=rfsize.tree_outputs(model, X)),
    "grow": lambda model, X, y: rfsize.grow(model, X, y, max_trees=60, min_trees=45),
    "grow validation": lambda model, X, y: rfsize.grow(_unfitted(model), X, y, validation=X, max_trees=20, min_trees=8),
    "fraction": lambda model, X, y: rfsize.select_bagging_fraction(
        _unfitted(model), X, y, fractions=[0.4, 0.7], n_trees=12
    ),
    "right-sized classifier": lambda model, X, y: rfsize.RightSizedClassifier(
        _unfitted(model), alpha=0.8, max_trees=30, min_trees=10
    ).fit(X, y),
    "right-sized regressor": lambda model, X, y: rfsize.RightSizedRegressor(
        _unfitted(model), tolerance=0.5, max_trees=30, min_trees=10
    ).fit(X, y),
}
TRAINING = {"grow", "grow validation", "fraction", "right-sized classifier", "right-sized regressor", "tree_outputs cv"}


def rows_of(y: Any) -> dict[str, tuple[Any, Any]]:
    """Rows and their truth, of each kind; ``y`` is the truth of the training rows."""
    truth, names = y[: len(FRESH)], list("abcdef")
    objects, holes, infinite = FRESH.astype(object), FRESH.copy(), FRESH.copy()
    objects[0, 1], holes[::7, 1], infinite[::7, 1] = "high", np.nan, np.inf
    has_gaps = np.where(np.arange(len(FRESH)) == 3, None, truth)
    return {
        "training rows": (X, y),
        "fresh rows": (FRESH, truth),
        "frame": (pd.DataFrame(FRESH, columns=names), pd.Series(truth)),
        "Polars": (pl.DataFrame(FRESH, schema=names), pl.Series(truth)),
        "Arrow": (pa.table(pd.DataFrame(FRESH, columns=names)), pa.array(truth)),
        "sparse": (sp.csr_matrix(X), y),
        "one row": (FRESH[:1], truth[:1]),
        "no rows": (FRESH[:0], truth[:0]),
        "three columns": (X[:, :3], y),
        "one dimension": (FRESH[:, 0], truth),
        "a Series": (pd.DataFrame(FRESH, columns=names).iloc[0], truth),
        "missing": (holes, truth),
        "infinite": (infinite, truth),
        "objects": (objects, truth),
        "text": (FRESH.astype(str), truth),
        "no X": (None, truth),
        "masked": (np.ma.masked_array(FRESH, FRESH > 1), truth),
        "long y": (FRESH, y),
        "two columns of y": (X, np.stack([y, y], axis=1)),
        "missing y": (FRESH, has_gaps),
        "text as y": (X, np.where(np.arange(N_ROWS) % 2, "yes", "no")),
        "one class": (X, np.zeros(N_ROWS, dtype=int)),
        "no y": (X, None),
        "constant columns": (np.ones_like(X), y),
        "huge": (FRESH * 1e300, truth),
        "a word": ("rows.csv", truth),
        "a dict": ({"a": FRESH[:, 0]}, truth),
    }


ROWS = tuple(rows_of(TWO))


class Fault(NamedTuple):
    """A call that ended as it may not."""

    function: str
    model: str
    rows: str
    what: str


def faults(calls: Iterator[tuple[str, str, str]]) -> Iterator[Fault]:
    """The faults among the calls, each a function, a kind of model and a kind of rows."""
    for function, kind, rows in calls:
        given, (X, y) = model(kind), rows_of(_truth(kind))[rows]
        before = _state(given)
        what = _fault(function, given, X, y)
        if what is None and _state(given) != before:
            what = "the model is another one"
        if what is not None:
            yield Fault(function, kind, rows, what)


def _truth(kind: str) -> Any:
    if kind in models.KINDS:
        return models.model(kind).y
    return NUMBER if "regress" in kind else TWO


def _unfitted(model: Any) -> Any:
    return clone(model) if hasattr(model, "get_params") else model


def _fault(function: str, model: Any, X: Any, y: Any) -> str | None:
    raised, warned = _outcome(lambda: FUNCTIONS[function](model, X, y))
    if (raised is None or _is_ours(raised)) and not warned:
        return None
    calls: list[Callable[[], Any]] = [lambda: _predict(model, X)]
    if function in TRAINING:
        calls += [
            lambda: clone(model).fit(X, y),
            lambda: next(KFold(2).split(X)),
            lambda: lgb.train(LIGHTGBM, lgb.Dataset(X, y), 1),
        ]
        # rfsize's estimators check rows as scikit-learn's do.
        calls.append(lambda: check_X_y(X, y, y_numeric="regressor" in function, multi_output=False))
    own = [_outcome(call) for call in calls]
    if raised is not None and not _is_ours(raised) and type(raised) not in {type(error) for error, _ in own}:
        return "".join(traceback.format_exception(raised)[-3:])
    return next(iter(warned.difference(*(of_its_own for _, of_its_own in own))), None)


def _outcome(call: Callable[[], Any]) -> tuple[BaseException | None, set[str]]:
    """What a call raises, and the warnings of NumPy's that it ends with."""
    raised = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except BaseException as error:
            raised = error
    numeric = [warning for warning in caught if warning.category is RuntimeWarning]
    return raised, {f"RuntimeWarning at {Path(warning.filename).name}: {warning.message}" for warning in numeric}


def _is_ours(error: BaseException) -> bool:
    """Whether a ``raise`` of rfsize's raised it, as an error that a caller may expect."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    path = Path(frame.f_code.co_filename)
    if not any(path.is_relative_to(folder) for folder in _SOURCES):
        return False
    of_a_caller = isinstance(error, (ValueError, TypeError, ImportError, FileNotFoundError))
    return of_a_caller and line in _lines_that_raise(path)


@cache
def _lines_that_raise(path: Path) -> set[int]:
    raises = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise))
    return {line for node in raises for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _predict(model: Any, X: Any) -> None:
    model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X)


def _state(model: Any) -> bytes:
    """What a model predicts, and what it is pickled to; boosters in their own form."""
    if isinstance(model, lgb.Booster):
        return model.model_to_string().encode()
    if isinstance(model, xgb.Booster):
        return bytes(model.save_raw("json"))
    with contextlib.suppress(Exception):
        predicted = np.asarray(model.predict(FRESH)).tobytes()
        # The neighbours' trees count how often they are asked.
        return predicted if isinstance(model, BaggingClassifier) else predicted + pickle.dumps(model)
    return b""
