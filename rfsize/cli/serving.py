"""``rfsize table``, ``compile`` and ``predict``: what a forest is served with."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rfsize.cli.models import LoadedModel, load_model, load_model_if_any
from rfsize.cli.options import (
    DONE,
    add_data,
    add_inputs,
    add_missing,
    add_model,
    refuse_to_overwrite,
    table_of,
)
from rfsize.cli.predictions import (
    PREDICTION_FORMATS,
    features_of_forest,
    pieces,
    prediction_format,
    prediction_writer,
    predictions_file,
)
from rfsize.cli.tables import STANDARD, Table
from rfsize.counting.api import tree_outputs
from rfsize.counting.tree_outputs import VOTINGS
from rfsize.inference.api import compile as compiled
from rfsize.inference.api import load
from rfsize.inference.compiled import CompiledForest
from rfsize.stopping.certificate import AVERAGES
from rfsize.stopping.table import Rule, StopTable
from rfsize.utils.words import how_many

# Of `rfsize table`: those of certified tables, and those of the others.
_OF_CERTIFIED = ("confidence", "voting", "average", "metric", "tolerance")
_OF_EXPECTED = ("oob", "limit", "rule")

_PROMISES = {
    "certified": "certified for this forest, with its trees in their order, on rows like these",
    "expected": "expected on average over forests like this one; --certify makes a table certified for this forest, "
    "from rows that it was not trained on",
}


def add_table(commands: Any) -> None:
    """``rfsize table``."""
    parser = commands.add_parser("table", help="write the table by which rows stop asking trees, from DATA")
    add_inputs(parser, confidence="share of rows that must get the whole forest's label (default 0.99; 1: all)")
    parser.add_argument("--rule", choices=("threshold", "optimal", "robust"), help="default threshold")
    parser.add_argument("--limit", action="store_true", help="agree with the infinite forest, not the one at hand")
    parser.add_argument("--certify", action="store_true", help="certify it for this forest; DATA were not trained on")
    parser.add_argument("--confidence", type=float, help="how sure the certificate is (default 0.95)")
    parser.add_argument("--voting", choices=VOTINGS, help="what is certified to agree (default: labels of predict)")
    parser.add_argument("--average", choices=AVERAGES, help="certify all rows together (micro) or each class (macro)")
    parser.add_argument(
        "--metric", choices=("labels", "probabilities", "scores"), help="what is certified to agree (default labels)"
    )
    parser.add_argument("--tolerance", type=float, help="how far off a certified probability or score may be")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write the table to")
    parser.set_defaults(run=table, alpha=0.99)


def add_compile(commands: Any) -> None:
    """``rfsize compile``."""
    parser = commands.add_parser("compile", help="write a forest that predicts many times faster")
    add_model(parser)
    parser.add_argument("--table", type=Path, metavar="FILE", help="what 'rfsize table' wrote")
    _add_voting(parser)
    parser.add_argument(
        "--threshold", type=float, help="probability that decides labels and votes (default: the table's, or 0.5)"
    )
    add_missing(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write")
    parser.set_defaults(run=compile_)


def add_predict(commands: Any) -> None:
    """``rfsize predict``."""
    parser = commands.add_parser("predict", help="predict the rows of a table, piece by piece")
    parser.add_argument("forest", type=Path, metavar="FILE", help="what 'rfsize compile' wrote, or a model")
    add_data(parser, "rows")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="CSV or Parquet file, or - for standard output"
    )
    parser.add_argument("--output-format", choices=PREDICTION_FORMATS, help="format of standard output (default csv)")
    _add_voting(parser)
    parser.add_argument("--proba", action="store_true", help="write the framework's probabilities as well")
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads (default: one per core)")
    parser.set_defaults(run=predict)


def _add_voting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--voting",
        choices=VOTINGS,
        default="auto",
        help="labels by averaged scores (soft), by the majority of the votes (hard), or as the table and, without one, "
        "the model's own predict has it (default auto)",
    )


def table(options: argparse.Namespace) -> int:
    """Write a stop table."""
    _check_table_options(options)
    refuse_to_overwrite(options.output, options.model, options.data)
    loaded = load_model(options.model)
    X, y, groups = table_of(options)
    X = loaded.integration.features_of(loaded.model, X)
    made = _certified(options, loaded, X) if options.certify else _expected(options, loaded, X, y, groups)
    made.save(options.output)
    print(made)
    print(f"promise: {_PROMISES[made.promise]}")
    if not options.certify and not options.oob:  # on rows that it has seen, its trees agree more than on others
        read = {"threshold": options.threshold, "missing": options.missing}
        labels, asked = compiled(loaded.model, made, **read).predict_labels(X, return_trees=True)
        differ = np.mean(labels != compiled(loaded.model, voting="hard", **read).predict_labels(X))
        print(f"on DATA, with the trees in their order: {asked.mean():.1f} trees per row, {differ:.3%} other labels")
    return DONE


def _check_table_options(options: argparse.Namespace) -> None:
    """``ValueError`` where an option is for the other kind of table."""
    others = _OF_EXPECTED if options.certify else _OF_CERTIFIED
    given = next((name for name in others if getattr(options, name) not in (None, False)), None)
    if given == "oob":
        raise ValueError(
            "--oob means that the forest was trained on DATA, and such rows certify nothing: leave it out and give "
            "other rows, or leave out --certify"
        )
    if given is not None:
        raise ValueError(
            f"--{given} is for tables of votes that --certify does not make: leave out one of the two"
            if options.certify
            else f"--{given} is for certified tables: add --certify, with rows that the forest was not trained on"
        )


def _certified(options: argparse.Namespace, loaded: LoadedModel, X: Any) -> StopTable:
    given = {name: getattr(options, name) for name in _OF_CERTIFIED if getattr(options, name) is not None}
    read = {"threshold": options.threshold, "missing": options.missing}
    return StopTable.calibrate(loaded.with_class_names(), X, alpha=options.alpha, **read, **given)


def _expected(options: argparse.Namespace, loaded: LoadedModel, X: Any, y: Any, groups: Any) -> StopTable:
    y = loaded.labels(y) if options.oob else None
    bags = {"seed": options.seed, "subsample": options.subsample, "missing": options.missing}
    threshold = 0.5 if options.threshold is None else options.threshold
    counted = tree_outputs(loaded.model, X, y, oob=options.oob, threshold=threshold, groups=groups, **bags)
    target: Literal["forest", "limit"] = "limit" if options.limit else "forest"
    rule: Rule = options.rule or "threshold"
    return StopTable.build(counted.n_trees, alpha=options.alpha, prior=counted, rule=rule, target=target)


def compile_(options: argparse.Namespace) -> int:
    """Write a compiled forest."""
    refuse_to_overwrite(options.output, options.model, options.table)
    made = None if options.table is None else StopTable.load(options.table)
    model = load_model(options.model).with_class_names()
    fast = compiled(model, made, voting=options.voting, threshold=options.threshold, missing=options.missing)
    fast.save(options.output)
    print(fast)
    before, after = options.model.stat().st_size, options.output.stat().st_size
    print(f"wrote {options.output}: {before:,} bytes before, {after:,} after")
    return DONE


def predict(options: argparse.Namespace) -> int:
    """Write predictions."""
    refuse_to_overwrite(options.output, options.forest, options.data)
    rows_of, kind = (
        Table.of(options.data, options.input_format),
        prediction_format(options.output, options.output_format),
    )
    fast = _forest(options)
    rows, asked = 0, 0
    with predictions_file(options.output) as file, prediction_writer(file, kind) as write:
        for piece in pieces(rows_of):
            X = features_of_forest(fast.forest, piece)
            name, ask = ("label", fast.predict_labels) if fast.classes.size else ("prediction", fast.predict)
            predicted, trees = ask(X, return_trees=True)
            columns = {name: predicted, "trees": trees}
            if options.proba:
                columns |= {
                    f"p_{name}": share for name, share in zip(fast.classes, fast.predict_proba(X).T, strict=True)
                }
            write(columns)
            rows, asked = rows + len(predicted), asked + int(trees.sum())
    print(
        f"wrote {'to standard output' if options.output == STANDARD else options.output}: {how_many(rows, 'row')}, "
        f"{asked / max(rows, 1):.1f} of {how_many(fast.n_trees, 'tree')} asked per row",
        file=sys.stderr if options.output == STANDARD else sys.stdout,
    )
    return DONE


def _forest(options: argparse.Namespace) -> CompiledForest:
    """What ``rfsize compile`` wrote, or would write of a model."""
    loaded = load_model_if_any(options.forest)
    if loaded is None:
        fast = load(options.forest, n_jobs=options.n_jobs)
        if options.voting != "auto" and fast.classes.size:
            fast = CompiledForest(fast.forest, fast.table, voting=options.voting, n_jobs=options.n_jobs)
    else:
        fast = compiled(loaded.with_class_names(), voting=options.voting, n_jobs=options.n_jobs)
    if not fast.classes.size and (options.proba or options.voting != "auto"):
        raise ValueError(
            "the forest predicts numbers, of which there are neither probabilities nor votes: leave out --proba and "
            "--voting"
        )
    return fast
