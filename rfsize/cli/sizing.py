"""``rfsize size``, ``truncate`` and ``shrink``: how many trees of a forest are enough."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rfsize.api.shrink import shrink
from rfsize.cli.models import LoadedModel, load_model, save_model
from rfsize.cli.options import SHRUNK_BY, SIZED_BY, asked, chosen, features_of, refuse_to_overwrite, wrote
from rfsize.cli.tables import Table, as_trained, load_table, without
from rfsize.counting.api import tree_outputs
from rfsize.sizing.api import size, truncate
from rfsize.sizing.report import Report


def print_size(options: argparse.Namespace) -> Report:
    """Print how many trees are enough."""
    refuse_to_overwrite(options.html, options.model, options.data)
    report = size(tree_outputs(**asked(options, load_model(options.model))), **chosen(options, SIZED_BY))
    if options.html is not None:
        report.to_html(options.html)
    print(json.dumps(report.to_dict(), indent=2) if options.json else report)
    return report


def write_truncated(options: argparse.Namespace) -> Report:
    """Write the forest of the first T* trees."""
    refuse_to_overwrite(options.output, options.model, options.data)
    loaded = load_model(options.model)
    loaded.files.check_path(options.output)
    report = size(tree_outputs(**asked(options, loaded)), **chosen(options, SIZED_BY))
    _write(truncate(loaded.model, n_trees=report.n_kept), loaded, report, options)
    return report


def write_shrunk(options: argparse.Namespace) -> Report:
    """Write a forest of chosen and refitted trees."""
    refuse_to_overwrite(options.output, options.model, options.data, options.rows)
    loaded = load_model(options.model)
    loaded.files.check_path(options.output)
    table = Table.of(options.data, options.input_format)
    X, y = load_table(table, options.labels)
    X = as_trained(without(X, options.drop, table), loaded.columns)
    rows = None if options.rows is None else features_of(options.rows, options, loaded)
    small, report = shrink(loaded.with_class_names(), X, y, rows=rows, **chosen(options, SHRUNK_BY))
    _write(small, loaded, report, options)
    return report


def _write(small: Any, loaded: LoadedModel, report: Report, options: argparse.Namespace) -> None:
    """Write the smaller model, and print its report."""
    names = None if loaded.class_names is None else loaded.class_names.tolist()
    save_model(small, loaded.files, options.output, names)
    print(report)
    print(wrote(options.output, options.model))
