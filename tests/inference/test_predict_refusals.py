"""What compiled forests do not predict, and rows and tables that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier

import rfsize
from helpers.compiled_forests import Models, fresh
from helpers.forests import Data


def test_tables_that_do_not_fit_are_refused(models: Models, rows: np.ndarray, data: Data) -> None:
    binary, three, numbers = models("lgb booster"), models("lgb booster of three"), models("lgb regression")
    X = fresh(rows)
    labels = rfsize.StopTable.calibrate(binary, X, alpha=0.9)
    with pytest.raises(ValueError, match="for 21 trees and 2 classes, the forest has 21 trees and 3 classes"):
        rfsize.compile(three, labels)
    with pytest.raises(ValueError, match="for 21 trees and 2 classes, the forest has 20"):
        rfsize.compile(rfsize.truncate(binary, n_trees=20), labels)
    with pytest.raises(ValueError, match=r"a threshold of 0\.5, found threshold=0\.3"):
        rfsize.compile(binary, labels, threshold=0.3)
    with pytest.raises(ValueError, match="the table is of averaged scores, but labels are to go by votes"):
        rfsize.compile(binary, labels, voting="hard")
    with pytest.raises(ValueError, match="the table is of votes, but labels are to go by averaged scores"):
        rfsize.compile(binary, rfsize.StopTable.build(21), voting="soft")
    of_scores = rfsize.StopTable.calibrate(binary, X, alpha=0.9, metric="scores", tolerance=0.2)
    with pytest.raises(ValueError, match="calibrated for scores"):
        rfsize.compile(binary, of_scores)
    with pytest.raises(ValueError, match="2 classes, the forest has 21 trees and no classes"):
        rfsize.compile(numbers, labels)
    of_numbers = rfsize.StopTable.calibrate(numbers, X, alpha=0.9, metric="scores", tolerance=0.2)
    with pytest.raises(ValueError, match="no classes, the forest has 21 trees and 2 classes"):
        rfsize.compile(binary, of_numbers)


def test_what_a_forest_cannot_say_is_refused(models: Models, rows: np.ndarray, data: Data) -> None:
    numbers = models("random forest regression")
    for option in ({"voting": "hard"}, {"voting": "soft"}, {"threshold": 0.5}):
        with pytest.raises(ValueError, match="decides labels, and the forest predicts numbers"):
            rfsize.compile(numbers, **option)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="no labels"):
        rfsize.compile(numbers).predict_labels(rows)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="cast no votes"):
        rfsize.compile(numbers).votes(rows)
    with pytest.raises(rfsize.exceptions.NotAForestError, match="no probabilities"):
        rfsize.compile(numbers).predict_proba(rows)
    with pytest.raises(ValueError, match="voting must be one of"):
        rfsize.compile(numbers, voting="weak")  # type: ignore[arg-type]
    boosted = AdaBoostClassifier(n_estimators=5, random_state=0).fit(data.X, data.y)
    with pytest.raises(ValueError, match="AdaBoost's own predict weighs the votes"):
        rfsize.compile(boosted, voting="soft")
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        rfsize.compile(models("lgb booster"), threshold=1.0)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39, np.nan])
@pytest.mark.parametrize("name", ["random forest", "bagging", "random forest regression"])
def test_one_row_is_refused_as_many_are(name: str, value: float, models: Models, rows: np.ndarray) -> None:
    fast = rfsize.compile(models(name))
    refused = []
    for size in (1, 16, 17, 3000):
        X = rows[:size].copy()
        X[-1, 3] = value
        try:
            fast.predict(X)
            refused.append("")
        except ValueError as error:
            refused.append(str(error))
        try:
            models(name).predict(X)
            assert not refused[-1]
        except ValueError:
            assert refused[-1]
    assert len(set(refused)) == 1


@pytest.mark.parametrize("X", [np.zeros((0, 8)), np.zeros(8), np.zeros((3, 7)), np.zeros((1, 9)), np.zeros((1, 1, 8))])
def test_few_rows_of_another_shape_are_refused(X: np.ndarray, models: Models) -> None:
    for name in ("lgb booster", "lgb regression"):
        with pytest.raises(ValueError, match=r"no rows|dimensions|columns"):
            rfsize.compile(models(name)).predict(X)
