"""One small real forest of each kind, trained once a process, and what its framework says of its single trees."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import sklearn
import xgboost as xgb
from scipy.special import expit, softmax
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.fixes import parse_version

import reference.bagging

N_ROWS, N_FRESH, N_TREES, SEED = 500, 150, 31, 3
NAMES = np.array(["ash", "elm", "oak"])
LIGHTGBM = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "seed": SEED}
LIGHTGBM |= {"bagging_seed": SEED, "feature_fraction": 0.6, "num_leaves": 7, "num_threads": 1, "verbose": -1}
XGBOOST = {"objective": "binary:logistic", "num_parallel_tree": N_TREES, "subsample": 0.632, "eta": 1, "seed": SEED}
XGBOOST |= {"colsample_bynode": 0.6, "max_depth": 4, "nthread": 1, "tree_method": "hist"}
WRAPPER = {"boosting_type": "rf", "n_estimators": N_TREES, "subsample": 0.632, "subsample_freq": 1, "num_leaves": 7}
WRAPPER |= {"colsample_bytree": 0.6, "n_jobs": 1, "verbose": -1, "random_state": SEED}
ONE_ROUND = {"n_estimators": 1, "num_parallel_tree": N_TREES, "learning_rate": 1, "subsample": 0.632, "max_depth": 4}
ONE_ROUND |= {"colsample_bynode": 0.6, "n_jobs": 1, "random_state": SEED}

_rng = np.random.default_rng(7)
X, FRESH = _rng.normal(size=(N_ROWS, 6)), _rng.normal(size=(N_FRESH, 6))
_signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * _rng.normal(size=N_ROWS)
TWO, THREE, NUMBER = (_signal > 0.3).astype(int), np.digitize(_signal, [-0.5, 0.7]), _signal
WEIGHT = _rng.uniform(0.5, 2.0, size=N_ROWS)


def frame(rows: np.ndarray) -> pd.DataFrame:
    """The same columns with names, two of them as categories, of words and of numbers, and some values missing."""
    table = pd.DataFrame(rows, columns=list("abcdef"), copy=True)  # before pandas 3, the next line would change `rows`
    table.loc[rows[:, 3] > 1.0, "a"] = np.nan
    words = np.where(rows[:, 4] > 1.2, None, np.array(["p", "q", "r", "s"])[np.digitize(rows[:, 1], [-1.0, 0.0, 1.0])])
    return table.assign(b=pd.Categorical(words, list("pqrs")), c=pd.Categorical((rows[:, 2] > 0) + 1, [1, 2]))


@dataclass(frozen=True)
class Forest:
    """A trained forest with its rows.

    Attributes
    ----------
    model : booster or estimator
        Shared by all tests: change a copy.
    X, y, weight, fresh
        Training rows, labels or numbers, weights (or None); rows that it was not trained on.
    n_classes : int
        0 for a regression.
    link : function
        From mean scores, (n_rows, n_scores), to probabilities, (n_rows, 1 or n_classes), or numbers, (n_rows, 1).
    training : dict
        ``y`` and ``sample_weight`` as rfsize's functions take them for training rows.
    """

    framework: str
    model: Any
    X: Any
    y: np.ndarray
    fresh: Any = None
    weight: np.ndarray | None = None
    n_classes: int = 2
    fraction: Any = 0.632
    freq: int = 1
    link: Callable[[np.ndarray], np.ndarray] = np.asarray
    _scores: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def training(self) -> dict[str, Any]:
        return {"y": self.y} | ({} if self.weight is None else {"sample_weight": self.weight})

    @property
    def is_estimator(self) -> bool:
        return hasattr(self.model, "fit")

    def predict(self, rows: Any) -> np.ndarray:
        """What ``predict`` of the model gives."""
        return own_predict(self.model, rows)

    def predict_proba(self, rows: Any) -> np.ndarray:
        """The framework's probabilities of each class, (n_rows, n_classes)."""
        if self.is_estimator:
            return np.asarray(self.model.predict_proba(rows))
        share = self.predict(rows)
        if self.n_classes == 2:
            return np.stack([1.0 - share, share], axis=1)
        return share if share.ndim == 2 else softmax(own_predict(self.model, rows, margin=True), axis=1)

    def tree_scores(self, rows: Any) -> np.ndarray:
        """Score of each tree alone by the framework (scikit-learn: its prediction), (n_trees, n_rows, n_scores)."""
        if rows is not self.X and rows is not self.fresh:
            return single_trees(self.model, rows)
        if id(rows) not in self._scores:
            self._scores[id(rows)] = single_trees(self.model, rows)
        return self._scores[id(rows)]

    def tree_labels(self, rows: Any) -> np.ndarray:
        """Index of the class that each tree alone predicts, (n_trees, n_rows)."""
        score = self.tree_scores(rows)
        if score.shape[2] > 1:
            return score.argmax(axis=2)
        return (score[:, :, 0] > (0.5 if self.framework == "sklearn" else 0.0)).astype(int)

    def predicted(self, score: np.ndarray) -> np.ndarray:
        """Probabilities of each class, (n_rows, n_classes), or numbers, (n_rows,), from mean scores."""
        predicted = self.link(score)
        if self.n_classes == 0:
            return predicted[:, 0]
        return predicted if predicted.shape[1] > 1 else np.hstack([1.0 - predicted, predicted])

    @cached_property
    def bags(self) -> np.ndarray:
        """The framework's own bags, of bool, (n_trees, n_rows, 1), or a bag for each class in the place of 1."""
        if self.framework == "lightgbm":
            return reference.bagging.lightgbm_inbag(N_TREES, N_ROWS, SEED, self.fraction, self.freq)[:, :, None]
        if self.framework == "xgboost":
            booster = self.model.get_booster() if self.is_estimator else self.model
            bags = reference.bagging.xgboost_inbag(booster, N_ROWS, SEED, 0.632, bynode=True, max_depth=4)
            return bags.reshape(-1, N_TREES, N_ROWS).transpose(1, 2, 0)
        return np.stack([np.isin(np.arange(N_ROWS), drawn) for drawn in self.model.estimators_samples_])[:, :, None]

    @property
    def inbag(self) -> np.ndarray:
        """Whether any tree of each iteration saw each row, (n_trees, n_rows)."""
        return self.bags.any(axis=2)


