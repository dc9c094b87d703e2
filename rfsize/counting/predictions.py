"""What a forest predicts of rows by the trees that were asked about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.representative import RowsAsked
from rfsize.exceptions import FewVotesError, NoVotesWarning
from rfsize.utils.typing import Floats
from rfsize.utils.warn import warn
from rfsize.voting.averages import Averages
from rfsize.voting.links import Predictor


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a forest predicts of rows by the trees that were asked about each.

    Methods take what rows get that no tree was asked about as ``fill``, and warn by `NoVotesWarning` where rows have no
    prediction, or those that have tell nothing of the others.

    Attributes
    ----------
    predictor : Predictor
        From mean scores to predictions.
    averages : Averages
        Mean scores of the rows.
    asked : RowsAsked
        How many trees each was asked of.
    """

    predictor: Predictor
    averages: Averages
    asked: RowsAsked

    def given_as(self, kind: str, fill: Any) -> NDArray[Any]:
        """Predictions as ``predict`` of a model gives them; see `Adapter.predict_gives`."""
        if kind == "labels":
            return self.labels(fill)
        predicted = self._predicted
        if kind == "class numbers":
            predicted = self.predictor.labels(predicted).astype(np.float64)
        elif kind != "probabilities" or self.averages.mean.shape[1] == 1:
            predicted = predicted[:, -1]
        return self._filled(predicted, fill)

    def labels(self, fill: Any) -> NDArray[Any]:
        """Labels; `FewVotesError` where rows have none, and ``fill`` names none."""
        labels, is_asked = self.predictor.classes[self.predictor.labels(self._predicted)], self.averages.is_asked
        self._warn_of_scores(None)
        if fill is not None:
            return np.where(is_asked, labels, fill)
        if not is_asked.all():
            raise FewVotesError(
                f"{self._unasked}, and have no label: name one by fill=, such as fill=-1, or take predict_proba, which "
                "is NaN there"
            )
        return np.asarray(labels)

    def probabilities(self, fill: float | None) -> Floats:
        """Probabilities of all classes; of regression, numbers, shape (n_rows, 1)."""
        return self._filled(self._predicted, fill)

    @property
    def _predicted(self) -> Floats:
        return self.predictor.predictions(self.averages.mean)

    def _filled(self, predicted: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Predictions, and on rows that no tree was asked about NaN, or what is to be there."""
        is_asked = self.averages.is_asked
        self._warn_of_scores(is_asked if fill is None else None)
        return np.where(
            is_asked if predicted.ndim == 1 else is_asked[:, None], predicted, np.nan if fill is None else fill
        )

    def _warn_of_scores(self, is_asked: NDArray[np.bool_] | None) -> None:
        """Warn where a score of the predictions would mislead, or rows are NaN since no tree ``is_asked``."""
        lack = self.asked.of_some_rows("how good the forest is on fresh rows")
        if lack is not None:
            warn(lack.message, NoVotesWarning)
        elif is_asked is not None and not is_asked.all():
            warn(
                f"{self._unasked}, and have NaN for a prediction: leave them out, or train more trees, or with a "
                "smaller bagging fraction",
                NoVotesWarning,
            )

    @property
    def _unasked(self) -> str:
        """What to say of rows without a tree."""
        n_rows = np.count_nonzero(~self.averages.is_asked)
        return f"of {n_rows:,} of the training rows no tree may be asked, since each saw them or others of their groups"
