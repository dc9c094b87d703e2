"""Growing on rows that the framework reads piece by piece: the forest of the same rows in memory, bags proven."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import rfsize
from helpers.forests import Data

XGB = {
    "objective": "binary:logistic",
    "num_parallel_tree": 20,
    "learning_rate": 1,
    "subsample": 0.632,
    "colsample_bynode": 0.5,
    "nthread": 1,
}
LGB = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction_bynode": 0.625,
    "num_leaves": 15,
    "verbose": -1,
    "num_threads": 1,
}
SIZE: dict[str, Any] = {"alpha": 0.95, "min_trees": 30}


class Batches(xgb.DataIter):
    """Rows and labels, 400 at a time."""

    def __init__(self, data: Data, cache: Path) -> None:
        self.data, self.place = data, 0
        super().__init__(cache_prefix=str(cache))

    def next(self, input_data: Callable[..., Any]) -> bool:
        rows = slice(400 * self.place, 400 * (self.place + 1))
        if rows.start >= len(self.data.X):
            return False
        input_data(data=self.data.X[rows], label=self.data.y[rows])
        self.place += 1
        return True

    def reset(self) -> None:
        self.place = 0


class Slices(lgb.Sequence):
    """A Sequence over an array."""

    batch_size = 300

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self.rows[index])

    def __len__(self) -> int:
        return len(self.rows)


@pytest.mark.parametrize("kind", ["ExtMemQuantileDMatrix", "DMatrix"])
def test_xgboost(kind: str, data: Data, tmp_path: Path) -> None:
    rows = Batches(data, tmp_path / "cache")
    found, report = rfsize.grow(XGB, getattr(xgb, kind)(rows), **SIZE)
    expected = rfsize.grow(XGB, xgb.QuantileDMatrix(data.X, data.y), **SIZE)[0]
    assert report.source == "oob"
    assert found.get_dump() == expected.get_dump()
    assert rfsize.tree_outputs(found, rows, oob=True).votes == rfsize.tree_outputs(found, data.X, oob=True).votes


@pytest.mark.parametrize("keeps_rows", [True, False])
def test_lightgbm(data: Data, keeps_rows: bool) -> None:
    parts = [Slices(part) for part in np.array_split(data.X, 3)]
    found, report = rfsize.grow(LGB, lgb.Dataset(parts, data.y, free_raw_data=not keeps_rows), **SIZE)
    expected = rfsize.grow(LGB, lgb.Dataset(data.X, data.y), **SIZE)[0]
    assert report.source == "oob"
    assert np.array_equal(found.predict(data.X), expected.predict(data.X))
    if keeps_rows:
        more = rfsize.grow(found, lgb.Dataset(parts, data.y, free_raw_data=False), alpha=0.97)[0]
        assert more.num_trees() > found.num_trees()
    assert rfsize.tree_outputs(found, parts, oob=True).votes == rfsize.tree_outputs(found, data.X, oob=True).votes
