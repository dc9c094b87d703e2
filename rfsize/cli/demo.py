"""``rfsize demo``: size, truncate and compile a forest of each installed framework on real data."""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rfsize.api.report import Report
from rfsize.api.size import size, truncate
from rfsize.counting.api import tree_outputs
from rfsize.inference.api import compile as compiled
from rfsize.stopping.table import StopTable

_TREES = 500
_CERTIFIED, _ALPHA = 0.98, 0.99
_REPEATED = 10_000  # rows to time: the held-out rows, repeated


class _Row(NamedTuple):
    """One line of the table: the mean number of trees that predict a row, and shares of the held-out rows."""

    variant: str
    n_trees_used: float
    megabytes: float
    accuracy: float
    other_labels: float
    seconds: float


def _lightgbm(n_trees: int) -> Any:
    from lightgbm import LGBMClassifier

    bags: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3}
    return LGBMClassifier(n_estimators=n_trees, min_child_samples=5, random_state=0, n_jobs=1, verbose=-1, **bags)


def _xgboost(n_trees: int) -> Any:
    from xgboost import XGBClassifier

    bags = {"learning_rate": 1.0, "subsample": 0.632, "colsample_bynode": 0.2, "reg_lambda": 1e-5}
    return XGBClassifier(n_estimators=1, num_parallel_tree=n_trees, random_state=0, n_jobs=1, **bags)


def _sklearn(n_trees: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_trees, random_state=0, n_jobs=-1)


# Each framework, the extra that installs it, and its forest. Those that train with one thread do so faster: on so few
# rows, threads of theirs mostly wait for each other.
_FORESTS = {"LightGBM": ("lightgbm", _lightgbm), "XGBoost": ("xgboost", _xgboost), "scikit-learn": ("", _sklearn)}


def run_demo(_: argparse.Namespace) -> None:
    """Train, cut and compile a forest of each installed framework, and print the results.

    The data are the 1797 handwritten digits of scikit-learn; the task is whether a digit is 5 or more. Half of the rows
    train each forest. The other half certify how few of its trees are enough.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, digit = load_digits(return_X_y=True)
    split = train_test_split(X, (digit >= 5).astype(int), test_size=1 / 2, random_state=0)
    print(f"Handwritten digits, 5 or more? {len(split[0])} rows to train, {len(split[1])} held out, 64 features.\n")
    lines, promises, missing = [], [], []
    for framework, (extra, untrained) in _FORESTS.items():
        try:
            forest = untrained(_TREES)
        except ImportError:
            missing.append(f'{framework} is not installed: pip install -e ".[{extra}]"')
            continue
        except OSError as error:  # a library of the system is missing
            missing.append(f"{framework} cannot be imported: {error}")
            continue
        print(f"{framework:13}", end="", flush=True)
        rows, new, cut = _measured(forest, *split)
        print(flush=True)
        lines += [_line(framework if row is rows[0] else "", row) for row in rows]
        promises.append(_promise(framework, new, cut))
    timed = f"{_REPEATED:,} rows"
    print(f"\n{'':32} {'trees a row':>11} {'file':>9} {'accuracy':>9} {'other labels':>13} {timed:>12}")
    print(*lines, sep="\n")
    print("  other labels: of held-out rows, against the forest as trained; seconds: of the second call")
    print("\nWhat is promised:", *promises, sep="\n  ")
    if missing:
        print("\nNot shown:", *missing, sep="\n  ")


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Print the name of a step, and then the time that it took."""
    print(f" {name}", end="", flush=True)
    started = time.perf_counter()
    yield
    print(f" {time.perf_counter() - started:.1f} s,", end="", flush=True)


def _measured(forest: Any, X: Any, X_test: Any, y: Any, y_test: Any) -> tuple[list[_Row], Report, Report]:
    """What a forest costs as trained, cut and compiled; the size that a new forest needs; and the certified cut."""
    with _step(f"train {_TREES} trees"):
        model = forest.fit(X, y).set_params(n_jobs=-1)
    with _step("size them"):
        outputs = tree_outputs(model, X, oob=True)
        new = size(outputs, alpha=_ALPHA)
        cut = size(model, X_test, alpha=_CERTIFIED, target="model")
    with _step(f"cut to {cut.n_kept}"):
        small = truncate(model, n_trees=cut.n_kept)
    with _step("compile"):
        whole = compiled(model)
        stopping = compiled(model, StopTable.build(_TREES, alpha=_ALPHA, prior=outputs))
    repeated = np.resize(X_test, (_REPEATED, X_test.shape[1]))
    variants = {"as trained": model, "cut": small, "compiled": whole, "with a stop table": stopping}
    n_trees = _TREES, cut.n_kept, _TREES, float(stopping.predict(X_test, return_trees=True)[1].mean())
    rows = []
    with _step("predict"):
        before = model.predict(X_test)
        for (variant, predictor), n_trees_used in zip(variants.items(), n_trees, strict=True):
            labels = predictor.predict(X_test)
            started = time.perf_counter()
            predictor.predict(repeated)
            seconds = time.perf_counter() - started
            shares = float(np.mean(labels == y_test)), float(np.mean(labels != before))
            rows.append(_Row(variant, n_trees_used, _megabytes(predictor), *shares, seconds))
    return rows, new, cut


def _megabytes(predictor: Any) -> float:
    """Size of the file: a pickle, or what a compiled forest saves."""
    if not hasattr(predictor, "save"):
        return len(pickle.dumps(predictor)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(path := Path(folder) / "forest.rfsize")
        return path.stat().st_size / 1e6


def _line(framework: str, row: _Row) -> str:
    trees = f"{row.n_trees_used:,.0f}" if row.n_trees_used >= 100.0 else f"{row.n_trees_used:.1f}"
    other_labels = "" if framework else f"{row.other_labels:.1%}"
    return (
        f"{framework:14}{row.variant:18} {trees:>11} {row.megabytes:>6.2f} MB {row.accuracy:>9.1%} {other_labels:>13} "
        f"{row.seconds:>10.3f} s"
    )


def _promise(framework: str, new: Report, cut: Report) -> str:
    certificate = cut.certificate
    assert certificate is not None
    differing = f"{certificate.disagreements} of {certificate.rows:,} held-out rows differ"
    return f"""{framework}: the first {cut.n_kept} trees keep the label of all {_TREES} on {_CERTIFIED:.0%} of such rows
    (certified, {certificate.confidence:.0%} sure: {differing});
    a new forest needs {new.n_trees:,} trees to agree with an unlimited forest on {_ALPHA:.0%}"""
