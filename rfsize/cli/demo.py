"""``rfsize demo``: size, truncate and compile forests of each framework on real data."""

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
_REPEATED = 10_000  # rows to time: the held-out rows, repeated


class _Row(NamedTuple):
    """One line of the table: a forest, and what it costs.

    Attributes
    ----------
    what : str
    trees : float
        Mean number of trees that a row asks.
    megabytes : float or None
        Size of the file; None for forests that are compiled in memory.
    accuracy, differ : float
        Share of held-out rows with the right label, and with another label than the forest as trained gives.
    seconds : float
    """

    what: str
    trees: float
    megabytes: float | None
    accuracy: float
    differ: float
    seconds: float


class _Outcome(NamedTuple):
    """One forest as trained, cut, and compiled; and the size that a new forest needs."""

    cut: Report
    new: Report
    rows: tuple[_Row, ...]


def run_demo(_: argparse.Namespace) -> None:
    """Train, cut and compile a forest of each framework, and print the results.

    The data are the 1797 handwritten digits of scikit-learn; the task is whether a digit is 5 or more. Half of the rows
    train each forest. The other half certify how few of its trees are enough.
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
    _print_table(found)
    _print_promises(found)


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Print the name of a step, and then the time that it took."""
    print(f" {name}", end="", flush=True)
    started = time.perf_counter()
    yield
    print(f" {time.perf_counter() - started:.1f} s,", end="", flush=True)


def _outcome(forest: Any, X: NDArray[Any], X_test: NDArray[Any], y: NDArray[Any], y_test: NDArray[Any]) -> _Outcome:
    with _step(f"train {_TREES:,} trees"):
        # On so few rows, threads would mostly wait for each other. Predictions use all threads.
        model = forest.set_params(n_jobs=1).fit(X, y).set_params(n_jobs=-1)
    with _step("size them"):
        outputs = tree_outputs(model, X, oob=True)
        new = size(outputs, alpha=_ALPHA)
        cut = size(model, X_test, alpha=_CERTIFIED, target="forest")
    with _step(f"cut to {cut.n_kept}"):
        small = truncate(model, n_trees=cut.n_kept)
    with _step("compile"):
        table = StopTable.build(_TREES, alpha=_ALPHA, prior=outputs)
        whole, settled = compiled(model), compiled(model, table)
        labels, asked = settled.predict(X_test, return_trees=True)
    repeated = np.resize(X_test, (_REPEATED, X_test.shape[1]))
    ways = (model, small, whole, settled)
    with _step("predict once, to warm up"):
        for way in ways:
            way.predict(repeated)
    with _step("predict again"):
        seconds = [_seconds(way.predict, repeated) for way in ways]
    before, predicted = model.predict(X_test), (*(way.predict(X_test) for way in (model, small, whole)), labels)
    rows = zip(
        ("as trained", "cut", "compiled", "with a stop table"),
        (_TREES, cut.n_kept, _TREES, float(asked.mean())),
        (_megabytes(model), _megabytes(small), None, None),
        (float(np.mean(one == y_test)) for one in predicted),
        (float(np.mean(one != before)) for one in predicted),
        seconds,
        strict=True,
    )
    return _Outcome(cut, new, tuple(_Row(*row) for row in rows))


def _print_table(found: dict[str, _Outcome]) -> None:
    rows = f"{_REPEATED:,} rows"
    print(f"\n{'':28} {'trees a row':>11} {'file':>9} {'accuracy':>9} {'other labels':>13} {rows:>12}")
    for name, one in found.items():
        for place, row in enumerate(one.rows):
            file = "" if row.megabytes is None else f"{row.megabytes:.1f} MB"
            trees = f"{row.trees:,.0f}" if row.trees >= 100.0 else f"{row.trees:.1f}"
            other = "" if place == 0 else f"{row.differ:.1%}"
            print(
                f"{name if place == 0 else '':10}{row.what:18} {trees:>11} {file:>9} {row.accuracy:>9.1%} {other:>13} "
                f"{row.seconds:>10.3f} s"
            )


def _print_promises(found: dict[str, _Outcome]) -> None:
    print("\nWhat is promised:")
    for name, one in found.items():
        known = one.cut.certificate
        assert known is not None
        print(
            f"  {name}: the first {one.cut.n_kept:,} trees keep the label of all {_TREES:,} "
            f"on {_CERTIFIED:.0%} of rows like "
            f"these\n    (certified, {known.confidence:.0%} sure: {known.disagreements} of "
            f"{known.rows:,} held-out rows "
            f"differ); a new forest\n    needs {one.new.n_trees:,} trees to agree with an "
            f"unlimited forest on {_ALPHA:.0%}"
        )
    print("  other labels: held-out rows that the forest as trained labels otherwise; seconds are of the second call")


def _seconds(predict: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> float:
    started = time.perf_counter()
    predict(rows)
    return time.perf_counter() - started


def _megabytes(model: Any) -> float:
    """Size of the model in the file format of its framework."""
    integration = integration_for(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{integration.file_ending}"
        integration.save(adapter_for(model).booster, path)
        return path.stat().st_size / 1e6
