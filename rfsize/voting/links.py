"""Links: what a forest predicts from the mean of its trees' scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from rfsize.utils.typing import Floats

LINKS = ("logistic", "softmax", "one-vs-all", "identity", "exp", "square")


@dataclass(frozen=True)
class Link:
    """From mean scores to predictions.

    Attributes
    ----------
    kind : {"logistic", "softmax", "one-vs-all", "identity", "exp", "square"}
        "logistic" and "one-vs-all" predict one probability from each score, "softmax" those of all classes together;
        "square" keeps the sign.
    slope : float
        What the mean scores are multiplied by first.
    """

    kind: str
    slope: float = 1.0

    def predicted(self, score: Floats) -> Floats:
        """Predictions from mean scores, both of shape (…, n_scores)."""
        score = self.slope * score
        if self.kind in ("logistic", "one-vs-all"):
            return np.asarray(expit(score))
        if self.kind == "softmax":
            return np.asarray(softmax(score, axis=-1))
        if self.kind == "exp":
            return np.exp(score)
        return np.sign(score) * score * score if self.kind == "square" else score

    def steepness(self, score: Floats) -> Floats:
        """What each prediction moves by where its own mean score does, by one; arguments as in `predicted`."""
        if self.kind in ("logistic", "one-vs-all", "softmax"):
            found = self.predicted(score)
            return self.slope * found * (1.0 - found)
        if self.kind == "exp":
            return self.slope * self.predicted(score)
        return 2.0 * self.slope**2 * np.abs(score) if self.kind == "square" else np.full_like(score, self.slope)

    def predictions(self, score: Floats, n_classes: int) -> Floats:
        """What a forest predicts from mean scores of shape (…, n_scores).

        Probabilities of all classes, shape (…, n_classes), or of regression, which has none, one number, shape (…, 1).
        """
        return self.probabilities(score) if n_classes else self.predicted(score)

    def probabilities(self, score: Floats) -> Floats:
        """Probabilities of all classes from mean scores, shape (…, n_classes); of two classes there is one score."""
        if score.shape[-1] > 1:
            return self.predicted(score)
        other = self.predicted(-score) if self.kind == "logistic" else 1.0 - self.predicted(score)
        return np.concatenate([other, self.predicted(score)], axis=-1)


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
