"""The command line: ``rfsize demo``, ``size``, ``truncate``, ``shrink``, ``grow``, ``compile`` and ``predict``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rfsize._util import printable
from rfsize.api.report import Report
from rfsize.cli.commands import (
    compile_command,
    grow_command,
    predict_command,
    shrink_command,
    size_command,
    truncate_command,
)
from rfsize.cli.demo import run_demo
from rfsize.counting.outputs import VOTINGS
from rfsize.exceptions import RfsizeWarning
from rfsize.models.framework import framework_of
from rfsize.statistics.criterion import AVERAGES, METHODS, NAMES, TARGETS
from rfsize.statistics.named_metrics import one_name

DONE, NOT_CONVERGED, BAD_INPUT = 0, 1, 2
"""Exit status: done and large enough; the forest is too small; the input is wrong, and one line says what."""

# Options

_ROWS, _FOREST, _KEPT, _OTHERS = "the rows", "the forest", "what must stay the same", "what to do and where to write"

_FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}
_MODEL, _DATA = _FILE | {"metavar": "MODEL"}, _FILE | {"metavar": "DATA"}
_COLUMN: dict[str, Any] = {"metavar": "COLUMN"}
_NUMBER: dict[str, Any] = {"type": float, "metavar": "P"}
_COUNT: dict[str, Any] = {"type": int, "metavar": "N"}
_FLAG: dict[str, Any] = {"action": "store_true"}
_METRIC: dict[str, Any] = {"type": one_name, "metavar": f"{{{','.join(NAMES)}}}"}

# Group, arguments of argparse and help of each option. "grow --labels" is an option that differs for one command.
_OPTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "model": (_FOREST, _MODEL, "LightGBM text file, XGBoost JSON or UBJ file, or skops file of scikit-learn"),
    "predict model": (_FOREST, _FILE, "compiled forest that 'rfsize compile' wrote, or a model"),
    "data": (_ROWS, _DATA, "rows: CSV, Parquet, or a folder of Parquet files"),
    "--labels": (_ROWS, _COLUMN, "column of DATA with the labels"),
    "grow --labels": (_ROWS, _COLUMN | {"required": True}, "column of DATA with the labels"),
    "--drop": (_ROWS, _COLUMN | {"nargs": "+", "default": []}, "columns of DATA that are no features, such as an id"),
    "--groups": (_ROWS, _COLUMN, "column of DATA that names rows that belong together; or copies, or rows (no groups)"),
    "--oob": (_ROWS, _FLAG, "DATA are the training rows, in their order; leave it out for rows new to the forest"),
    "--rows": (_ROWS, _FILE, "rows to choose trees by and refit leaves with (default: half of DATA)"),
    "--seed": (_FOREST, _COUNT, "seed of the forest; an XGBoost file does not keep it, and --oob needs it"),
    "--subsample": (_FOREST, _NUMBER, "subsample of the forest; an XGBoost file does not keep it, and --oob needs it"),
    "--missing": (_FOREST, _NUMBER, "value that an XGBoost forest read as missing, besides NaN"),
    "--framework": (_FOREST, {"metavar": "NAME", "required": True}, "lightgbm or xgboost"),
    "--params": (_FOREST, {"metavar": "JSON", "default": "{}"}, "training parameters, or a file of them"),
    "--min-trees": (_FOREST, _COUNT, "trees to train before the first estimate (default 100)"),
    "--max-trees": (_FOREST, _COUNT, "the most trees to train (default 5000)"),
    "--metric": (_KEPT, _METRIC, "what must stay the same; auc if you rank rows, log_loss if you use probabilities"),
    "--alpha": (_KEPT, _NUMBER, "share of rows that must keep their label (default 0.99); lower it for fewer trees"),
    "--tolerance": (_KEPT, _NUMBER, "in place of --alpha: how far numbers may move, or how much worse a metric may be"),
    "--voting": (_KEPT, {"choices": VOTINGS}, "labels by averaged scores, by majority, or by predict"),
    "--average": (_KEPT, {"choices": AVERAGES}, "apply alpha to all rows together (micro), or to each class (macro)"),
    "--threshold": (_KEPT, _NUMBER, "probability above which class 1 is predicted (default 0.5)"),
    "--method": (_KEPT, {"choices": METHODS}, "how agreement is estimated; change it only to compare methods"),
    "--target": (_KEPT, {"choices": TARGETS}, "like an unlimited forest, or (boosted) like all trees, certified"),
    "--confidence": (_KEPT, _NUMBER, "how sure a certificate is (default 0.95)"),
    "grow --confidence": (_KEPT, _NUMBER, "how sure it must be that the trees are enough (default 0.8)"),
    "--n-trees": (_KEPT, _COUNT, "trees to keep, in place of --alpha"),
    "--table": (_OTHERS, _FILE, "stop table that StopTable.save wrote in Python, so that rows use fewer trees"),
    "--proba": (_OTHERS, _FLAG, "write probabilities beside the labels"),
    "--n-jobs": (_OTHERS, _COUNT, "threads (default: one per core)"),
    "-o/--output": (_OTHERS, _FILE | {"required": True}, "file to write"),
    "--html": (_OTHERS, _FILE, "HTML page to write as well, which shows how many trees are enough, and why"),
    "--json": (_OTHERS, _FLAG, "print the result as JSON, for a script"),
}

_CRITERION = "--metric --alpha --tolerance --voting --average --threshold"
_SIZED = f"model data --labels --drop --groups --oob --seed --subsample --missing {_CRITERION} --method --target"
_TRAINED = "--framework --params --seed --min-trees --max-trees"

# Of each command: its function, which may return a report, its options, and the arguments of an example.
_COMMANDS: dict[str, tuple[Any, str, str]] = {
    "demo": (run_demo, "", ""),
    "size": (size_command, f"{_SIZED} --confidence --html --json", "model.txt train.csv --labels y --oob"),
    "truncate": (
        truncate_command,
        f"{_SIZED} --confidence -o/--output",
        "model.txt train.csv --labels y --oob -o small.txt",
    ),
    "shrink": (
        shrink_command,
        "model data --labels --drop --rows --metric --alpha --tolerance --average --confidence --n-trees -o/--output",
        "model.txt unseen.csv --labels y --rows train.csv -o small.txt",
    ),
    "grow": (
        grow_command,
        f"data --labels --drop --groups {_TRAINED} {_CRITERION} --confidence -o/--output --json",
        "train.csv --labels y --framework lightgbm -o model.txt",
    ),
    "compile": (
        compile_command,
        "model --table --voting --threshold --missing -o/--output",
        "model.txt --table table.json -o fast.rfsize",
    ),
    "predict": (
        predict_command,
        "model data --proba --n-jobs -o/--output",
        "fast.rfsize rows.csv -o predictions.csv",
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rfsize",
        description="How many trees does a random forest of LightGBM, XGBoost or scikit-learn need?",
        epilog="Begin with: rfsize demo. Then: rfsize size model.txt train.csv --labels y --oob. "
        "The exit status is 1 if the forest is too small, and 2 if the input is wrong.",
    )
    parser.add_argument("--version", action="version", version=f"rfsize {version('rfsize')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (function, options, example) in _COMMANDS.items():
        text = (function.__doc__ or name).partition("\n")[0]
        summary = text[:1].lower() + text[1:].rstrip(".")
        command = commands.add_parser(name, help=summary, description=text, epilog=f"Example: rfsize {name} {example}")
        groups: dict[str, Any] = {}
        for option in options.split():
            title, arguments, help_ = _OPTIONS.get(f"{name} {option}", _OPTIONS[option])
            if title not in groups:
                groups[title] = command.add_argument_group(title)
            groups[title].add_argument(*option.split("/"), help=help_, **arguments)
    return parser


# The process


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        Exit status: 0 done; 1 the forest has fewer than T*(α) trees; 2 the input is wrong, and one line says what.
    """
    options = _parser().parse_args(arguments)
    try:
        _refuse_to_overwrite(options)
        report = _run(_COMMANDS[options.command][0], options)
    except Exception as error:
        # Errors of ours, and those that a framework raises about a model, or a reader about a table.
        is_expected = isinstance(error, (ValueError, OSError, ImportError, MemoryError))
        is_expected |= type(error).__module__.partition(".")[0] in {"pandas", "pyarrow"}
        if not is_expected and framework_of(error) is None:
            raise
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        print(f"rfsize: {printable(reason)}", file=sys.stderr)
        return BAD_INPUT
    return DONE if report is None or report.enough else NOT_CONVERGED


def _refuse_to_overwrite(options: argparse.Namespace) -> None:
    """``ValueError`` if a file to write is one of those to read."""
    files = {name: value for name, value in vars(options).items() if isinstance(value, Path) and value.exists()}
    written = [files.pop(name) for name in ("output", "html") if name in files]
    for output in written:
        if any(output.samefile(read) for read in files.values()):
            raise ValueError(f"{output} is one of the files read: write to another one")


def _run(command: Callable[[argparse.Namespace], Report | None], options: argparse.Namespace) -> Report | None:
    """The report of a command, if it has one; warnings that the report does not print are printed once."""
    printed: set[str] = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RfsizeWarning)
        try:
            report = command(options)
            printed.update(() if report is None else (warning.text for warning in report.warnings))
            return report
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                if text not in printed:
                    print(f"rfsize: warning: {printable(text)}", file=sys.stderr)
