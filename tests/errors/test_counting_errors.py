"""Errors about models, rows, bags, votes and callbacks: which class a call raises, and what its message names."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge

import rfsize
import rfsize.dask
from helpers.models import FRESH, LIGHTGBM, N_ROWS, NUMBER, THREE, TWO, XGBOOST, X, model
from helpers.rows import Batches, Slices
from rfsize.exceptions import FewVotesError, InbagError, NotAForestError

Case = tuple[Callable[[], Any], str]  # and what the message names
ONE_ROUND = XGBOOST | {"num_parallel_tree": 5}
GOSS = LIGHTGBM | {"data_sample_strategy": "goss", "bagging_freq": 0, "bagging_fraction": 1.0}


def lightgbm(X: Any = X, y: Any = TWO, n_trees: int = 5, **params: Any) -> lgb.Booster:
    return lgb.train(LIGHTGBM | params, lgb.Dataset(X, y), n_trees)


def xgboost(X: Any = X, y: Any = TWO, rounds: int = 1, **params: Any) -> xgb.Booster:
    return xgb.train(ONE_ROUND | params, xgb.DMatrix(X, y), rounds)


def inbag(trained: Any, **options: Any) -> Any:
    return rfsize.inbag(trained, X, **options)


def of(kind: str) -> Any:
    return model(kind).model


def called(y: Any = TWO, params: Any = None, **options: Any) -> Any:
    """LightGBM's training with a callback of these options."""
    return lgb.train(LIGHTGBM | (params or {}), lgb.Dataset(X, y), 110, callbacks=[rfsize.SizeCallback(**options)])


def crossed(**options: Any) -> Any:
    return rfsize.tree_outputs(RandomForestClassifier(5), X, options.pop("y", TWO), **options)


def grouped(groups: Any) -> Any:
    return rfsize.tree_outputs(of("lightgbm"), X, oob=True, groups=groups)


def counted() -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(of("lightgbm"), X, oob=True)


class Constant(ClassifierMixin, BaseEstimator):
    """A learner without probabilities that gives every row an answer that is no class."""

    def fit(self, X: Any, y: Any) -> Constant:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), 99)


