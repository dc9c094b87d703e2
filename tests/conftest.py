"""Data, and small real forests of both frameworks, trained once."""

from __future__ import annotations

import os
from typing import Any

# Read where OpenMP or a BLAS is loaded, here and in what tests start: forests and matrices this small are worked on
# sooner by one thread than by several that wait for each other, and threads that wait leave the processor to others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pytest
from hypothesis import settings

from helpers.forests import ROWS, Data, train_lightgbm, train_xgboost

settings.register_profile("untimed", deadline=None, max_examples=60)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def data() -> Data:
    rng = np.random.default_rng(7)
    X, fresh = rng.normal(size=(ROWS, 8)), rng.normal(size=(400, 8))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=ROWS)
    return Data(X, (signal > 0.3).astype(int), np.digitize(signal, [-0.5, 0.7]), fresh)


@pytest.fixture(scope="session")
def lgb_booster(data: Data) -> Any:
    return train_lightgbm(data.X, data.y)


@pytest.fixture(scope="session")
def lgb_multiclass(data: Data) -> Any:
    return train_lightgbm(data.X, data.three, 21, objective="multiclass", num_class=3)


@pytest.fixture(scope="session")
def xgb_booster(data: Data) -> Any:
    return train_xgboost(data.X, data.y)


@pytest.fixture(scope="session")
def xgb_multiclass(data: Data) -> Any:
    return train_xgboost(data.X, data.three, 21, objective="multi:softprob", num_class=3)


@pytest.fixture(scope="session", params=["lightgbm", "xgboost"])
def booster(request: pytest.FixtureRequest, lgb_booster: Any, xgb_booster: Any) -> Any:
    """A two-class booster of each framework in turn."""
    return lgb_booster if request.param == "lightgbm" else xgb_booster


@pytest.fixture(params=["lightgbm", "xgboost"])
def framework(request: pytest.FixtureRequest) -> str:
    """Each framework in turn."""
    return request.param
