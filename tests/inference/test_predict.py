"""Compiled forests predict what the framework's own ``predict`` does: labels, probabilities and numbers."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.compiled_forests import (
    CLASSIFIERS,
    REGRESSORS,
    Models,
    answers,
    fresh,
    own_labels,
    own_values,
    takes_missing,
    tree_scores,
)
from helpers.forests import Data, train_lightgbm, train_xgboost


def taken(model: Any, rows: np.ndarray) -> np.ndarray:
    """The rows, with missing values where the framework takes them."""
    if not takes_missing(model):
        return rows
    return np.where(np.random.default_rng(5).random(rows.shape) < 0.1, np.nan, rows)


def assert_same_values(fast: Any, values: np.ndarray, own: np.ndarray) -> None:
    """Equal to the last bit but for a link's own rounding, which the mathematics library of a platform decides."""
    own = own if own.ndim == values.ndim else np.stack([1.0 - own, own], axis=1)
    if fast.forest.conventions.link in ("identity", "square"):
        assert np.array_equal(values, own)
    else:
        precision = fast.forest.trees.value.dtype
        units = np.abs(values - own) / np.spacing(np.maximum(np.abs(own), 0.25).astype(precision))
        assert units.max() <= 4


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_and_probabilities_are_the_framework_s(name: str, models: Models, rows: np.ndarray) -> None:
    model = models(name)
    fast = rfsize.compile(model)
    assert fast.voting == "soft"
    for X in (taken(model, rows), taken(model, rows).astype(np.float32)):
        labels, asked = fast.predict_labels(X, return_trees=True)
        assert np.array_equal(labels, own_labels(model, X))
        assert asked.min() < asked.max() == fast.n_trees
        assert_same_values(fast, fast.predict_proba(X), own_values(model, X))


@pytest.mark.parametrize("name", REGRESSORS)
def test_numbers_are_the_framework_s(name: str, models: Models, rows: np.ndarray) -> None:
    model = models(name)
    fast = rfsize.compile(model)
    assert repr(fast).endswith("trees, regression; predict gives numbers; no stop table)")
    for X in (taken(model, rows), taken(model, rows).astype(np.float32)):
        numbers, asked = fast.predict(X, return_trees=True)
        assert numbers.shape == (len(rows),)
        assert (asked == fast.n_trees).all()
        assert_same_values(fast, numbers, own_values(model, X))


@pytest.mark.parametrize("threshold", [0.06, 0.3, 0.9])
@pytest.mark.parametrize("name", ["lgb booster", "lgb cross entropy", "xgb booster"])
def test_labels_of_a_booster_by_threshold(name: str, threshold: float, models: Models, rows: np.ndarray) -> None:
    model, X = models(name), taken(models(name), rows)
    labels = rfsize.compile(model, threshold=threshold).predict_labels(X)
    assert np.array_equal(labels, own_labels(model, X, threshold))


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_categories(framework: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    letters = list("pqrstuvw")
    X = pd.DataFrame(
        {"x": rng.normal(size=900), "letter": pd.Categorical(rng.choice(letters, 900), categories=letters)}
    )
    X.loc[::7, "letter"] = None
    X.loc[::5, "x"] = np.nan
    signal = X["x"].fillna(1.0) + X["letter"].isin(["q", "t"]) + 0.3 * rng.normal(size=900)
    train: Any = train_lightgbm if framework == "lightgbm" else train_xgboost
    if kind == "classes":
        model = train(X, (signal > 0.5).astype(int), 9)
    else:
        model = train(X, signal, 9, objective="regression" if framework == "lightgbm" else "reg:squarederror")
    fast, few = rfsize.compile(model), X.iloc[:3]
    if kind == "classes":
        assert np.array_equal(fast.predict_labels(X), own_labels(model, X))
        assert_same_values(fast, fast.predict_proba(X), own_values(model, X))
    else:
        assert np.array_equal(fast.predict(X), own_values(model, X))
    assert np.array_equal(fast.predict(few), fast.predict(X)[:3])
    coded = np.column_stack([X["x"], X["letter"].cat.codes.replace(-1, np.nan)])
    if framework == "lightgbm":
        # The codes of its categories mean the same; few rows of an array go another way.
        assert np.array_equal(fast.predict(coded), fast.predict(X))
        assert np.array_equal(np.concatenate([fast.predict(row[None]) for row in coded[:99]]), fast.predict(X)[:99])


FEW = [1, 2, 16, 17]


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_few_rows_are_answered_as_many(name: str, models: Models, rows: np.ndarray) -> None:
    model = models(name)
    fast, X = rfsize.compile(model), taken(model, rows[:500])
    answer = fast.predict if name in REGRESSORS else fast.predict_proba
    of_labels = answers(fast)
    for same in (X, X.astype(np.float32)):
        labels, asked = of_labels(same, return_trees=True)
        values = answer(same)
        for size in FEW:
            for first in range(0, 60, size):
                few = slice(first, first + size)
                again, trees = of_labels(same[few], return_trees=True)
                assert np.array_equal(again, labels[few])
                assert np.array_equal(trees, asked[few])
                found, all_trees = answer(same[few], return_trees=True)
                assert np.array_equal(found, values[few])
                assert (all_trees == fast.n_trees).all()


@pytest.mark.parametrize("name", ["lgb booster", "xgb three", "random forest", "lgb poisson"])
def test_arrays_of_every_form(name: str, models: Models, rows: np.ndarray) -> None:
    model = models(name)
    fast, X = rfsize.compile(model), taken(model, rows[:40])
    names = fast.forest.feature_names or [f"x{i}" for i in range(X.shape[1])]
    wide = np.repeat(X, 2, axis=1)
    read_only = X.copy()
    read_only.flags.writeable = False
    kinds = (
        np.asfortranarray(X),
        read_only,
        wide[:, ::2],
        X[::-1].copy()[::-1],
        X.astype(">f8"),
        X.astype(object),
        X.tolist(),
        pd.DataFrame(X, columns=names),
        np.lib.stride_tricks.as_strided(np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64), X.shape),
    )
    values = fast.predict_proba if len(fast.classes) else fast.predict
    for same in kinds:
        for size in FEW:
            few = same.iloc[:size] if isinstance(same, pd.DataFrame) else same[:size]
            assert np.array_equal(answers(fast)(few), answers(fast)(X)[:size])
            assert np.array_equal(values(few), values(X)[:size])


