"""Whether SizeCallback ever ends a training by an error, and whether its T* is that of the finished forest.

    python benchmarks/callback_runs.py

Draws 200 trainings: 0.1 to 50 % positives or three classes with a rare one, 1,000 to 20,000 rows, by `lgb.train`,
`lgb.cv` and `LGBMClassifier.fit`, with `data=` and without, for labels, probabilities and metrics. Where the callback
stopped `lgb.train` or `fit`, T* is compared with the 95 % interval of `rfsize.size(oob=True)` of all trees that were
grown, and of the forest that was returned. The latter has other trees, so that T* may lie outside by chance.
"""

from __future__ import annotations

import argparse
import collections
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np

import rfsize

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5)
KINDS = (*SHARES, "multiclass", "multiclassova")
ROWS, WAYS = (1000, 4000, 20_000), ("train", "fit", "cv")
LABELS: list[dict[str, Any]] = [{"alpha": 0.99}, {"alpha": 0.999}, {"alpha": 0.99, "voting": "hard"}]
GOALS = (*LABELS, {"metric": "probabilities", "tolerance": 0.02}, {"metric": "log_loss", "tolerance": 0.005})
AUC = {"metric": "auc", "tolerance": 0.005}
MOST_TREES = 300


def problem(kind: Any, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns; a latent number of three of them and noise; a class for each range of it."""
    X = rng.normal(size=(n_rows, 10))
    latent = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows)
    shares = [1.0 - kind] if isinstance(kind, float) else [0.7, 0.99]
    return X, np.searchsorted(np.quantile(latent, shares), latent)


def settings(kind: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Parameters of a forest."""
    objective = {"objective": "binary"} if isinstance(kind, float) else {"objective": kind, "num_class": 3}
    sampling = {"boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1, "feature_fraction": 0.6}
    leaves = {"num_leaves": int(rng.choice([15, 63])), "min_data_in_leaf": int(rng.choice([1, 5, 20]))}
    return {**objective, **sampling, **leaves, "seed": int(rng.integers(1000)), "verbose": -1}


def trained(way: str, params: dict[str, Any], X: np.ndarray, y: np.ndarray, callback: Any) -> Any:
    """Train with the callback, by one of three ways; return the booster, if there is one."""
    if way == "train":
        return lgb.train(params, lgb.Dataset(X, y), MOST_TREES, callbacks=[callback])
    if way == "cv":
        lgb.cv(params, lgb.Dataset(X, y), MOST_TREES, nfold=3, callbacks=[callback])
        return None
    options = {name: value for name, value in params.items() if name not in ("verbose", "num_class", "boosting")}
    model = lgb.LGBMClassifier(n_estimators=MOST_TREES, boosting_type="rf", verbose=-1, **options)
    return model.fit(X, y, callbacks=[callback]).booster_


def main() -> None:
    """Print how many trainings ended by an error, and how often T* lay in the interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, counts = np.random.default_rng(0), collections.defaultdict(lambda: np.zeros(6, dtype=int))
    for run in range(options.runs):
        kind, way = KINDS[run % len(KINDS)], str(rng.choice(WAYS))
        n_rows, gives_data = int(rng.choice(ROWS, p=[0.5, 0.4, 0.1])), bool(rng.integers(2))
        goals = [*GOALS, AUC] if isinstance(kind, float) else GOALS
        goal = goals[rng.integers(len(goals))]
        (X, y), params = problem(kind, n_rows, rng), settings(kind, rng)
        callback = rfsize.SizeCallback(**goal, data=X if gives_data else None)
        outcome = np.array([1, 0, 0, 0, 0, 0])
        try:
            booster = trained(way, params, X, y, callback)
        except Exception as error:
            outcome[1] = 1
            print(f"{kind} {way} {n_rows} rows, {goal}, data={gives_data}: {type(error).__name__}: {error}", flush=True)
        report = callback.report_
        if not outcome[1] and (report is None or not report.enough):
            outcome[2] = 1
        elif not outcome[1] and booster is not None:
            whole = lgb.train(params, lgb.Dataset(X, y), report.available)
            inside = []
            for forest in (whole, booster):
                try:
                    low, high = rfsize.size(forest, X, y, oob=True, **goal).interval
                except rfsize.exceptions.FewVotesError:  # too few trees were kept to size them again
                    low, high = 1, np.inf
                inside.append(low <= report.n_trees <= high)
            outcome[3:] = 1, *inside
            if options.verbose and not all(inside):
                print(f"{kind} {way} {n_rows} rows, {goal}, data={gives_data}: T* {report.n_trees}, {inside}")
        of_share = kind if isinstance(kind, str) else "at most 2 % positives" if kind <= 0.02 else "5 to 50 % positives"
        for row in ("all", way, "with data=" if gives_data else "without data=", of_share, f"{n_rows:,} rows"):
            counts[row] += outcome
    print(f"{'':22}{'runs':>6}{'errors':>8}{'not enough':>12}{'stopped':>9}{'T* in: all grown':>18}{'kept':>6}")
    for row, (runs, errors, short, stopped, of_all, of_kept) in counts.items():
        print(f"{row:22}{runs:6}{errors:8}{short:12}{stopped:9}{of_all:18}{of_kept:6}")


if __name__ == "__main__":
    main()
