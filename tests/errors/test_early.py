"""What does not fit is refused before a tree predicts a row: the rows of these calls cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.metrics import f1_score

import rfsize
from helpers.models import N_ROWS, NUMBER, TWO, X, model
from helpers.refused import AUC, assert_refused
from rfsize import StopTable
from rfsize.exceptions import RfsizeError


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
    "unknown column": (lambda m, X: rfsize.oob_importance(m, X, TWO, columns=[0, "price"]), "'price'"),
    "no columns": (lambda m, X: rfsize.oob_importance(m, X, TWO, columns=[]), "columns"),
    "groups": (lambda m, X: rfsize.size(m, X, oob=True, groups=np.ones(3)), "groups"),
}


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "random forest"])
@pytest.mark.parametrize("case", OF_ALL)
def test_before_rows_are_read(case: str, kind: str) -> None:
    call, named = OF_ALL[case]
    error = RfsizeError if case == "one class" else ValueError
    assert_refused(error, lambda: call(model(kind).model, Unread()), named)


CALLS = (rfsize.size, rfsize.truncate, StopTable.calibrate)
OPTIONS = {"alpha": 1.5, "tolerance": -1.0, "metric": "aucc", "average": "mean", "confidence": 0.2}
OF_OPTIONS = [*product(CALLS, OPTIONS.items()), *product(CALLS[:2], [("target", "all")])]


@pytest.mark.parametrize(("call", "option"), OF_OPTIONS)
def test_before_the_model_is_read(call: Callable[..., Any], option: tuple[str, Any]) -> None:
    assert_refused(ValueError, lambda: call("no model", Unread(), **dict([option])), option[0])


OF_NUMBERS = [(short(NUMBER), "rmse"), (TEXT, "rmse"), (np.full(N_ROWS, np.nan), "mae"), (np.ones(N_ROWS), "r2")]


@pytest.mark.parametrize(("y", "metric"), OF_NUMBERS)
def test_truth_of_a_regression(y: np.ndarray, metric: str) -> None:
    with pytest.raises(ValueError, match=r"\by\b"):
        rfsize.size(model("lightgbm regression").model, Unread(), y, metric=metric, tolerance=0.1)
