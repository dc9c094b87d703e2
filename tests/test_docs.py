"""The documentation's Markdown: pages that can be read where nothing is built, with examples that hold."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"

# Written by a build, so nothing that can be linked to where nothing is built.
BUILT = ("_build/", "auto_examples/", "generated/")

MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in MARKDOWN if not any(folder in page.relative_to(ROOT).as_posix() for folder in BUILT)]
# The command line's example is for a shell.
GUIDE_PAGES = [page for page in sorted(GUIDE.glob("*.md")) if page.stem not in ("index", "command_line")]

# What a reader has before the first line: a trained forest, its rows and labels, or what a forest is trained from.
AT_HAND = {"model", "forest", "X", "y", "X_train", "y_train", "X_val", "X_test", "y_test", "params", "dtrain", "folder"}

EXAMPLE = re.compile(r"\]\(\.\./\.\./examples/(\w+\.py)\)")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def blocks_of_examples(page: Path) -> list[tuple[str, Path]]:
    """Each Python block below which the page links to an example, and that example."""
    blocks = re.findall(r"^```python\n(.*?)^```\n\n([^\n]*)", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    linked = [(code, EXAMPLE.search(below)) for code, below in blocks]
    return [(code, ROOT / "examples" / link[1]) for code, link in linked if link]


def imported(code: str) -> set[tuple[str, str, str | None]]:
    """Module, name and alias of all that is imported; a block may import less than its example."""
    statements = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {(getattr(node, "module", ""), alias.name, alias.asname) for node in statements for alias in node.names}


def lines(code: str) -> Iterator[str]:
    """All that is neither empty nor an import."""
    return (line for line in code.splitlines() if line and not line.startswith(("import ", "from ")))


def undefined(code: str) -> set[str]:
    """Names that are read before they are imported or assigned."""
    known, missing = AT_HAND | set(dir(builtins)), set()
    for statement in ast.parse(code).body:
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        aliases = {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
        known |= aliases | {node.id for node in names if isinstance(node.ctx, ast.Store)}
        missing |= {node.id for node in names if isinstance(node.ctx, ast.Load)} - known
    return missing


@pytest.mark.parametrize("page", GUIDE_PAGES, ids=name)
def test_guide_page_begins_with_its_example(page: Path) -> None:
    first = re.match(r"# [^\n]+\n\n```python\n(.*?)^```\n", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert first is not None
    assert blocks_of_examples(page)[0][0] == first[1]
    assert not undefined(first[1])


@pytest.mark.parametrize("page", GUIDE_PAGES, ids=name)
def test_guide_shows_what_examples_do(page: Path) -> None:
    for code, example in blocks_of_examples(page):
        whole = example.read_text("utf-8")
        assert imported(code) <= imported(whole)
        rest = lines(whole)
        assert [line for line in lines(code) if line not in rest] == []


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
    assert len(GUIDE_PAGES) >= 8
    assert len(PAGES) > 25


def test_every_benchmark_is_listed() -> None:
    listed = (ROOT / "docs" / "contributing" / "benchmarks.md").read_text("utf-8")
    scripts = [path for path in (ROOT / "benchmarks").glob("*.py") if "def main(" in path.read_text("utf-8")]
    assert len(scripts) > 20
    assert [script.name for script in scripts if f"`{script.name}`" not in listed] == []
