"""Stop tables and cuts certified on rows of workers are those of the same rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rfsize
from helpers.forests import Data

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

import rfsize.dask  # noqa: E402


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(2100, 8))


@pytest.mark.parametrize(
    "goal",
    [
        {"alpha": 0.97},
        {"alpha": 0.9, "average": "macro", "confidence": 0.9},
        {"alpha": 0.97, "voting": "hard"},
        {"alpha": 0.9, "metric": "probabilities", "tolerance": 0.05},
    ],
)
def test_tables(client: Any, lgb_booster: Any, xgb_multiclass: Any, rows: np.ndarray, goal: dict[str, Any]) -> None:
    X = da.from_array(rows, chunks=((1, 999, 7, 1093), 8))
    for forest in (lgb_booster, xgb_multiclass):
        found = rfsize.StopTable.calibrate(forest, rfsize.dask.rows(X, client=client), **goal)
        expected = rfsize.StopTable.calibrate(forest, rows, **goal)
        assert found.to_dict() == expected.to_dict()
        assert found.certificate == expected.certificate


def test_some_rows_are_learned_on(client: Any, lgb_booster: Any) -> None:
    rows = np.random.default_rng(4).normal(size=(10_400, 8))
    X = da.from_array(rows, chunks=((3001, 7399), 8))
    found = rfsize.StopTable.calibrate(lgb_booster, rfsize.dask.rows(X, client=client))
    expected = rfsize.StopTable.calibrate(lgb_booster, rows)
    assert found.certificate is not None
    assert found.certificate.rows < len(rows)
    assert found.to_dict() == expected.to_dict()


@pytest.mark.parametrize("goal", [{}, {"metric": "probabilities", "tolerance": 0.1}, {"voting": "hard"}])
def test_certified_cuts(client: Any, lgb_booster: Any, rows: np.ndarray, goal: dict[str, Any]) -> None:
    X = rfsize.dask.rows(da.from_array(rows, chunks=((1, 999, 7, 1093), 8)), client=client)
    found, expected = (rfsize.size(lgb_booster, of, alpha=0.9, target="forest", **goal) for of in (X, rows))
    assert found.n_trees < found.available
    assert found.certificate == expected.certificate


def test_regressions(client: Any, data: Data, rows: np.ndarray) -> None:
    from helpers.forests import train_xgboost

    forest = train_xgboost(data.X, data.X[:, 0], 30, objective="reg:squarederror")
    goal: dict[str, Any] = {"alpha": 0.95, "metric": "scores", "tolerance": 0.2}
    found = rfsize.StopTable.calibrate(
        forest, rfsize.dask.rows(da.from_array(rows, chunks=(700, 8)), client=client), **goal
    )
    assert found.to_dict() == rfsize.StopTable.calibrate(forest, rows, **goal).to_dict()


def test_too_few_rows(client: Any, lgb_booster: Any, rows: np.ndarray) -> None:
    with pytest.raises(ValueError, match="299"):
        rfsize.StopTable.calibrate(
            lgb_booster, rfsize.dask.rows(da.from_array(rows[:200], chunks=(100, 8)), client=client)
        )
