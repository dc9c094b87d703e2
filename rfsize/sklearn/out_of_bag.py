"""Out-of-bag predictions of the forest of a fitted estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from rfsize.counting.outputs import coverage_of_means, means_of, outputs_of
from rfsize.counting.task import Task
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.models.estimators import TrainingData


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
            task = Task.of(forest, data.X, data.target(forest), oob=True, **options)
            outputs = replace(outputs_of(task, means=True), y=data.truth)
        except (InbagError, NotAForestError) as refused:
            return str(refused)
        means, predictor = means_of(outputs), task.predictor
        is_known, predicted = means.is_known, predictor.predictions(means.mean)
        problem = coverage_of_means(outputs).problem_of_some("the out-of-bag score")
        score: float | str = math.nan
        if problem is not None:
            score = str(problem)
        elif is_known.any() and len(data.classes):
            score = float(np.mean(predictor.labels(predicted[is_known]) == data.label[is_known]))
        elif np.count_nonzero(is_known) > 1:
            weight = None if data.weight is None else data.weight[is_known]
            score = float(r2_score(data.label[is_known], predicted[is_known, 0], sample_weight=weight))
        return cls(np.where(is_known[:, None], predicted, np.nan), score)
