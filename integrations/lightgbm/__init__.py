"""LightGBM."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb

from rfsize.errors import NotAForestError
from rfsize.integrations.lightgbm.forest import LightGbmForest


def adapt(model: Any, *, casts_votes: bool = True) -> LightGbmForest:
    """The adapter of a LightGBM model; raises `NotAForestError` where there is none, or none that ``casts_votes``."""
    if isinstance(model, lgb.CVBooster):
        raise NotAForestError("a CVBooster holds several forests; size each of cvbooster.boosters alone")
    if not isinstance(model, (lgb.Booster, lgb.LGBMModel)):
        raise NotAForestError(f"a lightgbm.{type(model).__qualname__} is no model; give a Booster or LGBMClassifier")
    return LightGbmForest(model, casts_votes=casts_votes)
