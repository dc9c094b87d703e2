"""What a type checker tells those who use rfsize."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rfsize

ROOT = Path(__file__).parents[1]

# Beside each `reveal_type`, what it must say, module names left out; arrays are printed otherwise by every NumPy.
DOWNSTREAM = """
from typing import Any

import lightgbm as lgb
import numpy as np
import rfsize
import xgboost as xgb
from numpy.typing import NDArray
from typing_extensions import assert_type

def downstream(
    booster: lgb.Booster, estimator: xgb.XGBRFClassifier, X: NDArray[np.float64], y: NDArray[np.int64], flag: bool
) -> None:
    report = rfsize.size(booster, X)
    reveal_type(report)                                                         # Report
    assert_type(report.loss_at(3, "auc").value, float)

    reveal_type(rfsize.truncate(booster, X))                                    # Booster
    reveal_type(rfsize.truncate(estimator, n_trees=9))                          # XGBRFClassifier

    params = {"objective": "binary", "num_leaves": 31}
    reveal_type(rfsize.grow(params, X))                                         # tuple[Any, Report]

    reveal_type(rfsize.StopTable.build(101))                                    # StopTable
    compiled = rfsize.compile(booster, rfsize.StopTable.build(101))
    reveal_type(compiled)                                                       # CompiledForest
    reveal_type(rfsize.load("forest.npz"))                                      # CompiledForest | CompiledMean
    assert_type(compiled.predict(X), NDArray[Any])
    assert_type(compiled.predict(X, return_trees=True), tuple[NDArray[Any], NDArray[np.int64]])
    assert_type(compiled.predict_labels(X), NDArray[Any])
    assert_type(compiled.predict_labels(X, return_trees=True), tuple[NDArray[Any], NDArray[np.int64]])
    assert_type(compiled.predict_proba(X), NDArray[np.floating[Any]])

    reveal_type(rfsize.tree_outputs(booster, X))                                # TreeOutputs
    reveal_type(rfsize.tree_outputs(booster, X).votes)                          # Votes
    assert_type(rfsize.inbag(booster, X), NDArray[np.bool_])
    reveal_type(rfsize.theory.ratio_with_replacement(0.5))                             # float
    assert_type(rfsize.theory.fraction_without_replacement([1, 2]), NDArray[np.float64])
    reveal_type(rfsize.SizeCallback())                                          # SizeCallback
    reveal_type(rfsize.RightSizedClassifier(estimator))                         # RightSizedClassifier
"""

# Public functions that return Any, and why they may.
MAY_RETURN_ANY = {"grow": "a model of the caller's type, or of a dict of parameters a booster"}


def test_downstream_code_is_told_the_types(tmp_path: Path) -> None:
    revealed = checked(DOWNSTREAM, tmp_path)
    expected = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(DOWNSTREAM.splitlines(), start=1)
        if "reveal_type(" in line
    }
    assert revealed == expected


def checked(snippet: str, folder: Path) -> dict[int, str]:
    """The types that mypy reveals by line of a snippet, which must have no errors."""
    # An editable install maps rfsize.integrations to another folder, which type checkers do not follow.
    shutil.copytree(ROOT / "rfsize", folder / "rfsize")
    shutil.copytree(ROOT / "integrations", folder / "rfsize" / "integrations")
    (folder / "downstream.py").write_text(snippet, encoding="utf-8")
    settings = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, "--cache-dir=cache", "--no-pretty", "downstream.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    types = re.findall(r'^downstream\.py:(\d+): note: Revealed type is "(.*)"$', done.stdout, re.MULTILINE)
    return {int(number): re.sub(r"\b\w+\.", "", revealed) for number, revealed in types}


def test_no_public_function_returns_any() -> None:
    vague = {name for name, function in public_functions() if any(map(says_any, returns(function)))}
    assert vague == set(MAY_RETURN_ANY)


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of ``rfsize.__all__``, and the methods and properties of its classes."""
    for name in rfsize.__all__:
        export = getattr(rfsize, name)
        if inspect.isfunction(export):
            yield name, export
        for method in dir(export) if inspect.isclass(export) else ():
            value = inspect.getattr_static(export, method)
            for wrapped in ("fget", "func", "__func__"):
                value = getattr(value, wrapped, value)
            if not method.startswith("_") and inspect.isfunction(value) and value.__module__.startswith("rfsize"):
                yield f"{name}.{method}", value


def returns(function: Callable[..., Any]) -> list[str]:
    """The annotations of what a function returns: those of its overloads, where it has any, without its own."""
    nodes: list[Any] = [ast.parse(Path(inspect.getfile(function)).read_text(encoding="utf-8"))]
    for name in function.__qualname__.split("."):
        nodes = [child for node in nodes for child in node.body if getattr(child, "name", "") == name]
    assert nodes, function
    return [ast.unparse(node.returns) if node.returns else "Any" for node in nodes[:-1] or nodes]


def says_any(annotation: str) -> bool:
    """Whether an annotation holds Any, other than for the items of an array or a dict."""
    return re.search(r"\bAny\b", re.sub(r"(NDArray|dict)\[[^]]*\]", "", annotation)) is not None
