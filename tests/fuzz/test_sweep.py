"""No call ends in an exception that is neither rfsize's nor the framework's, whatever model and rows it is given.

By default a sample of all calls is made; ``pytest -m slow tests/fuzz`` makes each of them.
"""

from __future__ import annotations

from itertools import product

import pytest

from helpers.kinds import Kinds
from helpers.sweep import FUNCTIONS, MODELS, faults, rows_of

_OF_THE_SAMPLE = 127  # one call in so many; prime, so that functions, models and rows all take turns


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    return Kinds(tmp_path_factory.mktemp("sweep"))


def _calls(at: Kinds, every: int) -> list[tuple[str, str, str]]:
    return list(product(FUNCTIONS, MODELS, rows_of(at, at.y)))[::every]


def test_a_sample_of_calls_meets_no_foreign_exception(at: Kinds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(at.folder)
    assert list(faults(at, iter(_calls(at, _OF_THE_SAMPLE)))) == []


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_call_meets_a_foreign_exception(function: str, at: Kinds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(at.folder)
    calls = [call for call in _calls(at, 1) if call[0] == function]
    assert list(faults(at, iter(calls))) == []


def test_the_sweep_finds_faults(at: Kinds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "size", lambda model, X, y: {}["missing"])
    monkeypatch.setitem(FUNCTIONS, "truncate", lambda model, X, y: model.set_attr(rfsize_mark="1"))
    found = list(faults(at, iter([("size", "lightgbm", "fresh rows"), ("truncate", "xgboost_three", "fresh rows")])))
    assert [fault.function for fault in found] == ["size", "truncate"]
    at.xgboost_three.set_attr(rfsize_mark=None)
