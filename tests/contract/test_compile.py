"""A compiled forest predicts what the model predicts, for every kind of forest and of batch; so does its file."""

from __future__ import annotations

import copy
import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import reference.counting
import rfsize
from helpers import models, zoo
from helpers.models import FRESH, NAMES, THREE, TWO, X
from helpers.zoo import CLASSIFIERS, KINDS, assert_batches_agree, assert_same_bits, model, rows_for
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_model


def wild_rows(name: str, n_rows: int = 3000) -> np.ndarray:
    """Rows like those of training, rows on thresholds and beside them in both precisions, and the largest numbers."""
    rows, rng, nodes = rows_for(name, n_rows), np.random.default_rng(1), read_model(model(name)).ensemble.nodes
    cut = np.append(nodes.threshold[(nodes.left >= 0) & np.isfinite(nodes.threshold)], [0.0, 1e-35, 1e-38, 3e38])
    near = [np.nextafter(at, end) for at in (cut, cut.astype(np.float32)) for end in (-np.inf, np.inf)]
    near += [np.nextafter(cut.astype(np.float32), np.float32(end)) for end in (-np.inf, np.inf)]
    near += [[-0.0, 5e-324, -3e38], [np.inf, -np.inf, 1e300] if name.startswith("lgb") else []]
    places = np.ix_(np.arange(0, n_rows, 2), [0, 1, 2, 4, 5])  # the others hold categories
    rows[places] = rng.choice(np.concatenate([cut, *near]), rows[places].shape)
    return rows


@pytest.mark.parametrize("name", KINDS)
def test_predict_is_the_frameworks(name: str) -> None:
    fast = rfsize.compile(model(name))
    for rows in (wild_rows(name), rows_for(name, 3000).astype(np.float32)):
        actual, n_used = fast.predict(rows, return_trees=True)
        assert_same_bits(actual, zoo.own_predict(model(name), rows), is_exact=KINDS[name].is_exact)
        assert n_used.min() >= 1
        assert n_used.max() <= fast.n_trees


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_and_labels_are_the_frameworks(name: str) -> None:
    fast, X = rfsize.compile(model(name)), wild_rows(name)
    assert_same_bits(fast.predict_proba(X), zoo.own_proba(model(name), X), is_exact=KINDS[name].is_exact)
    labels, n_used = fast.predict_labels(X, return_trees=True)
    assert labels.tolist() == zoo.own_labels(model(name), X).tolist()
    assert n_used.mean() < fast.n_trees


@pytest.mark.parametrize("kind", ["lightgbm categories", "xgboost categories", "random forest with gaps", "bagging"])
def test_frames_categories_and_votes(kind: str) -> None:
    forest = models.model(kind)
    fast, labels = rfsize.compile(forest.model), forest.tree_labels(forest.fresh)
    np.testing.assert_array_equal(fast.predict(forest.fresh), forest.predict(forest.fresh))
    counts = reference.counting.votes(labels, forest.n_classes)
    assert np.array_equal(fast.votes(forest.fresh).counts, counts)
    hard = rfsize.compile(forest.model, voting="hard").predict_labels(forest.fresh)
    assert hard.tolist() == rfsize.Votes(counts, fast.classes).winner().tolist()


@pytest.mark.parametrize("name", KINDS)
def test_batches_of_every_size_agree(name: str) -> None:
    fast, X = rfsize.compile(model(name)), rows_for(name, 3000)
    for method in (fast.predict, fast.predict_labels, fast.predict_proba)[: 3 if len(fast.classes) else 1]:
        assert_batches_agree(method, X)


@pytest.mark.parametrize("objective", ["count:poisson", "reg:tweedie", "reg:gamma", "binary:logistic"])
def test_sums_begin_where_those_of_xgboost_do(objective: str) -> None:
    """A logarithm of the base score that is one unit off moves all predictions."""
    X, signal = zoo.training()
    y = (signal > 1).astype(int) + (objective != "binary:logistic")
    for base_score in np.random.default_rng(0).uniform(0.02, 0.98, size=10):
        booster = zoo.xgboost(objective, y, num_parallel_tree=5, base_score=base_score)
        actual = rfsize.compile(booster).predict(X[:100])
        np.testing.assert_array_max_ulp(actual, zoo.own_predict(booster, X[:100]), maxulp=2)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_two_classes_of_a_softmax(framework: str) -> None:
    X, signal = zoo.training()
    y = zoo.classes_of(signal, 2)
    booster: Any = (
        zoo.lightgbm("multiclass", y, num_class=2)
        if framework == "lightgbm"
        else zoo.xgboost("multi:softprob", y, num_class=2)
    )
    fast, own = rfsize.compile(booster), zoo.own_predict(booster, X)
    np.testing.assert_allclose(fast.predict(X), own, atol=1e-6)
    assert fast.predict_labels(X).tolist() == own.argmax(axis=1).tolist()


