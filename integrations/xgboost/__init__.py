"""XGBoost."""

from __future__ import annotations

from typing import Any

import xgboost as xgb

from rfsize.errors import NotAForestError
from rfsize.integrations.xgboost.forest import XgboostForest


def adapt(model: Any, *, casts_votes: bool = True) -> XgboostForest:
    """The adapter of an XGBoost model; raises `NotAForestError` where there is none, or none that ``casts_votes``."""
    if not isinstance(model, (xgb.Booster, xgb.XGBModel)):
        raise NotAForestError(f"an xgboost.{type(model).__qualname__} is no model; give a Booster or XGBRFClassifier")
    return XgboostForest(model, casts_votes=casts_votes)
