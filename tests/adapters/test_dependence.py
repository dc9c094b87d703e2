"""Trees that depend on each other are warned of."""

from __future__ import annotations

from typing import Any

import pytest

import rfsize
from helpers.forests import Data, train_lightgbm, train_xgboost


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_shared_bags_warn(train: Any, data: Data) -> None:
    shared = {"bagging_freq": 3} if train is train_lightgbm else {"tree_method": "approx"}
    model = train(data.X, data.y, 12, **shared)
    with pytest.warns(rfsize.exceptions.SharedBagsWarning, match="not independent"):
        rfsize.size(model, data.fresh, alpha=0.8)
