"""Errors: which class a call raises, and which argument its message names. What a message advises works as written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import rfsize
from helpers.advised import advised_calls, keywords_of, without_calls
from helpers.kinds import LIGHTGBM, ONE_ROUND, ROWS, WRAPPER, Kinds
from rfsize.exceptions import FewVotesError, ForestFileError, InbagError, NotAForestError, TableError


class Case(NamedTuple):
    call: Callable[[Kinds], Any]
    error: type[Exception]
    names: str  # the argument, or the value of one, that the message must name


def outputs(at: Kinds, model: Any = None, **options: Any) -> rfsize.TreeOutputs:
    return rfsize.tree_outputs(at.lightgbm if model is None else model, at.fresh, **options)


def written(at: Kinds, content: bytes) -> Path:
    path = at.folder / "file"
    path.write_bytes(content)
    return path


def cut_off(at: Kinds) -> Path:
    at.compiled.save(at.folder / "forest.npz")
    return written(at, (at.folder / "forest.npz").read_bytes()[:-100])


def sized(at: Kinds, model: Any, X: Any = None, **options: Any) -> rfsize.Report:
    return rfsize.size(model, at.fresh if X is None else X, **options)


def out_of_bag(at: Kinds, model: Any, X: Any = None, y: Any = None, **options: Any) -> rfsize.Report:
    return rfsize.size(model, at.X if X is None else X, y, oob=True, **options)


MODELS = {
    "boosted, LightGBM": Case(lambda at: sized(at, at.lightgbm_boosted), NotAForestError, "boosting="),
    "boosted, XGBoost": Case(lambda at: sized(at, at.xgboost_boosted), NotAForestError, "num_parallel_tree"),
    "gradient boosting": Case(lambda at: sized(at, at.gradient_boosting), NotAForestError, "GradientBoosting"),
    "histogram boosting": Case(lambda at: sized(at, at.histogram_boosting), NotAForestError, "HistGradientBoosting"),
    "AdaBoost": Case(lambda at: sized(at, at.adaboost), NotAForestError, "rfsize.compile"),
    "no ensemble": Case(lambda at: sized(at, at.logistic_regression), NotAForestError, "LogisticRegression"),
    "pipeline": Case(lambda at: sized(at, at.pipeline), NotAForestError, "pipeline[-1]"),
    "not fitted, scikit-learn": Case(lambda at: sized(at, at.unfitted), NotFittedError, "fit"),
    "not fitted, LightGBM": Case(lambda at: sized(at, at.unfitted_lightgbm), NotFittedError, "fit"),
    "not fitted, XGBoost": Case(lambda at: sized(at, xgb.XGBClassifier(**ONE_ROUND)), NotFittedError, "fit"),
    "path": Case(lambda at: sized(at, at.text), NotAForestError, "str"),
    "None": Case(lambda at: sized(at, at.nothing), NotAForestError, "model"),
    "class": Case(lambda at: sized(at, RandomForestClassifier), NotAForestError, "RandomForestClassifier"),
    "list": Case(lambda at: sized(at, [at.lightgbm] * 2), NotAForestError, "compile"),
    "labels of a regression": Case(
        lambda at: sized(at, at.lightgbm_regression, metric="labels"), NotAForestError, "metric="
    ),
    "identical trees": Case(lambda at: sized(at, at.train_xgboost(subsample=1)), NotAForestError, "subsample"),
    "several labels": Case(
        lambda at: sized(at, RandomForestClassifier(3).fit(at.X, np.stack([at.y, at.three], axis=1))),
        NotAForestError,
        "multioutput",
    ),
    "one class": Case(
        lambda at: sized(at, RandomForestClassifier(3).fit(at.X, np.zeros(ROWS))), NotAForestError, "one class"
    ),
    "compiling no trees": Case(lambda at: rfsize.compile(at.bagging_neighbours), NotAForestError, "rfsize.truncate"),
    "sizing boosted trees": Case(lambda at: sized(at, at.gradient_boosting), NotAForestError, "compile"),
    "importance of no trees": Case(
        lambda at: rfsize.oob_importance(at.bagging_neighbours, at.X, at.y),
        NotAForestError,
        "permutation_importance",
    ),
    "growing boosted trees": Case(
        lambda at: rfsize.grow(lgb.LGBMClassifier(n_estimators=5, verbose=-1), at.X, at.y),
        NotAForestError,
        "boosting=",
    ),
    "growing rounds": Case(
        lambda at: rfsize.grow(xgb.XGBClassifier(), at.X, at.y), NotAForestError, "num_parallel_tree="
    ),
    "fraction of boosted trees": Case(
        lambda at: rfsize.select_bagging_fraction(at.gradient_boosting, at.X, at.y),
        NotAForestError,
        "GradientBoosting",
    ),
    "right-sizing no forest": Case(
        lambda at: rfsize.RightSizedClassifier(LogisticRegression()).fit(at.X, at.y), NotAForestError, "estimator"
    ),
    "right-sizing a regressor": Case(
        lambda at: rfsize.RightSizedClassifier(RandomForestRegressor()).fit(at.X, at.y),
        NotAForestError,
        "RightSizedRegressor",
    ),
}

BAGS = {
    "order": Case(lambda at: out_of_bag(at, at.lightgbm, at.X[::-1]), InbagError, "order"),
    "order, XGBoost": Case(lambda at: out_of_bag(at, at.xgboost, at.X[::-1]), InbagError, "sample_weight="),
    "part": Case(lambda at: out_of_bag(at, at.lightgbm, at.X[:200]), InbagError, "X has 200 rows"),
    "part, scikit-learn": Case(lambda at: out_of_bag(at, at.random_forest, at.X[:200]), InbagError, "X has 200"),
    "no bagging": Case(
        lambda at: out_of_bag(at, at.train_lightgbm(bagging_fraction=1.0, bagging_freq=0)),
        InbagError,
        "bagging_fraction=",
    ),
    "no bootstrap": Case(lambda at: out_of_bag(at, at.extra_trees), InbagError, "bootstrap="),
    "one bag": Case(lambda at: out_of_bag(at, at.train_xgboost(tree_method="approx")), InbagError, "tree_method="),
    "weighted classes": Case(lambda at: out_of_bag(at, at.train_xgboost(scale_pos_weight=2.0)), InbagError, "give y"),
    "seed of LightGBM": Case(
        lambda at: rfsize.tree_outputs(at.lightgbm, at.X, oob=True, seed=1), InbagError, "bagging_seed"
    ),
    "few votes": Case(
        lambda at: rfsize.oob_score(at.train_xgboost(num_parallel_tree=12), at.X, at.y), FewVotesError, "trees"
    ),
    "label of no vote": Case(
        lambda at: rfsize.oob_predict(RandomForestClassifier(2, random_state=0).fit(at.X, at.y), at.X),
        FewVotesError,
        "fill=",
    ),
    "groups of fresh rows": Case(
        lambda at: sized(at, at.lightgbm, groups=np.arange(ROWS // 2)), ValueError, "oob=True"
    ),
    "groups of other rows": Case(lambda at: out_of_bag(at, at.lightgbm, groups=np.arange(9)), ValueError, "groups"),
    "score of fresh rows": Case(lambda at: rfsize.oob_score(outputs(at, y=at.fresh_y)), ValueError, "oob=True"),
    "score without y": Case(lambda at: rfsize.oob_score(at.lightgbm, at.X), ValueError, "y is missing"),
    "probabilities of numbers": Case(
        lambda at: rfsize.oob_predict_proba(at.lightgbm_regression, at.X), ValueError, "rfsize.oob_predict"
    ),
}
ASKERS: dict[str, Callable[[Any, Kinds], Any]] = {
    "size": lambda model, at: rfsize.size(model, at.X, at.y, oob=True),
    "truncate": lambda model, at: rfsize.truncate(model, at.X, at.y, oob=True),
    "oob_score": lambda model, at: rfsize.oob_score(model, at.X, at.y),
    "oob_predict": lambda model, at: rfsize.oob_predict(model, at.X, at.y),
    "oob_predict_proba": lambda model, at: rfsize.oob_predict_proba(model, at.X, at.y),
    "oob_importance": lambda model, at: rfsize.oob_importance(model, at.X, at.y),
    "tree_outputs": lambda model, at: rfsize.tree_outputs(model, at.X, at.y, oob=True),
    "inbag": lambda model, at: rfsize.inbag(model, at.X, at.y),
}
for asker, ask in ASKERS.items():
    BAGS |= {
        f"{asker}: file": Case(lambda at, ask=ask: ask(at.xgboost_loaded, at), InbagError, "subsample="),
        f"{asker}: weights": Case(lambda at, ask=ask: ask(at.xgboost_weighted, at), InbagError, "sample_weight="),
        f"{asker}: rows": Case(lambda at, ask=ask: ask(at.train_lightgbm(X=at.X[::-1]), at), InbagError, "order"),
        f"{asker}: bags": Case(
            lambda at, ask=ask: ask(ExtraTreesClassifier(20, max_depth=3).fit(at.X, at.y), at),
            InbagError,
            "bootstrap=",
        ),
    }

ROWS_GIVEN = {
    "none": Case(lambda at: rfsize.size(at.lightgbm), ValueError, "X is missing"),
    "empty": Case(lambda at: sized(at, at.lightgbm, at.X[:0]), ValueError, "X has no rows"),
    "one dimension": Case(lambda at: at.compiled.predict(at.X[0]), ValueError, "X.reshape(1, -1)"),
    "columns": Case(lambda at: sized(at, at.lightgbm, at.X[:, :3]), ValueError, "X has 3 columns"),
    "names": Case(
        lambda at: sized(at, at.lightgbm_named, at.frame.rename(columns={"d": "e"})), ValueError, "missing ['d']"
    ),
    "one name twice": Case(
        lambda at: sized(at, at.lightgbm_named, at.frame.set_axis(list("aacd"), axis=1)), ValueError, "['a']"
    ),
    "text": Case(lambda at: sized(at, at.lightgbm, at.X.astype(str)), ValueError, "X"),
    "complex": Case(lambda at: sized(at, at.lightgbm, sp.csr_matrix(at.X.astype(complex))), ValueError, "X"),
    "dates": Case(
        lambda at: sized(at, at.lightgbm_named, at.frame.assign(a=pd.Timestamp("2020-01-01"))), ValueError, "'a'"
    ),
    "masked": Case(
        lambda at: sized(at, at.lightgbm, np.ma.masked_array(at.X, at.X > 1)), ValueError, "X.filled(np.nan)"
    ),
    "a Series": Case(lambda at: sized(at, at.lightgbm_named, at.frame.iloc[0]), ValueError, "X.iloc[[0]]"),
    "words": Case(lambda at: sized(at, at.lightgbm_named, at.frame.assign(a="?")), ValueError, "'a'"),
    "a list of batches": Case(lambda at: sized(at, at.lightgbm, [at.X, at.X[:, :2]]), ValueError, "columns"),
    "binned": Case(lambda at: sized(at, at.xgboost, xgb.QuantileDMatrix(at.X, at.y)), ValueError, "X"),
    "Dataset": Case(lambda at: sized(at, at.lightgbm, lgb.Dataset(at.X)), ValueError, "X is a lightgbm"),
    "DMatrix for LightGBM": Case(lambda at: sized(at, at.lightgbm, xgb.DMatrix(at.X)), ValueError, "DMatrix"),
    "margin": Case(
        lambda at: sized(at, at.xgboost, xgb.DMatrix(at.X, base_margin=np.ones(ROWS))), ValueError, "base_margin"
    ),
    "infinite": Case(lambda at: rfsize.compile(at.random_forest).predict(np.full((1, 4), np.inf)), ValueError, "X"),
    "missing of LightGBM": Case(lambda at: outputs(at, missing=0.0), ValueError, "missing="),
    "alpha as y": Case(lambda at: rfsize.truncate(at.lightgbm, at.fresh, 0.95), ValueError, "alpha=0.95"),
    "metric as y": Case(lambda at: rfsize.size(at.lightgbm, at.fresh, "auc"), ValueError, "metric='auc'"),
    "no columns": Case(lambda at: sized(at, at.lightgbm, at.X[:, :0]), ValueError, "X has no columns"),
    "words of a regression": Case(
        lambda at: sized(at, at.lightgbm_regression, y=np.where(at.fresh_y > 0, "a", "b")), ValueError, "y must"
    ),
    "length of y": Case(lambda at: sized(at, at.lightgbm, y=at.y), ValueError, "y must"),
    "unknown labels": Case(lambda at: sized(at, at.random_forest, y=at.fresh_y + 5), ValueError, "y holds"),
    "weights without y": Case(lambda at: outputs(at, sample_weight=np.ones(ROWS // 2)), ValueError, "sample_weight"),
}

QUESTIONS = {
    "alpha": Case(lambda at: sized(at, at.lightgbm, alpha=99), ValueError, "alpha"),
    "confidence": Case(lambda at: rfsize.SizeCallback(confidence=0.3), ValueError, "confidence"),
    "metric": Case(lambda at: sized(at, at.lightgbm, metric="f2"), ValueError, "metric"),
    "several metrics": Case(
        lambda at: rfsize.oob_score(at.lightgbm, at.X, at.y, metric=["auc", "accuracy"]), ValueError, "metric must"
    ),
    "tolerance missing": Case(lambda at: sized(at, at.lightgbm, metric="probabilities"), ValueError, "tolerance="),
    "tolerance of numbers": Case(lambda at: sized(at, at.lightgbm_regression), ValueError, "tolerance"),
    "tolerance of labels": Case(lambda at: sized(at, at.lightgbm, tolerance=0.1), ValueError, "tolerance"),
    "metric without y": Case(
        lambda at: sized(at, at.lightgbm, metric="auc", tolerance=0.01), ValueError, "y is missing"
    ),
    "AUC of three classes": Case(
        lambda at: sized(at, at.lightgbm_three, y=at.fresh_y, metric="auc", tolerance=0.01), ValueError, "'auc'"
    ),
    "threshold of three classes": Case(
        lambda at: outputs(at, at.lightgbm_three, threshold=0.3), ValueError, "threshold="
    ),
    "rows beside outputs": Case(lambda at: rfsize.size(outputs(at), at.fresh), ValueError, "X would"),
    "rows beside votes": Case(lambda at: rfsize.size(outputs(at).votes, at.fresh), ValueError, "X would"),
    "scores of votes": Case(
        lambda at: rfsize.size(outputs(at).votes, metric="probabilities", tolerance=0.01), NotAForestError, "metric="
    ),
    "votes that are shares": Case(lambda at: rfsize.Votes([[0.3, 0.7]]), ValueError, "counts"),
    "truncating votes": Case(lambda at: rfsize.truncate(outputs(at).votes), ValueError, "truncate"),
    "truncating to more": Case(lambda at: rfsize.truncate(at.lightgbm, n_trees=99), ValueError, "n_trees"),
    "n_trees beside rows": Case(lambda at: rfsize.truncate(at.lightgbm, at.fresh, n_trees=5), ValueError, "n_trees"),
    "grow without y": Case(lambda at: rfsize.grow(lgb.LGBMClassifier(**WRAPPER), at.X), ValueError, "y is missing"),
    "grow with y twice": Case(
        lambda at: rfsize.grow(LIGHTGBM, lgb.Dataset(at.X, at.y), at.y), ValueError, "sample_weight"
    ),
    "cv of a booster": Case(
        lambda at: rfsize.tree_outputs(at.lightgbm, at.X, at.y, cv=3), NotAForestError, "cv trains"
    ),
    "cv beside oob": Case(lambda at: rfsize.tree_outputs(at.unfitted, at.X, at.y, cv=3, oob=True), ValueError, "oob"),
    "fraction without y": Case(
        lambda at: rfsize.select_bagging_fraction(at.unfitted, at.X), ValueError, "y is missing"
    ),
    "fraction twice": Case(
        lambda at: rfsize.select_bagging_fraction(at.unfitted, at.X, at.y, fractions=[0.5, 0.5]),
        ValueError,
        "fractions",
    ),
    "column": Case(lambda at: rfsize.oob_importance(at.lightgbm, at.X, at.y, columns=["x9"]), ValueError, "columns"),
    "right-sizing by n_estimators": Case(
        lambda at: rfsize.RightSizedClassifier(at.unfitted).set_params(estimator__n_estimators=7).fit(at.X, at.y),
        ValueError,
        "n_estimators",
    ),
}

FILES = {
    "table of another size": Case(
        lambda at: rfsize.compile(at.lightgbm, rfsize.StopTable.build(11)), ValueError, "trees"
    ),
    "table of another forest": Case(
        lambda at: rfsize.compile(
            at.train_lightgbm(seed=9), rfsize.StopTable.calibrate(at.lightgbm, at.fresh, alpha=0.9)
        ),
        ValueError,
        "StopTable.calibrate(model, X)",
    ),
    "table of training rows": Case(
        lambda at: rfsize.StopTable.calibrate(at.lightgbm, at.X, alpha=0.9), ValueError, "X are"
    ),
    "shrunk by training rows": Case(lambda at: rfsize.shrink(at.lightgbm, at.X, at.y), ValueError, "X are"),
    "table of averages, of no trees": Case(
        lambda at: rfsize.StopTable.calibrate(at.bagging_neighbours, at.fresh, alpha=0.8),
        NotAForestError,
        "voting='hard'",
    ),
    "table that is none": Case(lambda at: rfsize.compile(at.lightgbm, 0.95), ValueError, "table is"),
    "threshold of numbers": Case(
        lambda at: rfsize.compile(at.lightgbm_regression, threshold=0.3), ValueError, "threshold="
    ),
    "voting of numbers": Case(lambda at: rfsize.compile(at.lightgbm_regression, voting="hard"), ValueError, "voting="),
    "forest cut off": Case(lambda at: rfsize.load(cut_off(at)), ForestFileError, "file"),
    "no forest": Case(lambda at: rfsize.load(written(at, b"text")), ForestFileError, "file"),
    "no table": Case(lambda at: rfsize.StopTable.load(written(at, b"text")), TableError, "file"),
    "table changed": Case(
        lambda at: rfsize.StopTable.from_dict(rfsize.StopTable.build(11).to_dict() | {"alpha": 0.98}),
        TableError,
        "checksum",
    ),
}

CASES = {"model": MODELS, "bags": BAGS, "rows": ROWS_GIVEN, "question": QUESTIONS, "file": FILES}
# Parameters of trainings too: with a value, it may be that which a message speaks of.
OF_TRAININGS = {"seed", "subsample", "missing", "n_trees", "estimator"}
OPTIONS = {name for function in ASKERS for name in keywords_of(getattr(rfsize, function))}
OPTIONS |= keywords_of(rfsize.grow) | keywords_of(rfsize.compile) | keywords_of(rfsize.shrink)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    return Kinds(tmp_path_factory.mktemp("errors"))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{part}: {name}") for part, of in CASES.items() for name, case in of.items()]
)
@pytest.mark.filterwarnings("ignore")
def test_error(case: Case, at: Kinds) -> None:
    with pytest.raises(case.error, match=re.escape(case.names)) as raised:
        case.call(at)
    assert type(raised.value) is case.error
    message = str(raised.value)
    for name, function, given in advised_calls(message):
        assert function is not None, name
        assert given <= keywords_of(function), name
    assert _said_to_the_caller(message) <= _arguments(raised.tb)


@pytest.mark.parametrize(
    ("kind", "advised"), [("xgboost_loaded", {"seed": 3, "subsample": 0.632}), ("xgboost_weighted", "weights")]
)
@pytest.mark.filterwarnings("ignore")
def test_outputs_of_what_a_booster_does_not_store_are_taken(kind: str, advised: Any, at: Kinds) -> None:
    """As messages advise: the outputs in place of model and rows."""
    options = {"sample_weight": at.weights} if advised == "weights" else advised
    outputs = rfsize.tree_outputs(getattr(at, kind), at.X, at.y, oob=True, **options)
    assert rfsize.size(outputs, alpha=0.9).source == "oob"
    assert rfsize.truncate(outputs, alpha=0.9).num_boosted_rounds() == 1
    assert rfsize.oob_score(outputs).available == rfsize.oob_importance(outputs).available == outputs.n_trees
    assert outputs.predict_proba(fill=0.5).shape == (ROWS, 2)
    assert rfsize.inbag(getattr(at, kind), at.X, at.y, **options).shape == (outputs.n_trees, ROWS)


def _said_to_the_caller(message: str) -> set[str]:
    """The options of rfsize that a message names outside of a call: those of the function that the user called."""
    named = re.findall(r"(?<![\w.'{])(\w+)=(\S?)", without_calls(message))
    return {name for name, value in named if name in OPTIONS and (name not in OF_TRAININGS or value in {"", ",", "."})}


def _arguments(traceback: Any) -> set[str]:
    """The arguments of the outermost function of rfsize's in the traceback."""
    while "rfsize" not in traceback.tb_frame.f_globals["__name__"].split("."):
        traceback = traceback.tb_next
    frame: FrameType = traceback.tb_frame
    return set(inspect.getargs(frame.f_code).args)
