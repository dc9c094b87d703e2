"""XGBoost forests whose trees each score all classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import reference.bagging
import reference.counting
import rfsize
from helpers.forests import Data, predict, train_xgboost
from helpers.xgboost_forests import only_multi_output_tree

HAS_HESSIANS = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 2)


def train_multi_output(X: Any, y: Any, trees: int = 15, **params: Any) -> xgb.Booster:
    settings = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree", **params}
    return train_xgboost(X, y, trees, tree_method="hist", **settings)


@pytest.fixture(scope="module")
def multi_output(data: Data) -> xgb.Booster:
    return train_multi_output(data.X, data.three, colsample_bynode=1, eta=0.7)


def test_one_tree_may_vote_for_all_classes(multi_output: xgb.Booster, data: Data) -> None:
    rows = xgb.DMatrix(data.fresh)
    margins = np.stack(
        [only_multi_output_tree(multi_output, tree).predict(rows, output_margin=True) for tree in range(15)]
    )
    assert np.array_equal(
        rfsize.tree_outputs(multi_output, data.fresh).votes.counts, reference.counting.votes(margins.argmax(axis=2), 3)
    )
    small = rfsize.truncate(multi_output, n_trees=4)
    assert small.predict(rows, output_margin=True) == pytest.approx(margins[:4].mean(axis=0), abs=2e-6)
    with pytest.raises(ValueError, match="threshold"):
        rfsize.tree_outputs(multi_output, data.fresh, threshold=0.4)


def test_one_tree_for_all_classes_compiled(multi_output: xgb.Booster, data: Data, tmp_path: Path) -> None:
    fast = rfsize.compile(multi_output)
    votes = rfsize.tree_outputs(multi_output, data.fresh).votes
    assert fast.votes(data.fresh) == votes
    assert np.array_equal(fast.predict_labels(data.fresh), predict(multi_output, data.fresh).argmax(axis=1))
    assert np.array_equal(rfsize.compile(multi_output, voting="hard").predict_labels(data.fresh), votes.winner())
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
    expected = reference.bagging.xgboost_inbag(model, len(data.X), 3, 0.632, **growth)
    assert np.array_equal(rfsize.inbag(model, data.X), expected)
    margins = [only_multi_output_tree(model, t).predict(xgb.DMatrix(data.X), output_margin=True) for t in range(15)]
    labels = np.stack(margins).argmax(axis=2)
    assert np.array_equal(
        rfsize.tree_outputs(model, data.X, oob=True).votes.counts, reference.counting.votes(labels, 3, expected)
    )


@pytest.mark.skipif(HAS_HESSIANS, reason="since XGBoost 3.2 such trees keep their hessians")
def test_one_tree_for_all_classes_without_hessians(multi_output: xgb.Booster, data: Data) -> None:
    with pytest.raises(rfsize.exceptions.InbagError, match=r"XGBoost 3\.2"):
        rfsize.inbag(multi_output, data.X)