def own_predict(model: Any, rows: Any, *, margin: bool = False) -> np.ndarray:
    """What the framework itself predicts of rows of any kind that it takes."""
    if isinstance(model, xgb.Booster):
        types = model.feature_types if isinstance(rows, np.ndarray) else None
        return model.predict(xgb.DMatrix(rows, feature_types=types, enable_categorical=True), output_margin=margin)
    return np.asarray(model.predict(rows))


def kept_in(booster: Any, way: str, folder: Path) -> Any:
    """The booster read again from a file of its framework's ("text", "json", "ubj"), or from a pickle."""
    if way == "pickle":
        return pickle.loads(pickle.dumps(booster))
    booster.save_model(folder / f"model.{way}")
    return type(booster)(model_file=folder / f"model.{way}")


def single_trees(model: Any, rows: Any) -> np.ndarray:
    """Score of each tree alone by its framework (scikit-learn: its prediction), (n_trees, n_rows, n_scores)."""
    if isinstance(model, lgb.Booster | lgb.LGBMModel):
        return _lightgbm_scores(model, rows)
    return (_xgboost_scores if isinstance(model, xgb.Booster | xgb.XGBModel) else _sklearn_scores)(model, rows)


def only_xgboost_tree(booster: xgb.Booster, tree: int) -> xgb.Booster:
    """The forest reduced to one tree (of each class), which weighs as much as all of them."""
    document = json.loads(booster.save_raw("json"))
    forest = document["learner"]["gradient_booster"]["model"]
    n_trees = int(forest["gbtree_model_param"]["num_parallel_tree"])
    kept = forest["trees"][tree::n_trees]
    for number, node in enumerate(kept):
        node["id"] = number
        leaves = [left == -1 for left in node["left_children"]]
        conditions = zip(node["split_conditions"], leaves, strict=True)
        if "leaf_weights" in node:
            node["leaf_weights"] = [value * n_trees for value in node["leaf_weights"]]
        else:
            node["split_conditions"] = [value * n_trees if leaf else value for value, leaf in conditions]
    forest.update(trees=kept, tree_info=list(range(len(kept))), iteration_indptr=[0, len(kept)])
    forest["gbtree_model_param"].update(num_trees=str(len(kept)), num_parallel_tree="1")
    alone = xgb.Booster()
    alone.load_model(bytearray(json.dumps(document, ensure_ascii=False).encode()))
    return alone


def _xgboost_scores(model: Any, rows: Any) -> np.ndarray:
    booster = model.get_booster() if hasattr(model, "fit") else model
    gradient_booster = json.loads(booster.save_config())["learner"]["gradient_booster"]
    n_trees = int(gradient_booster["gbtree_model_param"]["num_parallel_tree"])
    margins = [own_predict(only_xgboost_tree(booster, tree), rows, margin=True) for tree in range(n_trees)]
    return np.stack([margin.reshape(len(margin), -1) for margin in margins])


