"""LightGBM: models of every boosting, and forests of ``boosting="rf"``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb

from rfsize.integrations.lightgbm.model import LightGbmModel, read
from rfsize.models.framework import Framework


class LightGbm(Framework):
    """The framework LightGBM."""

    name = "LightGBM"

    def read(self, model: Any) -> LightGbmModel:
        return read(model)

    def models_in(self, model: Any) -> list[Any] | None:
        return list(model.boosters) if isinstance(model, lgb.CVBooster) else None


framework = LightGbm()
