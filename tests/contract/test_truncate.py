"""A truncated forest is a model of the same kind that predicts the mean of the first trees; yours stays as it is."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.svm import LinearSVC
from sklearn.utils.fixes import parse_version

import rfsize
from helpers.models import (
    FRESH,
    LIGHTGBM,
    N_TREES,
    ONE_ROUND,
    THREE,
    TWO,
    WRAPPER,
    XGBOOST,
    Forest,
    X,
    frame,
    kept_in,
    model,
    own_predict,
    single_trees,
)  # fmt: skip
from rfsize.exceptions import InbagError, NotAForestError

SINGLE = 3e-6


def n_trees(trained: Any) -> int:
    return len(single_trees(trained, FRESH[:1]))


@pytest.mark.parametrize("kept", [1, 8])
def test_truncated_predicts_mean_of_first_trees_and_keeps_bags(forest: Forest, kept: int) -> None:
    before = pickle.dumps(forest.model)
    small = rfsize.truncate(forest.model, n_trees=kept)
    assert pickle.dumps(forest.model) == before
    assert type(small) is type(forest.model)
    assert len(single_trees(small, forest.fresh[:1])) == kept
    expected = forest.predicted(forest.tree_scores(forest.fresh)[:kept].mean(axis=0))
    of_small = Forest(forest.framework, small, forest.X, forest.y, forest.fresh, n_classes=forest.n_classes)
    actual = of_small.predict_proba(forest.fresh) if forest.n_classes else of_small.predict(forest.fresh)
    np.testing.assert_allclose(actual, expected, rtol=SINGLE, atol=SINGLE)
    assert np.array_equal(rfsize.inbag(small, forest.X, **forest.training), forest.inbag[:kept])


@pytest.mark.parametrize(
    "kind", ["lightgbm multiclass", "lightgbm categories", "xgboost softprob", "xgboost categories"]
)
@pytest.mark.parametrize("way", ["text", "json", "ubj", "pickle"])
def test_truncated_is_saved_with_its_bags(kind: str, way: str, tmp_path: Path) -> None:
    """In the framework's own formats."""
    forest = model(kind)
    small = rfsize.truncate(rfsize.truncate(forest.model, n_trees=15), n_trees=8)
    loaded = kept_in(small, way, tmp_path)
    assert np.array_equal(own_predict(loaded, forest.fresh), own_predict(small, forest.fresh))
    assert np.array_equal(rfsize.inbag(loaded, forest.X, **forest.training), forest.inbag[:8])


@pytest.mark.parametrize(
    "kind", ["LGBMClassifier", "XGBClassifier", "random forest of names", "bagging", "extra-trees"]
)
def test_truncated_estimators_are_fitted_as_small(kind: str) -> None:
    forest = model(kind)
    before = forest.model.get_params()
    small = rfsize.truncate(forest.model, n_trees=5)
    again = clone(small).fit(forest.X, forest.y)
    assert n_trees(again) == 5
    assert np.array_equal(again.predict(forest.fresh), small.predict(forest.fresh))
    assert small.classes_.tolist() == forest.model.classes_.tolist()
    assert repr(forest.model.get_params()) == repr(before)


def test_truncated_forgets_scores_of_the_whole() -> None:
    whole = RandomForestClassifier(20, oob_score=True, random_state=0).fit(X, TWO)
    assert not hasattr(rfsize.truncate(whole, n_trees=15), "oob_score_")
    assert hasattr(whole, "oob_score_")


@pytest.mark.skipif(
    parse_version(lgb.__version__) < parse_version("4.7"), reason="LightGBM reads no parameters from strings before 4.7"
)
def test_lightgbm_parameters_tell_the_trees(tmp_path: Path) -> None:
    whole = lgb.train(LIGHTGBM | {"num_iterations": N_TREES}, lgb.Dataset(X, TWO))
    aliased = lgb.LGBMClassifier(**(WRAPPER | {"num_iterations": 12})).fit(X, TWO)
    for small, kept in ((rfsize.truncate(whole, n_trees=7), 7), (rfsize.shrink(whole, FRESH, n_trees=5)[0], 5)):
        small.save_model(tmp_path / "model.txt")
        for booster in (small, lgb.Booster(model_file=tmp_path / "model.txt")):
            assert booster.params["num_iterations"] == booster.current_iteration() == kept
    assert clone(rfsize.truncate(aliased, n_trees=5)).fit(X, TWO).n_estimators_ == 5


def test_lightgbm_early_stopping_decides_the_trees() -> None:
    valid = lgb.Dataset(FRESH, np.zeros(len(FRESH)))
    stop = lgb.early_stopping(3, verbose=False)
    data = lgb.Dataset(X, TWO)
    booster = lgb.train(LIGHTGBM, data, 50, valid_sets=[valid], callbacks=[stop], keep_training_booster=True)
    assert 0 < booster.best_iteration < booster.num_trees()
    assert rfsize.tree_outputs(booster, FRESH).n_trees == booster.best_iteration
    assert np.array_equal(rfsize.compile(booster).predict(FRESH), booster.predict(FRESH))


