"""XGBoost's models of every booster and objective as arrays: its own leaves, margins and predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb

import rfsize
from reference import trees as reference
from rfsize.models.framework import read_forest, read_model
from rfsize.models.model import Forest

VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
N_ROWS = 1000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 6)).astype(np.float32)
X[:, 2] = RNG.integers(0, 12, 600)
X[:, 3] = np.where(RNG.random(600) < 0.3, 0.0, X[:, 3])
X[RNG.random(X.shape) < 0.1] = np.nan
SCORE = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + np.isin(X[:, 2], (1, 4, 7)) + 0.3 * RNG.normal(size=600)
POSITIVE = np.exp(SCORE / 2)
CLASSES = np.digitize(SCORE, (0.5, 1.5))
TWO = (SCORE > 1).astype(int)

DART = {"booster": "dart", "rate_drop": 0.5}
SAMPLED = {"subsample": 0.5, "colsample_bynode": 0.5}
THREE = {"num_class": 3}
CATEGORICAL = {"feature_types": ["q", "q", "c", "q", "q", "q"]}

# Parameters and labels.
KINDS = {
    "gbtree": ({"objective": "binary:logistic"}, TWO),
    "dart": ({"objective": "binary:logistic", **DART}, TWO),
    "dart of parallel trees": (
        {"objective": "binary:logistic", **DART, "normalize_type": "forest", **SAMPLED, "num_parallel_tree": 3},
        TWO,
    ),
    "parallel trees": ({"objective": "binary:logistic", **SAMPLED, "num_parallel_tree": 4}, TWO),
    "base_score": ({"objective": "binary:logistic", "base_score": 0.2}, TWO),
    "missing is zero": ({"objective": "binary:logistic", "missing": 0.0}, TWO),
    "missing is infinite": ({"objective": "reg:squarederror", "missing": np.inf}, SCORE),
    "softprob": ({"objective": "multi:softprob", **THREE}, CLASSES),
    "softprob of parallel trees": (
        {"objective": "multi:softprob", **THREE, **SAMPLED, "num_parallel_tree": 2},
        CLASSES,
    ),
    "softmax dart": ({"objective": "multi:softmax", **THREE, **DART}, CLASSES),
    "trees of all classes": (
        {"objective": "multi:softprob", **THREE, "multi_strategy": "multi_output_tree", "tree_method": "hist"},
        CLASSES,
    ),
    "raw": ({"objective": "binary:logitraw"}, TWO),
    "hinge": ({"objective": "binary:hinge"}, TWO),
    "probability": ({"objective": "reg:logistic", "tree_method": "exact"}, POSITIVE / POSITIVE.max()),
    "squared error": ({"objective": "reg:squarederror", "tree_method": "approx"}, SCORE),
    "squared log error": ({"objective": "reg:squaredlogerror", "gamma": 0.05}, POSITIVE),
    "pseudo-huber": ({"objective": "reg:pseudohubererror", "monotone_constraints": "(1,0,0,0,-1,0)"}, SCORE),
    "absolute error": ({"objective": "reg:absoluteerror"}, SCORE),
    "quantile": ({"objective": "reg:quantileerror", "quantile_alpha": 0.8}, SCORE),
    "poisson": ({"objective": "count:poisson", "grow_policy": "lossguide", "max_leaves": 9}, CLASSES),
    "gamma": ({"objective": "reg:gamma", "max_delta_step": 0.5}, POSITIVE),
    "tweedie": ({"objective": "reg:tweedie"}, POSITIVE),
    "cox": ({"objective": "survival:cox"}, POSITIVE),
    "failure time": ({"objective": "survival:aft"}, POSITIVE),
    "ranking": ({"objective": "rank:ndcg"}, CLASSES),
    "one-hot": ({"objective": "binary:logistic", "max_cat_to_onehot": 20, **CATEGORICAL}, TWO),
    "partitions": ({"objective": "reg:squarederror", "max_cat_to_onehot": 1, **CATEGORICAL}, SCORE),
}


def matrix(rows, label=None, *, missing=np.nan, feature_types=None, objective=None, **_):
    of_rows = {"missing": missing, "feature_types": feature_types, "enable_categorical": True}
    if objective == "survival:aft":
        return xgb.DMatrix(rows, label_lower_bound=label, label_upper_bound=label, **of_rows)
    if objective == "rank:ndcg":
        return xgb.DMatrix(rows, label, group=[60] * 10 if label is not None else None, **of_rows)
    return xgb.DMatrix(rows, label, **of_rows)


class Boosted:
    """A booster of a kind, what rfsize reads of it, and how its rows are read."""

    def __init__(self, kind, n_rounds=8):
        params, label = KINDS[kind]
        self.params = {"max_depth": 4, "eta": 0.4, "seed": 3, "nthread": 1, **params}
        settings = {name: value for name, value in self.params.items() if name not in ("missing", "feature_types")}
        self.booster = xgb.train(settings, matrix(X, label, **self.params), n_rounds)
        missing = self.params.get("missing")
        self.model = read_model(self.booster, missing=missing)

    def matrix(self, rows):
        return matrix(rows, **self.params)


@pytest.fixture(scope="module", params=KINDS)
def boosted(request):
    return Boosted(request.param)


def adversarial(trees):
    """Rows of values at which reading or comparing goes wrong most easily."""
    thresholds = trees.nodes.threshold[trees.nodes.left >= 0].astype(np.float32)
    step = np.float32(np.inf)
    near = [np.nextafter(thresholds, -step), thresholds, np.nextafter(thresholds, step)]
    near += [np.nextafter(near[2], step)]
    odd = [np.nan, np.nan, 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 3.4e38, -3.4e38, -1.0, -0.5, 0.5, 1.5, 6.999, 12.0]
    odd += [1000.0, 1e10, 16777215.0, 16777216.0, 16777217.0, 0.1, 1 + 1e-9]
    if np.isinf(trees.conventions.reading.missing):
        odd += [np.inf, -np.inf]
    rng = np.random.default_rng(1)
    values = np.concatenate([*(numbers.astype(np.float64) for numbers in near), odd, odd, rng.normal(size=50)])
    rows = rng.choice(values, size=(N_ROWS, trees.n_features))
    rows[:, 2] = np.where(rng.random(N_ROWS) < 0.5, rng.integers(-2, 15, N_ROWS), rows[:, 2])
    return rows


def assert_followed(boosted, rows, data):
    """Leaves and margins are XGBoost's own; ``rows`` are as the reference reads them."""
    trees, booster = boosted.model.ensemble, boosted.booster
    leaves = np.array([reference.walk(trees, row) for row in rows])
    np.testing.assert_array_equal(boosted.model.apply(data).reshape(len(rows), -1), leaves)
    margins = np.array([reference.raw_score(trees, reached) for reached in leaves])
    np.testing.assert_array_equal(
        margins, booster.predict(boosted.matrix(data), output_margin=True).reshape(len(rows), -1)
    )


