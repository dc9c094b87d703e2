"""Rounding noise in the scores that are read from LightGBM's training predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from rfsize.exceptions import NotAForestError
from rfsize.integrations.lightgbm.model_text import LINKS, ForestText
from rfsize.utils.typing import Bools, Floats
from rfsize.voting.links import Link

# Scores this close to the threshold, or to another class, are ties, because differences have rounding noise.
TIE = 1e-9


_LEAST_LOG = -690.0  # of a probability that is known to full precision


# A score counts in means and scatter if its rounding noise is at most this share of it.
_BLUR = 1e-2


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

    def score(self, predicted: Floats) -> Floats:
        """Mean scores times the slope, from LightGBM's predictions; for a softmax, up to a constant for each row."""
        if self.kind == "identity":
            return predicted.copy()
        if self.kind == "square":
            return np.sign(predicted) * np.sqrt(np.abs(predicted))
        with np.errstate(divide="ignore"):
            return np.log(predicted / (1.0 - predicted) if self.kind == "logistic" else predicted)


@dataclass
class Newest:
    """The scores of the newest tree (of each class) on every row.

    ``score`` and ``noise``, the bound on its rounding noise (None if negligible everywhere), have the shape
    (n_outputs, n_rows). The scores of a softmax lack one constant for each row. ``known`` marks the rows with known
    scores. ``tie`` is the noise to expect in any score, and ``exact`` says that there is no noise. ``text`` is the text
    of the tree, once it was read.
    """

    tree: int
    score: Floats
    noise: Floats | None
    known: Bools
    tie: float
    text: ForestText | None = None
    exact: bool = False


def rounding_noise(link: LightGbmLink, tree: int, before: Floats, mean: Floats) -> tuple[Floats | None, float]:
    """Bound on the rounding noise of the scores of a tree, and the noise to expect in any score.

    The bound is ``inf`` where scores are lost, and None if it is negligible everywhere. A probability p is known to
    about one unit in the last place, and its log-odds to this unit over 1 − p. Both are multiplied by the number of
    trees.

    Parameters
    ----------
    link : LightGbmLink
    tree : int
        Number of trees before.
    before, mean : ndarray of float64, shape (n_outputs, n_rows)
        Mean scores before and after the tree.
    """
    unit = _EPSILON * (tree + 1)
    highest = max(before.max(), mean.max())
    if link.kind == "logistic":
        if highest < 7.0:
            return None, TIE
        with np.errstate(divide="ignore"):
            return 8.0 * unit / expit(-np.maximum(before, mean)), TIE
    lowest = min(before.min(), mean.min())
    if link.kind == "softmax" and lowest < _LEAST_LOG:
        lost = (np.minimum(before, mean) < _LEAST_LOG).any(axis=0)
        return np.where(lost, np.inf, np.zeros_like(mean)), -64.0 * unit * _LEAST_LOG
    scale = max(highest, -lowest, 1.0 if link.kind in {"softmax", "exp"} else 0.0)
    return None, 64.0 * unit * float(scale)


def are_sharp(newest: Newest) -> Bools:
    """Rows with known scores, in which rounding noise hardly changes means or scatter."""
    if newest.noise is None:
        return newest.known
    sharp = newest.noise <= TIE + _BLUR * np.abs(newest.score)
    return np.asarray(newest.known & sharp.all(axis=0))


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
