"""``rfsize demo``: the main job on real data, with each framework."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rfsize.sizing import size, truncate, votes

_TREES = 1000
_ALPHA = 0.99


def run() -> None:
    """Train, size and truncate a LightGBM and an XGBoost forest, and print what came of it.

    The data are the 1797 handwritten digits that scikit-learn carries; the task, whether a digit is 5 or
    more. Each forest is sized from out-of-bag votes on its training rows and checked on the other third.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, digit = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, (digit >= 5).astype(int), test_size=1 / 3, random_state=0)
    print(f"Handwritten digits, 5 or more? {len(X):,} rows to train, {len(X_test):,} held out, {X.shape[1]} features.")
    print(f"{_TREES:,} trees of each framework, cut to T*({_ALPHA:g}) from out-of-bag votes:\n")
    print(f"{'':10} {'trees':>16} {'file size':>20} {'same label':>11} {'accuracy':>16}")
    for framework, model in (("LightGBM", _lightgbm(X, y)), ("XGBoost", _xgboost(X, y))):
        report = size(model, X, alpha=_ALPHA, oob=True)
        small = truncate(model, n_trees=report.n_kept)
        before, after = (_file_size(forest) for forest in (model, small))
        large_label, small_label = (votes(forest, X_test).winner() for forest in (model, small))
        accuracy = [f"{np.mean(label == y_test):.1%}" for label in (large_label, small_label)]
        print(
            f"{framework:10} {_TREES:>7,} → {report.n_kept:>6,} {before:>8.1f} → {after:>5.1f} MB "
            f"{np.mean(large_label == small_label):>10.1%} {accuracy[0]:>7} → {accuracy[1]}"
        )
    print(
        "\n'same label': held-out rows on which the small forest votes as the large one does. T* promises "
        f"{_ALPHA:.0%} on average,\nagainst an infinite forest."
    )


def _lightgbm(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
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


def _xgboost(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
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


def _file_size(model: Any) -> float:
    """Megabytes of the model saved as its framework saves it."""
    booster = model.booster_ if hasattr(model, "booster_") else model.get_booster()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model.txt" if hasattr(model, "booster_") else "model.ubj")
        booster.save_model(str(path))
        return path.stat().st_size / 1e6
