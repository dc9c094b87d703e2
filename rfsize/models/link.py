"""Links: the functions that turn the mean score of a forest's trees into a prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from rfsize._util import Floats

# What each link predicts from scores, in the order of compiled code, and its derivative if that is no p · (1 − p).
_PREDICTED: dict[str, Callable[[Any], Any]] = {
    "logistic": expit,
    "softmax": partial(softmax, axis=-1),
    "one-vs-all": expit,
    "identity": lambda score: score,
    "exp": np.exp,
    "square": lambda score: np.sign(score) * score * score,
    "step": lambda score: np.where(score > 0.0, 1.0, 0.0),
    "softplus": lambda score: np.log1p(np.exp(score)),
}
_DERIVATIVE: dict[str, Callable[[Any], Any]] = {
    "identity": np.ones_like,
    "exp": np.exp,
    "square": lambda score: 2.0 * np.abs(score),
    "step": np.zeros_like,
    "softplus": expit,
}
LINKS = tuple(_PREDICTED)
"""All links, in the order of compiled code."""


@dataclass(frozen=True)
class Link:
    """Turns mean scores into predictions.

    Attributes
    ----------
    kind : {"logistic", "softmax", "one-vs-all", "identity", "exp", "square", "step", "softplus"}
        "logistic" and "one-vs-all" turn each score into one probability. "softmax" turns all scores into the
        probabilities of all classes. "square" keeps the sign. "step" is 1 above zero, else 0. "softplus" is
        log(1 + exp(score)).
    slope : float
        Factor by which the mean scores are multiplied first.
    """

    kind: str
    slope: float = 1.0

    def predicted(self, score: NDArray[Any]) -> Floats:
        """Predictions from mean scores, both of shape (…, n_scores)."""
        return np.asarray(_PREDICTED[self.kind](self.slope * score))

    def score_at(self, probability: float) -> float:
        """The mean score of a probability of class 1, for two classes."""
        if self.kind == "identity":
            return probability / self.slope
        if self.kind == "step":
            return 0.0
        return math.log(probability / (1.0 - probability)) / self.slope

    def steepness(self, score: Floats) -> Floats:
        """Derivative of each prediction with respect to its own mean score; arguments as in `predicted`."""
        if self.kind in _DERIVATIVE:
            return np.asarray(self.slope * _DERIVATIVE[self.kind](self.slope * score))
        predicted = self.predicted(score)
        return self.slope * predicted * (1.0 - predicted)

    def slopes(self, score: Floats) -> Floats:
        """Derivatives of all predictions with respect to all mean scores, shape (…, n_scores, n_scores)."""
        same = np.eye(score.shape[-1])
        slopes = self.steepness(score)[..., None] * same
        if self.kind == "softmax":
            predicted = self.predicted(score)
            slopes -= self.slope * predicted[..., None] * predicted[..., None, :] * (1.0 - same)
        return np.asarray(slopes)

    def predictions(self, score: Floats, n_classes: int) -> Floats:
        """What a forest predicts from mean scores of shape (…, n_scores); two classes have a single score.

        Returns the probabilities of all classes, shape (…, n_classes). For a regression, which has no classes, it
        returns one number, shape (…, 1).
        """
        if not n_classes or score.shape[-1] > 1:
            return self.predicted(score)
        both = np.empty((*score.shape[:-1], 2))
        both[..., 1:] = self.predicted(score)
        both[..., :1] = self.predicted(-score) if self.kind == "logistic" else 1.0 - both[..., 1:]
        return both


@dataclass(frozen=True, eq=False)
class Predictor:
    """Turns mean scores into probabilities, numbers or labels.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Class labels; empty for regression.
    link : Link
        Turns mean scores into probabilities or numbers.
    threshold : float
        Class 1 is predicted if its probability is above the threshold; two classes only.
    voting : {"soft", "hard"}
        Whether the model's own ``predict`` uses the averaged scores ("soft") or the majority vote ("hard").
    cut : float or None
        Score above which class 1 is predicted, if the framework compares scores; None if it compares probabilities,
        which are rounded.
    """

    classes: NDArray[Any]
    link: Link
    threshold: float = 0.5
    voting: str = "soft"
    cut: float | None = None

    @property
    def raw_threshold(self) -> float:
        """Mean score above which class 1 is predicted; two classes only."""
        return self.link.score_at(self.threshold)

    def link_to(self, metric: str) -> Link:
        """The link to probabilities, or to numbers; "scores" of classes are taken as they are."""
        return Link("identity") if metric == "scores" and len(self.classes) else self.link

    def predictions(self, mean: Floats) -> Floats:
        """Probabilities of all classes, or one number, shape (…, n_outputs), from mean scores, shape (…, n_scores)."""
        return self.link.predictions(mean, len(self.classes))

    def labels_of_scores(self, score: Floats) -> NDArray[np.int64]:
        """Index of the predicted class, from raw scores of shape (…, n_scores)."""
        if self.cut is None:
            return self.labels(self.predictions(score))
        return np.asarray(score.argmax(axis=-1) if score.shape[-1] > 1 else score[..., 0] > self.cut, dtype=np.int64)

    def labels(self, probability: Floats) -> NDArray[np.int64]:
        """Index of the predicted class, from the probabilities of all classes, shape (…, n_classes)."""
        if probability.shape[-1] > 2:
            return np.asarray(probability.argmax(axis=-1), dtype=np.int64)
        return np.asarray(probability[..., 1] > self.threshold, dtype=np.int64)
