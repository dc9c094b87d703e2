"""Boosted models of every framework, boosting and objective: leaves, raw scores and predictions are its own."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.base import is_classifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import rfsize
import rfsize.models.model
from helpers.in_c import InC
from reference import trees as reference
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_forest, read_model

XGBOOST = tuple(int(part) for part in xgb.__version__.split(".")[:2])
N_ROWS, FIRST, CATEGORY = 400, 5, 2
RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(600, 6)).astype(np.float32).astype(float)
WHOLE[:, CATEGORY] = RNG.choice([-1.0, 0.0, 0.5, 3.0, 7.0, 11.0, 40.0], 600)
SCORE = WHOLE[:, 0] + WHOLE[:, 1] ** 2 + np.isin(WHOLE[:, CATEGORY], (0.5, 7.0)) + 0.3 * RNG.normal(size=600)
GAPS = np.where(RNG.random(WHOLE.shape) < 0.1, np.nan, WHOLE)
GAPS[:, 3] = np.where(RNG.random(600) < 0.3, 0.0, GAPS[:, 3])
CODES = GAPS.copy()  # with a category that is a whole number, as those of LightGBM and XGBoost are
CODES[:, CATEGORY] = np.where(np.isnan(GAPS[:, CATEGORY]), np.nan, np.abs(np.floor(WHOLE[:, CATEGORY])))
POSITIVE, TWO, THREE = np.exp(SCORE / 2), (SCORE > 1).astype(int), np.digitize(SCORE, (0.5, 1.5))
SHARE, WORDS = POSITIVE / POSITIVE.max(), np.where(SCORE > 1, "yes", "no")

OF_THREE, RF = {"num_class": 3}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
LIGHTGBM: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "gbdt": ({"objective": "binary"}, TWO),
    "dart": ({"objective": "binary", "boosting": "dart", "drop_rate": 0.5}, TWO),
    "goss": ({"objective": "binary", "data_sample_strategy": "goss", "sigmoid": 0.5}, TWO),
    "rf": ({"objective": "binary", **RF}, TWO),
    "multiclass": ({"objective": "multiclass", **OF_THREE}, THREE),
    "one-vs-all": ({"objective": "multiclassova", **OF_THREE, "boosting": "dart"}, THREE),
    "rf of classes": ({"objective": "multiclass", **OF_THREE, **RF}, THREE),
    "regression": ({"objective": "regression", "zero_as_missing": True}, SCORE),
    "square root": ({"objective": "regression_l1", "reg_sqrt": True}, SCORE),
    "monotone": ({"objective": "regression", "monotone_constraints": [1, 0, 0, 0, -1, 0]}, SCORE),
    "no missing": ({"objective": "huber", "use_missing": False, "boost_from_average": False}, SCORE),
    "quantile": ({"objective": "quantile", "alpha": 0.9, "path_smooth": 2.0}, SCORE),
    "extra trees": ({"objective": "fair", "extra_trees": True, "max_depth": 3}, SCORE),
    "poisson": ({"objective": "poisson"}, POSITIVE),
    "gamma": ({"objective": "gamma", "bagging_freq": 2, "bagging_fraction": 0.4}, POSITIVE),
    "tweedie": ({"objective": "tweedie"}, POSITIVE),
    "cross-entropy": ({"objective": "cross_entropy"}, SHARE),
    "lambda": ({"objective": "cross_entropy_lambda"}, SHARE),
    "ranking": ({"objective": "lambdarank"}, THREE),
    "custom": ({"objective": lambda score, data: (score - data.get_label(), np.ones(len(score)))}, SCORE),
    "stumps": ({"objective": "binary", "num_leaves": 2, "min_gain_to_split": 3.0}, TWO),
    "one-hot": ({"objective": "binary", "max_cat_to_onehot": 20}, TWO),
    "partitions": ({"objective": "mape", "max_cat_to_onehot": 1, "cat_smooth": 1}, SCORE),
}
DART, SAMPLED = {"booster": "dart", "rate_drop": 0.5}, {"subsample": 0.5, "colsample_bynode": 0.5}
LOGISTIC, SOFTPROB = {"objective": "binary:logistic"}, {"objective": "multi:softprob", **OF_THREE}
TYPES = {"feature_types": ["q", "q", "c", "q", "q", "q"]}
BY_XGBOOST: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "gbtree": (LOGISTIC, TWO),
    "dart": (LOGISTIC | DART, TWO),
    "dart of trees": (LOGISTIC | DART | SAMPLED | {"normalize_type": "forest", "num_parallel_tree": 3}, TWO),
    "parallel trees": (LOGISTIC | SAMPLED | {"num_parallel_tree": 4}, TWO),
    "base_score": (LOGISTIC | {"base_score": 0.2}, TWO),
    "missing is zero": (LOGISTIC | {"missing": 0.0}, TWO),
    "missing is infinite": ({"objective": "reg:squarederror", "missing": np.inf}, SCORE),
    "softprob": (SOFTPROB, THREE),
    "softprob of trees": (SOFTPROB | SAMPLED | {"num_parallel_tree": 2}, THREE),
    "softmax dart": ({"objective": "multi:softmax", **OF_THREE, **DART}, THREE),
    "vectors": (SOFTPROB | {"multi_strategy": "multi_output_tree", "tree_method": "hist"}, THREE),
    "raw": ({"objective": "binary:logitraw"}, TWO),
    "hinge": ({"objective": "binary:hinge"}, TWO),
    "probability": ({"objective": "reg:logistic", "tree_method": "exact"}, SHARE),
    "squared error": ({"objective": "reg:squarederror", "tree_method": "approx"}, SCORE),
    "squared log error": ({"objective": "reg:squaredlogerror", "gamma": 0.05}, POSITIVE),
    "pseudo-huber": ({"objective": "reg:pseudohubererror", "monotone_constraints": "(1,0,0,0,-1,0)"}, SCORE),
    "absolute error": ({"objective": "reg:absoluteerror"}, SCORE),
    "quantile": ({"objective": "reg:quantileerror", "quantile_alpha": 0.8}, SCORE),
    "poisson": ({"objective": "count:poisson", "grow_policy": "lossguide", "max_leaves": 9}, THREE),
    "gamma": ({"objective": "reg:gamma", "max_delta_step": 0.5}, POSITIVE),
    "tweedie": ({"objective": "reg:tweedie"}, POSITIVE),
    "cox": ({"objective": "survival:cox"}, POSITIVE),
    "failure time": ({"objective": "survival:aft"}, POSITIVE),
    "ranking": ({"objective": "rank:ndcg"}, THREE),
    "one-hot": (LOGISTIC | TYPES | {"max_cat_to_onehot": 20}, TWO),
    "partitions": ({"objective": "reg:squarederror", "max_cat_to_onehot": 1, **TYPES}, SCORE),
}
GRADIENT, HISTOGRAM = {"n_estimators": 12, "random_state": 0}, {"max_iter": 12, "min_samples_leaf": 5}
BY_CATEGORY = HISTOGRAM | {"categorical_features": [CATEGORY]}
ADABOOST = {"n_estimators": 15, "random_state": 0}
DEEP = DecisionTreeClassifier(max_depth=3, random_state=0)
SKLEARN: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {
    "binary": (GradientBoostingClassifier(**GRADIENT), WHOLE, WORDS),
    "exponential": (GradientBoostingClassifier(loss="exponential", subsample=0.6, **GRADIENT), WHOLE, WORDS),
    "three, zero": (GradientBoostingClassifier(init="zero", max_features=3, **GRADIENT), WHOLE, THREE),
    "stopped early": (GradientBoostingClassifier(n_iter_no_change=2, n_estimators=99, random_state=0), WHOLE, WORDS),
    "squared": (GradientBoostingRegressor(**GRADIENT), WHOLE, SCORE),
    "huber": (GradientBoostingRegressor(loss="huber", **GRADIENT), WHOLE, SCORE),
    "quantile": (GradientBoostingRegressor(loss="quantile", alpha=0.8, **GRADIENT), WHOLE, SCORE),
    "histogram": (HistGradientBoostingClassifier(**HISTOGRAM), GAPS, WORDS),
    "three by histogram": (HistGradientBoostingClassifier(**HISTOGRAM), GAPS, THREE),
    "categories": (HistGradientBoostingClassifier(**BY_CATEGORY), GAPS, WORDS),
    "three by categories": (HistGradientBoostingClassifier(**BY_CATEGORY), WHOLE, THREE),
    "absolute": (HistGradientBoostingRegressor(loss="absolute_error", **BY_CATEGORY), GAPS, SCORE),
    "poisson": (HistGradientBoostingRegressor(loss="poisson", early_stopping=True, **HISTOGRAM), WHOLE, POSITIVE),
    "gamma": (HistGradientBoostingRegressor(loss="gamma", **BY_CATEGORY), WHOLE, POSITIVE),
    "adaboost": (AdaBoostClassifier(**ADABOOST), WHOLE, WORDS),
    "rare by adaboost": (AdaBoostClassifier(**ADABOOST), WHOLE, np.where(np.arange(len(WHOLE)) % 19, "no", "yes")),
    "three by adaboost": (AdaBoostClassifier(DEEP, **ADABOOST), WHOLE, THREE),
    "four by adaboost": (AdaBoostClassifier(DEEP, **ADABOOST), WHOLE, THREE + (WHOLE[:, 5] > 1)),
}
KINDS = [("lightgbm", name) for name in LIGHTGBM] + [("xgboost", name) for name in BY_XGBOOST]
KINDS += [("sklearn", name) for name in SKLEARN]


def matrix(rows: Any, y: Any = None, *, missing: float = np.nan, objective: str = "", **params: Any) -> xgb.DMatrix:
    given: dict[str, Any] = {"missing": missing, "feature_types": params.get("feature_types")}
    if objective == "survival:aft":
        given |= {"label_lower_bound": y, "label_upper_bound": y}
    else:
        given |= {"label": y, "group": [60] * 10 if objective == "rank:ndcg" and y is not None else None}
    return xgb.DMatrix(rows, enable_categorical=True, **given)


@dataclass(frozen=True)
class Boosted:
    """A trained model, what rfsize reads of it, and what its framework says of rows."""

    framework: str
    native: Any
    rows: np.ndarray
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, Any]:
        return {"missing": self.params["missing"]} if "missing" in self.params else {}

    @property
    def model(self) -> Any:
        return read_model(self.native, **self.missing)

    def predict(self, rows: Any, n_trees: int | None = None) -> np.ndarray:
        if self.framework == "lightgbm":
            return self.native.predict(rows, num_iteration=n_trees)
        if self.framework == "xgboost":
            return self.native.predict(matrix(rows, **self.params), iteration_range=(0, n_trees or 0))
        if n_trees is None:
            return self.native.predict(rows)
        return next(itertools.islice(self.native.staged_predict(rows), n_trees - 1, None))

    def raw(self, rows: Any) -> np.ndarray:
        """Raw scores; numbers of scikit-learn's regressors."""
        if self.framework == "lightgbm":
            return self.native.predict(rows, raw_score=True).reshape(len(rows), -1)
        if self.framework == "xgboost":
            return self.native.predict(matrix(rows, **self.params), output_margin=True).reshape(rows.shape[0], -1)
        return getattr(self.native, "decision_function", self.native.predict)(rows).reshape(len(rows), -1)

    def added_up(self, leaves: np.ndarray) -> np.ndarray:
        """The same from the values of leaves."""
        trees = self.model.ensemble
        raw = np.array([reference.raw_score(trees, reached) for reached in leaves])
        if self.framework != "sklearn":
            return raw
        raw = raw / trees.conventions.divisor
        if trees.nodes.value.shape[1] == 2:  # AdaBoost takes the difference of the scores of two classes
            raw = raw[:, 1:] - raw[:, :1]
        return trees.link.predicted(raw) if trees.conventions.link == "exp" else raw

    def coded(self, rows: np.ndarray) -> np.ndarray:
        """The rows with the codes of scikit-learn's categories."""
        rows, conventions = rows.copy(), self.model.ensemble.conventions
        places = zip(conventions.category_features, conventions.categories, strict=True)
        for feature, categories in places if self.framework == "sklearn" else ():
            code = {category: number for number, category in enumerate(categories)}
            rows[:, feature] = [code.get(value, np.nan) for value in rows[:, feature]]
        return rows

    def adversarial(self, n_rows: int = N_ROWS) -> np.ndarray:
        """Rows of values at which reading or comparing goes wrong most easily, as far as the framework takes them."""
        nodes, rng = self.model.ensemble.nodes, np.random.default_rng(1)
        cuts = nodes.threshold[(nodes.left >= 0) & np.isfinite(nodes.threshold)]
        near = [at(cuts, end) for at in (np.nextafter, after_in_single) for end in (-np.inf, np.inf)]
        odd = [0.0, -0.0, 1e-46, 1e-40, -1e-36, 1e-35, 1.1e-35, 1e30, -3.4e38, 16_777_217.0, 0.1, -1.0, -0.5, 1.5]
        odd += [3.0, 6.999, 7.0, 12.0, 40.0, 254.0, 1000.0, 1e10, 2.0**31]
        is_gradient = isinstance(self.native, GradientBoostingClassifier | GradientBoostingRegressor)
        if not is_gradient and not isinstance(self.native, AdaBoostClassifier):
            odd += [np.nan, np.nan]
            takes_all = self.framework != "xgboost" or self.params.get("missing") == np.inf
            odd += [np.inf, -np.inf] if takes_all else []
            odd += [1e300, -1e300] if self.framework != "xgboost" else []
        rows = rng.choice(np.concatenate([cuts, *near, odd, odd, rng.normal(size=50)]), size=(n_rows, 6))
        known = rng.choice([-1.0, 0.0, 0.5, 3.0, 7.0, 40.0, 0.4999999, 1.0, 8.0, 14.0], n_rows)
        only_known = getattr(self.native, "categorical_features", None) == [CATEGORY]
        is_other = np.isfinite(rows[:, CATEGORY]) if only_known else True
        rows[:, CATEGORY] = np.where(is_other & (rng.random(n_rows) < 0.5), rows[:, CATEGORY], known)
        return rows


