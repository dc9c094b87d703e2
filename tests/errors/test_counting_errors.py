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

Case = tuple[Callable[[], Any], type[Exception], str]
ONE_ROUND = XGBOOST | {"num_parallel_tree": 5}
GOSS = LIGHTGBM | {"data_sample_strategy": "goss", "bagging_freq": 0, "bagging_fraction": 1.0}


def lightgbm(X: Any = X, y: Any = TWO, n_trees: int = 5, **params: Any) -> lgb.Booster:
    return lgb.train(LIGHTGBM | params, lgb.Dataset(X, y), n_trees)


def xgboost(X: Any = X, y: Any = TWO, rounds: int = 1, **params: Any) -> xgb.Booster:
    return xgb.train(ONE_ROUND | params, xgb.DMatrix(X, y), rounds)


def inbag(trained: Any, **options: Any) -> Any:
    return rfsize.inbag(trained, X, **options)


def called(y: Any = TWO, params: Any = None, **options: Any) -> Any:
    """LightGBM's training with a callback of these options."""
    return lgb.train(LIGHTGBM | (params or {}), lgb.Dataset(X, y), 110, callbacks=[rfsize.SizeCallback(**options)])


def crossed(**options: Any) -> Any:
    return rfsize.tree_outputs(RandomForestClassifier(5), X, options.pop("y", TWO), **options)


def grouped(groups: Any) -> Any:
    return rfsize.tree_outputs(model("lightgbm").model, X, oob=True, groups=groups)


def counted() -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(model("lightgbm").model, X, oob=True)


class Constant(ClassifierMixin, BaseEstimator):
    """A learner without probabilities that gives every row an answer that is no class."""

    def fit(self, X: Any, y: Any) -> Constant:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), 99)


MODELS: dict[str, Case] = {
    "data": (lambda: rfsize.tree_outputs(lgb.Dataset(X), X), NotAForestError, "lightgbm"),
    "matrix": (lambda: rfsize.tree_outputs(xgb.DMatrix(X), X), NotAForestError, "xgboost"),
    "outputs": (lambda: rfsize.compile(counted()), NotAForestError, "TreeOutputs"),
    "folds": (
        lambda: rfsize.tree_outputs(
            lgb.cv(LIGHTGBM, lgb.Dataset(X, TWO), 3, nfold=2, return_cvbooster=True)["cvbooster"], X
        ),
        NotAForestError,
        "cvbooster.boosters",
    ),
    "no trees, LightGBM": (
        lambda: rfsize.tree_outputs(lgb.Booster(LIGHTGBM, lgb.Dataset(X, TWO)), X),
        NotAForestError,
        "no trees",
    ),
    "no trees, XGBoost": (lambda: rfsize.tree_outputs(xgboost(rounds=0), X), NotAForestError, "no trees"),
    "dart": (lambda: rfsize.size(lightgbm(boosting="dart"), X), NotAForestError, "boosting="),
    "linear learner": (lambda: rfsize.size(xgboost(booster="gblinear"), X), NotAForestError, "gblinear"),
    "several targets": (
        lambda: rfsize.size(xgb.XGBClassifier(n_estimators=1).fit(X, np.stack([TWO, 1 - TWO], axis=1)), X),
        NotAForestError,
        "target",
    ),
    "votes of numbers": (
        lambda: rfsize.tree_outputs(model("lightgbm regression").model, X, oob=True).votes,
        NotAForestError,
        "scores",
    ),
    "identical trees, LightGBM": (
        lambda: rfsize.size(lightgbm(X[:, :3], bagging_freq=0, feature_fraction=0.9), FRESH[:, :3]),
        NotAForestError,
        "bagging_freq=",
    ),
    "identical trees, scikit-learn": (
        lambda: rfsize.size(RandomForestClassifier(6, bootstrap=False, max_depth=2).fit(X[:, :1], TWO), FRESH[:, :1]),
        NotAForestError,
        "bootstrap=",
    ),
    "classes of regressors": (
        lambda: rfsize.tree_outputs(BaggingClassifier(Ridge(), 5).fit(X, TWO), FRESH),
        ValueError,
        "classes",
    ),
    "answers that are no class": (
        lambda: rfsize.tree_outputs(BaggingClassifier(Constant(), 5).fit(X, TWO), FRESH),
        ValueError,
        "99",
    ),
    "weights of members": (
        lambda: rfsize.compile(RandomForestClassifier(15).fit(X, TWO), rfsize.StopTable.lossless(np.arange(1.0, 16.0))),
        ValueError,
        "count",
    ),
}

