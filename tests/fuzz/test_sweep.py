"""No call ends in an exception that is neither rfsize's nor the framework's, whatever model and rows it is given."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from helpers.sweep import FUNCTIONS, MODELS, ROWS, faults, model

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_call_meets_a_foreign_exception(function: str) -> None:
    assert list(faults(product([function], MODELS, ROWS))) == []


def test_the_sweep_finds_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "size", lambda model, X, y: {}["missing"])
    monkeypatch.setitem(FUNCTIONS, "truncate", lambda model, X, y: model.set_attr(rfsize_mark="1"))
    calls = [("size", "lightgbm", "fresh rows"), ("truncate", "xgboost softprob", "fresh rows")]
    assert [fault.function for fault in faults(iter(calls))] == ["size", "truncate"]
    model("xgboost softprob").set_attr(rfsize_mark=None)
