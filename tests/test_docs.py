"""The documentation's Markdown: pages that can be read where nothing is built, with blocks that run as pasted."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from printed import blocks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

# Written by a build, so nothing that can be linked to where nothing is built.
BUILT = ("_build/", "auto_examples/", "generated/")

MARKDOWN = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [page for page in MARKDOWN if not any(folder in page.relative_to(ROOT).as_posix() for folder in BUILT)]
WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text("utf-8")]

WORDS_IN_ALL, WORDS_OF_MEASUREMENTS = 40_000, 12_000


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def without_numbers(text: str) -> str:
    """Numbers differ in other versions of the frameworks, and on other processors."""
    return re.sub(r"\d[\d,.]*", "#", text)


def words(page: Path) -> int:
    return len(re.findall(r"\S*\w\S*", without_code(page.read_text("utf-8"))))


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_blocks_run_as_pasted_and_print_what_stands_below(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        ran = blocks(page)
    for block in ran:
        assert without_numbers(block.printed) == without_numbers(block.shown), (
            f"{block.code}\nprints something else: python docs/_ext/printed.py {name(page)} writes it below"
        )
    assert any(block.shown for block in ran)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", without_code(page.read_text("utf-8")))
    relative = [target for target in targets if not re.match(r"\w+:", target)]
    if page.name == "index.md":
        relative = [target for target in relative if "auto_examples/" not in target]
    built = [target for target in relative if any(folder in target for folder in BUILT)]
    missing = [target for target in relative if not (page.parent / target).exists()]
    assert not built + missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_nothing_refers_to_what_a_build_writes(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "{ref}`" not in text
    assert page.name == "index.md" or "auto_examples" not in text


def test_pages_are_found() -> None:
    assert len(WITH_CODE) >= 20
    assert len(PAGES) > 25


def test_it_can_be_read() -> None:
    assert sum(words(page) for page in PAGES) <= WORDS_IN_ALL
    assert words(DOCS / "measurements.md") <= WORDS_OF_MEASUREMENTS


def test_names_of_other_projects_that_are_linked_to_exist() -> None:
    lines = (DOCS / "_ext" / "elsewhere.txt").read_text("utf-8").splitlines()
    named = [line.split()[1] for line in lines if line.startswith(("class ", "function "))]
    assert len(named) > 20
    for name in named:
        module, _, member = name.rpartition(".")
        assert hasattr(pytest.importorskip(module), member), name


def test_every_benchmark_is_listed() -> None:
    listed = (DOCS / "contributing" / "benchmarks.md").read_text("utf-8")
    scripts = [path for path in (ROOT / "benchmarks").glob("*.py") if "def main(" in path.read_text("utf-8")]
    assert len(scripts) > 20
    assert [script.name for script in scripts if f"`{script.name}`" not in listed] == []
