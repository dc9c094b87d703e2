"""Which framework a model is of, or that it is of none."""

from __future__ import annotations

from typing import Any

import pytest

import rfsize
from helpers.forests import Data


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, data: rfsize.size(object()), "rfsize sizes a"),
        (lambda model, data: rfsize.size(type(model), data.X), "not a trained model"),
        (lambda model, data: rfsize.size(None, data.X), "rfsize sizes a"),
    ],
)
def test_what_is_no_model_is_refused(call: Any, message: str, booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match=message):
        call(booster, data)
