"""What is particular to LightGBM."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import naive
import numpy as np
import pytest
import xgboost as xgb
from conftest import LIGHTGBM, Data, train_lightgbm
from sklearn.base import clone

import rfsize


def test_bags_are_lightgbms_own(lgb_booster: lgb.Booster, data: Data) -> None:
    seed = int(lgb_booster.model_to_string().partition("[bagging_seed: ")[2].partition("]")[0])
    expected = naive.lightgbm_inbag(lgb_booster.num_trees(), len(data.X), seed, 0.632)
    assert np.array_equal(rfsize.inbag(lgb_booster, data.X), expected)


@pytest.mark.parametrize("fraction", [0.3, 0.5, 1 / 3 + 1e-9, 1 - 1 / np.e, 0.12347412109375, 0.1234741])
def test_any_bagging_fraction(fraction: float, data: Data) -> None:
    """The last two lie next to a whole number of draws, closer than the six digits of the model text tell."""
    model = train_lightgbm(data.X, data.y, 30, bagging_fraction=fraction)
    assert rfsize.inbag(model, data.X).mean() == pytest.approx(fraction, abs=0.02)


def test_negative_seed(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 5, bagging_seed=-5)
    assert np.array_equal(rfsize.inbag(model, data.X), naive.lightgbm_inbag(5, len(data.X), -5, 0.632))


def test_bags_shared_by_consecutive_trees(data: Data) -> None:
    inbag = rfsize.inbag(train_lightgbm(data.X, data.y, 9, bagging_freq=4), data.X)
    assert (inbag[:4] == inbag[0]).all()
    assert (inbag[4:8] == inbag[4]).all()
    assert not np.array_equal(inbag[3], inbag[4])


def test_balanced_bags(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 20, pos_bagging_fraction=0.8, neg_bagging_fraction=0.3)
    inbag = rfsize.inbag(model, data.X, data.y)
    assert inbag[:, data.y == 1].mean() == pytest.approx(0.8, abs=0.02)
    assert inbag[:, data.y == 0].mean() == pytest.approx(0.3, abs=0.02)
    with pytest.raises(rfsize.InbagError, match="give y"):
        rfsize.inbag(model, data.X)
    with pytest.raises(rfsize.InbagError):
        rfsize.inbag(model, data.X, 1 - data.y)
    with pytest.raises(ValueError, match="one label per row"):
        rfsize.inbag(model, data.X, data.y[:-1])


def test_balanced_bags_of_named_classes(data: Data) -> None:
    names = np.array(["no", "yes"])[data.y]
    model = lgb.LGBMClassifier(
        boosting_type="rf", n_estimators=9, pos_bagging_fraction=0.7, neg_bagging_fraction=0.4, subsample_freq=1,
        subsample=0.5, verbose=-1,
    ).fit(data.X, names)  # fmt: skip
    assert rfsize.inbag(model, data.X, names)[:, data.y == 1].mean() == pytest.approx(0.7, abs=0.03)
    with pytest.raises(ValueError, match=r"does not know: \['maybe'\]"):
        rfsize.inbag(model, data.X, np.where(data.y == 1, "yes", "maybe"))


def test_sample_weights_do_not_matter(data: Data) -> None:
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(data.X))
    model = train_lightgbm(data.X, data.y, 10, dataset={"weight": weight})
    assert rfsize.inbag(model, data.X).shape == (10, len(data.X))


def test_multiclass_votes(lgb_multiclass: lgb.Booster, data: Data) -> None:
    trees = lgb_multiclass.current_iteration()
    labels = np.stack(
        [lgb_multiclass.predict(data.X, start_iteration=t, num_iteration=1).argmax(axis=1) for t in range(trees)]
    )
    assert np.array_equal(rfsize.votes(lgb_multiclass, data.X).counts, naive.votes(labels, 3))
    inbag = rfsize.inbag(lgb_multiclass, data.X)
    assert np.array_equal(rfsize.votes(lgb_multiclass, data.X, oob=True).counts, naive.votes(labels, 3, inbag))
    assert rfsize.size(lgb_multiclass, data.X).n_rows == len(data.X)


def test_multiclass_truncation(lgb_multiclass: lgb.Booster, data: Data) -> None:
    small = rfsize.truncate(lgb_multiclass, n_trees=7)
    assert small.predict(data.fresh) == pytest.approx(lgb_multiclass.predict(data.fresh, num_iteration=7), abs=1e-12)


@pytest.mark.parametrize("way", ["file", "pickle"])
def test_saved_models(way: str, lgb_booster: lgb.Booster, data: Data, tmp_path: Path) -> None:
    small = rfsize.truncate(lgb_booster, n_trees=9)
    if way == "file":
        small.save_model(tmp_path / "small.txt")
        loaded = lgb.Booster(model_file=tmp_path / "small.txt")
    else:
        loaded = pickle.loads(pickle.dumps(small))
    assert np.array_equal(loaded.predict(data.fresh), lgb_booster.predict(data.fresh, num_iteration=9))
    assert np.array_equal(rfsize.inbag(loaded, data.X), rfsize.inbag(lgb_booster, data.X)[:9])


def test_early_stopped_boosters_are_what_predict_uses(data: Data) -> None:
    valid = lgb.Dataset(data.fresh, np.zeros(len(data.fresh)))
    train = lgb.Dataset(data.X, data.y)
    settings = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbose": -1}
    stop = lgb.early_stopping(3, verbose=False)
    model = lgb.train(settings, train, 50, valid_sets=[valid], callbacks=[stop], keep_training_booster=True)
    assert 0 < model.best_iteration < model.num_trees()
    assert rfsize.votes(model, data.fresh).n_trees == model.best_iteration


def test_trees_of_one_leaf_vote_too(data: Data) -> None:
    """With one feature in eight per tree, most trees find no split that leaves enough rows on each side."""
    y = (data.X[:, 0] > 1.2).astype(int)
    model = train_lightgbm(data.X, y, 40, feature_fraction=0.1, min_gain_to_split=30.0)
    alone = np.stack([model.predict(data.X, start_iteration=t, num_iteration=1) for t in range(40)]) > 0.5
    sizes = [tree["num_leaves"] for tree in model.dump_model()["tree_info"]]
    assert 1 in sizes
    assert max(sizes) > 1
    inbag = rfsize.inbag(model, data.X)
    assert np.array_equal(rfsize.votes(model, data.X, oob=True).counts, naive.votes(alone.astype(int), 2, inbag))


def test_no_tree_with_two_leaves_proves_nothing(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 5, min_data_in_leaf=len(data.X))
    with pytest.raises(rfsize.InbagError, match="more than one leaf"):
        rfsize.inbag(model, data.X)


def test_unseen_trees_are_named_where_the_proof_fails(lgb_booster: lgb.Booster, data: Data) -> None:
    X = data.X.copy()
    X[[0, 1]] = X[[1, 0]]
    with pytest.raises(rfsize.InbagError, match=r"the first of them tree \d+.*order of training"):
        rfsize.inbag(lgb_booster, X)


def _goss(data: Data) -> Any:
    return train_lightgbm(data.X, data.y, 5, data_sample_strategy="goss", bagging_fraction=1.0, bagging_freq=0)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (_goss, "GOSS"),
        (lambda data: train_lightgbm(data.X, data.y, 5, bagging_fraction=1.0), "without bagging"),
    ],
)
def test_unprovable_samplers_still_vote_on_validation_rows(train: Any, message: str, data: Data) -> None:
    model = train(data)
    with pytest.raises(rfsize.InbagError, match=message):
        rfsize.size(model, data.X, oob=True)
    assert rfsize.votes(model, data.fresh).n_trees == 5


def test_bags_of_all_rows(data: Data) -> None:
    model = train_lightgbm(data.X[:300], data.y[:300], 5, bagging_fraction=0.99999)
    with pytest.raises(rfsize.InbagError, match="every bag holds all 300 rows"):
        rfsize.inbag(model, data.X[:300])


def test_a_full_bag_ends_the_bagging(data: Data) -> None:
    """With 60 rows some bag soon holds them all, and LightGBM draws no more."""
    X, y = data.X[:60], data.y[:60]
    model = train_lightgbm(X, y, 60, bagging_fraction=0.95, bagging_seed=2, min_data_in_leaf=2)
    inbag = rfsize.inbag(model, X)
    full = inbag.all(axis=1)
    first = int(full.argmax())
    assert 0 < first < 50
    assert full[first:].all()
    callback = rfsize.SizeCallback(alpha=0.9999, min_trees=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.NotConvergedWarning)
        settings = {**LIGHTGBM, "bagging_fraction": 0.95, "bagging_seed": 2, "min_data_in_leaf": 2}
        lgb.train(settings, lgb.Dataset(X, y), 60, callbacks=[callback])
    assert callback.report_.to_dict() == rfsize.size(model, X, alpha=0.9999, oob=True).to_dict()


def test_balanced_bags_of_text_labels(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 5, pos_bagging_fraction=0.8, neg_bagging_fraction=0.3)
    with pytest.raises(ValueError, match="found text"):
        rfsize.inbag(model, data.X, np.array(["no", "yes"])[data.y])


def test_truncation_of_a_classifier_that_names_its_trees_otherwise(data: Data) -> None:
    settings = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "num_iterations": 12}
    model = lgb.LGBMClassifier(**settings).fit(data.X, data.y)
    small = rfsize.truncate(model, n_trees=5)
    assert clone(small).fit(data.X, data.y).n_estimators_ == 5
    assert model.get_params()["num_iterations"] == 12


def test_a_dmatrix_is_refused(lgb_booster: lgb.Booster, data: Data) -> None:
    with pytest.raises(ValueError, match="DMatrix"):
        rfsize.votes(lgb_booster, xgb.DMatrix(data.fresh))


def test_threshold_is_for_two_classes(lgb_multiclass: lgb.Booster, data: Data) -> None:
    with pytest.raises(ValueError, match="leave threshold at"):
        rfsize.votes(lgb_multiclass, data.fresh, threshold=0.3)


def test_seed_is_for_xgboost_only(lgb_booster: lgb.Booster, data: Data) -> None:
    with pytest.raises(rfsize.InbagError, match="leave out seed"):
        rfsize.inbag(lgb_booster, data.X, seed=3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"boosting": "gbdt"}, "boosting='gbdt'"),
        ({"boosting": "dart"}, "boosting='dart'"),
        ({"objective": "regression"}, "'regression'.*cast no votes"),
        ({"linear_tree": True, "boosting": "rf"}, "linear"),
    ],
)
def test_what_is_no_forest_is_refused(params: dict[str, Any], message: str, data: Data) -> None:
    try:
        model = train_lightgbm(data.X, data.y, 3, **params)
    except lgb.basic.LightGBMError:
        pytest.skip("this LightGBM does not train such a forest")
    for call in (rfsize.size, rfsize.votes, rfsize.truncate, rfsize.inbag):
        with pytest.raises(rfsize.NotAForestError, match=message):
            call(model, data.X)


def test_other_objects_are_refused(data: Data) -> None:
    settings = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbose": -1}
    folds = lgb.cv(settings, lgb.Dataset(data.X, data.y), 3, nfold=2, return_cvbooster=True)["cvbooster"]
    empty = lgb.Booster(settings, lgb.Dataset(data.X, data.y))
    one_class = lgb.LGBMClassifier(boosting_type="rf", subsample=0.6, subsample_freq=1, n_estimators=3, verbose=-1)
    for model, message in [
        (folds, "cvbooster.boosters"),
        (empty, "no trees"),
        (lgb.Dataset(data.X), "is no model"),
        (lgb.LGBMRegressor(n_estimators=2, verbose=-1).fit(data.X, data.y), "gbdt"),
        (one_class.fit(data.X, np.ones(len(data.X))), "nothing to vote on"),
    ]:
        with pytest.raises(rfsize.NotAForestError, match=message):
            rfsize.votes(model, data.X)
    with pytest.raises(ValueError, match="fit"):
        rfsize.votes(lgb.LGBMClassifier(), data.X)


def vote_shares(data: Data, seed: int, **params: Any) -> np.ndarray:
    model = train_lightgbm(data.X, data.y, 400, seed=seed, **params)
    return rfsize.compile(model).votes(data.fresh).fractions()[:, 1]


@pytest.mark.parametrize("name", ["feature_fraction", "feature_fraction_bynode"])
@pytest.mark.parametrize(("drawn", "depends"), [(1, False), (2, True), (5, False)])
def test_the_warned_of_seeds_are_those_that_matter(name: str, drawn: int, depends: bool, data: Data) -> None:
    """Two of eight features come from the low bits, an even number at a time; one is odd, five use the high bits."""
    params = {"feature_fraction": 1.0, name: drawn / 8}
    one, other = (vote_shares(data, seed, **params) for seed in (1, 2))
    noise = np.sqrt((one * (1 - one) + other * (1 - other)) / 400 + 1e-6)
    spread = float(np.std((one - other) / noise))
    assert (spread > 2.0) is depends
    model = train_lightgbm(data.X, data.y, 30, **params)
    if not depends:
        rfsize.size(model, data.fresh)
        return
    with pytest.warns(rfsize.SeedDependenceWarning, match=rf"samples {drawn} of 8 .* {name}=0\.63 or more") as caught:
        rfsize.size(model, data.fresh)
    advised = float(str(caught[0].message).rpartition("=")[2].split()[0])
    rfsize.size(train_lightgbm(data.X, data.y, 30, **{**params, name: advised}), data.fresh)
    with pytest.warns(rfsize.SeedDependenceWarning):
        lgb.train({**LIGHTGBM, **params}, lgb.Dataset(data.X, data.y), 100, callbacks=[rfsize.SizeCallback(alpha=0.8)])


def test_trees_of_all_classes_draw_together(data: Data) -> None:
    params = {"feature_fraction": 3 / 16, "objective": "multiclass"}
    X = np.hstack([data.X, data.fresh.repeat(4, axis=0)[:1500]])
    rfsize.size(train_lightgbm(X, data.three, 5, num_class=3, **params), X)
    with pytest.warns(rfsize.SeedDependenceWarning, match="samples 3 of 16"):
        rfsize.size(train_lightgbm(X, data.three, 5, num_class=4, **params), X)
