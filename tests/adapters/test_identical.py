"""Trees that are all the same, as they are where nothing was sampled."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import rfsize
from helpers.forests import Data
from helpers.outputs import votes_of

REFUSED = r"all 6 trees of the forest are identical, because training sampled neither rows nor columns.*Train with "


FOREST = {"n_estimators": 1, "num_parallel_tree": 6, "learning_rate": 1, "max_depth": 3, "n_jobs": 1}


def xgboost(data: Data, y: Any = None, **params: Any) -> xgb.XGBClassifier:
    return xgb.XGBClassifier(**(FOREST | params)).fit(data.X, data.y if y is None else y)


def lightgbm(data: Data, columns: int, trees: int = 6, **params: Any) -> lgb.Booster:
    settings = {"objective": "binary", "boosting": "rf", "feature_fraction": 0.9, "verbosity": -1, "num_threads": 1}
    return lgb.train(settings | params, lgb.Dataset(data.X[:, :columns], data.y), trees)


@pytest.mark.parametrize("classes", [2, 3])
def test_of_xgboost(classes: int, data: Data) -> None:
    model = xgboost(data, y=data.y if classes == 2 else data.three)
    loaded = xgb.Booster(model_file=model.get_booster().save_raw("ubj"))
    for identical in (model, model.get_booster(), loaded):
        for call in (rfsize.size, votes_of, lambda model, _: rfsize.compile(model)):
            with pytest.raises(rfsize.exceptions.NotAForestError, match=REFUSED + ".*subsample"):
                call(identical, data.fresh)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="trees of the forest are identical"):
        rfsize.RightSizedClassifier(xgb.XGBClassifier(**FOREST), alpha=0.9).fit(data.X, data.y)


def test_of_lightgbm_whose_fraction_leaves_out_no_column(data: Data) -> None:
    with pytest.raises(rfsize.exceptions.NotAForestError, match=REFUSED + "bagging_freq"):
        rfsize.size(lightgbm(data, 3), data.fresh[:, :3])
    assert rfsize.tree_outputs(lightgbm(data, 8, feature_fraction=0.6), data.fresh).votes.n_trees == 6
    assert rfsize.tree_outputs(lightgbm(data, 3, trees=1), data.fresh[:, :3]).votes.n_trees == 1


def test_of_scikit_learn(data: Data) -> None:
    # With one column there is no tie to break.
    forest = RandomForestClassifier(6, max_features=None, bootstrap=False, max_depth=2, random_state=0)
    with pytest.raises(rfsize.exceptions.NotAForestError, match=REFUSED + "bootstrap=True"):
        rfsize.size(forest.fit(data.X[:, :1], data.y), data.fresh[:, :1])
    assert rfsize.tree_outputs(forest.set_params(max_features=2).fit(data.X, data.y), data.fresh).votes.n_trees == 6


def test_one_tree_is_taken_and_so_are_trees_that_learnt_nothing(data: Data) -> None:
    assert rfsize.tree_outputs(xgboost(data, num_parallel_tree=1), data.fresh).votes.n_trees == 1
    without_splits = xgboost(data, gamma=1e9)
    assert np.array_equal(rfsize.compile(without_splits).predict(data.fresh), without_splits.predict(data.fresh))
    assert rfsize.tree_outputs(xgboost(data, subsample=0.9), data.fresh).votes.n_trees == 6
    assert rfsize.tree_outputs(xgboost(data, colsample_bynode=0.5), data.fresh).votes.n_trees == 6
