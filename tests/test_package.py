"""What importing rfsize costs and exports."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rfsize

ROOT = Path(__file__).parents[1]
FOLDERS = {"rfsize": ROOT / "rfsize", "rfsize.frameworks": ROOT / "integrations"}


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_brings_in_no_framework() -> None:
    heavy = "{'lightgbm', 'xgboost', 'sklearn', 'pandas', 'matplotlib', 'pyarrow', 'jinja2'}"
    assert run(f"import sys, rfsize; print(sorted({heavy} & set(sys.modules)))") == "[]"


def test_notebooks_without_widgets_are_not_warned() -> None:
    code = """
import sys, types, warnings
sys.modules["ipykernel.zmqshell"], sys.modules["ipywidgets"] = types.ModuleType("zmqshell"), None
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: None)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import rfsize.utils.progress
print("tqdm.notebook" in sys.modules, [str(one.message) for one in caught])
"""
    assert run(code) == "True []"


def test_sizing_one_framework_does_not_import_the_other() -> None:
    code = """
import sys, numpy as np, lightgbm as lgb, rfsize
X = np.random.default_rng(0).normal(size=(200, 3))
settings = dict(objective="binary", boosting="rf", bagging_fraction=0.6, bagging_freq=1, verbose=-1)
rfsize.size(lgb.train(settings, lgb.Dataset(X, X[:, 0] > 0), 9), X, oob=True)
print("xgboost" in sys.modules)
"""
    assert run(code) == "False"


def test_every_export_exists() -> None:
    for name in rfsize.__all__:
        assert getattr(rfsize, name) is not None
    assert callable(rfsize.tree_outputs)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rfsize.nonsense


def test_votes_is_a_function_whatever_is_imported_first() -> None:
    assert run("from rfsize.counting.votes import Votes; import rfsize; print(callable(rfsize.tree_outputs))") == "True"


def test_public_names_are_documented() -> None:
    for name in rfsize.__all__:
        assert getattr(rfsize, name).__doc__


def test_uncompiled_sources_say_what_to_do(tmp_path: Path) -> None:
    compiled = shutil.ignore_patterns("*.so", "*.pyd", "integrations")
    shutil.copytree(ROOT / "rfsize", tmp_path / "rfsize", ignore=compiled)
    # Without site, no editable install answers for these sources.
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rfsize"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ImportError")
    assert f'pip install -e "{tmp_path}' in done.stderr


def test_every_package_has_an_init() -> None:
    folders = {path.parent for folder in FOLDERS.values() for path in folder.rglob("*.py")}
    assert {str(folder) for folder in folders if not (folder / "__init__.py").is_file()} == set()


def test_every_file_says_what_it_is() -> None:
    files = [path for folder in FOLDERS.values() for path in folder.rglob("*.py")]
    assert [str(path) for path in files if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))] == []
