"""The command line: ``rfsize demo``, ``rfsize size`` and ``rfsize truncate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rfsize import __version__
from rfsize.files import check_model_name, features_of, load_model, load_table
from rfsize.report import SizeReport
from rfsize.sizing import size, truncate

DONE, NOT_CONVERGED, BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        Exit status: 0 done, 1 the forest has fewer than T*(α) trees, 2 bad input (one line says what).
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (ValueError, OSError, ImportError, UnicodeDecodeError) as error:
        return _refuse(error)
    except Exception as error:
        # LightGBM's and XGBoost's own complaints about a model or a table.
        if type(error).__module__.partition(".")[0] not in {"lightgbm", "xgboost", "pandas", "pyarrow"}:
            raise
        return _refuse(error)
    return status


def _refuse(error: Exception) -> int:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    print(f"rfsize: {reason}", file=sys.stderr)
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rfsize", description="How many trees a LightGBM or XGBoost random forest needs."
    )
    parser.add_argument("--version", action="version", version=f"rfsize {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="train, size and truncate a forest of each framework on real data")
    demo.set_defaults(run=_demo)

    sizing = commands.add_parser("size", help="print how many trees are enough")
    _add_inputs(sizing)
    sizing.add_argument("--json", action="store_true", help="print the report as JSON")
    sizing.set_defaults(run=_size)

    cutting = commands.add_parser("truncate", help="write the forest of the first T* trees")
    _add_inputs(cutting)
    cutting.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="file to write the small model to"
    )
    cutting.set_defaults(run=_truncate)
    return parser


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="LightGBM text file, or XGBoost JSON or UBJ file")
    parser.add_argument("data", type=Path, metavar="DATA", help="rows to vote on: CSV, Parquet, NPY or NPZ")
    parser.add_argument("--alpha", type=float, default=0.99, help="share of rows to agree on (default 0.99)")
    parser.add_argument("--oob", action="store_true", help="DATA are the training rows, in the order of training")
    parser.add_argument("--target", metavar="COLUMN", help="column of DATA that holds the labels, not a feature")
    parser.add_argument("--threshold", type=float, default=0.5, help="probability that decides a vote (default 0.5)")
    parser.add_argument("--seed", type=int, help="seed of an XGBoost forest, which its file does not keep; for --oob")
    parser.add_argument("--subsample", type=float, help="subsample of an XGBoost forest, likewise")


def _demo(_: argparse.Namespace) -> int:
    from rfsize.demo import run

    run()
    return DONE


def _size(options: argparse.Namespace) -> int:
    report = _report(options, load_model(options.model))
    print(json.dumps(report.to_dict(), indent=2) if options.json else report)
    return DONE if report.converged else NOT_CONVERGED


def _truncate(options: argparse.Namespace) -> int:
    for given in (options.model, options.data):
        if options.output.exists() and options.output.samefile(given):
            raise ValueError(f"{options.output} is one of the files read; write the small model to another one")
    model = load_model(options.model)
    check_model_name(model, options.output)
    report = _report(options, model)
    # Written whole or not at all; XGBoost goes by the ending of the name.
    partial = options.output.with_name(f"{options.output.stem}.partial{options.output.suffix}")
    try:
        truncate(model, n_trees=report.n_kept).save_model(str(partial))
        partial.replace(options.output)
    finally:
        partial.unlink(missing_ok=True)
    print(report)
    before, after = options.model.stat().st_size, options.output.stat().st_size
    print(f"wrote {options.output}: {before:,} bytes before, {after:,} after")
    return DONE if report.converged else NOT_CONVERGED


def _report(options: argparse.Namespace, model: Any) -> SizeReport:
    X, y = load_table(options.data, options.target)
    return size(
        model,
        features_of(model, X),
        y,
        alpha=options.alpha,
        oob=options.oob,
        threshold=options.threshold,
        seed=options.seed,
        subsample=options.subsample,
    )
