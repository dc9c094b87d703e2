"""One result of each kind, of small forests whose classes have names that strangers chose."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize
from helpers.forests import LIGHTGBM, Data
from helpers.fraction_searches import search
from rfsize.reporting.result import Result

NAMES = np.array(["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a&amp;b"])


def oddly_named(y: Any, predicted: Any) -> float:
    return float(np.mean(np.argmax(predicted, axis=1) == 0))


oddly_named.__name__ = "</text><script>alert(3)</script> $x_{1 font: 9px #010203"


@pytest.fixture(scope="session")
def forest(data: Data) -> RandomForestClassifier:
    return RandomForestClassifier(60, min_samples_leaf=5, random_state=0).fit(data.X, NAMES[data.three])


@pytest.fixture(scope="session")
def results(forest: RandomForestClassifier, lgb_booster: Any, xgb_booster: Any, data: Data) -> dict[str, Result]:
    odd = rfsize.tree_outputs(forest, data.X, NAMES[data.three], oob=True)
    two = rfsize.tree_outputs(lgb_booster, data.X, data.y, oob=True)
    numbers = data.X[:, 0] + data.X[:, 1]
    regression = RandomForestRegressor(40, min_samples_leaf=5, random_state=0).fit(data.X, numbers)
    return {
        "enough": rfsize.size(odd, alpha=0.9),
        "too few": rfsize.size(two, alpha=0.999, average="macro"),
        "xgboost": rfsize.size(xgb_booster, data.fresh, alpha=0.95),
        "votes": rfsize.size(rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100), alpha=0.95),
        "probability": rfsize.size(two, metric="probabilities", tolerance=0.05),
        "regression": rfsize.size(regression, data.X, numbers, oob=True, metric="scores", tolerance=0.1),
        "metric": rfsize.size(two, metric="auc", tolerance=0.01),
        "score": rfsize.oob_score(two, metric="auc"),
        "odd score": rfsize.oob_score(odd, metric=oddly_named),
        "shrunk": rfsize.shrink(lgb_booster, data.fresh, n_trees=10)[1],
        "fraction": search("xgboost", data),
        "mcnemar": rfsize.baselines.mcnemar_size(
            rfsize.tree_outputs(lgb_booster, data.fresh).by_tree(), data.fresh[:, 0] > 0, step=5
        ),
        "banfield": rfsize.baselines.banfield_size(
            rfsize.tree_outputs(lgb_booster, data.fresh).by_tree(), data.fresh[:, 0] > 0
        ),
    }


@pytest.fixture(scope="session")
def pictured(
    results: dict[str, Result], forest: RandomForestClassifier, lgb_booster: Any, data: Data
) -> dict[str, Any]:
    """All that can be drawn: results, and stop tables."""
    near: Any = {"metric": "probabilities", "tolerance": 0.1}
    return {
        **results,
        "certified by class": rfsize.StopTable.calibrate(forest, data.fresh, alpha=0.8, average="macro"),
        "certified": rfsize.StopTable.calibrate(forest, data.fresh, alpha=0.95),
        "spread": rfsize.StopTable.calibrate(lgb_booster, data.fresh, alpha=0.9, **near),
        "two classes": rfsize.StopTable.build(101),
        "four classes": rfsize.StopTable.build(31, n_classes=4),
        "weighted": rfsize.StopTable.lossless(np.linspace(0.1, 1.0, 30)),
    }


@pytest.fixture(scope="session")
def params() -> dict[str, Any]:
    """What a LightGBM forest is grown with, where a page says to."""
    return {**LIGHTGBM, "num_threads": 1}


@pytest.fixture
def dtrain(data: Data) -> lgb.Dataset:
    return lgb.Dataset(data.X, data.y, free_raw_data=False)