def test_leaves_and_margins_to_the_last_bit(boosted):
    rows = adversarial(boosted.model.ensemble)
    assert_followed(boosted, rows, rows)


@pytest.mark.parametrize("kind", ["gbtree", "missing is zero", "dart"])
def test_entries_that_a_sparse_matrix_lacks_are_missing(kind):
    boosted = Boosted(kind)
    rows = adversarial(boosted.model.ensemble)[:200]
    is_stored = np.random.default_rng(2).random(rows.shape) < 0.6
    places = np.nonzero(is_stored)
    assert_followed(boosted, np.where(is_stored, rows, np.nan), sp.csr_matrix((rows[places], places), rows.shape))


def test_links(boosted):
    trees = boosted.model.ensemble
    data = boosted.matrix(X)
    margins = boosted.booster.predict(data, output_margin=True).reshape(len(X), -1)
    predicted = trees.link.predicted(margins.astype(np.float64))
    if boosted.params["objective"] == "multi:softmax":
        predicted = predicted.argmax(axis=1)[:, None]
    np.testing.assert_allclose(predicted, boosted.booster.predict(data).reshape(len(X), -1), rtol=1e-5)


def test_first_rounds(boosted):
    data = boosted.matrix(X)
    first = boosted.model.first(5)
    assert first.num_boosted_rounds() == 5
    np.testing.assert_array_equal(first.predict(data), boosted.booster.predict(data, iteration_range=(0, 5)))


def test_selected_rounds(boosted):
    chosen = read_model(boosted.model.select(np.array([5, 0, 3])), missing=boosted.params.get("missing"))
    trees = boosted.model.ensemble
    assert chosen.is_pruned
    assert not isinstance(chosen, Forest)
    np.testing.assert_array_equal(chosen.ensemble.nodes.value, trees.nodes.value[nodes_of(trees, (5, 0, 3))])
    np.testing.assert_array_equal(
        chosen.apply(X)[:, 1] - chosen.ensemble.tree_start[1, 0], boosted.model.apply(X)[:, 0]
    )


def test_selected_rounds_take_new_leaves(boosted):
    trees = boosted.model.ensemble
    scores = np.random.default_rng(2).normal(size=trees.tree_scores.shape)
    new = read_model(boosted.model.select(np.array([4, 7]), scores)).ensemble
    is_leaf = new.nodes.left < 0
    np.testing.assert_allclose(new.tree_scores[is_leaf], scores[nodes_of(trees, (4, 7))][is_leaf], atol=1e-5)


def nodes_of(trees, rounds):
    """Numbers of the nodes of these rounds, in their order."""
    ends = np.append(trees.tree_start[:, 0], trees.nodes.n_nodes.sum())
    return np.concatenate([np.arange(ends[number], ends[number + 1]) for number in rounds])


@pytest.mark.parametrize("kind", ["gbtree", "dart", "softprob of parallel trees"])
def test_slices(kind):
    boosted = Boosted(kind)
    for part, rounds in ((slice(2, 5), (2, 5)), (slice(0, 6, 2), (0, 2, 4))):
        booster = boosted.booster[part]
        trees = read_model(booster).ensemble
        assert trees.n_trees == 3
        sums = np.array([reference.raw_score(trees, reference.walk(trees, row)) for row in X[:100]])
        margins = booster.predict(xgb.DMatrix(X[:100]), output_margin=True)
        np.testing.assert_array_equal(sums, margins.reshape(100, -1), err_msg=str(rounds))


