"""Scikit-learn's boosted models as arrays: its own leaves, raw scores, labels and predictions."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from functools import cache

import numpy as np
import pandas as pd
import pytest
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
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.tree import DecisionTreeClassifier

import rfsize
from reference import trees as reference
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_forest, read_model
from rfsize.models.model import first_trees

N_ROWS, CATEGORY = 1000, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 6))
X[:, CATEGORY] = RNG.choice([-1.0, 0.0, 0.5, 3.0, 7.0, 40.0], 500)
SCORE = X[:, 0] + X[:, 1] ** 2 + np.isin(X[:, CATEGORY], (0.5, 7.0)) + 0.3 * RNG.normal(size=500)
POSITIVE, TWO, THREE = np.exp(SCORE / 2), np.where(SCORE > 1, "yes", "no"), np.digitize(SCORE, (0.5, 1.5))
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)

GRADIENT = {"n_estimators": 12, "random_state": 0}
HISTOGRAM = {"max_iter": 12, "min_samples_leaf": 5, "random_state": 0}
BY_CATEGORY = HISTOGRAM | {"categorical_features": [CATEGORY]}
DEEP = DecisionTreeClassifier(max_depth=3, random_state=0)

KINDS = {
    "binary": (GradientBoostingClassifier(**GRADIENT), X, TWO),
    "exponential": (GradientBoostingClassifier(loss="exponential", subsample=0.6, **GRADIENT), X, TWO),
    "three, zero": (GradientBoostingClassifier(init="zero", max_features=3, **GRADIENT), X, THREE),
    "stopped early": (GradientBoostingClassifier(n_iter_no_change=2, n_estimators=99, learning_rate=0.9), X, TWO),
    "squared": (GradientBoostingRegressor(**GRADIENT), X, SCORE),
    "huber": (GradientBoostingRegressor(loss="huber", **GRADIENT), X, SCORE),
    "quantile": (GradientBoostingRegressor(loss="quantile", alpha=0.8, **GRADIENT), X, SCORE),
    "histogram": (HistGradientBoostingClassifier(**HISTOGRAM), GAPS, TWO),
    "three by histogram": (HistGradientBoostingClassifier(**HISTOGRAM), GAPS, THREE),
    "categories": (HistGradientBoostingClassifier(**BY_CATEGORY), GAPS, TWO),
    "three by categories": (HistGradientBoostingClassifier(**BY_CATEGORY), X, THREE),
    "absolute": (HistGradientBoostingRegressor(loss="absolute_error", **BY_CATEGORY), GAPS, SCORE),
    "poisson": (HistGradientBoostingRegressor(loss="poisson", early_stopping=True, **HISTOGRAM), X, POSITIVE),
    "gamma": (HistGradientBoostingRegressor(loss="gamma", **BY_CATEGORY), X, POSITIVE),
    "adaboost": (AdaBoostClassifier(n_estimators=15, random_state=0), X, TWO),
    "three by adaboost": (AdaBoostClassifier(DEEP, n_estimators=15, random_state=0), X, THREE),
    "four by adaboost": (AdaBoostClassifier(DEEP, n_estimators=15, random_state=0), X, THREE + (X[:, 5] > 1)),
}


@cache
def fitted(kind):
    model, rows, y = KINDS[kind]
    return model.fit(rows, y)


@pytest.fixture(params=KINDS)
def boosted(request):
    return fitted(request.param)


@pytest.fixture(params=[kind for kind, (model, _, _) in KINDS.items() if is_classifier(model)])
def classifier(request):
    return fitted(request.param)


def adversarial(model):
    """Rows of values at which reading or comparing goes wrong most easily, as far as the model takes them."""
    nodes = read_model(model).ensemble.nodes
    thresholds = nodes.threshold[(nodes.left >= 0) & np.isfinite(nodes.threshold)]
    near = [np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf)]
    near += [np.float64(np.nextafter(thresholds.astype(np.float32), np.float32(end))) for end in (-np.inf, np.inf)]
    odd = [
        0.0,
        -0.0,
        1e-46,
        -1e-40,
        1e-8,
        1e30,
        -3.4e38,
        16_777_217.0,
        0.1,
        -1.0,
        0.5,
        3.0,
        7.0,
        40.0,
        3.0000001,
        254.0,
    ]
    if isinstance(model, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        odd += [np.nan, np.inf, -np.inf, 1e300, -1e300]
    rng = np.random.default_rng(1)
    rows = rng.choice(np.concatenate([*near, odd, odd, rng.normal(size=50)]), size=(N_ROWS, X.shape[1]))
    known = rng.choice([-1.0, 0.0, 0.5, 3.0, 7.0, 40.0, 0.4999999, 1.0, 8.0], N_ROWS)
    takes_all = np.isfinite(rows[:, CATEGORY]) | (getattr(model, "categorical_features", None) != [CATEGORY])
    rows[:, CATEGORY] = np.where(takes_all & (rng.random(N_ROWS) < 0.5), rows[:, CATEGORY], known)
    return rows


def coded(model, rows):
    """The rows with the codes of their categories."""
    rows = rows.copy()
    conventions = read_model(model).ensemble.conventions
    for feature, categories in zip(conventions.category_features, conventions.categories, strict=True):
        code = {category: number for number, category in enumerate(categories)}
        rows[:, feature] = [code.get(value, np.nan) for value in rows[:, feature]]
    return rows


def raw_scores(model, rows):
    """The raw scores of scikit-learn, shape (n_rows, n_scores)."""
    if hasattr(model, "decision_function"):
        return model.decision_function(rows).reshape(len(rows), -1)
    raw = model.predict(rows)
    return raw.reshape(len(rows), -1)


def test_leaves_and_raw_scores_to_the_last_bit(boosted):
    model, rows = read_model(boosted), adversarial(boosted)
    trees = model.ensemble
    leaves = np.array([reference.walk(trees, row) for row in coded(boosted, rows)])
    np.testing.assert_array_equal(model.apply(model.open(rows).whole().read(0, N_ROWS)).reshape(N_ROWS, -1), leaves)
    raw = np.array([reference.raw_score(trees, reached) for reached in leaves]) / trees.conventions.divisor
    if trees.nodes.value.shape[1] == 2:  # AdaBoost takes the difference of the scores of two classes
        raw = raw[:, 1:] - raw[:, :1]
    linked = trees.link.predicted(raw) if trees.conventions.link == "exp" else raw
    np.testing.assert_array_equal(linked, raw_scores(boosted, rows))


def test_compiled_models_predict_the_same(boosted, tmp_path):
    rows, compiled = adversarial(boosted), rfsize.compile(boosted)
    compiled.save(tmp_path / "boosted.npz")
    for predictor in (compiled, rfsize.load(tmp_path / "boosted.npz")):
        np.testing.assert_array_equal(predictor.predict(rows), boosted.predict(rows))
        np.testing.assert_array_equal(predictor.predict(rows[:3]), boosted.predict(rows[:3]))
        frame = pd.DataFrame(rows)
        np.testing.assert_array_equal(predictor.predict(frame), boosted.predict(frame))


def test_compiled_probabilities(classifier):
    rows, compiled = adversarial(classifier), rfsize.compile(classifier)
    bit = 2.3e-16 if isinstance(classifier, AdaBoostClassifier) else 0.0  # which divides where others multiply
    for part in (rows, rows[:3]):
        np.testing.assert_allclose(compiled.predict_proba(part), classifier.predict_proba(part), 0.0, bit)


def test_labels_in_c(classifier, tmp_path):
    rows, source, library = adversarial(classifier), tmp_path / "boosted.c", tmp_path / "boosted.so"
    compiled = rfsize.compile(classifier)
    compiled.to_c(source)
    subprocess.run(["cc", "-O1", "-std=c99", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    predict = ctypes.CDLL(str(library)).forest_predict_label
    predict.argtypes = [ctypes.POINTER(ctypes.c_double)]
    labels = [predict((ctypes.c_double * 6)(*row)) for row in coded(classifier, rows)]
    np.testing.assert_array_equal(compiled.classes[labels], classifier.predict(rows))


def test_integers_are_not_rounded(boosted):
    rows = np.random.default_rng(2).integers(-4, 40, size=(200, 6))
    np.testing.assert_array_equal(rfsize.compile(boosted).predict(rows), boosted.predict(rows))


def test_first_trees(boosted):
    model, rows = read_model(boosted), adversarial(boosted)
    n_trees = model.n_trees // 2
    small = model.first(n_trees)
    staged = next(itertools.islice(boosted.staged_predict(rows), n_trees - 1, None))
    np.testing.assert_array_equal(small.predict(rows), staged)
    assert read_model(small).n_trees == n_trees
    np.testing.assert_array_equal(rfsize.compile(small).predict(rows), staged)


def test_selected_trees(boosted):
    model, chosen = read_model(boosted), np.array([2, 0])
    kept = read_model(model.select(chosen))
    assert kept.is_pruned
    leaves = np.concatenate([model.apply(X)[:, chosen].reshape(len(X), -1)])
    value = kept.ensemble.nodes.value[kept.apply(X).reshape(len(X), -1)]
    np.testing.assert_array_equal(value, model.ensemble.nodes.value[leaves])


def test_leaves_take_no_new_scores(boosted):
    model = read_model(boosted)
    with pytest.raises(NotAForestError):
        model.select(np.array([1, 2]), model.ensemble.tree_scores)


@pytest.mark.parametrize("kind", ["binary", "squared", "adaboost"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_rows_that_scikit_learn_refuses_are_refused(kind, value):
    rows = np.where(np.arange(6) == 3, value, X[:20])
    for predict in (fitted(kind).predict, rfsize.compile(fitted(kind)).predict):
        with pytest.raises(ValueError):  # noqa: PT011 - of scikit-learn
            predict(rows)


def test_frames_with_words_as_categories():
    words = pd.Categorical(np.array(["p", "q", "r"])[np.digitize(X[:, CATEGORY], [0.0, 5.0])])
    frame = pd.DataFrame({"a": X[:, 0], "b": words, "c": GAPS[:, 1], "d": X[:, 3] > 0})
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", **HISTOGRAM).fit(frame, THREE)
    fresh = frame.assign(b=pd.Categorical(np.where(X[:, 5] > 1, "new", words.astype(str)), ["new", "r", "q", "p"]))
    fresh.loc[:20, "b"] = None
    for rows in (frame, fresh):
        np.testing.assert_array_equal(rfsize.compile(model).predict(rows), model.predict(rows))
        np.testing.assert_array_equal(rfsize.compile(model).predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("kind", [GradientBoostingClassifier, HistGradientBoostingClassifier])
def test_ties_go_where_the_model_sends_them(kind):
    """A raw score of exactly zero is class 1 in GradientBoosting, and class 0 in HistGradientBoosting."""
    rows, y = np.zeros((10, 1)), np.arange(10) % 2
    model = kind().fit(rows, y)
    np.testing.assert_array_equal(rfsize.compile(model).predict(rows), model.predict(rows))


def test_level_votes_of_adaboost():
    model = AdaBoostClassifier(n_estimators=2, random_state=0).fit(X, TWO)
    model.estimator_weights_ = np.array([0.3, 0.3])
    assert (model.decision_function(X) == 0.0).any()
    np.testing.assert_array_equal(rfsize.compile(model).predict(X), model.predict(X))


def test_adaboost_where_rounding_decides():
    model = AdaBoostClassifier(DEEP, n_estimators=40, random_state=0).fit(X, THREE)
    for seed in range(5):
        model.estimator_weights_ = np.random.default_rng(seed).integers(1, 4, len(model.estimators_)) * 0.1
        np.testing.assert_array_equal(rfsize.compile(model).predict(X), model.predict(X))


def test_adaboost_keeps_the_weights_of_lost_members():
    model = AdaBoostClassifier(DEEP, n_estimators=20, random_state=0).fit(X, THREE)
    model.estimators_ = model.estimators_[:7]
    compiled = rfsize.compile(model)
    np.testing.assert_array_equal(compiled.predict(X), model.predict(X))
    np.testing.assert_allclose(compiled.predict_proba(X), model.predict_proba(X), 0.0, 2.3e-16)


def test_sums_of_logarithms_are_no_votes():
    model = AdaBoostClassifier(n_estimators=3).fit(X, TWO)
    model.algorithm = "SAMME.R"  # as before scikit-learn 1.6
    with pytest.raises(NotAForestError, match=r"SAMME\.R"):
        read_model(model)


def test_thresholds_around_boosted_models():
    inside = GradientBoostingClassifier(**GRADIENT)
    model = FixedThresholdClassifier(inside, threshold=0.3, pos_label="yes").fit(X, TWO)
    np.testing.assert_array_equal(rfsize.compile(model).predict(X), model.predict(X))
    small = first_trees(read_model(model), 4)
    assert isinstance(small, FixedThresholdClassifier)
    assert len(small.estimator_.estimators_) == 4


def test_only_forests_have_a_size(boosted):
    with pytest.raises(NotAForestError, match="compile"):
        read_forest(boosted)


REFUSED = {
    "init": (GradientBoostingRegressor(init=RandomForestRegressor(3)), SCORE),
    "AdaBoostRegressor": (AdaBoostRegressor(n_estimators=3), SCORE),
    "LogisticRegression": (AdaBoostClassifier(LogisticRegression(), n_estimators=3), TWO),
}


@pytest.mark.parametrize("match", REFUSED)
def test_refused_by_name(match):
    model, y = REFUSED[match]
    with pytest.raises(NotAForestError, match=match):
        read_model(model.fit(X, y))


def test_unknown_versions_are_refused():
    model = HistGradientBoostingRegressor(**HISTOGRAM).fit(X, SCORE)
    del model._baseline_prediction
    with pytest.raises(NotAForestError, match="_baseline_prediction"):
        read_model(model)
