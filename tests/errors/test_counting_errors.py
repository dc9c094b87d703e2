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


NO_FORESTS: dict[str, Case] = {
    "data": (lambda: rfsize.tree_outputs(lgb.Dataset(X), X), "lightgbm"),
    "matrix": (lambda: rfsize.tree_outputs(xgb.DMatrix(X), X), "xgboost"),
    "outputs": (lambda: rfsize.compile(counted()), "TreeOutputs"),
    "folds": (
        lambda: rfsize.tree_outputs(
            lgb.cv(LIGHTGBM, lgb.Dataset(X, TWO), 3, nfold=2, return_cvbooster=True)["cvbooster"], X
        ),
        "cvbooster.boosters",
    ),
    "no trees, LightGBM": (lambda: rfsize.tree_outputs(lgb.Booster(LIGHTGBM, lgb.Dataset(X, TWO)), X), "no trees"),
    "no trees, XGBoost": (lambda: rfsize.tree_outputs(xgboost(rounds=0), X), "no trees"),
    "dart": (lambda: rfsize.size(lightgbm(boosting="dart"), X), "boosting="),
    "linear learner": (lambda: rfsize.size(xgboost(booster="gblinear"), X), "gblinear"),
    "objective": (lambda: rfsize.size(xgboost(objective="binary:logitraw"), X), "binary:logistic"),
    "several targets": (
        lambda: rfsize.size(xgb.XGBClassifier(n_estimators=1).fit(X, np.stack([TWO, 1 - TWO], axis=1)), X),
        "target",
    ),
    "votes of numbers": (lambda: rfsize.tree_outputs(of("lightgbm regression"), X, oob=True).votes, "scores"),
    "identical trees, LightGBM": (
        lambda: rfsize.size(lightgbm(X[:, :3], bagging_freq=0, feature_fraction=0.9), FRESH[:, :3]),
        "bagging_freq=",
    ),
    "identical trees, scikit-learn": (
        lambda: rfsize.size(RandomForestClassifier(6, bootstrap=False, max_depth=2).fit(X[:, :1], TWO), FRESH[:, :1]),
        "bootstrap=",
    ),
    "folds of rounds": (
        lambda: rfsize.tree_outputs(xgb.XGBClassifier(n_estimators=20), X, TWO, cv=3),
        "num_parallel_tree",
    ),
    "training: boosted": (lambda: called(params={"boosting": "gbdt"}), "boosting="),
    "training: votes of numbers": (lambda: called(y=NUMBER, params={"objective": "regression"}, alpha=0.9), "metric="),
    "training: rounds": (lambda: rfsize.grow(xgb.XGBClassifier(), None, [0, 1]), "num_parallel_tree"),
    "training: objective of params": (
        lambda: rfsize.grow(XGBOOST | {"objective": "rank:ndcg"}, xgb.DMatrix(X, TWO)),
        "rank:ndcg",
    ),
}
OTHERS: dict[str, Case] = {
    "classes of regressors": (lambda: rfsize.tree_outputs(BaggingClassifier(Ridge(), 5).fit(X, TWO), FRESH), "classes"),
    "answers that are no class": (
        lambda: rfsize.tree_outputs(BaggingClassifier(Constant(), 5).fit(X, TWO), FRESH),
        "99",
    ),
    "weights of members": (
        lambda: rfsize.compile(RandomForestClassifier(15).fit(X, TWO), rfsize.StopTable.lossless(np.arange(1.0, 16.0))),
        "count",
    ),
    "bags: seed of scikit-learn": (lambda: inbag(of("random forest"), seed=3), "seed"),
    "bags: share": (lambda: inbag(of("xgboost"), seed=3, subsample=1.5), "subsample must"),
    "bags: labels, other number": (lambda: inbag(of("lightgbm pos/neg"), y=TWO[:-1]), "y"),
    "bags: weights, other number": (lambda: inbag(of("xgboost weights"), sample_weight=np.ones(3)), "sample_weight"),
    "bags: weights, negative": (lambda: inbag(of("xgboost weights"), sample_weight=-np.ones(N_ROWS)), "sample_weight"),
    "bags: seed of fresh rows": (lambda: rfsize.tree_outputs(of("xgboost"), FRESH, seed=3), "seed"),
    "bags: share of fresh rows": (lambda: rfsize.tree_outputs(of("xgboost"), FRESH, subsample=0.5), "subsample"),
    "bags: groups of votes": (lambda: rfsize.size(counted().votes, groups="rows"), "groups"),
    "bags: groups of a number": (lambda: rfsize.truncate(of("lightgbm"), n_trees=3, groups="rows"), "groups"),
    "bags: groups, two dimensions": (lambda: grouped(np.zeros((N_ROWS, 1))), "(500, 1)"),
    "bags: groups, none for a row": (lambda: grouped([*range(N_ROWS - 1), None]), "row 499"),
    "bags: groups, NaN": (lambda: grouped([np.nan, np.nan, *range(N_ROWS - 2)]), "row 0"),
    "bags: groups, masked": (lambda: grouped(np.ma.array(range(N_ROWS), mask=[True] + [False] * 499)), "row 0"),
    "bags: groups of lists": (lambda: grouped([[1], [1, 2]] * (N_ROWS // 2)), "groups"),
    "bags: groups, misspelt": (lambda: grouped("copy"), "'copies'"),
    "threshold of three": (lambda: rfsize.tree_outputs(of("xgboost multi_output"), FRESH, threshold=0.4), "threshold="),
    "threshold beyond": (lambda: rfsize.tree_outputs(of("lightgbm"), FRESH, threshold=2.0), "threshold"),
    "missing of a classifier": (lambda: rfsize.tree_outputs(of("XGBClassifier"), FRESH, missing=2.0), "missing="),
    "missing that is no number": (lambda: rfsize.tree_outputs(of("xgboost"), FRESH, missing="none"), "missing"),
    "missing of a matrix": (lambda: rfsize.tree_outputs(of("xgboost"), xgb.DMatrix(FRESH), missing=0.0), "missing"),
    "fill, a word for a number": (lambda: rfsize.oob_predict(of("random forest regressor"), X, fill="none"), "fill"),
    "fill, a word for a label": (lambda: rfsize.oob_predict(of("random forest"), X, fill="none"), "fill"),
    "fill, beyond all integers": (
        lambda: rfsize.oob_predict(RandomForestClassifier(3).fit(X, TWO.astype(np.uint64) << 63), X, fill=-1),
        "fill=",
    ),
    "fill, a number for a word": (lambda: rfsize.oob_predict(of("random forest of names"), X, fill=-1), "fill"),
    "trees of pickled outputs": (lambda: pickle.loads(pickle.dumps(counted())).by_tree(), "pickled"),
    "probabilities of numbers": (
        lambda: rfsize.tree_outputs(of("random forest regressor"), FRESH).predict_proba(),
        "predict",
    ),
    "weights without truth": (lambda: counted().with_truth(None, sample_weight=np.ones(N_ROWS)), "sample_weight"),
    "outputs and oob": (lambda: rfsize.size(counted(), oob=True), "oob"),
    "cv of one": (lambda: crossed(cv=1), "cv"),
    "cv of more than the rows": (lambda: crossed(cv=N_ROWS + 1), "n_splits"),
    "cv without folds": (lambda: crossed(cv=[]), "folds"),
    "folds that share rows": (lambda: crossed(cv=[(np.arange(10), np.arange(9, 20))]), "hold out"),
    "rows held out twice": (lambda: crossed(cv=[(np.arange(10), np.array([20, 20]))]), "once"),
    "folds of a mask": (lambda: crossed(cv=[(np.arange(10), np.zeros(N_ROWS, dtype=bool))]), "row numbers"),
    "threshold of folds": (lambda: crossed(cv=3, threshold=1.0), "threshold"),
    "folds of one class": (lambda: crossed(cv=3, y=np.zeros(N_ROWS)), "class"),
    "folds without y": (lambda: rfsize.tree_outputs(RandomForestClassifier(5), X, cv=3), "y"),
    "folds of a Sequence": (lambda: rfsize.tree_outputs(RandomForestClassifier(5), [Slices(X)], TWO, cv=3), "X"),
    "folds of numbers at a threshold": (
        lambda: rfsize.tree_outputs(RandomForestRegressor(5), X, NUMBER, cv=3, threshold=0.3),
        "threshold=",
    ),
    "votes of one dimension": (lambda: rfsize.Votes([1, 2]), "counts"),
    "votes for one class": (lambda: rfsize.Votes([[1], [2]]), "counts"),
    "votes, too many": (lambda: rfsize.Votes([[2**40, 2]]), "counts"),
    "votes, words": (lambda: rfsize.Votes([["a", "b"]]), "counts"),
    "votes, classes": (lambda: rfsize.Votes([[1, 2]], classes=["a"]), "classes"),
    "votes, few trees": (lambda: rfsize.Votes([[1, 2]], n_trees=2), "n_trees"),
    "votes, merged rows": (lambda: rfsize.Votes([[1, 2]]).merge(rfsize.Votes([[1, 2]] * 2)), "concat"),
    "votes, more trees": (lambda: rfsize.Votes([[1, 2]]).concat(rfsize.Votes([[1, 1]])), "merge"),
    "votes, other classes": (lambda: rfsize.Votes([[1, 2]]).merge(rfsize.Votes([[1, 2]], classes=[1, 2])), "class"),
    "votes, three in a histogram": (lambda: rfsize.Votes([[1, 2, 3]]).histogram(), "two classes"),
    "votes of unknown trees": (lambda: rfsize.size(rfsize.Votes(counted().votes.counts)), "n_trees="),
    "training: alpha": (lambda: rfsize.SizeCallback(alpha=1.0), "alpha"),
    "training: threshold": (lambda: rfsize.SizeCallback(threshold=0.0), "threshold"),
    "training: min_trees": (lambda: rfsize.SizeCallback(min_trees=2.5), "min_trees"),
    "training: voting": (lambda: rfsize.SizeCallback(voting="averaged"), "voting"),
    "training: metric": (lambda: rfsize.SizeCallback(metric="near", tolerance=0.1), "metric"),
    "training: no tolerance": (lambda: rfsize.SizeCallback(metric="scores"), "tolerance"),
    "training: data and validation": (lambda: rfsize.SizeCallback(data=X, validation="valid_0"), "validation="),
    "training: data of a file": (lambda: rfsize.SizeCallback(data="rows.csv"), "data must"),
    "training: validation set": (lambda: called(validation="mine"), "'mine'"),
    "training: threshold of three": (
        lambda: called(y=THREE, params={"objective": "multiclass", "num_class": 3}, threshold=0.3),
        "threshold",
    ),
    "training: fewer rows": (lambda: called(data=X[:-1]), "data"),
    "training: labels beyond the classes": (lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, THREE)), "label"),
    "training: a base margin": (
        lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, TWO, base_margin=np.zeros(N_ROWS))),
        "base_margin",
    ),
    "training: initial scores": (
        lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(X, TWO, init_score=np.zeros(N_ROWS))),
        "init_score",
    ),
    "training: rows that are gone": (
        lambda: rfsize.grow(of("lightgbm"), lgb.Dataset(X, TWO).construct()),
        "free_raw_data=False",
    ),
    "training: more trees of other classes": (
        lambda: rfsize.grow(of("random forest of names"), X, np.zeros(N_ROWS, dtype=int)),
        "y holds",
    ),
}
NO_BAGS: dict[str, Case] = {
    "bags: goss": (lambda: inbag(lgb.train(GOSS, lgb.Dataset(X, TWO), 5)), "GOSS"),
    "bags: all rows in each bag": (lambda: inbag(lightgbm(bagging_fraction=0.99999)), "bag"),
    "bags: trees of one leaf": (lambda: inbag(lightgbm(min_data_in_leaf=N_ROWS)), "leaf"),
    "bags: exact": (lambda: inbag(xgboost(tree_method="exact", colsample_bynode=1)), "tree_method="),
    "bags: gradients": (lambda: inbag(xgboost(sampling_method="gradient_based")), "gradient"),
    "bags: no sampling": (lambda: inbag(xgboost(subsample=1.0)), "subsample"),
    "training: GOSS": (lambda: called(params=GOSS), "GOSS"),
    "training: order of rows": (lambda: called(data=X[::-1]), "data"),
    "training: one bag for all": (
        lambda: rfsize.grow(XGBOOST | {"tree_method": "approx"}, xgb.DMatrix(X, TWO)),
        "tree_method",
    ),
    "training: bagging of params": (
        lambda: rfsize.grow(LIGHTGBM | {"bagging_freq": 0}, lgb.Dataset(X, TWO)),
        "bagging_freq=",
    ),
}
FEW_VOTES: dict[str, Case] = {
    "bags: every row seen": (
        lambda: rfsize.size(
            RandomForestClassifier(15).fit(np.repeat(X[:40], 12, axis=0), np.repeat(TWO[:40], 12)),
            np.repeat(X[:40], 12, axis=0),
            oob=True,
            groups="copies",
        ),
        "groups='rows'",
    ),
}

