"""Which framework a model is of, or that it is of none."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

import rfsize
from helpers.forests import Data
from rfsize.models import registry


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, data: rfsize.size(object(), data.X), "rfsize sizes a"),
        (lambda model, data: rfsize.size(type(model), data.X), "not a trained model"),
        (lambda model, data: rfsize.size(None, data.X), "rfsize sizes a"),
    ],
)
def test_what_is_no_model_is_refused(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)


def test_parameters_are_asked_of_installed_frameworks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry.framework_of_params({"boosting": "rf"}) == "lightgbm"
    assert registry.framework_of_params({"subsample": 0.5}) == "xgboost"
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "xgboost" else find_spec(name))
    assert registry.framework_of_params({"boosting": "rf"}) == "lightgbm"
    with pytest.raises(ValueError, match="fit no framework"):
        registry.framework_of_params({"subsample": 0.5})
