"""Soft voting: agreement of averaged scores with their limit, for two classes and for more.

A forest predicts the class of the highest averaged score (of two classes, class 1 where it exceeds a cut). The lead,
over a rival, of the class that wins in the limit is on one tree a draw with mean μ and standard deviation σ; by the
central limit theorem that of T trees is above 0 with probability Φ(√T·μ/σ).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rfsize import theory
from rfsize.estimate import Curves, Estimate, Margins, spread_sizes
from rfsize.scores import Scores

Floats = NDArray[np.float64]


def leads(scores: Scores, cut: float) -> Floats:
    """μ/σ of the leading class over each rival, shape (n_rows, n_rivals), of rows that two trees or more scored."""
    scores = scores.take(scores.asked > 1)
    rows = np.arange(len(scores))
    if scores.n_scores == 1:
        mean = np.abs(scores.mean - cut)
        variance = scores.covariance(0, 0)[:, None]
    else:
        leader = scores.mean.argmax(axis=1)
        rivals = np.array([np.delete(np.arange(scores.n_scores), one) for one in range(scores.n_scores)])[leader]
        mean = scores.mean[rows, leader][:, None] - scores.mean[rows[:, None], rivals]
        own = scores.covariance(leader, leader)
        variance = np.stack(
            [own + scores.covariance(one, one) - 2.0 * scores.covariance(leader, one) for one in rivals.T], axis=1
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        lead = mean / np.sqrt(np.maximum(variance, 0.0))
    # Trees that all say the same are certain, unless what they say is a tie.
    return np.where(np.isnan(lead), 0.0, lead)


class SoftLeads(Estimate):
    """The measured leads of all rows, taken for the true ones."""

    def __init__(self, lead: Floats) -> None:
        self._lead = lead

    def _by_row(self, n_trees: int) -> Floats:
        return np.asarray(1.0 - ndtr(math.sqrt(n_trees) * self._lead).prod(axis=1))

    def disagreement(self, n_trees: int) -> float:
        return float(self._by_row(n_trees).mean())

    def size(self, alpha: float) -> int | float:
        return theory.smallest_odd(self.disagreement, alpha)

    def margins(self) -> Margins:
        nearest = self._lead.min(axis=1)
        return Margins(
            "winner's lead / standard deviation of a tree, up to 3", 0.0, 3.0, nearest, np.ones(len(nearest))
        )

    def replicates(self, size: int | float) -> Curves:
        sizes = spread_sizes()
        by_row = np.stack([self._by_row(int(size)) for size in sizes], axis=1)
        return Curves.drawn_again(sizes, by_row, np.ones(len(by_row)))

    def why_infinite(self, alpha: float) -> str:
        ties = float((self._lead <= 0.0).any(axis=1).mean())
        if ties / 2.0 <= 1.0 - alpha:
            return f"more than {theory.MAX_TREES:,} trees would be needed"
        return f"on {ties:.2%} of the rows the averaged scores are exactly level, and never settle"


def plug_in(scores: Scores, cut: float) -> SoftLeads:
    """The measured leads; raises ``ValueError`` where no row has the scores of two trees."""
    lead = leads(scores, cut)
    if not len(lead):
        raise ValueError("no row has the scores of two trees: there is nothing to size")
    return SoftLeads(lead)


ESTIMATORS: dict[str, Callable[[Scores, float], Estimate]] = {"auto": plug_in, "plugin": plug_in}
