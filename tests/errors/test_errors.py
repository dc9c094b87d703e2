"""Errors: which class a call raises, and which argument its message names. What a message advises works as written."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rfsize
from helpers.advised import advised_calls, keywords_of, without_calls
from helpers.models import FRESH, LIGHTGBM, N_ROWS, NUMBER, ONE_ROUND, THREE, TWO, WEIGHT, WRAPPER, XGBOOST, X, model
from rfsize import RightSizedClassifier, RightSizedRegressor, SizeCallback, StopTable, theory
from rfsize.exceptions import FewVotesError, FileError, InbagError, NotAForestError

N_FRESH = len(FRESH)
FOREST = RandomForestClassifier(n_estimators=20, max_depth=3)  # never fitted itself
AUC: dict[str, Any] = {"metric": "auc", "tolerance": 0.01}
RMSE: dict[str, Any] = {"metric": "rmse", "tolerance": 10.0}
SHARES: dict[str, Any] = {"metric": "probabilities", "tolerance": 0.1}
SCORES: dict[str, Any] = {"metric": "scores", "tolerance": 0.3}
TABLE = pd.DataFrame(X, columns=list("abcdef"))


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


def in_unit(unit: float) -> Any:
    return fitted(RandomForestRegressor(5), NUMBER * unit)


def written(content: bytes) -> Path:
    Path("file").write_bytes(content)
    return Path("file")


def cut_off() -> Path:
    compiled().save("forest.npz")
    return written(Path("forest.npz").read_bytes()[:-100])


Case = tuple[Callable[[], Any], str]  # the argument, or the value of one, that the message must name

OF_MODELS: list[Case] = [
    (lambda: rfsize.oob_predict_proba(own("lightgbm regression"), X), "rfsize.oob_predict"),
    (lambda: size(lightgbm(boosting="gbdt")), "boosting="),
    (lambda: size(xgboost(rounds=3, num_parallel_tree=1)), "num_parallel_tree"),
    (lambda: size(GradientBoostingClassifier(n_estimators=3).fit(X, TWO)), "GradientBoosting"),
    (lambda: size(HistGradientBoostingClassifier(max_iter=3).fit(X, TWO)), "HistGradientBoosting"),
    (lambda: size(AdaBoostClassifier(n_estimators=3).fit(X, TWO)), "rfsize.compile"),
    (lambda: size(LogisticRegression().fit(X, TWO)), "LogisticRegression"),
    (lambda: size(make_pipeline(StandardScaler(), clone(FOREST)).fit(X, TWO)), "pipeline[-1]"),
    (lambda: size("model.txt"), "str"),
    (lambda: size(None), "model"),
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
    (lambda: right_sized(AdaBoostClassifier()), "AdaBoost"),
    (lambda: right_sized(RandomForestRegressor()), "RightSizedRegressor"),
    (lambda: right_sized_number(FOREST), "RightSizedClassifier"),
    (lambda: right_sized_number(metric="labels", tolerance=None), "votes"),
]

OF_BAGS: list[Case] = [
    (lambda: outputs(rows=X[::-1], oob=True), "order"),
    (lambda: outputs(own("xgboost"), X[::-1], oob=True), "sample_weight="),
    (lambda: outputs(rows=X[:200], oob=True), "X has 200 rows"),
    (lambda: outputs(own("random forest"), X[:200], oob=True), "X has 200"),
    (lambda: size(lightgbm(bagging_fraction=1.0, bagging_freq=0), X, oob=True), "bagging_fraction="),
    (lambda: size(xgboost(tree_method="approx"), X, oob=True), "tree_method="),
    (lambda: size(xgboost(scale_pos_weight=2.0), X, oob=True), "give y"),
    (lambda: outputs(rows=X, oob=True, seed=1), "bagging_seed"),
]
ASKERS: dict[str, Callable[[Any], Any]] = {
    "size": lambda trained: rfsize.size(trained, X, TWO, oob=True),
    "truncate": lambda trained: rfsize.truncate(trained, X, TWO, oob=True),
    "oob_score": lambda trained: rfsize.oob_score(trained, X, TWO),
    "oob_predict": lambda trained: rfsize.oob_predict(trained, X, TWO),
    "oob_predict_proba": lambda trained: rfsize.oob_predict_proba(trained, X, TWO),
    "oob_importance": lambda trained: rfsize.oob_importance(trained, X, TWO),
    "tree_outputs": lambda trained: rfsize.tree_outputs(trained, X, TWO, oob=True),
    "inbag": lambda trained: rfsize.inbag(trained, X, TWO),
}
for ask in ASKERS.values():
    OF_BAGS += [
        (lambda ask=ask: ask(loaded()), "subsample="),
        (lambda ask=ask: ask(xgboost(weight=WEIGHT)), "sample_weight="),
        (lambda ask=ask: ask(lightgbm(X[::-1])), "order"),
        (lambda ask=ask: ask(fitted(ExtraTreesClassifier(20, max_depth=3))), "bootstrap="),
    ]

OF_VOTES: list[Case] = [
    (lambda: rfsize.oob_score(xgboost(num_parallel_tree=12), X, TWO), "trees"),
    (lambda: rfsize.oob_predict(fitted(n_estimators=2, random_state=0), X), "fill="),
]

OF_ROWS: list[Case] = [
    (lambda: rfsize.size(own()), "X is missing"),
    (lambda: size(own(), X[:0]), "X has no rows"),
    (lambda: compiled().predict(X[0]), "X.reshape(1, -1)"),
    (lambda: compiled().predict(X[None]), "X"),
    (lambda: compiled().predict(X[:0]), "X has no rows"),
    (lambda: compiled("lightgbm regression").predict(X[:2, :3]), "columns"),
    (lambda: size(own(), X[:, :3]), "X has 3 columns"),
    (lambda: size(own(), X[:, :0]), "X has no columns"),
    (lambda: size(lightgbm(TABLE), TABLE.rename(columns={"d": "g"})), "missing ['d']"),
    (lambda: size(lightgbm(TABLE), TABLE.set_axis(list("aacdef"), axis=1)), "['a']"),
    (lambda: size(lightgbm(TABLE), TABLE.iloc[0]), "X.iloc[[0]]"),
    (lambda: size(own(), X.astype(str)), "X"),
    (lambda: size(own(), sp.csr_matrix(X.astype(complex))), "X"),
    (lambda: size(own(), np.ma.masked_array(X, X > 1)), "X.filled(np.nan)"),
    (lambda: size(own(), [X, X[:, :2]]), "columns"),
    (lambda: size(own(), lgb.Dataset(X)), "X is a lightgbm"),
    (lambda: size(own(), xgb.DMatrix(X)), "DMatrix"),
    (lambda: compiled("xgboost").predict(xgb.DMatrix(X)), "DMatrix"),
    (lambda: size(own("xgboost"), xgb.QuantileDMatrix(X, TWO)), "X"),
    (lambda: size(own("xgboost"), xgb.DMatrix(X, base_margin=np.ones(N_ROWS))), "base_margin"),
    (lambda: outputs(missing=0.0), "missing="),
    (lambda: rfsize.truncate(own(), FRESH, 0.95), "alpha=0.95"),
    (lambda: rfsize.size(own(), FRESH, "auc"), "metric='auc'"),
    (lambda: size(own("lightgbm regression"), y=np.where(FRESH[:, 0] > 0, "a", "b")), "y must"),
    (lambda: size(own(), y=TWO), "y must"),
    (lambda: size(own("random forest"), y=np.full(N_FRESH, 5)), "y holds"),
    (lambda: outputs(sample_weight=np.ones(N_FRESH)), "sample_weight"),
]

OF_QUESTIONS: list[Case] = [
    (lambda: size(own(), alpha=99), "alpha"),
    (lambda: SizeCallback(confidence=0.3), "confidence"),
    (lambda: SizeCallback(threshold=0.3, **RMSE), "threshold"),
    (lambda: size(own(), metric="f2"), "metric"),
    (lambda: rfsize.oob_score(own(), X, TWO, metric=["auc", "accuracy"]), "metric must"),
    (lambda: size(own(), metric="probabilities"), "tolerance="),
    (lambda: size(own("lightgbm regression")), "tolerance"),
    (lambda: size(own(), tolerance=0.1), "tolerance"),
    (lambda: size(own(), **AUC), "y is missing"),
    (lambda: size(own("lightgbm multiclass"), y=TWO[:N_FRESH], **AUC), "'auc'"),
    (lambda: outputs(own("lightgbm multiclass"), threshold=0.3), "threshold="),
    (lambda: outputs(own("lightgbm regression"), threshold=0.3), "threshold"),
    (lambda: size(own(), groups=np.arange(N_FRESH)), "oob=True"),
    (lambda: size(own(), X, oob=True, groups=np.arange(9)), "groups"),
    (lambda: size(own(), method="smooth", target="model"), "method"),
    (lambda: size(own(), max_rows=50, target="model"), "max_rows"),
    (lambda: size(own(), confidence=0.9), "confidence"),
    (lambda: rfsize.truncate(own(), FRESH, confidence=0.9), "confidence"),
    (lambda: rfsize.truncate(own(), n_trees=5, target="model", confidence=0.9), "target and confidence"),
    (lambda: size(outputs()), "X would"),
    (lambda: size(outputs().votes), "X would"),
    (lambda: rfsize.size(outputs(), max_rows=300), "max_rows"),
    (lambda: rfsize.size(outputs(), groups="rows"), "groups"),
    (lambda: rfsize.Votes([[0.3, 0.7]]), "counts"),
    (lambda: rfsize.oob_score(outputs(y=TWO[:N_FRESH])), "oob=True"),
    (lambda: rfsize.oob_score(own(), X), "y is missing"),
    (lambda: rfsize.oob_score(outputs(rows=X, y=TWO, oob=True), X), "X"),
    (lambda: rfsize.oob_score(outputs(rows=X, y=TWO, oob=True), groups="rows"), "groups"),
    (lambda: rfsize.truncate(outputs().votes), "truncate"),
    (lambda: rfsize.truncate(own(), n_trees=99), "n_trees"),
    (lambda: rfsize.truncate(own(), FRESH, n_trees=5), "n_trees"),
    (lambda: rfsize.shrink(own(), X, TWO), "X are"),
    (lambda: rfsize.grow(lgb.LGBMClassifier(**WRAPPER), X), "y is missing"),
    (lambda: rfsize.grow(LIGHTGBM, lgb.Dataset(X, TWO), TWO), "sample_weight"),
    (lambda: rfsize.grow(LIGHTGBM | {"objective": "l2"}, lgb.Dataset(X, NUMBER), threshold=0.3, **RMSE), "threshold"),
    (lambda: rfsize.tree_outputs(FOREST, X, TWO, cv=3, oob=True), "oob"),
    (lambda: rfsize.tree_outputs(FOREST, X, TWO, cv=3, seed=1, subsample=0.5), "seed and subsample"),
    (lambda: rfsize.tree_outputs(FOREST, X, TWO, cv=3, missing=0.0), "missing"),
    (lambda: rfsize.select_bagging_fraction(FOREST, X), "y is missing"),
    (lambda: rfsize.select_bagging_fraction(FOREST, X, TWO, fractions=[0.5, 0.5]), "fractions"),
    (lambda: rfsize.oob_importance(own(), X, TWO, columns=["x9"]), "columns"),
    *((lambda alpha=alpha: right_sized(alpha=alpha, y=None), "alpha") for alpha in (1.0, 0.0)),
    (lambda: right_sized(max_trees=0), "max_trees"),
    (lambda: right_sized(min_trees=0.5), "min_trees"),
    (lambda: right_sized(cv=1), "cv"),
    (lambda: right_sized(cv=[([0, 1, 2], [2, 3])]), "hold out"),
    (lambda: right_sized(voting="averaged"), "voting"),
    (lambda: right_sized(threshold=1.0), "threshold"),
    (lambda: right_sized(threshold=0.3, y=THREE), "threshold"),
    (lambda: right_sized(alpha=0.9, **AUC), "alpha"),
    (lambda: right_sized(voting="hard", average="macro", alpha=None, **AUC), "voting and average"),
    (lambda: right_sized(y=np.zeros(N_ROWS)), "one class"),
    (lambda: right_sized(y=NUMBER), "continuous"),
    (lambda: right_sized(y=np.stack([TWO, THREE], axis=1)), "each column"),
    (lambda: right_sized(y=None), "y"),
    (lambda: right_sized(y=np.where(TWO, 1.0, np.nan)), "NaN"),
    (lambda: right_sized(y=np.array(["a", None], dtype=object)[TWO]), "NoneType"),
    (lambda: right_sized(y=TWO[:9]), "9 labels"),
    (lambda: right_sized(rows=X[:, 0]), "1D"),
    (lambda: right_sized(weight=0 * WEIGHT), "sample_weight"),
    (lambda: right_sized(weight=-WEIGHT), "sample_weight"),
    (lambda: right_sized(weight=[1.0]), "sample_weight"),
    (lambda: RightSizedClassifier(FOREST).set_params(estimator__n_estimators=7).fit(X, TWO), "n_estimators"),
    (lambda: right_sized_number(tolerance=0.0), "tolerance"),
    (lambda: right_sized_number(metric="rmse", tolerance=None), "tolerance"),
    (lambda: right_sized_number(metric="probabilities"), "metric"),
    (lambda: right_sized_number(metric="auc"), "'auc'"),
    (lambda: right_sized_number(confidence=0.4), "confidence"),
    (lambda: right_sized_number(y=np.stack([NUMBER, NUMBER], axis=1)), "y"),
    (lambda: right_sized_number(y=NUMBER[:50]), "50"),
    (lambda: right_sized_number(y=np.where(TWO, np.nan, NUMBER)), "NaN"),
]

OF_TABLES: list[Case] = [
    (lambda: StopTable.build(0), "n_trees"),
    (lambda: StopTable.build(10_002), "rfsize.truncate"),
    (lambda: StopTable.build(True), "n_trees"),
    *((lambda alpha=alpha: StopTable.build(11, alpha=alpha), "alpha") for alpha in (0.0, 1.1, math.nan, True)),
    (lambda: StopTable.build(11, n_classes=1), "n_classes"),
    (lambda: StopTable.build(11, prior="flat"), "prior"),
    (lambda: StopTable.build(11, prior=np.ones(12), n_classes=3), "n_classes"),
    (lambda: StopTable.build(11, prior=outputs(own("lightgbm multiclass")), n_classes=4), "n_classes"),
    (lambda: StopTable.build(11, prior=rfsize.Votes(np.zeros((4, 2)))), "prior"),
    (lambda: StopTable.build(11, prior=rfsize.Votes(np.zeros((4, 5)))), "prior"),
    *(
        (lambda prior=prior: StopTable.build(5, prior=prior), "prior")
        for prior in ([1.0, 2.0], ["a"] * 6, [1.0] * 5 + [math.nan], [1.0] * 5 + [-1.0], [0.0] * 6, np.ones((6, 6)))
    ),
    *(
        (lambda weights=weights: StopTable.lossless(weights), "weights")
        for weights in ([], np.ones(10_002), [[1.0]], ["1"], [True], 2.0, [1.0, math.nan], [1.0, -0.5], [0.0], [1e301])
    ),
    (lambda: StopTable.lossless([1.0, 2.0], n_classes=1), "n_classes"),
    *(
        (lambda votes=votes: StopTable.build(31).apply(votes), "tree_votes")
        for votes in (np.zeros((3, 30), int), np.zeros(31, int), np.zeros((3, 31)), np.full((3, 31), 2))
    ),
    (lambda: StopTable.lossless([1.0, 2.0]).apply([[0, 2]]), "tree_votes"),
    *(
        (lambda scores=scores: calibrate(own("random forest")).apply(scores), "scores")
        for scores in (np.zeros((4, 2, 1)), np.zeros((4, 31, 3)), np.zeros((4, 31, 1), str), np.zeros(3))
    ),
    (lambda: StopTable.build(21, n_classes=40).expected_trees(), "apply"),
    (lambda: StopTable.lossless([1.0, 2.0]).expected_trees(), "apply"),
    *((lambda a=a: calibrate(own(), alpha=a), "alpha") for a in (1.0, 0.0)),
    *((lambda c=c: calibrate(own(), confidence=c), "confidence") for c in (0.0, 0.3, 1.0)),
    (lambda: calibrate(own(), voting="loud"), "voting"),
    (lambda: calibrate(own(), average="mean"), "average"),
    (lambda: calibrate(own(), metric="auc", tolerance=0.1), "metric"),
    (lambda: calibrate(own(), metric="probabilities"), "tolerance"),
    (lambda: calibrate(own(), metric="scores", tolerance=-1.0), "tolerance"),
    (lambda: calibrate(own(), tolerance=0.1), "tolerance"),
    (lambda: calibrate(own(), voting="hard", **SHARES), "voting"),
    (lambda: calibrate(own(), threshold=0.3, **SHARES), "threshold"),
    (lambda: calibrate(own("lightgbm regression"), **SHARES), "metric="),
    (lambda: calibrate(own("lightgbm regression"), average="macro", **SCORES), "average"),
    (lambda: calibrate(own(), X), "X are"),
    (lambda: calibrate(own(), alpha=0.99), "299 rows"),
    (lambda: compiled(table=StopTable.build(11)), "trees"),
    (lambda: compiled(table=StopTable.build(31, n_classes=3)), "classes"),
    (lambda: compiled(table=StopTable.build(31), voting="soft"), "voting"),
    (lambda: compiled(table=calibrate(own()), voting="hard"), "voting"),
    (lambda: compiled(table=calibrate(own(), **SCORES)), "metric="),
    (lambda: compiled(table=0.95), "table is"),
    (lambda: compiled(table=StopTable.lossless(np.ones(31))), "StopTable.calibrate"),
    (lambda: compiled("lightgbm regression", table=StopTable.build(31)), "classes"),
    (lambda: compiled(table=calibrate(own("lightgbm regression"), **SCORES)), "classes"),
    (lambda: rfsize.compile(lightgbm(seed=9), calibrate(own())), "StopTable.calibrate(model, X)"),
    (lambda: rfsize.compile(AdaBoostClassifier(n_estimators=3).fit(X, TWO), StopTable.build(3)), "table"),
    (lambda: compiled(voting="weak"), "voting"),
    (lambda: compiled(threshold=1.0), "threshold"),
    (lambda: compiled("lightgbm multiclass", threshold=0.3), "threshold"),
    (lambda: compiled("lightgbm regression", threshold=0.3), "threshold="),
    (lambda: compiled("lightgbm regression", voting="hard"), "voting="),
    (lambda: mean_of(), "1"),
    (lambda: mean_of(lightgbm(y=THREE, objective="multiclass", num_class=3)), "class labels"),
    (lambda: mean_of(lightgbm(X[:, :4])), "features"),
    (lambda: mean_of(fitted()), "predict"),
    (lambda: mean_of(lightgbm(n_trees=5), voting="hard"), "voting="),
    (lambda: mean_of(lightgbm(n_trees=5), table=StopTable.build(5)), "table"),
]

NO_SIZES = [0, -1, 2**31, 10**30, 1e300, math.inf, math.nan, None, "x"]
NO_SHARES = [-1e-320, 1.0 + 2.0**-51, math.nan, math.inf, None, "x"]
NO_UNITS = [1e-200, 1e-310, 1e100, 1e152, 1e300]
NO_ALPHAS: list[Any] = [0.0, 1.0, -1.0, math.nan, None, "0.9", [0.9], True]
NO_WEIGHTS: list[Any] = [[math.inf, 1.0], [math.nan, 1.0], [-1.0, 1.0], [0.0, 0.0]]
OF_THEORY: list[Case] = [
    *((lambda n=n: theory.disagreement(n, 0.3), "n_trees") for n in NO_SIZES),
    *((lambda n=n: theory.class_probability(n, 0.3), "n_trees") for n in NO_SIZES),
    *((lambda n=n: theory.multiclass_agreement(n, [[0.5, 0.3, 0.2]]), "n_trees") for n in NO_SIZES),
    *((lambda pi=pi: theory.agreement(11, pi), "fractions") for pi in NO_SHARES),
    *((lambda a=a: theory.ensemble_size(a, [0.3]), "alpha") for a in NO_ALPHAS),
    *((lambda w=w: theory.mean_agreement(11, [0.3, 0.4], w), "weights") for w in NO_WEIGHTS),
    *((lambda w=w: theory.ensemble_size(0.9, [0.3, 0.4], w), "weights") for w in NO_WEIGHTS),
    *((lambda d=d: theory.asymptotic_size(0.9, d), "density") for d in (-1.0, 1e101, math.inf, math.nan, None)),
    *((lambda row=row: theory.multiclass_agreement(11, [row]), "") for row in ([2, -1, 0], [math.nan] * 3, ["x", "y"])),
    *((lambda n=n: rfsize.Votes([[1, 0]], n_trees=n), "n_trees") for n in (2**31, 3.5, math.nan, "x", True, -1)),
    *((lambda c=c: rfsize.Votes(c), "2,147,483,647") for c in ([[2**31 - 1, 1]], [[2**31 - 1] * 3])),
    (lambda: rfsize.Votes([[2**31 - 5, 3]]).merge(rfsize.Votes([[2**31 - 5, 3]])), "counts"),
    *((lambda unit=unit: size(in_unit(unit), metric="scores", tolerance=unit), "units") for unit in NO_UNITS),
]

CASES: list[tuple[type[Exception], list[Case]]] = [
    (NotAForestError, OF_MODELS),
    (InbagError, OF_BAGS),
    (FewVotesError, OF_VOTES),
    (ValueError, OF_ROWS),
    (ValueError, OF_QUESTIONS),
    (ValueError, OF_TABLES),
    (ValueError, OF_THEORY),
    (NotFittedError, [(lambda kind=kind: size(kind), "fit") for kind in (FOREST, lgb.LGBMClassifier(**WRAPPER))]),
    (NotFittedError, [(lambda: size(xgb.XGBClassifier(**ONE_ROUND)), "fit")]),
    (FileError, [(lambda: rfsize.load(cut_off()), "file"), (lambda: rfsize.load(written(b"text")), "file")]),
    (FileError, [(lambda: StopTable.load(written(b"text")), "file")]),
    (FileError, [(lambda: StopTable.from_dict(StopTable.build(11).to_dict() | {"alpha": 0.98}), "checksum")]),
]
# Parameters of trainings too: with a value, it may be that which a message speaks of.
OF_TRAININGS = {"seed", "subsample", "missing", "n_trees", "estimator"}
OPTIONS = {name for function in ASKERS for name in keywords_of(getattr(rfsize, function))}
OPTIONS |= keywords_of(rfsize.grow) | keywords_of(rfsize.compile) | keywords_of(rfsize.shrink)


@pytest.mark.parametrize(
    ("error", "call", "names"),
    [
        pytest.param(error, call, names, id=f"{error.__name__}, {names}, {number}")
        for error, cases in CASES
        for number, (call, names) in enumerate(cases)
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_error(
    error: type[Exception], call: Callable[[], Any], names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
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
    """The arguments of the outermost function of rfsize's in the traceback; of an estimator's fit, its own too."""
    while "rfsize" not in traceback.tb_frame.f_globals["__name__"].split("."):
        traceback = traceback.tb_next
    frame: FrameType = traceback.tb_frame
    estimator = frame.f_locals.get("self")
    return set(inspect.getargs(frame.f_code).args) | set(estimator.get_params() if hasattr(estimator, "fit") else ())


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


def test_weights_weigh_a_scorer_as_its_metric() -> None:
    def share_of_right_labels(truth: Any, label: Any, sample_weight: Any = None) -> float:
        return float(np.average(truth == label, weights=sample_weight))

    known = rfsize.tree_outputs(own("random forest"), X, TWO, oob=True)
    weighed = rfsize.oob_score(known.with_truth(TWO, WEIGHT), metric=make_scorer(share_of_right_labels)).value
    assert weighed == pytest.approx(rfsize.oob_score(known.with_truth(TWO, WEIGHT), metric="accuracy").value)
    assert weighed != pytest.approx(rfsize.oob_score(known, metric="accuracy").value)
