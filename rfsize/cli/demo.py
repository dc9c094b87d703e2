"""``rfsize demo``: forests sized, truncated and compiled on real data, with each framework."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.api import votes
from rfsize.inference.compiled import compile as compiled
from rfsize.sizing.api import size, truncate
from rfsize.stopping.table import StopTable

_TREES = 1000
_ALPHA = 0.99
_SPLITS = 5
_REPEATED = 20_000  # rows to time, the held-out ones over and over


class _Outcome(NamedTuple):
    """One forest before and after."""

    trees: int
    megabytes_before: float
    megabytes_after: float
    same_label: float
    accuracy_before: float
    accuracy_after: float


class _Speed(NamedTuple):
    """One forest with a stop table."""

    asked: float
    differ: float
    seconds_framework: float
    seconds_all: float
    seconds_table: float


def run() -> None:
    """Train, size and truncate LightGBM and XGBoost forests, and print what came of it.

    The data are the 1797 handwritten digits that scikit-learn carries; the task, whether a digit is 5 or
    more. Each forest is sized from out-of-bag votes on its training rows and checked on the other third.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, digit = load_digits(return_X_y=True)
    y = (digit >= 5).astype(int)
    splits = [train_test_split(X, y, test_size=1 / 3, random_state=seed) for seed in range(_SPLITS)]
    rows, held_out = len(splits[0][0]), len(splits[0][1])
    print(f"Handwritten digits, 5 or more? {rows:,} rows to train, {held_out:,} held out, {X.shape[1]} features.")
    print(f"{_TREES:,} trees, cut to T*({_ALPHA:g}) from out-of-bag votes; means over {_SPLITS} splits:\n")
    print(f"{'':10} {'trees':>16} {'file size':>20} {'same label':>11} {'accuracy':>16}")
    for framework, train in _FRAMEWORKS:
        mean = _Outcome(*np.mean([_outcome(train, *split) for split in splits], axis=0))
        print(
            f"{framework:10} {_TREES:>7,} -> {mean.trees:>6.0f} {mean.megabytes_before:>8.1f} -> "
            f"{mean.megabytes_after:>5.1f} MB {mean.same_label:>10.1%} {mean.accuracy_before:>7.1%} -> "
            f"{mean.accuracy_after:.1%}"
        )
    print(
        "\n'same label': held-out rows on which the small forest votes as the large one does. T* promises "
        f"{_ALPHA:.0%} on average,\nagainst an infinite forest."
    )
    print(
        f"\nAll {_TREES:,} trees compiled, with a stop table (alpha = {_ALPHA:g}, optimal rule, prior from out-of-bag "
        f"votes); seconds for\n{_REPEATED:,} rows:\n"
    )
    print(
        f"{'':10} {'trees asked':>12} {'other label':>12} {'booster.predict':>16} {'compiled':>10} {'with table':>11}"
    )
    for framework, train in _FRAMEWORKS:
        fast = _Speed(*np.mean([_speed(train, *split) for split in splits], axis=0))
        print(
            f"{framework:10} {fast.asked:>12.1f} {fast.differ:>12.1%} {fast.seconds_framework:>14.3f} s "
            f"{fast.seconds_all:>8.3f} s {fast.seconds_table:>9.3f} s"
        )


def _outcome(
    train: Callable[..., Any], X: NDArray[Any], X_test: NDArray[Any], y: NDArray[Any], y_test: NDArray[Any]
) -> _Outcome:
    model = train(X, y)
    report = size(model, X, alpha=_ALPHA, oob=True)
    small = truncate(model, n_trees=report.n_kept)
    before, after = (votes(forest, X_test).winner() for forest in (model, small))
    return _Outcome(
        trees=report.n_kept,
        megabytes_before=_megabytes(model),
        megabytes_after=_megabytes(small),
        same_label=float(np.mean(before == after)),
        accuracy_before=float(np.mean(before == y_test)),
        accuracy_after=float(np.mean(after == y_test)),
    )


def _speed(
    train: Callable[..., Any], X: NDArray[Any], X_test: NDArray[Any], y: NDArray[Any], _: NDArray[Any]
) -> _Speed:
    model = train(X, y)
    table = StopTable.build(_TREES, alpha=_ALPHA, prior=votes(model, X, oob=True), rule="optimal")
    whole, settled = compiled(model), compiled(model, table)
    labels, asked = settled.predict(X_test, return_trees=True)
    rows = np.resize(X_test, (_REPEATED, X_test.shape[1]))
    return _Speed(
        asked=float(asked.mean()),
        differ=float(np.mean(labels != whole.predict(X_test))),
        seconds_framework=_seconds(model.predict, rows),
        seconds_all=_seconds(whole.predict, rows),
        seconds_table=_seconds(settled.predict, rows),
    )


def _seconds(predict: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> float:
    predict(rows[:10])
    started = time.perf_counter()
    predict(rows)
    return time.perf_counter() - started


def _lightgbm(X: NDArray[Any], y: NDArray[Any]) -> Any:
    from lightgbm import LGBMClassifier

    forest = LGBMClassifier(
        boosting_type="rf",
        n_estimators=_TREES,
        subsample=0.632,
        subsample_freq=1,
        colsample_bytree=0.3,
        min_child_samples=5,
        random_state=0,
        verbose=-1,
    )
    return forest.fit(X, y)


def _xgboost(X: NDArray[Any], y: NDArray[Any]) -> Any:
    from xgboost import XGBClassifier

    forest = XGBClassifier(
        n_estimators=1,
        num_parallel_tree=_TREES,
        learning_rate=1.0,
        subsample=0.632,
        colsample_bynode=0.2,
        reg_lambda=1e-5,
        random_state=0,
    )
    return forest.fit(X, y)


_FRAMEWORKS = (("LightGBM", _lightgbm), ("XGBoost", _xgboost))


def _megabytes(model: Any) -> float:
    """Size of the model saved as its framework saves it."""
    booster = model.booster_ if hasattr(model, "booster_") else model.get_booster()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model.txt" if hasattr(model, "booster_") else "model.ubj")
        booster.save_model(str(path))
        return path.stat().st_size / 1e6
