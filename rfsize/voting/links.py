"""Links: what a forest predicts from the mean of its trees' scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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

    def moved(self, score: Floats, by: Floats) -> Floats:
        """What the predictions move by, to first order, where mean scores do; arguments as in `predicted`."""
        found, by = self.predicted(score), self.slope * by
        if self.kind in ("logistic", "one-vs-all"):
            return found * (1.0 - found) * by
        if self.kind == "softmax":
            return found * (by - np.sum(found * by, axis=-1, keepdims=True))
        if self.kind == "exp":
            return found * by
        return 2.0 * self.slope * np.abs(score) * by if self.kind == "square" else by

    def probabilities(self, score: Floats) -> Floats:
        """Probabilities of all classes from mean scores, shape (…, n_classes); of two classes there is one score."""
        if score.shape[-1] > 1:
            return self.predicted(score)
        other = self.predicted(-score) if self.kind == "logistic" else 1.0 - self.predicted(score)
        return np.concatenate([other, self.predicted(score)], axis=-1)
