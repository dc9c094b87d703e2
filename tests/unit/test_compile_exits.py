"""Rows of compiled forests leave trees out only where labels stay as they are, or where a stop table says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

import rfsize
from helpers import zoo
from helpers.trained import FRAMEWORKS, train
from helpers.zoo import REGRESSORS, assert_batches_agree, assert_same_bits, calibrated, model, rows_for
from rfsize.exceptions import RfsizeWarning

OF_SCORES = ["lgb binary", "lgb softmax", "lgb one-vs-all", "xgb logistic", "xgb softprob", "random forest"]
OF_SCORES += ["random forest of three", "bagging, classes lacking"]


# ----------------------------------------------------------------------------------------------------- lossless exits


SMALL: dict[str, dict[str, Any]] = {
    "lightgbm": {"num_leaves": 3, "feature_fraction": 1.0},
    "xgboost": {"max_depth": 2, "colsample_bynode": 1.0, "base_score": 0.5},
    "sklearn": {"max_leaf_nodes": 3, "max_features": None},
}


def easy(framework: str, n_trees: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """A forest of so few leaves and clear labels that the first trees settle most rows."""
    X = np.nan_to_num(zoo.training()[0])
    y = np.digitize(X[:, 0], [0.3] if n_classes == 2 else [-0.5, 0.7])
    return train(framework, X, y, n_trees, **SMALL[framework]), X


def settled_after(forest: Any, X: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Whether no leaves of the trees left could change the label after 1, …, T trees, shape (n_rows, T)."""
    score = zoo.tree_scores(forest, X)
    if n_classes == 2:
        score = np.concatenate([float(hasattr(forest, "estimators_")) - score, score], axis=2)
    rows, settled = np.arange(len(X)), np.ones(score.shape[:2], dtype=bool)
    for other in range(n_classes):
        ahead = score[rows, :, labels] - score[:, :, other]
        least = np.stack([(score[:, :, label] - score[:, :, other]).min(axis=0) for label in labels])
        left = least[:, ::-1].cumsum(axis=1)[:, ::-1] - least
        settled &= (other == labels)[:, None] | (ahead.cumsum(axis=1) + left > -1e-6)
    settled[:, -1] = True
    return settled


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_trees", [1, 4, 25])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_trees_left_can_change_no_label(framework: str, n_trees: int, n_classes: int) -> None:
    forest, X = easy(framework, n_trees, n_classes)
    labels, n_used = rfsize.compile(forest).predict_labels(X, return_trees=True)
    assert labels.tolist() == zoo.own_labels(forest, X).tolist()
    assert settled_after(forest, X, labels, n_classes)[np.arange(len(X)), n_used - 1].all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_rows_of_two_classes_stop_when_next_looked_at(framework: str) -> None:
    forest, X = easy(framework, 25, 2)
    labels, n_used = rfsize.compile(forest).predict_labels(X, return_trees=True)
    soonest = settled_after(forest, X, labels, 2).argmax(axis=1) + 1
    assert (n_used - soonest).max() <= 8
    assert n_used.mean() < 20


