"""Errors of sizes, scores, cuts and growth: which class a call raises, and which argument its message names."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import rfsize
from helpers.trained import FRESH, TRUTH, X, Y, data_for, model, params_for, train
from rfsize import theory
from rfsize.baselines import banfield_size, mcnemar_size
from rfsize.exceptions import FewVotesError, InbagError, NotAForestError, RfsizeError

TWO, THREE, NUMBER = "two", "three", "number"
VOTES, LABELS = np.tile([0, 1, 1], (6, 10)), np.array([0, 1, 1, 0, 1, 1])
COUNTED = rfsize.Votes([[3, 97], [20, 80]])
FOREST: dict[str, Any] = {"target": "model"}
METRIC: dict[str, Any] = {"metric": "auc", "tolerance": 0.01}


def size(*given: Any, task: str = TWO, **options: Any) -> rfsize.Report:
    return rfsize.size(model("lightgbm", task), *(given or (FRESH,)), **options)


def outputs(framework: str = "lightgbm", task: str = TWO, oob: bool = True, **options: Any) -> rfsize.TreeOutputs:
    rows, y = (X, Y[task]) if oob else (FRESH, TRUTH[task])
    return rfsize.tree_outputs(model(framework, task), rows, y, oob=oob, **options)


def grow(task: str = TWO, framework: str = "lightgbm", params: Any = None, **options: Any) -> Any:
    data = data_for(framework, X, Y[task])
    return rfsize.grow({**params_for(framework, Y[task]), **(params or {})}, data, **options)


def fraction(**options: Any) -> Any:
    options = {"n_trees": 40, "progress": False, **options}
    return rfsize.select_bagging_fraction(params_for("xgboost", Y[TWO]), data_for("xgboost", X, Y[TWO]), **options)


def shrink(rows: Any = FRESH, y: Any = None, forest: Any = None, **options: Any) -> Any:
    return rfsize.shrink(model("lightgbm") if forest is None else forest, rows, y, **options)


def score(metric: Any = None, task: str = TWO, **options: Any) -> Any:
    return rfsize.oob_score(model("lightgbm", task), X, Y[task], metric=metric, **options)


def importance(**options: Any) -> Any:
    return rfsize.oob_importance(outputs(), **options)


@cache
def sized() -> rfsize.Report:
    return size()


def shares(y: Any, p: Any) -> float:
    return float(np.mean(p))


CASES: dict[type[Exception], list[tuple[Callable[[], Any], str]]] = {
    ValueError: [
        (lambda: theory.agreement(3, 1.2), "fractions"),
        (lambda: theory.instance_size(1.0, 0.3), "alpha"),
        (lambda: theory.ensemble_size(0.9, []), "fractions"),
        (lambda: theory.ensemble_size(0.9, [0.3], [-1.0]), "weights"),
        (lambda: theory.mean_agreement(3, [0.3], [1.0, 2.0]), "weights"),
        (lambda: theory.ratio_with_replacement(1.0), "fraction"),
        (lambda: theory.fraction_without_replacement(0.0), "ratio"),
        (lambda: theory.multiclass_agreement(3, [0.5, 0.5]), "fractions"),
        (lambda: theory.multiclass_agreement(3, [[0.5, 0.6]]), "fractions"),
        (lambda: size(FRESH, alpha=1.0), "alpha"),
        (lambda: size(FRESH, alpha="0.9"), "alpha"),
        (lambda: size(FRESH, method="kernel"), "method"),
        (lambda: size(FRESH, average="weighted"), "average"),
        (lambda: rfsize.size(COUNTED, y=[1]), "y "),
        (lambda: size(FRESH, max_rows=0), "max_rows"),
        (lambda: size(X, oob=True, max_rows=100), "max_rows"),
        (lambda: rfsize.size(COUNTED, metric="importance"), "oob_importance"),
        (lambda: size(FRESH, metric="scores", tolerance=0.0), "tolerance"),
        (lambda: size(FRESH, metric="scores", tolerance=np.inf), "tolerance"),
        (lambda: size(FRESH, metric="scores", tolerance=0.1, alpha=0.9), "alpha"),
        (lambda: size(FRESH, metric="scores", tolerance=0.1, voting="soft"), "voting"),
        (lambda: size(FRESH, metric="scores", tolerance=0.1, average="macro"), "average"),
        (lambda: size(FRESH, TRUTH[TWO], **METRIC, alpha=0.9), "alpha"),
        (lambda: size(FRESH, task=NUMBER, metric="probabilities", tolerance=0.1), "metric="),
        (lambda: size(FRESH, TRUTH[TWO], metric="acurracy", tolerance=0.1), "'accuracy'"),
        (lambda: size(FRESH, TRUTH[TWO], metric="rmse", tolerance=0.1), "metric="),
        (lambda: size(FRESH, TRUTH[TWO], metric=shares, tolerance=0.1), "make_scorer"),
        (lambda: rfsize.size(model("sklearn"), FRESH, TRUTH[TWO] + 7, alpha=0.8), "y holds"),
        (lambda: sized().loss_at(0), "n_trees"),
        (lambda: sized().size_at(1.0), "alpha"),
        (lambda: size(FRESH, metric="scores", tolerance=0.1).size_at(0.0), "tolerance"),
        (lambda: sized().upper(1.0), "confidence"),
        (lambda: sized().upper(9e-07), "confidence"),
        (lambda: sized().loss_at(10, "aucc"), "'auc'"),
        (lambda: sized().loss_at(10, "auc"), "y is missing"),
        (lambda: pickle.loads(pickle.dumps(sized())).loss_at(7, "auc"), "report"),
        (lambda: size(X, **FOREST), "rows"),
        (lambda: size(X, oob=True, **FOREST), "out of bag"),
        (lambda: rfsize.size(rfsize.Votes([[3, 97]] * 400), **FOREST), "model"),
        (lambda: rfsize.size(rfsize.tree_outputs(RandomForestClassifier(9), X, Y[TWO], cv=2), **FOREST), "fold"),
        (lambda: size(FRESH, TRUTH[TWO], metric="auc", **FOREST), "auc"),
        (lambda: size(FRESH, target="all"), "target"),
        (lambda: size(FRESH, confidence=0.3, **FOREST), "confidence"),
        (lambda: size(FRESH, alpha=0.995, average="macro", **FOREST), "average="),
        (lambda: size(FRESH, metric="scores", tolerance=0.1, voting="hard", **FOREST), "voting"),
        (lambda: rfsize.truncate(model("lightgbm"), n_trees=2.5), "n_trees"),
        (lambda: rfsize.truncate(model("lightgbm", TWO, 30), n_trees=sized()), "report"),
        (lambda: rfsize.truncate(model("lightgbm"), n_trees=3, max_bytes=9), "max_bytes"),
        (lambda: rfsize.truncate(model("lightgbm"), max_bytes=0), "max_bytes"),
        (lambda: rfsize.truncate(model("lightgbm"), max_bytes=9999, alpha=0.9), "alpha"),
        (lambda: rfsize.truncate(model("lightgbm"), n_trees=shrink(n_trees=9)[1]), "report"),
        (lambda: rfsize.shrink(model("lightgbm"), FRESH, rows=FRESH[:99]), "rows="),
        (lambda: shrink(FRESH[:1]), "X has 1 row"),
        (lambda: shrink(FRESH[:400]), "rows"),
        (lambda: shrink(n_trees=60), "n_trees"),
        (lambda: shrink(n_trees=5, alpha=0.9), "alpha"),
        (lambda: shrink(metric="auc"), "auc"),
        (lambda: shrink(forest=model("lightgbm", NUMBER)), "tolerance"),
        (lambda: score("r2"), "metric="),
        (lambda: score("auc", THREE), "'auc'"),
        (lambda: score(lambda y, p: np.nan), "metric"),
        (lambda: rfsize.oob_score(outputs(sample_weight=np.ones(600)), metric=shares), "sample_weight"),
        (lambda: rfsize.compare(model("lightgbm"), outputs()), "tree_outputs"),
        (lambda: rfsize.compare(outputs(), outputs(oob=False)), "source"),
        (lambda: rfsize.compare(outputs(), outputs().with_truth(1 - Y[TWO])), "y "),
        (lambda: rfsize.compare(outputs(), outputs().with_truth(Y[TWO], np.ones(600))), "sample_weight"),
        (lambda: rfsize.compare(outputs(), outputs(), metric=shares), "better"),
        (lambda: importance(metric="auc").size(top=6), "top"),
        (lambda: importance(metric="auc", columns=["Column_0"]).size(), "column"),
        (lambda: importance(columns={"a": [0, 1], "b": [1]}), "columns"),
        (lambda: rfsize.grow(params_for("xgboost", Y[TWO]), X, Y[TWO]), "y "),
        (lambda: grow(min_trees=2.5), "min_trees"),
        (lambda: grow(confidence=0.49), "confidence"),
        (lambda: grow(THREE, metric="scores", tolerance=0.1), "metric="),
        (lambda: grow(**METRIC, validation=FRESH), "y is missing"),
        (lambda: grow(groups="rows", validation=FRESH), "groups"),
        (lambda: fraction(fractions=[]), "fractions"),
        (lambda: fraction(fractions=[0.5, 1.0]), "fractions"),
        (lambda: fraction(n_trees=1), "n_trees"),
        (lambda: fraction(rule="1se"), "rule"),
        (lambda: fraction(seed=-1), "seed"),
        (lambda: fraction(metric=shares), "make_scorer"),
        (lambda: mcnemar_size(VOTES, LABELS[:5]), "y"),
        (lambda: mcnemar_size(VOTES, np.array(["n", "y"])[LABELS]), "classes"),
        (lambda: banfield_size(VOTES.astype(float), LABELS), "votes"),
        (lambda: mcnemar_size(VOTES, LABELS, step=16), "step"),
        (lambda: mcnemar_size(VOTES, LABELS, level=5), "level"),
        (lambda: mcnemar_size(VOTES, LABELS, patience=0), "patience"),
        (lambda: banfield_size(VOTES, LABELS, batch=2.5), "batch"),
        (lambda: banfield_size(VOTES, LABELS, window=0), "window"),
        (lambda: banfield_size(VOTES, LABELS, inbag=VOTES == 1), "inbag"),
    ],
    FewVotesError: [
        (lambda: rfsize.size(rfsize.Votes([[0, 0]])), "vote"),
        (lambda: rfsize.size(train("lightgbm", X, Y[TWO], 1), FRESH, voting="soft"), "1 tree"),
        (lambda: rfsize.size(model("lightgbm", TWO, 30), X, Y[TWO], oob=True, **METRIC), "trees"),
    ],
    NotAForestError: [
        (lambda: rfsize.size(COUNTED, **METRIC), "metric="),
        (lambda: rfsize.size(COUNTED).loss_at(10, "probabilities"), "metric="),
        (lambda: shrink(forest=train("lightgbm", X, Y[TWO], 1)), "1 tree"),
        (lambda: shrink(forest=AdaBoostClassifier(n_estimators=3).fit(X, Y[TWO])), ""),
        (lambda: shrink(forest=BaggingClassifier(KNeighborsClassifier(), 9).fit(X, Y[TWO])), "shrink"),
        (lambda: rfsize.grow(make_pipeline(RandomForestClassifier()), X, Y[TWO]), "pipeline"),
    ],
    RfsizeError: [
        (lambda: size(FRESH, np.zeros(800, dtype=int), **METRIC), "y holds"),
        (lambda: rfsize.oob_score(outputs(sample_weight=np.zeros(600))), "weight"),
    ],
    InbagError: [
        (lambda: grow(params={"bagging_fraction": 1.0}), "bag"),
        (lambda: rfsize.select_bagging_fraction(RandomForestClassifier(bootstrap=False), X, Y[TWO]), "bootstrap"),
    ],
}


GIVEN = [(error, call, names) for error, cases in CASES.items() for call, names in cases]


@pytest.mark.parametrize(("error", "call", "names"), GIVEN, ids=range(len(GIVEN)))
@pytest.mark.filterwarnings("ignore")
def test_error(error: type[Exception], call: Callable[[], Any], names: str) -> None:
    with pytest.raises(error, match=re.escape(names)) as raised:
        call()
    assert type(raised.value) is error
