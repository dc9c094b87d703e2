"""What is lost to rounding in the scores that are read from LightGBM's training predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from rfsize.exceptions import NotAForestError
from rfsize.integrations.lightgbm.model_text import LINKS, ForestText
from rfsize.models.link import Link
from rfsize.utils.typing import Bools, Floats

# Scores this close to the threshold, or to another class, are ties, because differences have rounding noise.
TIE = 1e-9

# The mean scores, times the slope, that a prediction can hold. A probability near 1 is known to 1e-16, so from log-odds
# of 36 on it rounds to 1, and before that a single tree among a thousand is no longer seen. Small probabilities are
# known to full precision down to the smallest double.
_LOWEST, _HIGHEST = -690.0, 690.0
_HIGHEST_LOG_ODDS = 30.0

_EPSILON = float(np.finfo(float).eps)


class LightGbmLink(Link):
    """The link from mean scores to LightGBM's predictions, and its inverse."""

    @classmethod
    def of(cls, forest: ForestText, params: dict[str, Any]) -> LightGbmLink:
        """The link of a forest, with the slope from ``params``, because the text rounds it.

        Raises `NotAForestError` if the link has no inverse.
        """
        name, _, options = forest.header.get("objective", "custom").partition(" ")
        if name not in LINKS:
            raise NotAForestError(
                f"the objective is '{name}', from whose predictions the scores of single trees cannot be read; train "
                f"with one of {', '.join(LINKS)}"
            )
        slope = float(params.get("sigmoid", forest.sigmoid)) if "sigmoid:" in options else 1.0
        return cls("logistic" if name == "multiclassova" else forest.link.kind, slope)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest mean score, times the slope, that `score` returns."""
        if self.kind in ("identity", "square"):
            return -np.inf, np.inf
        return _LOWEST, _HIGHEST_LOG_ODDS if self.kind == "logistic" else _HIGHEST

    def score(self, predicted: Floats) -> Floats:
        """Mean scores times the slope, from LightGBM's predictions; for a softmax, up to a constant for each row.

        A mean beyond `bounds` counts as the bound: the row is settled.
        """
        if self.kind == "identity":
            return predicted.copy()
        if self.kind == "square":
            return np.sign(predicted) * np.sqrt(np.abs(predicted))
        with np.errstate(divide="ignore"):
            score = np.log(predicted / (1.0 - predicted) if self.kind == "logistic" else predicted)
        return np.clip(score, *self.bounds)


@dataclass
class Newest:
    """The scores of the newest tree (of each class) on some rows.

    ``score`` and ``noise``, the bound on its rounding noise (None if negligible everywhere), have the shape
    (n_outputs, n_rows). The noise is infinite where the mean before or after the tree is at a bound of the link. The
    scores of a softmax lack one constant for each row. ``known`` marks the rows with known scores. ``tie`` is the noise
    to expect in any score, and ``exact`` says that there is no noise.
    """

    tree: int
    score: Floats
    noise: Floats | None
    known: Bools
    tie: float
    exact: bool = False

    @property
    def bounded(self) -> Bools:
        """Rows whose mean score, before or after the tree, is at a bound."""
        return np.zeros_like(self.known) if self.noise is None else np.asarray(np.isinf(self.noise).any(axis=0))


def newest_scores(link: LightGbmLink, tree: int, before: Floats, mean: Floats) -> Newest:
    """The scores of a tree, from the change of the mean.

    A probability p is known to about one unit in the last place, and its log-odds to this unit over 1 − p. The noise is
    both, multiplied by the number of trees.

    Parameters
    ----------
    link : LightGbmLink
    tree : int
        Number of trees before.
    before, mean : ndarray of float64, shape (n_outputs, n_rows)
        Mean scores before and after the tree, from `LightGbmLink.score`.
    """
    score = (tree + 1) * mean - tree * before
    noise, tie = _noise_and_tie(link, tree, before, mean)
    return Newest(tree, score, noise, np.ones(score.shape[1], dtype=np.bool_), tie)


def _noise_and_tie(link: LightGbmLink, tree: int, before: Floats, mean: Floats) -> tuple[Floats | None, float]:
    unit, (low, high) = _EPSILON * (tree + 1), link.bounds
    highest, lowest = max(before.max(), mean.max()), min(before.min(), mean.min())
    is_bounded = None
    if lowest <= low or highest >= high:
        is_bounded = (np.minimum(before, mean) <= low) | (np.maximum(before, mean) >= high)
    if link.kind == "logistic":
        if highest < 7.0 and is_bounded is None:
            return None, TIE
        noise = 8.0 * unit / expit(-np.maximum(before, mean))
        return noise if is_bounded is None else np.where(is_bounded, np.inf, noise), TIE
    scale = max(highest, -lowest, 1.0 if link.kind in {"softmax", "exp"} else 0.0)
    return None if is_bounded is None else np.where(is_bounded, np.inf, 0.0), 64.0 * unit * float(scale)


def first_of_tied(score: Floats, tie: float) -> NDArray[np.int16]:
    """Class with the highest score on each row; of classes within ``tie`` of it, the lowest index."""
    highest, vote = score[0].copy(), np.zeros(score.shape[1], dtype=np.int16)
    for index, of_class in enumerate(score[1:], 1):
        vote[of_class > highest + tie] = index
        np.fmax(highest, of_class, out=highest)
    return vote


def tied(score: Floats, tie: float) -> Bools:
    """Whether another class scores nearly as high, so that rounding hides which class has the highest score."""
    highest = score.max(axis=0)
    return np.asarray(((score < highest) & (score >= highest - tie)).any(axis=0))


def is_certain(score: Floats, noise: Floats, vote: NDArray[np.int16]) -> Bools:
    """Whether noise cannot lift another class above the class of the vote."""
    certain = np.ones(len(vote), dtype=np.bool_)
    noisy = np.flatnonzero(noise.max(axis=0) > TIE)
    own = vote[noisy], np.arange(noisy.size)
    with np.errstate(invalid="ignore"):
        low, high = (score[:, noisy] - noise[:, noisy])[own], score[:, noisy] + noise[:, noisy]
        high[own] = -np.inf
        certain[noisy] = low > high.max(axis=0)
    return certain
