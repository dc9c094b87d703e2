"""Soft voting: agreement of averaged scores with their limit, for two classes and for more.

A forest predicts the class with the highest averaged score (of two classes, class 1 if its score exceeds a cut). On one
tree, the class that wins in the limit leads over a rival by a random amount with mean μ and standard deviation σ. By
the central limit theorem, T trees keep it ahead with probability Φ(√T·μ/σ). The row's *lead* is μ/σ.

Leads measured on a few trees scatter, so rows look closer to a tie than they are, as with counted vote fractions. The
remedy is the same: a density over the rows (`deconvolution`). It needs the noise of a lead. Near a tie, the variance of
a lead from n trees is 1/n, for any scores. Away from a tie the variance depends on the distribution of the scores,
which in forests is closer to two points than to a normal law. It grows about like (1 + (μ/σ)²)² in scikit-learn's
forests, and with a power of 1.5 in those of LightGBM and XGBoost. rfsize therefore treats a lead as that of votes,
draws of ±1: (1 − 2q)/√(4q(1 − q)) if a fraction q votes for the rival. Of long leads it uses only that they are long,
because a wrong noise there would also bend the density at the tie, and more so with more rows.

With several classes, the same few trees choose the leader and its nearest rival and measure the lead. This makes the
lead too short and T* too large, even if the noise is known exactly. For halves of the trees the bias is larger: twice
as large if the bias goes like 1/n, four times if it goes like 1/n² (M. Quenouille (1956). "Notes on bias in
estimation." Biometrika 43, 353-360). The truth lies between, so half of the difference is subtracted. The interval
contains T* without this correction and with the full difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from rfsize._util import Floats, Int64s, in_percent
from rfsize.counting.part_sums import Blocks, Scores, leading
from rfsize.estimation.base import TWO_CLASSES_FURTHER_OFF, Estimate, Margins
from rfsize.estimation.deconvolution import Density, fit_density, peak_caveat
from rfsize.estimation.intervals import Curves, between, sizes_around, spread_sizes
from rfsize.estimation.shared_trees import LeadChanges, weighted_sums

# Rounding error of a difference that is 0 (and of a variance, which is computed as a difference), relative to the
# scores.
_ROUNDING = 1e-12

# Leads of two classes are merged if they agree to one part in _PARTS; Φ(−40) is 0 in double precision.
_PARTS, _LEAST, _MOST = 512, 1e-12, 40.0

_RIVAL_ROWS = 5000  # rows on which the contribution of further rivals is computed

# A lead of at least 1, or of three times its noise, counts only as "at least this long".
_LONG, _LONG_IN_NOISE = 1.0, 3.0

_SIZES = spread_sizes()[::2]  # sizes at which the bias and the contribution of further rivals are computed

# Sizes at which disagreement is measured, on how many rows, and the size from which on the normal law holds.
_MEASURED, _MEASURED_ROWS, _NORMAL = (1, 3, 5, 9), 5000, 19

_CELLS_PER_RADIAN, _ASKED_RATIO = 160, 1.25  # cells that are similar in lead and in the trees asked are merged


class Leads(NamedTuple):
    """The lead of the leading class over each rival, on the rows that at least two trees predicted.

    Attributes
    ----------
    lead : ndarray of float, shape (n_rows, n_rivals)
        μ/σ, at least 0; infinite if all trees agree exactly.
    asked : ndarray of int32, shape (n_rows,)
        Number of trees whose scores the lead was measured on, at least 2.
    """

    lead: Floats
    asked: NDArray[np.int32]

    @classmethod
    def of(cls, scores: Scores, cut: float) -> Leads:
        """Measured leads; with two classes and one score, the distance from the cut.

        Raises
        ------
        ValueError
            If no row has the scores of two trees, or a score is not finite.
        """
        scores = scores.take(scores.asked > 1)
        if not len(scores):
            raise ValueError("no row has the scores of two trees: there is nothing to size")
        if not scores.are_finite():
            raise ValueError(
                "the trees' scores must be finite, found NaN or infinite ones: a leaf of the model holds no number"
            )
        if scores.n_scores == 1:
            return cls(_ratio(scores.mean - cut, scores.covariance(0, 0)[:, None], abs(cut), 0.0), scores.asked)
        leader = leading(scores.mean, cut)
        lead = np.empty((len(scores), scores.n_scores - 1))
        top, own = scores.mean.max(axis=1), scores.covariance(leader, leader)
        for place in range(scores.n_scores - 1):
            rival = place + (place >= leader)
            behind = top - scores.mean[np.arange(len(scores)), rival]
            apart = own + scores.covariance(rival, rival)
            variance = apart - 2.0 * scores.covariance(leader, rival)
            lead[:, place] = _ratio(behind, variance, np.abs(top), apart)
        return cls(lead, scores.asked)


class NoisyScores(NamedTuple):
    """Scores of rows that at least two trees predicted, with the deviations of blocks of trees from their means.

    Attributes
    ----------
    scores : Scores
        Scores of all trees.
    beyond : ndarray of float, shape (n_rows, n_blocks, n_scores)
        How much each block adds to the row's means, compared with the same number of average trees.
    """

    scores: Scores
    beyond: Floats

    @classmethod
    def of(cls, blocks: Blocks) -> NoisyScores:
        """The scores of the rows of the blocks."""
        blocks = blocks.where(blocks.scores.asked > 1)
        asked = np.maximum(blocks.n_scored.sum(axis=1), 1)
        mean = blocks.total.sum(axis=1) / asked
        return cls(blocks.scores, (blocks.total - blocks.n_scored * mean[:, None]) / asked[:, None])

    def with_noise(self, weights: Floats) -> Iterator[Scores]:
        """Yield the scores with the noise of the trees added to their means once more, for each draw of weights."""
        for noise in weighted_sums(self.beyond, weights):
            yield replace(self.scores, mean=self.scores.mean + noise)

    def leads(self, cut: float) -> LeadChanges:
        """Leads over the nearest rivals."""
        scores, each = self.scores, np.arange(len(self.scores))
        lead, asked = Leads.of(scores, cut)
        if scores.n_scores == 1:
            variance = scores.covariance(0, 0)
            beyond = self.beyond[:, :, 0] * np.sign(scores.mean - cut)
        else:
            # If rivals are equal but for the last bits, the class number decides, as it does for leaders.
            leader, least = leading(scores.mean, cut), lead.min(axis=1, keepdims=True)
            nearest = (lead <= least + _ROUNDING * (1.0 + least)).argmax(axis=1)
            rival = nearest + (nearest >= leader)
            variance = scores.covariance(leader, leader) + scores.covariance(rival, rival)
            variance -= 2.0 * scores.covariance(leader, rival)
            beyond = self.beyond[each, :, leader] - self.beyond[each, :, rival]
        certain = np.isinf(lead.min(axis=1)) | ~(variance > 0.0)
        change = np.where(certain[:, None], 0.0, beyond / np.sqrt(np.where(certain, 1.0, variance))[:, None])
        return LeadChanges(lead.min(axis=1), change, asked.astype(np.float64), np.ones(len(asked)))


def _ratio(mean: Floats, variance: Floats, level: Floats | float, apart: Floats | float) -> Floats:
    """|μ|/σ; infinite if all trees agree but for rounding."""
    level = np.maximum(np.abs(mean), level)
    same = variance <= (_ROUNDING * level) ** 2 + _ROUNDING * apart
    return np.where(same, np.inf, np.abs(mean) / np.sqrt(np.where(same, 1.0, variance)))


class SoftLeads(Estimate):
    """The plug-in estimate: the measured leads of all rows are taken as the true ones.

    With several rivals, agreement is the product over the rivals. It is too low if the leads over two rivals are
    positively correlated, as they mostly are, but more accurate than one minus the sum (benchmarks/soft_estimator.py).
    Otherwise it is too high by at most the product of the two probabilities of being overtaken.

    Attributes
    ----------
    of_few : ndarray of float, shape (4,)
        The disagreement of few trees divided by the disagreement that the normal law gives, at each of `_MEASURED`.
    """

    of_few: Floats = np.ones(len(_MEASURED))

    def __init__(self, lead: Floats, rows: Floats, cut: float = 0.0) -> None:
        self._lead = lead
        self._rows = rows
        self._cut = cut

    @classmethod
    def of(cls, leads: Leads, cut: float = 0.0) -> SoftLeads:
        """The estimate of measured leads; with two classes similar leads are merged, a relative change of 1e-6."""
        lead = leads.lead
        if lead.shape[1] > 1:
            return cls(lead, np.ones(len(lead)), cut)
        lead = np.minimum(lead[:, 0], _MOST)
        place = np.ceil(np.log(np.maximum(lead, _LEAST) / _LEAST) * _PARTS).astype(np.int64)
        rows = np.bincount(place).astype(np.float64)
        some = np.flatnonzero(rows)
        return cls((np.bincount(place, weights=lead)[some] / rows[some])[:, None], rows[some], cut)

    @property
    def n_rivals(self) -> int:
        """Number of rivals of the leading class."""
        return self._lead.shape[1]

    @property
    def further_off(self) -> float:
        return TWO_CLASSES_FURTHER_OFF if self.n_rivals == 1 else 1.0

    def nearest(self) -> SoftLeads:
        """The leads over the nearest rival only."""
        return SoftLeads(self._lead.min(axis=1, keepdims=True), self._rows, self._cut)

    def some(self, n_rows: int) -> SoftLeads:
        step = len(self._rows) // n_rows
        return SoftLeads(self._lead[::step], self._rows[::step], self._cut) if step > 1 else self

    def _by_row(self, n_trees: int) -> Floats:
        overtaken = ndtr(-math.sqrt(n_trees) * self._lead)
        by_law = -np.expm1(np.log1p(-overtaken).sum(axis=1))
        return np.asarray(np.minimum(by_law * self._beside_law(np.array([n_trees])), 1.0))

    def _beside_law(self, sizes: Int64s) -> Floats:
        """The factor from the normal law to the disagreement of so many trees, shape (n_sizes,)."""
        return between(sizes, (*_MEASURED, _NORMAL), np.append(self.of_few, 1.0))

    def measured_by(self, blocks: Blocks | None) -> SoftLeads:
        """The same estimate, with the disagreement of few trees measured on some of the rows."""
        if blocks is not None:
            one_in = max(1, len(blocks.rows) // _MEASURED_ROWS)
            blocks = blocks.where(np.arange(len(blocks.rows)) % one_in == 0)
            by_law = np.array([self.disagreement(size) for size in _MEASURED])
            measured = np.array([_disagreement_of_few(blocks, self._cut, size) for size in _MEASURED])
            is_known = (by_law > 0.0) & np.isfinite(measured)
            self.of_few = np.divide(measured, by_law, out=np.ones(len(_MEASURED)), where=is_known)
        return self

    def disagreement(self, n_trees: int) -> float:
        return float(np.average(self._by_row(n_trees), weights=self._rows))

    def margins(self) -> Margins:
        lead = self._lead.min(axis=1)
        return Margins("winner's lead / standard deviation of a tree, up to 3", 0.0, 3.0, lead, self._rows)

    def replicates(self, size: int | float) -> Curves:
        sizes = sizes_around(size)
        return Curves.of_rows(sizes, np.stack([self._by_row(int(one)) for one in sizes], axis=1), self._rows)

    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        noisy = NoisyScores.of(blocks).with_noise(weights)
        return partial(_disagreements, [SoftLeads.of(Leads.of(scores, self._cut)) for scores in noisy])

    def leads(self, blocks: Blocks) -> LeadChanges:
        return NoisyScores.of(blocks).leads(self._cut)

    def why_infinite(self, alpha: float) -> str:
        level = float(np.average((self._lead <= 0.0).any(axis=1), weights=self._rows))
        if level / 2.0 <= 1.0 - alpha:
            return super().why_infinite(alpha)
        return f"on {in_percent(level)} of the rows the averaged scores are exactly level, and never settle"


def _disagreement_of_few(blocks: Blocks, cut: float, n_trees: int) -> float:
    """Disagreement of forests of ``n_trees`` of the trees with the infinite forest; NaN without rows to measure it."""
    n_first = blocks.n_first.min(axis=1)
    enough = n_first >= 2 * n_trees
    blocks, n_first = blocks.where(enough), n_first[enough]
    n_rows, n_kept, n_scores = blocks.first.shape
    n_forests = n_kept // n_trees
    forests = blocks.first[:, : n_forests * n_trees].reshape(n_rows, n_forests, n_trees, n_scores).mean(axis=2)
    differs = leading(forests, cut) != leading(blocks.scores.mean, cut)[:, None]
    weight = (np.arange(1, n_forests + 1) * n_trees <= n_first[:, None]).astype(np.float64)
    beyond = 1.0 / np.sqrt(1.0 - n_trees / np.maximum(blocks.scores.asked, 2 * n_trees))
    return float(np.sum(weight * differs * beyond[:, None]) / weight.sum()) if n_rows else math.nan


def _disagreements(leads: list[SoftLeads], sizes: Int64s) -> Floats:
    """Mean disagreement for each set of leads, shape (n_leads, n_sizes)."""
    return np.array([[one.disagreement(int(size)) for size in sizes] for one in leads])


def plug_in(scores: Scores, cut: float, blocks: Blocks | None = None) -> SoftLeads:
    """The plug-in estimate from measured leads; raises ``ValueError`` as `Leads.of` does."""
    return SoftLeads.of(Leads.of(scores, cut), cut).measured_by(blocks)


class LeadCells(NamedTuple):
    """Measured leads, with similar leads merged: a few hundred cells for any number of rows.

    Attributes
    ----------
    angle : ndarray of float, shape (n_cells,)
        Arc tangent of the lead, the scale on which the noise of votes is constant.
    asked : ndarray of float, shape (n_cells,)
        Number of trees whose scores the lead was measured on; the noise has a variance of 1/asked.
    far : ndarray of bool, shape (n_cells,)
        Whether ``angle`` is only a lower bound.
    rows : ndarray of float, shape (n_cells,)
        Number of rows in each cell.
    """

    angle: Floats
    asked: Floats
    far: NDArray[np.bool_]
    rows: Floats

    @classmethod
    def of(cls, lead: Floats, asked: NDArray[np.int32]) -> LeadCells:
        """The cells of leads over one rival each, shape (n_rows,)."""
        most = np.arctan(np.maximum(_LONG, _LONG_IN_NOISE / np.sqrt(asked)))
        # The variance of votes divides by n, not by n − 1.
        angle = np.minimum(np.arctan(lead / np.sqrt(1.0 - 1.0 / asked)), most)
        size = np.floor(np.log(asked) / math.log(_ASKED_RATIO))
        place = np.where(angle < most, np.floor(angle * _CELLS_PER_RADIAN), 2 * _CELLS_PER_RADIAN)
        # Counted by index: sorting the rows would take longer, and several times their memory.
        cell = (size * (2 * _CELLS_PER_RADIAN + 1) + place).astype(np.int32)
        group = (np.cumsum(np.bincount(cell) > 0) - 1)[cell]
        rows = np.bincount(group).astype(np.float64)
        trees = np.bincount(group, weights=asked)
        far = np.bincount(group, weights=angle >= most) > 0.0
        return cls(np.bincount(group, weights=asked * angle) / trees, trees / rows, far, rows)

    def log_likelihood(self, pi: Floats) -> Floats:
        """The log-likelihood of leads as if from votes, if a fraction π votes for the rival, or for the leader."""
        true = math.pi / 2.0 - 2.0 * np.arcsin(np.sqrt(pi))
        noise = np.sqrt(self.asked)[:, None]
        ahead, behind = (noise * (sign * true - self.angle[:, None]) for sign in (1.0, -1.0))
        found, far = np.logaddexp(-0.5 * ahead**2, -0.5 * behind**2), self.far
        found[far] = np.logaddexp(log_ndtr(ahead[far]), log_ndtr(behind[far]))
        return found


class SmoothLeads(SoftLeads):
    """The smooth estimate: leads over the nearest rival have the fitted density.

    Further rivals raise the disagreement by the same factor as for the measured leads. With several classes, halves of
    the trees show which part of the disagreement is bias.
    """

    name = "smooth"

    unbiased: Floats | float = 1.0
    """The factor that removes the bias from the disagreement, at each of `_SIZES`."""

    def __init__(self, density: Density, measured: SoftLeads, cut: float) -> None:
        lead = (0.5 - density.fractions) / np.sqrt(density.fractions * (1.0 - density.fractions))
        super().__init__(lead[:, None], density.mass, cut)
        self._density, self._further_off = density, measured.further_off
        self._added: Floats = np.ones(len(_SIZES))
        if measured.n_rivals == 1:
            return
        some = measured.some(_RIVAL_ROWS)
        every, nearest = ([one.disagreement(int(size)) for size in _SIZES] for one in (some, some.nearest()))
        # If all rows are certain, the nearest rivals have no disagreement to divide by.
        self._added = np.divide(every, nearest, out=np.ones(len(_SIZES)), where=np.array(nearest) > 0.0)

    @property
    def further_off(self) -> float:
        return self._further_off

    def _by_lead(self, sizes: Int64s) -> Floats:
        """Disagreement for each lead, shape (n_leads, n_sizes)."""
        overtaken = ndtr(-np.sqrt(sizes) * self._lead)
        factor = between(sizes, _SIZES, self._added * self.unbiased) * self._beside_law(sizes)
        return np.asarray(overtaken * factor)

    def _curve(self, sizes: Int64s, mass: Floats) -> Floats:
        return np.minimum(mass @ self._by_lead(sizes), 1.0)

    def disagreement(self, n_trees: int) -> float:
        return float(self._curve(np.array([n_trees]), self._density.mass)[0])

    def over_sizes(self) -> Floats:
        """Disagreement at each of `_SIZES`."""
        return self._curve(_SIZES, self._density.mass)

    def replicates(self, size: int | float) -> Curves:
        """Disagreement under posterior draws of the density; half assume no bias, half twice the estimated bias."""
        sizes = spread_sizes()
        curves, unbiased = (
            self._curve(sizes, self._density.draws),
            between(sizes, _SIZES, self.unbiased * np.ones(len(_SIZES))),
        )
        curves[::2] = np.minimum(curves[::2] / unbiased, 1.0)
        curves[1::2] *= unbiased
        return Curves(sizes, curves)

    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        masses = []
        for scores in NoisyScores.of(blocks).with_noise(weights):
            leads = Leads.of(scores, self._cut)
            masses.append(self._density.fit_again(LeadCells.of(leads.lead.min(axis=1), leads.asked)))
        return partial(self._curve, mass=np.stack(masses))


def _unbiased(blocks: Blocks, cut: float) -> Floats | float:
    """The factor that removes the bias from the disagreement estimated by all trees, at each of `_SIZES`.

    In logarithms, the bias is half of the difference between the mean estimate by halves of the trees and that by all.
    """
    blocks = blocks.where(blocks.scores.asked > 1)
    halves = blocks.halves()
    if not all((half.asked > 1).any() for half in halves):
        return 1.0
    whole, *parts = (smooth(scores, cut).over_sizes() for scores in (blocks.scores, *halves))
    by_halves = np.maximum(np.mean(parts, axis=0), _LEAST)
    return np.sqrt(np.clip(whole / by_halves, _LEAST, 1.0))


def smooth(scores: Scores, cut: float, blocks: Blocks | None = None) -> SmoothLeads:
    """The smooth estimate of leads; with ``blocks`` of the trees on some of the rows, its bias is removed.

    Raises ``ValueError`` as `Leads.of` does.
    """
    leads = Leads.of(scores, cut)
    density = fit_density(LeadCells.of(leads.lead.min(axis=1), leads.asked))
    found = SmoothLeads(density, SoftLeads.of(leads, cut), cut)
    found.caveat = peak_caveat(density.peak, "scores")
    if blocks is not None and scores.n_scores > 1:
        found.unbiased = _unbiased(blocks, cut)
    found.measured_by(blocks)
    return found


def smooth_or_plug_in(scores: Scores, cut: float, blocks: Blocks | None = None) -> Estimate:
    """The smooth estimate, or the plug-in estimate if the scores have a peak at a tie, as for votes."""
    return smooth(scores, cut, blocks).unless_doubted(lambda: plug_in(scores, cut, blocks))


ESTIMATORS: dict[str, Callable[[Scores, float, Blocks | None], Estimate]] = {
    "auto": smooth_or_plug_in,
    "plugin": plug_in,
    "smooth": smooth,
}
