"""Where LightGBM's sampling of features depends on the seed."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import rfsize
from helpers.forests import LIGHTGBM, Data, train_lightgbm


def vote_shares(data: Data, seed: int, **params: Any) -> np.ndarray:
    model = train_lightgbm(data.X, data.y, 400, seed=seed, **params)
    return rfsize.compile(model).votes(data.fresh).fractions()[:, 1]


@pytest.mark.parametrize("name", ["feature_fraction", "feature_fraction_bynode"])
@pytest.mark.parametrize(("drawn", "depends"), [(1, False), (2, True), (5, False)])
def test_the_warned_of_seeds_are_those_that_matter(name: str, drawn: int, depends: bool, data: Data) -> None:
    """Two of eight features come from the low bits, an even number at a time; one is odd, five use the high bits."""
    params = {"feature_fraction": 1.0, name: drawn / 8}
    one, other = (vote_shares(data, seed, **params) for seed in (1, 2))
    noise = np.sqrt((one * (1 - one) + other * (1 - other)) / 400 + 1e-6)
    spread = float(np.std((one - other) / noise))
    assert (spread > 2.0) is depends
    model = train_lightgbm(data.X, data.y, 30, **params)
    if not depends:
        rfsize.size(model, data.fresh)
        return
    with pytest.warns(
        rfsize.exceptions.SeedDependenceWarning, match=rf"draws {drawn} of 8 .* {name} \(.*\) of at least 0\.63,"
    ) as caught:
        rfsize.size(model, data.fresh)
    advised = float(str(caught[0].message).partition("at least ")[2].split(",")[0])
    rfsize.size(train_lightgbm(data.X, data.y, 30, **{**params, name: advised}), data.fresh)
    with pytest.warns(rfsize.exceptions.SeedDependenceWarning):
        lgb.train({**LIGHTGBM, **params}, lgb.Dataset(data.X, data.y), 100, callbacks=[rfsize.SizeCallback(alpha=0.8)])


def test_trees_of_all_classes_draw_together(data: Data) -> None:
    params = {"feature_fraction": 3 / 16, "objective": "multiclass"}
    X = np.hstack([data.X, data.fresh.repeat(4, axis=0)[:1500]])
    rfsize.size(train_lightgbm(X, data.three, 5, num_class=3, **params), X)
    with pytest.warns(rfsize.exceptions.SeedDependenceWarning, match="draws 3 of 16"):
        rfsize.size(train_lightgbm(X, data.three, 5, num_class=4, **params), X)
