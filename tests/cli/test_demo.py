"""The command line's demonstration, with the frameworks that are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rfsize.cli.main import main


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_TREES": 100, "_REPEATED": 2000}.items():
        monkeypatch.setattr(f"rfsize.cli.demo.{name}", value)


@pytest.mark.parametrize("missing", [[], ["lightgbm"], ["lightgbm", "xgboost"]], ids=str)
def test_demo(missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("with a stop table") == 3 - len(missing)
    assert [extra for extra in ("lightgbm", "xgboost") if f"[{extra}]" in printed] == missing


def test_the_package_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "rfsize", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("rfsize ")
