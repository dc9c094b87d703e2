"""The documentation does what it says: blocks run as pasted, links lead somewhere, examples of docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from printed import blocks

import rfsize
import rfsize.integrations
from rfsize import theory

ROOT = Path(__file__).parents[2]
BUILT = ("_build/", "auto_examples/", "generated/")  # written by a build
MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in MARKDOWN if not any(folder in page.as_posix() for folder in BUILT)]
WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text("utf-8")]
QUICK = {"README.md", "getting_started.md"}
NEEDED = ("lightgbm", "xgboost", "dask", "pyspark")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_numbers(text: str) -> str:
    """Numbers differ in other versions of the frameworks, and on other processors."""
    return re.sub(r"\d[\d,.]*", "#", text)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=name(page), marks=() if page.name in QUICK else pytest.mark.slow) for page in WITH_CODE],
)
@pytest.mark.filterwarnings("default")
def test_blocks_run_and_print_what_stands_below(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``python docs/_ext/printed.py PAGE`` writes it there."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    ran = blocks(page)
    assert [without_numbers(block.printed) for block in ran] == [without_numbers(block.shown) for block in ran]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = [*re.findall(r"\]\(([^)#\s]+)", text), *re.findall(r'src="([^"]+)"', text)]
    relative = [target for target in targets if not re.match(r"\w+:", target)]
    missing = [target for target in relative if not (page.parent / target).exists() and "auto_examples/" not in target]
    assert missing == []


def examples() -> Iterator[Any]:
    """The examples of each docstring, to be run where nothing is imported yet, as a reader copies them."""
    # Where rfsize is editable, a package's path has more folders than its own, which hold its modules once more.
    packages = {
        f"{package.__name__}.": [str(Path(str(package.__file__)).parent)] for package in (rfsize, rfsize.integrations)
    }
    modules = {module.name for prefix, path in packages.items() for module in pkgutil.walk_packages(path, prefix)}
    for module in sorted(modules):
        try:
            tests = doctest.DocTestFinder().find(importlib.import_module(module), globs={})
        except ImportError as missing:
            if missing.name not in NEEDED:
                raise
        else:
            yield from (pytest.param(test, id=test.name) for test in tests if test.examples)


@pytest.mark.slow
@pytest.mark.parametrize("example", list(examples()))
def test_examples_of_docstrings(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "".join(statement.source for statement in example.examples)
    for framework in re.findall(rf"^(?:import|from) ({'|'.join(NEEDED)})\b", source, re.MULTILINE):
        pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)  # where files are saved
    differences: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not runner.run(example, out=differences.append).failed, "".join(differences)


EXPORTED = [getattr(rfsize, name) for name in rfsize.__all__]
EQUATIONS = [
    equation
    for name, equation in inspect.getmembers(theory, inspect.isfunction)
    if equation.__module__ == theory.__name__ and not name.startswith("_")
]


@pytest.mark.parametrize("public", [*EXPORTED, *EQUATIONS], ids=lambda public: public.__name__)
def test_public_names_have_examples(public: Any) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(public) or "")
