"""Rooms import only rooms before them, modules go in no circle, and what imports bring in."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import pytest

import rfsize

ROOT = Path(__file__).parents[2]
# In the order of imports: a room imports those before it. Integrations import these of them, and no other integration.
ROOMS = "_core exceptions _util _files theory models walking counting statistics showing stopping inference "
ROOMS += "baselines api training sklearn dask spark testing __init__ cli __main__"
OF_INTEGRATIONS = {"_core", "exceptions", "_util", "_files", "models", "walking", "counting"}
BEYOND = {  # what one module may import as well
    ("integrations.lightgbm.callback", "api"),
    ("integrations.lightgbm.callback", "showing"),
    ("integrations.lightgbm.callback", "statistics"),
    ("integrations.lightgbm.callback", "training"),
    ("integrations.sklearn.training", "theory"),
    ("models.training", "counting"),
    ("__init__", "integrations"),
    ("cli.demo", "lightgbm"),
    ("cli.demo", "xgboost"),
}
FRAMEWORKS = {"lightgbm", "xgboost"}


class Import(NamedTuple):
    """One name that a module takes from another; modules of rfsize are named without it."""

    importer: str
    imported: str
    name: str
    is_ours: bool
    is_for_types: bool


def imports_of(module: str, source: str, is_package: bool = False) -> Iterator[Import]:
    """At the top, inside functions and for types alike."""
    package = f"rfsize.{module}" if is_package else f"rfsize.{module}".rpartition(".")[0]
    tree = ast.parse(source)
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {node for block in blocks for node in block.body}
    for node in ast.walk(tree):
        pairs = []
        if isinstance(node, ast.Import):
            pairs = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = resolve_name("." * node.level + (node.module or ""), package)
            pairs = [(imported, alias.name) for alias in node.names]
        for imported, name in pairs:
            if imported == "rfsize":  # from rfsize import theory
                imported, name = f"rfsize.{name or '__init__'}", ""
            yield Import(
                module, imported.removeprefix("rfsize."), name, imported.startswith("rfsize."), node in for_types
            )


def in_the_package() -> dict[str, list[Import]]:
    by_module = {}
    for package, folder in (("", ROOT / "rfsize"), ("integrations.", ROOT / "integrations")):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if package or parts[0] != "integrations":
                module = (package + ".".join(parts)).removesuffix(".__init__")
                by_module[module] = list(imports_of(module, path.read_text("utf-8"), path.name == "__init__.py"))
    return by_module


def is_allowed(statement: Import) -> bool:
    """No later room, no private name of another module, and no framework outside of the integrations."""
    room, other = statement.importer.split(".")[0], statement.imported.split(".")[0]
    if (statement.importer, other) in BEYOND:
        return True
    if not statement.is_ours:
        return room == "integrations" or other not in FRAMEWORKS
    if statement.name.startswith("_") and not statement.name.startswith("__") and other != "_core":
        return False
    if room == "showing" and other in ("api", "training"):  # texts and pictures name the types of what they show
        return statement.is_for_types
    if room == "integrations":
        return other in OF_INTEGRATIONS or statement.imported.split(".")[:2] == statement.importer.split(".")[:2]
    return other in ROOMS.split()[: ROOMS.split().index(room) + 1]


def circle(imports: list[Import]) -> list[str]:
    graph: dict[str, set[str]] = {}
    modules = {statement.importer for statement in imports}
    for statement in imports:
        inner = f"{statement.imported}.{statement.name}"
        target = inner if inner in modules else statement.imported
        counts = statement.is_ours and not statement.is_for_types
        graph.setdefault(statement.importer, set()).update({target} - {statement.importer} if counts else ())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_rooms_import_only_rooms_before_them() -> None:
    modules = in_the_package()
    imports = [statement for statements in modules.values() for statement in statements]
    assert {module.split(".")[0] for module in modules} <= {*ROOMS.split(), "integrations"}
    refused = [statement for statement in imports if not is_allowed(statement)]
    assert [f"{of.importer} imports {of.name} of {of.imported}" for of in refused] == []
    assert circle(imports) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("_util", "def later():\n    from rfsize.api import report"),
        ("theory.binary", "from .._util import _private"),
        ("integrations.xgboost.model", "import rfsize.integrations.lightgbm.model"),
        ("integrations.lightgbm.model", "import rfsize.api.report"),
        ("api.report", "import lightgbm"),
    ],
)
def test_the_rule_finds_faults(module: str, source: str) -> None:
    assert [is_allowed(statement) for statement in imports_of(module, source)] == [False]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_brings_in_no_framework() -> None:
    heavy = "{'lightgbm', 'xgboost', 'sklearn', 'pandas', 'matplotlib', 'pyarrow', 'jinja2'}"
    assert run(f"import sys, rfsize; print(sorted({heavy} & set(sys.modules)))") == "[]"
    code = """
import sys, numpy as np, lightgbm as lgb, rfsize
X = np.random.default_rng(0).normal(size=(200, 3))
settings = dict(objective="binary", boosting="rf", bagging_fraction=0.6, bagging_freq=1, verbose=-1)
rfsize.size(lgb.train(settings, lgb.Dataset(X, X[:, 0] > 0), 30), X, oob=True)
print("xgboost" in sys.modules)
"""
    assert run(code) == "False"


def test_exports_exist() -> None:
    assert all(getattr(rfsize, name) is not None for name in rfsize.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = rfsize.nonsense


def test_uncompiled_sources_say_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "rfsize", tmp_path / "rfsize", ignore=shutil.ignore_patterns("*.so", "*.pyd", "integrations")
    )
    # Without site, no editable install answers for these sources.
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rfsize"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert f'pip install -e "{tmp_path}' in done.stderr.splitlines()[-1]
