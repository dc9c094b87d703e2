"""Frameworks come in by entry points: those that rfsize brings, one that somebody else installs, and broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import rfsize
from helpers.models import NO_TREES, model
from rfsize.testing import check_framework

GROUP = "rfsize.frameworks"
FOREIGN = Path(__file__).parents[1] / "third_party" / "baggedtrees"


KINDS = ["lightgbm", "lightgbm one-vs-all", "lightgbm regression", "LGBMClassifier", "xgboost softprob"]
KINDS += ["xgboost regression", "XGBClassifier", "random forest of names", "extra-trees", "random forest regressor"]


@pytest.mark.parametrize("kind", [*KINDS, "bagging", "bagging of neighbours"])
def test_frameworks_that_rfsize_brings(kind: str) -> None:
    """Learners that are no trees are not compiled."""
    forest = model(kind)
    (entry,) = entry_points(group=GROUP, name=forest.framework)
    small = rfsize.truncate(forest.model, n_trees=9)
    answers = check_framework(entry.load(), small, forest.X, forest.y)
    refused = {"compiled"} if kind in NO_TREES else set()
    assert {part for part, answer in answers.items() if answer != "right"} == refused


def run(*command: str, path: Path, **options: Any) -> str:
    """What another process prints, which finds distributions in ``path`` too."""
    # Appended: this process may itself find rfsize by PYTHONPATH.
    search_path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(path)]))
    environment = os.environ | {"PYTHONPATH": search_path, "PYTEST_ADDOPTS": ""}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_framework_that_somebody_else_installs(tmp_path: Path) -> None:
    """By pip, from its folder, as a copy; its own tests are run where it is installed."""
    source, target = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for file in FOREIGN.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    how = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    run("-m", "pip", "install", *how, str(source), path=target)
    tests = source / "check_rfsize_baggedtrees.py"
    assert "passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), path=target, cwd=source)


BROKEN: dict[str, tuple[str, str]] = {
    "no_such": ("no_such_module:integration", "no_such"),
    "raising": ("raising_module:integration", "boom"),
    "number": ("number_module:integration", "int"),
    "nameless": ("number_module:nothing", "nameless"),
    "uninstalled": ("importing_module:integration", "uninstalled"),
}
ASK = """
import sys
import numpy as np
from sklearn.ensemble import RandomForestClassifier
import rfsize
X = np.random.default_rng(0).normal(size=(200, 3))
def message(model):
    try:
        rfsize.size(model, X, alpha=0.8)
    except Exception as error:
        return type(error).__name__ + ": " + str(error).replace("\\n", " ")
    return "sized"
forest = RandomForestClassifier(20, random_state=0).fit(X, X[:, 0] > 0)
print(message(forest))
for name in sys.argv[1:]:
    print(message(type("Forest", (), {"__module__": name + ".forests"})()))
"""


def put(folder: Path, name: str, line: str) -> None:
    (folder / f"{name}-1.0.dist-info").mkdir()
    (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(f"[{GROUP}]\n{line}\n")


def test_broken_distributions_fail_their_models_alone(tmp_path: Path) -> None:
    for name, (entry, _) in BROKEN.items():
        put(tmp_path, f"{name}lib", f"{name} = {entry}")
    (tmp_path / "raising_module.py").write_text("raise RuntimeError('boom')")
    (tmp_path / "number_module.py").write_text("integration = 3")
    (tmp_path / "importing_module.py").write_text("import uninstalled")
    sized, *messages, unknown = run("-c", ASK, *BROKEN, "catboost", path=tmp_path).splitlines()
    assert sized == "sized"
    for (_, named), message in zip(BROKEN.values(), messages, strict=True):
        assert message.startswith("ImportError: ")
        assert named in message
    assert unknown.startswith("NotAForestError: ")


def test_two_that_teach_the_same_are_both_named(tmp_path: Path) -> None:
    put(tmp_path, "otherlib", "sklearn = other_module:integration")
    message = run("-c", ASK, path=tmp_path).splitlines()[0]
    assert message.startswith("ImportError: ")
    assert "otherlib" in message
