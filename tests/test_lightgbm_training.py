"""LightGBM forests in training: what is read of each tree, and forests continued and merged."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import lightgbm as lgb
import naive
import numpy as np
import pandas as pd
import pytest
from conftest import LIGHTGBM, Data
from scipy.special import expit, softmax

import rfsize
from rfsize.integrations.lightgbm_proof import LeafValues, bag_fits, find_up_to_constant
from rfsize.integrations.lightgbm_training import merged, parameters_of
from rfsize.training import trainer_for

SEVERAL = {**LIGHTGBM, "objective": "multiclass", "num_class": 3}


def problem(n_classes: int, n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n_rows, 6))
    score = X @ rng.normal(size=(6, n_classes)) + X[:, :1] * X[:, 1:2] + rng.normal(size=(n_rows, n_classes))
    return X, score.argmax(axis=1)


def out_of_bag_scores(model: lgb.Booster, X: np.ndarray, inbag: np.ndarray) -> np.ndarray:
    """Sums of the trees' raw scores over the trees that did not see the row, one tree at a time."""
    total = np.zeros((len(X), model.num_model_per_iteration()))
    for tree, seen in enumerate(inbag):
        alone = model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1).reshape(len(X), -1)
        total[~seen] += alone[~seen]
    return total


def centred(score: np.ndarray) -> np.ndarray:
    return score - score.mean(axis=1, keepdims=True)