NO_FORESTS: list[Case] = [
    (lambda: rfsize.tree_outputs(of("random forest regressor"), FRESH).predict_proba(), "predict"),
    (lambda: rfsize.tree_outputs(lgb.Dataset(X), X), "lightgbm"),
    (lambda: rfsize.tree_outputs(xgb.DMatrix(X), X), "xgboost"),
    (lambda: rfsize.compile(counted()), "TreeOutputs"),
    (
        lambda: rfsize.tree_outputs(
            lgb.cv(LIGHTGBM, lgb.Dataset(X, TWO), 3, nfold=2, return_cvbooster=True)["cvbooster"], X
        ),
        "cvbooster.boosters",
    ),
    (lambda: rfsize.tree_outputs(lgb.Booster(LIGHTGBM, lgb.Dataset(X, TWO)), X), "no trees"),
    (lambda: rfsize.size(lightgbm(boosting="dart"), X), "boosting="),
    (lambda: rfsize.size(xgboost(booster="gblinear"), X), "gblinear"),
    (lambda: rfsize.size(xgboost(objective="binary:logitraw"), X), "binary:logistic"),
    (lambda: rfsize.size(xgb.XGBClassifier(n_estimators=1).fit(X, np.stack([TWO, 1 - TWO], axis=1)), X), "target"),
    (lambda: rfsize.tree_outputs(of("lightgbm regression"), X, oob=True).votes, "scores"),
    (lambda: rfsize.size(lightgbm(X[:, :3], bagging_freq=0, feature_fraction=0.9), FRESH[:, :3]), "bagging_freq="),
    (
        lambda: rfsize.size(RandomForestClassifier(6, bootstrap=False, max_depth=2).fit(X[:, :1], TWO), FRESH[:, :1]),
        "bootstrap=",
    ),
    (lambda: rfsize.tree_outputs(xgb.XGBClassifier(n_estimators=20), X, TWO, cv=3), "num_parallel_tree"),
    (lambda: called(params={"boosting": "gbdt"}), "boosting="),
    (lambda: called(y=NUMBER, params={"objective": "regression"}, alpha=0.9), "metric="),
]
OTHERS: list[Case] = [
    (lambda: rfsize.grow(RandomForestClassifier(), None, [0, 1]), "X is missing"),
    (lambda: rfsize.tree_outputs(BaggingClassifier(Ridge(), 5).fit(X, TWO), FRESH), "classes"),
    (lambda: rfsize.tree_outputs(BaggingClassifier(Constant(), 5).fit(X, TWO), FRESH), "99"),
    (
        lambda: rfsize.compile(RandomForestClassifier(15).fit(X, TWO), rfsize.StopTable.lossless(np.arange(1.0, 16.0))),
        "count",
    ),
    (lambda: inbag(of("random forest"), seed=3), "seed"),
    (lambda: inbag(of("xgboost"), seed=3, subsample=1.5), "subsample must"),
    (lambda: inbag(of("lightgbm pos/neg"), y=TWO[:-1]), "y"),
    (lambda: inbag(of("xgboost weights"), sample_weight=np.ones(3)), "sample_weight"),
    (lambda: inbag(of("xgboost weights"), sample_weight=-np.ones(N_ROWS)), "sample_weight"),
    (lambda: rfsize.tree_outputs(of("xgboost"), FRESH, seed=3), "seed"),
    (lambda: rfsize.tree_outputs(of("xgboost"), FRESH, subsample=0.5), "subsample"),
    (lambda: rfsize.truncate(of("lightgbm"), n_trees=3, groups="rows"), "groups"),
    (lambda: grouped(np.zeros((N_ROWS, 1))), "(500, 1)"),
    (lambda: grouped([*range(N_ROWS - 1), None]), "row 499"),
    (lambda: grouped([np.nan, np.nan, *range(N_ROWS - 2)]), "row 0"),
    (lambda: grouped(np.ma.array(range(N_ROWS), mask=[True] + [False] * 499)), "row 0"),
    (lambda: grouped([[1], [1, 2]] * (N_ROWS // 2)), "groups"),
    (lambda: grouped("copy"), "'copies'"),
    (lambda: rfsize.tree_outputs(of("xgboost multi_output"), FRESH, threshold=0.4), "threshold="),
    (lambda: rfsize.tree_outputs(of("XGBClassifier"), FRESH, missing=2.0), "missing="),
    (lambda: rfsize.tree_outputs(of("xgboost"), FRESH, missing="none"), "missing"),
    (lambda: rfsize.tree_outputs(of("xgboost"), xgb.DMatrix(FRESH), missing=0.0), "missing"),
    (lambda: rfsize.oob_predict(of("random forest regressor"), X, fill="none"), "fill"),
    (lambda: rfsize.oob_predict(RandomForestClassifier(3).fit(X, TWO.astype(np.uint64) << 63), X, fill=-1), "fill="),
    (lambda: rfsize.oob_predict(of("random forest of names"), X, fill=-1), "fill"),
    (lambda: pickle.loads(pickle.dumps(counted())).by_tree(), "pickled"),
    (lambda: counted().with_truth(None, sample_weight=np.ones(N_ROWS)), "sample_weight"),
    (lambda: crossed(cv=N_ROWS + 1), "n_splits"),
    (lambda: crossed(cv=[]), "folds"),
    (lambda: crossed(cv=[(np.arange(10), np.arange(9, 20))]), "hold out"),
    (lambda: crossed(cv=[(np.arange(10), np.array([20, 20]))]), "once"),
    (lambda: crossed(cv=[(np.arange(10), np.zeros(N_ROWS, dtype=bool))]), "row numbers"),
    (lambda: crossed(cv=3, threshold=1.0), "threshold"),
    (lambda: crossed(cv=3, y=np.zeros(N_ROWS)), "class"),
    (lambda: rfsize.tree_outputs(RandomForestClassifier(5), [Slices(X)], TWO, cv=3), "X"),
    (lambda: rfsize.tree_outputs(RandomForestRegressor(5), X, NUMBER, cv=3, threshold=0.3), "threshold="),
    (lambda: rfsize.Votes([[1], [2]]), "counts"),
    (lambda: rfsize.Votes([[2**40, 2]]), "counts"),
    (lambda: rfsize.Votes([["a", "b"]]), "counts"),
    (lambda: rfsize.Votes([[1, 2]], classes=["a"]), "classes"),
    (lambda: rfsize.Votes([[1, 2]], n_trees=2), "n_trees"),
    (lambda: rfsize.Votes([[1, 2]]).merge(rfsize.Votes([[1, 2]] * 2)), "concat"),
    (lambda: rfsize.Votes([[1, 2]]).concat(rfsize.Votes([[1, 1]])), "merge"),
    (lambda: rfsize.Votes([[1, 2]]).merge(rfsize.Votes([[1, 2]], classes=[1, 2])), "class"),
    (lambda: rfsize.Votes([[1, 2, 3]]).histogram(), "two classes"),
    (lambda: rfsize.size(rfsize.Votes(counted().votes.counts)), "n_trees="),
    (lambda: rfsize.SizeCallback(min_trees=2.5), "min_trees"),
    (lambda: rfsize.SizeCallback(data=X, validation="valid_0"), "validation="),
    (lambda: rfsize.SizeCallback(data="rows.csv"), "data must"),
    (lambda: called(validation="mine"), "'mine'"),
    (lambda: called(y=THREE, params={"objective": "multiclass", "num_class": 3}, threshold=0.3), "threshold"),
    (lambda: called(data=X[:-1]), "data"),
    (lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, THREE)), "label"),
    (lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, TWO, base_margin=np.zeros(N_ROWS))), "base_margin"),
    (lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(X, TWO, init_score=np.zeros(N_ROWS))), "init_score"),
    (lambda: rfsize.grow(of("lightgbm"), lgb.Dataset(X, TWO).construct()), "free_raw_data=False"),
    (lambda: rfsize.grow(of("random forest of names"), X, np.zeros(N_ROWS, dtype=int)), "y holds"),
]
NO_BAGS: list[Case] = [
    (lambda: inbag(lgb.train(GOSS, lgb.Dataset(X, TWO), 5)), "GOSS"),
    (lambda: inbag(lightgbm(bagging_fraction=0.99999)), "bag"),
    (lambda: inbag(lightgbm(min_data_in_leaf=N_ROWS)), "leaf"),
    (lambda: inbag(xgboost(tree_method="exact", colsample_bynode=1)), "tree_method="),
    (lambda: inbag(xgboost(sampling_method="gradient_based")), "gradient"),
    (lambda: called(params=GOSS), "GOSS"),
    (lambda: called(data=X[::-1]), "data"),
    (lambda: rfsize.grow(XGBOOST | {"tree_method": "approx"}, xgb.DMatrix(X, TWO)), "tree_method"),
    (lambda: rfsize.grow(XGBOOST | {"objective": "rank:ndcg"}, xgb.DMatrix(X, TWO)), "rank:ndcg"),
    (lambda: rfsize.grow(LIGHTGBM | {"bagging_freq": 0}, lgb.Dataset(X, TWO)), "bagging_freq="),
]
FEW_VOTES: list[Case] = [
    (
        lambda: rfsize.size(
            RandomForestClassifier(15).fit(np.repeat(X[:40], 12, axis=0), np.repeat(TWO[:40], 12)),
            np.repeat(X[:40], 12, axis=0),
            oob=True,
            groups="copies",
        ),
        "groups='rows'",
    ),
]

