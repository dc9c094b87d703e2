"""All options of the command line, each explained once, and what they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rfsize.certifying.certificate import AVERAGES
from rfsize.cli.models import LoadedModel
from rfsize.cli.predictions import PREDICTION_FORMATS
from rfsize.cli.tables import FORMATS, STANDARD, Table, load_table, taken_out, without
from rfsize.counting.tree_outputs import VOTINGS
from rfsize.estimation.hard import ESTIMATORS
from rfsize.sizing.goals.named import NAMES, TARGETS
from rfsize.sizing.named_metrics import one_name
from rfsize.utils.validation import choice


def _metric(text: str) -> str:
    """A metric by whichever of its names."""
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


_LABELS = "column of DATA that holds the labels, which is no feature"

# By their names, or by a command and a name where a command has its own.
_OPTIONS: dict[str, dict[str, Any]] = {
    "model": _file("LightGBM text file, XGBoost JSON or UBJ file, or skops file of scikit-learn", "MODEL"),
    "forest": _file("what 'rfsize compile' wrote, or a model"),
    "data": _file("rows: CSV, Parquet, NPY or NPZ, a folder of Parquet files, or - for standard input", "DATA"),
    "--input-format": _word("format of standard input (default csv)", FORMATS),
    "--labels": _text(_LABELS, "COLUMN"),
    "grow --labels": _text(_LABELS, "COLUMN", required=True),
    "fraction --labels": _text(_LABELS, "COLUMN", required=True),
    "--drop": _text("columns of DATA that are no features", "COLUMN", nargs="+", default=[]),
    "--groups": _text(
        "column of DATA that names training rows that belong together, or the word copies or rows", "COLUMN"
    ),
    "--oob": _flag("DATA are the training rows, in the order of training"),
    "--threshold": _number(
        "probability of class 1 above which labels and votes are class 1 (default 0.5, or a table's)"
    ),
    "--seed": _number("seed of the forest; with --oob of an XGBoost forest, whose file does not keep it", int),
    "--subsample": _number("subsample of an XGBoost forest, whose file does not keep it; for --oob"),
    "--missing": _number("value that an XGBoost forest took for missing, besides NaN"),
    "--metric": _text(
        "what must stay the same (default labels, of a regressor scores)",
        f"{{{','.join(NAMES)}}}",
        type=_metric,
    ),
    "--alpha": _number("share of labels to agree on (default 0.99)"),
    "--tolerance": _number("how far off probabilities or scores may be, or how much worse a metric"),
    "--voting": _word(
        "labels by averaged scores (soft), by the majority of the votes (hard), or as predict has them (default auto)",
        VOTINGS,
    ),
    "--average": _word("agreement on all rows together (micro), or on each class (macro)", AVERAGES),
    "--method": _word("how agreement is estimated", list(ESTIMATORS)),
    "--json": _flag("print what is found as JSON"),
    "-o --output": _file("file to write", "OUT", required=True),
    "--score": _text(
        "metric of the out-of-bag score, with --oob and --labels (default: the metric, accuracy or r2)", "NAME"
    ),
    "--unseen": _file("rows that the forest was not trained on, which certify a stop table"),
    "--framework": _text("lightgbm or xgboost", "NAME", required=True),
    "--params": _text("training parameters, or a file of them", "JSON"),
    "--max-trees": _number("trees to stop at (default 5000)", int),
    "--model": _file("finished forest of DATA to add trees to", "MODEL"),
    "--validation": _file("rows to count votes on, not those of training, or -"),
    "grow --confidence": _number("how sure it must be that T* is reached (default 0.8)"),
    "--min-trees": _number("trees to look at first (default 100)", int),
    "--fractions": _number("fractions to compare (default: 12)", metavar="R", nargs="+"),
    "--n-trees": _number("trees of each forest (default 200)", int),
    "--rows": _file("rows that choose trees and refit leaves, such as those of training (default: half of DATA)"),
    "shrink --n-trees": _number("trees to keep, in place of --alpha", int),
    "--max-bytes": _number("bytes that the model's file may have, in place of --alpha", int),
    "--search": _word(
        "all fractions on all trees, or fewer and fewer fractions (default full)", ("full", "elimination")
    ),
    "fraction --rule": _word(
        "your own fraction unless another is better by more than noise (default), the one of least error, or the "
        "smallest within its error",
        ("keep", "best", "one-se"),
    ),
    "fraction --metric": _text("metric or scikit-learn scorer to go by (default: the error)", "NAME"),
    "--resume": _file("file to keep what is done in, and to go on from"),
    "table --rule": _word("default threshold", ("threshold", "optimal", "robust")),
    "--target": _word("predict as an unlimited forest (default), or, certified, as all trees of this one", TARGETS),
    "table --target": _word("agree with all trees of this forest (default), or of an infinite one", TARGETS),
    "--certify": _flag("certify it for this forest; DATA were not trained on"),
    "--confidence": _number("how sure the certificate is (default 0.95)"),
    "--table": _file("what 'rfsize table' wrote"),
    "--output-format": _word("format of standard output (default csv)", PREDICTION_FORMATS),
    "--proba": _flag("write probabilities beside the labels"),
    "--n-jobs": _number("threads (default: one per core)", int),
}

ROWS = ("data", "--input-format")
"""A table of rows."""

_COLUMNS = ("--labels", "--drop", "--groups")

ASKED = ("model", *ROWS, *_COLUMNS, "--oob", "--threshold", "--seed", "--subsample", "--missing")
"""A model, rows, and how the model votes on them: see `asked`."""

KEPT = ("--metric", "--alpha", "--tolerance", "--voting", "--average")
"""What is to stay as it is."""

SIZED_BY = (*KEPT, "--method", "--target", "--confidence")
"""What a forest is to be large enough for: see `sized_by`."""

SHRUNK_BY = ("--metric", "--alpha", "--tolerance", "--average", "--confidence", "--n-trees", "--max-bytes")
"""What a shrunken forest is to keep, or how large it may be: see `shrunk_by`."""

TRAINED_ON = (*ROWS, *_COLUMNS, "--framework", "--params", "--seed")
"""What a forest is trained on."""

TRAINED = (*TRAINED_ON, *KEPT, "--max-trees")
"""What a forest is trained on and to."""

PREDICTED = ("forest", *ROWS)
"""A forest, and rows of which it has only to know the features."""


def add_options(parser: argparse.ArgumentParser, command: str, names: Collection[str]) -> None:
    """The options that a command takes."""
    for name in names:
        parser.add_argument(*name.split(), **_OPTIONS.get(f"{command} {name}", _OPTIONS.get(name, {})))


def given(options: argparse.Namespace, *names: str, **other_names: str) -> dict[str, Any]:
    """What the user said, as arguments by the same names or by others; the defaults are those of what is called."""
    named = {
        name: getattr(options, option)
        for name, option in {**dict(zip(names, names, strict=True)), **other_names}.items()
    }
    return {name: value for name, value in named.items() if value is not None}


def sized_by(options: argparse.Namespace) -> dict[str, Any]:
    """`SIZED_BY` as arguments of `rfsize.size` and its like."""
    return given(options, *(name.removeprefix("--") for name in SIZED_BY if hasattr(options, name.removeprefix("--"))))


def shrunk_by(options: argparse.Namespace) -> dict[str, Any]:
    """`SHRUNK_BY` as arguments of `rfsize.shrink`."""
    return given(options, *(name.removeprefix("--").replace("-", "_") for name in SHRUNK_BY))


def asked(options: argparse.Namespace, loaded: LoadedModel, *, may_be_shrunk: bool = False) -> dict[str, Any]:
    """`ASKED` as arguments of `rfsize.tree_outputs`."""
    X, y, groups = table_of(options)
    found = given(options, "oob", "threshold", "seed", "subsample", "missing")
    found |= {
        "model": loaded.with_class_names(may_be_shrunk=may_be_shrunk),
        "X": loaded.integration.features_of(loaded.model, X),
        "groups": groups,
    }
    return {**found, "y": y}


def table_of(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Features of DATA, without the columns that are to be dropped, labels, and groups of rows."""
    table = Table.of(options.data, options.input_format)
    X, y = load_table(table, options.labels)
    X, groups = taken_out(without(X, options.drop, table), options.groups, table)
    return X, y, groups


