"""Scikit-learn's ensembles, and what their members say."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from helpers.forests import Data

ROWS = 400
NAMES = np.array(["ash", "elm", "oak"])
FORESTS: dict[str, Any] = {
    "random forest": RandomForestClassifier(31, random_state=1),
    "shallow forest": RandomForestClassifier(31, max_depth=3, max_samples=0.4, random_state=1),
    "extra-trees": ExtraTreesClassifier(31, bootstrap=True, random_state=1),
    "bagging": BaggingClassifier(n_estimators=31, random_state=1),
    "subspaces": BaggingClassifier(
        DecisionTreeClassifier(max_depth=4),
        n_estimators=31,
        max_samples=0.5,
        bootstrap=False,
        max_features=0.5,
        bootstrap_features=True,
        random_state=1,
    ),
}
OTHERS: dict[str, Any] = {
    "stumps": BaggingClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=15, random_state=1),
    "neighbours": BaggingClassifier(KNeighborsClassifier(), n_estimators=15, random_state=1),
    "perceptron": BaggingClassifier(Perceptron(), n_estimators=15, max_features=0.7, random_state=1),
    "svm": BaggingClassifier(SVC(), n_estimators=5, random_state=1),
}
ALL = FORESTS | OTHERS


def labels(data: Data, n_classes: int) -> np.ndarray:
    return data.y[:ROWS] if n_classes == 2 else NAMES[data.three[:ROWS]]


def fitted(kind: str, data: Data, n_classes: int = 2, **params: Any) -> Any:
    return clone(ALL[kind]).set_params(**params).fit(data.X[:ROWS], labels(data, n_classes))


def own_votes(model: Any, X: np.ndarray) -> np.ndarray:
    """Each member's own prediction as an index, shape (n_members, n_rows)."""
    everything = [slice(None)] * len(model.estimators_)
    features = getattr(model, "estimators_features_", everything)
    return np.array([tree.predict(X[:, f]) for tree, f in zip(model.estimators_, features, strict=True)]).astype(int)


def own_bags(model: Any) -> np.ndarray:
    inbag = np.zeros((len(model.estimators_), ROWS), dtype=bool)
    for member, samples in enumerate(model.estimators_samples_):
        inbag[member, samples] = True
    return inbag
