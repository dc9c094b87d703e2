"""``rfsize demo``: size, cut and compile a forest of each installed framework on real data."""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rfsize.api.size import size, truncate
from rfsize.counting.api import tree_outputs
from rfsize.inference.api import compile as compile_model
from rfsize.stopping.table import StopTable

_TREES = 500
_CERTIFIED, _ALPHA = 0.98, 0.99
_REPEATED = 10_000  # rows to time: the held-out rows, repeated


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
    """Size, cut and compile a forest of each framework on real data.

    The data are the 1797 handwritten digits of scikit-learn; the task is whether a digit is 5 or more. Half of the rows
    train each forest. The other half certify how few of its trees are enough.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, digit = load_digits(return_X_y=True)
    split = train_test_split(X, (digit >= 5).astype(int), test_size=1 / 2, random_state=0)
    print(f"Handwritten digits, 5 or more? {len(split[0])} rows to train, {len(split[1])} held out, 64 features.\n")
    timed = f"{_REPEATED:,} rows"
    print(f"{'':32} {'trees a row':>11} {'file':>9} {'accuracy':>9} {'other labels':>13} {timed:>12}", flush=True)
    promises, missing = [], []
    for framework, (extra, untrained) in _FORESTS.items():
        try:
            forest = untrained(_TREES)
        except (ImportError, OSError) as error:  # it, or a library of the system that it needs, is missing
            missing.append(f'{framework} ({error}): pip install -e ".[{extra}]"')
            continue
        promises.append(_shown(framework, forest, *split))
    print("  other labels: of held-out rows, against the forest as trained; seconds: of the second call")
    print("\nWhat is promised:", *promises, sep="\n  ")
    if missing:
        print("\nNot shown:", *missing, sep="\n  ")


def _shown(framework: str, forest: Any, X: Any, X_test: Any, y: Any, y_test: Any) -> str:
    """Train a forest, and print what it costs as trained, cut and compiled; returns what is promised."""
    model = forest.fit(X, y).set_params(n_jobs=-1)
    outputs = tree_outputs(model, X, oob=True)
    new, cut = size(outputs, alpha=_ALPHA), size(model, X_test, alpha=_CERTIFIED, target="model")
    stopping = compile_model(model, StopTable.build(_TREES, alpha=_ALPHA, prior=outputs))
    n_trees_used = float(stopping.predict(X_test, return_trees=True)[1].mean())
    variants = {
        "as trained": (model, _TREES),
        "cut": (truncate(model, n_trees=cut.n_kept), cut.n_kept),
        "compiled": (compile_model(model), _TREES),
        "with a stop table": (stopping, n_trees_used),
    }
    before, repeated = model.predict(X_test), np.resize(X_test, (_REPEATED, X_test.shape[1]))
    for variant, (predictor, trees) in variants.items():
        labels = predictor.predict(X_test)
        started = time.perf_counter()
        predictor.predict(repeated)
        seconds = time.perf_counter() - started
        name, others = (framework, "") if predictor is model else ("", f"{np.mean(labels != before):.1%}")
        n_trees = f"{trees:,.0f}" if trees >= 100 else f"{trees:.1f}"
        print(
            f"{name:14}{variant:18} {n_trees:>11} {_megabytes(predictor):>6.2f} MB {np.mean(labels == y_test):>9.1%} "
            f"{others:>13} {seconds:>10.3f} s",
            flush=True,
        )
    certificate = cut.certificate
    assert certificate is not None
    differing = f"{certificate.disagreements} of {certificate.rows:,} held-out rows differ"
    return f"""{framework}: the first {cut.n_kept} trees keep the label of all {_TREES} on {_CERTIFIED:.0%} of such rows
    (certified, {certificate.confidence:.0%} sure: {differing});
    a new forest needs {new.n_trees:,} trees to agree with an unlimited forest on {_ALPHA:.0%}"""


def _megabytes(predictor: Any) -> float:
    """Size of the file: a pickle, or what a compiled forest saves."""
    if not hasattr(predictor, "save"):
        return len(pickle.dumps(predictor)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(path := Path(folder) / "forest.rfsize")
        return path.stat().st_size / 1e6
