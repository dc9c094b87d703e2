"""Whether smaller forests answer rows as the whole forest does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rfsize.certifying.promise import Promise
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.utils.typing import Bools, Floats, Int64s
from rfsize.voting.links import Link, Predictor


@dataclass(frozen=True)
class Likeness:
    """What of a row's mean scores must be as by all trees.

    Attributes
    ----------
    predictor : Predictor
        What the forest predicts from mean scores.
    metric : {"labels", "probabilities", "scores"}
    tolerance : float
        How far off probabilities or scores may be.
    """

    predictor: Predictor
    metric: str
    tolerance: float

    @classmethod
    def of(cls, rows: ForestOnRows, promise: Promise) -> Likeness:
        """What is promised of a forest."""
        return cls(rows.predictor, promise.metric, promise.tolerance)

    def classes(self, mean: Floats) -> Int64s:
        """Class index that mean scores of shape (…, n_scores) predict; 0 of a regression."""
        if not len(self.predictor.classes):
            return np.zeros(mean.shape[:-1], dtype=np.int64)
        return self.predictor.labels(self.predictor.predictions(mean))

    def differ(self, mean: Floats, whole: Floats) -> Bools:
        """Rows whose mean scores, shape (…, n_scores), answer unlike those of all trees, shape (…)."""
        if self.metric == "labels":
            return self.classes(mean) != self.classes(whole)
        apart = np.abs(self._numbers(mean) - self._numbers(whole)).max(axis=-1)
        return np.asarray(apart > self.tolerance)

    def _numbers(self, mean: Floats) -> Floats:
        """What is compared: probabilities, or scores, of a regressor as it predicts them."""
        if self.metric == "probabilities":
            return self.predictor.predictions(mean)
        link = Link("identity") if len(self.predictor.classes) else self.predictor.link
        return np.asarray(link.predicted(mean))
