"""Soft voting: agreement of averaged scores with their limit, for two classes and for more.

A forest predicts the class of the highest averaged score (of two classes, class 1 where it exceeds a cut). Over a
rival, the class that wins in the limit leads on one tree by a draw with mean μ and standard deviation σ; by the
central limit theorem T trees keep it ahead with probability Φ(√T·μ/σ). The row's *lead* is μ/σ.

Leads measured on a few trees scatter, which makes rows look closer to a tie than they are, just as counted vote
fractions do; and the remedy is the same density, of Φ(−lead) in place of the vote fraction (`rfsize.mixture`). Of n
normal scores, √2·asinh(lead/√2) is measured with a variance of 1/n whatever the lead is,

    N. Laubscher (1960). "Normalizing the noncentral t and F distributions." Annals of Mathematical Statistics 31(4),
    1105-1112.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rfsize import theory
from rfsize.estimate import Curves, Estimate, Margins, sizes_around, spread_sizes
from rfsize.mixture import Density, VoteCells, fit
from rfsize.scores import Scores
from rfsize.votes import VoteHistogram

Floats = NDArray[np.float64]

# Relative to the scores, what rounding makes of a difference, and of a variance that is a difference, where both are 0.
_ROUNDING = 1e-12

# Leads of two classes are put together that are alike to one part in so many; Φ(−40) is 0 in double precision.
_PARTS, _LEAST, _MOST = 512, 1e-12, 40.0

# Rows from which the size is guessed before all are looked at, and from which what further rivals add is told.
_SOME_ROWS = 1000
_RIVAL_ROWS = 5000


class Leads(NamedTuple):
    """How far the leading class is ahead of each rival, on the rows that two trees or more scored.

    Attributes
    ----------
    lead : ndarray of float, shape (n_rows, n_rivals)
        μ/σ, at least 0; infinite where the trees all say the same.
    asked : ndarray of int32, shape (n_rows,)
        Trees whose scores it was measured on, at least 2.
    """

    lead: Floats
    asked: NDArray[np.int32]

    @classmethod
    def of(cls, scores: Scores, cut: float) -> Leads:
        """Measured leads; of two classes that have one score, that over or under the cut.

        Raises
        ------
        ValueError
            If no row has the scores of two trees, or a score is not finite.
        """
        scores = scores.take(scores.asked > 1)
        if not len(scores):
            raise ValueError("no row has the scores of two trees: there is nothing to size")
        if not (np.isfinite(scores.mean).all() and np.isfinite(scores.scatter).all()):
            raise ValueError(
                "the trees' scores must be finite, found NaN or infinite ones: a leaf of the model holds no number"
            )
        if scores.n_scores == 1:
            return cls(_ratio(scores.mean - cut, scores.covariance(0, 0)[:, None], abs(cut), 0.0), scores.asked)
        leader = scores.mean.argmax(axis=1)
        lead = np.empty((len(scores), scores.n_scores - 1))
        top, own = scores.mean.max(axis=1), scores.covariance(leader, leader)
        for place in range(scores.n_scores - 1):
            rival = place + (place >= leader)
            behind = top - scores.mean[np.arange(len(scores)), rival]
            apart = own + scores.covariance(rival, rival)
            variance = apart - 2.0 * scores.covariance(leader, rival)
            lead[:, place] = _ratio(behind, variance, np.abs(top), apart)
        return cls(lead, scores.asked)


def _ratio(mean: Floats, variance: Floats, level: Floats | float, apart: Floats | float) -> Floats:
    """|μ|/σ; trees that, but for rounding, all say the same are certain."""
    level = np.maximum(np.abs(mean), level)
    same = variance <= (_ROUNDING * level) ** 2 + _ROUNDING * apart
    return np.where(same, np.inf, np.abs(mean) / np.sqrt(np.where(same, 1.0, variance)))


class SoftLeads(Estimate):
    """The measured leads of all rows, taken for the true ones.

    With several rivals, agreement is taken as the product over them.
    """

    def __init__(self, lead: Floats, rows: Floats) -> None:
        self._lead = lead
        self._rows = rows

    @classmethod
    def of(cls, leads: Leads) -> SoftLeads:
        """Those measured; of two classes alike ones are put together, which changes agreement by 1e-6 of itself."""
        lead = leads.lead
        if lead.shape[1] > 1:
            return cls(lead, np.ones(len(lead)))
        lead = np.minimum(lead[:, 0], _MOST)
        place = np.ceil(np.log(np.maximum(lead, _LEAST) / _LEAST) * _PARTS).astype(np.int64)
        rows = np.bincount(place).astype(np.float64)
        some = np.flatnonzero(rows)
        return cls((np.bincount(place, weights=lead)[some] / rows[some])[:, None], rows[some])

    def nearest(self) -> SoftLeads:
        """Those over the nearest rival alone."""
        return SoftLeads(self._lead.min(axis=1, keepdims=True), self._rows)

    def some(self, n_rows: int) -> SoftLeads:
        """Those of about so many rows, or of all."""
        step = max(1, len(self._rows) // n_rows)
        return SoftLeads(self._lead[::step], self._rows[::step])

    def _by_row(self, n_trees: int) -> Floats:
        overtaken = ndtr(-math.sqrt(n_trees) * self._lead)
        return np.asarray(-np.expm1(np.log1p(-overtaken).sum(axis=1)))

    def disagreement(self, n_trees: int) -> float:
        return float(np.average(self._by_row(n_trees), weights=self._rows))

    def size(self, alpha: float) -> int | float:
        guess = theory.smallest_odd(self.some(_SOME_ROWS).disagreement, alpha)
        return theory.smallest_odd(self.disagreement, alpha, 1 if math.isinf(guess) else int(guess))

    def margins(self) -> Margins:
        return _margins(self._lead.min(axis=1), self._rows)

    def replicates(self, size: int | float) -> Curves:
        sizes = sizes_around(size)
        return Curves.of_rows(sizes, np.stack([self._by_row(int(one)) for one in sizes], axis=1), self._rows)

    def why_infinite(self, alpha: float) -> str:
        level = float(np.average((self._lead <= 0.0).any(axis=1), weights=self._rows))
        if level / 2.0 <= 1.0 - alpha:
            return f"more than {theory.MAX_TREES:,} trees would be needed"
        return f"on {level:.2%} of the rows the averaged scores are exactly level, and never settle"


def _margins(lead: Floats, rows: Floats) -> Margins:
    return Margins("winner's lead / standard deviation of a tree, up to 3", 0.0, 3.0, lead, rows)


def plug_in(scores: Scores, cut: float) -> SoftLeads:
    """The measured leads; raises ``ValueError`` as `Leads.of` does."""
    return SoftLeads.of(Leads.of(scores, cut))


def as_votes(lead: Floats, asked: NDArray[np.int32]) -> VoteHistogram:
    """As many votes, each row for itself, that would put the leader as far ahead of a rival, and leave it as uncertain.

    Votes of which a fraction q is for the rival are draws of ±1, of which the leader's lead is (1 − 2q)/√(4q(1 − q)).
    """
    # With n in place of n − 1 in the variance, as it is of votes.
    slant = np.minimum(lead / np.sqrt(1.0 - 1.0 / asked), 1e150)
    length = np.sqrt(1.0 + slant**2)
    losing: NDArray[Any] = asked * 0.5 / (length * (length + slant))  # q with all of its digits, however small
    return VoteHistogram(losing, asked.astype(np.int64), np.ones(len(asked), dtype=np.int64))


class SmoothLeads(Estimate):
    """Leads over the nearest rival distributed as the fitted density.

    What further rivals add to its disagreement is as large a share as they add to that of the measured leads.
    """

    name = "smooth"

    def __init__(self, density: Density, measured: SoftLeads) -> None:
        self._lead = (0.5 - density.fractions) / np.sqrt(density.fractions * (1.0 - density.fractions))
        self._mass = density.mass
        self._draws = density.draws
        sizes = spread_sizes()[::2]
        some = measured.some(_RIVAL_ROWS)
        nearest = some.nearest()
        self._log_sizes = np.log(sizes)
        self._added = np.array(
            [some.disagreement(int(one)) / max(nearest.disagreement(int(one)), 1e-300) for one in sizes]
        )

    def _curve(self, sizes: NDArray[np.int64], mass: Floats) -> Floats:
        overtaken = ndtr(-np.sqrt(sizes)[:, None] * self._lead) @ mass.T
        return np.minimum((overtaken.T * np.interp(np.log(sizes), self._log_sizes, self._added)), 1.0)

    def disagreement(self, n_trees: int) -> float:
        return float(self._curve(np.array([n_trees]), self._mass)[0])

    def size(self, alpha: float) -> int | float:
        return theory.smallest_odd(self.disagreement, alpha)

    def margins(self) -> Margins:
        return _margins(self._lead, self._mass)

    def replicates(self, size: int | float) -> Curves:
        """Disagreement under densities drawn from the posterior."""
        sizes = spread_sizes()
        return Curves(sizes, self._curve(sizes, self._draws))

    def why_infinite(self, alpha: float) -> str:
        return f"more than {theory.MAX_TREES:,} trees would be needed"


def smooth(scores: Scores, cut: float) -> SmoothLeads:
    """The leads by the smooth estimate; raises ``ValueError`` as `Leads.of` does."""
    leads = Leads.of(scores, cut)
    return SmoothLeads(fit(VoteCells.of(as_votes(leads.lead.min(axis=1), leads.asked))), SoftLeads.of(leads))


ESTIMATORS: dict[str, Callable[[Scores, float], Estimate]] = {"auto": plug_in, "plugin": plug_in, "smooth": smooth}
