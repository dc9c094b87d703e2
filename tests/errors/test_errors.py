"""Errors: which class a call raises, and which argument its message names. What a message advises works as written."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rfsize
import rfsize.dask
from helpers.models import FRESH, LIGHTGBM, N_ROWS, NUMBER, THREE, TWO, WEIGHT, WRAPPER, XGBOOST, X
from helpers.refused import (
    ALL,
    AUC,
    COUNTED,
    FOREST,
    GOSS,
    N_FRESH,
    POLARS,
    RMSE,
    SCORES,
    SHARES,
    TABLE,
    TRUTH,
    Case,
    assert_refused,
    calibrate,
    called,
    compiled,
    counted,
    crossed,
    fitted,
    fraction,
    grow,
    importance,
    inbag,
    lightgbm,
    loaded,
    mean_of,
    outputs,
    own,
    parameters,
    refused,
    right_sized,
    right_sized_number,
    score,
    shares,
    shrink,
    size,
    sized,
    with_column,
    with_object,
    xgboost,
)
from helpers.rows import Batches, Slices
from rfsize import RightSizedClassifier, SizeCallback
from rfsize.exceptions import FewVotesError, InbagError, NotAForestError, RfsizeError

BOOSTED = partial(lightgbm, boosting="gbdt")
OFTEN = np.repeat(np.arange(40), 12)


def of_folds() -> lgb.CVBooster:
    return lgb.cv(LIGHTGBM, lgb.Dataset(X, TWO), 3, nfold=2, return_cvbooster=True)["cvbooster"]


OF_MODELS: list[Case] = [
    (lambda: rfsize.oob_predict_proba(own("lightgbm regression"), X), "rfsize.oob_predict"),
    (lambda: size(BOOSTED(), target="limit"), "boosting="),
    (lambda: size(xgboost(rounds=3, num_parallel_tree=1), oob=True), "num_parallel_tree"),
    *(
        (lambda kind=kind: size(kind.fit(X, TWO), target="limit"), type(kind).__name__)
        for kind in (GradientBoostingClassifier(), HistGradientBoostingClassifier(max_iter=3), LogisticRegression())
    ),
    (lambda: size(AdaBoostClassifier(n_estimators=3).fit(X, TWO), oob=True), "rfsize.compile"),
    (lambda: shrink(trained=AdaBoostClassifier(n_estimators=3).fit(X, TWO)), "rfsize.truncate"),
    (lambda: size("model.txt"), "str"),
    (lambda: size(RandomForestClassifier), "RandomForestClassifier"),
    (lambda: size([own()] * 2), "compile"),
    (lambda: size(own("lightgbm regression"), metric="labels"), "metric="),
    (lambda: size(xgboost(subsample=1, colsample_bynode=1)), "subsample"),
    (lambda: size(fitted(y=np.stack([TWO, THREE], axis=1))), "sklearn.multioutput"),
    (lambda: size(fitted(y=np.zeros(N_ROWS))), "one class"),
    (lambda: size(outputs().votes, None, **SHARES), "metric="),
    (lambda: rfsize.compile(own("bagging of neighbours")), "rfsize.truncate"),
    (lambda: rfsize.compile(lightgbm(linear_tree=True)), "linear"),
    (lambda: rfsize.compile(lgb.LGBMClassifier(objective="quantile", **WRAPPER).fit(X, TWO)), "quantile"),
    (lambda: rfsize.compile(RightSizedClassifier(FOREST)), "fit"),
    (lambda: mean_of("model"), "str"),
    (lambda: compiled("lightgbm regression").predict_labels(FRESH), "labels"),
    (lambda: compiled("lightgbm regression").votes(FRESH), "votes"),
    (lambda: compiled("lightgbm regression").predict_proba(FRESH), "probabilities"),
    (lambda: rfsize.compile([own("lightgbm regression")] * 2).predict_labels(FRESH), "labels"),
    (lambda: rfsize.oob_importance(own("bagging of neighbours"), X, TWO), "permutation_importance"),
    (lambda: rfsize.grow(lgb.LGBMClassifier(n_estimators=5, verbose=-1), X, TWO), "boosting="),
    (lambda: rfsize.grow(xgb.XGBClassifier(), X, TWO), "num_parallel_tree="),
    (lambda: rfsize.tree_outputs(own(), X, TWO, cv=3), "cv trains"),
    (lambda: rfsize.select_bagging_fraction(GradientBoostingClassifier(), X, TWO), "GradientBoosting"),
    (lambda: calibrate(own("bagging of neighbours")), "voting='hard'"),
    *(
        (lambda kind=kind, cv=cv: right_sized(kind, cv=cv), "estimator")
        for kind in (LogisticRegression(), make_pipeline(StandardScaler(), FOREST), None, xgb.XGBClassifier)
        for cv in (None, 2)
    ),
    (lambda: right_sized(RandomForestRegressor()), "RightSizedRegressor"),
    (lambda: right_sized_number(FOREST), "RightSizedClassifier"),
    (lambda: right_sized_number(metric="labels", tolerance=None), "votes"),
    (lambda: rfsize.tree_outputs(own("random forest regressor"), FRESH).predict_proba(), "predict"),
    (lambda: rfsize.tree_outputs(lgb.Dataset(X), X), "lightgbm"),
    (lambda: rfsize.tree_outputs(xgb.DMatrix(X), X), "xgboost"),
    (lambda: rfsize.compile(counted()), "TreeOutputs"),
    (lambda: outputs(of_folds()), "cvbooster.boosters"),
    (lambda: rfsize.tree_outputs(lgb.Booster(LIGHTGBM, lgb.Dataset(X, TWO)), X), "no trees"),
    (lambda: rfsize.size(xgboost(booster="gblinear"), X), "gblinear"),
    (lambda: rfsize.size(xgboost(objective="binary:logitraw"), X, target="limit"), "binary:logistic"),
    (lambda: rfsize.size(xgb.XGBClassifier(n_estimators=1).fit(X, np.stack([TWO, 1 - TWO], axis=1)), X), "target"),
    (lambda: rfsize.tree_outputs(own("lightgbm regression"), X, oob=True).votes, "scores"),
    (lambda: rfsize.size(lightgbm(X[:, :3], bagging_freq=0, feature_fraction=0.9), FRESH[:, :3]), "bagging_freq="),
    (
        lambda: rfsize.size(RandomForestClassifier(6, bootstrap=False, max_depth=2).fit(X[:, :1], TWO), FRESH[:, :1]),
        "bootstrap=",
    ),
    (lambda: rfsize.tree_outputs(xgb.XGBClassifier(n_estimators=20), X, TWO, cv=3), "num_parallel_tree"),
    (lambda: called(params={"boosting": "gbdt"}), "boosting="),
    (lambda: called(y=NUMBER, params={"objective": "regression"}, alpha=0.9), "metric="),
    (lambda: size(COUNTED, None, **AUC), "metric="),
    (lambda: rfsize.size(COUNTED).loss_at(10, "probabilities"), "metric="),
    (lambda: shrink(trained=lightgbm(n_trees=1)), "1 tree"),
    (lambda: shrink(trained=own("bagging of neighbours")), "shrink"),
    (lambda: rfsize.grow(make_pipeline(RandomForestClassifier()), X, TWO), "pipeline"),
    (lambda: size(BOOSTED(), alpha=0.9).outputs.agreement(), "truncate"),
    (lambda: size(BOOSTED(), alpha=0.9).outputs.standard_error("seeds"), "truncate"),
    (lambda: size(COUNTED, None, alpha=0.9).outputs.standard_error("seeds"), "agreement"),
    (lambda: outputs(own("lightgbm regression")).agreement(), "scores"),
]

OF_BAGS: list[Case] = [
    (lambda: rfsize.grow(XGBOOST | {"objective": "rank:ndcg"}, xgb.DMatrix(X, TWO)), "rank:ndcg"),
    (lambda: outputs(rows=X[::-1], oob=True), "order"),
    (lambda: outputs(own("xgboost"), X[::-1], oob=True), "sample_weight="),
    (lambda: outputs(rows=X[:200], oob=True), "X has 200 rows"),
    (lambda: outputs(own("random forest"), X[:200], oob=True), "X has 200"),
    (lambda: size(lightgbm(bagging_fraction=1.0, bagging_freq=0), X, oob=True), "bagging_fraction="),
    (lambda: size(xgboost(tree_method="approx"), X, oob=True), "tree_method="),
    (lambda: size(xgboost(scale_pos_weight=2.0), X, oob=True), "give y"),
    (lambda: outputs(rows=X, oob=True, seed=1), "bagging_seed"),
    (lambda: inbag(lgb.train(GOSS, lgb.Dataset(X, TWO), 5)), "GOSS"),
    (lambda: inbag(lightgbm(bagging_fraction=0.99999)), "bag"),
    (lambda: inbag(lightgbm(min_data_in_leaf=N_ROWS)), "leaf"),
    (lambda: inbag(xgboost(tree_method="exact", colsample_bynode=1)), "tree_method="),
    (lambda: inbag(xgboost(sampling_method="gradient_based")), "gradient"),
    (lambda: called(params=GOSS), "GOSS"),
    (lambda: called(data=X[::-1]), "data"),
    (lambda: rfsize.grow(XGBOOST | {"tree_method": "approx"}, xgb.DMatrix(X, TWO)), "tree_method"),
    (lambda: rfsize.grow(LIGHTGBM | {"bagging_freq": 0}, lgb.Dataset(X, TWO)), "bagging_freq="),
    (lambda: grow(params={"bagging_fraction": 1.0}), "bag"),
    (lambda: rfsize.select_bagging_fraction(RandomForestClassifier(bootstrap=False), X, TWO), "bootstrap"),
]
OUT_OF_BAG = [partial(question, oob=True) for question in (rfsize.size, rfsize.truncate, rfsize.tree_outputs)]
OUT_OF_BAG += [rfsize.oob_score, rfsize.oob_predict, rfsize.oob_predict_proba, rfsize.oob_importance, rfsize.inbag]
for ask in OUT_OF_BAG:
    OF_BAGS += [
        (lambda ask=ask: ask(loaded(), X, TWO), "subsample="),
        (lambda ask=ask: ask(xgboost(weight=WEIGHT), X, TWO), "sample_weight="),
        (lambda ask=ask: ask(lightgbm(X[::-1]), X, TWO), "order"),
        (lambda ask=ask: ask(fitted(ExtraTreesClassifier(20, max_depth=3)), X, TWO), "bootstrap="),
    ]

OF_VOTES: list[Case] = [
    (lambda: rfsize.oob_score(xgboost(num_parallel_tree=12), X, TWO), "trees"),
    (lambda: rfsize.oob_predict(fitted(n_estimators=2, random_state=0), X), "fill="),
    (
        lambda: size(RandomForestClassifier(15).fit(X[OFTEN], TWO[OFTEN]), X[OFTEN], oob=True, groups="copies"),
        "groups='rows'",
    ),
    (lambda: rfsize.size(rfsize.Votes([[0, 0]])), "vote"),
    (lambda: size(lightgbm(n_trees=1), voting="soft"), "1 tree"),
    (lambda: size(own(), X, TWO, oob=True, **AUC), "trees"),
]

OF_ROWS: list[Case] = [
    (lambda: rfsize.size(own()), "X is missing"),
    (lambda: size(own(), X[:0]), "X has no rows"),
    (lambda: compiled().predict(X[0]), "X.reshape(1, -1)"),
    (lambda: size(own(), X[:, :3]), "X has 3 columns"),
    (lambda: size(own(), X[:, :0]), "X has no columns"),
    (lambda: size(lightgbm(TABLE), TABLE.rename(columns={"d": "g"})), "['d']"),
    (lambda: size(lightgbm(TABLE), TABLE.set_axis(list("aacdef"), axis=1)), "['a']"),
    (lambda: size(lightgbm(TABLE), TABLE.iloc[0]), "X.iloc[[0]]"),
    (lambda: size(own(), np.ma.masked_array(X, X > 1)), "X.filled(np.nan)"),
    (lambda: size(own(), lgb.Dataset(X)), "X is a lightgbm"),
    (lambda: size(own(), xgb.DMatrix(X)), "DMatrix"),
    (lambda: size(own("xgboost"), xgb.QuantileDMatrix(X, TWO)), "X"),
    *((lambda of=of: size(own("xgboost"), np.where(FRESH > 1, of, FRESH)), "X") for of in (np.inf, -np.inf, 1e39)),
    (lambda: size(own("xgboost"), xgb.DMatrix(X, base_margin=np.ones(N_ROWS))), "base_margin"),
    (lambda: outputs(missing=0.0), "missing="),
    (lambda: rfsize.truncate(own(), FRESH, 0.95), "alpha=0.95"),
    (lambda: rfsize.size(own(), FRESH, "auc"), "metric='auc'"),
    (lambda: size(own("lightgbm regression"), y=np.where(FRESH[:, 0] > 0, "a", "b")), "y must"),
]

OF_QUESTIONS: list[Case] = [
    *refused(lambda **given: size(own(), **given), alpha=[99, "0.9"], method=["kernel"], max_rows=[0], tolerance=[0.1]),
    *refused(lambda **given: size(own(), **given), confidence=[0.9]),
    *refused(lambda **given: size(own(), **{**SCORES, **given}), alpha=[0.9], voting=["soft"], tolerance=[0.0, np.inf]),
    *refused(lambda **given: size(own(), **SCORES, **given), average=["macro"]),
    *refused(lambda **given: rfsize.size(outputs(), **given), max_rows=[300], groups=["rows"]),
    *refused(lambda **given: sized().upper(**given), confidence=[1.0, 9e-07]),
    *refused(lambda **given: sized().loss_at(**given), n_trees=[0]),
    *refused(lambda **given: rfsize.truncate(own(), **given), n_trees=[99, 2.5], max_bytes=[0]),
    *refused(lambda **given: outputs(own("xgboost"), **given), seed=[3], subsample=[0.5], missing=["x"]),
    *refused(lambda **given: inbag(own("xgboost weights"), **given), sample_weight=[np.ones(3), -np.ones(N_ROWS)]),
    *refused(
        right_sized, max_trees=[0], min_trees=[0.5], cv=[1], voting=["averaged"], threshold=[1.0], alpha=[1.0, 0.0]
    ),
    *((lambda weight=weight: right_sized(weight=weight), "sample_weight") for weight in (0 * WEIGHT, -WEIGHT, [1.0])),
    *refused(right_sized_number, tolerance=[0.0], metric=["probabilities"], confidence=[0.4]),
    *refused(grow, min_trees=[2.5], confidence=[0.49]),
    *refused(fraction, fractions=[[], [0.5, 1.0]], n_trees=[1], rule=["1se"], seed=[-1]),
    *refused(SizeCallback, confidence=[0.3], min_trees=[2.5]),
    *refused(lambda **given: size(BOOSTED(), alpha=0.95, **given), voting=["hard"], method=["smooth"], max_rows=[100]),
    (lambda: size(BOOSTED(), **AUC), "metric"),
    (lambda: sized().size_at(1.0), "alpha"),
    *refused(lambda **given: size(own(), **ALL, **given), method=["smooth"], max_rows=[50], confidence=[0.3]),
    *refused(partial(crossed, cv=3), threshold=[1.0], oob=[True], missing=[0.0]),
    *refused(shrink, n_trees=[31, 150]),
    (lambda: SizeCallback(threshold=0.3, **RMSE), "threshold"),
    (lambda: rfsize.oob_score(own(), X, TWO, metric=["auc", "accuracy"]), "metric must"),
    (lambda: size(own(), metric="brier"), "tolerance="),
    (lambda: size(own("lightgbm multiclass"), y=TWO[:N_FRESH], **AUC), "'auc'"),
    *(
        (lambda kind=kind: outputs(own(kind), threshold=0.3), "threshold")
        for kind in ("lightgbm multiclass", "lightgbm regression", "xgboost multi_output")
    ),
    (lambda: size(own(), groups=np.arange(N_FRESH)), "oob=True"),
    (lambda: rfsize.truncate(own(), FRESH, confidence=0.9), "confidence"),
    (lambda: rfsize.truncate(own(), n_trees=5, target="model", confidence=0.9), "target and confidence"),
    (lambda: rfsize.truncate(own(), n_trees=5, confidence=0.9), "confidence would have no effect"),
    (lambda: size(outputs()), "X would"),
    (lambda: rfsize.oob_score(outputs(y=TWO[:N_FRESH])), "oob=True"),
    (lambda: rfsize.oob_score(outputs(rows=X, y=TWO, oob=True), X), "X"),
    (lambda: rfsize.oob_score(outputs(rows=X, y=TWO, oob=True), groups="rows"), "groups"),
    (lambda: rfsize.truncate(outputs().votes), "truncate"),
    (lambda: rfsize.shrink(own(), X, TWO), "X are"),
    (lambda: rfsize.grow(lgb.LGBMClassifier(**WRAPPER), X), "y is missing"),
    (lambda: rfsize.grow(xgb.XGBRFClassifier(), X, TWO, sample_weight=np.ones(3)), "sample_weight"),
    (lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(X, TWO), TWO), "Dataset"),
    (lambda: rfsize.grow(LIGHTGBM | {"objective": "l2"}, lgb.Dataset(X, NUMBER), threshold=0.3, **RMSE), "threshold"),
    (lambda: rfsize.tree_outputs(FOREST, X, TWO, cv=3, seed=1, subsample=0.5), "seed and subsample"),
    (lambda: rfsize.select_bagging_fraction(FOREST, X), "y is missing"),
    (lambda: rfsize.oob_importance(own(), X, TWO, columns=["x9"]), "columns"),
    (lambda: right_sized(cv=[([0, 1, 2], [2, 3])]), "hold out"),
    (lambda: right_sized(threshold=0.3, y=THREE), "threshold"),
    (lambda: right_sized(alpha=0.9, **AUC), "alpha"),
    (lambda: right_sized(voting="hard", average="macro", alpha=None, **AUC), "average and voting"),
    (lambda: right_sized(y=np.zeros(N_ROWS)), "one class"),
    (lambda: right_sized(y=NUMBER), "continuous"),
    (lambda: right_sized(y=np.stack([TWO, THREE], axis=1)), "each column"),
    (lambda: right_sized(y=np.array(["a", None], dtype=object)[TWO]), "NoneType"),
    (lambda: right_sized_number(metric="rmse", tolerance=None), "tolerance"),
    (lambda: rfsize.grow(RandomForestClassifier(), None, [0, 1]), "X is missing"),
    (lambda: rfsize.tree_outputs(BaggingClassifier(Ridge(), 5).fit(X, TWO), FRESH), "classes"),
    (lambda: inbag(own("random forest"), seed=3), "seed"),
    (lambda: inbag(own("xgboost"), seed=3, subsample=1.5), "subsample must"),
    (lambda: inbag(own("lightgbm pos/neg"), y=TWO[:-1]), "y"),
    (lambda: rfsize.truncate(own(), n_trees=3, groups="rows"), "groups"),
    (lambda: counted(groups=np.zeros((N_ROWS, 1))), "(500, 1)"),
    (lambda: counted(groups=[*range(N_ROWS - 1), None]), "row 499"),
    (lambda: counted(groups=[np.nan, np.nan, *range(N_ROWS - 2)]), "row 0"),
    (lambda: counted(groups=[[1], [1, 2]] * (N_ROWS // 2)), "groups"),
    (lambda: counted(groups="copy"), "'copies'"),
    (lambda: rfsize.tree_outputs(own("XGBClassifier"), FRESH, missing=2.0), "missing="),
    (lambda: rfsize.tree_outputs(own("xgboost"), xgb.DMatrix(FRESH), missing=0.0), "missing"),
    (lambda: rfsize.oob_predict(own("random forest regressor"), X, fill="none"), "fill"),
    (lambda: rfsize.oob_predict(RandomForestClassifier(3).fit(X, TWO.astype(np.uint64) << 63), X, fill=-1), "fill="),
    (lambda: rfsize.oob_predict(own("random forest of names"), X, fill=-1), "fill"),
    (lambda: pickle.loads(pickle.dumps(counted())).by_tree(), "pickled"),
    (lambda: counted().with_truth(None, sample_weight=np.ones(N_ROWS)), "sample_weight"),
    (lambda: crossed(cv=N_ROWS + 1), "n_splits"),
    (lambda: crossed(cv=[]), "folds"),
    (lambda: crossed(cv=[(np.arange(10), np.arange(9, 20))]), "hold out"),
    (lambda: crossed(cv=[(np.arange(10), np.array([20, 20]))]), "once"),
    (lambda: crossed(cv=[(np.arange(10), np.zeros(N_ROWS, dtype=bool))]), "row numbers"),
    (lambda: rfsize.tree_outputs(RandomForestClassifier(5), [Slices(X)], TWO, cv=3), "X"),
    (lambda: rfsize.tree_outputs(RandomForestRegressor(5), X, NUMBER, cv=3, threshold=0.3), "threshold="),
    *((lambda c=c: rfsize.Votes(c), "counts") for c in ([[1], [2]], [[0.3, 0.7]], [[2**40, 2]], [["a", "b"]])),
    *refused(partial(rfsize.Votes, [[1, 2]]), classes=[["a"]], n_trees=[2]),
    (lambda: rfsize.size(rfsize.Votes(counted().votes.counts)), "n_trees="),
    (lambda: SizeCallback(data=X, validation="valid_0"), "validation="),
    (lambda: SizeCallback(data="rows.csv"), "data must"),
    (lambda: SizeCallback(groups="copy"), "'copies'"),
    *((lambda n=n: compiled(n_jobs=n), "n_jobs") for n in (0, "2")),
    (lambda: called(validation="mine"), "'mine'"),
    (lambda: called(y=THREE, params={"objective": "multiclass", "num_class": 3}, threshold=0.3), "threshold"),
    (lambda: called(data=X[:-1]), "data"),
    (lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, THREE)), "label"),
    (lambda: rfsize.grow(XGBOOST, xgb.DMatrix(X, TWO, base_margin=np.zeros(N_ROWS))), "base_margin"),
    (lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(X, TWO, init_score=np.zeros(N_ROWS))), "init_score"),
    (lambda: rfsize.grow(own(), lgb.Dataset(X, TWO).construct()), "free_raw_data=False"),
    (lambda: rfsize.grow(LIGHTGBM | {"objective": "nonsense"}, lgb.Dataset(X, TWO)), "nonsense"),
    (lambda: rfsize.grow(LIGHTGBM | {"objective": "cross_entropy"}, lgb.Dataset(X, TWO * 0.3)), "labels"),
    (lambda: called(y=TWO * 0.3, params={"objective": "cross_entropy"}, **AUC), "labels"),
    (lambda: rfsize.grow(own("random forest of names"), X, np.zeros(N_ROWS, dtype=int)), "y holds"),
    (lambda: rfsize.size(COUNTED, y=[1]), "y "),
    (lambda: size(own(), X, oob=True, max_rows=100), "max_rows"),
    (lambda: size(own(), y=TRUTH, **AUC, alpha=0.9), "alpha"),
    (lambda: size(own("lightgbm regression"), **SHARES), "metric="),
    (lambda: size(own(), y=TRUTH, metric="acurracy", tolerance=0.1), "'accuracy'"),
    (lambda: size(own(), **SCORES).size_at(0.0), "tolerance"),
    (lambda: sized().loss_at(10, "aucc"), "'auc'"),
    (lambda: sized().loss_at(10, "auc"), "y is missing"),
    (lambda: pickle.loads(pickle.dumps(sized())).loss_at(7, "auc"), "report"),
    (lambda: size(own(), X, **ALL), "rows"),
    (lambda: size(own(), X, oob=True, **ALL), "out of bag"),
    (lambda: rfsize.size(rfsize.Votes([[3, 97]] * 400), **ALL), "model"),
    (lambda: rfsize.size(crossed(cv=2), **ALL), "fold"),
    (lambda: size(own(), y=TRUTH, metric="auc", **ALL), "auc"),
    (lambda: size(own(), alpha=0.97, average="macro", **ALL), "average="),
    (lambda: size(own(), voting="hard", **SCORES, **ALL), "voting"),
    (lambda: rfsize.truncate(lightgbm(n_trees=20), n_trees=sized()), "report"),
    (lambda: rfsize.truncate(own(), n_trees=shrink(n_trees=9)[1]), "report"),
    (lambda: rfsize.truncate(own(), n_trees=3, max_bytes=9), "max_bytes"),
    (lambda: rfsize.truncate(own(), max_bytes=9999, alpha=0.9), "alpha"),
    (lambda: rfsize.shrink(own(), FRESH, rows=FRESH[:99]), "rows="),
    (lambda: shrink(FRESH[:1]), "X has 1 row"),
    (lambda: shrink(), "rows"),
    (lambda: shrink(n_trees=5, alpha=0.9), "alpha"),
    (lambda: rfsize.shrink(lightgbm(boosting="gbdt"), FRESH[:1], rows=X, n_trees=2), "1 row"),
    (lambda: score(lambda y, p: np.nan), "metric"),
    (lambda: rfsize.oob_score(counted(sample_weight=WEIGHT), metric=shares), "sample_weight"),
    (lambda: rfsize.compare(own(), counted()), "tree_outputs"),
    (lambda: rfsize.compare(counted(), outputs(y=TRUTH)), "source"),
    (lambda: rfsize.compare(counted(), counted().with_truth(1 - TWO)), "y "),
    (lambda: rfsize.compare(counted(), counted().with_truth(TWO, WEIGHT)), "sample_weight"),
    (lambda: rfsize.compare(counted(), counted(), metric=shares), "better"),
    (lambda: importance(metric="auc").size(top=6), "top"),
    (lambda: importance(metric="auc", columns=["Column_0"]).size(), "column"),
    (lambda: importance(columns={"a": [0, 1], "b": [1]}), "columns"),
    (lambda: grow(NUMBER, {"objective": "regression"}, **SHARES), "metric="),
    (lambda: grow(**AUC, validation=FRESH), "y is missing"),
    (lambda: grow(groups="rows", validation=FRESH), "groups"),
    (lambda: fraction(metric=shares), "make_scorer"),
    (lambda: outputs().agreement(0), "n_trees"),
    (lambda: outputs().standard_error("trees"), "of"),
    (lambda: outputs().standard_error("rows"), "bags"),
    (lambda: outputs().standard_error("seeds", bags=inbag(own())), "bags"),
    (lambda: counted().standard_error("rows", bags=inbag(own())), "bags"),
    (lambda: pickle.loads(pickle.dumps(counted())).standard_error("rows"), "model"),
    *(
        (lambda change=change: outputs().standard_error("rows", bags=change(inbag(own()))), "bags")
        for change in (np.transpose, lambda bags: bags[:20], lambda bags: bags * 0.5, lambda bags: bags[[0] * 31], str)
    ),
    (lambda: outputs().standard_error("rows", bags=outputs()), "bags"),
    (lambda: outputs(own("xgboost softprob")).standard_error("rows", bags=np.eye(31, N_ROWS) > 0), "bags"),
]

NO_ROWS: list[tuple[Any, str]] = [
    *((with_object(value), "objects") for value in (10**400, "high", 1j, pd.Timestamp("2020-01-01"))),
    (np.full((3, 6), "a"), "<U1"),
    (np.zeros((3, 6), dtype="M8[s]"), "datetime64"),
    (sp.csr_matrix(np.zeros((3, 6), dtype=complex)), "complex128"),
    *((with_column(value), "'c'") for value in (pd.Timestamp("2020-01-01", tz="UTC"), pd.Period("2020-01"), "?")),
    (with_column([0, 10**400, 0]), "'c'"),
    *((pa.Table.from_pandas(with_column(value)), "'c'") for value in (pd.Timestamp("2020-01-01"), None)),
    (POLARS.with_columns(polars.lit(None).alias("c")), "'c'"),
    (POLARS.lazy(), "collect()"),
    ([X, X[:0]], "X"),
    ([Slices(X), Slices(X[:0])], "empty"),
    ([Slices(X), Slices(X[:, :5])], "5 columns"),
    (Batches([]), "batch"),
    *((rows, "X") for rows in ([[1.0, 2.0], [1.0]], [[1.0] * 6, 2.0], [["a"] * 6], [[[1.0] * 6]], [], [[]])),
    (__file__, "Parquet"),
]
OF_KINDS_OF_ROWS: list[Case] = [
    (lambda rows=rows, call=call: call(rows), names)
    for rows, names in NO_ROWS
    for call in (lambda rows: outputs(rows=rows), lambda rows: compiled().predict(rows))
]

CASES: list[tuple[type[Exception], list[Case]]] = [
    (NotAForestError, OF_MODELS),
    (InbagError, OF_BAGS),
    (FewVotesError, OF_VOTES),
    (ValueError, OF_ROWS),
    (ValueError, OF_KINDS_OF_ROWS),
    (FileNotFoundError, [(lambda: outputs(rows="none"), "none"), (lambda: compiled().predict("none"), "none")]),
    (ValueError, OF_QUESTIONS),
    (
        NotFittedError,
        [(lambda kind=kind: size(kind), "fit") for kind in (FOREST, lgb.LGBMClassifier(), xgb.XGBRFClassifier())],
    ),
    (RfsizeError, [(lambda: rfsize.oob_score(counted(sample_weight=np.zeros(N_ROWS))), "weight")]),
]


@pytest.mark.parametrize(("error", "call", "names"), parameters(CASES))
@pytest.mark.filterwarnings("ignore")
def test_error(
    error: type[Exception], call: Callable[[], Any], names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(error, call, names)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_outputs_are_taken_in_place_of_model_and_rows(is_weighted: bool) -> None:
    """As messages advise where a booster does not store what its bags go by."""
    trained = xgboost(weight=WEIGHT) if is_weighted else loaded()
    options: dict[str, Any] = {"sample_weight": WEIGHT} if is_weighted else {"seed": 3, "subsample": 0.632}
    known = rfsize.tree_outputs(trained, X, TWO, oob=True, **options)
    assert rfsize.size(known, alpha=0.9).source == "oob"
    assert rfsize.truncate(known, alpha=0.9).num_boosted_rounds() == 1
    assert rfsize.oob_score(known).available == rfsize.oob_importance(known).available == known.n_trees
    assert known.predict_proba(fill=0.5).shape == (N_ROWS, 2)
    assert rfsize.inbag(trained, X, TWO, **options).shape == (known.n_trees, N_ROWS)