def features_of(path: Path, options: argparse.Namespace, loaded: LoadedModel) -> Any:
    """Features of other rows than DATA, which may lack labels and the columns that are to be dropped."""
    table = Table.of(path, options.input_format)
    X, _ = load_table(table, options.labels, may_lack=True)
    X = without(X, [name for name in options.drop if name in getattr(X, "columns", ())], table)
    return loaded.integration.features_of(loaded.model, X)


def refuse_to_overwrite(output: Path | None, *inputs: Path | None) -> None:
    """``ValueError`` where the output is one of the files read, or lies among them."""
    for read in inputs:
        if output is None or read is None or STANDARD in (output, read) or not read.exists():
            continue
        if output.exists() and output.samefile(read):
            raise ValueError(f"{output} is one of the files read; write to another one")
        if read.is_dir() and output.resolve().is_relative_to(read.resolve()):
            raise ValueError(f"{output} lies in {read}, all files of which are read; write to another folder")


def wrote(output: Path, before: Path | None = None) -> str:
    """What is said of a file that was written, in place of a larger one where that is given."""
    if not output.is_file():  # a pipe or a device, which has no size
        return f"wrote {output}"
    size = f"{output.stat().st_size:,}"
    return f"wrote {output}: " + (
        f"{size} bytes" if before is None else f"{before.stat().st_size:,} bytes before, {size} after"
    )
