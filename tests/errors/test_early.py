"""What does not fit is refused before a tree predicts a row: the rows of these calls cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.metrics import f1_score

import rfsize
from helpers.models import N_ROWS, NUMBER, TWO, XGBOOST, X, model
from rfsize import StopTable


class Unread(lgb.Sequence):
    """Rows of which only the first is read, to count the columns."""

    batch_size = 10

    def __len__(self) -> int:
        return N_ROWS

    def __getitem__(self, rows: Any) -> Any:
        assert rows == 0, "rows were read"
        return X[rows]


def short(y: Any = TWO) -> Any:
    return y[:-1]


TEXT = np.where(TWO, "a", "b")
AUC: dict[str, Any] = {"metric": "auc", "tolerance": 0.01}
OF_ALL = {
    "no truth": (lambda m, X: rfsize.size(m, X, **AUC), "y is missing"),
    "another metric": (lambda m, X: rfsize.size(m, X, TWO, metric="rmse", tolerance=1.0), "rmse"),
    "no direction": (lambda m, X: rfsize.size(m, X, TWO, metric=f1_score, tolerance=0.1), "f1_score"),
    "one class": (lambda m, X: rfsize.size(m, X, np.ones(N_ROWS), **AUC), "auc"),
    "a failing scorer": (lambda m, X: rfsize.size(m, X, TWO, metric="f1_samples", tolerance=0.1), "multilabel"),
    "short": (lambda m, X: rfsize.size(m, X, short()), "y "),
    "short of drawn rows": (lambda m, X: rfsize.size(m, X, short(), max_rows=50), "y "),
    "unknown labels": (lambda m, X: rfsize.size(m, X, TEXT), "'a'"),
    "unknown labels of a certificate": (lambda m, X: rfsize.size(m, X, TEXT, target="model"), "'a'"),
    "too few rows": (lambda m, X: rfsize.size(m, X, target="model", alpha=0.9999), "alpha"),
    "outputs": (lambda m, X: rfsize.tree_outputs(m, X, short()), "y "),
    "weights": (lambda m, X: rfsize.tree_outputs(m, X, TWO, sample_weight=-np.ones(N_ROWS)), "sample_weight"),
    "weights alone": (lambda m, X: rfsize.tree_outputs(m, X, sample_weight=np.ones(N_ROWS)), "sample_weight"),
    "bytes": (lambda m, X: rfsize.truncate(m, X, max_bytes=100), "max_bytes"),
    "cut": (lambda m, X: rfsize.truncate(m, X, TEXT), "'a'"),
    "cut by a metric": (lambda m, X: rfsize.truncate(m, X, short(), **AUC), "y "),
    "shrunk": (lambda m, X: rfsize.shrink(m, X, short()), "y "),
    "shrunk to all": (lambda m, X: rfsize.shrink(m, X, n_trees=10**6), "n_trees"),
    "out of bag": (lambda m, X: rfsize.size(m, X, short(), oob=True), "y "),
    "score": (lambda m, X: rfsize.oob_score(m, X, TWO, metric="rmse"), "rmse"),
    "score without truth": (lambda m, X: rfsize.oob_score(m, X), "y is missing"),
    "prediction": (lambda m, X: rfsize.oob_predict_proba(m, X, TEXT), "'a'"),
    "importance": (lambda m, X: rfsize.oob_importance(m, X, TWO, metric="rmse"), "rmse"),
    "groups": (lambda m, X: rfsize.size(m, X, oob=True, groups=np.ones(3)), "groups"),
}


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest"])
@pytest.mark.parametrize("case", OF_ALL)
def test_before_rows_are_read(case: str, kind: str) -> None:
    call, named = OF_ALL[case]
    with pytest.raises(ValueError, match=named):
        call(model(kind).model, Unread())


# The options are refused before the model is read.
OF_OPTIONS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (call, option)
    for call in (rfsize.size, rfsize.truncate)
    for option in (
        {"alpha": 1.5},
        {"tolerance": -1.0},
        {"metric": "aucc"},
        {"average": "mean"},
        {"target": "all"},
        {"confidence": 0.2},
    )
]


@pytest.mark.parametrize(("call", "option"), OF_OPTIONS, ids=range(len(OF_OPTIONS)))
def test_before_the_model_is_read(call: Callable[..., Any], option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        call("no model", Unread(), **option)


def test_truth_of_a_regression() -> None:
    forest = model("lightgbm regression").model
    for y, metric in (
        (short(NUMBER), "rmse"),
        (TEXT, "rmse"),
        (np.full(N_ROWS, np.nan), "mae"),
        (np.ones(N_ROWS), "r2"),
    ):
        with pytest.raises(ValueError, match="y "):
            rfsize.size(forest, Unread(), y, metric=metric, tolerance=0.1)


def test_weights_of_grown_forests() -> None:
    from xgboost import XGBClassifier

    params = {name: value for name, value in XGBOOST.items() if name != "objective"}
    with pytest.raises(ValueError, match="sample_weight"):
        rfsize.grow(XGBClassifier(n_estimators=1, **params), X, TWO, sample_weight=np.ones(3))


def test_tables() -> None:
    with pytest.raises(ValueError, match="alpha"):
        StopTable.calibrate("no model", Unread(), alpha=1.5)