def after_in_single(values: np.ndarray, end: float) -> np.ndarray:
    return np.nextafter(values.astype(np.float32), np.float32(end)).astype(float)


@cache
def trained(framework: str, kind: str) -> Boosted:
    if framework == "sklearn":
        model, rows, y = SKLEARN[kind]
        return Boosted(framework, model.fit(rows, y), rows)
    if framework == "xgboost":
        params, y = BY_XGBOOST[kind]
        settings = {name: value for name, value in params.items() if name not in ("missing", "feature_types")}
        settings = {"max_depth": 4, "eta": 0.4, "seed": 3, "nthread": 1} | settings
        return Boosted(framework, xgb.train(settings, matrix(CODES, y, **params), 12), CODES, params)
    params, y = LIGHTGBM[kind]
    group = [60] * 10 if kind == "ranking" else None
    data = lgb.Dataset(CODES, y, group=group, categorical_feature=[2] if kind in ("one-hot", "partitions") else [])
    shared = {"num_leaves": 15, "learning_rate": 0.3, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}
    return Boosted(framework, lgb.train(shared | params, data, 12), CODES, params)


@pytest.fixture(params=KINDS, ids=": ".join)
def boosted(request: pytest.FixtureRequest) -> Boosted:
    return trained(*request.param)


def test_leaves_and_raw_scores_to_the_last_bit(boosted: Boosted) -> None:
    model, rows = boosted.model, boosted.adversarial()
    leaves = np.array([reference.walk(model.ensemble, row) for row in boosted.coded(rows)])
    reached = model.apply(next(model.open(rows).chunks()).read(0, N_ROWS))
    np.testing.assert_array_equal(reached.reshape(N_ROWS, -1), leaves)
    np.testing.assert_array_equal(boosted.added_up(leaves), boosted.raw(rows))