def lightgbm_with_leaves(model: lgb.Booster, leaves: Callable[[int], Any]) -> lgb.Booster:
    """The forest with other leaves, of which the trees of the text take so many at a time."""

    def other(match: re.Match[str]) -> str:
        return "leaf_value=" + " ".join(repr(float(leaf)) for leaf in leaves(len(match[1].split())))

    text = re.sub(r"^leaf_value=(.*)$", other, model.model_to_string(), flags=re.MULTILINE)
    return lgb.Booster(model_str=re.sub(r"tree_sizes=.*\n", "", text))


def xgboost_with_leaves(model: xgb.Booster, leaves: Callable[[int], Any], base_score: str | None) -> xgb.Booster:
    document = json.loads(model.save_raw("json"))
    if base_score is not None:
        document["learner"]["learner_model_param"]["base_score"] = base_score
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        at = [node for node, left in enumerate(tree["left_children"]) if left == -1]
        for node, leaf in zip(at, leaves(len(at)), strict=True):
            tree["split_conditions"][node] = float(leaf)
    other = xgb.Booster()
    other.load_model(bytearray(json.dumps(document).encode()))
    return other


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_trees", [2, 4, 7, 20])
@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "sklearn"])
def test_ties_are_decided_by_the_framework_s_own_rounding(
    framework: str, n_trees: int, n_classes: int, data: Data, rows: np.ndarray
) -> None:
    """Scores in tenths: exact ties are frequent, and rounding in the order of the sums breaks some of them."""
    rng = np.random.default_rng(n_trees)
    y = data.y if n_classes == 2 else data.three

    def tenths(size: int) -> np.ndarray:
        return rng.integers(-3, 4, size) / 10

    several = {} if n_classes == 2 else {"num_class": 3}
    if framework == "lightgbm":
        objective = {} if n_classes == 2 else {"objective": "multiclass"}
        model = lightgbm_with_leaves(train_lightgbm(data.X, y, n_trees, num_leaves=4, **objective, **several), tenths)
    elif framework == "xgboost":
        objective = {} if n_classes == 2 else {"objective": "multi:softprob"}
        grown = train_xgboost(data.X, y, n_trees, max_depth=2, base_score=0.5, **objective, **several)
        model = xgboost_with_leaves(grown, tenths, None)
    else:
        model = RandomForestClassifier(n_trees, max_depth=2, random_state=0).fit(data.X, y)
        for tree in model.estimators_:
            share = rng.multinomial(10, np.full(n_classes, 1 / n_classes), tree.tree_.node_count) / 10
            tree.tree_.value[:, 0, :] = share
    fast = rfsize.compile(model)
    expected = own_labels(model, rows)
    mean = tree_scores(model, rows[:2000]).mean(axis=1)
    level = np.sort(mean, axis=1)
    lead = np.abs(mean[:, 0]) if mean.shape[1] == 1 else level[:, -1] - level[:, -2]
    lead = np.abs(mean[:, 0] - 0.5) if framework == "sklearn" and mean.shape[1] == 1 else lead
    assert (lead < 1e-6).any() or n_trees == 2
    assert np.array_equal(fast.predict_labels(rows), expected)
    assert np.array_equal(np.concatenate([fast.predict_labels(row[None]) for row in rows[:300]]), expected[:300])
    assert_same_values(fast, fast.predict_proba(rows), own_values(model, rows))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("base", [BaggingClassifier, RandomForestClassifier])
