"""XGBoost forests grown block by block, and resumed."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import reference.bagging
import reference.counting
import reference.scores
import rfsize
from helpers.forests import Data, only_tree, train_xgboost
from helpers.xgboost_forests import (
    GROWTH,
    KINDS,
    MULTICLASS,
    PARAMS,
    VERSION,
    block_seeds,
    grown,
    labels,
    margins,
    only_multi_output_tree,
    plain_blocks,
)
from reference.scores import assert_scores
from rfsize.integrations.xgboost import framework
from rfsize.integrations.xgboost.training import XgboostTrainer
from rfsize.models.framework import read_forest


@pytest.mark.parametrize("kind", KINDS)
def test_the_merged_booster_is_the_mean_of_all_trees(kind: str, data: Data) -> None:
    booster = grown(kind, data)[1].booster()
    parts = [
        margins(block, data.fresh) * trees for block, trees in zip(plain_blocks(kind, data), (6, 3, 4), strict=True)
    ]
    assert margins(booster, data.fresh) == pytest.approx(sum(parts) / 13, abs=1e-6)
    assert booster.num_boosted_rounds() == 1
    assert len(booster.get_dump()) == 13 * (3 if kind in ("multiclass", "softmax") else 1)


def each_tree(block: xgb.Booster, kind: str, X: np.ndarray) -> np.ndarray:
    """Margins of each member alone, (n_trees, n_rows, n_outputs)."""
    if kind == "multi_output":
        return np.stack([margins(only_multi_output_tree(block, tree), X) for tree in range(len(block.get_dump()))])
    n_outputs = 3 if kind == "multiclass" else 1
    members = len(block.get_dump()) // n_outputs
    return np.stack([margins(only_tree(block, tree, n_outputs), X) for tree in range(members)])


def assert_same_votes(kind: str, in_blocks: np.ndarray, at_once: np.ndarray) -> None:
    """The trees of each class that left a row out vote together within the block they were counted in."""
    if kind == "multiclass":
        assert (in_blocks.sum(axis=1) <= at_once.sum(axis=1)).all()
        assert in_blocks.sum() > 0.5 * at_once.sum()
    else:
        assert np.array_equal(in_blocks, at_once)


def test_trees_of_each_class_that_left_a_row_out_vote_together(data: Data) -> None:
    _, forest = grown("multiclass", data, (5, 3))
    members = [np.zeros((0, 3))] * len(data.X)
    for block, seed in zip(plain_blocks("multiclass", data, (5, 3)), block_seeds(3, 2), strict=True):
        inbag = reference.bagging.xgboost_inbag(block, len(data.X), seed, 0.632, **GROWTH).reshape(3, -1, len(data.X))
        more = reference.scores.left_out(each_tree(block, "multiclass", data.X), inbag)
        members = [np.concatenate(both) for both in zip(members, more, strict=True)]
    assert np.array_equal(forest.out_of_bag.counts, reference.scores.counts(members))
    for row, scores in enumerate(members[:50]):
        mean = scores.mean(axis=0) if len(scores) else np.zeros(3)
        assert forest.out_of_bag.scores.mean[row] == pytest.approx(mean, abs=1e-4)
    whole = rfsize.tree_outputs(forest.booster(), data.X, oob=True).votes
    assert (whole.asked >= forest.out_of_bag.counts.sum(axis=1)).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("softmax", "multiclass")])
def test_out_of_bag_votes_and_scores_are_those_of_the_trees_that_did_not_see_the_row(kind: str, data: Data) -> None:
    training, forest = grown(kind, data, (5, 3))
    counts, scores, outside = 0, [], []
    for block, seed in zip(plain_blocks(kind, data, (5, 3)), block_seeds(3, 2), strict=True):
        inbag = reference.bagging.xgboost_inbag(block, len(data.X), seed, 0.632, **GROWTH)
        alone = each_tree(block, kind, data.X)
        label = alone.argmax(axis=2) if alone.shape[2] > 1 else (alone[:, :, 0] > 0).astype(int)
        counts = counts + reference.counting.votes(label, max(2, len(training.classes)), inbag)
        scores.append(alone)
        outside.append(~inbag)
    told = forest.out_of_bag
    assert np.array_equal(told.counts, counts[:, : len(training.classes)])
    assert_scores(told.scores, np.concatenate(scores), np.concatenate(outside), rtol=1e-4, atol=1e-4)
    assert forest.n_trees == 8
    if len(training.classes):
        votes = rfsize.tree_outputs(forest.booster(), data.X, oob=True).votes
        assert np.array_equal(told.counts, votes.counts)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_boosters_own(kind: str, data: Data) -> None:
    training, forest = grown(kind, data, (3, 2))
    booster = forest.booster()
    predicted = training.link.predictions(margins(booster, data.fresh), len(training.classes))
    expected = booster.predict(xgb.DMatrix(data.fresh))
    if kind == "softmax":
        assert np.array_equal(predicted.argmax(axis=1), expected)
    else:
        several = kind in ("multiclass", "multi_output")
        assert (predicted if several else predicted[:, -1]) == pytest.approx(expected, abs=1e-6)
    assert predicted.shape == (len(data.fresh), max(1, len(training.classes)))


def test_the_first_block_is_what_xgboost_trains(data: Data) -> None:
    training, forest = grown("binary", data, (12,))
    plain = train_xgboost(data.X, data.y, 12)
    assert forest.booster().get_dump() == plain.get_dump()
    assert (training.framework, training.seed, training.fraction) == ("XGBoost", 3, 0.632)
    assert training.classes.tolist() == [0, 1]
    assert np.array_equal(training.label, data.y)
    assert training.weight is None


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multi_output"])
def test_grown_forests_are_forests_like_any_other(kind: str, data: Data) -> None:
    _, forest = grown(kind, data, (6, 5))
    booster = forest.booster()
    in_bag = rfsize.inbag(booster, data.X)
    for kept in ("json", "ubj", "pickle"):
        again = xgb.Booster()
        if kept == "pickle":
            again = pickle.loads(pickle.dumps(booster))
        else:
            again.load_model(booster.save_raw(kept))
        assert np.array_equal(rfsize.inbag(again, data.X), in_bag)
        small = rfsize.truncate(again, n_trees=8)
        assert np.array_equal(rfsize.inbag(small, data.X), in_bag[:8])
        mean = each_tree(booster, kind, data.fresh)[:8].mean(axis=0)
        assert margins(small, data.fresh) == pytest.approx(mean, abs=2e-6)
    assert rfsize.compile(booster).votes(data.fresh) == rfsize.tree_outputs(booster, data.fresh).votes
    if kind == "binary":
        assert rfsize.size(booster, data.X, oob=True, alpha=0.9).source == "oob"


def test_a_grown_forest_keeps_names_and_categories(data: Data) -> None:
    table = pd.DataFrame(data.X, columns=list("abcdefgh"))
    table["b"] = pd.Categorical(np.digitize(data.X[:, 1], [-1, 0, 1]))
    forest = XgboostTrainer(PARAMS, xgb.DMatrix(table, data.y, enable_categorical=True)).start()
    forest.add(4)
    forest.add(4)
    booster = forest.booster()
    assert booster.feature_names == list("abcdefgh")
    assert rfsize.tree_outputs(booster, table, oob=True).votes.counts.sum() == forest.out_of_bag.counts.sum()


def test_large_additions_are_split_into_blocks(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.integrations.xgboost.training._PREDICTED_CELLS", 4 * len(data.X))
    whole = grown("binary", data, (9,))[1].booster()
    monkeypatch.undo()
    assert whole.get_dump() == grown("binary", data, (4, 4, 1))[1].booster().get_dump()


def test_another_fraction_and_seed(data: Data) -> None:
    params = {**PARAMS, "random_state": 3}
    del params["seed"], params["subsample"]
    training = XgboostTrainer(params, xgb.DMatrix(data.X, data.y))
    assert (training.seed, training.fraction) == (3, 1.0)
    with pytest.raises(rfsize.exceptions.InbagError, match="subsample below 1"):
        training.start()
    forest = training.start(fraction=0.25, seed=8)
    forest.add(12)
    assert forest.booster().get_dump() == train_xgboost(data.X, data.y, 12, subsample=0.25, seed=8).get_dump()
    assert forest.out_of_bag.scores.asked.mean() == pytest.approx(9, abs=0.2)
    with pytest.raises(ValueError, match="fraction"):
        training.start(fraction=1.5)
    with pytest.raises(ValueError, match="seed"):
        training.start(fraction=0.5, seed=0.5)
    with pytest.raises(ValueError, match="n_trees"):
        forest.add(0)
    with pytest.raises(ValueError, match="no trees"):
        training.start(fraction=0.5).booster()


@pytest.mark.skipif(VERSION < (3, 1), reason="XGBoost tells no leaves of such data before 3.1")
@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_binned_data_tell_the_same(kind: str, data: Data) -> None:
    binned = XgboostTrainer(KINDS[kind], xgb.QuantileDMatrix(data.X, labels(kind, data)))
    forest = binned.start()
    forest.add(6)
    expected = grown(kind, data, (6,))[1]
    assert np.array_equal(forest.out_of_bag.counts, expected.out_of_bag.counts)
    assert np.array_equal(forest.out_of_bag.scores.scatter, expected.out_of_bag.scores.scatter)
    assert forest.booster().get_dump() == expected.booster().get_dump()


@pytest.mark.skipif(VERSION >= (3, 1), reason="since XGBoost 3.1 such data serve")
def test_binned_data_are_refused(data: Data) -> None:
    with pytest.raises(ValueError, match=r"XGBoost 3\.1"):
        XgboostTrainer(PARAMS, xgb.QuantileDMatrix(data.X, data.y))


def test_weights_are_part_of_the_proof(data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(data.X))
    training = XgboostTrainer({**PARAMS, "scale_pos_weight": 2.0}, xgb.DMatrix(data.X, data.y, weight=weight))
    assert training.weight == pytest.approx(weight, rel=1e-6)
    forest = training.start()
    forest.add(5)
    forest.add(5)
    votes = rfsize.tree_outputs(forest.booster(), data.X, data.y, oob=True, sample_weight=weight).votes
    assert np.array_equal(forest.out_of_bag.counts, votes.counts)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_a_finished_forest_takes_more_trees(kind: str, data: Data) -> None:
    training, forest = grown(kind, data, (6, 3))
    first = forest.booster()
    before = bytes(first.save_raw("ubj"))
    resumed = training.resume(first)
    assert resumed.n_trees == 9
    assert_same_votes(kind, forest.out_of_bag.counts, resumed.out_of_bag.counts)
    if kind != "multiclass":
        assert resumed.out_of_bag.scores.mean == pytest.approx(forest.out_of_bag.scores.mean, abs=1e-5)
        assert resumed.out_of_bag.scores.scatter == pytest.approx(forest.out_of_bag.scores.scatter, rel=1e-4, abs=1e-5)
    resumed.add(4)
    forest.add(4)  # which draws the seed that the other finds unused
    assert_same_votes(kind, forest.out_of_bag.counts, resumed.out_of_bag.counts)
    assert resumed.booster().get_dump(dump_format="json") != first.get_dump(dump_format="json")
    assert margins(resumed.booster(), data.fresh) == pytest.approx(margins(forest.booster(), data.fresh), abs=1e-6)
    assert bytes(first.save_raw("ubj")) == before


def test_a_forest_that_xgboost_trained_takes_more_trees(data: Data) -> None:
    dtrain = xgb.DMatrix(data.X, data.y)
    plain = train_xgboost(data.X, data.y, 7)
    expected = grown("binary", data, (7, 2))[1]
    from_file = xgb.Booster()
    from_file.load_model(plain.save_raw("ubj"))
    classifier = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=7, eta=1, **PARAMS).fit(data.X, data.y)
    for model in (plain, from_file, classifier):
        resumed = XgboostTrainer(PARAMS, dtrain).resume(model)
        resumed.add(2)
        assert np.array_equal(resumed.out_of_bag.counts, expected.out_of_bag.counts)
    with pytest.raises(rfsize.exceptions.InbagError, match="seed="):
        XgboostTrainer({**PARAMS, "seed": 4}, dtrain).resume(from_file)


@pytest.mark.parametrize(
    ("params", "rows", "message"),
    [
        ({"max_depth": 4}, slice(None), "max_depth"),
        ({"eta": 0.3}, slice(None), "eta"),
        ({"subsample": 0.5}, slice(None), "subsample=0.632"),
        ({"scale_pos_weight": 2}, slice(None), "objective"),
        ({"base_score": 0.3}, slice(None), "base_score"),
        ({}, slice(0, -300), "base_score|could not be proven"),
    ],
)
def test_what_was_trained_otherwise_takes_no_more_trees(
    params: dict[str, Any], rows: slice, message: str, data: Data
) -> None:
    dtrain = xgb.DMatrix(data.X[rows], data.y[rows])
    with pytest.raises(ValueError, match=message):
        XgboostTrainer({**PARAMS, **params}, dtrain).resume(train_xgboost(data.X, data.y, 7))


def test_other_models_take_no_more_trees(data: Data) -> None:
    training = XgboostTrainer(PARAMS, xgb.DMatrix(data.X, data.y))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="2 rounds"):
        training.resume(train_xgboost(data.X, data.y, 2, rounds=2))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="objective"):
        training.resume(train_xgboost(data.X, data.three, 3, objective="multi:softprob", num_class=3))
    with pytest.raises(rfsize.exceptions.NotAForestError, match="fitted XGBClassifier"):
        training.resume("a file")


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_a_booster_remembers_its_parameters(kind: str, data: Data) -> None:
    settings = {**KINDS[kind], "lambda": 0.3, "eta": 0.5, "min_child_weight": 2.5, "base_score": 0.375, "gamma": 0.01}
    settings |= {"monotone_constraints": "(1,0,0,0,0,0,0,0)", "interaction_constraints": "[[0, 1, 2], [3, 4, 5, 6, 7]]"}
    if kind == "binary":
        settings["scale_pos_weight"] = 1.5
    dtrain = xgb.DMatrix(data.X, labels(kind, data))
    booster = xgb.train({**settings, "num_parallel_tree": 5}, dtrain, 1)
    params = framework.training.params_of(booster)
    assert (params["subsample"], params["eta"], params["seed"], params["base_score"]) == (0.632, 0.5, 3, 0.375)
    assert "num_parallel_tree" not in params
    forest = XgboostTrainer(params, dtrain).start()
    forest.add(5)
    assert forest.booster().get_dump() == booster.get_dump()
    assert framework.training.params_of(forest.booster()) == params
    from_file = xgb.Booster()
    from_file.load_model(booster.save_raw("ubj"))
    with pytest.raises(ValueError, match="loaded from a file"):
        framework.training.params_of(from_file)


def test_parameters_of_classifiers(data: Data) -> None:
    classifier = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=3, max_depth=4, subsample=0.7).fit(data.X, data.y)
    params = framework.training.params_of(classifier)
    assert (params["max_depth"], params["subsample"], "base_score" in params) == (4, 0.7, False)
    with pytest.raises(rfsize.exceptions.NotAForestError):
        framework.training.params_of(xgb.XGBClassifier(n_estimators=3).fit(data.X, data.y))


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_a_fitted_classifier_takes_more_trees(kind: str, data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(data.X))
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=6, eta=1, **KINDS[kind])
    model.fit(data.X, labels(kind, data), sample_weight=weight)
    adapter = read_forest(model)
    dtrain = adapter.training_data(data.X, labels(kind, data), weight)
    forest = XgboostTrainer(framework.training.params_of(model), dtrain).resume(model)
    forest.add(3)
    larger = adapter.with_booster(forest.booster())
    assert (type(larger), larger.num_parallel_tree, model.num_parallel_tree) == (type(model), 9, 6)
    assert larger.predict(data.fresh).shape == (len(data.fresh),)
    votes = rfsize.tree_outputs(larger, data.X, oob=True, sample_weight=weight).votes
    assert_same_votes(kind, forest.out_of_bag.counts, votes.counts)
    with pytest.raises(ValueError, match="DMatrix"):
        adapter.training_data(dtrain, labels(kind, data), None)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"booster": "gblinear"}, rfsize.exceptions.NotAForestError, "gblinear"),
        ({"booster": "dart"}, rfsize.exceptions.NotAForestError, "dart"),
        ({"objective": "rank:ndcg"}, rfsize.exceptions.NotAForestError, "rank:ndcg"),
        ({"objective": "reg:gamma"}, rfsize.exceptions.NotAForestError, "reg:gamma"),
        ({"objective": "binary:logitraw"}, rfsize.exceptions.NotAForestError, "binary:logitraw"),
        (
            {"objective": "reg:squarederror", "scale_pos_weight": 2},
            rfsize.exceptions.NotAForestError,
            "scale_pos_weight",
        ),
        ({"tree_method": "approx"}, rfsize.exceptions.InbagError, "same bag"),
        ({"tree_method": "exact", "colsample_bynode": 1}, rfsize.exceptions.InbagError, "grow_colmaker"),
        ({"sampling_method": "gradient_based"}, rfsize.exceptions.InbagError, "gradient"),
        ({"seed_per_iteration": True}, rfsize.exceptions.InbagError, "seed_per_iteration"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_parameters_that_make_no_provable_forest_are_refused(
    params: dict[str, Any], error: type[Exception], message: str, data: Data
) -> None:
    with pytest.raises(error, match=message):
        XgboostTrainer({**PARAMS, **params}, xgb.DMatrix(data.X, data.y))


def test_data_that_do_not_fit_are_refused(data: Data) -> None:
    for label in (data.three, data.y + 1, data.y * 0.5):
        with pytest.raises(ValueError, match="indices 0 to 1"):
            XgboostTrainer(PARAMS, xgb.DMatrix(data.X, label))
    with pytest.raises(ValueError, match="indices 0 to 2"):
        XgboostTrainer(MULTICLASS, xgb.DMatrix(data.X, data.three + 1))
    with pytest.raises(ValueError, match="one label for each"):
        XgboostTrainer(PARAMS, xgb.DMatrix(data.X))
    with pytest.raises(ValueError, match="one label for each"):
        XgboostTrainer(KINDS["regression"], xgb.DMatrix(data.X, data.X[:, :2]))
    with pytest.raises(ValueError, match="base_margin"):
        XgboostTrainer(PARAMS, xgb.DMatrix(data.X, data.y, base_margin=np.zeros(len(data.X))))
    with pytest.raises(ValueError, match="found ndarray"):
        XgboostTrainer(PARAMS, data.X)
    with pytest.raises(ValueError, match="params must be a dict"):
        XgboostTrainer(list(PARAMS.items()), xgb.DMatrix(data.X, data.y))


def test_the_callers_parameters_and_data_are_untouched(data: Data) -> None:
    params = {**PARAMS, "num_parallel_tree": 77, "eval_metric": ["logloss", "error"]}
    before = copy.deepcopy(params)
    dtrain = xgb.DMatrix(data.X, data.y)
    forest = XgboostTrainer(params, dtrain).start(seed=9, fraction=0.5)
    forest.add(3)
    assert params == before
    assert np.array_equal(dtrain.get_label(), data.y)
    model = json.loads(forest.booster().save_raw("json"))["learner"]["gradient_booster"]["model"]
    assert model["gbtree_model_param"]["num_parallel_tree"] == "3"


def test_bags_that_fail_the_proof_add_no_votes(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    training, forest = grown("binary", data, (4,))
    before = copy.deepcopy(forest.out_of_bag)
    monkeypatch.setattr(training, "weight", np.linspace(0.1, 3.0, len(data.X)))
    with pytest.raises(rfsize.exceptions.InbagError, match="could not be proven"):
        forest.add(3)
    assert forest.n_trees == 4
    assert np.array_equal(forest.out_of_bag.counts, before.counts)
    assert len(forest.booster().get_dump()) == 4
