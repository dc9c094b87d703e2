"""The command line: ``rfsize demo``, ``size``, ``truncate``, ``shrink``, ``grow``, ``compile`` and ``predict``."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import NamedTuple

from rfsize._util import printable
from rfsize.cli.demo import run_demo
from rfsize.cli.options import ASKED, PREDICTED, ROWS, SHRUNK_BY, SIZED_BY, TRAINED, add_options
from rfsize.cli.serving import predict, write_compiled
from rfsize.cli.sizing import print_size, write_shrunk, write_truncated
from rfsize.cli.tables import STANDARD
from rfsize.cli.training import grow_forest
from rfsize.models.framework import framework_of
from rfsize.sizing.report import Report

DONE, NOT_CONVERGED, BAD_INPUT = 0, 1, 2
"""Exit status: done and large enough; the forest is too small; the input is wrong, and one line says what."""

# Arguments that name tables of rows.
_TABLES = {"data", "validation", "rows"}


class _Command(NamedTuple):
    """A command: its function, which may return a report, its help, an example, and its options."""

    run: Callable[[argparse.Namespace], Report | None]
    says: str
    example: str
    options: tuple[str, ...] = ()


_COMMANDS = {
    "demo": _Command(run_demo, "size, cut and compile a forest of each framework on real data", "rfsize demo"),
    "size": _Command(
        print_size,
        "print how many trees are enough",
        "rfsize size model.txt train.csv --labels y --oob",
        (*ASKED, *SIZED_BY, "--json", "--html"),
    ),
    "truncate": _Command(
        write_truncated,
        "cut a forest down to its first trees, as many as are enough",
        "rfsize truncate model.txt train.csv --labels y --oob -o small.txt",
        (*ASKED, *SIZED_BY, "-o --output"),
    ),
    "shrink": _Command(
        write_shrunk,
        "make a forest smaller than truncate does: choose trees, refit leaves, certify the result on DATA",
        "rfsize shrink model.txt unseen.csv --labels y --rows train.csv -o small.txt",
        ("model", *ROWS, "--labels", "--drop", "--rows", *SHRUNK_BY, "-o --output"),
    ),
    "grow": _Command(
        grow_forest,
        "train a forest until it has enough trees, or add trees to one",
        "rfsize grow train.csv --labels y --framework lightgbm -o model.txt",
        (*TRAINED, "--model", "--validation", "--threshold", "--confidence", "--min-trees", "-o --output", "--json"),
    ),
    "compile": _Command(
        write_compiled,
        "compile a forest, so that it predicts many times faster",
        "rfsize compile model.txt --table table.json -o fast.rfsize",
        ("model", "--table", "--voting", "--threshold", "--missing", "-o --output"),
    ),
    "predict": _Command(
        predict,
        "predict the rows of a table, piece by piece",
        "rfsize predict fast.rfsize rows.csv -o predictions.csv",
        (*PREDICTED, "--voting", "--proba", "--n-jobs", "-o --output", "--output-format"),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        Exit status: 0 done; 1 the forest has fewer than T*(α) trees; 2 the input is wrong, and one line says what.
    """
    options = _parser().parse_args(arguments)
    try:
        _check_standard(options)
        with _each_warning_once() as said_by:
            report = _COMMANDS[options.command].run(options)
            if report is not None:
                said_by(report)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has closed the pipe. Python must not raise when it flushes the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (ValueError, OSError, ImportError, MemoryError) as error:
        return _refuse(error)
    except Exception as error:
        # Errors that a framework raises about a model, or a reader about a table.
        readers = {"pandas", "pyarrow"}
        if type(error).__module__.partition(".")[0] not in readers and framework_of(error) is None:
            raise
        return _refuse(error)
    return DONE if report is None or report.enough else NOT_CONVERGED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rfsize",
        description="How many trees does a random forest of LightGBM, XGBoost or scikit-learn need?",
        epilog="Begin with: rfsize demo. Then: rfsize size model.txt train.csv --labels y --oob. "
        "The exit status is 1 if the forest is too small, and 2 if the input is wrong.",
    )
    parser.add_argument("--version", action="version", version=f"rfsize {version('rfsize')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        says = f"{command.says[0].upper()}{command.says[1:]}."
        made = commands.add_parser(name, help=command.says, description=says, epilog=f"Example: {command.example}")
        add_options(made, name, command.options)
    return parser


def _check_standard(options: argparse.Namespace) -> None:
    """``ValueError`` if ``-`` stands for anything but a table of rows, or for two tables."""
    given = [name for name, value in vars(options).items() if value == STANDARD or (name == "params" and value == "-")]
    files = set(given) - _TABLES - ({"output"} if options.command == "predict" else set())
    if files:
        raise ValueError(
            f"- cannot stand for the {min(files)}: standard input is only for tables of rows, and standard output "
            "only for predictions. Name a file"
        )
    if len(_TABLES & set(given)) > 1:
        raise ValueError("standard input can be read only once: name a file for one of the two tables")


@contextmanager
def _each_warning_once() -> Iterator[Callable[[Report], None]]:
    """Hold warnings back until the end, and then print each once, without those that a printed report contains."""
    said: set[str] = set()
    caught: list[warnings.WarningMessage] = []
    format_before = warnings.formatwarning
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # the filters outside decide about the warnings that are given at the end
            yield lambda report: said.update(one.text for one in report.warnings)
    finally:
        # Prints no line of Python code below the warning.
        warnings.formatwarning = lambda message, *_, **__: f"rfsize: warning: {printable(str(message))}\n"
        for one in caught:
            if str(one.message) not in said:
                said.add(str(one.message))
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        warnings.formatwarning = format_before


def _refuse(error: Exception) -> int:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    print(f"rfsize: {printable(reason)}", file=sys.stderr)
    return BAD_INPUT
