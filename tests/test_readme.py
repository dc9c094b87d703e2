"""The README, with links and scripts that are there. Its example runs in `test_docs`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_example_has_the_three_main_uses() -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    for use in ("SizeCallback", "truncate", "compile"):
        assert f"rfsize.{use}(" in example[1]


def test_what_it_names_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README) + re.findall(r"`(benchmarks/\w+\.py)`", README)
    links += re.findall(r'src="([^"]+)"', README)
    assert len(links) > 20
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_its_commands_are_those_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for end in ("rfsize demo", "pytest"):
        assert len(re.findall(rf"^pip install .* && {end}$", README, re.MULTILINE)) == 1
        assert f'run_from_readme "{end}"' in ci