def grown(params: dict[str, Any], X: Any, y: Any, trees: int = 20, **dataset: Any) -> Any:
    forest = trainer_for(params, lgb.Dataset(X, y, **dataset)).start()
    forest.add(trees // 2)
    forest.add(trees - trees // 2)
    return forest


# -------------------------------------------------------------------------------------------------------------
# What is read of each tree


@pytest.mark.parametrize(
    ("n_classes", "params"),
    [
        (2, {}),
        (3, {"bagging_fraction": 0.3, "min_data_in_leaf": 2, "num_leaves": 60}),
        (3, {"extra_trees": True, "is_unbalance": True}),
        (6, {"feature_fraction": 0.3, "max_depth": 2}),
        (11, {"num_leaves": 5}),
        (26, {"min_gain_to_split": 3.0, "bagging_fraction": 0.4}),
    ],
)
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_many_classes(objective: str, n_classes: int, params: dict[str, Any]) -> None:
    X, y = problem(n_classes)
    params = {**LIGHTGBM, "objective": objective, "num_class": n_classes, **params}
    forest = grown(params, X, y, weight=np.random.default_rng(1).uniform(0.5, 2.0, len(y)))
    model, found = forest.booster(), forest.out_of_bag
    expected = rfsize.votes(model, X, oob=True)
    told = found.asked == expected.asked
    assert told.mean() > 0.5 if objective == "multiclassova" else told.all()
    assert np.array_equal(found.counts[told], expected.counts[told])
    assert np.array_equal(found.asked, found.counts.sum(axis=1))
    assert (found.counts <= expected.counts).all()
    scores = out_of_bag_scores(model, X, rfsize.inbag(model, X))
    if objective == "multiclass":
        assert np.allclose(centred(found.score), centred(scores), rtol=0, atol=1e-9)
    elif n_classes < 11:
        assert np.allclose(found.score, scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_ties_go_to_the_lowest_class(objective: str) -> None:
    """Leaves with as many rows of one class as of another score both alike, but for rounding."""
    X, y = np.round(problem(3, 300)[0]), np.arange(300) % 3
    forest = grown({**SEVERAL, "objective": objective, "min_data_in_leaf": 2, "num_leaves": 60}, X, y, 30)
    model = forest.booster()
    alone = [model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1) for tree in range(30)]
    labels = np.stack([(score > score.max(axis=1, keepdims=True) - 1e-10).argmax(axis=1) for score in alone])
    assert np.array_equal(forest.out_of_bag.counts, naive.votes(labels, 3, rfsize.inbag(model, X)))
    assert (labels != np.stack([score.argmax(axis=1) for score in alone])).any()


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_scores_beyond_what_a_probability_holds_are_left_out(objective: str) -> None:
    X, y = problem(3, 3000)
    y[y == 2] = 0
    y[X[:, 0].argmax()] = 2
    params = {**SEVERAL, "objective": objective, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
    forest = grown(params, X, y, 40)
    found, expected = forest.out_of_bag, rfsize.votes(forest.booster(), X, oob=True)
    assert (found.counts <= expected.counts).all()
    assert 0.5 < found.asked.sum() / expected.asked.sum() < 1.0
    assert np.isfinite(found.score).all()


@pytest.mark.parametrize("rare", [0, 1])
def test_a_class_of_one_row_or_none(rare: int) -> None:
    """LightGBM grows trees without splits for a class that has no rows."""
    X, y = problem(5)
    y[y == 2] = 1
    y[:rare] = 2
    forest = grown({**SEVERAL, "num_class": 5, "min_data_in_leaf": 5}, X, y)
    model = forest.booster()
    leaves = [tree["num_leaves"] for tree in model.dump_model()["tree_info"]]
    assert (leaves.count(1) > 0) == (rare == 0)
    assert np.array_equal(forest.out_of_bag.counts, rfsize.votes(model, X, oob=True).counts)


def test_trees_of_one_leaf_among_the_classes() -> None:
    """Iterations in which the tree of one class alone has splits are left out, and no others."""
    X, y = problem(3)
    forest = grown({**SEVERAL, "min_gain_to_split": 45.0, "bagging_fraction": 0.4}, X, y, 60)
    model = forest.booster()
    leaves = np.array([tree["num_leaves"] for tree in model.dump_model()["tree_info"]]).reshape(-1, 3)
    with_splits = (leaves > 1).sum(axis=1)
    assert {0, 1, 2, 3} == set(with_splits.tolist())
    told = (with_splits != 1) | (np.arange(60) == 0)
    inbag = rfsize.inbag(model, X)
    alone = np.stack([model.predict(X, start_iteration=tree, num_iteration=1).argmax(axis=1) for tree in range(60)])
    assert np.array_equal(forest.out_of_bag.counts, naive.votes(alone[told], 3, inbag[told]))
    expected = sum(
        ~seen[:, None] * model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1)
        for tree, seen in enumerate(inbag)
        if told[tree]
    )
    assert np.allclose(centred(forest.out_of_bag.score), centred(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "params",
    [
        {"sigmoid": 1 / 3},
        {"objective": "cross_entropy"},
        {"pos_bagging_fraction": 0.7, "neg_bagging_fraction": 0.5},
        {"min_gain_to_split": 60.0, "feature_fraction": 0.1},
    ],
)
def test_two_classes(params: dict[str, Any], data: Data) -> None:
    forest = grown({**LIGHTGBM, **params}, data.X, data.y, 30)
    model = forest.booster()
    expected = rfsize.votes(model, data.X, data.y, oob=True)
    assert np.array_equal(forest.out_of_bag.counts, expected.counts)
    scores = out_of_bag_scores(model, data.X, rfsize.inbag(model, data.X, data.y))
    assert np.allclose(forest.out_of_bag.score, scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("objective", "label"),
    [
        *(("regression", label) for label in ("plain", "large", "tiny")),
        *((name, "plain") for name in ("regression_l1", "huber", "fair", "quantile", "mape")),
        *((name, "positive") for name in ("poisson", "gamma", "tweedie")),
    ],
)
def test_regression(objective: str, label: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 5))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=800)
    y = {"plain": signal, "large": 1e4 + signal, "tiny": 1e-6 * signal, "positive": np.exp(signal)}[label]
    params = {**LIGHTGBM, "objective": objective}
    forest = grown(params, X, y)
    model, found = forest.booster(), forest.out_of_bag
    seed = int(model.model_to_string().partition("[bagging_seed: ")[2].partition("]")[0])
    inbag = naive.lightgbm_inbag(20, 800, seed, params["bagging_fraction"])
    assert found.counts.shape == (800, 0)
    assert np.array_equal(found.asked, (~inbag).sum(axis=0))
    assert np.allclose(found.score, out_of_bag_scores(model, X, inbag), rtol=1e-10, atol=1e-10 * np.abs(y).max())
    trainer = trainer_for(params, lgb.Dataset(X, y))
    mean = model.predict(X, raw_score=True).reshape(-1, 1) / 20
    assert np.allclose(trainer.predictions(mean), model.predict(X), rtol=1e-9)
    assert len(trainer.classes) == 0
    assert np.array_equal(trainer.label, np.float32(y))


def test_regression_of_roots_and_trees_of_one_leaf() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 5))
    y = 3 * X[:, 0] + rng.normal(size=800)
    forest = grown({**LIGHTGBM, "objective": "regression", "reg_sqrt": True, "min_gain_to_split": 20.0}, X, y, 40)
    model = forest.booster()
    assert 1 in {tree["num_leaves"] for tree in model.dump_model()["tree_info"]}
    seed = int(model.model_to_string().partition("[bagging_seed: ")[2].partition("]")[0])
    expected = out_of_bag_scores(model, X, naive.lightgbm_inbag(40, 800, seed, 0.632))
    assert np.allclose(forest.out_of_bag.score, expected, rtol=0, atol=1e-10)