def _lightgbm_scores(model: Any, rows: Any) -> np.ndarray:
    booster = model.booster_ if hasattr(model, "fit") else model
    trees = range(booster.current_iteration())
    scores = [booster.predict(rows, raw_score=True, start_iteration=tree, num_iteration=1) for tree in trees]
    return np.stack([score.reshape(len(score), -1) for score in scores])


def _sklearn_scores(model: Any, rows: Any) -> np.ndarray:
    columns = getattr(model, "estimators_features_", [slice(None)] * len(model.estimators_))
    rows, n_classes = np.asarray(rows), len(getattr(model, "classes_", ()))
    scores = np.zeros((len(model.estimators_), len(rows), max(1, n_classes)))
    for score, tree, features in zip(scores, model.estimators_, columns, strict=True):
        if n_classes and hasattr(tree, "predict_proba"):  # a tree may lack classes
            score[:, np.asarray(tree.classes_, dtype=int)] = tree.predict_proba(rows[:, features])
        else:
            score[:, 0] = tree.predict(rows[:, features])
    return scores[:, :, 1:] if n_classes == 2 else scores


KINDS: dict[str, Callable[[], Forest]] = {}
LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **dict.fromkeys(["binary", "multiclassova", "binary:logistic"], expit),
    **dict.fromkeys(["multiclass", "multi:softprob", "multi:softmax"], lambda score: softmax(score, axis=1)),
    **dict.fromkeys(["poisson", "count:poisson"], np.exp),
    **dict.fromkeys(["regression", "reg:squarederror"], np.asarray),
}


# Whether this version of a framework keeps what proves the bags of a kind, and what it lacks if not.
PROVEN_SINCE = {
    "xgboost multi_output": (xgb, "3.2", "XGBoost keeps no sums of trees that score all classes before 3.2"),
    "random forest with gaps": (sklearn, "1.8", "scikit-learn sends some missing values another way before 1.8"),
}


def skip_unproven(kind: str) -> None:
    """Skip a test of bags that this version of a framework does not prove."""
    if kind in PROVEN_SINCE:
        framework, version, lack = PROVEN_SINCE[kind]
        if parse_version(framework.__version__) < parse_version(version):
            pytest.skip(lack)


def model(kind: str) -> Forest:
    """The forest of a kind, the same at each call."""
    skip_unproven(kind)
    return KINDS[kind]()


def _add(name: str, train: Callable[[], Forest]) -> None:
    KINDS[name] = cache(train)


def _lightgbm(
    y: np.ndarray = TWO, n_classes: int = 2, weight: Any = None, table: bool = False, **params: Any
) -> Forest:
    rows, fresh = (frame(X), frame(FRESH)) if table else (X, FRESH)
    booster = lgb.train(LIGHTGBM | params, lgb.Dataset(rows, y, weight=weight), N_TREES)
    fraction: Any = LIGHTGBM["bagging_fraction"]
    if "pos_bagging_fraction" in params:
        fraction = np.where(y == 1, params["pos_bagging_fraction"], params["neg_bagging_fraction"])
    link, freq = LINKS[booster.params["objective"]], params.get("bagging_freq", 1)
    return Forest("lightgbm", booster, rows, y, fresh, weight, n_classes, fraction, freq, link)


def _xgboost(y: np.ndarray = TWO, n_classes: int = 2, weight: Any = None, table: bool = False, **params: Any) -> Forest:
    rows, fresh = (frame(X), frame(FRESH)) if table else (X, FRESH)
    several = {"num_class": n_classes} if n_classes > 2 else {}
    data = xgb.DMatrix(rows, y, weight=weight, enable_categorical=True)
    params = XGBOOST | several | params
    link = LINKS[params["objective"]]
    return Forest("xgboost", xgb.train(params, data, 1), rows, y, fresh, weight, n_classes, link=link)


def _estimator(
    framework: str, estimator: Any, y: np.ndarray, n_classes: int, weight: Any = None, rows: Any = X, fresh: Any = FRESH
) -> Forest:
    given = {} if weight is None else {"sample_weight": weight}
    model, link = estimator.fit(rows, y, **given), np.asarray
    if framework != "sklearn" and n_classes:
        link = expit if n_classes == 2 else LINKS["multiclass"]
    return Forest(framework, model, rows, y, fresh, weight, n_classes, link=link)