BAGS: dict[str, Case] = {
    "goss": (lambda: inbag(lgb.train(GOSS, lgb.Dataset(X, TWO), 5)), InbagError, "goss"),
    "all rows in each bag": (lambda: inbag(lightgbm(bagging_fraction=0.99999)), InbagError, "bag"),
    "trees of one leaf": (lambda: inbag(lightgbm(min_data_in_leaf=N_ROWS)), InbagError, "leaf"),
    "exact": (lambda: inbag(xgboost(tree_method="exact", colsample_bynode=1)), InbagError, "tree_method="),
    "gradients": (lambda: inbag(xgboost(sampling_method="gradient_based")), InbagError, "gradient"),
    "no sampling": (lambda: inbag(xgboost(subsample=1.0)), InbagError, "subsample"),
    "seed of scikit-learn": (lambda: inbag(model("random forest").model, seed=3), ValueError, "seed"),
    "share": (lambda: inbag(model("xgboost").model, seed=3, subsample=1.5), ValueError, "subsample must"),
    "labels, other number": (lambda: inbag(model("lightgbm pos/neg").model, y=TWO[:-1]), ValueError, "y"),
    "weights, other number": (
        lambda: inbag(model("xgboost weights").model, sample_weight=np.ones(3)),
        ValueError,
        "sample_weight",
    ),
    "weights, negative": (
        lambda: inbag(model("xgboost weights").model, sample_weight=-np.ones(N_ROWS)),
        ValueError,
        "sample_weight",
    ),
    "seed of fresh rows": (lambda: rfsize.tree_outputs(model("xgboost").model, FRESH, seed=3), ValueError, "seed"),
    "share of fresh rows": (
        lambda: rfsize.tree_outputs(model("xgboost").model, FRESH, subsample=0.5),
        ValueError,
        "subsample",
    ),
    "groups of votes": (lambda: rfsize.size(counted().votes, groups="rows"), ValueError, "groups"),
    "groups of a number": (
        lambda: rfsize.truncate(model("lightgbm").model, n_trees=3, groups="rows"),
        ValueError,
        "groups",
    ),
    "groups, two dimensions": (lambda: grouped(np.zeros((N_ROWS, 1))), ValueError, "(500, 1)"),
    "groups, none for a row": (lambda: grouped([*range(N_ROWS - 1), None]), ValueError, "row 499"),
    "groups, NaN": (lambda: grouped([np.nan, np.nan, *range(N_ROWS - 2)]), ValueError, "row 0"),
    "groups, masked": (lambda: grouped(np.ma.array(range(N_ROWS), mask=[True] + [False] * 499)), ValueError, "masked"),
    "groups of lists": (lambda: grouped([[1], [1, 2]] * (N_ROWS // 2)), ValueError, "groups"),
    "groups, misspelt": (lambda: grouped("copy"), ValueError, "'copies'"),
    "every row seen": (
        lambda: rfsize.size(RandomForestClassifier(15).fit(np.repeat(X[:40], 12, axis=0), np.repeat(TWO[:40], 12)),
                            np.repeat(X[:40], 12, axis=0), oob=True, groups="copies"),
        FewVotesError,
        "groups='rows'",
    ),
}  # fmt: skip

OPTIONS: dict[str, Case] = {
    "threshold of three": (
        lambda: rfsize.tree_outputs(model("xgboost multi_output").model, FRESH, threshold=0.4),
        ValueError,
        "threshold=",
    ),
    "threshold beyond": (
        lambda: rfsize.tree_outputs(model("lightgbm").model, FRESH, threshold=2.0),
        ValueError,
        "threshold",
    ),
    "missing of a classifier": (
        lambda: rfsize.tree_outputs(model("XGBClassifier").model, FRESH, missing=2.0),
        ValueError,
        "missing=",
    ),
    "missing that is no number": (
        lambda: rfsize.tree_outputs(model("xgboost").model, FRESH, missing="none"),
        ValueError,
        "missing",
    ),
    "missing of a matrix": (
        lambda: rfsize.tree_outputs(model("xgboost").model, xgb.DMatrix(FRESH), missing=0.0),
        ValueError,
        "missing",
    ),
    "fill, a word for a number": (
        lambda: rfsize.oob_predict(model("random forest regressor").model, X, fill="none"),
        ValueError,
        "fill",
    ),
    "fill, a word for a label": (
        lambda: rfsize.oob_predict(model("random forest").model, X, fill="none"),
        ValueError,
        "fill",
    ),
    "fill, a number for a word": (
        lambda: rfsize.oob_predict(model("random forest of names").model, X, fill=-1),
        ValueError,
        "fill",
    ),
    "trees of pickled outputs": (lambda: pickle.loads(pickle.dumps(counted())).by_tree(), ValueError, "model"),
    "probabilities of numbers": (
        lambda: rfsize.tree_outputs(model("random forest regressor").model, FRESH).predict_proba(),
        ValueError,
        "predict",
    ),
    "weights without truth": (
        lambda: counted().with_truth(None, sample_weight=np.ones(N_ROWS)),
        ValueError,
        "sample_weight",
    ),
    "outputs and oob": (lambda: rfsize.size(counted(), oob=True), ValueError, "oob"),
    "cv of one": (lambda: crossed(cv=1), ValueError, "cv"),
    "cv of more than the rows": (lambda: crossed(cv=N_ROWS + 1), ValueError, "n_splits"),
    "cv without folds": (lambda: crossed(cv=[]), ValueError, "folds"),
    "folds that share rows": (lambda: crossed(cv=[(np.arange(10), np.arange(9, 20))]), ValueError, "hold out"),
    "rows held out twice": (lambda: crossed(cv=[(np.arange(10), np.array([20, 20]))]), ValueError, "once"),
    "folds of a mask": (lambda: crossed(cv=[(np.arange(10), np.zeros(N_ROWS, dtype=bool))]), ValueError, "indices"),
    "threshold of folds": (lambda: crossed(cv=3, threshold=1.0), ValueError, "threshold"),
    "folds of one class": (lambda: crossed(cv=3, y=np.zeros(N_ROWS)), ValueError, "class"),
    "folds without y": (lambda: rfsize.tree_outputs(RandomForestClassifier(5), X, cv=3), ValueError, "y"),
    "folds of a Sequence": (
        lambda: rfsize.tree_outputs(RandomForestClassifier(5), [Slices(X)], TWO, cv=3),
        ValueError,
        "X",
    ),
    "folds of rounds": (
        lambda: rfsize.tree_outputs(xgb.XGBClassifier(n_estimators=20), X, TWO, cv=3),
        NotAForestError,
        "num_parallel_tree",
    ),
    "folds of numbers at a threshold": (
        lambda: rfsize.tree_outputs(RandomForestRegressor(5), X, NUMBER, cv=3, threshold=0.3),
        ValueError,
        "threshold=",
    ),
    "votes of one dimension": (lambda: rfsize.Votes([1, 2]), ValueError, "counts"),
    "votes for one class": (lambda: rfsize.Votes([[1], [2]]), ValueError, "counts"),
    "votes, too many": (lambda: rfsize.Votes([[2**40, 2]]), ValueError, "counts"),
    "votes, words": (lambda: rfsize.Votes([["a", "b"]]), ValueError, "counts"),
    "votes, classes": (lambda: rfsize.Votes([[1, 2]], classes=["a"]), ValueError, "classes"),
    "votes, few trees": (lambda: rfsize.Votes([[1, 2]], n_trees=2), ValueError, "n_trees"),
    "votes, merged rows": (lambda: rfsize.Votes([[1, 2]]).merge(rfsize.Votes([[1, 2]] * 2)), ValueError, "concat"),
    "votes, more trees": (lambda: rfsize.Votes([[1, 2]]).concat(rfsize.Votes([[1, 1]])), ValueError, "merge"),
    "votes, other classes": (
        lambda: rfsize.Votes([[1, 2]]).merge(rfsize.Votes([[1, 2]], classes=[1, 2])),
        ValueError,
        "class",
    ),
    "votes, three in a histogram": (lambda: rfsize.Votes([[1, 2, 3]]).histogram(), ValueError, "two classes"),
    "votes of unknown trees": (lambda: rfsize.size(rfsize.Votes(counted().votes.counts)), ValueError, "n_trees="),
}

TRAININGS: dict[str, Case] = {
    "alpha": (lambda: rfsize.SizeCallback(alpha=1.0), ValueError, "alpha"),
    "threshold": (lambda: rfsize.SizeCallback(threshold=0.0), ValueError, "threshold"),
    "min_trees": (lambda: rfsize.SizeCallback(min_trees=2.5), ValueError, "min_trees"),
    "voting": (lambda: rfsize.SizeCallback(voting="averaged"), ValueError, "voting"),
    "metric": (lambda: rfsize.SizeCallback(metric="near", tolerance=0.1), ValueError, "metric"),
    "no tolerance": (lambda: rfsize.SizeCallback(metric="scores"), ValueError, "tolerance"),
    "data and validation": (lambda: rfsize.SizeCallback(data=X, validation="valid_0"), ValueError, "validation="),
    "data of a file": (lambda: rfsize.SizeCallback(data="rows.csv"), ValueError, "data must"),
    "validation set": (lambda: called(validation="mine"), ValueError, "'mine'"),
    "boosted": (lambda: called(params={"boosting": "gbdt"}), NotAForestError, "boosting="),
    "votes of numbers": (
        lambda: called(y=NUMBER, params={"objective": "regression"}, alpha=0.9),
        NotAForestError,
        "metric=",
    ),
    "GOSS": (lambda: called(params=GOSS), InbagError, "goss"),
    "threshold of three": (
        lambda: called(y=THREE, params={"objective": "multiclass", "num_class": 3}, threshold=0.3),
        ValueError,
        "threshold",
    ),
    "fewer rows": (lambda: called(data=X[:-1]), ValueError, "data"),
    "order of rows": (lambda: called(data=X[::-1]), InbagError, "data"),
    "rounds": (lambda: rfsize.grow(xgb.XGBClassifier(), None, [0, 1]), NotAForestError, "num_parallel_tree"),
    "objective of params": (
        lambda: rfsize.grow(XGBOOST | {"objective": "rank:ndcg"}, xgb.DMatrix(X, TWO)),
        NotAForestError,
        "rank:ndcg",
    ),
    "one bag for all": (
        lambda: rfsize.grow(XGBOOST | {"tree_method": "approx"}, xgb.DMatrix(X, TWO)),
        InbagError,
        "tree_method",
    ),
    "bagging of params": (
        lambda: rfsize.grow(LIGHTGBM | {"bagging_freq": 0}, lgb.Dataset(X, TWO)),
        InbagError,
        "bagging_freq=",
    ),
    "labels beyond the classes": (lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, THREE)), ValueError, "label"),
    "a base margin": (
        lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, TWO, base_margin=np.zeros(N_ROWS))),
        ValueError,
        "base_margin",
    ),
    "initial scores": (
        lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(X, TWO, init_score=np.zeros(N_ROWS))),
        ValueError,
        "init_score",
    ),
    "rows that are gone": (
        lambda: rfsize.grow(model("lightgbm").model, lgb.Dataset(X, TWO).construct()),
        ValueError,
        "free_raw_data=False",
    ),
    "more trees of other classes": (
        lambda: rfsize.grow(model("random forest of names").model, X, np.zeros(N_ROWS, dtype=int)),
        ValueError,
        "y holds",
    ),
}

CASES = MODELS | {f"bags: {name}": case for name, case in BAGS.items()}
CASES |= {f"option: {name}": case for name, case in OPTIONS.items()}
CASES |= {f"training: {name}": case for name, case in TRAININGS.items()}


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
    trained = model("lightgbm").model
    with pytest.raises((ValueError, OSError), match=re.escape(names)):
        call(trained, rows)