NAMES_OF_COLUMNS = ["größe", "年齢", 'quoted "€" \\u00e4', "\x01 control \x08", "farbe", "plain"]
TABLE = frame(X).rename(columns=dict(zip("acdefb", NAMES_OF_COLUMNS, strict=True)))


def kept_of_xgboost(booster: xgb.Booster) -> dict[str, Any]:
    """All that can be read of a booster but its trees, and what rfsize notes."""
    config = json.loads(booster.save_config())["learner"]
    del config["gradient_booster"]["gbtree_model_param"]
    stored = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    attributes = {name: text for name, text in booster.attributes().items() if not name.startswith("rfsize")}
    facts = (booster.feature_names, booster.feature_types, booster.num_features(), booster.num_boosted_rounds())
    return {"facts": facts, "attributes": attributes, "categories": stored.get("cats"), "config": config}


def shrunk(booster: Any, n_trees: int) -> Any:
    return rfsize.shrink(booster, TABLE[::-1], n_trees=n_trees)[0]


@pytest.mark.parametrize("make", [rfsize.truncate, shrunk])
def test_xgboost_names_types_and_attributes_are_kept(make: Callable[..., Any]) -> None:
    rows = xgb.DMatrix(TABLE, TWO, enable_categorical=True)
    booster = xgb.train(XGBOOST, rows, 1)
    booster.set_attr(note="größe \x0c\n \\u00f6", ключ="😀")
    small = make(booster, n_trees=10)
    assert kept_of_xgboost(small) == kept_of_xgboost(booster)
    assert len(small.get_dump()) == 10
    assert rfsize.truncate(booster, n_trees=N_TREES).predict(rows).tolist() == booster.predict(rows).tolist()