@pytest.mark.parametrize("name", ["random forest", "random forest of three", "lgb softmax"])
def test_majority_votes_stop_where_they_are_settled(name: str) -> None:
    X, forest = rows_for(name, 800), model(name)
    fast, vote = rfsize.compile(forest, voting="hard"), rfsize.tree_outputs(forest, X).by_tree()
    labels, n_used = fast.predict_labels(X, return_trees=True)
    seen = np.arange(zoo.TREES) < n_used[:, None]
    counts, final = (
        np.stack([((vote == label) & mask).sum(axis=1) for label in range(len(fast.classes))], axis=1)
        for mask in (seen, True)
    )
    assert labels.tolist() == fast.classes[final.argmax(axis=1)].tolist()
    winner, rivals = final.argmax(axis=1), counts.copy()
    rows = np.arange(len(X))
    rivals[rows, winner] = -zoo.TREES
    assert (counts[rows, winner] - rivals.max(axis=1) >= zoo.TREES - n_used).all()
    assert n_used.mean() < zoo.TREES
    assert fast.votes(X).counts.tolist() == final.tolist()
    assert_batches_agree(fast.predict_labels, X)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_trees", [7, 20])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ties_are_decided_by_the_frameworks_rounding(framework: str, n_trees: int, n_classes: int) -> None:
    """Scores in tenths: exact ties are frequent, and rounding in the order of the sums breaks some of them."""
    rng = np.random.default_rng(n_trees + 3)
    X, y = np.nan_to_num(zoo.training()[0]), zoo.classes_of(zoo.training()[1], n_classes)
    shape = {"lightgbm": {"num_leaves": 4}, "xgboost": {"max_depth": 2, "base_score": 0.5}, "sklearn": {"max_depth": 2}}
    forest = train(framework, X, y, n_trees, **shape[framework])
    if framework == "sklearn":
        for tree in forest.estimators_:
            tree.tree_.value[:, 0] = rng.multinomial(10, np.full(n_classes, 1 / n_classes), tree.tree_.node_count) / 10
    else:
        forest = zoo.with_leaves(forest, lambda leaves: rng.integers(-3, 4, len(leaves)) / 10)
    X = np.nan_to_num(zoo.fresh_rows(6000))
    mean = np.sort(zoo.tree_scores(forest, X[:1500]).mean(axis=1), axis=1)
    lead = mean[:, -1] - mean[:, -2] if n_classes == 3 else np.abs(mean[:, 0] - 0.5 * (framework == "sklearn"))
    assert (lead < 1e-6).any()
    fast, own = rfsize.compile(forest), zoo.own_labels(forest, X)
    assert fast.predict_labels(X).tolist() == own.tolist()
    assert np.concatenate([fast.predict_labels(row[None]) for row in X[:300]]).tolist() == own[:300].tolist()


@pytest.mark.parametrize("kind", [BaggingClassifier, RandomForestClassifier])
def test_ties_of_doubled_trees(kind: Any) -> None:
    X, y = np.nan_to_num(zoo.training()[0]), zoo.classes_of(zoo.training()[1], 3)
    forest = kind(n_estimators=4, random_state=1).fit(X, y)
    forest.estimators_, forest.n_estimators = forest.estimators_ * 3, 12
    if kind is BaggingClassifier:
        forest.estimators_features_ = forest.estimators_features_ * 3
    fresh = np.nan_to_num(zoo.fresh_rows(5000))
    assert rfsize.compile(forest).predict(fresh).tolist() == forest.predict(fresh).tolist()


@pytest.mark.parametrize("threshold", [1e-320, 1e-300, 1e-16, 0.06, 0.3, 0.9, 1.0 - 1e-16])
@pytest.mark.parametrize("name", ["lgb binary", "lgb cross entropy", "xgb logistic", "random forest"])
def test_labels_above_a_threshold(name: str, threshold: float) -> None:
    X, forest = rows_for(name, 3000), model(name)
    fast, share = rfsize.compile(forest, threshold=threshold), zoo.own_proba(forest, X)[:, 1]
    is_clear = np.abs(share - threshold) > 1e-12
    assert (fast.predict_labels(X) == (share > threshold))[is_clear].all()
    assert_batches_agree(fast.predict_labels, X)
    share = zoo.own_predict(forest, X) if name != "random forest" else fast.predict(X)
    assert_same_bits(np.asarray(fast.predict(X), dtype=float), np.asarray(share, dtype=float), is_exact=False)


def test_threshold_beside_a_single_probability() -> None:
    """One row and many rows get the same label, on either side of it."""
    X, forest = rows_for("xgb logistic", 3000), model("xgb logistic")
    share = zoo.own_predict(forest, X)
    for place in (3, 500, 2000):
        for near in (float(share[place]) * (1 + 1e-9), float(share[place]) * (1 - 1e-9)):
            fast, many = rfsize.compile(forest, threshold=near), np.repeat(X[place : place + 1], 40, axis=0)
            assert set(fast.predict_labels(many)) == set(fast.predict_labels(many[:1]))


# -------------------------------------------------------------------------------------------------------- stop tables


