"""LightGBM's bags, drawn again and proven leaf by leaf."""

from __future__ import annotations

import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import reference.bagging
import rfsize
from helpers.forests import LIGHTGBM, Data, train_lightgbm
from helpers.reports import of_same_votes


def test_bags_are_lightgbms_own(lgb_booster: lgb.Booster, data: Data) -> None:
    seed = int(lgb_booster.model_to_string().partition("[bagging_seed: ")[2].partition("]")[0])
    expected = reference.bagging.lightgbm_inbag(lgb_booster.num_trees(), len(data.X), seed, 0.632)
    assert np.array_equal(rfsize.inbag(lgb_booster, data.X), expected)


@pytest.mark.parametrize("fraction", [0.3, 0.5, 1 / 3 + 1e-9, 1 - 1 / np.e, 0.12347412109375, 0.1234741])
def test_any_bagging_fraction(fraction: float, data: Data) -> None:
    """The last two lie next to a whole number of draws, closer than the six digits of the model text tell."""
    model = train_lightgbm(data.X, data.y, 30, bagging_fraction=fraction)
    assert rfsize.inbag(model, data.X).mean() == pytest.approx(fraction, abs=0.02)


def test_threads_do_not_matter_to_bags(lgb_booster: lgb.Booster, data: Data) -> None:
    by_two = train_lightgbm(data.X, data.y, 21, num_threads=2)
    assert np.array_equal(rfsize.inbag(by_two, data.X), rfsize.inbag(lgb_booster, data.X)[:21])


def test_negative_seed(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 5, bagging_seed=-5)
    assert np.array_equal(rfsize.inbag(model, data.X), reference.bagging.lightgbm_inbag(5, len(data.X), -5, 0.632))


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
    with pytest.raises(rfsize.exceptions.InbagError, match="give y"):
        rfsize.inbag(model, data.X)
    with pytest.raises(rfsize.exceptions.InbagError):
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


def test_no_tree_with_two_leaves_proves_nothing(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 5, min_data_in_leaf=len(data.X))
    with pytest.raises(rfsize.exceptions.InbagError, match="more than one leaf"):
        rfsize.inbag(model, data.X)


def test_unseen_trees_are_named_where_the_proof_fails(lgb_booster: lgb.Booster, data: Data) -> None:
    X = data.X.copy()
    X[[0, 1]] = X[[1, 0]]
    with pytest.raises(rfsize.exceptions.InbagError, match=r"the first of them tree \d+.*order of training"):
        rfsize.inbag(lgb_booster, X)


def _goss(data: Data) -> Any:
    return train_lightgbm(data.X, data.y, 5, data_sample_strategy="goss", bagging_fraction=1.0, bagging_freq=0)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (_goss, "data_sample_strategy"),
        (lambda data: train_lightgbm(data.X, data.y, 5, bagging_fraction=1.0), "without bagging"),
    ],
)
def test_unprovable_samplers_still_vote_on_validation_rows(train: Any, message: str, data: Data) -> None:
    model = train(data)
    with pytest.raises(rfsize.exceptions.InbagError, match=message):
        rfsize.size(model, data.X, oob=True)
    assert rfsize.tree_outputs(model, data.fresh).votes.n_trees == 5


def test_bags_of_all_rows(data: Data) -> None:
    model = train_lightgbm(data.X[:300], data.y[:300], 5, bagging_fraction=0.99999)
    with pytest.raises(rfsize.exceptions.InbagError, match="every bag holds all 300 rows"):
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
    callback = rfsize.SizeCallback(alpha=0.9999, min_trees=60, voting="hard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
        settings = {**LIGHTGBM, "bagging_fraction": 0.95, "bagging_seed": 2, "min_data_in_leaf": 2}
        lgb.train(settings, lgb.Dataset(X, y), 60, callbacks=[callback])
    expected = rfsize.size(model, X, alpha=0.9999, oob=True, voting="hard")
    assert of_same_votes(callback.report_) == of_same_votes(expected)


def test_balanced_bags_of_text_labels(data: Data) -> None:
    model = train_lightgbm(data.X, data.y, 5, pos_bagging_fraction=0.8, neg_bagging_fraction=0.3)
    with pytest.raises(ValueError, match="numbers"):
        rfsize.inbag(model, data.X, np.array(["no", "yes"])[data.y])


def test_seed_is_for_xgboost_only(lgb_booster: lgb.Booster, data: Data) -> None:
    with pytest.raises(rfsize.exceptions.InbagError, match="leave out seed"):
        rfsize.inbag(lgb_booster, data.X, seed=3)
