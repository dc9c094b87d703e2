"""Models and training data from files, for the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.integration import Integration
from rfsize.adapters.registry import adapter_for, integration_named, integration_names
from rfsize.errors import NotAForestError
from rfsize.utils.files import written_whole
from rfsize.utils.validation import class_indices
from rfsize.utils.words import how_many

# How the names of objectives begin that take labels as classes.
_OF_CLASSES = ("binary", "multi", "softmax", "ova", "ovr")


# Of the JSON of class names; longer ones nobody has.
_LONGEST_NAMES = 4_000_000


class LoadedModel(NamedTuple):
    """A model from a file.

    Attributes
    ----------
    model
        As its framework reads it.
    integration : Integration
        Of its framework.
    class_names : ndarray or None
        Label of each class, where `save_model` was told them; shape (n_classes,).
    """

    model: Any
    integration: Integration
    class_names: NDArray[Any] | None

    def with_class_names(self) -> Any:
        """The model, or an adapter of it that knows its classes by their names."""
        if self.class_names is None:
            return self.model
        adapter = adapter_for(self.model)
        adapter.classes = self.class_names
        return adapter

    def labels(self, y: Any) -> Any:
        """Labels as the model was trained on them: class indices, where classes have names."""
        return y if y is None or self.class_names is None else class_indices(self.class_names, y, len(y))


def load_model(path: Path) -> LoadedModel:
    """A model, read by the integration that knows its file by its first bytes.

    Raises
    ------
    ValueError
        If none does, its framework cannot read the file, or the class names in it are damaged.
    """
    content = path.read_bytes()
    found = _loaded(path, content)
    if found is not None:
        return found
    _refuse_pickle(path, content)
    kinds, broken = [], []
    for name in integration_names():
        try:
            kind = integration_named(name).file_kind
        except ImportError as error:
            broken.append(f"; {error}")
            continue
        if kind is not None:
            kinds.append(kind)
    raise ValueError(f"{path} is neither {' nor '.join(kinds)}{''.join(broken)}")


def load_model_if_any(path: Path) -> LoadedModel | None:
    """The same, but None where no integration knows the file."""
    content = path.read_bytes()
    found = _loaded(path, content)
    if found is None:
        _refuse_pickle(path, content)
    return found


def _loaded(path: Path, content: bytes) -> LoadedModel | None:
    for name in integration_names():
        try:
            integration = integration_named(name)
        except ImportError:
            continue  # another framework's file may be read all the same
        if integration.recognises(content):
            try:
                model = integration.load(path)
            except NotAForestError as error:
                raise NotAForestError(f"{path}: {error}") from error
            names = integration.class_names(model, path)
            return LoadedModel(model, integration, None if names is None else _class_names(model, names, path))
    return None


def save_model(model: Any, integration: Integration, path: Path, classes: list[Any] | None) -> None:
    """Write a model, with the labels of its classes where they are not 0, 1, … themselves; whole, or not at all."""
    with written_whole(path) as partial:
        integration.save(model, partial)
        if classes is not None and classes != list(range(len(classes))):
            integration.keep_class_names(model, partial, json.dumps(classes))


def _class_names(model: Any, text: str, path: Path) -> NDArray[Any]:
    """Class names from a file, which anyone may have written."""
    n_classes = adapter_for(model, casts_votes=False).classes.size
    try:
        names: Any = json.loads(text) if len(text) <= _LONGEST_NAMES else None
        is_list = isinstance(names, list) and len({type(name) for name in names}) == 1
        found = np.array(names if is_list and isinstance(names[0], (str, bool, int, float)) else [])
        json.dumps(names, ensure_ascii=False).encode()  # which lone surrogates refuse
    except (ValueError, RecursionError, OverflowError):
        found = np.array([])
    fits = found.ndim == 1 and found.size == n_classes == len(set(found.tolist())) and found.dtype.kind in "Ubif"
    if not fits or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise ValueError(
            f"{path} names its classes {text[:80]!r}, which are not the names of {n_classes} classes: train it again "
            "with rfsize grow, or save it again with its framework, which forgets them"
        )
    return found


def _refuse_pickle(path: Path, content: bytes) -> None:
    """A clear word for what is never read: a pickle may run any program."""
    if content.startswith(b"\x80") or path.suffix in {".pkl", ".pickle", ".joblib"}:
        raise ValueError(
            f"{path} is a pickle, which may run any program when it is read, so it is not: save the model with "
            "save_model of LightGBM or XGBoost, or with skops.io.dump (pip install rfsize[skops]) of scikit-learn"
        )


def load_params(text: str | None) -> dict[str, Any]:
    """Training parameters from JSON, or from the file that holds it.

    Raises
    ------
    ValueError
        If that is no JSON object.
    OSError
        If there is no such file.
    """
    if text is None:
        return {}
    file = params_file(text)
    content = text if file is None else file.read_text(encoding="utf-8")
    try:
        params = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the parameters are not JSON: {error}") from error
    if not isinstance(params, dict):
        raise ValueError(f'the parameters must be a JSON object such as {{"max_depth": 8}}, found {text[:80]!r}')
    return params


def params_file(text: str | None) -> Path | None:
    """The file that training parameters are read from, None where they are JSON themselves."""
    return None if text is None or text.lstrip().startswith("{") else Path(text)


def training_data(
    integration: Integration, X: Any, y: Any, given: dict[str, Any], *, bagged: bool = False
) -> tuple[dict[str, Any], Any, list[Any] | None]:
    """What a framework trains a forest on, from a table and from parameters that may leave out what it tells.

    Where the forest is to be ``bagged`` and the parameters name no bagging fraction, it is 0.632.

    Returns
    -------
    params : dict
        ``given``, with the objective and the number of classes of the labels where it names none.
    data
        The framework's training data, with labels coded 0, 1, … in ascending order.
    classes : list or None
        The label behind each code; None where the objective takes labels as numbers.

    Raises
    ------
    ValueError
        If labels are missing, of one class only, or numbers for which no objective is named.
    """
    objective = integration.objective_of(given)
    classes = None
    if objective is None or objective.startswith(_OF_CLASSES):
        classes, y = _coded(y, objective)
    params, data = integration.forest_data(
        X,
        y,
        given,
        n_classes=None if classes is None else len(classes),
        is_binary=classes is not None and (len(classes) == 2 if objective is None else objective.startswith("binary")),
        bagged=bagged,
    )
    return params, data, classes


def _coded(y: Any, objective: str | None) -> tuple[list[Any], NDArray[np.int64]]:
    labels = np.asarray(y)
    missing = [label is None or label != label for label in labels.tolist()]
    if any(missing):
        raise ValueError(f"no label on {how_many(sum(missing), 'row')}: leave such rows out of the table")
    if labels.dtype.kind == "O":
        labels = labels.astype(np.str_)
    if not labels.size:
        raise ValueError("the table has no rows")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"all labels are {classes.tolist()[0]!r}: there is nothing to learn")
    numbers = classes.dtype.kind == "f" and (classes != np.floor(classes)).any()
    if objective is None and (numbers or 2 * len(classes) > len(labels)):
        raise ValueError(
            f"the labels have {len(classes)} different values on {len(labels)} rows, such as {classes.tolist()[0]!r}: "
            'if they are numbers to predict, name the objective in the parameters, "regression" for LightGBM or '
            '"reg:squarederror" for XGBoost'
        )
    return classes.tolist(), codes
