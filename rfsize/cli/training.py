"""``rfsize grow``: trains a forest from a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.cli.models import files_of, load_model, save_model
from rfsize.cli.options import SIZED_BY, chosen, given, refuse_to_overwrite, table_of, wrote
from rfsize.cli.tables import Table, by_name, load_table, with_categories
from rfsize.models.columns import Columns
from rfsize.models.framework import ModelFiles, framework_named
from rfsize.sizing.named_metrics import METRICS
from rfsize.sizing.report import Report
from rfsize.training.growing import grow
from rfsize.utils.validation import class_indices
from rfsize.utils.words import how_many, printable

# Names of objectives for classes begin with one of these.
_OF_CLASSES = ("binary", "multi", "softmax", "ova", "ovr")


class _Training(NamedTuple):
    """What a forest is trained on.

    Attributes
    ----------
    files : ModelFiles
        The integration of the framework that trains the forest.
    X, groups
        Features and groups of DATA.
    params : dict
        The given parameters. If they name no objective or number of classes, the labels give them.
    data
        The framework's training data, with labels coded 0, 1, … in ascending order.
    classes : list or None
        The label behind each code; None if the objective takes labels as numbers.
    """

    files: ModelFiles
    X: Any
    groups: Any
    params: dict[str, Any]
    data: Any
    classes: list[Any] | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Training:
        """Read DATA and the parameters, and fill in what the parameters leave out; the bagging fraction is then 0.632.

        Raises
        ------
        ValueError
            If labels are missing, of one class only, or numbers without an objective in the parameters.
        """
        files = files_of(framework_named(options.framework))
        X, y, groups = table_of(options)
        X = with_categories(X)
        wanted, classes = load_params(options.params), None
        objective = files.objective_of(wanted)
        if objective is None or objective.startswith(_OF_CLASSES):
            classes, y = _coded(y, objective)
        n_classes = None if classes is None else len(classes)
        is_binary = n_classes == 2 if objective is None else objective.startswith("binary")
        params, data = files.forest_data(X, y, wanted, n_classes=n_classes, is_binary=is_binary)
        return cls(files, X, groups, params | given(options, "seed"), data, classes)

    def tell(self, options: argparse.Namespace, report: Report) -> None:
        """Print the result."""
        if options.json:
            print(json.dumps({**report.to_dict(), "classes": self.classes}, indent=2))
            return
        if self.classes is not None and self.classes != list(range(len(self.classes))):
            print("classes: " + ", ".join(f"{code} = {printable(label)}" for code, label in enumerate(self.classes)))
        print(report)


def grow_forest(options: argparse.Namespace) -> Report:
    """Train a forest until it has T* trees, or add trees to one."""
    refuse_to_overwrite(options.output, options.data, options.model, options.validation, params_file(options.params))
    training = _Training.of(options)
    training.files.check_path(options.output)
    if not options.json:
        _print_categories(training.X)
    booster, report = grow(
        training.params,
        training.data,
        **_validation_rows(options, training),
        **chosen(options, SIZED_BY),
        **given(options, "threshold", "max_trees", "min_trees"),
        groups=training.groups,
        init_model=None if options.model is None else _grown_before(options.model, training.classes),
    )
    save_model(booster, training.files, options.output, training.classes)
    training.tell(options, report)
    if not options.json:
        print(wrote(options.output))
    return report


def _validation_rows(options: argparse.Namespace, training: _Training) -> dict[str, Any]:
    """The validation rows, with their labels if a metric needs them."""
    if options.validation is None:
        return {}
    table, by_metric = Table.of(options.validation, options.input_format), options.metric in METRICS
    X, y = load_table(table, options.labels, may_lack=not by_metric)
    if by_metric and training.classes is not None:
        y = class_indices(np.asarray(training.classes), y, len(y))
    columns = Columns([str(name) for name in training.X.columns], training.X.shape[1])
    return {"validation": (with_categories(by_name(X, columns)), y if by_metric else None)}


def _grown_before(path: Path, classes: list[Any] | None) -> Any:
    """The forest to add trees to, after a check that it has the same classes."""
    loaded = load_model(path)
    if loaded.class_names is not None and loaded.class_names.tolist() != classes:
        raise ValueError(f"{path} is a forest of the classes {loaded.class_names.tolist()}, but DATA has {classes}")
    return loaded.model


def _print_categories(X: Any) -> None:
    """Print which columns are read as categories, because one mistyped number turns its column into text."""
    texts = [str(name) for name in X.select_dtypes(include="category").columns]
    if texts:
        print(f"columns read as categories: {', '.join(map(printable, texts))}")


def load_params(text: str | None) -> dict[str, Any]:
    """Training parameters from JSON, or from a JSON file; ``ValueError`` if the text is not a JSON object."""
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
    """The file that holds the training parameters; None if the text itself is JSON."""
    return None if text is None or text.lstrip().startswith("{") else Path(text)


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
