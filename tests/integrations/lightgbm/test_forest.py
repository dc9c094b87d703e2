"""What is particular to LightGBM."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone

import reference.counting
import rfsize
from helpers.forests import LIGHTGBM, Data, train_lightgbm
from rfsize.integrations.lightgbm.training import merged


def test_multiclass_votes(lgb_multiclass: lgb.Booster, data: Data) -> None:
    trees = lgb_multiclass.current_iteration()
    labels = np.stack(
        [lgb_multiclass.predict(data.X, start_iteration=t, num_iteration=1).argmax(axis=1) for t in range(trees)]
    )
    assert np.array_equal(rfsize.tree_outputs(lgb_multiclass, data.X).votes.counts, reference.counting.votes(labels, 3))
    inbag = rfsize.inbag(lgb_multiclass, data.X)
    assert np.array_equal(
        rfsize.tree_outputs(lgb_multiclass, data.X, oob=True).votes.counts, reference.counting.votes(labels, 3, inbag)
    )
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
    assert rfsize.tree_outputs(model, data.fresh).votes.n_trees == model.best_iteration


def test_trees_of_one_leaf_vote_too(data: Data) -> None:
    """With one feature in eight per tree, most trees find no split that leaves enough rows on each side."""
    y = (data.X[:, 0] > 1.2).astype(int)
    model = train_lightgbm(data.X, y, 40, feature_fraction=0.1, min_gain_to_split=30.0)
    alone = np.stack([model.predict(data.X, start_iteration=t, num_iteration=1) for t in range(40)]) > 0.5
    sizes = [tree["num_leaves"] for tree in model.dump_model()["tree_info"]]
    assert 1 in sizes
    assert max(sizes) > 1
    inbag = rfsize.inbag(model, data.X)
    assert np.array_equal(
        rfsize.tree_outputs(model, data.X, oob=True).votes.counts, reference.counting.votes(alone.astype(int), 2, inbag)
    )


def test_truncation_of_a_classifier_that_names_its_trees_otherwise(data: Data) -> None:
    settings = {
        "boosting_type": "rf",
        "subsample": 0.6,
        "subsample_freq": 1,
        "num_iterations": 12,
        "n_jobs": 1,
        "verbose": -1,
    }
    model = lgb.LGBMClassifier(**settings).fit(data.X, data.y)
    small = rfsize.truncate(model, n_trees=5)
    assert clone(small).fit(data.X, data.y).n_estimators_ == 5
    assert model.get_params()["num_iterations"] == 12


@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_tell_the_trees_that_are_there(n_classes: int, data: Data, tmp_path: Path) -> None:
    y, options = (data.y, {}) if n_classes == 2 else (data.three, {"objective": "multiclass", "num_class": 3})
    model = train_lightgbm(data.X, y, 30, num_iterations=30, **options)
    other = train_lightgbm(data.X, y, 10, bagging_seed=77, **options)
    grown, report = rfsize.grow({**LIGHTGBM, **options}, lgb.Dataset(data.X, y), alpha=0.8, max_trees=150)
    for made, n_trees in (
        (rfsize.truncate(model, n_trees=7), 7),
        (rfsize.shrink(model, data.fresh, n_trees=5)[0], 5),
        (merged([model, other]), 40),
        (grown, report.n_kept),
    ):
        made.save_model(tmp_path / "model.txt")
        for booster in (made, lgb.Booster(model_file=tmp_path / "model.txt")):
            assert booster.params["num_iterations"] == booster.current_iteration() == n_trees
    assert model.current_iteration() == 30


def test_a_dmatrix_is_refused(lgb_booster: lgb.Booster, data: Data) -> None:
    with pytest.raises(ValueError, match="DMatrix"):
        rfsize.tree_outputs(lgb_booster, xgb.DMatrix(data.fresh))


def test_threshold_is_for_two_classes(lgb_multiclass: lgb.Booster, data: Data) -> None:
    with pytest.raises(ValueError, match="leave threshold at"):
        rfsize.tree_outputs(lgb_multiclass, data.fresh, threshold=0.3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"boosting": "gbdt"}, "boosting='gbdt'"),
        ({"boosting": "dart"}, "boosting='dart'"),
        ({"objective": "regression"}, "cast no votes"),
        ({"linear_tree": True, "boosting": "rf"}, "linear"),
    ],
)
def test_what_is_no_forest_is_refused(params: dict[str, Any], message: str, data: Data) -> None:
    try:
        model = train_lightgbm(data.X, data.y, 3, **params)
    except lgb.basic.LightGBMError:
        pytest.skip("this LightGBM does not train such a forest")
    for call in (rfsize.size, rfsize.truncate):
        with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
            call(model, data.X, alpha=0.9)
    if message != "cast no votes":  # the trees of a regression have bags
        with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
            rfsize.inbag(model, data.X)


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
        (one_class.fit(data.X, np.ones(len(data.X))), "classes"),
    ]:
        with pytest.raises(rfsize.exceptions.NotAForestError, match=message):
            rfsize.tree_outputs(model, data.X)
    with pytest.raises(ValueError, match="fit"):
        rfsize.tree_outputs(lgb.LGBMClassifier(), data.X)
