"""LightGBM forests in training: started and continued."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import expit, softmax

import reference.bagging
import rfsize
from helpers.forests import LIGHTGBM, Data
from helpers.lightgbm_forests import SEVERAL, each_tree, without_parameters
from reference.scores import assert_scores
from rfsize.counting.evidence import Evidence
from rfsize.integrations.lightgbm import framework as integration
from rfsize.integrations.lightgbm.training import LightGbmTrainer


def test_forests_are_those_that_lightgbm_trains(data: Data) -> None:
    """Under all names of the parameters, which stay as they are."""
    params = {
        "application": "multiclass", "num_classes": 3, "boosting_type": "random_forest", "sub_row": 0.5,
        "subsample_freq": 1, "sub_feature": 0.6, "max_leaves": 15, "random_state": 5, "verbose": -1,
        "n_estimators": 500, "early_stopping_round": 3, "metric": "auc_mu",
    }  # fmt: skip
    given = copy.deepcopy(params)
    dataset = lgb.Dataset(data.X, data.three)
    trainer = LightGbmTrainer(params, dataset)
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
    assert Evidence.in_training(forest).votes.n_trees == 6


def test_another_seed_changes_bags_and_features_whatever_seeds_are_named(data: Data) -> None:
    seeds = {"bagging_seed": 4, "feature_fraction_seed": 5, "extra_seed": 6, "feature_fraction": 0.7}
    trainer = LightGbmTrainer({**LIGHTGBM, **seeds}, lgb.Dataset(data.X, data.y))
    forests = [trainer.start(), trainer.start(seed=1), trainer.start(seed=2)]
    for forest in forests:
        forest.add(15)
    boosters = [forest.booster() for forest in forests]
    bags = [rfsize.inbag(booster, data.X) for booster in boosters]
    assert np.array_equal(bags[0], reference.bagging.lightgbm_inbag(15, len(data.X), 4, 0.632))
    features = [[t["tree_structure"]["split_feature"] for t in b.dump_model()["tree_info"]] for b in boosters]
    for one, two in itertools.combinations(range(3), 2):
        assert not (bags[one] == bags[two]).all(axis=1).any()
        assert features[one] != features[two]


def test_sampling_parameters_may_be_left_to_start(data: Data) -> None:
    params = {name: value for name, value in LIGHTGBM.items() if not name.startswith("bagging")}
    trainer = LightGbmTrainer(params, lgb.Dataset(data.X, data.y))
    assert trainer.fraction == 1.0
    for start in (trainer.start, lambda: trainer.resume(None)):
        with pytest.raises(rfsize.exceptions.InbagError, match="name no bagging_fraction below 1"):
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
        trainer = LightGbmTrainer(params, lgb.Dataset(data.X, y, weight=weight))
        assert np.allclose(trainer.weight, weight)
        forest = trainer.start()
        forest.add(4)
        model = forest.booster()
        mean = model.predict(data.fresh, raw_score=True).reshape(len(data.fresh), -1) / 4
        found = trainer.link.predictions(mean, len(trainer.classes))
        assert np.allclose(found, link(mean))
        expected = model.predict(data.fresh)
        assert np.allclose(found if expected.ndim == 2 else found[:, 1], expected)
    assert LightGbmTrainer(LIGHTGBM, lgb.Dataset(data.X, data.y)).weight is None


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"boosting": "gbdt"}, rfsize.exceptions.NotAForestError, "boosting='rf'"),
        ({"objective": "lambdarank"}, rfsize.exceptions.NotAForestError, "lambdarank|cannot be read"),
        ({"objective": lambda *_: None}, rfsize.exceptions.NotAForestError, "custom objective"),
        ({"objective": "cross_entropy_lambda"}, rfsize.exceptions.NotAForestError, "cannot be read"),
        ({"bagging_freq": 0, "feature_fraction": 0.5}, rfsize.exceptions.InbagError, "bagging_freq=1"),
        ({"data_sample_strategy": "goss"}, rfsize.exceptions.InbagError, "GOSS"),
        ({"machines": "1.2.3.4:1"}, rfsize.exceptions.InbagError, "several machines"),
    ],
)
def test_parameters_that_make_no_forest(params: dict[str, Any], error: Any, message: str, data: Data) -> None:
    group = np.full(len(data.y) // 10, 10) if params.get("objective") == "lambdarank" else None
    with pytest.raises(error, match=message):
        LightGbmTrainer({**LIGHTGBM, **params}, lgb.Dataset(data.X, data.y, group=group))


def test_labels_and_data_are_checked(data: Data) -> None:
    with pytest.raises(ValueError, match="init_score"):
        LightGbmTrainer(LIGHTGBM, lgb.Dataset(data.X, data.y, init_score=np.zeros(len(data.y))))
    with pytest.raises(ValueError, match="no labels"):
        LightGbmTrainer(LIGHTGBM, lgb.Dataset(data.X))
    balanced = {**LIGHTGBM, "pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.7}
    with pytest.raises(ValueError, match="pos_/neg_bagging_fraction"):
        LightGbmTrainer(balanced, lgb.Dataset(data.X, data.y)).start(fraction=0.5)
    forest = LightGbmTrainer(LIGHTGBM, lgb.Dataset(data.X, data.y)).start()
    with pytest.raises(ValueError, match="no trees yet"):
        forest.booster()
    with pytest.raises(ValueError, match="n_trees must"):
        forest.add(0)


def test_trees_that_prove_nothing_are_refused(data: Data) -> None:
    forest = LightGbmTrainer({**LIGHTGBM, "min_gain_to_split": 1e9}, lgb.Dataset(data.X, data.y)).start()
    with pytest.raises(rfsize.exceptions.InbagError, match="more than one leaf"):
        forest.add(3)


@pytest.mark.parametrize("params", [LIGHTGBM, SEVERAL, {**LIGHTGBM, "pos_bagging_fraction": 0.5}])
def test_a_finished_forest_continues(params: dict[str, Any], data: Data) -> None:
    y = data.three if "num_class" in params else data.y
    balanced_y = data.y if "pos_bagging_fraction" in params else None
    first = lgb.train(params, lgb.Dataset(data.X, y), 9)
    text = first.model_to_string()
    trainer = LightGbmTrainer(integration.parameters_of(first), lgb.Dataset(data.X, y))
    forest = trainer.resume(first)
    assert forest.n_trees == 9
    assert np.array_equal(
        forest.out_of_bag.counts, rfsize.tree_outputs(first, data.X, balanced_y, oob=True).votes.counts
    )
    assert forest.booster().current_iteration() == 9
    forest.add(4)
    forest.add(3)
    more = forest.booster()
    assert first.model_to_string() == text
    assert forest.n_trees == more.current_iteration() == 16
    assert np.array_equal(more.predict(data.fresh, num_iteration=9), first.predict(data.fresh))
    assert np.array_equal(
        forest.out_of_bag.counts, rfsize.tree_outputs(more, data.X, balanced_y, oob=True).votes.counts
    )
    outside = ~rfsize.inbag(more, data.X, balanced_y)
    scores, alone = forest.out_of_bag.scores, each_tree(more, data.X)
    assert_scores(scores, alone, outside, up_to_constant="num_class" in params, rtol=1e-8, atol=1e-8)
    again = trainer.resume(more)
    again.add(5)
    bags = rfsize.inbag(again.booster(), data.X, balanced_y)
    assert len(np.unique(bags, axis=0)) == 21


def test_what_cannot_continue_is_refused(data: Data) -> None:
    first = lgb.train(LIGHTGBM, lgb.Dataset(data.X, data.y), 5)
    kept = lgb.Dataset(data.X, data.y, free_raw_data=False).construct()
    assert LightGbmTrainer(LIGHTGBM, kept).resume(first).n_trees == 5
    with pytest.raises(ValueError, match="free_raw_data=False"):
        LightGbmTrainer(LIGHTGBM, lgb.Dataset(data.X, data.y).construct()).resume(first)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="num_leaves"):
        LightGbmTrainer({**LIGHTGBM, "num_leaves": 7}, kept).resume(first)
    with pytest.raises(rfsize.exceptions.InbagError):
        LightGbmTrainer(LIGHTGBM, lgb.Dataset(data.X[::-1], data.y[::-1])).resume(first)
    with pytest.raises(rfsize.exceptions.NotAForestError):
        LightGbmTrainer(LIGHTGBM, kept).resume(
            lgb.train({**LIGHTGBM, "boosting": "gbdt"}, lgb.Dataset(data.X, data.y), 2)
        )


@pytest.mark.parametrize(
    "params", [LIGHTGBM, {**SEVERAL, "extra_trees": True, "max_bin": 31, "monotone_constraints": [1] * 8}]
)
def test_parameters_are_remembered(params: dict[str, Any], data: Data) -> None:
    y = data.three if "num_class" in params else data.y
    first = lgb.train({**params, "n_estimators": 6}, lgb.Dataset(data.X, y))
    for source in (first, lgb.Booster(model_str=first.model_to_string())):
        found = integration.parameters_of(source)
        assert not {"num_iterations", "n_estimators"} & set(found)
        again = lgb.train(found, lgb.Dataset(data.X, y), 6)
        assert np.array_equal(again.predict(data.fresh), first.predict(data.fresh))
    with pytest.raises(ValueError, match="does not say how it was trained"):
        integration.parameters_of(lgb.Booster(model_str=without_parameters(first)))


def test_a_classifier_continues(data: Data) -> None:
    settings = {
        "boosting_type": "rf",
        "subsample": 0.6,
        "subsample_freq": 1,
        "random_state": 0,
        "n_jobs": 1,
        "verbose": -1,
    }
    model = lgb.LGBMClassifier(n_estimators=6, num_leaves=7, **settings).fit(data.X, np.array(["no", "yes"])[data.y])
    params = integration.parameters_of(model)
    assert (params["num_threads"], params["verbose"]) == (1, -1)
    forest = LightGbmTrainer(params, lgb.Dataset(data.X, data.y)).resume(model)
    forest.add(3)
    assert np.array_equal(forest.booster().predict(data.fresh, num_iteration=6), model.predict_proba(data.fresh)[:, 1])
