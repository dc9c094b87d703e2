"""Certified stop tables with 0.2 to 1 % of rows in class 1: trees asked and labels changed, by three promises.

    python benchmarks/rare_class_tables.py

LightGBM forests of 300 trees predict class 1 for as many rows as belong to it. 20,000 rows without labels make a table
for each promise: 1 % of all rows (micro), 1 % of each class (macro), and the smallest share of all rows that 20,000
rows can certify. Printed, on 100,000 fresh rows: the trees asked, the share of rows predicted as class 1 that the table
misses, and misses and false alarms per 10,000 rows.
"""

from __future__ import annotations

import warnings

import lightgbm as lgb
import numpy as np

import rfsize
from rfsize.certifying.certificate import finest_alpha

_BEHIND = {0.002: 8.0, 0.005: 6.9, 0.01: 6.0}  # log odds that class 1 falls behind
_ROWS, _FRESH, _TREES = 20_000, 100_000, 300


def draw(rng: np.random.Generator, n_rows: int, behind: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 12 features; class 1 depends on four of them."""
    X = rng.normal(size=(n_rows, 12))
    odds = 1.2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * X[:, 3] - behind
    return X, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-odds))).astype(int)


def main() -> None:
    """Print one row for each problem and promise."""
    warnings.simplefilter("ignore")
    print("| of class 1 | predicted | promise | trees asked | missed | misses, 10,000 rows | false alarms |")
    print("|---|---|---|---|---|---|---|")
    finest = finest_alpha(_ROWS, 0.95)
    promises = {"1 % of all rows": (0.99, "micro"), "1 % of each class": (0.99, "macro")}
    promises[f"{1.0 - finest:.2%} of all rows"] = (finest, "micro")
    for share, behind in _BEHIND.items():
        rng = np.random.default_rng(0)
        X, y = draw(rng, _ROWS, behind)
        model = lgb.LGBMClassifier(
            boosting_type="rf",
            n_estimators=_TREES,
            num_leaves=31,
            subsample=0.632,
            subsample_freq=1,
            colsample_bytree=0.6,
            verbose=-1,
            random_state=0,
        ).fit(X, y)
        calibration, fresh = draw(rng, _ROWS, behind)[0], draw(rng, _FRESH, behind)[0]
        threshold = float(np.quantile(rfsize.compile(model).predict_proba(calibration)[:, 1], 1.0 - share))
        whole = rfsize.compile(model, threshold=threshold).predict(fresh)
        for name, (alpha, average) in promises.items():
            try:
                table = rfsize.StopTable.calibrate(
                    model, calibration, alpha=alpha, average=average, threshold=threshold
                )
            except ValueError as error:
                print(f"| {share:.1%} | {whole.mean():.2%} | {name} | refused: {str(error).split(': give')[0]} | | | |")
                continue
            label, asked = rfsize.compile(model, table).predict(fresh, return_trees=True)
            misses, alarms = np.sum((whole == 1) & (label == 0)), np.sum((whole == 0) & (label == 1))
            per_row = 10_000 / _FRESH
            print(
                f"| {share:.1%} | {whole.mean():.2%} | {name} | {asked.mean():.1f} of {_TREES} | "
                f"{misses / max(whole.sum(), 1):.1%} | {misses * per_row:.1f} | {alarms * per_row:.1f} |"
            )


if __name__ == "__main__":
    main()
