"""``rfsize report``: a page that can be sent."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rfsize.cli.models import LoadedModel, load_model
from rfsize.cli.options import (
    DONE,
    NOT_CONVERGED,
    add_criterion,
    add_inputs,
    criterion_of,
    refuse_to_overwrite,
    table_of,
)
from rfsize.cli.tables import Table, load_features, load_table, without
from rfsize.cli.warned import not_said_twice
from rfsize.counting.api import tree_outputs
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.reporting.result import Result
from rfsize.sizing.api import size
from rfsize.sizing.named_metrics import METRICS
from rfsize.sizing.oob_score import oob_score
from rfsize.stopping.table import StopTable

# What a stop table keeps as well as a size does; of others it keeps the labels, which depend on more options.
_OF_TABLES = {"probability": "probabilities", "score": "scores"}
_OF_LABELS = ("alpha", "voting", "average", "threshold")


def add_report(commands: Any) -> None:
    """``rfsize report``."""
    parser = commands.add_parser("report", help="write a page of HTML that tells how many trees are enough, and why")
    add_inputs(parser)
    add_criterion(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="metric of the out-of-bag score, with --oob and --target (default: the criterion, or accuracy, or r2)",
    )
    parser.add_argument(
        "--unseen", type=Path, metavar="FILE", help="rows that it was not trained on, which certify a stop table"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write the page to")
    parser.set_defaults(run=report)


def report(options: argparse.Namespace) -> int:
    """Write a page about a forest."""
    refuse_to_overwrite(options.output, options.model, options.data, options.unseen)
    if options.metric is not None and not (options.oob and options.target):
        raise ValueError("--metric is of the out-of-bag score, which takes --oob and --target: give both")
    loaded = load_model(options.model)
    with not_said_twice() as said_by:
        outputs = _outputs(options, loaded)
        found = size(outputs, **criterion_of(options))
        found.to_html(options.output, *_score(options, outputs), *_table(options, loaded, outputs))
        print(found)
        said_by(found)
    print(f"wrote {options.output}: {options.output.stat().st_size:,} bytes")
    return DONE if found.converged else NOT_CONVERGED


def _outputs(options: argparse.Namespace, loaded: LoadedModel) -> TreeOutputs:
    X, y, groups = table_of(options)
    return tree_outputs(
        loaded.with_class_names(),
        loaded.integration.features_of(loaded.model, X),
        y,
        oob=options.oob,
        groups=groups,
        seed=options.seed,
        subsample=options.subsample,
        missing=options.missing,
        **_threshold(options),
    )


def _threshold(options: argparse.Namespace) -> dict[str, Any]:
    return {} if options.threshold is None else {"threshold": options.threshold}


def _score(options: argparse.Namespace, outputs: TreeOutputs) -> list[Result]:
    """The out-of-bag score, where labels are known: of the metric that the forest is sized by, if that is one."""
    if not options.oob or outputs.y is None:
        return []
    by_default = options.criterion if options.criterion in METRICS else None
    return [oob_score(outputs, metric=options.metric or by_default)]


def _table(options: argparse.Namespace, loaded: LoadedModel, outputs: TreeOutputs) -> list[Result]:
    """A stop table certified on rows that the forest was not trained on, where there are enough of them."""
    if options.unseen is not None:
        table = Table.of(options.unseen, options.input_format)
        X = load_table(table, None)[0] if options.target is None else load_features(table, options.target)
        X = without(X, [name for name in options.drop if name in getattr(X, "columns", ())], table)
        return [_certified(options, loaded, loaded.integration.features_of(loaded.model, X))]
    if options.oob:
        return []
    try:
        return [_certified(options, loaded, outputs.asked_again.X)]
    except ValueError as error:  # nobody asked for it
        print(f"no stop table: {error}")
        return []


def _certified(options: argparse.Namespace, loaded: LoadedModel, X: Any) -> StopTable:
    wanted: dict[str, Any] = {name: getattr(options, name) for name in _OF_LABELS}
    if options.criterion in _OF_TABLES:
        wanted = {"metric": _OF_TABLES[options.criterion], "tolerance": options.tolerance}
    given = {name: value for name, value in wanted.items() if value is not None}
    return StopTable.calibrate(loaded.with_class_names(), X, missing=options.missing, **given)
