"""``rfsize demo``: the main job on real data, with each framework."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.sizing import size, truncate, votes

_TREES = 1000
_ALPHA = 0.99
_SPLITS = 5


class _Outcome(NamedTuple):
    """One forest before and after."""

    trees: int
    megabytes_before: float
    megabytes_after: float
    same_label: float
    accuracy_before: float
    accuracy_after: float


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
    for framework, train in (("LightGBM", _lightgbm), ("XGBoost", _xgboost)):
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


def _megabytes(model: Any) -> float:
    """Size of the model saved as its framework saves it."""
    booster = model.booster_ if hasattr(model, "booster_") else model.get_booster()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model.txt" if hasattr(model, "booster_") else "model.ubj")
        booster.save_model(str(path))
        return path.stat().st_size / 1e6
