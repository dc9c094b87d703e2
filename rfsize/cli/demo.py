"""``rfsize demo``: forests sized, truncated and compiled on real data, with each framework."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.registry import adapter_for, integration_for
from rfsize.cli.models import importable_integrations
from rfsize.counting.api import tree_outputs
from rfsize.inference.api import compile as compiled
from rfsize.sizing.api import size, truncate
from rfsize.sizing.report import Report
from rfsize.stopping.table import StopTable

_TREES = 1000
_CERTIFIED, _ALPHA = 0.98, 0.99
_REPEATED = 10_000  # rows to time, the held-out ones over and over


class _Outcome(NamedTuple):
    """One forest before and after, and compiled with a stop table."""

    cut: Report
    new: Report
    megabytes_before: float
    megabytes_after: float
    accuracy_before: float
    accuracy_after: float
    asked: float
    differ: float
    seconds_framework: float
    seconds_all: float
    seconds_table: float


def run_demo(_: argparse.Namespace) -> None:
    """Train, cut and compile forests of each framework that has one to show, and print what came of it.

    The data are the 1797 handwritten digits that scikit-learn carries; the task, whether a digit is 5 or
    more. Half of them train each forest; the others certify how few of its trees do.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, digit = load_digits(return_X_y=True)
    y = (digit >= 5).astype(int)
    split = train_test_split(X, y, test_size=1 / 2, random_state=0)
    rows, held_out = len(split[0]), len(split[1])
    print(f"Handwritten digits, 5 or more? {rows:,} rows to train, {held_out:,} held out, {X.shape[1]} features.\n")
    found = {}
    for each in importable_integrations()[0]:
        forest = each.demo_forest(_TREES)
        if forest is not None:
            print(f"{each.framework:9}", end="", flush=True)
            found[each.framework] = _outcome(forest, *split)
            print(flush=True)
    _print_sizes(found)
    _print_speeds(found)


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Say what is being done, and how long it took."""
    print(f" {name}", end="", flush=True)
    started = time.perf_counter()
    yield
    print(f" {time.perf_counter() - started:.1f} s,", end="", flush=True)


def _outcome(forest: Any, X: NDArray[Any], X_test: NDArray[Any], y: NDArray[Any], y_test: NDArray[Any]) -> _Outcome:
    with _step(f"train {_TREES:,} trees"):
        # On so few rows threads would mostly wait for each other; to predict, it takes all of them.
        model = forest.set_params(n_jobs=1).fit(X, y).set_params(n_jobs=-1)
    with _step("size them"):
        outputs = tree_outputs(model, X, oob=True)
        new = size(outputs, alpha=_ALPHA)
        cut = size(model, X_test, alpha=_CERTIFIED, target="forest")
    with _step(f"cut to {cut.n_kept}"):
        small = truncate(model, n_trees=cut.n_kept)
        before, after = (forest.predict(X_test) for forest in (model, small))
    with _step("compile"):
        table = StopTable.build(_TREES, alpha=_ALPHA, prior=outputs, rule="optimal")
        whole, settled = compiled(model), compiled(model, table)
        labels, asked = settled.predict(X_test, return_trees=True)
    repeated = np.resize(X_test, (_REPEATED, X_test.shape[1]))
    ways = (model.predict, whole.predict, settled.predict)
    with _step("predict once, to warm up"):
        for predict in ways:
            predict(repeated)
    with _step("predict again"):
        seconds = [_seconds(predict, repeated) for predict in ways]
    return _Outcome(
        cut=cut,
        new=new,
        megabytes_before=_megabytes(model),
        megabytes_after=_megabytes(small),
        accuracy_before=float(np.mean(before == y_test)),
        accuracy_after=float(np.mean(after == y_test)),
        asked=float(asked.mean()),
        differ=float(np.mean(labels != whole.predict(X_test))),
        seconds_framework=seconds[0],
        seconds_all=seconds[1],
        seconds_table=seconds[2],
    )


def _print_sizes(found: dict[str, _Outcome]) -> None:
    print()
    for name, one in found.items():
        known = one.cut.certificate
        assert known is not None
        print(
            f"{name}: the first {one.cut.n_kept:,} of {_TREES:,} trees give the same label on {_CERTIFIED:.0%} of rows"
        )
        print(
            f"  (certified, {known.confidence:.0%} sure: {known.disagreements} of {known.rows:,} held-out rows differ)"
        )
    print(f"\n{'':10} {'trees':>16} {'file size':>20} {'accuracy':>16}")
    for name, one in found.items():
        print(
            f"{name:10} {_TREES:>7,} -> {one.cut.n_kept:>6,} {one.megabytes_before:>8.1f} -> "
            f"{one.megabytes_after:>5.1f} MB {one.accuracy_before:>7.1%} -> {one.accuracy_after:.1%}"
        )
    sizes = ", ".join(f"{one.new.n_trees:,} with {name}" for name, one in found.items())
    print(
        f"\nA new forest gives the labels of an unlimited forest on {_ALPHA:.0%} of rows with T*({_ALPHA:g}) trees, on "
        f"average:\n{sizes}, read from out-of-bag votes."
    )


def _print_speeds(found: dict[str, _Outcome]) -> None:
    print(
        f"\nAll {_TREES:,} trees compiled, with a stop table (alpha = {_ALPHA:g}, optimal rule, prior from out-of-bag "
        f"votes); seconds for\n{_REPEATED:,} rows, of the second call:\n"
    )
    print(f"{'':10} {'trees asked':>12} {'other label':>12} {'own predict':>16} {'compiled':>10} {'with table':>11}")
    for name, one in found.items():
        print(
            f"{name:10} {one.asked:>12.1f} {one.differ:>12.1%} {one.seconds_framework:>14.3f} s "
            f"{one.seconds_all:>8.3f} s {one.seconds_table:>9.3f} s"
        )


def _seconds(predict: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> float:
    started = time.perf_counter()
    predict(rows)
    return time.perf_counter() - started


def _megabytes(model: Any) -> float:
    """Size of the model saved as its framework saves it."""
    integration = integration_for(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{integration.file_ending}"
        integration.save(adapter_for(model).booster, path)
        return path.stat().st_size / 1e6
