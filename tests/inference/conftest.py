"""Rows for compiled forests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from helpers.compiled_forests import CLASSIFIERS, REGRESSORS, Models
from helpers.forests import Data


@pytest.fixture(scope="session")
def rows(data: Data) -> np.ndarray:
    """Enough rows for several blocks and threads."""
    return np.random.default_rng(11).normal(size=(9001, data.X.shape[1]))


@pytest.fixture(scope="session")
def models(data: Data) -> Models:
    """Each model, trained when it is first asked for."""
    return cache(lambda name: (CLASSIFIERS | REGRESSORS)[name](data))
