"""What is particular to XGBoost."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import naive
import naive_scores
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from conftest import TREES, Data, only_tree, predict, train_xgboost

import rfsize
from rfsize.integrations.xgboost_trees import scores_per_leaf


@pytest.mark.parametrize(
    ("settings", "growth"),
    [
        ({}, {"bynode": True, "max_depth": 5}),
        ({"colsample_bynode": 1}, {"max_depth": 5}),
        ({"colsample_bytree": 0.5}, {"bytree": True, "bynode": True, "max_depth": 5}),
        ({"colsample_bylevel": 0.5, "colsample_bynode": 1}, {"bylevel": True, "max_depth": 5}),
        ({"colsample_bylevel": 0.7, "max_depth": 0}, {"bylevel": True, "bynode": True}),
        ({"grow_policy": "lossguide", "max_depth": 0}, {"bynode": True}),
    ],
)
def test_bags_are_xgboosts_own(settings: dict[str, Any], growth: dict[str, Any], data: Data) -> None:
    model = train_xgboost(data.X, data.y, 15, **settings)
    expected = naive.xgboost_inbag(model, len(data.X), 3, 0.632, **growth)
    assert np.array_equal(rfsize.inbag(model, data.X), expected)


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("max_leaves", [2, 9, 16])
def test_bags_of_trees_with_limited_leaves(policy: str, max_leaves: int, data: Data) -> None:
    settings = {"grow_policy": policy, "max_leaves": max_leaves, "colsample_bylevel": 0.8}
    model = train_xgboost(data.X, data.y, 30, **settings)
    assert rfsize.inbag(model, data.X).mean() == pytest.approx(0.632, abs=0.02)


def test_multiclass_trees_have_bags_of_their_own(xgb_multiclass: xgb.Booster, data: Data) -> None:
    per_tree = naive.xgboost_inbag(xgb_multiclass, len(data.X), 3, 0.632, bynode=True, max_depth=5).reshape(3, 21, -1)
    inbag = rfsize.inbag(xgb_multiclass, data.X)
    assert np.array_equal(inbag, per_tree.any(axis=0))
    labels = np.stack([predict(only_tree(xgb_multiclass, tree, 3), data.X).argmax(axis=1) for tree in range(21)])
    assert np.array_equal(rfsize.votes(xgb_multiclass, data.X).counts, naive.votes(labels, 3))
    members = naive_scores.left_out(class_margins(xgb_multiclass, data.X, range(21)), per_tree)
    assert np.array_equal(rfsize.votes(xgb_multiclass, data.X, oob=True).counts, naive_scores.counts(members))
    assert rfsize.size(xgb_multiclass, data.X).n_rows == len(data.X)


def class_margins(model: xgb.Booster, X: np.ndarray, trees: Any) -> np.ndarray:
    """Margins of each class from each tree alone, read from the leaves, (n_trees, n_rows, n_classes).

    What the booster adds to the sum of all leaves, it adds to each tree alone.
    """
    frame = model.trees_to_dataframe().set_index(["Tree", "Node"])["Gain"]
    leaf = model.predict(xgb.DMatrix(X), pred_leaf=True, strict_shape=True)[:, 0].astype(int)
    n_classes, per_class = leaf.shape[1:]
    value = frame.to_dict()
    leaves = np.array(
        [[[value[k * per_class + t, row[k, t]] for k in range(n_classes)] for row in leaf] for t in range(per_class)]
    )
    base = model.predict(xgb.DMatrix(X), output_margin=True) - leaves.sum(axis=0)
    assert np.ptp(base, axis=0).max() < 1e-5
    return base.mean(axis=0) + per_class * leaves[list(trees)]


def test_multiclass_truncation_is_the_mean_of_the_first_trees(xgb_multiclass: xgb.Booster, data: Data) -> None:
    X = data.fresh[:50]
    small = rfsize.truncate(xgb_multiclass, n_trees=8)
    mean = class_margins(xgb_multiclass, X, range(8)).mean(axis=0)
    assert small.predict(xgb.DMatrix(X), output_margin=True) == pytest.approx(mean, abs=4e-6)
    assert np.array_equal(rfsize.votes(small, X).counts.sum(axis=1), np.full(50, 8))
    assert np.array_equal(rfsize.inbag(small, data.X), rfsize.inbag(xgb_multiclass, data.X)[:8])


def test_learning_rate_below_one_is_part_of_the_vote(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 5, eta=0.3, base_score=0.3)
    alone = rfsize.truncate(model, n_trees=1)
    assert np.array_equal(rfsize.votes(alone, data.fresh).counts[:, 1], predict(alone, data.fresh) > 0.5)


@pytest.mark.parametrize("kind", ["json", "ubj", "pickle"])
def test_saved_models(kind: str, xgb_booster: xgb.Booster, data: Data, tmp_path: Path) -> None:
    small = rfsize.truncate(xgb_booster, n_trees=9)
    if kind == "pickle":
        loaded = pickle.loads(pickle.dumps(small))
        assert np.array_equal(rfsize.inbag(loaded, data.X), rfsize.inbag(xgb_booster, data.X)[:9])
    else:
        small.save_model(tmp_path / f"small.{kind}")
        loaded = xgb.Booster(model_file=tmp_path / f"small.{kind}")
    assert np.array_equal(predict(loaded, data.fresh), predict(small, data.fresh))


def test_a_loaded_model_must_be_told_its_seed(xgb_booster: xgb.Booster, data: Data) -> None:
    loaded = xgb.Booster()
    loaded.load_model(xgb_booster.save_raw("ubj"))
    with pytest.raises(rfsize.InbagError, match="give seed= and subsample="):
        rfsize.size(loaded, data.X, oob=True)
    told = {"seed": 3, "subsample": 0.632}
    assert np.array_equal(rfsize.inbag(loaded, data.X, **told), rfsize.inbag(xgb_booster, data.X))
    assert rfsize.votes(loaded, data.X, oob=True, **told) == rfsize.votes(xgb_booster, data.X, oob=True)
    assert rfsize.size(loaded, data.X, alpha=0.9, oob=True, **told).source == "oob"
    with pytest.raises(rfsize.InbagError, match="61 of 61 trees"):
        rfsize.inbag(loaded, data.X, seed=4, subsample=0.632)
    with pytest.raises(rfsize.InbagError, match="could not be proven"):
        rfsize.inbag(loaded, data.X, seed=3, subsample=0.6)
    with pytest.raises(ValueError, match="subsample must be"):
        rfsize.inbag(loaded, data.X, seed=3, subsample=1.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"colsample_bylevel": 0.6},
        {"colsample_bytree": 0.6, "colsample_bynode": 1, "max_depth": 0, "max_leaves": 7},
        {"grow_policy": "lossguide", "max_leaves": 7},
    ],
)
def test_a_loaded_model_need_not_be_told_how_columns_were_sampled(settings: dict[str, Any], data: Data) -> None:
    model = train_xgboost(data.X, data.y, 20, **settings)
    loaded = xgb.Booster()
    loaded.load_model(model.save_raw("ubj"))
    found = rfsize.inbag(loaded, data.X, seed=3, subsample=0.632)
    assert np.array_equal(found, rfsize.inbag(model, data.X))


def test_a_loaded_model_too_small_to_tell_is_refused(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 1)
    assert rfsize.inbag(model, data.X).shape == (1, len(data.X))
    loaded = xgb.Booster()
    loaded.load_model(model.save_raw("ubj"))
    with pytest.raises(rfsize.InbagError, match=r"ways.*pickles"):
        rfsize.inbag(loaded, data.X, seed=3, subsample=0.632)


def test_a_forest_without_names_goes_by_position(data: Data) -> None:
    model = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=9, subsample=0.6).fit(data.X, data.y)
    named = pd.DataFrame(data.fresh, columns=["a b", "a_b", "c[d", "e<f", "g,h", "i", "j", "k"])
    assert rfsize.votes(model, named) == rfsize.votes(model, data.fresh)


def test_weights_are_part_of_the_proof(data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(data.X))
    model = xgb.XGBRFClassifier(n_estimators=15, random_state=3).fit(data.X, data.three, sample_weight=weight)
    assert rfsize.inbag(model, data.X, sample_weight=weight).shape == (15, len(data.X))
    with pytest.raises(rfsize.InbagError, match="sample_weight="):
        rfsize.inbag(model, data.X)
    with pytest.raises(ValueError, match="non-negative"):
        rfsize.inbag(model, data.X, sample_weight=-weight)
    with pytest.raises(ValueError, match="per row"):
        rfsize.inbag(model, data.X, sample_weight=weight[:-1])


def test_scale_pos_weight_is_part_of_the_proof(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 15, scale_pos_weight=3.0)
    expected = naive.xgboost_inbag(model, len(data.X), 3, 0.632, bynode=True, max_depth=5)
    assert np.array_equal(rfsize.inbag(model, data.X, data.y), expected)
    with pytest.raises(rfsize.InbagError, match="give y"):
        rfsize.inbag(model, data.X)
    with pytest.raises(rfsize.InbagError, match="could not be proven"):
        rfsize.inbag(model, data.X, 1 - data.y)


def test_truncation_keeps_names_types_categories_and_attributes(data: Data) -> None:
    table = pd.DataFrame(data.X, columns=list("abcdefgh"))
    table["b"] = pd.Categorical(np.digitize(data.X[:, 1], [-1, 0, 1]))
    model = train_xgboost(table, data.y, 11, tree_method="hist")
    model.set_attr(owner="me")
    small = rfsize.truncate(model, n_trees=4)
    assert small.feature_names == model.feature_names
    assert small.feature_types == model.feature_types
    assert small.attr("owner") == "me"
    assert small.num_features() == model.num_features()
    assert json.loads(small.save_config())["learner"]["generic_param"]["seed"] == "3"
    assert len(small.get_dump()) == 4
    assert predict(small, table).shape == (len(table),)


def test_the_callers_model_is_untouched(xgb_booster: xgb.Booster, data: Data) -> None:
    before = (bytes(xgb_booster.save_raw("ubj")), xgb_booster.save_config())
    rfsize.truncate(xgb_booster, data.X, alpha=0.9, oob=True)
    assert (bytes(xgb_booster.save_raw("ubj")), xgb_booster.save_config()) == before


def test_a_dmatrix_serves_as_rows(xgb_booster: xgb.Booster, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.rows.CELLS_PER_BLOCK", 50 * TREES)
    expected = rfsize.votes(xgb_booster, data.fresh)
    assert rfsize.votes(xgb_booster, xgb.DMatrix(data.fresh)) == expected
    with pytest.raises(ValueError, match="base_margin"):
        rfsize.votes(xgb_booster, xgb.DMatrix(data.fresh, base_margin=np.ones(len(data.fresh))))
    with pytest.raises(ValueError, match="QuantileDMatrix"):
        rfsize.votes(xgb_booster, xgb.QuantileDMatrix(data.fresh))


def test_missing_marker_of_a_classifier(data: Data) -> None:
    X = np.where(data.X < -1.5, -999.0, data.X)
    model = xgb.XGBRFClassifier(n_estimators=15, missing=-999.0).fit(X, data.y)
    alone = rfsize.truncate(model, n_trees=1)
    assert np.array_equal(rfsize.votes(alone, X).counts[:, 1], alone.predict(X))


def test_approx_shares_its_bag(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 5, tree_method="approx")
    with pytest.raises(rfsize.InbagError, match="same bag"):
        rfsize.inbag(model, data.X)


def test_exact_draws_otherwise(data: Data) -> None:
    model = train_xgboost(data.X, data.y, 5, tree_method="exact", colsample_bynode=1)
    with pytest.raises(rfsize.InbagError, match="exact"):
        rfsize.inbag(model, data.X)


def test_no_bagging(data: Data) -> None:
    with pytest.raises(rfsize.InbagError, match="without bagging"):
        rfsize.inbag(train_xgboost(data.X, data.y, 5, subsample=1.0), data.X)


def _edited(model: xgb.Booster, name: str, value: Any) -> xgb.Booster:
    document = json.loads(model.save_raw("json"))
    document["learner"]["gradient_booster"]["model"][name] = value
    edited = xgb.Booster()
    edited.load_model(bytearray(json.dumps(document).encode()))
    return edited


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda data: train_xgboost(data.X, data.y, 5, rounds=3), "boosted for 3 rounds"),
        (lambda data: train_xgboost(data.X, data.y, 1, rounds=30), "boosted for 30 rounds"),
        (lambda data: train_xgboost(data.X, data.y, 5, booster="dart", rounds=2), "'dart'|boosted for 2 rounds"),
        (lambda data: train_xgboost(data.X, data.y, 1, booster="gblinear"), "'gblinear'"),
        (lambda data: train_xgboost(data.X, data.y, 5, objective="reg:squarederror"), "cast no votes"),
        (lambda data: train_xgboost(data.X, data.y, 5, rounds=0), "no trees"),
        (lambda data: xgb.XGBClassifier(n_estimators=3).fit(data.X, data.y), "boosted for 3 rounds"),
        (lambda data: xgb.DMatrix(data.X), "is no model"),
        (lambda data: train_xgboost(data.X, data.y, 5, objective="binary:logitraw"), "binary:logistic"),
        (
            lambda data: xgb.XGBRFClassifier(n_estimators=5).fit(data.X, np.stack([data.y, 1 - data.y], axis=1)),
            "several labels",
        ),
        (lambda data: _edited(train_xgboost(data.X, data.y, 5), "tree_info", [0, 0, 3, 0, 0]), "equally many trees"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_no_forest_is_refused(train: Any, message: str, data: Data) -> None:
    model = train(data)
    for call in (rfsize.size, rfsize.votes, rfsize.truncate, rfsize.inbag):
        with pytest.raises(rfsize.NotAForestError, match=message):
            call(model, data.X)


def test_unfitted_classifiers_are_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="fit"):
        rfsize.votes(xgb.XGBRFClassifier(), data.X)


def loaded(model: xgb.Booster) -> xgb.Booster:
    """The model as it comes out of a file."""
    booster = xgb.Booster()
    booster.load_model(model.save_raw("ubj"))
    return booster


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_a_truncated_model_remembers_its_bags(
    kind: str, xgb_booster: xgb.Booster, xgb_multiclass: xgb.Booster, data: Data
) -> None:
    model = xgb_booster if kind == "binary" else xgb_multiclass
    small = loaded(rfsize.truncate(model, n_trees=9))
    assert np.array_equal(rfsize.inbag(small, data.X), rfsize.inbag(model, data.X)[:9])
    smaller = loaded(rfsize.truncate(small, n_trees=4))
    assert np.array_equal(rfsize.inbag(smaller, data.X), rfsize.inbag(model, data.X)[:4])
    assert model.attr("rfsize_bags") is None


def test_a_damaged_memory_of_the_bags_is_refused(xgb_booster: xgb.Booster, data: Data) -> None:
    small = rfsize.truncate(xgb_booster, n_trees=3)
    memory = json.loads(small.attr("rfsize_bags"))
    votes = rfsize.votes(small, data.X)
    first = memory["seeds"][0]
    for damaged in (
        "no JSON",
        "[" * 100_000,
        "3",
        {"subsample": 0.632},
        {"seeds": memory["seeds"]},
        {**memory, "subsample": 1.5},
        {**memory, "subsample": "0.632"},
        {**memory, "seeds": memory["seeds"][:2]},
        {**memory, "seeds": {"0": 1, "1": 2, "2": 3}},
        {**memory, "seeds": [first, -1, 5]},
        {**memory, "seeds": [first, True, 5]},
        {**memory, "seeds": [first, 1.5, 5]},
        {**memory, "seeds": [first, 2**32, 5]},
    ):
        small.set_attr(rfsize_bags=damaged if isinstance(damaged, str) else json.dumps(damaged))
        with pytest.raises(rfsize.InbagError, match="is damaged"):
            rfsize.inbag(small, data.X)
        assert rfsize.votes(small, data.X) == votes
        told = rfsize.inbag(small, data.X, seed=3, subsample=0.632)
        assert np.array_equal(told, rfsize.inbag(xgb_booster, data.X)[:3])
    wrong = loaded(small)
    wrong.set_attr(rfsize_bags=json.dumps({**memory, "seeds": [first, 1, 2]}))
    with pytest.raises(rfsize.InbagError, match="could not be proven"):
        rfsize.inbag(wrong, data.X)


HAS_HESSIANS = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 2)


def train_multi_output(X: Any, y: Any, trees: int = 15, **params: Any) -> xgb.Booster:
    settings = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree", **params}
    return train_xgboost(X, y, trees, tree_method="hist", **settings)


@pytest.fixture(scope="module")
def multi_output(data: Data) -> xgb.Booster:
    return train_multi_output(data.X, data.three, colsample_bynode=1, eta=0.7)


def only_multi_output_tree(model: xgb.Booster, tree: int) -> xgb.Booster:
    """A forest whose trees score all classes, reduced to one of them that weighs as much as all."""
    document = json.loads(model.save_raw("json"))
    forest = document["learner"]["gradient_booster"]["model"]
    one, n_trees = forest["trees"][tree], len(forest["trees"])
    one["id"] = 0
    for name in {"base_weights", "leaf_weights"} & one.keys():
        one[name] = [value * n_trees for value in one[name]]
    forest.update(trees=[one], tree_info=[0], iteration_indptr=[0, 1])
    forest["gbtree_model_param"].update(num_trees="1", num_parallel_tree="1")
    alone = xgb.Booster()
    alone.load_model(bytearray(json.dumps(document).encode()))
    return alone


def test_one_tree_may_vote_for_all_classes(multi_output: xgb.Booster, data: Data) -> None:
    rows = xgb.DMatrix(data.fresh)
    margins = np.stack(
        [only_multi_output_tree(multi_output, tree).predict(rows, output_margin=True) for tree in range(15)]
    )
    assert np.array_equal(rfsize.votes(multi_output, data.fresh).counts, naive.votes(margins.argmax(axis=2), 3))
    small = rfsize.truncate(multi_output, n_trees=4)
    assert small.predict(rows, output_margin=True) == pytest.approx(margins[:4].mean(axis=0), abs=2e-6)
    with pytest.raises(ValueError, match="threshold"):
        rfsize.votes(multi_output, data.fresh, threshold=0.4)


def test_one_tree_for_all_classes_compiled(multi_output: xgb.Booster, data: Data, tmp_path: Path) -> None:
    fast = rfsize.compile(multi_output)
    votes = rfsize.votes(multi_output, data.fresh)
    assert fast.votes(data.fresh) == votes
    assert np.array_equal(fast.predict(data.fresh), votes.winner())
    assert fast.predict_proba(data.fresh) == pytest.approx(predict(multi_output, data.fresh), abs=1e-6)
    fast.save(tmp_path / "forest")
    assert rfsize.load(tmp_path / "forest").votes(data.fresh) == votes


@pytest.mark.skipif(not HAS_HESSIANS, reason="XGBoost stores no hessians in such trees before 3.2")
@pytest.mark.parametrize(
    ("settings", "growth"),
    [({"colsample_bynode": 1}, {"max_depth": 5}), ({"colsample_bynode": 0.5}, {"bynode": True, "max_depth": 5})],
)
def test_one_tree_for_all_classes_has_one_bag(settings: dict[str, Any], growth: dict[str, Any], data: Data) -> None:
    model = train_multi_output(data.X, data.three, **settings)
    expected = naive.xgboost_inbag(model, len(data.X), 3, 0.632, **growth)
    assert np.array_equal(rfsize.inbag(model, data.X), expected)
    margins = [only_multi_output_tree(model, t).predict(xgb.DMatrix(data.X), output_margin=True) for t in range(15)]
    labels = np.stack(margins).argmax(axis=2)
    assert np.array_equal(rfsize.votes(model, data.X, oob=True).counts, naive.votes(labels, 3, expected))


@pytest.mark.skipif(HAS_HESSIANS, reason="since XGBoost 3.2 such trees keep their hessians")
def test_one_tree_for_all_classes_without_hessians(multi_output: xgb.Booster, data: Data) -> None:
    with pytest.raises(rfsize.InbagError, match=r"XGBoost 3\.2"):
        rfsize.inbag(multi_output, data.X)


def test_trees_that_score_different_numbers_of_classes_are_refused(multi_output: xgb.Booster, data: Data) -> None:
    other = train_xgboost(data.X, data.three, 1, objective="multi:softprob", num_class=3)
    learner = json.loads(multi_output.save_raw("json"))["learner"]
    learner["gradient_booster"]["model"]["trees"][3] = json.loads(other.save_raw("json"))["learner"][
        "gradient_booster"
    ]["model"]["trees"][0]
    with pytest.raises(rfsize.NotAForestError, match="damaged"):
        scores_per_leaf(learner)


def test_nearly_empty_bags_prove_nothing(xgb_booster: xgb.Booster, data: Data) -> None:
    loaded = xgb.Booster()
    loaded.load_model(xgb_booster.save_raw("ubj"))
    for subsample in (1e-9, 1e-4):
        with pytest.raises(rfsize.InbagError):
            rfsize.inbag(loaded, data.X, seed=3, subsample=subsample)
    loaded.set_attr(rfsize_bags=json.dumps({"subsample": 1e-30, "seeds": list(range(1, TREES + 1))}))
    with pytest.raises(rfsize.InbagError):
        rfsize.inbag(loaded, data.fresh)
