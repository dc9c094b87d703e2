"""The command line's demonstration."""

from __future__ import annotations

import pytest

from rfsize.cli.main import main


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"_TREES": 100, "_REPEATED": 2000}.items():
        monkeypatch.setattr(f"rfsize.cli.demo.{name}", value)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "LightGBM" in printed
    assert "XGBoost" in printed
    assert "MB" in printed
    # What the first call loads is not what predicting takes.
    assert printed.count("predict once, to warm up") == printed.count("predict again") == 2
    assert "of the second call" in printed
    assert printed.count("with a stop table") == printed.count("as trained  ") == 2
