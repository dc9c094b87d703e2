"""All options of the command line, each explained once, and their values as arguments of the library."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rfsize._util import choice
from rfsize.certifying.certificate import AVERAGES
from rfsize.cli.models import LoadedModel
from rfsize.cli.predictions import PREDICTION_FORMATS
from rfsize.cli.tables import FORMATS, STANDARD, Table, as_trained, load_table, taken_out, without
from rfsize.counting.outputs import VOTINGS
from rfsize.estimation.hard import ESTIMATORS
from rfsize.sizing.goals.named import NAMES, TARGETS
from rfsize.sizing.named_metrics import one_name


def _metric(text: str) -> str:
    """A metric by any of its names."""
    name = str(one_name(text))
    try:
        choice("metric", name, NAMES)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _file(says: str, metavar: str = "FILE", **others: Any) -> dict[str, Any]:
    return {"type": Path, "metavar": metavar, "help": says, **others}


def _number(says: str, of: type = float, **others: Any) -> dict[str, Any]:
    return {"type": of, "help": says, "metavar": "P" if of is float else "N", **others}


def _text(says: str, metavar: str, **others: Any) -> dict[str, Any]:
    return {"help": says, "metavar": metavar, **others}


def _word(says: str, choices: Collection[str]) -> dict[str, Any]:
    return {"help": says, "choices": choices}


def _flag(says: str) -> dict[str, Any]:
    return {"help": says, "action": "store_true"}


_LABELS = "column of DATA with the labels"

# The key is the name of an option, or a command and a name if the command has its own help for it.
_OPTIONS: dict[str, dict[str, Any]] = {
    "model": _file("LightGBM text file, XGBoost JSON or UBJ file, or skops file of scikit-learn", "MODEL"),
    "forest": _file("compiled forest that 'rfsize compile' wrote, or a model"),
    "data": _file("rows: CSV, Parquet, a folder of Parquet files, or - for standard input", "DATA"),
    "--input-format": _word("format of standard input (default csv)", FORMATS),
    "--labels": _text(_LABELS, "COLUMN"),
    "grow --labels": _text(_LABELS, "COLUMN", required=True),
    "--drop": _text(
        "columns of DATA that the forest was not trained on, such as an id", "COLUMN", nargs="+", default=[]
    ),
    "--groups": _text(
        "column of DATA that names rows that belong together, such as those of one patient; or the word copies (copies "
        "of a row belong together) or rows (none do)",
        "COLUMN",
    ),
    "--oob": _flag(
        "DATA are the training rows, in the order of training; leave --oob out for rows that are new to the forest"
    ),
    "--threshold": _number("probability above which class 1 is predicted (default 0.5)"),
    "--seed": _number("seed of the forest; an XGBoost file does not keep it, and --oob needs it", int),
    "--subsample": _number("subsample of the forest; an XGBoost file does not keep it, and --oob needs it"),
    "--missing": _number("value that an XGBoost forest read as missing, besides NaN"),
    "--metric": _text(
        "what must stay the same (default labels, or scores for a regression); take auc if you rank rows, log_loss if "
        "you use probabilities",
        f"{{{','.join(NAMES)}}}",
        type=_metric,
    ),
    "--alpha": _number("share of rows that must keep their label (default 0.99); lower it for fewer trees"),
    "--tolerance": _number(
        "in place of --alpha: how far probabilities or scores may move, or how much worse a metric may become"
    ),
    "--voting": _word(
        "how trees make a label: by averaged scores (soft), by majority vote (hard), or as the model's predict does "
        "(default auto)",
        VOTINGS,
    ),
    "--average": _word(
        "apply alpha to all rows together (default micro) or to each class (macro); take macro for a rare class",
        AVERAGES,
    ),
    "--method": _word("how agreement is estimated; change it only to compare methods", list(ESTIMATORS)),
    "--html": _file("HTML page to write as well, which shows how many trees are enough, and why"),
    "--json": _flag("print the result as JSON, for a script"),
    "-o --output": _file("file to write", "OUT", required=True),
    "--framework": _text("lightgbm or xgboost", "NAME", required=True),
    "--params": _text("training parameters, or a file of them", "JSON"),
    "--max-trees": _number("the most trees to train (default 5000)", int),
    "--model": _file("forest that was trained on DATA, to add trees to", "MODEL"),
    "--validation": _file("rows to count votes on, in place of out-of-bag votes; or - for standard input"),
    "grow --confidence": _number("how sure it must be that the trees are enough (default 0.8); raise it to train more"),
    "--min-trees": _number("trees to train before the first estimate (default 100)", int),
    "--rows": _file("rows to choose trees and refit leaves with, such as the training rows (default: half of DATA)"),
    "--n-trees": _number("trees to keep, in place of --alpha", int),
    "--target": _word(
        "predict like an unlimited forest (default limit), or like all trees of this one, certified on DATA (forest)",
        TARGETS,
    ),
    "--confidence": _number("how sure a certificate is (default 0.95)"),
    "--table": _file("stop table that StopTable.save wrote in Python, so that rows ask fewer trees"),
    "--output-format": _word("format of standard output (default csv)", PREDICTION_FORMATS),
    "--proba": _flag("write probabilities beside the labels"),
    "--n-jobs": _number("threads (default: one per core)", int),
}

ROWS = ("data", "--input-format")
"""A table of rows."""

_COLUMNS = ("--labels", "--drop", "--groups")

ASKED = ("model", *ROWS, *_COLUMNS, "--oob", "--threshold", "--seed", "--subsample", "--missing")
"""A model, rows, and how the model votes on the rows; see `asked`."""

KEPT = ("--metric", "--alpha", "--tolerance", "--voting", "--average")
"""What must stay the same."""

SIZED_BY = (*KEPT, "--method", "--target", "--confidence")
"""What a forest must be large enough for, as arguments of `rfsize.size` and `rfsize.truncate`."""

SHRUNK_BY = ("--metric", "--alpha", "--tolerance", "--average", "--confidence", "--n-trees")
"""What a shrunken forest must keep, or how large it may be, as arguments of `rfsize.shrink`."""

TRAINED = (*ROWS, *_COLUMNS, "--framework", "--params", "--seed", *KEPT, "--max-trees")
"""What a forest is trained on, and what it must be large enough for."""

PREDICTED = ("forest", *ROWS)
"""A forest, and rows to predict."""


# The groups of a help text, in their order. All other options are in the last group.
_GROUPS = {
    "the rows": {*ROWS, *_COLUMNS, "--oob", "--rows", "--validation"},
    "the forest": {"model", "forest", "--framework", "--params", "--model", "--seed", "--subsample", "--missing"},
    "what must stay the same": {*KEPT, "--threshold", "--method", "--target", "--confidence"},
}
_OTHERS = "what to do and where to write"


def add_options(parser: argparse.ArgumentParser, command: str, names: Collection[str]) -> None:
    """Add the options of a command, in groups."""
    groups: dict[str, Any] = {}
    for name in names:
        title = next((title for title, options in _GROUPS.items() if name in options), _OTHERS)
        group = groups.setdefault(title, None) or parser.add_argument_group(title)
        groups[title] = group
        group.add_argument(*name.split(), **_OPTIONS.get(f"{command} {name}", _OPTIONS.get(name, {})))


def given(options: argparse.Namespace, *names: str, **other_names: str) -> dict[str, Any]:
    """The options that the user gave, as arguments by the same names or by others. The called function has defaults."""
    named = {
        name: getattr(options, option)
        for name, option in {**dict(zip(names, names, strict=True)), **other_names}.items()
    }
    return {name: value for name, value in named.items() if value is not None}


def chosen(options: argparse.Namespace, names: Collection[str]) -> dict[str, Any]:
    """The options of a group that the command has, as arguments by the same names."""
    found = (name.removeprefix("--").replace("-", "_") for name in names)
    return given(options, *(name for name in found if hasattr(options, name)))


def asked(options: argparse.Namespace, loaded: LoadedModel) -> dict[str, Any]:
    """`ASKED` as arguments of `rfsize.tree_outputs`."""
    X, y, groups = table_of(options)
    return given(options, "oob", "threshold", "seed", "subsample", "missing") | {
        "model": loaded.with_class_names(),
        "X": as_trained(X, loaded.columns),
        "groups": groups,
        "y": y,
    }


def table_of(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Features of DATA without the columns to drop, labels, and groups of rows."""
    table = Table.of(options.data, options.input_format)
    X, y = load_table(table, options.labels)
    X, groups = taken_out(without(X, options.drop, table), options.groups, table)
    return X, y, groups