@pytest.mark.skipif(not hasattr(xgb, "XGBRFClassifier"), reason="this XGBoost has the wrappers no more")
@pytest.mark.filterwarnings("ignore:`XGBRF.*` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ["XGBRFClassifier", "XGBRFRegressor"])
def test_xgboosts_forest_wrappers(name: str) -> None:
    y = TWO if name == "XGBRFClassifier" else X[:, 0]
    whole = getattr(xgb, name)(n_estimators=41, random_state=1).fit(X, y)
    small = rfsize.truncate(whole, n_trees=11)
    assert (type(small), small.n_estimators, whole.n_estimators) == (type(whole), 11, 41)
    np.testing.assert_allclose(clone(small).fit(X, y).predict(FRESH), small.predict(FRESH), rtol=1e-5)
    assert rfsize.inbag(whole, X).shape == (41, len(X))
    grown, _ = rfsize.grow(whole, X, y, metric="scores", tolerance=1.0, max_trees=60, min_trees=45)
    assert type(grown) is type(whole)
    assert grown.n_estimators == rfsize.tree_outputs(grown, FRESH).n_trees >= 41


WITHOUT_WRAPPERS = """
import numpy as np, xgboost, xgboost.sklearn
for module in (xgboost, xgboost.sklearn):
    for name in ("XGBRFClassifier", "XGBRFRegressor"):
        vars(module).pop(name, None)
import rfsize
X = np.random.default_rng(7).normal(size=(300, 6))
for kind, y in ((xgboost.XGBClassifier, (X[:, 0] > 0).astype(int)), (xgboost.XGBRegressor, X[:, 0])):
    forest = kind(n_estimators=1, num_parallel_tree=20, learning_rate=1, subsample=0.6, n_jobs=1).fit(X, y)
    assert rfsize.truncate(forest, n_trees=7).num_parallel_tree == 7
    assert type(rfsize.grow(forest, X, y, metric="scores", tolerance=1.0, max_trees=30, min_trees=25)[0]) is kind
    assert np.array_equal(rfsize.compile(forest).predict(X), forest.predict(X))
"""


def test_xgboost_without_its_forest_wrappers() -> None:
    """XGBoost 3.4 deprecates them. In an interpreter of its own, where they are gone before rfsize is imported."""
    command = [sys.executable, "-W", "error::FutureWarning", "-c", WITHOUT_WRAPPERS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


INSIDE = {"lightgbm": lgb.LGBMClassifier(**WRAPPER), "xgboost": xgb.XGBClassifier(**ONE_ROUND)}
INSIDE["sklearn"] = RandomForestClassifier(20, random_state=0)  # full trees, whose means are often at the threshold
THRESHOLDS: dict[str, Callable[[Any], Any]] = {
    "fixed": lambda forest: FixedThresholdClassifier(forest, threshold=0.25),
    "fixed for class 0": lambda forest: FixedThresholdClassifier(forest, threshold=0.9, pos_label=0),
    "automatic": lambda forest: FixedThresholdClassifier(forest),
    "tuned for class 0": lambda forest: TunedThresholdClassifierCV(
        forest, scoring=make_scorer(f1_score, pos_label=0), cv=2, random_state=0
    ),
    "frozen": lambda forest: FixedThresholdClassifier(FrozenEstimator(clone(forest).fit(X, TWO)), threshold=0.3),
    "right-sized": lambda forest: FixedThresholdClassifier(
        rfsize.RightSizedClassifier(forest, alpha=0.97, min_trees=30, max_trees=60), threshold=0.3
    ),
}


@pytest.mark.filterwarnings("ignore::rfsize.exceptions.RfsizeWarning")
@pytest.mark.parametrize("how", THRESHOLDS)
@pytest.mark.parametrize("framework", INSIDE)
def test_threshold_classifiers(framework: str, how: str) -> None:
    whole = THRESHOLDS[how](clone(INSIDE[framework])).fit(X, TWO)
    before = whole.predict(FRESH)
    small = rfsize.truncate(whole, n_trees=5)
    assert type(small) is type(whole)
    assert whole.predict(FRESH).tolist() == before.tolist()
    for forest in (whole, small):
        assert rfsize.compile(forest).predict(FRESH).tolist() == forest.predict(FRESH).tolist()
        assert rfsize.tree_outputs(forest, FRESH).predict().tolist() == forest.predict(FRESH).tolist()
    assert rfsize.compile(small).n_trees == 5


@pytest.mark.parametrize("inside", [lambda forest: forest, FrozenEstimator], ids=["forest", "frozen"])
def test_threshold_classifiers_forget_the_whole(inside: Callable[[Any], Any]) -> None:
    """What their constructor was given is pickled too."""
    forest = RandomForestClassifier(40, random_state=0).fit(X, TWO)
    small = rfsize.truncate(FixedThresholdClassifier(inside(forest), threshold=0.25).fit(X, TWO), n_trees=5)
    assert len(pickle.dumps(small)) < 1.2 * len(pickle.dumps(rfsize.truncate(forest, n_trees=5)))


def test_thresholds_of_votes_out_of_bag() -> None:
    # Not at 1/4, which shares of 20 trees reach: this estimator takes ties for class 1.
    whole = FixedThresholdClassifier(clone(INSIDE["sklearn"]), threshold=0.26).fit(X, TWO)
    expected = rfsize.tree_outputs(whole.estimator_, X, oob=True, threshold=0.26).votes
    assert rfsize.tree_outputs(whole, X, oob=True).votes.counts.tolist() == expected.counts.tolist()
    voters = FixedThresholdClassifier(
        BaggingClassifier(LinearSVC(), 30, max_samples=0.2, random_state=0), threshold=0.25
    )
    assert rfsize.tree_outputs(voters.fit(X, TWO), FRESH).predict().tolist() == voters.predict(FRESH).tolist()


class Resampled(RandomForestClassifier):
    """As imbalanced-learn's `BalancedRandomForestClassifier`: a sampler for each tree, and nothing about the bags."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Resampled:
        own = RandomForestClassifier(**self.get_params()).fit(X, y, sample_weight)
        for name in ("classes_", "n_classes_", "n_features_in_", "n_outputs_", "estimators_"):
            setattr(self, name, getattr(own, name))
        self.samplers_ = [np.zeros(1000) for _ in self.estimators_]
        return self


class View(RandomForestClassifier):
    """As Intel's forests: another model predicts, and the list of trees is made from it each time."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> View:
        self._other = RandomForestClassifier(**self.get_params()).fit(X, y, sample_weight)
        for name in ("classes_", "n_classes_", "n_features_in_", "n_outputs_", "_n_samples", "_n_samples_bootstrap"):
            setattr(self, name, getattr(self._other, name))
        return self

    @property
    def estimators_(self) -> list[Any]:
        return list(self._other.estimators_)

    def predict_proba(self, X: Any) -> Any:
        return self._other.predict_proba(X)


@pytest.mark.parametrize("kind", [Resampled, View])
def test_subclasses_of_others_have_unknown_bags(kind: Any) -> None:
    """Rows that they were not trained on need none."""
    forest = kind(20, random_state=0).fit(X, THREE)
    for call in (rfsize.inbag, partial(rfsize.tree_outputs, oob=True), partial(rfsize.grow, y=THREE, max_trees=150)):
        with pytest.raises(InbagError, match=kind.__name__):
            call(forest, X)
    fast = rfsize.compile(forest)
    assert fast.predict_proba(FRESH).tolist() == forest.predict_proba(FRESH).tolist()
    assert rfsize.tree_outputs(forest, FRESH).votes == fast.votes(FRESH)


def test_subclasses_of_others_are_cut_whole_or_not() -> None:
    resampled, view = (kind(20, random_state=0).fit(X, TWO) for kind in (Resampled, View))
    small = rfsize.truncate(resampled, n_trees=5)
    assert len(small.estimators_) == len(small.samplers_) == small.n_estimators == 5
    first = np.mean([tree.predict_proba(FRESH) for tree in resampled.estimators_[:5]], axis=0)
    np.testing.assert_allclose(small.predict_proba(FRESH), first)
    assert len(resampled.estimators_) == len(resampled.samplers_) == 20
    for cut in (rfsize.truncate, lambda forest, n_trees: rfsize.shrink(forest, FRESH, n_trees=n_trees)):
        with pytest.raises(NotAForestError, match="View"):
            cut(view, n_trees=5)
