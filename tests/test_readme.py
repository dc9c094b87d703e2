"""The README: short, with an example that runs, and links and scripts that are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_can_be_taken_in() -> None:
    assert len(README.splitlines()) <= 120


def test_its_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    assert len(example[1].strip().splitlines()) <= 12
    checks = (
        "assert small.get_booster().num_boosted_rounds() == 1\nassert (fast.predict(X) == small.predict(X)).all()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", example[1] + checks], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert " of your 500 trees are enough (certified, 95 % sure)" in done.stdout


def test_what_it_names_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README) + re.findall(r"`(benchmarks/\w+\.py)`", README)
    assert len(links) > 20
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_its_commands_are_those_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for end in ("rfsize demo", "pytest"):
        assert len(re.findall(rf"^pip install .* && {end}$", README, re.MULTILINE)) == 1
        assert f'run_from_readme "{end}"' in ci
