"""Read and write models for the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.exceptions import NotAForestError
from rfsize.models.columns import Columns
from rfsize.models.framework import Framework, framework_named, framework_names, read_forest
from rfsize.utils.files import written_whole

# The longest JSON of class names that is read.
_LONGEST_NAMES = 4_000_000


class LoadedModel(NamedTuple):
    """A model from a file.

    Attributes
    ----------
    model
        The model of the framework.
    framework : Framework
        The integration of the framework.
    class_names : ndarray or None
        Label of each class, if `save_model` wrote labels; shape (n_classes,).
    """

    model: Any
    framework: Framework
    class_names: NDArray[Any] | None

    @property
    def columns(self) -> Columns:
        """The columns that the model was trained on."""
        return read_forest(self.model, casts_votes=False, may_be_shrunk=True).columns

    def with_class_names(self, *, may_be_shrunk: bool = False) -> Any:
        """The model, or if there are class names, an adapter of the model with these names."""
        if self.class_names is None:
            return self.model
        adapter = read_forest(self.model, may_be_shrunk=may_be_shrunk)
        adapter.classes = self.class_names
        return adapter


def load_model(path: Path) -> LoadedModel:
    """Read a model with the integration that recognises the first bytes of the file.

    Raises
    ------
    ValueError
        If no integration recognises the file, its framework cannot read it, or the class names in it are damaged.
    """
    found = load_model_if_any(path)
    if found is None:
        frameworks, broken = importable_frameworks()
        kinds = [one.file_kind for one in integrations if one.file_kind is not None]
        raise ValueError(f"{path} is neither {' nor '.join(kinds)}{''.join(f'; {error}' for error in broken)}")
    return found


def load_model_if_any(path: Path) -> LoadedModel | None:
    """Read a model as `load_model` does, but return None if no integration recognises the file."""
    content = path.read_bytes()
    for framework in importable_frameworks()[0]:
        if framework.recognises(content):
            try:
                model = framework.load(path)
            except NotAForestError as error:
                raise NotAForestError(f"{path}: {error}") from error
            names = framework.class_names(model, path)
            return LoadedModel(model, framework, None if names is None else _class_names(model, names, path))
    _refuse_pickle(path, content)
    return None


def importable_frameworks() -> tuple[list[Framework], list[ImportError]]:
    """The integrations that can be imported, and the errors of the others. One framework does not need another."""
    found, broken = [], []
    for name in framework_names():
        try:
            found.append(framework_named(name))
        except ImportError as error:
            broken.append(error)
    return found, broken


def save_model(model: Any, framework: Framework, path: Path, classes: list[Any] | None) -> None:
    """Write a model, whole or not at all; with its class labels if these are not 0, 1, …."""
    with written_whole(path) as partial:
        framework.save(model, partial)
        if classes is not None and classes != list(range(len(classes))):
            framework.keep_class_names(model, partial, json.dumps(classes))


def _class_names(model: Any, text: str, path: Path) -> NDArray[Any]:
    """Read class names from a file that can come from anyone."""
    n_classes = read_forest(model, casts_votes=False, may_be_shrunk=True).classes.size
    try:
        names: Any = json.loads(text) if len(text) <= _LONGEST_NAMES else None
        is_list = isinstance(names, list) and len({type(name) for name in names}) == 1
        found = np.array(names if is_list and isinstance(names[0], (str, bool, int, float)) else [])
        json.dumps(names, ensure_ascii=False).encode()  # fails for lone surrogates
    except (ValueError, RecursionError, OverflowError):
        found = np.array([])
    fits = found.ndim == 1 and found.size == n_classes == len(set(found.tolist())) and found.dtype.kind in "Ubif"
    if not fits or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise ValueError(
            f"{path} names its classes {text[:80]!r}, which are not the names of {n_classes} classes: train it "
            "again with rfsize grow, or save it again with its framework, which drops the names"
        )
    return found


def _refuse_pickle(path: Path, content: bytes) -> None:
    """Refuse pickles with a clear message: reading a pickle can run any program."""
    if content.startswith(b"\x80") or path.suffix in {".pkl", ".pickle", ".joblib"}:
        raise ValueError(
            f"{path} is a pickle. rfsize reads no pickles, because reading one can run any program: save the model "
            "with save_model of LightGBM or XGBoost, or with skops.io.dump (pip install rfsize[skops]) of "
            "scikit-learn"
        )