# -------------------------------------------------------------------------------------------------------------
# Leaves found by scores


def test_leaves_up_to_a_constant_are_those_that_trying_all_of_them_finds() -> None:
    rng = np.random.default_rng(4)
    # Few distinct values, so that many rows fit several ways.
    values = [np.unique(rng.integers(0, 12, size) / 4.0) for size in (5, 4, 6)]
    leaves = [LeafValues.of(value, np.ones(value.size), 1e-9) for value in values]
    truth = np.array([rng.integers(0, value.size, 60) for value in values])
    constant = rng.normal(size=60)
    score = np.stack([value[place] for value, place in zip(values, truth, strict=True)]) + constant
    expected = {
        (row, *places)
        for row in range(60)
        for places in itertools.product(*(range(value.size) for value in values))
        if np.ptp([values[tree][place] - score[tree, row] for tree, place in enumerate(places)]) < 1e-6
    }
    row, place = find_up_to_constant(score, leaves)
    assert sorted(zip(row.tolist(), *place.tolist(), strict=True)) == sorted(expected)
    assert {(index, *places) for index, places in enumerate(truth.T.tolist())} < expected
    counted = [np.bincount(of_tree, minlength=value.size) for of_tree, value in zip(truth, values, strict=True)]
    fitting = [LeafValues.of(value, count, 1e-9) for value, count in zip(values, counted, strict=True)]
    assert bag_fits(score, fitting, 0)
    assert not bag_fits(score[:, 1:], fitting, 0)
    assert bag_fits(score[:, 1:], fitting, 1)
    assert not bag_fits(score + rng.normal(size=score.shape), fitting, 0)


def test_bags_that_fit_no_counts() -> None:
    values = np.array([0.0, 1.0, 5.0]), np.array([0.0, 1.0, 7.0])

    def fits(one: list[int], two: list[int], score: list[float], lost: int = 0) -> bool:
        counts = np.array(one, dtype=float), np.array(two, dtype=float)
        leaves = [LeafValues.of(value, count, 1e-9) for value, count in zip(values, counts, strict=True)]
        return bag_fits(np.array(score)[:, None], leaves, lost)

    # The row is in the first two leaves, or in the second two.
    assert fits([1, 0, 0], [1, 0, 0], [3.0, 3.0])
    assert fits([0, 1, 0], [0, 1, 0], [3.0, 3.0])
    assert not fits([0, 0, 1], [0, 0, 1], [3.0, 3.0])
    assert not fits([1, 1, 0], [1, 1, 0], [3.0, 3.0])
    assert fits([1, 0, 1], [1, 0, 1], [3.0, 3.0], lost=1)
    assert fits([0, 0, 1], [0, 0, 1], [3.0, 5.0])
    assert not fits([0, 0, 0], [0, 0, 0], [3.0, 3.5])


