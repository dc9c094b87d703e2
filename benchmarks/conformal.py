"""How often sets and intervals from out-of-bag predictions contain the truth: plain NumPy, crepes and MAPIE.

    pip install crepes mapie
    python benchmarks/conformal.py --repetitions 20

Forests of 100 trees of LightGBM, XGBoost and scikit-learn are trained on 500 rows and predict 2,000 fresh rows, at 90
%.

Sets of classes, on threenorm with one row in ten of the second class: the share of fresh rows whose set contains their
class (of all rows and of each class), and the mean number of classes in a set; with one quantile for all rows, and with
one for each class.

Intervals of numbers: the share that contains the truth (of all rows, and of the fifth with the largest predictions),
and the width; compared with a forest that is trained on half of the rows and calibrated on the other half.

crepes and MAPIE get the same out-of-bag predictions. Their coverage is printed for the first framework.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import made
import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import rfsize

ROWS, FRESH, TREES, SURE = 500, 2000, 100, 0.9
LIGHTGBM = {
    "boosting_type": "rf",
    "n_jobs": 1,
    "subsample": 0.632,
    "subsample_freq": 1,
    "colsample_bytree": 0.5,
    "verbose": -1,
}
XGBOOST = {
    "n_estimators": 1,
    "num_parallel_tree": TREES,
    "learning_rate": 1,
    "subsample": 0.632,
    "colsample_bynode": 0.5,
}
FORESTS: dict[str, tuple[Any, Any]] = {
    "LightGBM": (
        LGBMClassifier(n_estimators=TREES, min_child_samples=5, **LIGHTGBM),
        LGBMRegressor(n_estimators=TREES, min_child_samples=5, **LIGHTGBM),
    ),
    "XGBoost": (XGBClassifier(**XGBOOST), XGBRegressor(**XGBOOST)),
    "scikit-learn": (RandomForestClassifier(TREES), RandomForestRegressor(TREES)),
}


def quantile(scores: np.ndarray) -> float:
    """The score that a fresh row exceeds in one case of ten at most."""
    rank = int(np.ceil((len(scores) + 1) * SURE))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else np.inf


def classes(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = made.threenorm(10 * n_rows, seed=seed)
    low, high = np.flatnonzero(y == 0)[: n_rows - n_rows // 10], np.flatnonzero(y == 1)[: n_rows // 10]
    rows = np.random.default_rng(seed).permutation(np.concatenate([low, high]))
    return X[rows], y[rows]


def numbers(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 8))
    return X, 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + rng.normal(
        size=n_rows
    )


def sets(model: Any, rows: Any, fresh: Any) -> list[float]:
    """Coverage of all, class 0 and class 1, classes in a set; by one quantile, then by one for each class."""
    (X, y), (X_new, y_new) = rows, fresh
    out_of_bag = rfsize.oob_predict_proba(model, X)
    known = ~np.isnan(out_of_bag[:, 0])
    score = 1.0 - out_of_bag[np.arange(len(y)), y]
    by_class = [quantile(score[known & (y == one)]) for one in (0, 1)]
    found: list[float] = []
    for limit in ([quantile(score[known])] * 2, by_class):
        in_set = 1.0 - model.predict_proba(X_new) <= np.array(limit)
        holds = in_set[np.arange(len(y_new)), y_new]
        found += [holds.mean(), *(holds[y_new == one].mean() for one in (0, 1)), in_set.sum(axis=1).mean()]
    return found


def coverage(predicted: np.ndarray, half: float, truth: np.ndarray) -> list[float]:
    """Coverage of all rows and of the fifth with the largest predictions, and the width."""
    holds, large = np.abs(truth - predicted) <= half, predicted >= np.quantile(predicted, 0.8)
    return [holds.mean(), holds[large].mean(), 2.0 * half]


def intervals(model: Any, rows: Any, fresh: Any) -> list[float]:
    """Coverage and width by out-of-bag predictions, and by half of the rows."""
    (X, y), (X_new, y_new) = rows, fresh
    apart = np.abs(y - rfsize.oob_predict(model, X))
    found = coverage(model.predict(X_new), quantile(apart[~np.isnan(apart)]), y_new)
    half = len(y) // 2
    model.fit(X[:half], y[:half])
    return found + coverage(model.predict(X_new), quantile(np.abs(y[half:] - model.predict(X[half:]))), y_new)


class Predicted(BaseEstimator):
    """An estimator that has predicted all rows, and is given their numbers: what MAPIE asks."""

    def __init__(self, predicted: Any = None) -> None:
        self.predicted = predicted

    def fit(self, X: Any, y: Any) -> Predicted:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _of(self, rows: Any) -> np.ndarray:
        return self.predicted[np.asarray(rows)[:, 0].astype(int)]


class PredictedNumbers(RegressorMixin, Predicted):
    def predict(self, X: Any) -> np.ndarray:
        return self._of(X)


class PredictedClasses(ClassifierMixin, Predicted):
    classes_ = np.array([0, 1])

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._of(X)

    def predict(self, X: Any) -> np.ndarray:
        return self._of(X).argmax(axis=1)


def by_others(classifier: Any, regressor: Any, of_classes: Any, of_numbers: Any) -> list[float]:
    """Coverage by crepes (sets, sets by class: class 0 and 1; intervals) and by MAPIE (sets, intervals)."""
    from crepes import ConformalClassifier, ConformalRegressor
    from mapie.classification import SplitConformalClassifier
    from mapie.regression import SplitConformalRegressor

    (X, y), (X_new, y_new) = of_classes
    probability, fresh = rfsize.oob_predict_proba(classifier, X), classifier.predict_proba(X_new)
    known = ~np.isnan(probability[:, 0])
    score, each = (1.0 - probability[np.arange(len(y)), y])[known], np.arange(len(y_new))
    found = [
        ConformalClassifier().fit(score).predict_set(1.0 - fresh, confidence=SURE, smoothing=False)[each, y_new].mean()
    ]
    by_class = ConformalClassifier().fit(score, bins=y[known])
    for one in (0, 1):
        some = y_new == one
        held = by_class.predict_set(1.0 - fresh[some], bins=y_new[some], confidence=SURE, smoothing=False)
        found.append(held[:, one].mean())
    everything = np.concatenate([probability[known], fresh])
    place = np.arange(len(everything))[:, None]
    n_known = int(known.sum())
    mapie = SplitConformalClassifier(PredictedClasses(everything), confidence_level=SURE, prefit=True)
    mapie_sets = mapie.conformalize(place[:n_known], y[known]).predict_set(place[n_known:])[1]

    (X, y), (X_new, y_new) = of_numbers
    out_of_bag, predicted = rfsize.oob_predict(regressor, X), regressor.predict(X_new)
    known = ~np.isnan(out_of_bag)
    span = ConformalRegressor().fit((y - out_of_bag)[known]).predict_int(predicted, confidence=SURE)
    found.append(((span[:, 0] <= y_new) & (y_new <= span[:, 1])).mean())
    everything, n_known = np.concatenate([out_of_bag[known], predicted]), int(known.sum())
    place = np.arange(len(everything))[:, None]
    of_mapie = SplitConformalRegressor(PredictedNumbers(everything), confidence_level=SURE, prefit=True)
    span = of_mapie.conformalize(place[:n_known], y[known]).predict_interval(place[n_known:])[1][:, :, 0]
    held = ((span[:, 0] <= y_new) & (y_new <= span[:, 1])).mean()
    return [*found, mapie_sets[each, of_classes[1][1], 0].mean(), held]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore")
    found: dict[str, list[list[float]]] = {name: [] for name in FORESTS}
    others = []
    for seed in range(repetitions):
        of_classes, of_numbers = ((of(ROWS, seed), of(FRESH, 10_000 + seed)) for of in (classes, numbers))
        for name, forests in FORESTS.items():
            classifier, regressor = (one.set_params(random_state=seed) for one in forests)
            classifier.fit(*of_classes[0])
            regressor.fit(*of_numbers[0])
            if name == "LightGBM":
                others.append(by_others(classifier, regressor, of_classes, of_numbers))
            found[name].append(sets(classifier, *of_classes) + intervals(regressor, *of_numbers))
    print(
        "sets by one quantile: all, class 0, class 1, classes in a set; then by one for each class; intervals out of "
        "bag: all, largest fifth, width; then by half of the rows"
    )
    for name, rows in found.items():
        print(f"{name:<14}", " ".join(f"{value:.3f}" for value in np.mean(rows, axis=0)))
    print("crepes: sets, class 0 and class 1 by class, intervals; MAPIE: sets, intervals (LightGBM)")
    print(" ".join(f"{value:.3f}" for value in np.mean(others, axis=0)))


if __name__ == "__main__":
    main()
