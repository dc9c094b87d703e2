"""The command line: ``rfsize demo``, ``size``, ``report``, ``truncate``, ``grow``, ``fraction``, ``table``, ``compile``
and ``predict``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rfsize.adapters.registry import integration_named, integration_of
from rfsize.cli.models import LoadedModel, load_model, load_params, params_file, save_model, training_data
from rfsize.cli.options import (
    DONE,
    NOT_CONVERGED,
    add_criterion,
    add_data,
    add_drop,
    add_inputs,
    criterion_of,
    refuse_to_overwrite,
    table_of,
)
from rfsize.cli.reporting import add_report
from rfsize.cli.serving import add_compile, add_predict, add_table, predict
from rfsize.cli.tables import STANDARD, Table, like_table, load_features, load_table
from rfsize.cli.warned import in_one_line, not_said_twice
from rfsize.sizing.api import size, truncate
from rfsize.sizing.base import Report
from rfsize.sizing.named_metrics import METRICS
from rfsize.training.bagging_fraction import select_bagging_fraction
from rfsize.training.growing import grow
from rfsize.utils.validation import class_indices
from rfsize.utils.words import printable

BAD_INPUT = 2

# Arguments that are tables of rows to read.
_TABLES = {"data", "validation", "unseen"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        Exit status: 0 done, 1 the forest has fewer than T*(α) trees, 2 bad input (one line says what).
    """
    options = _parser().parse_args(arguments)
    try:
        _check_standard(options)
        with in_one_line():
            status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has read enough; what is left must not complain when Python flushes it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (ValueError, OSError, ImportError, MemoryError) as error:
        return _refuse(error)
    except Exception as error:
        # A framework's own complaints about a model, and those of the readers of tables.
        readers = {"pandas", "pyarrow"}
        if type(error).__module__.partition(".")[0] not in readers and integration_of(error) is None:
            raise
        return _refuse(error)
    return status


def _check_standard(options: argparse.Namespace) -> None:
    """``ValueError`` where ``-`` stands for what is no table of rows, or two tables come from standard input."""
    given = [name for name, value in vars(options).items() if value == STANDARD or (name == "params" and value == "-")]
    files = set(given) - _TABLES - ({"output"} if options.run is predict else set())
    if files:
        raise ValueError(
            f"found - for the {min(files)}, but only tables of rows are read from standard input, and only predictions "
            "written to standard output: name a file"
        )
    if len(_TABLES & set(given)) > 1:
        raise ValueError("standard input can be read only once: name a file for one of the two tables")


def _refuse(error: Exception) -> int:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    print(f"rfsize: {printable(reason)}", file=sys.stderr)
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rfsize", description="How many trees a LightGBM or XGBoost random forest needs."
    )
    parser.add_argument("--version", action="version", version=f"rfsize {version('rfsize')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="size, truncate and compile a forest of each framework on real data")
    demo.set_defaults(run=_demo)

    sizing = commands.add_parser("size", help="print how many trees are enough")
    add_inputs(sizing)
    add_criterion(sizing)
    sizing.add_argument("--json", action="store_true", help="print the report as JSON")
    sizing.set_defaults(run=_size)

    add_report(commands)

    cutting = commands.add_parser("truncate", help="write the forest of the first T* trees")
    add_inputs(cutting)
    add_criterion(cutting)
    cutting.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="file to write the small model to"
    )
    cutting.set_defaults(run=_truncate)

    growing = commands.add_parser("grow", help="train a forest until it has T* trees, or add trees to one")
    _add_training(growing)
    growing.add_argument("--model", type=Path, metavar="MODEL", help="finished forest of DATA to add trees to")
    growing.add_argument(
        "--validation", type=Path, metavar="FILE", help="rows to count votes on, not those of training, or -"
    )
    growing.add_argument("--threshold", type=float, help="probability that decides a vote (default 0.5)")
    growing.add_argument(
        "--sure",
        type=float,
        default=0.8,
        metavar="P",
        help="how sure it must be that T* is reached (default 0.8)",
    )
    growing.add_argument("--min-trees", type=int, default=100, metavar="N", help="trees to look at first (default 100)")
    growing.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="file to write the forest to")
    growing.add_argument("--json", action="store_true", help="print the report as JSON")
    growing.set_defaults(run=_grow)

    choosing = commands.add_parser("fraction", help="find the bagging fraction of least out-of-bag error")
    _add_training(choosing)
    choosing.add_argument("--fractions", type=float, nargs="+", metavar="R", help="fractions to compare (default: 12)")
    choosing.add_argument("--n-trees", type=int, default=200, metavar="N", help="trees of each forest (default 200)")
    choosing.add_argument("--search", choices=("full", "elimination"), default="full")
    choosing.add_argument("--rule", choices=("best", "one-se"), default="best")
    choosing.add_argument("--scoring", metavar="NAME", help="scikit-learn scorer to go by (default: the error)")
    choosing.add_argument("--resume", type=Path, metavar="FILE", help="file to keep what is done in, and to go on from")
    choosing.add_argument("-o", "--output", type=Path, metavar="OUT", help="file to write the chosen forest to")
    choosing.add_argument("--json", action="store_true", help="print the search as JSON")
    choosing.set_defaults(run=_fraction)

    add_table(commands)
    add_compile(commands)
    add_predict(commands)
    return parser


def _add_training(parser: argparse.ArgumentParser) -> None:
    add_data(parser, "training rows")
    parser.add_argument("--target", metavar="COLUMN", required=True, help="column of DATA that holds the labels")
    add_drop(parser)
    parser.add_argument("--framework", required=True, metavar="NAME", help="lightgbm or xgboost")
    parser.add_argument("--params", metavar="JSON", help="training parameters, or a file of them")
    parser.add_argument("--alpha", type=float, help="share of rows to agree on (default 0.99)")
    add_criterion(parser)
    parser.add_argument("--max-trees", type=int, default=5000, metavar="N", help="trees to stop at (default 5000)")
    parser.add_argument("--seed", type=int, help="seed of the forests")