@pytest.mark.parametrize("n_rows", [1, 40])
def test_softmax_labels_are_of_the_largest_margin(n_rows: int) -> None:
    """With multi:softmax; with multi:softprob, of the largest probability, which rounding makes equal here."""
    margins, X = (-0.4, -0.18000004, -0.18), np.zeros((n_rows, 1))
    for objective, label in (("multi:softmax", 2), ("multi:softprob", 1)):
        params = {"objective": objective, "num_class": 3, "gamma": 1e9, "eta": 1, "base_score": 0.0, "nthread": 1}
        booster, values = xgb.train(params, xgb.DMatrix(np.zeros((12, 1)), np.arange(12) % 3), 1), iter(margins)
        booster = zoo.with_leaves(booster, lambda leaf, values=values: np.full(len(leaf), next(values)))
        own = booster.predict(xgb.DMatrix(X))
        assert (own if objective == "multi:softmax" else own.argmax(axis=1)).tolist() == [label] * n_rows
        fast = rfsize.compile(booster)
        labels = fast.predict(X) if objective == "multi:softmax" else fast.predict_proba(X).argmax(axis=1)
        assert labels.tolist() == [label] * n_rows


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_splits_that_share_a_child_are_no_trees(framework: str) -> None:
    y = zoo.classes_of(zoo.training()[1], 2)
    if framework == "lightgbm":
        text = zoo.lightgbm("binary", y, 1, num_leaves=4).model_to_string().split("tree_sizes")
        lines = [*text[0].splitlines(), *text[1].splitlines()[1:]]
        shared = {"left_child": "left_child=1 -1 -2", "right_child": "right_child=2 -2 -1"}
        other: Any = lgb.Booster(model_str="\n".join(shared.get(line.partition("=")[0], line) for line in lines))
    else:
        document = json.loads(zoo.xgboost("binary:logistic", y, max_depth=2).save_raw("json"))
        tree = document["learner"]["gradient_booster"]["model"]["trees"][-1]
        tree["right_children"][0] = tree["left_children"][0]
        other = xgb.Booster(model_file=bytearray(json.dumps(document).encode()))
    with pytest.raises(NotAForestError, match="child"):
        rfsize.compile(other)


SETTINGS: dict[str, Any] = {"n_estimators": 40, "random_state": 0}
BOOSTED: dict[str, Any] = {
    "stumps": lambda: AdaBoostClassifier(**SETTINGS).fit(X, TWO),
    "three": lambda: AdaBoostClassifier(**SETTINGS).fit(X, NAMES[THREE]),
    "six": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **SETTINGS).fit(
        X, 2 * THREE + (X[:, 3] > 0)
    ),
    "random": lambda: AdaBoostClassifier(ExtraTreeClassifier(max_depth=5), **SETTINGS).fit(X, TWO == 1),
    "early": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), **SETTINGS).fit(X[:60], THREE[:60]),
    "one": lambda: AdaBoostClassifier(DecisionTreeClassifier(), **SETTINGS).fit(X, THREE),
}


def weighted(trained: AdaBoostClassifier, weights: np.ndarray) -> AdaBoostClassifier:
    other = copy.copy(trained)
    other.estimator_weights_ = weights
    return other


@pytest.mark.parametrize("name", BOOSTED)
def test_adaboost(name: str) -> None:
    """Weights of tenths are often level but for the rounding of their sums."""
    trained, rows = BOOSTED[name](), np.concatenate([X, FRESH, np.round(FRESH, 1)])
    n = len(trained.estimators_)
    cut = copy.copy(trained)
    cut.estimators_ = cut.estimators_[: n // 2 + 1]  # by hand: the weights of the others stay, and their sum
    tenths = np.random.default_rng(1).integers(1, 4, n) * 0.1
    weights = (tenths, np.full(n, 0.1), tenths * (np.arange(n) % 3 == 0))
    for own in (trained, cut, *(weighted(trained, of) for of in weights)):
        fast, labels = rfsize.compile(own), own.predict(rows)
        assert np.array_equal(fast.predict(rows), labels)
        assert fast.predict(rows).dtype == labels.dtype
        np.testing.assert_allclose(fast.predict_proba(rows), own.predict_proba(rows), atol=1e-12)
        assert [fast.predict(row[None])[0] for row in rows[:20]] == labels[:20].tolist()
        assert np.array_equal(fast.predict(rows.astype(np.float32)), own.predict(rows.astype(np.float32)))
