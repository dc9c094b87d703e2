"""Every public function with every kind of model and of rows, and which of the calls end in a fault.

A call may work, raise an error that rfsize raises itself, or raise what the framework raises on the same rows. All else
is a fault: another exception, a warning of NumPy's, a model that the call changed.
"""

from __future__ import annotations

import ast
import contextlib
import pickle
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import KFold
from sklearn.utils import check_X_y

import rfsize
from helpers.kinds import LIGHTGBM, ROWS, Kinds

_SOURCES = [Path(rfsize.__file__).parent, Path(rfsize.__file__).parents[1] / "integrations"]

MODELS = tuple(
    name for name, member in vars(Kinds).items() if type(member).__name__ == "cached_property"
)  # of everything that `Kinds` trains

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "size": lambda model, X, y: rfsize.size(model, X, y, alpha=0.9),
    "size without y": lambda model, X, y: rfsize.size(model, X),
    "size oob": lambda model, X, y: rfsize.size(model, X, y, oob=True),
    "size macro": lambda model, X, y: rfsize.size(model, X, y, average="macro"),
    "size probabilities": lambda model, X, y: rfsize.size(model, X, metric="probabilities", tolerance=0.05),
    "size scores": lambda model, X, y: rfsize.size(model, X, y, metric="scores", tolerance=0.1),
    "size log_loss": lambda model, X, y: rfsize.size(model, X, y, metric="log_loss", tolerance=0.01),
    "size certified": lambda model, X, y: rfsize.size(model, X, y, target="forest", alpha=0.9),
    "size max_rows": lambda model, X, y: rfsize.size(model, X, y, max_rows="auto"),
    "truncate": lambda model, X, y: rfsize.truncate(model, X, y),
    "truncate n_trees": lambda model, X, y: rfsize.truncate(model, n_trees=3),
    "truncate max_bytes": lambda model, X, y: rfsize.truncate(model, X, y, max_bytes=20_000),
    "shrink": lambda model, X, y: rfsize.shrink(model, X, y, n_trees=5),
    "tree_outputs": lambda model, X, y: rfsize.tree_outputs(model, X, y),
    "tree_outputs oob": lambda model, X, y: rfsize.tree_outputs(model, X, y, oob=True),
    "tree_outputs cv": lambda model, X, y: rfsize.tree_outputs(model, X, y, cv=2),
    "votes": lambda model, X, y: rfsize.tree_outputs(model, X).votes,
    "by_tree": lambda model, X, y: rfsize.tree_outputs(model, X).by_tree(),
    "predict": lambda model, X, y: rfsize.tree_outputs(model, X, oob=True).predict(fill=0),
    "compare": lambda model, X, y: rfsize.compare(*[rfsize.tree_outputs(model, X, y, oob=True)] * 2),
    "inbag": lambda model, X, y: rfsize.inbag(model, X, y),
    "oob_predict": lambda model, X, y: rfsize.oob_predict(model, X, y, fill=0),
    "oob_predict_proba": lambda model, X, y: rfsize.oob_predict_proba(model, X, y),
    "oob_score": lambda model, X, y: rfsize.oob_score(model, X, y),
    "oob_score log_loss": lambda model, X, y: rfsize.oob_score(model, X, y, metric="log_loss"),
    "oob_score auc": lambda model, X, y: rfsize.oob_score(model, X, y, metric="auc"),
    "oob_importance": lambda model, X, y: rfsize.oob_importance(model, X, y),
    "compile": lambda model, X, y: rfsize.compile(model).predict(X),
    "compile labels": lambda model, X, y: rfsize.compile(model, voting="hard").predict_labels(X),
    "compile proba": lambda model, X, y: rfsize.compile(model).predict_proba(X),
    "compile folds": lambda model, X, y: rfsize.compile([model, model]).predict(X),
    "calibrate": lambda model, X, y: rfsize.StopTable.calibrate(model, X, alpha=0.8),
    "calibrate probabilities": lambda model, X, y: rfsize.StopTable.calibrate(
        model, X, metric="probabilities", tolerance=0.2
    ),
    "build": lambda model, X, y: rfsize.StopTable.build(40, prior=rfsize.tree_outputs(model, X)),
    "grow": lambda model, X, y: rfsize.grow(model, X, y, max_trees=60, min_trees=45),
    "grow validation": lambda model, X, y: rfsize.grow(_unfitted(model), X, y, validation=X, max_trees=20, min_trees=8),
    "fraction": lambda model, X, y: rfsize.select_bagging_fraction(
        _unfitted(model), X, y, fractions=[0.4, 0.7], n_trees=12, progress=False
    ),
    "right-sized classifier": lambda model, X, y: rfsize.RightSizedClassifier(
        _unfitted(model), alpha=0.8, max_trees=30, min_trees=10
    ).fit(X, y),
    "right-sized regressor": lambda model, X, y: rfsize.RightSizedRegressor(
        _unfitted(model), tolerance=0.5, max_trees=30, min_trees=10
    ).fit(X, y),
}
TRAINING = {"grow", "grow validation", "fraction", "right-sized classifier", "right-sized regressor", "tree_outputs cv"}