def test_alike_leaves_count_as_one() -> None:
    leaves = LeafValues.of(np.array([2.0, 1.0, 1.0 + 1e-12]), np.array([5.0, 2.0, 4.0]), 1e-9)
    assert leaves.value.tolist() == [1.0, 2.0]
    assert leaves.count.tolist() == [6.0, 5.0]


def test_wrong_bags_of_many_classes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from rfsize.integrations import lightgbm_reading

    right = lightgbm_reading.rebuilt_bags

    def wrong(forest: Any, n_rows: int, positive: Any) -> Any:
        bags = right(forest, n_rows, positive)
        bags.blocks = [(bags.blocks[0][0] + 1, 1)]
        return bags

    monkeypatch.setattr(lightgbm_reading, "rebuilt_bags", wrong)
    X, y = problem(3)
    for params in (SEVERAL, {**SEVERAL, "objective": "multiclassova"}):
        with pytest.raises(rfsize.InbagError, match="tree 0 do not match"):
            grown(params, X, y)


# -------------------------------------------------------------------------------------------------------------
# The trainer


def test_forests_are_those_that_lightgbm_trains(data: Data) -> None:
    """Under all names of the parameters, which stay as they are."""
    params = {
        "application": "multiclass", "num_classes": 3, "boosting_type": "random_forest", "sub_row": 0.5,
        "subsample_freq": 1, "sub_feature": 0.6, "max_leaves": 15, "random_state": 5, "verbose": -1,
        "n_estimators": 500, "early_stopping_round": 3, "metric": "auc_mu",
    }  # fmt: skip
    given = copy.deepcopy(params)
    dataset = lgb.Dataset(data.X, data.three)
    trainer = trainer_for(params, dataset)
    assert (trainer.fraction, trainer.seed, trainer.classes.tolist()) == (0.5, 5, [0, 1, 2])
    assert np.array_equal(trainer.label, data.three)
    usual = {name: value for name, value in params.items() if name not in {"n_estimators", "early_stopping_round"}}
    for options, changed in [
        ({}, {}),
        ({"seed": 8}, {"random_state": 8}),
        ({"fraction": 0.7}, {"sub_row": 0.7}),
        ({"fraction": 0.3, "seed": 1}, {"sub_row": 0.3, "random_state": 1}),
    ]:
        forest = trainer.start(**options)
        forest.add(6)
        expected = lgb.train({**usual, **changed}, lgb.Dataset(data.X, data.three), 6)
        assert np.array_equal(forest.booster().predict(data.fresh), expected.predict(data.fresh))
        assert forest.n_trees == forest.booster().current_iteration() == 6
    assert params == given
    assert trainer.votes(forest).n_trees == 6


def test_another_seed_changes_bags_and_features_whatever_seeds_are_named(data: Data) -> None:
    seeds = {"bagging_seed": 4, "feature_fraction_seed": 5, "extra_seed": 6, "feature_fraction": 0.3}
    trainer = trainer_for({**LIGHTGBM, **seeds}, lgb.Dataset(data.X, data.y))
    forests = [trainer.start(), trainer.start(seed=1), trainer.start(seed=2)]
    for forest in forests:
        forest.add(15)
    boosters = [forest.booster() for forest in forests]
    bags = [rfsize.inbag(booster, data.X) for booster in boosters]
    assert np.array_equal(bags[0], naive.lightgbm_inbag(15, len(data.X), 4, 0.632))
    features = [[t["tree_structure"]["split_feature"] for t in b.dump_model()["tree_info"]] for b in boosters]
    for one, two in itertools.combinations(range(3), 2):
        assert not (bags[one] == bags[two]).all(axis=1).any()
        assert features[one] != features[two]


