"""How does XGBoost's default learning rate, 0.3, change a random forest?

    python benchmarks/learning_rate.py

Forests of 300 trees of XGBoost are trained on 3000 rows of threenorm, whose second class has a half or a tenth of the
rows. They differ only in learning rate and base_score (by default XGBoost takes the share of class 1). Printed: log
loss and errors on 5000 fresh rows, the share of class 1 among the labels, the labels that differ from those of
learning_rate=1, and the trees that `rfsize.size` asks for to keep probabilities within 0.02.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import xgboost as xgb
from made import threenorm
from sklearn.metrics import log_loss

import rfsize

TREES, ROWS, FRESH = 300, 3000, 5000
FOREST = {"objective": "binary:logistic", "num_parallel_tree": TREES, "subsample": 0.632, "colsample_bynode": 0.3}
FOREST |= {"max_depth": 8, "seed": 0, "nthread": 1}


def drawn(share: float, seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with this share of class 1."""
    X, y = threenorm(int(2.5 * n_rows), seed)
    ones = round(share * n_rows)
    kept = np.sort(np.concatenate([np.flatnonzero(y == 1)[:ones], np.flatnonzero(y == 0)[: n_rows - ones]]))
    return X[kept], y[kept]


def line(share: float, base_score: float | None, rate: float, labels_of_one: np.ndarray | None) -> np.ndarray:
    """Print the line of one forest; returns its labels on fresh rows."""
    X, y = drawn(share, 0, ROWS)
    fresh, truth = drawn(share, 1, FRESH)
    params: dict[str, Any] = FOREST | {"learning_rate": rate}
    params |= {} if base_score is None else {"base_score": base_score}
    model = xgb.train(params, xgb.DMatrix(X, y), 1)
    probability = model.predict(xgb.DMatrix(fresh)).astype(float)
    labels = probability > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.ForestWarning)
        size = rfsize.size(model, fresh, metric="probabilities", tolerance=0.02).n_trees
    other = 0.0 if labels_of_one is None else np.mean(labels != labels_of_one)
    print(
        f"{share:>8.0%} {'share' if base_score is None else base_score:>10} {rate:>13} "
        f"{log_loss(truth, probability):>8.3f} {np.mean(labels != truth):>7.1%} {labels.mean():>8.1%} {other:>7.1%} "
        f"{size:>4}",
        flush=True,
    )
    return labels


def main() -> None:
    """Print one line per forest."""
    print(
        f"{'class 1':>8} {'base_score':>10} {'learning_rate':>13} {'log loss':>8} {'errors':>7} {'labels 1':>8} "
        f"{'differ':>7} {'size':>4}"
    )
    for share in (0.5, 0.1):
        for base_score in (0.5, None):
            labels = line(share, base_score, 1.0, None)
            for rate in (0.3, 0.1):
                line(share, base_score, rate, labels)


if __name__ == "__main__":
    main()
