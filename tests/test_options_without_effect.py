"""Options that would have no effect in a call are refused, and not ignored without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import make_scorer

import rfsize

BAGGED = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbosity": -1}
OF_NUMBERS = BAGGED | {"objective": "regression"}
AUC = {"metric": "auc", "tolerance": 0.01}
RMSE = {"metric": "rmse", "tolerance": 10.0}
PROBABILITIES = {"metric": "probabilities", "tolerance": 0.1, "alpha": 0.9}
WEIGHTS = np.ones(600)
SCORES = {"metric": "scores", "tolerance": 10.0, "alpha": 0.9}


class AtHand(NamedTuple):
    """Forests of scikit-learn, their training rows, and fresh ones."""

    forest: RandomForestClassifier
    numbers: RandomForestRegressor
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fresh: np.ndarray
    truth: np.ndarray

    @property
    def data(self) -> lgb.Dataset:
        return lgb.Dataset(self.X, self.y)

    def estimator(self, **options: Any) -> Any:
        options = {"max_trees": 120, **options}
        return rfsize.RightSizedClassifier(RandomForestClassifier(random_state=0), **options).fit(self.X, self.y)


@pytest.fixture(scope="module")
def at() -> AtHand:
    X, y = make_classification(1000, random_state=0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    forest, numbers = (
        kind(60, random_state=0).fit(X[:400], y[:400]) for kind in (RandomForestClassifier, RandomForestRegressor)
    )
    return AtHand(forest, numbers, X[:400], y[:400], weight, X[400:], y[400:])


CALLS: dict[str, Callable[[AtHand], object]] = {
    "tree_outputs: sample_weight": lambda at: rfsize.tree_outputs(at.forest, at.fresh, sample_weight=WEIGHTS),
    "size: method": lambda at: rfsize.size(at.forest, at.fresh, method="smooth", target="forest"),
    "size: max_rows": lambda at: rfsize.size(at.forest, at.fresh, max_rows=500, target="forest"),
    "size: confidence": lambda at: rfsize.size(at.forest, at.fresh, confidence=0.9),
    "truncate: confidence": lambda at: rfsize.truncate(at.forest, at.fresh, confidence=0.9),
    "truncate to a number: target and confidence": lambda at: rfsize.truncate(
        at.forest, n_trees=5, target="forest", confidence=0.9
    ),
    "size outputs: max_rows": lambda at: rfsize.size(rfsize.tree_outputs(at.forest, at.fresh), max_rows=300),
    "size outputs: groups": lambda at: rfsize.size(rfsize.tree_outputs(at.forest, at.fresh), groups="rows"),
    "size: tolerance": lambda at: rfsize.size(at.forest, at.fresh, tolerance=0.1),
    "oob_score of outputs: X": lambda at: rfsize.oob_score(rfsize.tree_outputs(at.forest, at.X, at.y, oob=True), at.X),
    "oob_score of outputs: groups": lambda at: rfsize.oob_score(
        rfsize.tree_outputs(at.forest, at.X, at.y, oob=True), groups="rows"
    ),
    "calibrate probabilities: threshold": lambda at: rfsize.StopTable.calibrate(
        at.forest, at.fresh, threshold=0.3, **PROBABILITIES
    ),
    "grow by rmse: threshold": lambda at: rfsize.grow(OF_NUMBERS, at.data, threshold=0.3, max_trees=100, **RMSE)[0],
    "SizeCallback by rmse: threshold": lambda at: rfsize.SizeCallback(threshold=0.3, **RMSE),
    "tree_outputs by cv: oob": lambda at: rfsize.tree_outputs(at.forest, at.X, at.y, cv=3, oob=True),
    "tree_outputs by cv: seed and subsample": lambda at: rfsize.tree_outputs(
        at.forest, at.X, at.y, cv=3, seed=1, subsample=0.5
    ),
    "tree_outputs by cv: missing": lambda at: rfsize.tree_outputs(at.forest, at.X, at.y, cv=3, missing=0.0),
    "estimator by auc: alpha": lambda at: at.estimator(alpha=0.9, **AUC),
    "estimator by auc: voting and average": lambda at: at.estimator(voting="hard", average="macro", **AUC),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_an_option_without_effect_is_refused(what: str, at: AtHand) -> None:
    options = what.partition(": ")[2]
    with pytest.raises(ValueError, match=f"^{options} would have no effect: .*[Ll]eave "):
        CALLS[what](at)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda at: rfsize.tree_outputs(at.numbers, at.fresh, threshold=0.3),
            "the forest predicts numbers: leave threshold",
        ),
        (
            lambda at: rfsize.StopTable.calibrate(at.forest, at.fresh, voting="soft", **PROBABILITIES),
            "voting='soft' is for labels",
        ),
        (
            lambda at: rfsize.StopTable.calibrate(at.numbers, at.fresh, average="macro", **SCORES),
            "average='macro' is over classes, and the forest predicts numbers",
        ),
    ],
)
def test_an_option_of_labels_is_refused_where_there_are_none(
    call: Callable[[AtHand], object], words: str, at: AtHand
) -> None:
    with pytest.raises(ValueError, match=words):
        call(at)


def share_of_right_labels(truth: np.ndarray, label: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    return float(np.average(truth == label, weights=sample_weight))


def test_weights_weigh_a_scorer_as_they_do_the_metric_of_its_name(at: AtHand) -> None:
    forest = RandomForestClassifier(60, random_state=0).fit(at.X, at.y)
    outputs = rfsize.tree_outputs(forest, at.X, at.y, oob=True)
    heavy = outputs.with_truth(at.y, at.weight)
    scorer = make_scorer(share_of_right_labels)
    weighed = rfsize.oob_score(heavy, metric=scorer).value
    assert weighed == pytest.approx(rfsize.oob_score(heavy, metric="accuracy").value)
    assert weighed != pytest.approx(rfsize.oob_score(outputs, metric=scorer).value)