def test_compiled_models_predict_the_same(boosted: Boosted, tmp_path: Path) -> None:
    rows, compiled = boosted.adversarial(), rfsize.compile(boosted.native, **boosted.missing)
    compiled.save(tmp_path / "boosted.rfsize")
    whole = np.random.default_rng(2).integers(-4, 40, size=(200, 6))
    for predictor in (compiled, rfsize.load(tmp_path / "boosted.rfsize")):
        for part in (rows, rows[:3], pd.DataFrame(rows, columns=[f"Column_{place}" for place in range(6)]), whole):
            own, predicted = boosted.predict(np.asarray(part)), predictor.predict(part)
            if boosted.framework == "sklearn" or own.dtype.kind != "f":
                np.testing.assert_array_equal(predicted, own)
            else:  # but for last bits of the mathematics library
                np.testing.assert_array_max_ulp(predicted, own, maxulp=4, dtype=np.float32)


@pytest.mark.parametrize(("kind", "of"), [(("lightgbm", "lambda"), "numbers"), (("xgboost", "hinge"), "probabilities")])
def test_links_in_c(kind: tuple[str, str], of: str, tmp_path: Path) -> None:
    boosted = trained(*kind)
    rows = boosted.adversarial()
    numbers = getattr(InC(rfsize.compile(boosted.native), tmp_path), of)(rows).reshape(len(rows), -1)
    np.testing.assert_allclose(numbers[:, -1], boosted.predict(rows), rtol=1e-13)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] != "sklearn"], ids=": ".join)