CASES = {
    name: (call, error, names)
    for error, cases in (
        (NotAForestError, NO_FORESTS), (InbagError, NO_BAGS), (FewVotesError, FEW_VOTES), (ValueError, OTHERS)
    )
    for name, (call, names) in cases.items()
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    call, error, names = CASES[name]
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
ROWS: dict[str, tuple[Any, str]] = {
    "huge": (with_object(10**400), "column 2"),
    "word": (with_object("1.5"), "column 2"),
    "complex objects": (with_object(1j), "column 2"),
    "a time": (with_object(pd.Timestamp("2020-01-01")), "column 2"),
    "a duration": (with_object(np.timedelta64(1, "s")), "column 2"),
    "words": (np.full((3, 6), "a"), "<U1"),
    "times": (np.zeros((3, 6), dtype="M8[s]"), "datetime64"),
    "sparse complex": (sp.csr_matrix(np.zeros((3, 6), dtype=complex)), "complex128"),
    "a column of times": (with_column(pd.Timestamp("2020-01-01", tz="UTC")), "'c'"),
    "a column of periods": (with_column(pd.Period("2020-01")), "'c'"),
    "a column of huge": (with_column([0, 10**400, 0]), "'c'"),
    "a column of words": (with_column("?"), "'c'"),
    "Arrow times": (pa.Table.from_pandas(with_column(pd.Timestamp("2020-01-01"))), "'c'"),
    "Arrow nulls": (pa.Table.from_pandas(with_column(None)), "'c'"),
    "Polars nulls": (POLARS.with_columns(polars.lit(None).alias("c")), "'c'"),
    "Polars, lazy": (POLARS.lazy(), "collect()"),
    "an empty batch": ([X, X[:0]], "X"),
    "an empty Sequence": ([Slices(X), Slices(X[:0])], "empty"),
    "batches of other widths": ([Slices(X), Slices(X[:, :5])], "5 columns"),
    "a DataIter of nothing": (Batches([]), "batch"),
    "a path to nothing": ("nowhere", "nowhere"),
    "a path to something else": (__file__, "Parquet"),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("call", [rfsize.tree_outputs, lambda trained, rows: rfsize.compile(trained).predict(rows)])
def test_rows(name: str, call: Callable[[Any, Any], Any]) -> None:
    rows, names = ROWS[name]
    trained = of("lightgbm")
    with pytest.raises((ValueError, OSError), match=re.escape(names)):
        call(trained, rows)
