"""``rfsize size``, ``report``, ``truncate`` and ``shrink``: how many trees of a forest are enough."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rfsize.cli.models import LoadedModel, load_model, save_model
from rfsize.cli.options import SHRUNK_BY, SIZED_BY, asked, chosen, features_of, refuse_to_overwrite, wrote
from rfsize.cli.tables import Table, load_table, without
from rfsize.counting.api import tree_outputs
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.reporting.result import Result
from rfsize.shrinking.api import shrink
from rfsize.sizing.api import size, truncate
from rfsize.sizing.named_metrics import METRICS
from rfsize.sizing.oob_score import oob_score
from rfsize.sizing.report import Report


def print_size(options: argparse.Namespace) -> Report:
    """Print how many trees are enough."""
    report = size(tree_outputs(**asked(options, load_model(options.model))), **chosen(options, SIZED_BY))
    print(json.dumps(report.to_dict(), indent=2) if options.json else report)
    return report


def write_truncated(options: argparse.Namespace) -> Report:
    """Write the forest of the first T* trees."""
    refuse_to_overwrite(options.output, options.model, options.data)
    loaded = load_model(options.model)
    loaded.integration.check_path(options.output)
    report = size(tree_outputs(**asked(options, loaded)), **chosen(options, SIZED_BY))
    _write(truncate(loaded.model, n_trees=report.n_kept), loaded, report, options)
    return report


def write_shrunk(options: argparse.Namespace) -> Report:
    """Write a forest of chosen and refitted trees."""
    refuse_to_overwrite(options.output, options.model, options.data, options.rows)
    loaded = load_model(options.model)
    loaded.integration.check_path(options.output)
    table = Table.of(options.data, options.input_format)
    X, y = load_table(table, options.labels)
    X = loaded.integration.features_of(loaded.model, without(X, options.drop, table))
    rows = None if options.rows is None else features_of(options.rows, options, loaded)
    small, report = shrink(loaded.with_class_names(), X, y, rows=rows, **chosen(options, SHRUNK_BY))
    _write(small, loaded, report, options)
    return report


def _write(small: Any, loaded: LoadedModel, report: Report, options: argparse.Namespace) -> None:
    """Write the smaller model, and print its report."""
    names = None if loaded.class_names is None else loaded.class_names.tolist()
    save_model(small, loaded.integration, options.output, names)
    print(report)
    print(wrote(options.output, options.model))


def write_page(options: argparse.Namespace) -> Report:
    """Write an HTML page about a forest."""
    refuse_to_overwrite(options.output, options.model, options.data)
    if options.score is not None and not (options.oob and options.labels):
        raise ValueError("--score is the out-of-bag score, which takes --oob and --labels: give both")
    loaded = load_model(options.model)
    outputs = tree_outputs(**asked(options, loaded))
    report = size(outputs, **chosen(options, SIZED_BY))
    report.to_html(options.output, *_score(options, outputs))
    print(report)
    print(wrote(options.output))
    return report


def _score(options: argparse.Namespace, outputs: TreeOutputs) -> list[Result]:
    """The out-of-bag score if labels are known, by the metric that sizes the forest if there is one."""
    if not options.oob or outputs.y is None:
        return []
    by_default = options.metric if options.metric in METRICS else None
    return [oob_score(outputs, metric=options.score or by_default)]
