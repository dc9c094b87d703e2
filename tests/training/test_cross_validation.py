"""Votes by cross-validation, on both frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.model_selection import StratifiedKFold

import rfsize
from helpers.forests import LIGHTGBM, Data

XGBOOST = {"objective": "binary:logistic", "subsample": 0.632, "colsample_bynode": 0.6, "eta": 1, "seed": 3}


@pytest.fixture(params=["lightgbm", "xgboost"])
def training(request: pytest.FixtureRequest, data: Data) -> tuple[dict[str, Any], Any]:
    if request.param == "lightgbm":
        return LIGHTGBM, lgb.Dataset(data.X, data.y, free_raw_data=False)
    return XGBOOST, xgb.DMatrix(data.X, data.y)


def test_each_row_is_voted_on_by_the_forest_of_the_other_folds(
    training: tuple[dict[str, Any], Any], data: Data
) -> None:
    params, dtrain = training
    before = dict(params)
    counted = rfsize.cv_votes(params, dtrain, 3, n_trees=15, seed=4)
    assert params == before
    assert counted.n_trees == 15
    assert (counted.asked == 15).all()
    for train, held_out in StratifiedKFold(3, shuffle=True, random_state=4).split(data.X, data.y):
        if isinstance(dtrain, xgb.DMatrix):
            part = xgb.DMatrix(data.X[train], data.y[train])
            forest = xgb.train({**params, "num_parallel_tree": 15}, part, 1)
            assert np.array_equal(counted.counts[held_out], rfsize.tree_outputs(forest, data.X[held_out]).votes.counts)
        else:
            # Rows of the fold are binned with all rows, as lightgbm.cv does.
            whole = lgb.Dataset(data.X, data.y, free_raw_data=False).construct()
            forest = lgb.train(params, whole.subset(train), 15)
            assert np.array_equal(counted.counts[held_out], rfsize.tree_outputs(forest, data.X[held_out]).votes.counts)


def test_they_size_like_out_of_bag_votes(training: tuple[dict[str, Any], Any]) -> None:
    report = rfsize.size(rfsize.cv_votes(*training, n_trees=100), alpha=0.95)
    assert report.converged
    assert 5 < report.n_trees < 60


def test_forests_without_bags_and_of_more_classes(data: Data) -> None:
    no_bags = {**LIGHTGBM, "bagging_freq": 0, "bagging_fraction": 1.0, "objective": "multiclass", "num_class": 3}
    counted = rfsize.cv_votes(no_bags, lgb.Dataset(data.X, data.three), n_trees=12)
    assert counted.counts.shape == (len(data.X), 3)
    assert np.mean(counted.winner() == data.three) > 0.6
    no_bags = {**XGBOOST, "subsample": 1.0, "objective": "multi:softprob", "num_class": 3}
    counted = rfsize.cv_votes(no_bags, xgb.DMatrix(data.X, data.three), n_trees=12)
    assert np.mean(counted.winner() == data.three) > 0.6


def test_threshold_moves_the_votes(training: tuple[dict[str, Any], Any]) -> None:
    low, high = (rfsize.cv_votes(*training, n_trees=9, threshold=threshold) for threshold in (0.2, 0.8))
    assert low.counts[:, 1].sum() > 1.2 * high.counts[:, 1].sum()


def test_folds_of_ones_own(training: tuple[dict[str, Any], Any]) -> None:
    rows = np.arange(1500)
    folds = [(rows[500:], rows[:400]), (rows[:1000], rows[:999:-1])]
    counted = rfsize.cv_votes(*training, folds=folds, n_trees=5)
    assert np.array_equal(counted.asked, np.repeat([5, 0, 5], [400, 600, 500]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nfold": 1}, "nfold must be"),
        ({"n_trees": 0}, "n_trees must be"),
        ({"threshold": 1.0}, "threshold must be"),
        ({"folds": []}, "no folds"),
        ({"folds": [(np.arange(10), np.arange(9, 20))]}, "held out"),
        ({"folds": [(np.arange(10), np.arange(20, 30)), (np.arange(10), np.arange(25, 40))]}, "held out twice"),
        ({"folds": [(np.arange(10), np.array([1500]))]}, "from 0 to 1499"),
        ({"folds": [(np.arange(10), np.array([20, 20]))]}, "each once"),
        ({"folds": [(np.arange(10), np.zeros(1500, dtype=bool))]}, "row indices"),
    ],
)
def test_refusals(training: tuple[dict[str, Any], Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rfsize.cv_votes(*training, **options)


def test_other_data_and_parameters_are_refused(data: Data) -> None:
    with pytest.raises(ValueError, match=r"give a lightgbm\.Dataset"):
        rfsize.cv_votes(LIGHTGBM, data.X)
    with pytest.raises(ValueError, match="QuantileDMatrix"):
        rfsize.cv_votes(XGBOOST, xgb.QuantileDMatrix(data.X, data.y))
    with pytest.raises(rfsize.NotAForestError, match="gbdt"):
        rfsize.cv_votes({**LIGHTGBM, "boosting": "gbdt"}, lgb.Dataset(data.X, data.y))
    with pytest.raises(rfsize.NotAForestError, match="gblinear"):
        rfsize.cv_votes({"booster": "gblinear", "objective": "binary:logistic"}, xgb.DMatrix(data.X, data.y))
    with pytest.warns(rfsize.SharedBagsWarning):
        rfsize.cv_votes({**LIGHTGBM, "bagging_freq": 2}, lgb.Dataset(data.X, data.y), n_trees=2)


def test_labels_of_a_dataset_that_is_not_binned_yet(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    np.savetxt(file, np.column_stack([data.y, data.X]), delimiter=",")
    counted = rfsize.cv_votes(LIGHTGBM, lgb.Dataset(str(file)), n_trees=5)
    assert (counted.asked == 5).all()
    with pytest.raises(ValueError, match="class indices 0 to 1"):
        rfsize.cv_votes(LIGHTGBM, lgb.Dataset(data.X, data.y + 1), n_trees=5)
