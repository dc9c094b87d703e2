"""The command line's demonstration."""

from __future__ import annotations

import pytest

from rfsize.cli.main import main


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("rfsize.cli.demo._TREES", 200)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "LightGBM" in printed
    assert "XGBoost" in printed
    assert "MB" in printed