CASES = [
    (error, call, names)
    for error, cases in (
        (NotAForestError, NO_FORESTS), (InbagError, NO_BAGS), (FewVotesError, FEW_VOTES), (ValueError, OTHERS)
    )
    for call, names in cases
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("error", "call", "names"), CASES, ids=range(len(CASES)))
def test_error(error: type[Exception], call: Callable[[], Any], names: str) -> None:
    with pytest.raises(error, match=re.escape(names)) as raised:
        call()
    assert type(raised.value) is error


def with_object(value: Any) -> np.ndarray:
    rows = np.zeros((3, 6), dtype=object)
    rows[1, 2] = value
    return rows


def with_column(column: Any) -> pd.DataFrame:
    return pd.DataFrame(np.zeros((3, 6)), columns=list("abcdef")).assign(c=column)


POLARS = polars.DataFrame(np.zeros((3, 6)), schema=list("abcdef"))
ROWS: list[tuple[Any, str]] = [
    (with_object(10**400), "column 2"),
    (with_object("1.5"), "column 2"),
    (with_object(1j), "column 2"),
    (with_object(pd.Timestamp("2020-01-01")), "column 2"),
    (with_object(np.timedelta64(1, "s")), "column 2"),
    (np.full((3, 6), "a"), "<U1"),
    (np.zeros((3, 6), dtype="M8[s]"), "datetime64"),
    (sp.csr_matrix(np.zeros((3, 6), dtype=complex)), "complex128"),
    (with_column(pd.Timestamp("2020-01-01", tz="UTC")), "'c'"),
    (with_column(pd.Period("2020-01")), "'c'"),
    (with_column([0, 10**400, 0]), "'c'"),
    (with_column("?"), "'c'"),
    (pa.Table.from_pandas(with_column(pd.Timestamp("2020-01-01"))), "'c'"),
    (pa.Table.from_pandas(with_column(None)), "'c'"),
    (POLARS.with_columns(polars.lit(None).alias("c")), "'c'"),
    (POLARS.lazy(), "collect()"),
    ([X, X[:0]], "X"),
    ([Slices(X), Slices(X[:0])], "empty"),
    ([Slices(X), Slices(X[:, :5])], "5 columns"),
    (Batches([]), "batch"),
    ("nowhere", "nowhere"),
    (__file__, "Parquet"),
]


@pytest.mark.parametrize(("rows", "names"), ROWS, ids=range(len(ROWS)))
@pytest.mark.parametrize("call", [rfsize.tree_outputs, lambda trained, rows: rfsize.compile(trained).predict(rows)])
def test_rows(rows: Any, names: str, call: Callable[[Any, Any], Any]) -> None:
    with pytest.raises((ValueError, OSError), match=re.escape(names)):
        call(of("lightgbm"), rows)
