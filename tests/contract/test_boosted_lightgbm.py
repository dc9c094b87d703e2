"""LightGBM's models of every boosting and objective as arrays: its own leaves, raw scores and predictions."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import rfsize
from reference import trees as reference
from rfsize.models.framework import read_forest, read_model
from rfsize.models.model import Forest

N_ROWS = 1000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 6))
X[:, 2] = RNG.integers(0, 12, 600)
X[:, 3] = np.where(RNG.random(600) < 0.3, 0.0, X[:, 3])
X[RNG.random(X.shape) < 0.1] = np.nan
SCORE = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + np.isin(X[:, 2], (1, 4, 7)) + 0.3 * RNG.normal(size=600)
POSITIVE = np.exp(SCORE / 2)
CLASSES = np.digitize(SCORE, (0.5, 1.5))

# Parameters and labels.
KINDS = {
    "gbdt": ({"objective": "binary"}, SCORE > 1),
    "dart": ({"objective": "binary", "boosting": "dart", "drop_rate": 0.5}, SCORE > 1),
    "goss": ({"objective": "binary", "data_sample_strategy": "goss", "sigmoid": 0.5}, SCORE > 1),
    "rf": ({"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, SCORE > 1),
    "multiclass": ({"objective": "multiclass", "num_class": 3}, CLASSES),
    "one-vs-all": ({"objective": "multiclassova", "num_class": 3, "boosting": "dart"}, CLASSES),
    "rf of classes": (
        {"objective": "multiclass", "num_class": 3, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        CLASSES,
    ),
    "regression": ({"objective": "regression", "zero_as_missing": True}, SCORE),
    "square root": ({"objective": "regression_l1", "reg_sqrt": True}, SCORE),
    "monotone": ({"objective": "regression", "monotone_constraints": [1, 0, 0, 0, -1, 0]}, SCORE),
    "no missing": ({"objective": "huber", "use_missing": False, "boost_from_average": False}, SCORE),
    "quantile": ({"objective": "quantile", "alpha": 0.9, "path_smooth": 2.0}, SCORE),
    "extra trees": ({"objective": "fair", "extra_trees": True, "max_depth": 3}, SCORE),
    "poisson": ({"objective": "poisson"}, POSITIVE),
    "gamma": ({"objective": "gamma", "bagging_freq": 2, "bagging_fraction": 0.4}, POSITIVE),
    "tweedie": ({"objective": "tweedie", "linear_tree": False}, POSITIVE),
    "cross-entropy": ({"objective": "cross_entropy"}, POSITIVE / POSITIVE.max()),
    "lambda": ({"objective": "cross_entropy_lambda"}, POSITIVE / POSITIVE.max()),
    "ranking": ({"objective": "lambdarank"}, CLASSES),
    "custom": ({"objective": lambda score, data: (score - data.get_label(), np.ones(len(score)))}, SCORE),
    "stumps": ({"objective": "binary", "num_leaves": 2, "min_gain_to_split": 3.0}, SCORE > 1),
    "one-hot": ({"objective": "binary", "max_cat_to_onehot": 20}, SCORE > 1),
    "partitions": ({"objective": "mape", "max_cat_to_onehot": 1, "cat_smooth": 1}, SCORE),
}


@pytest.fixture(scope="module", params=KINDS)
def booster(request):
    params, label = KINDS[request.param]
    group = [60] * 10 if request.param == "ranking" else None
    categorical = [2] if request.param in ("one-hot", "partitions") else []
    shared = {"num_leaves": 15, "learning_rate": 0.3, "min_data_in_leaf": 5, "verbosity": -1}
    return lgb.train(shared | params, lgb.Dataset(X, label, group=group, categorical_feature=categorical), 12)


def adversarial(trees):
    """Rows of values at which reading or comparing goes wrong most easily."""
    thresholds = trees.nodes.threshold[trees.nodes.left >= 0]
    near = [np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf)]
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-36, -1e-36, 1e-35, 1.1e-35, 1e300, -1e300, 2.0**31, 2.0**63, -1.0]
    odd += [-0.5, 0.5, 1.5, 6.999, 12.0, 1000.0, 1e10]
    rng = np.random.default_rng(1)
    rows = rng.choice(np.concatenate([*near, odd, odd, rng.normal(size=50)]), size=(N_ROWS, trees.n_features))
    rows[:, 2] = np.where(rng.random(N_ROWS) < 0.5, rng.integers(-2, 15, N_ROWS), rows[:, 2])
    return rows


def test_leaves_and_raw_scores_to_the_last_bit(booster):
    model = read_model(booster)
    trees = model.ensemble
    rows = adversarial(trees)
    leaves = np.array([reference.walk(trees, row) for row in rows])
    np.testing.assert_array_equal(model.apply(rows).reshape(N_ROWS, -1), leaves)
    raw = np.array([reference.raw_score(trees, reached) for reached in leaves])
    np.testing.assert_array_equal(raw, booster.predict(rows, raw_score=True).reshape(N_ROWS, -1))


def test_links(booster):
    model = read_model(booster)
    trees = model.ensemble
    sums = booster.predict(X, raw_score=True).reshape(len(X), -1)  # of a forest too
    predicted = trees.link.predicted(trees.raw_score(sums, trees.n_trees))
    np.testing.assert_allclose(predicted, booster.predict(X).reshape(len(X), -1), rtol=1e-12)


def test_compiled_predicts_the_same(booster, tmp_path):
    compiled, rows = rfsize.compile(booster), adversarial(read_model(booster).ensemble)
    compiled.save(tmp_path / "boosted.npz")
    for predictor in (compiled, rfsize.load(tmp_path / "boosted.npz")):
        np.testing.assert_allclose(predictor.predict(rows), booster.predict(rows), rtol=1e-13)


def test_early_stop_of_predictions_is_refused():
    estimator = lgb.LGBMClassifier(n_estimators=20, pred_early_stop=True, verbosity=-1).fit(X, SCORE > 1)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="pred_early_stop"):
        rfsize.compile(estimator)
    estimator.set_params(pred_early_stop=False)
    np.testing.assert_array_equal(rfsize.compile(estimator).predict(X), estimator.predict(X))


def test_first_trees(booster):
    model = read_model(booster)
    np.testing.assert_array_equal(model.first(7).predict(X), booster.predict(X, num_iteration=7))
    assert model.first(7).num_trees() == 7 * model.ensemble.trees_per_iteration


def test_selected_trees(booster):
    model, chosen = read_model(booster), np.array([5, 0, 3])
    kept = read_model(model.select(chosen))
    assert kept.is_pruned
    np.testing.assert_array_equal(kept.ensemble.nodes.value, model.ensemble.nodes.value[_nodes(model, chosen)])


def test_selected_trees_take_new_leaves(booster):
    model, chosen = read_model(booster), np.array([4, 9])
    scores = np.random.default_rng(2).normal(size=model.ensemble.tree_scores.shape)
    new = read_model(model.select(chosen, scores)).ensemble
    is_leaf = new.nodes.left < 0
    np.testing.assert_allclose(new.tree_scores[is_leaf], scores[_nodes(model, chosen)][is_leaf], rtol=1e-12)


def _nodes(model, iterations):
    """Numbers of the nodes of these iterations, in their order."""
    trees = model.ensemble
    ends = np.append(trees.tree_start[:, 0], trees.nodes.n_nodes.sum())
    return np.concatenate([np.arange(ends[number], ends[number + 1]) for number in iterations])


def test_only_rf_is_a_forest(booster):
    is_rf = booster.params.get("boosting") == "rf"
    assert isinstance(read_model(booster), Forest) == is_rf


def test_best_iteration_counts():
    params = {"objective": "binary", "verbosity": -1, "learning_rate": 0.9}
    train, valid = lgb.Dataset(X[:300], SCORE[:300] > 1), lgb.Dataset(X[300:], SCORE[300:] > 1)
    booster = lgb.train(
        params,
        train,
        200,
        valid_sets=[valid],
        callbacks=[lgb.early_stopping(5, verbose=False)],
        keep_training_booster=True,
    )
    model = read_model(booster)
    assert model.n_trees == booster.best_iteration < booster.current_iteration()
    assert model.apply(X).shape == (600, booster.best_iteration, 1)


def test_estimators_keep_their_classes():
    label = np.array(["a", "b", "c"])[CLASSES]
    estimator = lgb.LGBMClassifier(n_estimators=12, verbosity=-1).fit(X, label)
    model = read_model(estimator)
    assert model.classes.tolist() == ["a", "b", "c"]
    assert model.output == "labels"
    small = model.first(4)
    assert small.n_estimators == 4
    np.testing.assert_array_equal(small.predict(X), estimator.predict(X, num_iteration=4))


def test_categories_of_frames():
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 2] > 5, "high", "low")), "c": X[:, 2]})
    frame["c"] = frame["c"].astype("category")
    model = read_model(lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(frame, SCORE > 1), 5))
    conventions = model.ensemble.conventions
    assert conventions.categories[0] == ("high", "low")
    assert conventions.category_features == (1, 2)


def test_boosting_has_no_limit():
    booster = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X, SCORE > 1), 5)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="boosting='rf'"):
        read_forest(booster)


def test_linear_trees_are_refused():
    params = {"objective": "regression", "linear_tree": True, "verbosity": -1}
    booster = lgb.train(params, lgb.Dataset(np.nan_to_num(X), SCORE), 5)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="linear_tree=False"):
        read_model(booster)


def test_leaves_must_be_finite():
    booster = lgb.train({"objective": "regression", "verbosity": -1}, lgb.Dataset(X, SCORE), 5)
    booster.set_leaf_output(1, 0, np.nan)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="finite"):
        read_model(booster)
