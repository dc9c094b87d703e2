"""Packages import only packages before them, modules go in no circle, and files stay short; types count as imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"rfsize": ROOT / "rfsize", "rfsize.frameworks": ROOT / "integrations"}
MOST_LINES = 500
# A class that is one concept, most of it for those who read about it.
LONGER = {"rfsize/stopping/table.py": 580}

ESTIMATES = {"exceptions", "utils", "reporting", "theory", "voting", "estimation", "baselines"}
PIPELINE = {
    *(*ESTIMATES, "adapters", "walking", "counting", "certifying", "stopping", "inference", "sizing", "shrinking"),
    *("importance", "training"),
}
FRAMEWORKS = {"integrations.lightgbm", "integrations.xgboost", "integrations.sklearn"}
OF_A_FRAMEWORK = {"adapters", "counting", "voting", "utils", "exceptions"}

# Packages in the order of imports, and what each may import beside its own modules; compiled loops know none of them.
MAY_IMPORT = {
    "_core": set(),
    "exceptions": set(),
    "utils": set(),
    "reporting": {"utils"},
    "theory": {"utils"},
    "voting": {"utils"},
    "estimation": {"theory", "voting", "utils"},
    "baselines": {"reporting", "utils"},
    "adapters": {"voting", "utils", "exceptions"},
    "walking": {"adapters", "voting", "utils", "exceptions"},
    "counting": {"walking", "adapters", "voting", "utils", "exceptions"},
    "certifying": {"counting", "adapters", "voting", "utils", "exceptions"},
    "stopping": {"certifying", "counting", "walking", "adapters", "voting", "reporting", "utils", "exceptions"},
    "inference": {"counting", "walking", "adapters", "certifying", "stopping", "voting", "utils", "exceptions"},
    "sizing": {
        "certifying",
        "inference",
        "counting",
        "adapters",
        "estimation",
        "theory",
        "voting",
        "reporting",
        "utils",
        "exceptions",
    },
    "importance": {
        "sizing",
        "counting",
        "walking",
        "adapters",
        "estimation",
        "voting",
        "reporting",
        "utils",
        "exceptions",
    },
    "shrinking": {"sizing", "certifying", "counting", "adapters", "utils", "exceptions"},
    "training": {"theory", "sizing", "counting", "adapters", "voting", "reporting", "utils", "exceptions"},
    "integrations": set(),
    "integrations.lightgbm": OF_A_FRAMEWORK,
    "integrations.xgboost": OF_A_FRAMEWORK,
    "integrations.sklearn": OF_A_FRAMEWORK,
    "sklearn": PIPELINE,
    "dask": PIPELINE,
    "spark": PIPELINE,
    "testing": {"adapters", "counting", "inference", "sizing", "utils", "exceptions"},
    "__init__": {*PIPELINE, *FRAMEWORKS, "sklearn", "testing"},
    "cli": {*PIPELINE, "sklearn", "testing", "__init__"},
    "__main__": {"cli"},
}
# What one module may import beyond its package.
MODULE_MAY_IMPORT = {
    "integrations.lightgbm.callback": {"sizing", "training.until_enough"},
    "integrations.sklearn.training": {"theory.sampling_ratio"},
}


class Import(NamedTuple):
    """One name that a module takes from another; `path` and `line` are where it stands."""

    importer: str
    imported: str
    name: str
    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.importer} imports {self.name} of {self.imported}"


def modules_in(folders: dict[str, Path]) -> dict[str, Path]:
    """The files of packages by the names of their modules; that of an ``__init__.py`` is its package's."""
    modules = {}
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.py*")):
            if path.suffix not in {".py", ".pyi"}:
                continue
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


def imports_in(modules: dict[str, Path]) -> list[Import]:
    """Every import of one module by another, at the top, inside functions and for types alike."""
    return [each for module in modules for each in _imports_of(module, modules) if each.imported in modules]


