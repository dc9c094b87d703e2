"""Out-of-bag predictions of the forest of a fitted estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_data import TrainingData
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.models.framework import read_forest


@dataclass(frozen=True, eq=False)
class OutOfBagPredictions:
    """Out-of-bag predictions of the training rows.

    Attributes
    ----------
    predicted : ndarray of float64, shape (n_rows, n_classes), or (n_rows, 1) for a regression
        NaN on rows that every tree saw.
    score : float or str
        Accuracy on the other rows, or R² for a regression; or a text that says why there is no score.
    """

    predicted: NDArray[np.float64]
    score: float | str

    @classmethod
    def of(cls, forest: Any, data: TrainingData, threshold: float) -> OutOfBagPredictions | str:
        """The out-of-bag predictions, or a text that says why there are none."""
        options: dict[str, Any] = {"sample_weight": data.weight, "groups": data.groups, "threshold": threshold}
        try:
            adapter = read_forest(forest)
            rows = ForestOnRows.of(adapter, data.X, data.target(forest), oob=True, **options)
            outputs = replace(Evidence.of(rows, "all"), y=data.truth)
            predictor, averages = outputs.asked_again.predictor, outputs.averages
        except (InbagError, NotAForestError) as refused:
            return str(refused)
        asked, predicted = averages.is_asked, predictor.predictions(averages.mean)
        lack = outputs.by_averages().of_some_rows("the out-of-bag score")
        score: float | str = math.nan
        if lack is not None:
            score = lack.message
        elif asked.any() and len(data.classes):
            score = float(np.mean(predictor.labels(predicted[asked]) == data.label[asked]))
        elif np.count_nonzero(asked) > 1:
            weight = None if data.weight is None else data.weight[asked]
            score = float(r2_score(data.label[asked], predicted[asked, 0], sample_weight=weight))
        return cls(np.where(asked[:, None], predicted, np.nan), score)
