"""Arguments that several commands of the command line share, and what they stand for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rfsize.cli.tables import FORMATS, STANDARD, Table, load_table, taken_out, without
from rfsize.counting.tree_outputs import VOTINGS
from rfsize.estimation.hard import ESTIMATORS
from rfsize.sizing.goal import AVERAGES
from rfsize.sizing.named_metrics import CRITERIA, one_name
from rfsize.utils.validation import choice

DONE, NOT_CONVERGED = 0, 1
"""Exit status: the forest is large enough, or is not."""


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model file."""
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help="LightGBM text file, XGBoost JSON or UBJ file, or skops file of scikit-learn",
    )


def add_inputs(parser: argparse.ArgumentParser, confidence: str = "share of rows to agree on (default 0.99)") -> None:
    """A model, rows, and how the model votes on them."""
    add_model(parser)
    add_data(parser, "rows to vote on")
    parser.add_argument("--alpha", type=float, help=confidence)
    parser.add_argument("--oob", action="store_true", help="DATA are the training rows, in the order of training")
    parser.add_argument("--target", metavar="COLUMN", help="column of DATA that holds the labels, not a feature")
    add_drop(parser)
    parser.add_argument("--threshold", type=float, help="probability that decides a vote (default 0.5)")
    parser.add_argument("--seed", type=int, help="seed of an XGBoost forest, which its file does not keep; for --oob")
    parser.add_argument("--subsample", type=float, help="subsample of an XGBoost forest, likewise")
    add_missing(parser)


def add_criterion(parser: argparse.ArgumentParser) -> None:
    """What a forest is to be large enough for."""
    parser.add_argument(
        "--voting",
        choices=VOTINGS,
        help="size labels of the majority vote, of averaged scores, or those of predict (default auto)",
    )
    parser.add_argument("--average", choices=AVERAGES, help="average agreement over rows (micro) or classes (macro)")
    parser.add_argument("--estimator", choices=list(ESTIMATORS), help="how agreement is estimated")
    parser.add_argument(
        "--criterion",
        type=_criterion,
        metavar=f"{{{','.join(CRITERIA)}}}",
        default="label",
        help="what is to come near the infinite forest's",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="how far off probabilities or scores may be (root mean square, and 95 %% of rows), or how much worse a "
        "metric",
    )


def _criterion(text: str) -> str:
    """The criterion that is named, by whichever of its names."""
    name = str(one_name(text))
    try:
        choice("criterion", name, CRITERIA)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def criterion_of(options: argparse.Namespace) -> dict[str, Any]:
    """The same as arguments of `rfsize.size` and its like."""
    names = ("alpha", "voting", "average", "estimator", "criterion", "tolerance")
    return {name: getattr(options, name) for name in names}


def add_missing(parser: argparse.ArgumentParser) -> None:
    """What else is missing."""
    parser.add_argument("--missing", type=float, help="value that an XGBoost forest took for missing, besides NaN")


def add_data(parser: argparse.ArgumentParser, what: str) -> None:
    """A table of rows."""
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help=f"{what}: CSV, Parquet, NPY or NPZ, a folder of Parquet files, or - for standard input",
    )
    parser.add_argument("--input-format", choices=FORMATS, help="format of standard input (default csv)")


def add_drop(parser: argparse.ArgumentParser) -> None:
    """Columns that are no features."""
    parser.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns of DATA that are no features")
    parser.add_argument(
        "--groups",
        metavar="COLUMN",
        help="column of DATA that names training rows that belong together, or the word copies or rows",
    )


def table_of(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Features of DATA, without the columns that are to be dropped, labels, and groups of rows."""
    table = Table.of(options.data, options.input_format)
    X, y = load_table(table, options.target)
    X, groups = taken_out(without(X, options.drop, table), options.groups, table)
    return X, y, groups


def refuse_to_overwrite(output: Path, *inputs: Path | None) -> None:
    """``ValueError`` where the output is one of the files read, or lies among them."""
    for given in inputs:
        if given is None or STANDARD in (output, given) or not given.exists():
            continue
        if output.exists() and output.samefile(given):
            raise ValueError(f"{output} is one of the files read; write to another one")
        if given.is_dir() and output.resolve().is_relative_to(given.resolve()):
            raise ValueError(f"{output} lies in {given}, all files of which are read; write to another folder")
