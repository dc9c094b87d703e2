"""Every example runs as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """No screen, one folder for what matplotlib makes of its fonts, and threads that sleep while they wait."""
    fonts = str(tmp_path_factory.mktemp("matplotlib"))
    return {**os.environ, "MPLBACKEND": "Agg", "MPLCONFIGDIR": fonts, "OMP_WAIT_POLICY": "PASSIVE"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, environment: dict[str, str], tmp_path: Path) -> None:
    arguments = [str(tmp_path)] if example.stem == "shrink_before_submitting" else []
    done = subprocess.run(
        [sys.executable, str(example), *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "trees" in done.stdout
    assert "NotConverged" not in done.stderr


def test_there_is_one_for_each_use() -> None:
    assert len(EXAMPLES) >= 3
