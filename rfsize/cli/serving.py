"""``rfsize compile`` and ``predict``: fast predictions."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import how_many
from rfsize.cli.models import load_model, load_model_if_any
from rfsize.cli.options import given, refuse_to_overwrite, wrote
from rfsize.cli.predictions import pieces, prediction_format, prediction_writer
from rfsize.cli.tables import STANDARD, Table
from rfsize.inference.api import compile as compiled
from rfsize.inference.api import load
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.mean import CompiledMean
from rfsize.inference.rows import columns_of
from rfsize.stopping.table import StopTable


def write_compiled(options: argparse.Namespace) -> None:
    """Write a compiled forest."""
    refuse_to_overwrite(options.output, options.model, options.table)
    made = None if options.table is None else StopTable.load(options.table)
    model = load_model(options.model).with_class_names()
    fast = compiled(model, made, **given(options, "voting", "threshold", "missing"))
    fast.save(options.output)
    print(fast)
    print(wrote(options.output, options.model))


def predict(options: argparse.Namespace) -> None:
    """Write predictions."""
    refuse_to_overwrite(options.output, options.forest, options.data)
    table, kind = Table.of(options.data, options.input_format), prediction_format(options.output, options.output_format)
    fast = _forest(options)
    first = fast.forests[0] if isinstance(fast, CompiledMean) else fast
    rows, trees = 0, 0
    with prediction_writer(options.output, kind) as write:
        for X in pieces(table, columns_of(first.forest)):
            name, predicted, asked_trees = _predicted(fast, X)
            shares = zip(fast.classes, fast.predict_proba(X).T, strict=True) if options.proba else ()
            write({name: predicted, "trees": asked_trees, **{f"p_{label}": share for label, share in shares}})
            rows, trees = rows + len(predicted), trees + int(asked_trees.sum())
    to_standard = options.output == STANDARD
    print(
        f"wrote {'to standard output' if to_standard else options.output}: {how_many(rows, 'row')}, "
        f"{trees / max(rows, 1):.1f} of {how_many(fast.n_trees, 'tree')} asked per row",
        file=sys.stderr if to_standard else sys.stdout,
    )


def _predicted(fast: CompiledForest | CompiledMean, X: Any) -> tuple[str, NDArray[Any], NDArray[Any]]:
    """The name of the predictions, the predictions, and the number of trees that each row asked."""
    name = "label" if fast.classes.size else "prediction"
    if isinstance(fast, CompiledMean):  # a mean asks all trees
        predicted = fast.predict_labels(X) if fast.classes.size else fast.predict(X)
        return name, predicted, np.full(len(predicted), fast.n_trees)
    ask = fast.predict_labels if fast.classes.size else fast.predict
    return name, *ask(X, return_trees=True)


def _forest(options: argparse.Namespace) -> CompiledForest | CompiledMean:
    """The compiled forest in a file, or a model from a file, compiled."""
    loaded, n_jobs = load_model_if_any(options.forest), given(options, "n_jobs")
    of_labels = {} if options.voting == "auto" else given(options, "voting")
    if loaded is None:
        fast = load(options.forest, **n_jobs)
        if isinstance(fast, CompiledMean):
            if of_labels:
                raise ValueError(
                    f"{options.forest} holds the mean of several forests, whose labels go by the mean of their "
                    "probabilities: leave out --voting"
                )
        elif of_labels and fast.classes.size:
            fast = CompiledForest(fast.forest, fast.table, **of_labels, **n_jobs)
    else:
        fast = compiled(loaded.with_class_names(), **of_labels, **n_jobs)
    if not fast.classes.size and (options.proba or of_labels):
        raise ValueError(
            "the forest predicts numbers, and has neither probabilities nor votes: leave out --proba and --voting"
        )
    return fast