def test_one_round_is_a_forest():
    params = {"objective": "multi:softprob", **THREE, **SAMPLED, "num_parallel_tree": 5}
    booster = xgb.train(params, xgb.DMatrix(X, CLASSES), 1)
    forest = read_forest(booster)
    assert (forest.n_trees, forest.ensemble.parallel_trees, forest.tree_of.shape) == (5, 1, (5, 3))
    margins = booster.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(forest.ensemble.tree_scores[forest.apply(X)].mean(axis=1), margins, atol=1e-5)


def test_compiled_predicts_the_same(boosted, tmp_path):
    compiled, rows = rfsize.compile(boosted.model), adversarial(boosted.model.ensemble)
    compiled.save(tmp_path / "boosted.npz")
    for predictor in (compiled, rfsize.load(tmp_path / "boosted.npz")):
        own = boosted.booster.predict(boosted.matrix(rows))
        np.testing.assert_allclose(predictor.predict(rows), own, rtol=1e-6, atol=1e-7)


def test_boosting_has_no_limit(boosted):
    with pytest.raises(rfsize.exceptions.NotAForestError, match=r"rfsize\.compile.*num_parallel_tree"):
        read_forest(boosted.booster)


def test_trees_that_are_all_alike_have_no_limit():
    booster = xgb.train({"num_parallel_tree": 3, "max_depth": 2}, xgb.DMatrix(X, SCORE), 1)
    assert read_model(booster).n_trees == 3
    with pytest.raises(rfsize.exceptions.NotAForestError, match="identical"):
        read_forest(booster)


def test_estimators_predict_by_their_best_iteration():
    estimator = xgb.XGBClassifier(n_estimators=60, learning_rate=0.9, early_stopping_rounds=5, n_jobs=1)
    estimator.fit(X[:300], TWO[:300], eval_set=[(X[300:], TWO[300:])], verbose=False)
    model, n_rounds = read_model(estimator), estimator.best_iteration + 1
    assert model.n_trees == n_rounds < estimator.get_booster().num_boosted_rounds()
    assert read_model(estimator.get_booster()).n_trees == estimator.get_booster().num_boosted_rounds()
    same, small = model.first(n_rounds), model.first(2)
    np.testing.assert_array_equal(same.predict_proba(X), estimator.predict_proba(X))
    np.testing.assert_array_equal(small.predict_proba(X), estimator.predict_proba(X, iteration_range=(0, 2)))
    assert (small.n_estimators, model.output) == (2, "labels")


def test_categories_of_frames():
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 2] > 5, "high", "low")), "c": X[:, 3]})
    booster = xgb.train({"objective": "binary:logistic"}, xgb.DMatrix(frame, TWO, enable_categorical=True), 5)
    model = read_model(booster)
    assert model.ensemble.n_features == 3
    coded = np.column_stack([frame["a"], frame["b"].cat.codes, frame["c"]])
    leaves = np.array([reference.walk(model.ensemble, row) for row in coded])
    np.testing.assert_array_equal(model.apply(frame).reshape(len(frame), -1), leaves)


@pytest.mark.skipif(VERSION < (3, 1), reason="XGBoost keeps no categories before 3.1")
def test_categories_beyond_ascii_are_those_of_training():
    names = ["中", "中a", "a中"]
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.array(names)[CLASSES], names)})
    booster = xgb.train({"objective": "binary:logistic"}, xgb.DMatrix(frame, TWO, enable_categorical=True), 5)
    coded = np.column_stack([frame["a"], frame["b"].cat.codes])
    model = read_model(booster)
    assert model.open(frame).reader()(0, len(frame))[:, 1].tolist() == coded[:, 1].tolist()
    leaf = booster.predict(xgb.DMatrix(frame, enable_categorical=True), pred_leaf=True)
    np.testing.assert_array_equal(model.apply(coded)[:, :, 0] - model.ensemble.tree_start[:, 0], leaf)
    with pytest.raises(ValueError, match=r"\['b'\]"):
        model.open(frame.assign(b=frame["b"].cat.reorder_categories(names[::-1])))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="ASCII"):
        rfsize.compile(booster)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda: xgb.train({"booster": "gblinear"}, xgb.DMatrix(X, SCORE), 3), "gblinear"),
        (lambda: xgb.train({}, xgb.DMatrix(X, np.column_stack([SCORE, TWO])), 3), "several targets"),
        (
            lambda: xgb.train(
                {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}, xgb.DMatrix(X, SCORE), 3
            ),
            "several targets",
        ),
        (lambda: xgb.train({}, xgb.DMatrix(X, SCORE), 0), "no trees"),
        (lambda: xgb.XGBClassifier(objective="binary:logitraw", n_estimators=3).fit(X, TWO), "binary:logitraw"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_read(train, message):
    with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
        read_model(train())