def rows_of(at: Kinds, y: Any) -> dict[str, tuple[Any, Any]]:
    """Rows and their truth, of each kind; ``y`` is the truth of the training rows."""
    X, half, names = at.fresh, y[: ROWS // 2], list("abcd")
    objects = X.astype(object)
    objects[0, 1] = "high"
    holes, infinite = X.copy(), X.copy()
    holes[::7, 1], infinite[::7, 1] = np.nan, np.inf
    lacking = half.astype(float)
    lacking[3] = np.nan
    return {
        "training rows": (at.X, y),
        "training rows, as a frame": (at.frame, y),
        "training rows, float32": (at.X.astype(np.float32), y),
        "training rows, Fortran order": (np.asfortranarray(at.X), y),
        "fresh rows": (X, half),
        "frame": (pd.DataFrame(X, columns=names), pd.Series(half)),
        "Polars": (pl.DataFrame(X, schema=names), pl.Series(half)),
        "Arrow": (pa.table(pd.DataFrame(X, columns=names)), pa.array(half)),
        "sparse": (sp.csr_matrix(at.X), y),
        "lists": (X.tolist(), half.tolist()),
        "one row": (X[:1], half[:1]),
        "no rows": (X[:0], half[:0]),
        "three columns": (at.X[:, :3], y),
        "no columns": (at.X[:, :0], y),
        "one dimension": (X[:, 0], half),
        "a Series": (pd.DataFrame(X, columns=names).iloc[0], half),
        "three dimensions": (X[None], half),
        "missing": (holes, half),
        "infinite": (infinite, half),
        "objects": (objects, half),
        "text": (X.astype(str), half),
        "no X": (None, half),
        "masked": (np.ma.masked_array(X, X > 1), half),
        "long y": (X, y),
        "two columns of y": (at.X, np.stack([y, y], axis=1)),
        "missing y": (X, lacking),
        "text as y": (at.X, np.where(y > y.mean(), "yes", "no")),
        "one class": (at.X, np.zeros(ROWS, dtype=int)),
        "no y": (at.X, None),
        "constant columns": (np.ones_like(at.X), y),
        "huge": (X * 1e300, half),
        "a word": ("rows.csv", half),
        "a number": (3, half),
        "a dict": ({"a": X[:, 0]}, half),
    }


class Fault(NamedTuple):
    """A call that ended as it may not."""

    function: str
    model: str
    rows: str
    what: str


def faults(at: Kinds, calls: Iterator[tuple[str, str, str]]) -> Iterator[Fault]:
    """The faults among the calls, each a function, a kind of model and a kind of rows."""
    for function, kind, rows in calls:
        model = getattr(at, kind)
        X, y = rows_of(at, _truth(at, kind))[rows]
        before = _state(model, at.fresh)
        what = _fault(function, model, X, y)
        if what is None and _state(model, at.fresh) != before:
            what = "the model is another one"
        if what is not None:
            yield Fault(function, kind, rows, what)


def _truth(at: Kinds, kind: str) -> Any:
    if "regress" in kind:
        return at.number
    return at.three if "three" in kind or "extra" in kind else at.y


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
        return f"{type(raised).__name__} from {_place(raised)}: {str(raised)[:200]}"
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
    frame = _innermost(error.__traceback__)
    path = Path(frame.tb_frame.f_code.co_filename)
    if not any(path.is_relative_to(folder) for folder in _SOURCES):
        return False
    of_a_caller = isinstance(error, (ValueError, TypeError, ImportError, FileNotFoundError))
    return of_a_caller and frame.tb_lineno in _lines_that_raise(path)


def _innermost(traceback: TracebackType | None) -> TracebackType:
    assert traceback is not None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


@cache
def _lines_that_raise(path: Path) -> set[int]:
    raises = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise))
    return {line for node in raises for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _place(error: BaseException) -> str:
    """The innermost places, of rfsize's and of all, to sort faults by."""
    trail, traceback = [], error.__traceback__
    while traceback is not None:
        path = Path(traceback.tb_frame.f_code.co_filename)
        trail.append((f"{path.name}:{traceback.tb_lineno}", any(path.is_relative_to(folder) for folder in _SOURCES)))
        traceback = traceback.tb_next
    ours = [place for place, own in trail if own]
    return f"{ours[-1] if ours else 'nowhere'} ({trail[-1][0]})"


def _predict(model: Any, X: Any) -> None:
    model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X)


def _state(model: Any, X: Any) -> bytes:
    """What a model predicts, and what it is pickled to; boosters in their own form."""
    if isinstance(model, lgb.Booster):
        return model.model_to_string().encode()
    if isinstance(model, xgb.Booster):
        return bytes(model.save_raw("json"))
    with contextlib.suppress(Exception):
        predicted = np.asarray(model.predict(X)).tobytes()
        # The neighbours' trees count how often they are asked.
        return predicted if isinstance(model, BaggingClassifier) else predicted + pickle.dumps(model)
    return b""