def features_of(path: Path, options: argparse.Namespace, loaded: LoadedModel) -> Any:
    """Features of another table than DATA, which need not have labels or the columns to drop."""
    table = Table.of(path, options.input_format)
    X, _ = load_table(table, options.labels, may_lack=True)
    return as_trained(X.drop(columns=options.drop, errors="ignore"), loaded.columns)


def refuse_to_overwrite(output: Path | None, *inputs: Path | None) -> None:
    """``ValueError`` if the output is one of the files read, or lies in a folder that is read."""
    for read in inputs:
        if output is None or read is None or STANDARD in (output, read) or not read.exists():
            continue
        if output.exists() and output.samefile(read):
            raise ValueError(f"{output} is one of the files read; write to another one")
        if read.is_dir() and output.resolve().is_relative_to(read.resolve()):
            raise ValueError(f"{output} lies in {read}, all files of which are read; write to another folder")


def wrote(output: Path, before: Path | None = None) -> str:
    """The line that says which file was written, and its size; also the size of the file ``before``, if given."""
    if not output.is_file():  # a pipe or a device, which has no size
        return f"wrote {output}"
    size = f"{output.stat().st_size:,}"
    return f"wrote {output}: " + (
        f"{size} bytes" if before is None else f"{before.stat().st_size:,} bytes before, {size} after"
    )