def test_duplicated_trees_and_pure_leaves(base: Any, n_classes: int, data: Data, rows: np.ndarray) -> None:
    y = data.y if n_classes == 2 else data.three
    model = base(n_estimators=4, random_state=1).fit(data.X, y)
    model.estimators_ = model.estimators_ * 3
    model.n_estimators = 12
    if base is BaggingClassifier:
        model.estimators_features_ = model.estimators_features_ * 3
    assert np.array_equal(rfsize.compile(model).predict(rows), model.predict(rows))


def test_a_threshold_within_the_rounding_of_a_probability(xgb_booster: Any, rows: np.ndarray) -> None:
    """Of one row, and of many: the same label, on either side of a probability of single precision."""
    probability = np.unique(own_values(xgb_booster, rows))[[100, 4000, -100]]
    for near in np.concatenate([probability.astype(float) * (1 + 1e-9), probability.astype(float) * (1 - 1e-9)]):
        fast = rfsize.compile(xgb_booster, threshold=float(near))
        at = np.flatnonzero(own_values(xgb_booster, rows) == np.float32(near))[:1]
        many = np.repeat(rows[at], 40, axis=0)
        assert (fast.predict_labels(many) == fast.predict_labels(many[:1])).all()


@pytest.mark.parametrize("threshold", [1e-320, 1e-310, 1e-300, 1e-16, 1.0 - 1e-16])
def test_thresholds_next_to_0_and_1(threshold: float, booster: Any, rows: np.ndarray) -> None:
    expected = own_labels(booster, rows, threshold)
    fast = rfsize.compile(booster, threshold=threshold)
    assert np.array_equal(fast.predict_labels(rows), expected)
    assert np.array_equal(fast.predict_labels(rows[:2]), expected[:2])


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost", "sklearn"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_trees", [1, 4, 9, 25])
def test_the_leaves_left_can_change_no_label(
    n_trees: int, n_classes: int, framework: str, data: Data, rows: np.ndarray
) -> None:
    """By brute force: whatever leaves the trees left answer with, the class given stays the first."""
    # So easy that the first trees settle most rows.
    y, X = np.digitize(data.X[:, 0], [0.3] if n_classes == 2 else [-0.5, 0.7]), rows[:300]
    several: dict[str, Any] = {} if n_classes == 2 else {"num_class": 3}
    if framework == "lightgbm":
        several |= {"objective": "multiclass"} if several else {}
        model = train_lightgbm(data.X, y, n_trees, num_leaves=3, feature_fraction=1.0, **several)
    elif framework == "xgboost":
        several |= {"objective": "multi:softprob"} if several else {}
        model = train_xgboost(data.X, y, n_trees, max_depth=2, colsample_bynode=1.0, **several)
    else:
        model = RandomForestClassifier(n_trees, max_leaf_nodes=3, max_features=None, random_state=0).fit(data.X, y)
    labels, asked = rfsize.compile(model).predict_labels(X, return_trees=True)
    scores, of_all = tree_scores(model, X), tree_scores(model, rows)
    if scores.shape[2] == 1:
        cut = 0.5 if framework == "sklearn" else 0.0
        scores, of_all = (np.concatenate([2 * cut - one, one], axis=2) for one in (scores, of_all))
    leaves = [np.unique(of_all[:, tree], axis=0) for tree in range(n_trees)]
    for row in np.flatnonzero(asked < n_trees):
        done = scores[row, : asked[row]].sum(axis=0)
        # Leaf by leaf of the trees left; of the same outcome so far only the most adverse matter.
        for other in {*range(n_classes)} - {labels[row]}:
            against = [leaf[:, other] - leaf[:, labels[row]] for leaf in leaves[asked[row] :]]
            worst = max(sum(one) for one in itertools.product(*against)) if len(against) < 6 else sum(map(max, against))
            assert done[other] - done[labels[row]] + worst < 0.0
    assert asked.min() < n_trees or n_trees < 25


