"""If a class is rare, what does sizing by labels cost, and does sizing by a metric keep its promise?

    python benchmarks/imbalanced.py
    python benchmarks/imbalanced.py --rows 5000 --trees 200

In two problems, about 6 % and 1 % of the rows are of class 1. A forest of each framework is cut out of bag: by the
default, T*(0.99) of the labels of its own predict; and by the AUC within 0.003. Printed: the trees kept, whether rfsize
warned (and of what), and AUC and log loss on fresh rows.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, roc_auc_score
from xgboost import XGBClassifier

import rfsize

_LEVELS = {"6 %": 3.9, "1 %": 5.9}  # log odds that the rarer class falls behind by
_FRESH = 40_000
_TOLERANCE = 0.003


def draw(rng: np.random.Generator, n_rows: int, behind: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 20 features; class 1 depends on four of them."""
    X = rng.normal(size=(n_rows, 20))
    odds = 1.2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * X[:, 3] - behind
    return X, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-odds))).astype(int)


def forests(n_trees: int) -> dict[str, Any]:
    """One untrained forest of each framework."""
    bags = {"subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.6}
    one_round = {"n_estimators": 1, "learning_rate": 1, "subsample": 0.632, "colsample_bynode": 0.5}
    return {
        "LightGBM": lgb.LGBMClassifier(boosting_type="rf", n_estimators=n_trees, num_leaves=63, verbose=-1, **bags),
        "XGBoost": XGBClassifier(num_parallel_tree=n_trees, max_depth=8, **one_round),
        "random forest": RandomForestClassifier(n_trees, min_samples_leaf=5, n_jobs=2, random_state=0),
    }


def heard(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, and the warnings that it gave."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = call()
    names = sorted({one.category.__name__ for one in told if one.category.__module__.startswith("rfsize")})
    return found, ", ".join(name for name in names if name != "ForestWarning") or "-"


def main() -> None:
    """Print one row for each problem, framework and forest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--trees", type=int, default=400)
    options = parser.parse_args()
    print("| of class 1 | framework | forest | trees | warned | AUC | log loss |\n|---|---|---|---|---|---|---|")
    for level, behind in _LEVELS.items():
        rng = np.random.default_rng(0)
        X, y = draw(rng, options.rows, behind)
        fresh, truth = draw(rng, _FRESH, behind)
        for framework, forest in forests(options.trees).items():
            whole = forest.fit(X, y)
            of_training: dict[str, Any] = {"X": X, "y": y, "oob": True}
            metric: dict[str, Any] = {"metric": "auc", "tolerance": _TOLERANCE}
            cut = {
                "whole": whole.set_params,
                "labels, α = 0.99": partial(rfsize.truncate, whole, **of_training),
                f"AUC within {_TOLERANCE}": partial(rfsize.truncate, whole, **of_training, **metric),
            }
            for name, make in cut.items():
                model, warned = heard(make)
                p = model.predict_proba(fresh)[:, 1]
                cells = [level, framework, name, rfsize.tree_outputs(model, fresh[:10]).votes.n_trees, warned]
                print("|", *map("{} |".format, cells), f"{roc_auc_score(truth, p):.4f} | {log_loss(truth, p):.4f} |")


if __name__ == "__main__":
    main()
