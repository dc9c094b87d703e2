"""Which frames of a few rows are taken without more care."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import rfsize
from helpers.forests import Data, train_lightgbm
from rfsize.inference.few_rows import FewRows


@pytest.fixture(scope="module")
def few(data: Data) -> FewRows:
    return FewRows(rfsize.compile(train_lightgbm(data.X, data.y, 5)).forest, None)


@pytest.mark.parametrize(
    ("number", "is_taken"),
    [
        (0.0, True),
        (2.0**53 - 1.0, True),
        (-(2.0**52), True),
        (2.0**53, False),
        (-(2.0**53), False),
        (1e300, False),
        (math.inf, False),
    ],
)
@pytest.mark.parametrize("missing", [False, True])
def test_numbers_beyond_whole_doubles_take_more_care(
    number: float, is_taken: bool, missing: bool, few: FewRows, data: Data
) -> None:
    rows = data.X[:2].copy()
    rows[1] = np.nan if missing else 2.0**53 - 1.0  # each fits, and their squares add up to more than that of the limit
    rows[0, 1] = number
    frame = pd.DataFrame(rows, columns=[f"Column_{column}" for column in range(rows.shape[1])])
    found = few.predictions(frame, 1)
    assert (found is not None) == is_taken
    if found is not None:
        assert np.array_equal(found, few.predictions(rows, 1))
