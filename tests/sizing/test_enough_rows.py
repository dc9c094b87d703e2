"""Sizes by some of the rows: those of the same rows given alone, and near those of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import rfsize
from helpers.forests import Data


@pytest.fixture(scope="module")
def many() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(60_000, 8))


def test_drawn_rows_are_sized_as_if_given_alone(booster: Any, many: np.ndarray, tmp_path: Path) -> None:
    drawn = np.sort(np.random.default_rng(0).choice(len(many), 2000, replace=False))
    y = (many[:, 0] > 0).astype(int)
    expected = str(rfsize.size(booster, many[drawn], y[drawn], alpha=0.9))
    assert "2,000 rows" in expected
    assert str(rfsize.size(booster, many, y, alpha=0.9, max_rows=2000)) == expected
    frame = pd.DataFrame(many, columns=[f"x{place}" for place in range(8)])
    frame.to_parquet(tmp_path / "rows.parquet")
    assert str(rfsize.size(booster, tmp_path / "rows.parquet", y, alpha=0.9, max_rows=2000)) == expected


def test_rows_of_a_dmatrix(xgb_booster: Any, many: np.ndarray) -> None:
    found, expected = (
        rfsize.size(xgb_booster, X, alpha=0.9, max_rows=500) for X in (xgb.DMatrix(many[:2000]), many[:2000])
    )
    assert str(found) == str(expected)


def test_fewer_rows_are_all_taken(booster: Any, data: Data) -> None:
    for max_rows in (len(data.X), 10**6, "auto"):
        found = rfsize.size(booster, data.X, alpha=0.9, max_rows=max_rows)
        assert str(found) == str(rfsize.size(booster, data.X, alpha=0.9))


def test_auto_draws_a_hundred_thousand_rows(booster: Any, many: np.ndarray) -> None:
    rows = np.concatenate([many, many])
    found, expected = (rfsize.size(booster, rows, alpha=0.9, max_rows=of) for of in ("auto", 100_000))
    assert found.n_rows == 100_000
    assert str(found) == str(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rows": 0}, "max_rows"),
        ({"max_rows": "some"}, "max_rows"),
        ({"max_rows": 100, "y": np.zeros(7)}, "7"),
        ({"max_rows": 100, "oob": True}, "the proof of the bags needs all of them"),
    ],
)
def test_what_is_refused(booster: Any, data: Data, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        rfsize.size(booster, data.X, **options)


def test_counted_rows_are_sized_as_they_are(booster: Any, data: Data) -> None:
    for counted in (rfsize.tree_outputs(booster, data.X).votes, rfsize.tree_outputs(booster, data.X)):
        with pytest.raises(ValueError, match="max_rows"):
            rfsize.size(counted, max_rows=100)