def _demo(_: argparse.Namespace) -> int:
    from rfsize.cli.demo import run

    run()
    return DONE


def _size(options: argparse.Namespace) -> int:
    with not_said_twice() as said_by:
        report = _report(options, load_model(options.model))
        print(json.dumps(report.to_dict(), indent=2) if options.json else report)
        said_by(report)
    return DONE if report.converged else NOT_CONVERGED


def _truncate(options: argparse.Namespace) -> int:
    refuse_to_overwrite(options.output, options.model, options.data)
    loaded = load_model(options.model)
    loaded.integration.check_path(options.output)
    names = None if loaded.class_names is None else loaded.class_names.tolist()
    with not_said_twice() as said_by:
        report = _report(options, loaded)
        save_model(truncate(loaded.model, n_trees=report.n_kept), loaded.integration, options.output, names)
        print(report)
        said_by(report)
    before, after = options.model.stat().st_size, options.output.stat().st_size
    print(f"wrote {options.output}: {before:,} bytes before, {after:,} after")
    return DONE if report.converged else NOT_CONVERGED


def _grow(options: argparse.Namespace) -> int:
    refuse_to_overwrite(options.output, options.data, options.model, options.validation, params_file(options.params))
    integration = integration_named(options.framework)
    integration.check_path(options.output)
    X, y, groups = table_of(options)
    X_val, y_val = _validation_rows(options, X)
    if not options.json:
        _print_categories(X)
    params, dtrain, classes = training_data(integration, X, y, load_params(options.params), bagged=True)
    params |= {} if options.seed is None else {"seed": options.seed}
    with not_said_twice() as said_by:
        booster, report = grow(
            params,
            dtrain,
            X_val=X_val,
            y_val=y_val if y_val is None or classes is None else class_indices(np.asarray(classes), y_val, len(y_val)),
            **criterion_of(options),
            threshold=options.threshold,
            max_trees=options.max_trees,
            min_trees=options.min_trees,
            sure=options.sure,
            groups=groups,
            init_model=None if options.model is None else _grown_before(options.model, classes),
            return_report=True,
        )
        said_by(report)
    save_model(booster, integration, options.output, classes)
    if options.json:
        print(json.dumps({**report.to_dict(), "classes": classes}, indent=2))
    else:
        _print_classes(classes)
        print(report)
        print(f"wrote {options.output}: {options.output.stat().st_size:,} bytes")
    return DONE if report.converged else NOT_CONVERGED


def _validation_rows(options: argparse.Namespace, X: Any) -> tuple[Any, Any]:
    """Rows to judge by in place of those of training, and their labels where a metric asks for them."""
    if options.validation is None:
        return None, None
    table, y_val = Table.of(options.validation, options.input_format), None
    if options.criterion in METRICS:
        X_val, y_val = load_table(table, options.target)
    else:
        X_val = load_features(table, options.target)
    return like_table(X_val, X), y_val


def _grown_before(path: Path, classes: list[Any] | None) -> Any:
    """A forest to add trees to, of the same classes."""
    loaded = load_model(path)
    if loaded.class_names is not None and loaded.class_names.tolist() != classes:
        raise ValueError(f"{path} is a forest of the classes {loaded.class_names.tolist()}, but DATA has {classes}")
    return loaded.model


def _fraction(options: argparse.Namespace) -> int:
    integration = integration_named(options.framework)
    if options.output is not None:
        refuse_to_overwrite(options.output, options.data, options.resume, params_file(options.params))
        integration.check_path(options.output)
    X, y, groups = table_of(options)
    params, dtrain, classes = training_data(integration, X, y, load_params(options.params))
    with not_said_twice() as said_by:
        found = select_bagging_fraction(
            params,
            dtrain,
            options.fractions,
            n_trees=options.n_trees,
            search=options.search,
            rule=options.rule,
            scoring=options.scoring,
            **criterion_of(options),
            groups=groups,
            seed=options.seed,
            resume=options.resume,
            max_trees=options.max_trees,
        )
        if found.report is not None:
            said_by(found.report)
    if options.output is not None:
        save_model(found.booster, integration, options.output, classes)
    if options.json:
        print(json.dumps({**found.to_dict(), "classes": classes}, indent=2))
    else:
        _print_classes(classes)
        print(found)
        if options.output is not None:
            print(f"wrote {options.output}: {options.output.stat().st_size:,} bytes")
    return DONE if found.report is None or found.report.converged else NOT_CONVERGED


def _print_categories(X: Any) -> None:
    """Say which columns are read as categories, since a number that was mistyped once makes text of its column."""
    if hasattr(X, "columns"):
        texts = [str(name) for name in X.select_dtypes(include="category").columns]
        if texts:
            print(f"columns read as categories: {', '.join(map(printable, texts))}")


def _print_classes(classes: list[Any] | None) -> None:
    """Say which label each class of the model stands for, where that is not the label itself."""
    if classes is not None and classes != list(range(len(classes))):
        print("classes: " + ", ".join(f"{code} = {printable(label)}" for code, label in enumerate(classes)))


def _report(options: argparse.Namespace, loaded: LoadedModel) -> Report:
    X, y, groups = table_of(options)
    return size(
        loaded.model,
        loaded.integration.features_of(loaded.model, X),
        loaded.labels(y) if options.oob else None,
        **criterion_of(options),
        oob=options.oob,
        threshold=options.threshold,
        groups=groups,
        seed=options.seed,
        subsample=options.subsample,
        missing=options.missing,
    )
