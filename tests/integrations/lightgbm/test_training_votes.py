"""Votes and scores read out of a LightGBM booster while it trains."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import reference.bagging
import reference.counting
import rfsize
from helpers.forests import LIGHTGBM, Data
from helpers.lightgbm_forests import SEVERAL, each_tree, grown, problem
from helpers.reports import as_sure, same
from reference.scores import assert_scores
from rfsize.integrations.lightgbm import training_votes as training_rows
from rfsize.integrations.lightgbm.training import LightGbmTrainer

# -------------------------------------------------------------------------------------------------------------
# What is read of each tree


@pytest.mark.parametrize(
    ("n_classes", "params"),
    [
        (2, {}),
        (3, {"bagging_fraction": 0.3, "min_data_in_leaf": 2, "num_leaves": 60}),
        (3, {"extra_trees": True, "is_unbalance": True}),
        (6, {"feature_fraction": 0.7, "max_depth": 2}),
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
    expected = rfsize.tree_outputs(model, X, oob=True).votes
    told = found.scores.asked == expected.asked
    assert told.mean() > 0.5 if objective == "multiclassova" else told.all()
    assert np.array_equal(found.counts[told], expected.counts[told])
    assert np.array_equal(found.scores.asked, found.counts.sum(axis=1))
    assert (found.counts <= expected.counts).all()
    alone, outside = each_tree(model, X), ~rfsize.inbag(model, X)
    if objective == "multiclass":
        assert_scores(found.scores, alone, outside, up_to_constant=True, rtol=1e-8, atol=1e-8)
    elif n_classes < 11:
        assert_scores(found.scores, alone, outside, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_ties_but_for_rounding_go_as_in_the_finished_forest(objective: str) -> None:
    """Leaves with as many rows of one class as of another score both alike, but for rounding."""
    X, y = np.round(problem(3, 300)[0]), np.arange(300) % 3
    forest = grown({**SEVERAL, "objective": objective, "min_data_in_leaf": 2, "num_leaves": 60}, X, y, 30)
    model = forest.booster()
    alone = [model.predict(X, raw_score=True, start_iteration=tree, num_iteration=1) for tree in range(30)]
    labels = np.stack([score.argmax(axis=1) for score in alone])
    assert np.array_equal(forest.out_of_bag.counts, reference.counting.votes(labels, 3, rfsize.inbag(model, X)))
    level = np.stack([(score > score.max(axis=1, keepdims=True) - 1e-10).argmax(axis=1) for score in alone])
    assert (labels != level).any()


@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova"])
def test_scores_beyond_what_a_probability_holds_are_predicted_from_the_rows(objective: str) -> None:
    """A rare class scores so high that a probability of 1 hides what any other tree says of its rows."""
    X, y = problem(3, 3000)
    y[y == 2] = 0
    rare = np.argsort(-X[:, 0])[:9]
    y = (np.arange(3000)[:, None] == rare).any(axis=1).astype(int) if objective == "binary" else y
    y[rare[0]] = 1 if objective == "binary" else 2
    params = {**SEVERAL, "objective": objective, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
    params["num_class"] = 1 if objective == "binary" else 3
    forest = grown(params, X, y, 60)
    found, expected = forest.out_of_bag, rfsize.tree_outputs(forest.booster(), X, oob=True).votes
    assert np.array_equal(found.counts, expected.counts)
    alone, outside = each_tree(forest.booster(), X), ~rfsize.inbag(forest.booster(), X)
    assert_scores(found.scores, alone, outside, up_to_constant=objective == "multiclass", rtol=1e-6, atol=1e-6)
    gone = lgb.Dataset(X, y, params=params).construct()
    with pytest.raises(ValueError, match=r"LightGBM's rounded predictions.*free_raw_data=False"):
        LightGbmTrainer(params, gone).start().add(60)
    callback = rfsize.SizeCallback(alpha=0.9, voting="hard")
    lgb.train(params, lgb.Dataset(X, y, free_raw_data=False), 60, callbacks=[callback])
    expected = rfsize.size(forest.booster(), X, y, alpha=0.9, oob=True, voting="hard")
    assert same(as_sure(callback.report_), as_sure(expected))


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
    assert np.array_equal(forest.out_of_bag.counts, rfsize.tree_outputs(model, X, oob=True).votes.counts)


def test_trees_of_one_leaf_among_the_classes() -> None:
    """Iterations in which the trees of some classes have no splits are left out, if the rows are gone."""
    X, y = problem(3)
    params = {**SEVERAL, "min_gain_to_split": 45.0, "bagging_fraction": 0.4}
    forest = LightGbmTrainer(params, lgb.Dataset(X, y, params=params).construct()).start()
    forest.add(60)
    model = forest.booster()
    assert np.array_equal(
        grown(params, X, y, 60).out_of_bag.counts, rfsize.tree_outputs(model, X, oob=True).votes.counts
    )
    leaves = np.array([tree["num_leaves"] for tree in model.dump_model()["tree_info"]]).reshape(-1, 3)
    with_splits = (leaves > 1).sum(axis=1)
    assert {0, 1, 2, 3} == set(with_splits.tolist())
    told = np.isin(with_splits, (0, 3)) | (np.arange(60) == 0)
    inbag = rfsize.inbag(model, X)
    alone = np.stack([model.predict(X, start_iteration=tree, num_iteration=1).argmax(axis=1) for tree in range(60)])
    assert np.array_equal(forest.out_of_bag.counts, reference.counting.votes(alone[told], 3, inbag[told]))
    raw, outside = each_tree(model, X)[told], ~inbag[told]
    assert_scores(forest.out_of_bag.scores, raw, outside, up_to_constant=True, rtol=1e-8, atol=1e-8)


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
    expected = rfsize.tree_outputs(model, data.X, data.y, oob=True).votes
    assert np.array_equal(forest.out_of_bag.counts, expected.counts)
    outside = ~rfsize.inbag(model, data.X, data.y)
    assert_scores(forest.out_of_bag.scores, each_tree(model, data.X), outside, rtol=1e-9, atol=1e-9)


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
    inbag = reference.bagging.lightgbm_inbag(20, 800, seed, params["bagging_fraction"])
    assert found.counts.shape == (800, 0)
    # The scatter is that of the scores about their mean, which may be much larger.
    noise = 1e-10 * np.abs(y).max() * max(1.0, np.abs(y).max())
    assert_scores(found.scores, each_tree(model, X), ~inbag, rtol=1e-9, atol=noise)
    trainer = LightGbmTrainer(params, lgb.Dataset(X, y))
    mean = model.predict(X, raw_score=True).reshape(-1, 1) / 20
    assert np.allclose(trainer.link.predictions(mean, 0)[:, 0], model.predict(X), rtol=1e-9)
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
    outside = ~reference.bagging.lightgbm_inbag(40, 800, seed, 0.632)
    assert_scores(forest.out_of_bag.scores, each_tree(model, X), outside, rtol=1e-9, atol=1e-9)


def test_wrong_bags_of_many_classes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = training_rows.rebuilt_bags

    def wrong(forest: Any, layout: Any, positive: Any) -> Any:
        bags = right(forest, layout, positive)
        bags.blocks = [(bags.blocks[0][0] + 1, 1)]
        return bags

    monkeypatch.setattr(training_rows, "rebuilt_bags", wrong)
    X, y = problem(3)
    for params in (SEVERAL, {**SEVERAL, "objective": "multiclassova"}):
        for dataset in (lgb.Dataset(X, y), lgb.Dataset(X, y, params=params).construct()):
            with pytest.raises(rfsize.exceptions.InbagError, match=r"leaf counts|LightGBM counted"):
                LightGbmTrainer(params, dataset).start().add(3)


@pytest.mark.parametrize("name", ["multiclass", "multiclassova"])
def test_classes_that_are_level_but_for_the_last_bits(name: str) -> None:
    """Where no tree says yes, the last bits decide; they can be had from the rows alone."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(330, 4)), np.repeat(np.arange(11), 30)
    params = {**LIGHTGBM, "objective": name, "num_class": 11, "min_data_in_leaf": 1, "num_leaves": 200}
    params |= {"bagging_fraction": 0.3, "feature_fraction": 1.0, "min_sum_hessian_in_leaf": 0.0}
    forest = LightGbmTrainer(params, lgb.Dataset(X, y)).start()
    forest.add(15)
    model = forest.booster()
    assert np.array_equal(forest.out_of_bag.counts, rfsize.tree_outputs(model, X, oob=True).votes.counts)
    assert rfsize.compile(model).votes(X) == rfsize.tree_outputs(model, X).votes
    gone = LightGbmTrainer(params, lgb.Dataset(X, y, params=params).construct()).start()
    with pytest.raises(ValueError, match=r"LightGBM's rounded predictions.*free_raw_data=False"):
        gone.add(15)