def test_links(kind: tuple[str, str]) -> None:
    boosted = trained(*kind)
    trees, raw = boosted.model.ensemble, boosted.raw(boosted.rows).astype(np.float64)
    raw = trees.raw_score(raw, trees.n_trees) if kind[0] == "lightgbm" else raw  # of a forest too
    predicted = trees.link.predicted(raw)
    if boosted.params["objective"] == "multi:softmax":
        predicted = predicted.argmax(axis=1)[:, None]
    np.testing.assert_allclose(predicted, boosted.predict(boosted.rows).reshape(len(raw), -1), rtol=1e-5)


@pytest.mark.parametrize("name", [name for name, given in SKLEARN.items() if is_classifier(given[0])])
def test_labels_and_probabilities(name: str, tmp_path: Path) -> None:
    """Compiled here, and labels in C."""
    boosted = trained("sklearn", name)
    rows, compiled = boosted.adversarial(), rfsize.compile(boosted.native)
    bit = 2.3e-16 if isinstance(boosted.native, AdaBoostClassifier) else 0.0  # which divides where others multiply
    for part in (rows, rows[:3]):
        np.testing.assert_allclose(compiled.predict_proba(part), boosted.native.predict_proba(part), 0.0, bit)
    labels, _ = InC(compiled, tmp_path).labels(boosted.coded(rows))
    np.testing.assert_array_equal(compiled.classes[labels], boosted.native.predict(rows))


