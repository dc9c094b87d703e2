"""Rows for compiled forests."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.forests import Data


@pytest.fixture(scope="session")
def rows(data: Data) -> np.ndarray:
    """Enough rows for several blocks and threads."""
    return np.random.default_rng(11).normal(size=(9001, data.X.shape[1]))
