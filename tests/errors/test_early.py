"""What does not fit is refused before a tree predicts a row: the rows of these calls cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score

import rfsize
from helpers.models import LIGHTGBM, N_ROWS, NUMBER, TWO, XGBOOST, X, model
from helpers.refused import AUC, assert_refused
from rfsize import StopTable
from rfsize.exceptions import NotAForestError, RfsizeError


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
    "fill": (lambda m, X: rfsize.oob_predict(m, X, fill="zz"), "fill"),
    "fill of probabilities": (lambda m, X: rfsize.oob_predict_proba(m, X, fill="zz"), "fill"),
    "rows to refit": (lambda m, X: rfsize.shrink(m, X, rows=np.ones((9, 3))), "3 columns"),
    "bags of other labels": (lambda m, X: rfsize.inbag(m, X, short()), "y "),
    "weights of bags": (lambda m, X: rfsize.inbag(m, X, sample_weight=np.ones(3)), "sample_weight"),
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


def test_probabilities_of_a_regression() -> None:
    with pytest.raises(NotAForestError, match="oob_predict"):
        rfsize.oob_predict_proba(model("lightgbm regression").model, Unread())


OF_NUMBERS = [(short(NUMBER), "rmse"), (TEXT, "rmse"), (np.full(N_ROWS, np.nan), "mae"), (np.ones(N_ROWS), "r2")]


@pytest.mark.parametrize(("y", "metric"), OF_NUMBERS)
def test_truth_of_a_regression(y: np.ndarray, metric: str) -> None:
    with pytest.raises(ValueError, match=r"\by\b"):
        rfsize.size(model("lightgbm regression").model, Unread(), y, metric=metric, tolerance=0.1)


TABLE, OTHER = (pd.DataFrame(X, columns=list(names)) for names in ("abcdef", "uvwxyz"))
TRAINED = {
    "lightgbm": lambda: (LIGHTGBM, lgb.Dataset(TABLE, TWO)),
    "xgboost": lambda: (XGBOOST, xgb.DMatrix(TABLE, TWO)),
    "unfitted": lambda: (RandomForestClassifier(), TABLE, TWO),
    "fitted": lambda: (RandomForestClassifier(3).fit(TABLE, TWO), TABLE, TWO),
}
VALIDATION = [((X[:, :3], TWO), "columns"), ((OTHER, TWO), "'u'"), ((X, short()), "y "), ((X, TEXT), "'a'")]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Receives an entry for each training."""
    trainings: list[Any] = []
    for kind, name in ((lgb.Booster, "update"), (xgb.Booster, "update"), (RandomForestClassifier, "fit")):
        original = getattr(kind, name)

        def training(*given: Any, original: Any = original, **options: Any) -> Any:
            trainings.append(given)
            return original(*given, **options)

        monkeypatch.setattr(kind, name, training)
    return trainings


@pytest.mark.parametrize(("validation", "named"), VALIDATION)
@pytest.mark.parametrize("kind", TRAINED)
def test_validation_before_training(kind: str, validation: Any, named: str, trained: list[Any]) -> None:
    """Parameters are read from the first tree that they train."""
    given = TRAINED[kind]()
    trained.clear()
    assert_refused(ValueError, lambda: rfsize.grow(*given, validation=validation), named)
    assert len(trained) == isinstance(given[0], dict)


def test_fractions_before_training(trained: list[Any]) -> None:
    call = partial(rfsize.select_bagging_fraction, RandomForestClassifier(), X, TWO, fractions=[0.5, 1.5])
    assert_refused(ValueError, call, "fractions")
    assert not trained