def test_first_trees(boosted: Boosted) -> None:
    rows, small = boosted.rows, boosted.model.first(FIRST)
    first = Boosted(boosted.framework, small, rows, boosted.params)
    np.testing.assert_array_equal(first.predict(rows), boosted.predict(rows, FIRST))
    assert first.model.n_trees == FIRST


def test_only_rf_is_a_forest(boosted: Boosted) -> None:
    """Boosting has no limit."""
    is_forest = boosted.params.get("boosting") == "rf"
    with contextlib.nullcontext() if is_forest else pytest.raises(NotAForestError, match="compile"):
        assert read_forest(boosted.native).n_trees == 12


# Categories and rows


@pytest.mark.parametrize("kind", ["gbtree", "missing is zero", "dart"])
def test_entries_that_sparse_rows_lack_are_missing(kind: str) -> None:
    boosted = trained("xgboost", kind)
    rows, trees = boosted.adversarial(200), boosted.model.ensemble
    is_stored = np.random.default_rng(2).random(rows.shape) < 0.6
    entries = sp.csr_matrix((rows[is_stored], np.nonzero(is_stored)), rows.shape)
    leaves = np.array([reference.walk(trees, row) for row in np.where(is_stored, rows, np.nan)])
    np.testing.assert_array_equal(boosted.model.apply(entries).reshape(200, -1), leaves)
    np.testing.assert_array_equal(boosted.added_up(leaves), boosted.raw(entries))


@pytest.mark.skipif(XGBOOST < (3, 1), reason="XGBoost keeps no categories before 3.1")
def test_categories_beyond_ascii_are_those_of_training() -> None:
    names = ["中", "中a", "a中"]
    frame = pd.DataFrame({"a": GAPS[:, 0], "b": pd.Categorical(np.array(names)[THREE], names)})
    booster = xgb.train(LOGISTIC, xgb.DMatrix(frame, TWO, enable_categorical=True), 5)
    coded, model = np.column_stack([frame["a"], frame["b"].cat.codes]), read_model(booster)
    leaf = booster.predict(xgb.DMatrix(frame, enable_categorical=True), pred_leaf=True)
    for rows in (coded, next(model.open(frame).chunks()).read(0, len(frame))):
        np.testing.assert_array_equal(model.apply(rows)[:, :, 0] - model.ensemble.tree_start[:, 0], leaf)
    with pytest.raises(ValueError, match=r"\['b'\]"):
        model.open(frame.assign(b=frame["b"].cat.reorder_categories(names[::-1])))
    with pytest.raises(NotAForestError, match="ASCII"):
        rfsize.compile(booster)


