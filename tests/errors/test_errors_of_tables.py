"""Errors of stop tables, theory and files, as in `test_errors`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, RandomForestRegressor

import rfsize
import rfsize.dask
from helpers.models import NUMBER, THREE, TWO, X
from helpers.refused import (
    LABELS,
    SCORES,
    SHARES,
    VOTES,
    Case,
    assert_refused,
    calibrate,
    compiled,
    cut_off,
    fitted,
    lightgbm,
    mean_of,
    own,
    parameters,
    refused,
    size,
    written,
)
from rfsize import StopTable, theory
from rfsize.baselines import banfield_size, mcnemar_size
from rfsize.exceptions import FileError

OF_TABLES: list[Case] = [
    *refused(partial(StopTable.build, 11), alpha=[0.0, 1.1, math.nan, True], n_classes=[1], prior=["flat"]),
    *refused(lambda **given: calibrate(own(), **given), confidence=[0.0, 1.0], voting=["loud"], tolerance=[0.1]),
    *refused(compiled, voting=["weak"], threshold=[1.0]),
    (lambda: StopTable.build(0), "n_trees"),
    (lambda: StopTable.build(10_002), "rfsize.truncate"),
    (lambda: StopTable.build(11, prior=np.ones(12), n_classes=3), "n_classes"),
    (lambda: StopTable.build(11, prior=rfsize.Votes(np.zeros((4, 2)))), "prior"),
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
    *(
        (lambda scores=scores: calibrate(own("random forest")).apply(scores), "scores")
        for scores in (
            *map(np.zeros, ((4, 2, 1), (4, 31, 2), (4, 31, 3), 3)),
            np.full((4, 31, 1), ""),
            np.full((4, 31, 1), np.nan),
        )
    ),
    (lambda: StopTable.build(21, n_classes=40).expected_trees(), "apply"),
    (lambda: StopTable.lossless([1.0, 2.0]).expected_trees(), "apply"),
    (lambda: calibrate(own(), metric="auc", tolerance=0.1), "metric"),
    (lambda: calibrate(own(), metric="probabilities"), "tolerance"),
    (lambda: calibrate(own(), metric="scores", tolerance=-1.0), "tolerance"),
    (lambda: calibrate(own(), voting="hard", **SHARES), "voting"),
    (lambda: calibrate(own(), threshold=0.3, **SHARES), "threshold"),
    (lambda: calibrate(lightgbm(boosting="gbdt"), voting="hard"), "voting"),
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
    (lambda: compiled("lightgbm multiclass", threshold=0.3), "threshold"),
    (lambda: compiled("lightgbm regression", threshold=0.3), "threshold "),
    (lambda: compiled("lightgbm regression", voting="hard"), "voting "),
    (lambda: mean_of(), "1"),
    (lambda: mean_of(lightgbm(y=THREE, objective="multiclass", num_class=3)), "class labels"),
    (lambda: mean_of(lightgbm(X[:, :4])), "features"),
    (lambda: mean_of(fitted()), "predict"),
    (lambda: mean_of(lightgbm(n_trees=5), voting="hard"), "voting "),
    (lambda: mean_of(lightgbm(n_trees=5), table=StopTable.build(5)), "table"),
]

FEW_TREES = RandomForestRegressor(5)
NO_SIZES = [0, -1, 2**31, 10**30, 1e300, math.inf, math.nan, None, "x"]
NO_SHARES = [-1e-320, 1.0 + 2.0**-51, math.nan, math.inf, None, "x"]
NO_UNITS = [1e-200, 1e-310, 1e100, 1e152, 1e300]
NO_ALPHAS: list[Any] = [0.0, 1.0, -1.0, math.nan, None, "0.9", [0.9], True]
NO_WEIGHTS: list[Any] = [[1.0], [math.inf, 1.0], [math.nan, 1.0], [-1.0, 1.0], [0.0, 0.0]]
OF_THEORY: list[Case] = [
    *refused(partial(mcnemar_size, VOTES, LABELS), step=[16], level=[5]),
    *refused(partial(banfield_size, VOTES, LABELS), batch=[2.5], window=[0]),
    *((lambda n=n: theory.disagreement(n, 0.3), "n_trees") for n in NO_SIZES),
    *((lambda n=n: theory.class_probability(n, 0.3), "n_trees") for n in NO_SIZES),
    *((lambda n=n: theory.multiclass_agreement(n, [[0.5, 0.3, 0.2]]), "n_trees") for n in NO_SIZES),
    *((lambda pi=pi: theory.agreement(11, pi), "fractions") for pi in NO_SHARES),
    *((lambda a=a: theory.ensemble_size(a, [0.3]), "alpha") for a in NO_ALPHAS),
    *((lambda w=w: theory.mean_agreement(11, [0.3, 0.4], w), "weights") for w in NO_WEIGHTS),
    *((lambda w=w: theory.ensemble_size(0.9, [0.3, 0.4], w), "weights") for w in NO_WEIGHTS),
    *((lambda d=d: theory.asymptotic_size(0.9, d), "density") for d in (-1.0, 1e101, math.inf, math.nan, None)),
    *(
        (lambda row=row: theory.multiclass_agreement(11, [row]), "fractions")
        for row in ([2, -1, 0], [math.nan] * 3, ["x", "y"])
    ),
    *((lambda n=n: rfsize.Votes([[1, 0]], n_trees=n), "n_trees") for n in (2**31, 3.5, math.nan, "x", True, -1)),
    *((lambda of=of: size(fitted(FEW_TREES, NUMBER * of), metric="scores", tolerance=of), "units") for of in NO_UNITS),
    (lambda: theory.ensemble_size(0.9, []), "fractions"),
    (lambda: theory.instance_size(1.0, 0.3), "alpha"),
    (lambda: theory.ratio_with_replacement(1.0), "fraction"),
    (lambda: theory.fraction_without_replacement(0.0), "ratio"),
    *((lambda pi=pi: theory.multiclass_agreement(3, pi), "fractions") for pi in ([0.5, 0.5], [[0.5, 0.6]])),
    (lambda: mcnemar_size(VOTES, LABELS[:5]), "y"),
    (lambda: mcnemar_size(VOTES, np.array(["n", "y"])[LABELS]), "classes"),
    (lambda: banfield_size(VOTES.astype(float), LABELS), "votes"),
    (lambda: banfield_size(VOTES - 2, LABELS), "votes"),
    (lambda: mcnemar_size(VOTES - 1, LABELS), "votes"),
]

CASES: list[tuple[type[Exception], list[Case]]] = [
    (ValueError, OF_TABLES),
    (ValueError, OF_THEORY),
    (FileError, [(lambda: rfsize.load(cut_off()), "file"), (lambda: rfsize.load(written(b"text")), "file")]),
    (FileError, [(lambda: StopTable.load(written(b"text")), "file")]),
    (FileError, [(lambda: StopTable.from_dict(StopTable.build(11).to_dict() | {"alpha": 0.98}), "checksum")]),
]


@pytest.mark.parametrize(("error", "call", "names"), parameters(CASES))
@pytest.mark.filterwarnings("ignore")
def test_error(
    error: type[Exception], call: Callable[[], Any], names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(error, call, names)
