"""Errors of sizes, scores, cuts and growth: which class a call raises, and which argument its message names."""

from __future__ import annotations

import pickle
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


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # Equations
    "no trees": (lambda: theory.agreement(0, 0.3), ValueError, "n_trees"),
    "no fraction": (lambda: theory.agreement(3, 1.2), ValueError, "fractions"),
    "alpha of a row": (lambda: theory.instance_size(1.0, 0.3), ValueError, "alpha"),
    "alpha of rows": (lambda: theory.ensemble_size(0.0, [0.3]), ValueError, "alpha"),
    "no rows": (lambda: theory.ensemble_size(0.9, []), ValueError, "fractions"),
    "negative weights": (lambda: theory.ensemble_size(0.9, [0.3], [-1.0]), ValueError, "weights"),
    "other weights": (lambda: theory.mean_agreement(3, [0.3], [1.0, 2.0]), ValueError, "weights"),
    "negative density": (lambda: theory.asymptotic_size(0.9, -1.0), ValueError, "density"),
    "fraction of all": (lambda: theory.ratio_with_replacement(1.0), ValueError, "fraction"),
    "ratio of none": (lambda: theory.fraction_without_replacement(0.0), ValueError, "ratio"),
    "classes in a row": (lambda: theory.multiclass_agreement(3, [0.5, 0.5]), ValueError, "fractions"),
    "classes beyond one": (lambda: theory.multiclass_agreement(3, [[0.5, 0.6]]), ValueError, "fractions"),
    # Sizes of labels
    "alpha of one": (lambda: size(FRESH, alpha=1.0), ValueError, "alpha"),
    "alpha in words": (lambda: size(FRESH, alpha="0.9"), ValueError, "alpha"),
    "voting": (lambda: size(FRESH, voting="loud"), ValueError, "voting"),
    "method": (lambda: size(FRESH, method="kernel"), ValueError, "method"),
    "average": (lambda: size(FRESH, average="weighted"), ValueError, "average"),
    "threshold": (lambda: outputs(threshold=0.0), ValueError, "threshold"),
    "y of votes": (lambda: rfsize.size(COUNTED, y=[1]), ValueError, "y "),
    "groups of votes": (lambda: rfsize.size(COUNTED, groups="rows"), ValueError, "groups"),
    "no vote": (lambda: rfsize.size(rfsize.Votes([[0, 0]])), FewVotesError, "vote"),
    "one tree": (lambda: rfsize.size(train("lightgbm", X, Y[TWO], 1), FRESH, voting="soft"), FewVotesError, "1 tree"),
    "max_rows of none": (lambda: size(FRESH, max_rows=0), ValueError, "max_rows"),
    "max_rows out of bag": (lambda: size(X, oob=True, max_rows=100), ValueError, "max_rows"),
    "max_rows of outputs": (lambda: rfsize.size(outputs(), max_rows=100), ValueError, "max_rows"),
    "importances as metric": (lambda: rfsize.size(COUNTED, metric="importance"), ValueError, "oob_importance"),
    # Probabilities, numbers and metrics
    "no positive tolerance": (lambda: size(FRESH, metric="scores", tolerance=0.0), ValueError, "tolerance"),
    "infinite tolerance": (lambda: size(FRESH, metric="scores", tolerance=np.inf), ValueError, "tolerance"),
    "alpha of scores": (lambda: size(FRESH, metric="scores", tolerance=0.1, alpha=0.9), ValueError, "alpha"),
    "voting of scores": (lambda: size(FRESH, metric="scores", tolerance=0.1, voting="soft"), ValueError, "voting"),
    "average of scores": (lambda: size(FRESH, metric="scores", tolerance=0.1, average="macro"), ValueError, "average"),
    "alpha of a metric": (lambda: size(FRESH, TRUTH[TWO], **METRIC, alpha=0.9), ValueError, "alpha"),
    "metric of votes": (lambda: rfsize.size(COUNTED, **METRIC), NotAForestError, "metric="),
    "probabilities of numbers": (
        lambda: size(FRESH, task=NUMBER, metric="probabilities", tolerance=0.1),
        ValueError,
        "metric=",
    ),
    "typing error": (lambda: size(FRESH, TRUTH[TWO], metric="acurracy", tolerance=0.1), ValueError, "'accuracy'"),
    "metric of numbers": (lambda: size(FRESH, TRUTH[TWO], metric="rmse", tolerance=0.1), ValueError, "metric="),
    "function of y": (lambda: size(FRESH, TRUTH[TWO], metric=shares, tolerance=0.1), ValueError, "make_scorer"),
    "length of y": (lambda: size(FRESH, TRUTH[TWO][:5], **METRIC), ValueError, "y must"),
    "y of one class": (lambda: size(FRESH, np.zeros(800, dtype=int), **METRIC), RfsizeError, "y holds"),
    "y of no class": (lambda: rfsize.size(model("sklearn"), FRESH, TRUTH[TWO] + 7, alpha=0.8), ValueError, "y holds"),
    "few trees": (
        lambda: rfsize.size(model("lightgbm", TWO, 30), X, Y[TWO], oob=True, **METRIC),
        FewVotesError,
        "trees",
    ),
    # Reports
    "loss of no trees": (lambda: sized().loss_at(0), ValueError, "n_trees"),
    "size at no alpha": (lambda: sized().size_at(1.0), ValueError, "alpha"),
    "size at no tolerance": (
        lambda: size(FRESH, metric="scores", tolerance=0.1).size_at(0.0),
        ValueError,
        "tolerance",
    ),
    "upper of one": (lambda: sized().upper(1.0), ValueError, "confidence"),
    "upper of nearly none": (lambda: sized().upper(9e-7), ValueError, "confidence"),
    "loss of a typing error": (lambda: sized().loss_at(10, "aucc"), ValueError, "'auc'"),
    "loss without y": (lambda: sized().loss_at(10, "auc"), ValueError, "y is missing"),
    "loss of votes": (lambda: rfsize.size(COUNTED).loss_at(10, "probabilities"), NotAForestError, "metric="),
    "loss of a pickle": (lambda: pickle.loads(pickle.dumps(sized())).loss_at(7, "auc"), ValueError, "report"),
    # Certified cuts
    "few rows to certify": (lambda: size(FRESH[:100], **FOREST), ValueError, "299 rows"),
    "training rows to certify": (lambda: size(X, **FOREST), ValueError, "rows"),
    "certified out of bag": (lambda: size(X, oob=True, **FOREST), ValueError, "out of bag"),
    "certified votes": (lambda: rfsize.size(rfsize.Votes([[3, 97]] * 400), **FOREST), ValueError, "model"),
    "certified folds": (
        lambda: rfsize.size(rfsize.tree_outputs(RandomForestClassifier(9), X, Y[TWO], cv=2), **FOREST),
        ValueError,
        "fold",
    ),
    "certified ranking": (lambda: size(FRESH, TRUTH[TWO], metric="auc", **FOREST), ValueError, "auc"),
    "target": (lambda: size(FRESH, target="all"), ValueError, "target"),
    "certified by half": (lambda: size(FRESH, confidence=0.3, **FOREST), ValueError, "confidence"),
    "confidence of a limit": (lambda: size(FRESH, confidence=0.9), ValueError, "confidence"),
    "certified by method": (lambda: size(FRESH, method="smooth", **FOREST), ValueError, "method"),
    "certified classes": (lambda: size(FRESH, alpha=0.995, average="macro", **FOREST), ValueError, "average="),
    "certified voting": (
        lambda: size(FRESH, metric="scores", tolerance=0.1, voting="hard", **FOREST),
        ValueError,
        "voting",
    ),
    # Cuts
    "cut to none": (lambda: rfsize.truncate(model("lightgbm"), n_trees=0), ValueError, "n_trees"),
    "cut to a half": (lambda: rfsize.truncate(model("lightgbm"), n_trees=2.5), ValueError, "n_trees"),
    "report as rows": (lambda: rfsize.truncate(model("lightgbm"), sized()), ValueError, "n_trees=report"),
    "report of others": (lambda: rfsize.truncate(model("lightgbm", TWO, 30), n_trees=sized()), ValueError, "report"),
    "bytes and trees": (lambda: rfsize.truncate(model("lightgbm"), n_trees=3, max_bytes=9), ValueError, "max_bytes"),
    "no bytes": (lambda: rfsize.truncate(model("lightgbm"), max_bytes=0), ValueError, "max_bytes"),
    "bytes with alpha": (lambda: rfsize.truncate(model("lightgbm"), max_bytes=9999, alpha=0.9), ValueError, "alpha"),
    "shrunk report": (lambda: rfsize.truncate(model("lightgbm"), n_trees=shrink(n_trees=9)[1]), ValueError, "report"),
    "shrunk by its rows": (lambda: rfsize.shrink(model("lightgbm"), FRESH, rows=FRESH[:99]), ValueError, "rows="),
    "shrunk by one row": (lambda: shrink(FRESH[:1]), ValueError, "X has 1 row"),
    "shrunk by few rows": (lambda: shrink(FRESH[:400]), ValueError, "rows"),
    "shrunk to all": (lambda: shrink(n_trees=60), ValueError, "n_trees"),
    "shrunk with alpha": (lambda: shrink(n_trees=5, alpha=0.9), ValueError, "alpha"),
    "shrunk by AUC": (lambda: shrink(metric="auc"), ValueError, "auc"),
    "shrunk numbers": (lambda: shrink(forest=model("lightgbm", NUMBER)), ValueError, "tolerance"),
    "shrunk single tree": (lambda: shrink(forest=train("lightgbm", X, Y[TWO], 1)), NotAForestError, "1 tree"),
    "shrunk AdaBoost": (lambda: shrink(forest=AdaBoostClassifier(n_estimators=3).fit(X, Y[TWO])), NotAForestError, ""),
    "shrunk neighbours": (
        lambda: shrink(forest=BaggingClassifier(KNeighborsClassifier(), 9).fit(X, Y[TWO])),
        NotAForestError,
        "shrink",
    ),
    # Scores, comparisons and importances
    "score of numbers": (lambda: score("r2"), ValueError, "metric="),
    "ranking of three": (lambda: score("auc", THREE), ValueError, "'auc'"),
    "score that is none": (lambda: score(lambda y, p: np.nan), ValueError, "metric"),
    "score of no weight": (
        lambda: rfsize.oob_score(outputs(sample_weight=np.zeros(600))),
        RfsizeError,
        "weight",
    ),
    "score without weights": (
        lambda: rfsize.oob_score(outputs(sample_weight=np.ones(600)), metric=shares),
        ValueError,
        "sample_weight",
    ),
    "compared models": (lambda: rfsize.compare(model("lightgbm"), outputs()), ValueError, "tree_outputs"),
    "compared rows": (lambda: rfsize.compare(outputs(), outputs(oob=False)), ValueError, "source"),
    "compared y": (lambda: rfsize.compare(outputs(), outputs().with_truth(1 - Y[TWO])), ValueError, "y "),
    "compared weights": (
        lambda: rfsize.compare(outputs(), outputs().with_truth(Y[TWO], np.ones(600))),
        ValueError,
        "sample_weight",
    ),
    "compared by shares": (lambda: rfsize.compare(outputs(), outputs(), metric=shares), ValueError, "better"),
    "no top": (lambda: importance(metric="auc").size(top=6), ValueError, "top"),
    "one column": (lambda: importance(metric="auc", columns=["Column_0"]).size(), ValueError, "column"),
    "columns twice": (lambda: importance(columns={"a": [0, 1], "b": [1]}), ValueError, "columns"),
    # Growth and bagging fractions
    "arrays": (lambda: rfsize.grow(params_for("xgboost", Y[TWO]), X, Y[TWO]), ValueError, "y "),
    "max_trees": (lambda: grow(max_trees=0), ValueError, "max_trees"),
    "min_trees": (lambda: grow(min_trees=2.5), ValueError, "min_trees"),
    "grown by half": (lambda: grow(confidence=0.49), ValueError, "confidence"),
    "grown without bags": (lambda: grow(params={"bagging_fraction": 1.0}), InbagError, "bag"),
    "pipeline": (lambda: rfsize.grow(make_pipeline(RandomForestClassifier()), X, Y[TWO]), NotAForestError, "pipeline"),
    "scores in training": (lambda: grow(THREE, metric="scores", tolerance=0.1), ValueError, "metric="),
    "validation y": (lambda: grow(**METRIC, validation=FRESH), ValueError, "y is missing"),
    "validation groups": (lambda: grow(groups="rows", validation=FRESH), ValueError, "groups"),
    "no fractions": (lambda: fraction(fractions=[]), ValueError, "fractions"),
    "fraction of one": (lambda: fraction(fractions=[0.5, 1.0]), ValueError, "fractions"),
    "trees of a fraction": (lambda: fraction(n_trees=1), ValueError, "n_trees"),
    "rule": (lambda: fraction(rule="1se"), ValueError, "rule"),
    "seed": (lambda: fraction(seed=-1), ValueError, "seed"),
    "fraction by shares": (lambda: fraction(metric=shares), ValueError, "make_scorer"),
    "rows without bootstrap": (
        lambda: rfsize.select_bagging_fraction(RandomForestClassifier(bootstrap=False), X, Y[TWO]),
        InbagError,
        "bootstrap",
    ),
    # Older rules
    "votes of other rows": (lambda: mcnemar_size(VOTES, LABELS[:5]), ValueError, "y"),
    "votes and names": (lambda: mcnemar_size(VOTES, np.array(["n", "y"])[LABELS]), ValueError, "classes"),
    "votes that are none": (lambda: banfield_size(VOTES.astype(float), LABELS), ValueError, "votes"),
    "step": (lambda: mcnemar_size(VOTES, LABELS, step=16), ValueError, "step"),
    "level": (lambda: mcnemar_size(VOTES, LABELS, level=5), ValueError, "level"),
    "patience": (lambda: mcnemar_size(VOTES, LABELS, patience=0), ValueError, "patience"),
    "batch": (lambda: banfield_size(VOTES, LABELS, batch=2.5), ValueError, "batch"),
    "window": (lambda: banfield_size(VOTES, LABELS, window=0), ValueError, "window"),
    "bags": (lambda: banfield_size(VOTES, LABELS, inbag=VOTES == 1), ValueError, "inbag"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_error(name: str) -> None:
    call, error, names = CASES[name]
    with pytest.raises(error) as raised:
        call()
    assert (type(raised.value), names in str(raised.value)) == (error, True)
