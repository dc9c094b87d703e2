"""Docstrings: public names have examples, and every example does what it says."""

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

import rfsize
import rfsize.integrations
from rfsize.stopping import urn
from rfsize.theory import binary, multiclass

FRAMEWORKS = ("lightgbm", "xgboost", "dask")

EXPORTED = [f"rfsize.{name}" for name in rfsize.__all__ if not name.endswith(("Error", "Warning"))]
EQUATIONS = [
    f"{module.__name__}.{name}"
    for module in (binary, multiclass, urn)
    for name, what in vars(module).items()
    if inspect.isfunction(what) and what.__module__ == module.__name__ and not name.startswith("_")
]


def examples() -> Iterator[Any]:
    """The examples of each docstring of rfsize, to be run where nothing is imported yet, as a reader copies them."""
    # They lie in one folder only where rfsize is installed from a wheel. Where it is editable, a package's path has
    # more folders than its own, in which its modules would be found again by other names.
    packages = {f"{one.__name__}.": [str(Path(str(one.__file__)).parent)] for one in (rfsize, rfsize.integrations)}
    modules = {found.name for prefix, path in packages.items() for found in pkgutil.walk_packages(path, prefix)}
    for name in sorted(modules):
        try:
            found = doctest.DocTestFinder().find(importlib.import_module(name), globs={})
        except ModuleNotFoundError as missing:
            if missing.name not in FRAMEWORKS:
                raise
            yield pytest.param(None, id=name, marks=pytest.mark.skip(f"needs {missing.name}"))
        else:
            yield from (pytest.param(one, id=one.name) for one in found if one.examples)


@pytest.mark.parametrize("example", list(examples()))
def test_example(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "".join(statement.source for statement in example.examples)
    for framework in re.findall(rf"^(?:import|from) ({'|'.join(FRAMEWORKS)})\b", source, re.MULTILINE):
        pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)  # where files are saved
    differences: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    failed = runner.run(example, out=differences.append).failed
    assert not failed, "".join(differences)


@pytest.mark.parametrize("name", EXPORTED + EQUATIONS)
def test_public_names_have_examples(name: str) -> None:
    if name == "rfsize.SizeCallback":
        pytest.importorskip("lightgbm")
    docstring = inspect.getdoc(pkgutil.resolve_name(name)) or ""
    _, _, section = docstring.partition("\nExamples\n--------\n")
    assert doctest.DocTestParser().get_examples(section), f"the docstring of {name} has no Examples section"
