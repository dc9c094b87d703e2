"""Every example runs as a user would run it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(tmp_path)] if example.stem == "shrink_before_submitting" else []
    monkeypatch.setattr(sys, "argv", [str(example), *arguments])
    monkeypatch.chdir(tmp_path)
    before = plt.get_backend()
    plt.switch_backend("Agg")
    try:
        runpy.run_path(str(example), run_name="__main__")
    finally:
        plt.close("all")
        plt.switch_backend(before)
    assert "trees" in capsys.readouterr().out


def test_there_is_one_for_each_use() -> None:
    assert len(EXAMPLES) >= 3