def test_sampling_parameters_may_be_left_to_start(data: Data) -> None:
    params = {name: value for name, value in LIGHTGBM.items() if not name.startswith("bagging")}
    trainer = trainer_for(params, lgb.Dataset(data.X, data.y))
    assert trainer.fraction == 1.0
    for start in (trainer.start, lambda: trainer.resume(None)):
        with pytest.raises(rfsize.InbagError, match="name no bagging_fraction below 1"):
            start()
    forest = trainer.start(fraction=0.4)
    forest.add(5)
    assert rfsize.inbag(forest.booster(), data.X).mean() == pytest.approx(0.4, abs=0.02)
    for fraction in (0.0, 1.0, None.__class__):
        with pytest.raises(ValueError, match="fraction"):
            trainer.start(fraction=fraction)


def test_weights_and_predictions(data: Data) -> None:
    weight = np.linspace(0.5, 2.0, len(data.X))
    for params, y, link in [
        ({**LIGHTGBM, "sigmoid": 0.7}, data.y, lambda score: np.hstack([1 - expit(0.7 * score), expit(0.7 * score)])),
        (SEVERAL, data.three, lambda score: softmax(score, axis=1)),
        ({**SEVERAL, "objective": "multiclassova"}, data.three, expit),
    ]:
        trainer = trainer_for(params, lgb.Dataset(data.X, y, weight=weight))
        assert np.allclose(trainer.weight, weight)
        forest = trainer.start()
        forest.add(4)
        model = forest.booster()
        mean = model.predict(data.fresh, raw_score=True).reshape(len(data.fresh), -1) / 4
        found = trainer.predictions(mean)
        assert np.allclose(found, link(mean))
        expected = model.predict(data.fresh)
        assert np.allclose(found if expected.ndim == 2 else found[:, 1], expected)
    assert trainer_for(LIGHTGBM, lgb.Dataset(data.X, data.y)).weight is None


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"boosting": "gbdt"}, rfsize.NotAForestError, "boosting='rf'"),
        ({"objective": "lambdarank"}, rfsize.NotAForestError, "lambdarank|cannot be read"),
        ({"objective": lambda *_: None}, rfsize.NotAForestError, "objective of one's own"),
        ({"objective": "cross_entropy_lambda"}, rfsize.NotAForestError, "cannot be read"),
        ({"bagging_freq": 0, "feature_fraction": 0.5}, rfsize.InbagError, "bagging_freq=1"),
        ({"data_sample_strategy": "goss"}, rfsize.InbagError, "GOSS"),
        ({"machines": "1.2.3.4:1"}, rfsize.InbagError, "several machines"),
    ],
)
def test_parameters_that_make_no_forest(params: dict[str, Any], error: Any, message: str, data: Data) -> None:
    group = np.full(len(data.y) // 10, 10) if params.get("objective") == "lambdarank" else None
    with pytest.raises(error, match=message):
        trainer_for({**LIGHTGBM, **params}, lgb.Dataset(data.X, data.y, group=group))


def test_labels_and_data_are_checked(data: Data) -> None:
    with pytest.raises(ValueError, match=r"indices 0 to 1, found \[0\.5\]"):
        trainer_for({**LIGHTGBM, "objective": "cross_entropy"}, lgb.Dataset(data.X, data.y / 2))
    with pytest.raises(ValueError, match="init_score"):
        trainer_for(LIGHTGBM, lgb.Dataset(data.X, data.y, init_score=np.zeros(len(data.y))))
    with pytest.raises(ValueError, match="no labels"):
        trainer_for(LIGHTGBM, lgb.Dataset(data.X))
    balanced = {**LIGHTGBM, "pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.7}
    with pytest.raises(ValueError, match="pos_/neg_bagging_fraction"):
        trainer_for(balanced, lgb.Dataset(data.X, data.y)).start(fraction=0.5)
    forest = trainer_for(LIGHTGBM, lgb.Dataset(data.X, data.y)).start()
    with pytest.raises(ValueError, match="no trees yet"):
        forest.booster()
    with pytest.raises(ValueError, match="n_trees must"):
        forest.add(0)


def test_trees_that_prove_nothing_are_refused(data: Data) -> None:
    forest = trainer_for({**LIGHTGBM, "min_gain_to_split": 1e9}, lgb.Dataset(data.X, data.y)).start()
    with pytest.raises(rfsize.InbagError, match="more than one leaf"):
        forest.add(3)


# -------------------------------------------------------------------------------------------------------------
# Merged and continued forests


@pytest.fixture(scope="module", params=["binary", "multiclass", "regression"])
def pair(request: pytest.FixtureRequest, data: Data) -> Any:
    """Two forests of one Dataset, and the rows."""
    params = {"binary": LIGHTGBM, "multiclass": SEVERAL, "regression": {**LIGHTGBM, "objective": "regression"}}
    y = {"binary": data.y, "multiclass": data.three, "regression": data.X[:, 0] + 1e6}[request.param]
    trainer = trainer_for(params[request.param], lgb.Dataset(data.X, y))
    boosters = []
    for seed, trees in ((3, 13), (4, 8)):
        forest = trainer.start(seed=seed)
        forest.add(trees)
        boosters.append(forest.booster())
    return boosters


def test_a_merged_forest_predicts_the_mean_of_all_trees(pair: Any, data: Data) -> None:
    texts = [booster.model_to_string() for booster in pair]
    whole = merged(pair)
    assert whole.current_iteration() == 21
    total = sum(booster.predict(data.fresh, raw_score=True) for booster in pair)
    assert np.allclose(whole.predict(data.fresh, raw_score=True), total, rtol=1e-12)
    for tree in range(21):
        alone = whole.predict(data.fresh, start_iteration=tree, num_iteration=1)
        which, own = (0, tree) if tree < 13 else (1, tree - 13)
        assert np.array_equal(alone, pair[which].predict(data.fresh, start_iteration=own, num_iteration=1))
    again = merged([merged(pair[:1]), lgb.Booster(model_str=pair[1].model_to_string())])
    assert again.model_to_string() == whole.model_to_string()
    assert [booster.model_to_string() for booster in pair] == texts
    assert np.array_equal(whole.feature_importance(), sum(booster.feature_importance() for booster in pair))


def test_a_merged_forest_remembers_its_bags(pair: Any, data: Data, tmp_path: Any, capfd: Any) -> None:
    whole = merged(pair)
    if whole.model_to_string().count("objective=regression"):
        pytest.skip("regression forests have no adapter")
    expected = np.vstack([rfsize.inbag(booster, data.X) for booster in pair])
    whole.save_model(tmp_path / "model.txt")
    copies = [
        whole,
        lgb.Booster(model_str=whole.model_to_string()),
        lgb.Booster(model_file=tmp_path / "model.txt"),
        pickle.loads(pickle.dumps(whole)),
        copy.deepcopy(whole),
        rfsize.truncate(whole, n_trees=15),
        rfsize.truncate(whole, n_trees=13),
        rfsize.truncate(rfsize.truncate(whole, n_trees=15), n_trees=7),
    ]
    for one in copies:
        assert np.array_equal(rfsize.inbag(one, data.X), expected[: one.current_iteration()])
    assert "Warning" not in "".join(capfd.readouterr())
    fast = rfsize.compile(whole)
    assert np.array_equal(fast.votes(data.fresh).counts, rfsize.votes(whole, data.fresh).counts)


def test_two_forests_are_merged_once(pair: Any, data: Data) -> None:
    one, two = pair
    whole = merged(pair)
    longer = rfsize.truncate(whole, n_trees=14) if whole.num_model_per_iteration() != 1 else whole
    for twice in ([one, one], [one, copy.deepcopy(one)], [whole, two], [two, longer]):
        with pytest.raises(ValueError, match="same bags"):
            merged(twice)
    silent = [lgb.Booster(model_str=_without_parameters(booster)) for booster in (one, whole, two)]
    assert merged([silent[0], silent[2]]).current_iteration() == 21
    with pytest.raises(ValueError, match="same trees"):
        merged(silent[:2])
    with pytest.raises(ValueError, match="none"):
        merged([])


def _without_parameters(booster: lgb.Booster) -> str:
    head, _, rest = booster.model_to_string().partition("\nparameters:\n")
    return head + rest.partition("end of parameters\n")[2]


def test_forests_that_differ_are_not_merged(data: Data) -> None:
    def train(y: Any = data.y, X: Any = data.X, **params: Any) -> lgb.Booster:
        return lgb.train({**LIGHTGBM, **params}, lgb.Dataset(X, y), 3)

    one = train()
    for other, what in [
        (train(objective="cross_entropy", seed=4), "objective"),
        (train(data.three, objective="multiclass", num_class=3, seed=4), "objective"),
        (train(X=data.X[:, :5], seed=4), "max_feature_idx"),
        (train(X=data.X + 1, seed=4), "feature_infos"),
        (train(X=pd.DataFrame(data.X, columns=list("abcdefgh")), seed=4), "feature_names"),
        (train(bagging_fraction=0.5, seed=4), "bagging_fraction"),
        (train(num_leaves=7, seed=4), "num_leaves"),
        (train(boosting="gbdt", seed=4), "boosting='gbdt'"),
    ]:
        with pytest.raises(rfsize.NotAForestError, match=what):
            merged([one, other])
    assert merged([one, train(seed=4, num_threads=2, verbosity=0)]).num_trees() == 6


@pytest.mark.parametrize(
    "note",
    ["rfsize_bags", "rfsize_bags 3x3", "rfsize_bags 3x13 3x8", "rfsize_bags 3x0 4x21", "rfsize_bags 3x13 4x9 junk"],
)
def test_a_damaged_note_is_refused(note: str, pair: Any, data: Data) -> None:
    text = merged(pair).model_to_string()
    if "objective=regression" in text:
        pytest.skip("regression forests have no adapter")
    own = text.partition("[rfsize_bags")[2].partition(": ]")[0]
    damaged = lgb.Booster(model_str=text.replace(f"rfsize_bags{own}", note))
    with pytest.raises(rfsize.InbagError, match="note of how its bags were drawn is damaged"):
        rfsize.inbag(damaged, data.X)
    seeds = lgb.Booster(model_str=text.replace(own, own.replace("x13", "x12").replace("x8", "x9")))
    with pytest.raises(rfsize.InbagError):
        rfsize.inbag(seeds, data.X)


def test_blocks_with_full_bags(data: Data) -> None:
    """LightGBM draws no bags after a full one, but the next forest begins anew."""
    X, y = data.X[:60], data.y[:60]
    params = {**LIGHTGBM, "bagging_fraction": 0.95, "min_data_in_leaf": 2}
    boosters = [lgb.train({**params, "bagging_seed": seed}, lgb.Dataset(X, y), 40) for seed in (2, 3)]
    expected = np.vstack([rfsize.inbag(booster, X) for booster in boosters])
    assert expected.all(axis=1)[39]
    assert not expected.all(axis=1)[40]
    assert np.array_equal(rfsize.inbag(merged(boosters), X), expected)


@pytest.mark.parametrize("params", [LIGHTGBM, SEVERAL, {**LIGHTGBM, "pos_bagging_fraction": 0.5}])
def test_a_finished_forest_continues(params: dict[str, Any], data: Data) -> None:
    y = data.three if "num_class" in params else data.y
    balanced_y = data.y if "pos_bagging_fraction" in params else None
    first = lgb.train(params, lgb.Dataset(data.X, y), 9)
    text = first.model_to_string()
    trainer = trainer_for(parameters_of(first), lgb.Dataset(data.X, y))
    forest = trainer.resume(first)
    assert forest.n_trees == 9
    assert np.array_equal(forest.out_of_bag.counts, rfsize.votes(first, data.X, balanced_y, oob=True).counts)
    assert forest.booster().current_iteration() == 9
    forest.add(4)
    forest.add(3)
    more = forest.booster()
    assert first.model_to_string() == text
    assert forest.n_trees == more.current_iteration() == 16
    assert np.array_equal(more.predict(data.fresh, num_iteration=9), first.predict(data.fresh))
    assert np.array_equal(forest.out_of_bag.counts, rfsize.votes(more, data.X, balanced_y, oob=True).counts)
    scores = out_of_bag_scores(more, data.X, rfsize.inbag(more, data.X, balanced_y))
    if "num_class" in params:
        assert np.allclose(centred(forest.out_of_bag.score), centred(scores), rtol=0, atol=1e-9)
    else:
        assert np.allclose(forest.out_of_bag.score, scores, rtol=0, atol=1e-9)
    again = trainer.resume(more)
    again.add(5)
    bags = rfsize.inbag(again.booster(), data.X, balanced_y)
    assert len(np.unique(bags, axis=0)) == 21


def test_what_cannot_continue_is_refused(data: Data) -> None:
    first = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 5)
    kept = lgb.Dataset(data.X, data.y, free_raw_data=False).construct()
    assert trainer_for(LIGHTGBM, kept).resume(first).n_trees == 5
    with pytest.raises(ValueError, match="free_raw_data=False"):
        trainer_for(LIGHTGBM, lgb.Dataset(data.X, data.y).construct()).resume(first)
    with pytest.raises(rfsize.NotAForestError, match="num_leaves"):
        trainer_for({**LIGHTGBM, "num_leaves": 7}, kept).resume(first)
    with pytest.raises(rfsize.InbagError):
        trainer_for(LIGHTGBM, lgb.Dataset(data.X[::-1], data.y[::-1])).resume(first)
    with pytest.raises(rfsize.NotAForestError):
        trainer_for(LIGHTGBM, kept).resume(lgb.train({**LIGHTGBM, "boosting": "gbdt"}, lgb.Dataset(data.X, data.y), 2))


@pytest.mark.parametrize(
    "params", [LIGHTGBM, {**SEVERAL, "extra_trees": True, "max_bin": 31, "monotone_constraints": [1] * 8}]
)
def test_parameters_are_remembered(params: dict[str, Any], data: Data) -> None:
    y = data.three if "num_class" in params else data.y
    first = lgb.train({**params, "n_estimators": 6}, lgb.Dataset(data.X, y))
    for source in (first, lgb.Booster(model_str=first.model_to_string())):
        found = parameters_of(source)
        assert not {"num_iterations", "n_estimators"} & set(found)
        again = lgb.train(found, lgb.Dataset(data.X, y), 6)
        assert np.array_equal(again.predict(data.fresh), first.predict(data.fresh))
    with pytest.raises(ValueError, match="does not say how it was trained"):
        parameters_of(lgb.Booster(model_str=_without_parameters(first)))


def test_a_classifier_continues(data: Data) -> None:
    settings = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "random_state": 0, "verbose": -1}
    model = lgb.LGBMClassifier(n_estimators=6, num_leaves=7, **settings).fit(data.X, np.array(["no", "yes"])[data.y])
    forest = trainer_for(parameters_of(model), lgb.Dataset(data.X, data.y)).resume(model)
    forest.add(3)
    assert np.array_equal(forest.booster().predict(data.fresh, num_iteration=6), model.predict_proba(data.fresh)[:, 1])