@pytest.mark.parametrize("name", ["binary", "squared", "adaboost"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_rows_that_scikit_learn_refuses_are_refused(name: str, value: float) -> None:
    model, rows = trained("sklearn", name).native, np.where(np.arange(6) == 3, value, WHOLE[:20])
    for predict in (model.predict, rfsize.compile(model).predict):
        with pytest.raises(ValueError):  # noqa: PT011 - of scikit-learn
            predict(rows)


# Which trees there are


@pytest.mark.parametrize("kind", ["gbtree", "dart", "softprob of trees"])
@pytest.mark.parametrize("part", [slice(2, 5), slice(0, 6, 2)], ids=str)
def test_slices_of_xgboost(kind: str, part: slice) -> None:
    boosted = Boosted("xgboost", trained("xgboost", kind).native[part], CODES)
    trees, rows = boosted.model.ensemble, CODES[:100]
    assert trees.n_trees == 3
    leaves = np.array([reference.walk(trees, row) for row in rows])
    np.testing.assert_array_equal(boosted.added_up(leaves), boosted.raw(rows))


@pytest.mark.parametrize("kind", [GradientBoostingClassifier, HistGradientBoostingClassifier])
def test_ties_go_where_the_model_sends_them(kind: Any) -> None:
    """A raw score of exactly zero is class 1 in GradientBoosting, and class 0 in HistGradientBoosting."""
    rows = np.zeros((10, 1))
    model = kind().fit(rows, np.arange(10) % 2)
    np.testing.assert_array_equal(rfsize.compile(model).predict(rows), model.predict(rows))


# What is not read


def altered(model: Any, **attributes: Any) -> Any:
    """As other versions of scikit-learn make it: before 1.6, or some to come."""
    vars(model).pop("_baseline_prediction", None)
    vars(model).update(attributes)
    return model


def xgboost(params: dict[str, Any], y: Any = SCORE, rounds: int = 3) -> xgb.Booster:
    return xgb.train(params, xgb.DMatrix(GAPS, y), rounds)


FEW = {"objective": "regression", "verbosity": -1}
LINEAR = FEW | {"linear_tree": True}
REFUSED: dict[str, Callable[[], Any]] = {
    "linear_tree=False": lambda: lgb.train(LINEAR, lgb.Dataset(WHOLE, SCORE), 5),
    "finite": lambda: lgb.train(FEW, lgb.Dataset(GAPS, SCORE), 5).set_leaf_output(1, 0, np.nan),
    "gblinear": lambda: xgboost({"booster": "gblinear"}),
    "several targets": lambda: xgboost({}, np.column_stack([SCORE, TWO])),
    "targets": lambda: xgboost({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}),
    "no trees": lambda: xgboost({}, rounds=0),
    "binary:logitraw": lambda: xgb.XGBClassifier(objective="binary:logitraw", n_estimators=3).fit(GAPS, TWO),
    "init": lambda: GradientBoostingRegressor(init=RandomForestRegressor(3)).fit(WHOLE, SCORE),
    "AdaBoostRegressor": lambda: AdaBoostRegressor(n_estimators=3).fit(WHOLE, SCORE),
    "LogisticRegression": lambda: AdaBoostClassifier(LogisticRegression(), n_estimators=3).fit(WHOLE, TWO),
    "pred_early_stop": lambda: lgb.LGBMClassifier(n_estimators=3, pred_early_stop=True, verbosity=-1).fit(CODES, TWO),
    "SAMME.R": lambda: altered(AdaBoostClassifier(n_estimators=3).fit(WHOLE, TWO), algorithm="SAMME.R"),
    "_baseline_prediction": lambda: altered(HistGradientBoostingRegressor(max_iter=3).fit(WHOLE, SCORE)),
}


@pytest.mark.parametrize("names", REFUSED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_read(names: str) -> None:
    with pytest.raises(NotAForestError, match=names.replace(".", r"\.")):
        read_model(REFUSED[names]())
