"""What `RightSizedClassifier` and `RightSizedRegressor` fit forests on, and what these predict of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils import _safe_indexing

from rfsize.adapters.registry import adapter_for, integration_for, integration_of
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.errors import InbagError, NotAForestError


@dataclass(frozen=True)
class TrainingData:
    """Rows, what to predict of them, their weights, and which of them belong together.

    Labels are indices into the sorted classes, or where there are no classes numbers.
    """

    X: Any
    classes: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    groups: Any = None

    def part(self, rows: NDArray[np.int64]) -> TrainingData:
        """Some of the rows, and the classes that these have."""
        weight = None if self.weight is None else self.weight[rows]
        if not len(self.classes):
            return TrainingData(_safe_indexing(self.X, rows), self.classes, self.label[rows], weight)
        present, label = np.unique(self.label[rows], return_inverse=True)
        if len(present) < 2:
            raise ValueError(
                f"all rows outside a fold are of the class {self.classes[present].tolist()}: the others have too few "
                "rows for cross-validation; give more rows, or as cv= folds that leave rows of two classes"
            )
        return TrainingData(_safe_indexing(self.X, rows), self.classes[present], label, weight)

    @property
    def truth(self) -> NDArray[Any]:
        """Labels as they were given, or numbers."""
        return self.classes[self.label] if len(self.classes) else self.label

    def target(self, estimator: Any) -> NDArray[Any]:
        """Labels as the estimator takes them."""
        return self.label if integration_for(estimator).labels_are_indices else self.truth

    def fitted(self, estimator: Any, n_trees: int) -> Any:
        """A forest of so many trees, trained on the rows."""
        return of_size(estimator, n_trees).fit(self.X, self.target(estimator), sample_weight=self.weight)


def tree_counts(estimator: Any) -> set[str]:
    """Parameters that tell an estimator its number of trees; none where it trains no trees."""
    integration = integration_of(estimator)
    return (
        set() if integration is None else integration.tree_count_parameters(estimator) & estimator.get_params().keys()
    )


def of_size(estimator: Any, n_trees: int) -> Any:
    """A copy, not fitted, that will train so many trees."""
    return clone(estimator).set_params(**dict.fromkeys(tree_counts(estimator), n_trees))


@dataclass(frozen=True, eq=False)
class OutOfBagPredictions:
    """What a forest predicts of its training rows.

    Attributes
    ----------
    predicted : ndarray of float64, shape (n_rows, n_classes), or of regression (n_rows, 1)
        NaN on rows that every tree saw.
    score : float or str
        Share of the other rows whose label is right, of regression their R²; or why these rows do not tell it.
    """

    predicted: NDArray[np.float64]
    score: float | str

    @classmethod
    def of(cls, forest: Any, data: TrainingData) -> OutOfBagPredictions | str:
        """What a forest predicts, or why that is not known."""
        options: dict[str, Any] = {"sample_weight": data.weight, "groups": data.groups}
        try:
            adapter = adapter_for(forest, casts_votes=False)
            rows = ForestOnRows.of(adapter, data.X, data.target(forest), oob=True, **options)
            outputs = replace(TreeOutputs.of(rows, "all"), y=data.truth)
            predictor, averages = outputs.averaging_predictor, outputs.averages
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
