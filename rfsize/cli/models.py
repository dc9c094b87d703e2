"""Read and write models for the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._files import written_whole
from rfsize.models.columns import Columns
from rfsize.models.framework import Framework, ModelFiles, framework_named, framework_names, read_model
from rfsize.models.model import with_classes

# The longest JSON of class names that is read.
_LONGEST_NAMES = 4_000_000

_SECONDS_TO_LOAD = 600

_LOADABLE: set[int] = set()  # hashes of files that a child process has loaded

# What a child process runs: frameworks may crash on a damaged file, and would take this process with them.
_LOAD = """import pathlib, sys
import numpy as np
from rfsize.models.framework import framework_named, read_model
files = framework_named(sys.argv[1]).files
model = read_model(files.load(pathlib.Path(sys.argv[2])))
if model.ensemble is not None:
    model.apply(np.zeros((1, model.n_features)))
"""


class LoadedModel(NamedTuple):
    """A model from a file.

    Attributes
    ----------
    model
        The model of the framework.
    files : ModelFiles
        Writes models of the framework.
    class_names : ndarray or None
        Label of each class, if `save_model` wrote labels; shape (n_classes,).
    """

    model: Any
    files: ModelFiles
    class_names: NDArray[Any] | None

    @property
    def columns(self) -> Columns:
        """The columns that the model was trained on."""
        return read_model(self.model).columns

    def with_class_names(self) -> Any:
        """The model; if there are class names, as rfsize reads it, with these names."""
        return self.model if self.class_names is None else with_classes(read_model(self.model), self.class_names)


def load_model(path: Path) -> LoadedModel:
    """Read a model with the framework that recognises the first bytes of the file.

    Raises
    ------
    ValueError
        If no framework recognises the file, its framework cannot read it, or the class names in it are damaged.
    """
    loaded = load_model_if_any(path)
    if loaded is None:
        frameworks, broken = _importable_frameworks()
        kinds = [framework.files.kind for _, framework in frameworks if framework.files is not None]
        raise ValueError(f"{path} is neither {' nor '.join(kinds)}{''.join(f'; {error}' for error in broken)}")
    return loaded


def load_model_if_any(path: Path) -> LoadedModel | None:
    """Read a model as `load_model` does, but return None if no framework recognises the file."""
    content = path.read_bytes()
    for name, framework in _importable_frameworks()[0]:
        files = framework.files
        if files is not None and files.recognises(content):
            if hash(content) not in _LOADABLE:
                _load_in_child(name, path, files.kind)
                _LOADABLE.add(hash(content))
            model = files.load(path)
            names = files.class_names(model, path)
            return LoadedModel(model, files, None if names is None else _class_names(model, names, path))
    _refuse_pickle(path, content)
    return None


def _load_in_child(name: str, path: Path, kind: str) -> None:
    """Raise ``ValueError`` if a child process cannot load the file, or dies of it."""
    command = [sys.executable, "-c", _LOAD, name, str(path)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_TO_LOAD, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"{path} takes more than {_SECONDS_TO_LOAD} s to load: save the original model again"
        ) from error
    if child.returncode:
        reason = child.stderr.strip().rpartition("\n")[2] or f"the process that read it ended with {child.returncode}"
        raise ValueError(
            f"{path} cannot be read as {kind} ({reason}): save the original model again, or train it again"
        )


def files_of(framework: Framework) -> ModelFiles:
    """How models of the framework are read and written; ``ValueError`` if rfsize cannot."""
    if framework.files is None:
        raise ValueError(f"the command line cannot read or write models of {framework.name}: use rfsize in Python")
    return framework.files


def _importable_frameworks() -> tuple[list[tuple[str, Framework]], list[ImportError]]:
    """The frameworks that can be imported, and the errors of the others. One framework does not need another."""
    frameworks, broken = [], []
    for name in framework_names():
        try:
            frameworks.append((name, framework_named(name)))
        except ImportError as error:
            broken.append(error)
    return frameworks, broken


def save_model(model: Any, files: ModelFiles, path: Path, classes: list[Any] | None) -> None:
    """Write a model, whole or not at all; with its class labels if these are not 0, 1, …."""
    with written_whole(path) as partial:
        files.save(model, partial)
        if classes is not None and classes != list(range(len(classes))):
            files.keep_class_names(model, partial, json.dumps(classes))


def _class_names(model: Any, text: str, path: Path) -> NDArray[Any]:
    """Read class names from a file that can come from anyone."""
    n_classes = read_model(model).classes.size
    try:
        names: Any = json.loads(text) if len(text) <= _LONGEST_NAMES else None
        is_list = isinstance(names, list) and len({type(name) for name in names}) == 1
        labels = np.array(names if is_list and isinstance(names[0], (str, bool, int, float)) else [])
        json.dumps(names, ensure_ascii=False).encode()  # fails for lone surrogates
    except (ValueError, RecursionError, OverflowError):
        labels = np.array([])
    fits = labels.ndim == 1 and labels.size == n_classes == len(set(labels.tolist())) and labels.dtype.kind in "Ubif"
    if not fits or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise ValueError(
            f"{path} names its classes {text[:80]!r}, which are not the names of {n_classes} classes: train it "
            "again with rfsize grow, or save it again with its framework, which drops the names"
        )
    return labels


def _refuse_pickle(path: Path, content: bytes) -> None:
    """Refuse pickles with a clear message: reading a pickle can run any program."""
    if content.startswith(b"\x80") or path.suffix in {".pkl", ".pickle", ".joblib"}:
        raise ValueError(
            f"{path} is a pickle. rfsize reads no pickles, because reading one can run any program: save the model "
            "with save_model of LightGBM or XGBoost, or with skops.io.dump (pip install rfsize[skops]) of "
            "scikit-learn"
        )
