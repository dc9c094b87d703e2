"""Models and training data from files, for the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.integration import Integration
from rfsize.adapters.registry import integration_named, integration_names

# How the names of objectives begin that take labels as classes.
_OF_CLASSES = ("binary", "multi", "softmax", "ova", "ovr")


def load_model(path: Path) -> tuple[Any, Integration]:
    """A model, and the integration that knows its file by its first bytes.

    Raises
    ------
    ValueError
        If none does, or its framework cannot read the file.
    """
    content = path.read_bytes()
    kinds, broken = [], []
    for name in integration_names():
        try:
            integration = integration_named(name)
        except ImportError as error:
            broken.append(f"; {error}")  # another framework's file may be read all the same
            continue
        if integration.recognises(content):
            return integration.load(path), integration
        if integration.file_kind is not None:
            kinds.append(integration.file_kind)
    raise ValueError(f"{path} is neither {' nor '.join(kinds)}{''.join(broken)}")


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
    content = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    try:
        params = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the parameters are not JSON: {error}") from error
    if not isinstance(params, dict):
        raise ValueError(f'the parameters must be a JSON object such as {{"max_depth": 8}}, found {text[:80]!r}')
    return params


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
        raise ValueError(f"{sum(missing)} rows have no label; leave them out of the table")
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
