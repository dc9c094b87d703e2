"""The commands of the command line, each a function of its options, and their parts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import how_many, printable
from rfsize.api.report import Report
from rfsize.api.shrink import shrink
from rfsize.api.size import size, truncate, with_target
from rfsize.cli.files import (
    LoadedModel,
    Table,
    as_trained,
    categories_of,
    files_of,
    load_model,
    load_model_if_any,
    prediction_writer,
    save_model,
    with_categories,
)
from rfsize.counting.api import tree_outputs
from rfsize.counting.groups import WORDS
from rfsize.inference.api import compile as compile_model
from rfsize.inference.api import load
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.mean import CompiledMean
from rfsize.inference.rows import columns_of
from rfsize.models.columns import Columns
from rfsize.models.framework import framework_named, read_to_cut
from rfsize.statistics.criterion import PREDICTIONS, make_criterion
from rfsize.stopping.table import StopTable
from rfsize.training.grow import grow

# Objectives for classes begin with one of these.
_OF_CLASSES = ("binary", "multi", "softmax", "ova", "ovr")

_GOAL = ("metric", "alpha", "tolerance", "voting", "average")
_SIZE = (*_GOAL, "method", "target", "confidence")


# Commands


def size_command(options: argparse.Namespace) -> Report:
    """Print how many trees are enough."""
    report = _sized(options, load_model(options.model))
    if options.html is not None:
        report.to_html(options.html)
    print(json.dumps(report.to_dict(), indent=2) if options.json else report)
    return report


def truncate_command(options: argparse.Namespace) -> Report:
    """Cut a forest down to its first trees, as many as are enough."""
    loaded = _model_to_cut(options)
    report = _sized(options, loaded)
    _write_model(truncate(loaded.model, n_trees=report.n_kept), loaded, report, options)
    return report


def shrink_command(options: argparse.Namespace) -> Report:
    """Make a forest smaller than truncate does: choose trees, refit leaves, certify the result on DATA."""
    loaded = _model_to_cut(options)
    X, y, _ = _rows(options, loaded.columns)
    rows = None
    if options.rows is not None:  # which need no labels, and none of the columns to drop
        rows = Table(options.rows).read(categories_of(loaded.columns))
        rows = as_trained(rows.drop(columns=[*options.drop, options.labels or ""], errors="ignore"), loaded.columns)
    goal = _given(options, "metric", "alpha", "tolerance", "average", "confidence", "n_trees")
    small, report = shrink(loaded.with_class_names(), X, y, rows=rows, **goal)
    _write_model(small, loaded, report, options)
    return report


def grow_command(options: argparse.Namespace) -> Report:
    """Train a forest until it has enough trees."""
    params = _load_params(options.params)
    files = files_of(framework_named(options.framework))
    files.check_path(options.output)
    X, y, groups = _rows(options)
    X, classes, objective = with_categories(X), None, params.get("objective")
    if objective is None or objective.startswith(_OF_CLASSES):
        classes, y = _classes_and_codes(y, objective)
    n_classes = None if classes is None else len(classes)
    is_binary = n_classes == 2 if objective is None else objective.startswith("binary")
    params, data = files.forest_data(X, y, params, n_classes=n_classes, is_binary=is_binary)
    texts = [str(name) for name in X.select_dtypes(include="category").columns]
    if texts and not options.json:  # because one mistyped number turns its column into text
        print(f"columns read as categories: {', '.join(map(printable, texts))}")
    booster, report = grow(
        params | _given(options, "seed"),
        data,
        groups=groups,
        **_given(options, *_GOAL, "confidence", "threshold", "max_trees", "min_trees"),
    )
    save_model(booster, files, options.output, classes)
    if options.json:
        print(json.dumps({**report.to_dict(), "classes": classes}, indent=2))
        return report
    if classes is not None and classes != list(range(len(classes))):
        print("classes: " + ", ".join(f"{code} = {printable(label)}" for code, label in enumerate(classes)))
    print(report)
    print(_wrote(options.output))
    return report


def compile_command(options: argparse.Namespace) -> None:
    """Compile a forest, so that it predicts many times faster."""
    table = None if options.table is None else StopTable.load(options.table)
    model = load_model(options.model).with_class_names()
    fast = compile_model(model, table, **_given(options, "voting", "threshold", "missing"))
    fast.save(options.output)
    print(fast)
    print(_wrote(options.output))


def predict_command(options: argparse.Namespace) -> None:
    """Predict the rows of a table, piece by piece."""
    table, fast = Table(options.data), _compiled_forest(options)
    first = fast.forests[0] if isinstance(fast, CompiledMean) else fast
    n_rows, n_trees_used = 0, 0
    with prediction_writer(options.output) as write:
        for X in table.pieces(columns_of(first.forest)):
            predict: Any = fast.predict_labels if fast.classes.size else fast.predict
            if isinstance(fast, CompiledMean):  # whose forests use all trees
                predicted, used = predict(X), np.full(len(X), fast.n_trees)
            else:
                predicted, used = predict(X, return_trees=True)
            shares = zip(fast.classes, fast.predict_proba(X).T, strict=True) if options.proba else ()
            name = "label" if fast.classes.size else "prediction"
            write({name: predicted, "trees": used, **{f"p_{label}": share for label, share in shares}})
            n_rows, n_trees_used = n_rows + len(predicted), n_trees_used + int(used.sum())
    per_row = n_trees_used / max(n_rows, 1)
    print(f"wrote {options.output}: {how_many(n_rows, 'row')}, {per_row:.1f} of {fast.n_trees:,} trees used per row")


# Their parts


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that the user gave, as arguments by the same names. The called function has defaults."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _rows(options: argparse.Namespace, columns: Columns | None = None) -> tuple[Any, Any, Any]:
    """Features of DATA, labels, and groups of rows; for a model, the features have its ``columns``."""
    table, groups = Table(options.data), getattr(options, "groups", None)
    X = table.read([options.labels, groups, *categories_of(columns)])
    y = None if options.labels is None else table.pop(X, options.labels)
    for name in options.drop:
        table.pop(X, name, " to drop")
    if groups is not None and (groups not in WORDS or groups in X.columns):
        groups = table.pop(X, groups, f" of groups, and the words are {' and '.join(WORDS)}").to_numpy()
    return X if columns is None else as_trained(X, columns), y, groups


def _sized(options: argparse.Namespace, loaded: LoadedModel) -> Report:
    """The report on a model; what does not fit is refused before any tree votes."""
    goal = _given(options, *_SIZE)
    model = read_to_cut(loaded.with_class_names(), **_given(options, "missing"))
    target = with_target(model, options.target, oob=options.oob)[1]
    make_criterion(goal.get("metric", "auto"), goal.get("tolerance"), alpha=goal.get("alpha"), target=target)
    if options.labels is None and options.metric not in (None, "auto", "labels", *PREDICTIONS):
        raise ValueError(f"--metric {options.metric} compares predictions with labels: name their column by --labels")
    X, y, groups = _rows(options, loaded.columns)
    of_rows = _given(options, "oob", "threshold", "seed", "subsample")
    return size(tree_outputs(model, X, y, groups=groups, **of_rows), **goal)


def _model_to_cut(options: argparse.Namespace) -> LoadedModel:
    loaded = load_model(options.model)
    loaded.files.check_path(options.output)
    return loaded


def _write_model(small: Any, loaded: LoadedModel, report: Report, options: argparse.Namespace) -> None:
    names = None if loaded.class_names is None else loaded.class_names.tolist()
    save_model(small, loaded.files, options.output, names)
    print(report)
    print(_wrote(options.output))


def _load_params(text: str) -> dict[str, Any]:
    """Training parameters from JSON, or from a JSON file; ``ValueError`` if the text is not a JSON object."""
    content = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    try:
        params = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the parameters are not JSON: {error}") from error
    if not isinstance(params, dict):
        raise ValueError(f'the parameters must be a JSON object such as {{"max_depth": 8}}, found {text[:80]!r}')
    return params


def _classes_and_codes(y: Any, objective: str | None) -> tuple[list[Any], NDArray[np.int64]]:
    """The labels in ascending order, and the place of each row's label among them."""
    labels = np.asarray(y)
    if any(label is None or label != label for label in labels.tolist()):
        raise ValueError("rows without a label teach nothing: leave them out of the table")
    classes, codes = np.unique(labels.astype(np.str_) if labels.dtype.kind == "O" else labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"there is nothing to learn from {len(labels)} rows with the labels {classes.tolist()}")
    numbers = classes.dtype.kind == "f" and (classes != np.floor(classes)).any()
    if objective is None and (numbers or 2 * len(classes) > len(labels)):
        raise ValueError(
            f"the labels look like numbers to predict, such as {classes.tolist()[0]!r}: name the objective in "
            '--params, "regression" for LightGBM or "reg:squarederror" for XGBoost'
        )
    return classes.tolist(), codes


def _compiled_forest(options: argparse.Namespace) -> CompiledForest | CompiledMean:
    """The compiled forest in a file, or a model from a file, compiled."""
    loaded, n_jobs = load_model_if_any(options.model), _given(options, "n_jobs")
    fast: Any = load(options.model, **n_jobs) if loaded is None else compile_model(loaded.with_class_names(), **n_jobs)
    if options.proba and not fast.classes.size:
        raise ValueError("the forest predicts numbers, and has no probabilities: leave out --proba")
    return fast


def _wrote(output: Path) -> str:
    """The line that says which file was written, and its size."""
    return f"wrote {output}: {output.stat().st_size:,} bytes"
