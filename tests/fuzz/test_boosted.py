"""Boosted models of random settings predict as their frameworks do, on rows that are made to differ."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, HistGradientBoostingRegressor

import rfsize

pytestmark = pytest.mark.slow


def adversarial(X: np.ndarray, rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Values of training, halfway between two, one unit beside them, zeros of both signs, denormals, huge, missing."""
    seen = X[rng.integers(len(X), size=(n_rows, X.shape[1])), np.arange(X.shape[1])]
    other = X[rng.integers(len(X), size=(n_rows, X.shape[1])), np.arange(X.shape[1])]
    kinds = [seen, (seen + other) / 2, np.nextafter(seen, np.inf), np.nextafter(seen, -np.inf), np.float32(seen)]
    constants = (0.0, -0.0, 5e-324, -1e-35, 1e-35, 1e30, -1e30, np.nan)
    return np.choose(rng.integers(13, size=seen.shape), [*kinds, *(np.full_like(seen, value) for value in constants)])


def trained(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> tuple[Any, bool]:
    """A model, and whether it takes missing values."""

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    common = {"n_estimators": int(rng.integers(1, 60)), "learning_rate": pick(0.02, 0.1, 0.5, 1.0), "random_state": 0}
    leaves, n_classes = int(rng.integers(2, 80)), len(np.unique(y))
    more = {"colsample_bytree": pick(0.5, 1.0), "subsample": pick(0.5, 1.0), "reg_lambda": pick(0.0, 1.0)}
    kind = rng.integers(7)
    if kind < 3:
        sampled = {"boosting_type": pick("gbdt", "gbdt", "dart"), "zero_as_missing": pick(True, False)}
        sampled |= {"subsample_freq": 1}
        made = lgb.LGBMRegressor if n_classes > 9 else lgb.LGBMClassifier
        return made(num_leaves=leaves, min_child_samples=2, verbose=-1, **sampled, **more, **common).fit(X, y), True
    if kind < 6:
        grown = {"max_leaves": leaves, "max_depth": 0, "grow_policy": "lossguide", "num_parallel_tree": pick(1, 1, 3)}
        made = xgb.XGBRegressor if n_classes > 9 else xgb.XGBClassifier
        return made(booster=pick("gbtree", "gbtree", "dart"), **grown, **more, **common).fit(X, y), True
    if n_classes < 9 and rng.random() < 0.5:
        X = np.nan_to_num(X)
        return GradientBoostingClassifier(max_leaf_nodes=leaves, max_depth=None, **common).fit(X, y), False
    common["max_iter"] = common.pop("n_estimators")
    made = HistGradientBoostingRegressor if n_classes > 9 else HistGradientBoostingClassifier
    return made(max_leaf_nodes=leaves, **common).fit(X, y), True


@pytest.mark.parametrize("start", range(0, 300, 25))
def test_boosted_models_of_random_settings(start: int) -> None:
    for seed in range(start, start + 25):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 5)).astype(np.float32).astype(float)
        X[:, 1], X[rng.random(X.shape) < 0.1] = X[:, 1].round(), np.nan
        score = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]) + 0.3 * rng.normal(size=300)
        y = [score, (score > 0).astype(int), np.digitize(score, (-0.5, 0.5))][seed % 3]
        model, takes_missing = trained(rng, X, y)
        rows = adversarial(X, rng, 2000)
        rows = rows if takes_missing else np.nan_to_num(np.clip(rows, -1e30, 1e30))
        is_dart = getattr(model, "booster", None) == "dart"  # which XGBoost itself predicts otherwise from an array
        own, given = (model.get_booster(), xgb.DMatrix(rows)) if is_dart else (model, rows)
        fast = rfsize.compile(own)
        for name in sorted({"predict", "predict_proba"} & set(dir(own))):
            expected = getattr(own, name)(given)
            np.testing.assert_array_equal(getattr(fast, name)(rows), expected, err_msg=f"{seed}: {model}")
