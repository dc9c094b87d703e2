"""Predictor: what a forest predicts from the mean scores of its trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Floats
from rfsize.voting.links import Link


@dataclass(frozen=True, eq=False)
class Predictor:
    """What a forest predicts from mean scores.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Class labels; empty for regression.
    link : Link
        From mean scores to probabilities or numbers.
    threshold : float
        Probability of class 1 above which it is predicted; two classes only.
    """

    classes: NDArray[Any]
    link: Link
    threshold: float = 0.5

    def predictions(self, mean: Floats) -> Floats:
        """From mean scores of shape (…, n_scores) probabilities of all classes, or one number: (…, n_outputs)."""
        return self.link.predictions(mean, len(self.classes))

    def labels(self, probability: Floats) -> NDArray[np.int64]:
        """Index of the class that probabilities of all classes, shape (…, n_classes), predict."""
        if probability.shape[-1] > 2:
            return np.asarray(probability.argmax(axis=-1), dtype=np.int64)
        return np.asarray(probability[..., 1] > self.threshold, dtype=np.int64)
