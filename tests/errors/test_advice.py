"""What texts advise can be done as written: calls of rfsize that a message or a page names exist, and take that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.advised import advised_calls, keywords_of

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "rfsize").rglob("*.py"), *(ROOT / "integrations").rglob("*.py")]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "reference").glob("*.rst")]


def _literals(source: str) -> Iterator[str]:
    """The strings of a module; what an f-string fills in is named ``filled``."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "filled" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def _faults(text: str) -> list[str]:
    return [
        f"{name}({', '.join(sorted(given))})"
        for name, function, given in advised_calls(text)
        if function is None or not given <= keywords_of(function)
    ]


@pytest.mark.parametrize("paths", [SOURCES, PAGES], ids=["messages", "pages"])
def test_calls_that_texts_advise_exist(paths: list[Path]) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    strings = {path: _literals(text) if path.suffix == ".py" else [text] for path, text in texts.items()}
    faults = {str(path): [fault for string in parts for fault in _faults(string)] for path, parts in strings.items()}
    assert {path: faulty for path, faulty in faults.items() if faulty} == {}
    assert sum(len(list(advised_calls(text))) for text in texts.values()) > 20


@pytest.mark.parametrize("text", ["give rfsize.sise(model, X)", "rfsize.size(model, X, seed=1)", "report.sice(3)"])
def test_the_check_finds_faults(text: str) -> None:
    assert _faults(text)