def _sklearn(
    make: Any, y: np.ndarray, n_classes: int, weight: Any = None, rows: Any = X, fresh: Any = FRESH, **params: Any
) -> Forest:
    estimator = make(n_estimators=N_TREES, random_state=SEED, **params)
    return _estimator("sklearn", estimator, y, n_classes, weight, rows, fresh)


def _with_gaps(rows: np.ndarray) -> np.ndarray:
    gaps = rows.copy()
    gaps[:, 0][rows[:, 3] > 0.8] = np.nan
    return gaps


_add("lightgbm", _lightgbm)
_add("lightgbm multiclass", lambda: _lightgbm(THREE, 3, objective="multiclass", num_class=3))
_add("lightgbm one-vs-all", lambda: _lightgbm(THREE, 3, objective="multiclassova", num_class=3))
_add("lightgbm regression", lambda: _lightgbm(NUMBER, 0, objective="regression"))
_add("lightgbm poisson", lambda: _lightgbm(THREE, 0, objective="poisson"))
_add("lightgbm pos/neg", lambda: _lightgbm(pos_bagging_fraction=0.8, neg_bagging_fraction=0.4))
_add("lightgbm weights", lambda: _lightgbm(weight=WEIGHT))
_add("lightgbm categories", lambda: _lightgbm(table=True, min_data_per_group=5, cat_smooth=1.0, max_cat_to_onehot=1))
_add(
    "LGBMClassifier", lambda: _estimator("lightgbm", lgb.LGBMClassifier(**WRAPPER, bagging_seed=SEED), NAMES[THREE], 3)
)
_add("LGBMRegressor", lambda: _estimator("lightgbm", lgb.LGBMRegressor(**WRAPPER, bagging_seed=SEED), NUMBER, 0))
_add("xgboost", _xgboost)
_add("xgboost softprob", lambda: _xgboost(THREE, 3, objective="multi:softprob"))
_add("xgboost softmax", lambda: _xgboost(THREE, 3, objective="multi:softmax"))
_add("xgboost multi_output", lambda: _xgboost(THREE, 3, objective="multi:softprob", multi_strategy="multi_output_tree"))
_add("xgboost regression", lambda: _xgboost(NUMBER, 0, objective="reg:squarederror"))
_add("xgboost poisson", lambda: _xgboost(THREE, 0, objective="count:poisson"))
_add("xgboost weights", lambda: _xgboost(weight=WEIGHT))
_add("xgboost categories", lambda: _xgboost(table=True))
_add("XGBClassifier", lambda: _estimator("xgboost", xgb.XGBClassifier(**ONE_ROUND), TWO, 2))
_add("XGBRegressor", lambda: _estimator("xgboost", xgb.XGBRegressor(**ONE_ROUND), NUMBER, 0))
_add("random forest", lambda: _sklearn(RandomForestClassifier, TWO, 2, max_samples=0.5))
_add("random forest of names", lambda: _sklearn(RandomForestClassifier, NAMES[THREE], 3, max_samples=200, max_depth=5))
_add(
    "random forest with gaps",
    lambda: _sklearn(RandomForestClassifier, TWO, 2, rows=_with_gaps(X), fresh=_with_gaps(FRESH)),
)
_add("random forest weights", lambda: _sklearn(RandomForestClassifier, THREE, 3, WEIGHT))
_add("extra-trees", lambda: _sklearn(ExtraTreesClassifier, THREE, 3, bootstrap=True, max_depth=6))
_add("random forest regressor", lambda: _sklearn(RandomForestRegressor, NUMBER, 0, max_depth=6))
_add("bagging", lambda: _sklearn(
    BaggingClassifier, NAMES[TWO], 2, estimator=DecisionTreeClassifier(max_depth=4), max_features=0.7,
    bootstrap=False, max_samples=0.5, bootstrap_features=True,
))  # fmt: skip
_add(
    "bagging of neighbours",
    lambda: _sklearn(BaggingClassifier, TWO, 2, estimator=KNeighborsClassifier(), max_samples=0.5),
)
_add("bagging regressor", lambda: _sklearn(BaggingRegressor, NUMBER, 0, max_samples=200))
_add("bagging of neighbouring numbers", lambda: _sklearn(BaggingRegressor, NUMBER, 0, estimator=KNeighborsRegressor()))

NO_TREES = ("bagging of neighbours", "bagging of neighbouring numbers")
NUMBERS = [kind for kind in KINDS if kind.endswith(("regression", "poisson", "egressor", "numbers"))]
CLASSES = [kind for kind in KINDS if kind not in NUMBERS]