@pytest.mark.parametrize("name", OF_SCORES)
def test_labels_by_a_calibrated_table(name: str) -> None:
    X, forest, table = rows_for(name, 3000), model(name), calibrated(name)
    fast = rfsize.compile(forest, table) if zoo.KINDS[name].is_exact else quietly(forest, table)
    labels, n_used = fast.predict_labels(X, return_trees=True)
    expected, trees = table.apply(zoo.tree_scores(forest, X))
    same = n_used == trees  # but for leads that equal the bound before rounding
    assert same.mean() > 0.999
    assert labels[same].tolist() == fast.classes[expected[same]].tolist()
    assert n_used.min() < n_used.max()
    whole = n_used == fast.n_trees
    assert labels[whole].tolist() == zoo.own_labels(forest, X[whole]).tolist()
    assert_batches_agree(fast.predict_labels, X)
    assert np.array_equal(fast.predict_proba(X[:50]), rfsize.compile(forest).predict_proba(X[:50]))


def quietly(forest: Any, table: rfsize.StopTable, **options: Any) -> Any:
    """Compiled with a table of labels that ``predict`` of a booster does not use, which is warned of."""
    with pytest.warns(RfsizeWarning, match="predict_labels"):
        return rfsize.compile(forest, table, **options)


@pytest.mark.parametrize("name", [*OF_SCORES, *REGRESSORS])
def test_numbers_by_a_calibrated_table(name: str) -> None:
    X, forest, of_classes = rows_for(name, 3000), model(name), name not in REGRESSORS
    tolerance = 0.1 if of_classes else 0.3 * float(np.std(zoo.own_predict(forest, X)))
    table = calibrated(name, metric="probabilities" if of_classes else "scores", tolerance=tolerance)
    fast = rfsize.compile(forest, table)
    method = fast.predict_proba if of_classes else fast.predict
    actual, n_used = method(X, return_trees=True)
    expected, trees = table.apply(zoo.tree_scores(forest, X))
    same = n_used == trees
    assert same.mean() > 0.999
    assert n_used.min() < fast.n_trees
    np.testing.assert_allclose(actual[same].reshape(expected[same].shape), expected[same], rtol=2e-6, atol=2e-6)
    assert_batches_agree(method, X)


@pytest.mark.parametrize(
    ("name", "gives_labels"),
    [("lgb binary", False), ("xgb softprob", False), ("lgb classifier", True), ("random forest", True)],
)
def test_what_a_table_acts_on(name: str, gives_labels: bool) -> None:
    X, forest = rows_for(name, 500), model(name)
    plain, of_labels = rfsize.compile(forest), calibrated(name, alpha=0.8)
    with_labels = rfsize.compile(forest, of_labels) if gives_labels else quietly(forest, of_labels)
    near = rfsize.compile(forest, calibrated(name, metric="probabilities", tolerance=0.2, alpha=0.8))
    for fast, acts in (
        (with_labels, {"predict": gives_labels, "predict_labels": True, "predict_proba": False}),
        (near, {"predict": not gives_labels, "predict_labels": False, "predict_proba": True}),
    ):
        for method, is_used in acts.items():
            fewer, all_trees = (getattr(forest, method)(X, return_trees=True)[1].mean() for forest in (fast, plain))
            assert (fewer < all_trees) == is_used, method


@pytest.mark.parametrize("name", ["random forest", "random forest of three", "lgb classifier", "lgb softmax"])
@pytest.mark.parametrize("alpha", [0.9, 1.0])
def test_votes_by_a_built_table(name: str, alpha: float) -> None:
    X, forest = rows_for(name, 2000), model(name)
    outputs = rfsize.tree_outputs(forest, rows_for(name, 5000)[3000:])
    table = rfsize.StopTable.build(zoo.TREES, alpha=alpha, prior=outputs.votes)
    fast = quietly(forest, table) if name == "lgb softmax" else rfsize.compile(forest, table)
    labels, n_used = fast.predict_labels(X, return_trees=True)
    expected, trees = table.apply(rfsize.tree_outputs(forest, X).by_tree())
    assert labels.tolist() == fast.classes[expected].tolist()
    assert n_used.tolist() == trees.tolist()
    majority = rfsize.compile(forest, voting="hard").predict_labels(X)
    assert np.mean(labels == majority) >= alpha - 0.05
    assert_batches_agree(fast.predict_labels, X)