def test_trees_are_left_out_as_soon_as_looked_at(data: Data, rows: np.ndarray) -> None:
    """No later than eight trees after the leaves left could have been seen not to matter."""
    model = train_lightgbm(data.X, data.y, 31, num_leaves=3)
    asked = rfsize.compile(model).predict_labels(rows, return_trees=True)[1]
    scores = tree_scores(model, rows)[:, :, 0]
    so_far, least, most = scores.cumsum(axis=1), scores.min(axis=0), scores.max(axis=0)
    left_least, left_most = (one.sum() - one.cumsum() for one in (least, most))
    settled = (so_far + left_most < -1e-9) | (so_far + left_least > 1e-9)
    soonest = np.where(settled.any(axis=1), settled.argmax(axis=1) + 1, 31)
    assert (asked >= soonest).all()
    assert (asked <= np.minimum(soonest + 7, 31)).all()


TABLES = [
    "lgb booster",
    "lgb booster of three",
    "lgb one vs all",
    "xgb uneven",
    "xgb booster of three",
    "xgb multi-output",
    "random forest",
    "extra-trees",
    "bagging",
    "bags that miss a class",
]


@pytest.mark.parametrize("name", TABLES)
def test_labels_by_a_calibrated_table(name: str, models: Models, rows: np.ndarray) -> None:
    model = models(name)
    assert_stops_as_the_table(model, rfsize.StopTable.calibrate(model, fresh(rows), alpha=0.97), rows)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_tables_of_a_threshold_and_of_two_classes_of_a_softmax(framework: str, data: Data, rows: np.ndarray) -> None:
    train: Any = train_lightgbm if framework == "lightgbm" else train_xgboost
    model = train(data.X, data.y, 21)
    table = rfsize.StopTable.calibrate(model, fresh(rows), alpha=0.97, threshold=0.3)
    assert_stops_as_the_table(model, table, rows, threshold=0.3)
    objective = "multiclass" if framework == "lightgbm" else "multi:softprob"
    softmax = train(data.X, data.y, 21, objective=objective, num_class=2)
    assert np.array_equal(rfsize.compile(softmax).predict_labels(rows), own_labels(softmax, rows))
    assert_stops_as_the_table(softmax, rfsize.StopTable.calibrate(softmax, fresh(rows), alpha=0.97), rows)


def assert_stops_as_the_table(model: Any, table: rfsize.StopTable, rows: np.ndarray, **given: Any) -> None:
    fast = rfsize.compile(model, table, **given)
    labels, asked = fast.predict_labels(rows, return_trees=True)
    expected, trees = table.stops.answers_of_block(tree_scores(model, rows), len(fast.classes))
    # Leads equal to the bound but for rounding may be taken either way, which a row in thousands meets.
    same = asked == trees
    assert same.mean() > 0.999
    assert np.array_equal(labels[same], fast.classes[expected[same]])
    assert asked.min() < asked.max()
    whole = asked == fast.n_trees
    assert np.array_equal(labels[whole], own_labels(model, rows[whole], given.get("threshold", 0.5)))
    for size in FEW:
        again, few = fast.predict_labels(rows[:size], return_trees=True)
        assert np.array_equal(again, labels[:size])
        assert np.array_equal(few, asked[:size])
    # Probabilities do not go by a table of labels.
    assert np.array_equal(fast.predict_proba(rows[:50]), rfsize.compile(model).predict_proba(rows[:50]))


@pytest.mark.parametrize("name", [*TABLES, *REGRESSORS])
def test_numbers_by_a_calibrated_table(name: str, models: Models, rows: np.ndarray) -> None:
    model, of_numbers = models(name), name in REGRESSORS
    tolerance = 0.3 * float(np.std(own_values(model, rows))) if of_numbers else 0.08
    metric: Any = "scores" if of_numbers else "probabilities"
    table = rfsize.StopTable.calibrate(model, fresh(rows), alpha=0.9, metric=metric, tolerance=tolerance)
    fast = rfsize.compile(model, table)
    answer = fast.predict if of_numbers else fast.predict_proba
    found, asked = answer(rows, return_trees=True)
    expected, trees = table.stops.answers_of_block(tree_scores(model, rows), len(fast.classes))
    same = asked == trees
    assert same.mean() > 0.999
    assert asked.min() < fast.n_trees
    expected = expected[:, 0] if of_numbers else expected
    np.testing.assert_allclose(found[same], expected[same], rtol=2e-6, atol=2e-6)
    own = own_values(model, rows)
    own = np.stack([1.0 - own, own], axis=1) if own.ndim < found.ndim else own
    whole = asked == fast.n_trees
    if whole.any():
        assert_same_values(fast, found[whole], own[whole])
    for size in FEW:
        again, few = answer(rows[:size], return_trees=True)
        assert np.array_equal(again, found[:size])
        assert np.array_equal(few, asked[:size])