def _imports_of(module: str, modules: dict[str, Path]) -> Iterator[Import]:
    path = modules[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, alias.name.rpartition(".")[2], path, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                # `from rfsize import theory` is an import of the package theory, not of a name in rfsize/__init__.py.
                of_a_module = f"{source}.{alias.name}"
                yield Import(module, of_a_module if of_a_module in modules else source, alias.name, path, node.lineno)


def circle(imports: list[Import]) -> str:
    """The modules of a circle in the order in which they import each other; empty where there is none."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        graph.setdefault(each.importer, set()).add(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " imports ".join(reversed(error.args[1]))
    return ""


def against_the_order(imports: list[Import]) -> list[str]:
    return [str(each) for each in imports if not _is_allowed(each.importer, each.imported)]


def _is_allowed(importer: str, imported: str) -> bool:
    importing, imported_package = _package(importer), _package(imported)
    if importing == imported_package:
        return True
    beyond = MODULE_MAY_IMPORT.get(importer.removeprefix("rfsize."), set())
    return imported_package in MAY_IMPORT[importing] | beyond | {"_core"} or imported.removeprefix("rfsize.") in beyond


def _package(module: str) -> str:
    """The entry of `MAY_IMPORT` that a module belongs to."""
    inside = module.split(".")[1:] or ["__init__"]
    return ".".join(inside[:2] if inside[0] == "integrations" else inside[:1])


def private_names(imports: list[Import]) -> list[str]:
    private = [each for each in imports if each.name.startswith("_") and not each.name.startswith("__")]
    return [str(each) for each in private if each.imported != "rfsize._core"]


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return imports_in(modules_in(FOLDERS))


def test_no_module_imports_itself_by_way_of_others(imports: list[Import]) -> None:
    assert circle(imports) == ""


def test_packages_import_only_what_they_may(imports: list[Import]) -> None:
    wrong = against_the_order(imports)
    assert not wrong, "\n".join(wrong)


def test_no_private_name_is_imported(imports: list[Import]) -> None:
    private = private_names(imports)
    assert not private, "\n".join(private)


def test_every_package_stands_in_the_order() -> None:
    assert {_package(module) for module in modules_in(FOLDERS)} <= set(MAY_IMPORT)


def test_the_order_is_an_order() -> None:
    packages = list(MAY_IMPORT)
    for position, package in enumerate(packages):
        assert MAY_IMPORT[package] <= set(packages[:position]), package


@pytest.mark.parametrize("folder", ["rfsize", "integrations", "tests"])
def test_no_file_is_long(folder: str) -> None:
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / folder).rglob("*.py")}
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in files.items()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGER.get(name, MOST_LINES)} == {}


NAMES_OF_FRAMEWORKS = re.compile("lightgbm|xgboost|lgbm|xgb", re.IGNORECASE)
# The one public name that comes out of an integration, and a forest of each framework for `rfsize demo`.
NAMES_A_FRAMEWORK = {"rfsize/__init__.py", "rfsize/cli/demo.py"}


def names_of_frameworks(path: Path) -> list[str]:
    """Names, imports and single words by which the code of a module knows a framework; prose for users is none."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        words: list[str] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not set(node.value) & set(" \n"):
            words = [node.value]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.alias)):
            words = [node.name]
        elif isinstance(node, ast.ImportFrom):
            words = [node.module or ""]
        elif isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
            words = [next(getattr(node, name) for name in ("id", "attr", "arg") if hasattr(node, name))]
        found += [f"{path}:{node.lineno}: {word}" for word in words if NAMES_OF_FRAMEWORKS.search(word)]
    return found


def test_frameworks_are_named_in_integrations_alone() -> None:
    paths = [
        path for path in (ROOT / "rfsize").rglob("*.py") if path.relative_to(ROOT).as_posix() not in NAMES_A_FRAMEWORK
    ]
    assert [found for path in paths for found in names_of_frameworks(path)] == []


def test_a_framework_that_is_named_is_found(tmp_path: Path) -> None:
    path = tmp_path / "demo.py"
    lines = [
        '"""Prose of LightGBM."""',
        "from xgboost import dask",
        'by = {"lightgbm": fit_xgb}',
        'say("a lightgbm.Dataset")',
    ]
    path.write_text("\n".join(lines))
    assert [found.rpartition(" ")[2] for found in names_of_frameworks(path)] == ["xgboost", "lightgbm", "fit_xgb"]


class TestOnAFaultyPackage:
    """The rules above can fail."""

    @pytest.fixture
    def imports(self, tmp_path: Path) -> list[Import]:
        files = {
            "utils/ring.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rfsize.utils.back import B",
            "utils/back.py": "def b():\n    from rfsize.utils import ring",
            "theory/__init__.py": "def agreement(): ...",
            "theory/binary.py": "from ..utils.ring import _private",
            "voting/votes.py": "import numpy\nfrom rfsize import theory",
            "integrations/xgboost/forest.py": "import rfsize.integrations.lightgbm.forest",
            "integrations/lightgbm/forest.py": "import rfsize.sizing.report",
            "integrations/lightgbm/callback.py": "import rfsize.sizing.report",
            "sizing/report.py": "",
        }
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return imports_in(modules_in({"rfsize": tmp_path}))

    def test_a_circle_is_named(self, imports: list[Import]) -> None:
        assert circle(imports) in {
            "rfsize.utils.ring imports rfsize.utils.back imports rfsize.utils.ring",
            "rfsize.utils.back imports rfsize.utils.ring imports rfsize.utils.back",
        }

    def test_a_wrong_arrow_is_named(self, imports: list[Import], tmp_path: Path) -> None:
        lightgbm, xgboost = (tmp_path / "integrations" / name / "forest.py" for name in ("lightgbm", "xgboost"))
        assert against_the_order(imports) == [
            f"{lightgbm}:1: rfsize.integrations.lightgbm.forest imports report of rfsize.sizing.report",
            f"{xgboost}:1: rfsize.integrations.xgboost.forest imports forest of rfsize.integrations.lightgbm.forest",
            f"{tmp_path / 'voting/votes.py'}:2: rfsize.counting.votes imports theory of rfsize.theory",
        ]

    def test_a_private_name_is_named(self, imports: list[Import], tmp_path: Path) -> None:
        place = tmp_path / "theory/binary.py"
        assert private_names(imports) == [f"{place}:1: rfsize.theory.binary imports _private of rfsize.utils.ring"]