@pytest.mark.parametrize("name", ["lgb booster", "xgb three", "random forest", "lgb poisson"])
def test_neither_threads_nor_blocks_change_anything(
    name: str, models: Models, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than go down trees together, and than make a block."""
    model, many = models(name), np.tile(rows, (3, 1))
    of_numbers = name in REGRESSORS
    metric: Any = "scores" if of_numbers else "labels"
    tolerance = {"tolerance": 0.2} if of_numbers else {}
    table = rfsize.StopTable.calibrate(model, fresh(rows), alpha=0.9, metric=metric, **tolerance)
    for stops in (None, table):
        fast = rfsize.compile(model, stops, n_jobs=1)
        expected, asked = answers(fast)(many, return_trees=True)
        for part in (slice(9001), slice(9001, 18002), slice(5, 2060), slice(2047, 2049)):
            labels, trees = answers(fast)(many[part], return_trees=True)
            assert np.array_equal(labels, expected[part])
            assert np.array_equal(trees, asked[part])
        for n_jobs, block in ((4, 4096), (2, 100), (1, 17), (3, 1)):
            with monkeypatch.context() as patch:
                patch.setattr("rfsize.walking.quantising._FEWEST_ROWS", block)
                patch.setattr("rfsize.walking.quantising._MOST_ROWS", block)
                fast.n_jobs = n_jobs
                some = slice(0, 200 * block)
                again = rfsize.CompiledForest(fast.forest, stops, n_jobs=n_jobs)
                labels, trees = answers(again)(many[some], return_trees=True)
            assert np.array_equal(labels, expected[some])
            assert np.array_equal(trees, asked[some])


@pytest.mark.parametrize("name", ["lgb booster", "xgb three", "extra-trees", "xgb poisson"])
def test_sixteen_threads_share_one_predictor(name: str, models: Models, rows: np.ndarray) -> None:
    expected = rfsize.compile(models(name)).predict(rows)
    fast = rfsize.compile(models(name))  # that has not predicted yet
    wrong: list[int] = []

    def work(thread: int) -> None:
        for row in range(thread, 400, 16):
            if fast.predict(rows[row : row + 1])[0] != expected[row]:
                wrong.append(row)
        if not np.array_equal(fast.predict(rows), expected):
            wrong.append(-1)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _in_child(fast: Any, rows: np.ndarray, result: Any) -> None:
    result.put((fast.predict(rows), fast.predict(rows[:1])))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["lgb booster", "xgb poisson"])
def test_after_a_fork(name: str, models: Models, rows: np.ndarray) -> None:
    fast = rfsize.compile(models(name))
    expected, one = fast.predict(rows), fast.predict(rows[:1])
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    child = context.Process(target=_in_child, args=(fast, rows, result))
    child.start()
    many, first = result.get(timeout=60)
    child.join()
    assert np.array_equal(many, expected)
    assert np.array_equal(first, one)


@pytest.mark.parametrize("name", ["lgb booster", "random forest of three", "xgb regression"])
def test_a_pickle_of_one_that_has_predicted(name: str, models: Models, rows: np.ndarray) -> None:
    fast = rfsize.compile(models(name))
    before = len(pickle.dumps(fast))
    fast.predict(rows), fast.predict(rows[:1])
    assert len(pickle.dumps(fast)) == before
    again = pickle.loads(pickle.dumps(fast))
    assert np.array_equal(again.predict(rows), fast.predict(rows))
    assert np.array_equal(again.predict(rows[:1]), fast.predict(rows[:1]))


def test_missing_values_of_a_regression(data: Data, rows: np.ndarray) -> None:
    """scikit-learn's forests take them where they were trained with some."""
    X = np.where(np.random.default_rng(1).random(data.X.shape) < 0.1, np.nan, data.X)
    model = RandomForestRegressor(9, random_state=0).fit(X, data.X[:, 0])
    holes = np.where(np.random.default_rng(2).random(rows.shape) < 0.2, np.nan, rows)
    fast = rfsize.compile(model)
    assert np.array_equal(fast.predict(holes), model.predict(holes))
    assert np.array_equal(fast.predict(holes[:9]), model.predict(holes[:9]))
