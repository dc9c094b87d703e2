"""The disagreement of labels on rows of one kind: a fitted density of their distances from a tie, or the measured one.

*Smooth*: distances measured on a few trees scatter, so rows look closer to a tie than they are. One density, fitted to
all rows (`density`), has not this fault. *Plug-in*: measured distances are taken as the true ones, equation (17) in
D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers be?" Pattern
Recognition 46(5), 1323-1336. Averaged over problems, the smooth estimate of T*(0.99) is more accurate, from 50 trees
and from 1000; for T*(0.95) both are about equal (benchmarks/estimator.py). There is one exception: if on some rows
exactly half of the trees vote for each class, no smooth density follows the peak at the tie.

With several classes, the same few trees choose the leader and its nearest rival and measure the margin. This makes the
margin too short and T* too large, even if the noise is known exactly. For halves of the trees the bias is larger: twice
as large if the bias goes like 1/n, four times if it goes like 1/n² (M. Quenouille (1956). "Notes on bias in
estimation." Biometrika 43, 353-360). The truth lies between, so half of the difference is subtracted. The interval
contains T* without this correction and with the full difference. Further rivals raise the disagreement as if they were
independent: too much if margins over two rivals are positively correlated, as they mostly are, but closer than the sum.

The rows of one class are those to which the unlimited forest gives it. Few trees give it to others too, and to more of
them if rows get fewer towards the class. So the density of its distances is fitted to all rows, on both sides of a tie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rfsize import theory
from rfsize._util import Bools, Floats, Int64s, in_percent
from rfsize.counting.sums import Blocks, Scores, leading, where
from rfsize.statistics.curve import REPLICATES, SEED, SIZES, interpolated
from rfsize.statistics.density import (
    MOST_PEAKED,
    Density,
    MarginCells,
    VoteCells,
    fit_density,
    fitted_again,
    vote_fractions,
)
from rfsize.statistics.margins import Margins, Sample, halves, measured

_MOST_FRACTIONS = 4096  # more distinct vote fractions than this are merged, on the arcsine scale

# Margins are merged if they agree to one part in _PARTS; Φ(−40) is 0 in double precision.
_PARTS, _SHORTEST, _LONGEST = 512, 1e-12, 40.0

_ROWS_PER_BLOCK = 4096  # of likelihoods of single rows

_RIVAL_ROWS = 5000  # rows on which the contribution of further rivals is computed

# Sizes at which disagreement is measured, on how many rows, and the size from which on the normal law holds.
_MEASURED, _MEASURED_ROWS, _NORMAL = (1, 3, 5, 9), 5000, 19

ODD_SIZES: Int64s = SIZES[SIZES % 2 == 1]
"""Sizes of curves of labels. Of an even number of votes some are tied, and the curve would not fall steadily."""

NOISE_SIZES: Int64s = np.concatenate([[1, 3, 9, 33], ODD_SIZES[ODD_SIZES > 99][:64:8]])
"""Sizes at which the noise of the trees is computed. It hardly changes between them."""

_FACTOR_SIZES: Int64s = ODD_SIZES[np.isin(ODD_SIZES, (1, 3, 5, 7, 9, 13, 19, 27, 39, 55, 77)) | (ODD_SIZES > 99)]
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Fit:
    """The disagreement on rows of one kind.

    Attributes
    ----------
    distances : ndarray of float, shape (n_points,)
        Vote fractions of the losing class, or margins over the nearest rival.
    mass : ndarray of float, shape (n_points,)
        Share of the rows at each of these.
    draws : ndarray of float, shape (n_draws, n_points)
        `mass` as other rows would give it.
    of_votes : bool
        Whether distances are vote fractions.
    factor : ndarray of float, shape (n_sizes,)
        What multiplies the disagreement by the nearest rival, at each of `ODD_SIZES`: further rivals, bias, few trees.
    unbiased : ndarray of float, shape (n_sizes,)
        The part of the factor that removes bias.
    density : Density or None
        What the mass was fitted as; None for the plug-in estimate.
    tie_warning : str or None
        Why the estimate cannot be trusted; None if it can.
    label : int or None
        The class whose rows these are; None if they are of any class.
    """

    distances: Floats
    mass: Floats
    draws: Floats
    of_votes: bool
    factor: Floats
    unbiased: Floats
    density: Density | None
    tie_warning: str | None
    label: int | None = None

    def loss(self, sizes: Int64s) -> Floats:
        """Mean disagreement of forests of these sizes with the unlimited forest, shape (n_sizes,)."""
        factor = interpolated(sizes, ODD_SIZES, self.factor[None])[0]
        return np.asarray(np.minimum(self.mass @ self._law(sizes) * factor, 1.0))

    def replicates(self) -> Floats:
        """The loss at `ODD_SIZES` as other rows would give it; half assume no bias, half twice the estimated bias."""
        curves = np.minimum(self.draws @ self._law(ODD_SIZES) * self.factor, 1.0)
        curves[::2] = np.minimum(curves[::2] / self.unbiased, 1.0)
        curves[1::2] *= self.unbiased
        return np.asarray(curves)

    def loss_of(self, sample: Sample, cut: float, sizes: Int64s) -> Floats:
        """The same from other votes or scores of the rows, for instance without a block of trees."""
        if not (_n_trees(sample) > 1).any():
            return self.loss(sizes)  # these trees tell nothing
        distance = measured(sample, cut, self.label)
        if self.density is None:
            points, mass = _points(distance)
            return replace(self, distances=points, mass=mass).loss(sizes) if len(points) else self.loss(sizes)
        cells = _merged(distance)
        return replace(self, mass=fitted_again(self.density, cells)).loss(sizes)

    def of_rows(self, sample: Sample, cut: float, size: int) -> Floats:
        """The disagreement of each row by its own votes or scores, for forests of one odd size, shape (n_rows,).

        The density of all rows is the prior of each row's distance.
        """
        distance, sizes = measured(sample, cut), np.array([size])
        factor = interpolated(sizes, ODD_SIZES, self.factor[None])[0]
        if self.density is None:
            return law(_nearest(distance), sizes, of_votes=self.of_votes)[:, 0] * factor
        nearest, of_points = _nearest(distance), self._law(sizes)[:, 0]
        cells = distance if isinstance(distance, VoteCells) else MarginCells.of_rows(nearest, distance.n_trees)
        # Rows with the same votes, or margins that are only long, have the same loss.
        _, first, same = np.unique(np.column_stack(cells[:2]), axis=0, return_index=True, return_inverse=True)
        loss = np.empty(len(first))
        for start in range(0, len(loss), _ROWS_PER_BLOCK):
            block: Any = (*(of[first[start : start + _ROWS_PER_BLOCK]] for of in cells[:-1]), cells.folded)
            log_likelihood = type(cells)(*block).log_likelihood(self.density.fractions)
            mass = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True)) * self.mass
            loss[start : start + len(mass)] = mass @ of_points / mass.sum(axis=1)
        return np.asarray(loss[same.ravel()] * factor)

    def why_infinite(self, level: float) -> str | None:
        """Why no size reaches the level, if rows are exactly tied; None if they are not."""
        tied = float(self.mass[self.distances == (0.5 if self.of_votes else 0.0)].sum())
        if tied / 2.0 <= level:
            return None
        what = "the votes are tied" if self.of_votes else "the leading classes are exactly level"
        return f"on {in_percent(tied)} of the rows {what}, and never settle"

    def _law(self, sizes: Int64s) -> Floats:
        place = np.searchsorted(ODD_SIZES[:-1], sizes)
        if self.density is not None and np.array_equal(ODD_SIZES[place], sizes):
            return _law_of_density(self.of_votes)[:, place]
        return law(self.distances, sizes, of_votes=self.of_votes)


def law(distances: Floats, sizes: Int64s, *, of_votes: bool) -> Floats:
    """Disagreement of rows at these distances from a tie, shape (n_points, n_sizes)."""
    if of_votes:
        return theory.disagreement(sizes, distances[:, None])
    return np.asarray(ndtr(-np.sqrt(sizes) * distances[:, None]))


@cache
def _law_of_density(of_votes: bool) -> Floats:
    """The law at the cells of all densities and at `ODD_SIZES`."""
    return law(vote_fractions() if of_votes else _as_margins(vote_fractions()), ODD_SIZES, of_votes=of_votes)


def _as_margins(fractions: Floats) -> Floats:
    return np.asarray((0.5 - fractions) / np.sqrt(fractions * (1.0 - fractions)))


class Kind(NamedTuple):
    """Rows of one kind: on which a class leads, if it is given, and with these all to which it might be given."""

    mask: Bools
    label: int | None
    among: Bools


@dataclass(frozen=True, eq=False)
class LabelRows:
    """The rows with votes or scores.

    Attributes
    ----------
    sample : ndarray or Scores
    cut : float
        Class 1 of two is predicted if the mean score exceeds it.
    n_trees : ndarray of int32, shape (n_rows,)
        Number of trees that predicted each row.
    used : ndarray of bool, shape (n_rows,)
        Whether these are enough.
    kind : ndarray of int64, shape (n_rows,)
        The kind of each row, by its number of votes or the size of its group.
    has_kinds : bool
        Whether rows may be of several kinds.
    leader : ndarray of int64, shape (n_rows,)
        The class that leads on it.
    blocks : Blocks or None
        Blocks of the trees on some of these rows.
    in_blocks : ndarray of int64, shape (n_block_rows,)
        The place of each row of the blocks among these rows.
    """

    sample: Sample
    cut: float
    n_trees: NDArray[np.int32]
    used: Bools
    kind: Int64s
    has_kinds: bool
    leader: Int64s
    blocks: Blocks | None
    in_blocks: Int64s

    @property
    def of_scores(self) -> bool:
        """Whether labels come from averaged scores, not from votes."""
        return isinstance(self.sample, Scores)

    def where(self, mask: Bools) -> Sample:
        """The sample of some of the rows."""
        return self.sample.take(mask) if isinstance(self.sample, Scores) else self.sample[mask]


def fit(rows: LabelRows, kind: Kind, method: str, *, with_draws: bool = True) -> Fit:
    """Estimate the disagreement on rows of one kind.

    Parameters
    ----------
    rows : LabelRows
    kind : Kind
    method : {"auto", "smooth", "plugin"}
        "auto" is smooth, unless there is a peak at the tie.
    with_draws : bool, default True
        Whether the noise of the rows is wanted too.
    """
    mask, label, among = kind
    distance, density, warning = measured(rows.where(mask), rows.cut), None, None
    if method != "plugin":
        every = distance if label is None else measured(rows.where(among), rows.cut, label)
        density = fit_density(_merged(every), with_draws=with_draws)
        if density.peak > MOST_PEAKED:
            what = f"the {'scores' if rows.of_scores else 'votes'} show more rows at a tie than a smooth density has"
            warning = f"{what}, so T* may be far larger than the estimate"
            density = None if method == "auto" else density
    of_votes, ones = isinstance(distance, VoteCells), np.ones(len(ODD_SIZES))
    if density is None:
        points, mass = _points(distance)
        n_rows, n_draws = len(_nearest(distance)), REPLICATES if with_draws else 0
        draws = np.random.default_rng(SEED).multinomial(n_rows, mass, size=n_draws) / n_rows
    else:
        mass, draws = density.mass, density.draws
        points = density.fractions if of_votes else _as_margins(density.fractions)
    nearest = Fit(points, mass, draws, of_votes, ones, ones, density, warning, label)
    if isinstance(distance, VoteCells):
        return nearest
    return _with_factors(nearest, distance, rows, np.flatnonzero(mask[rows.in_blocks]))


def _merged(distance: VoteCells | Margins) -> VoteCells | MarginCells:
    """Cells of similar rows."""
    if isinstance(distance, VoteCells):
        return VoteCells.of(distance.losing, distance.n_votes, folded=distance.folded)
    return MarginCells.of(_nearest(distance), distance.n_trees, folded=distance.folded)


def _nearest(distance: VoteCells | Margins) -> Floats:
    """The vote fraction of the losing class of each row, or its margin over the nearest rival."""
    if isinstance(distance, VoteCells):
        return np.asarray(distance.losing / distance.n_votes)
    return np.asarray(distance.margin.min(axis=1))


def _points(distance: VoteCells | Margins) -> tuple[Floats, Floats]:
    """Measured distances, similar ones merged, and the share of the rows with each; of one class, where it leads."""
    distances = _nearest(distance)
    if isinstance(distance, VoteCells):
        distances = distances[distances <= 0.5]
        values, place = np.unique(distances, return_inverse=True)
        if len(values) > _MOST_FRACTIONS:
            place = np.floor(np.arcsin(np.sqrt(values)) * (2.0 / math.pi) * _MOST_FRACTIONS).astype(np.int64)[place]
    else:
        distances = np.minimum(distances[distances >= 0.0], _LONGEST)
        place = np.ceil(np.log(np.maximum(distances, _SHORTEST) / _SHORTEST) * _PARTS).astype(np.int64)
    rows = np.bincount(place).astype(np.float64)
    filled = np.flatnonzero(rows)
    mean = np.bincount(place, weights=distances)[filled] / rows[filled]
    return mean, rows[filled] / len(distances)


# What multiplies the disagreement by the nearest rival


def _with_factors(nearest: Fit, distance: Margins, rows: LabelRows, in_blocks: Int64s) -> Fit:
    """The fit with its factors, from the rows of the blocks with these numbers."""
    blocks, cut, of_scores = rows.blocks, rows.cut, rows.of_scores
    if distance.margin.shape[1] > 1:
        nearest = replace(nearest, factor=_further_rivals(distance))
        if blocks is not None and nearest.density is not None:
            unbiased = _unbiased(where(blocks, in_blocks), cut, of_scores=of_scores)
            nearest = replace(nearest, factor=nearest.factor * unbiased, unbiased=unbiased)
    if blocks is None:
        return nearest
    few = where(blocks, in_blocks[:: max(1, len(in_blocks) // _MEASURED_ROWS)])
    by_law = nearest.loss(np.array(_MEASURED))
    of_few = np.array([_disagreement_of_few(few, cut, size, of_scores=of_scores) for size in _MEASURED])
    known = (by_law > 0.0) & np.isfinite(of_few)
    beside_law = np.divide(of_few, by_law, out=np.ones(len(_MEASURED)), where=known)
    factor = interpolated(ODD_SIZES, (*_MEASURED, _NORMAL), np.append(beside_law, 1.0)[None])[0]
    return replace(nearest, factor=nearest.factor * factor)


def _further_rivals(distance: Margins) -> Floats:
    """The factor by which rivals beyond the nearest raise the disagreement, at `ODD_SIZES`."""
    margin = distance.margin[:: max(1, len(distance.margin) // _RIVAL_ROWS)]
    factors = []
    for size in _FACTOR_SIZES:
        overtaken = ndtr(-math.sqrt(size) * margin)
        nearest = overtaken.max(axis=1).mean()
        by_any = -np.expm1(np.log1p(-overtaken).sum(axis=1)).mean()
        # If all rows are certain, the nearest rivals have no disagreement to divide by.
        factors.append(by_any / nearest if nearest > 0.0 else 1.0)
    return interpolated(ODD_SIZES, _FACTOR_SIZES, np.array(factors)[None])[0]


def _unbiased(blocks: Blocks, cut: float, *, of_scores: bool) -> Floats:
    """The factor that removes the bias from the disagreement estimated by all trees, at `ODD_SIZES`.

    In logarithms, the bias is half of the difference between the mean estimate by halves of the trees and that by all.
    """
    blocks = where(blocks, blocks.scores.n_votes > 1)
    parts = halves(blocks, of_scores=of_scores)
    if not all((_n_trees(half) > 1).any() for half in parts):
        return np.ones(len(ODD_SIZES))
    all_trees: Sample = blocks.scores if of_scores else blocks.counts
    whole, *of_halves = (_smooth_curve(sample, cut) for sample in (all_trees, *parts))
    by_halves = np.maximum(np.mean(of_halves, axis=0), _LEAST)
    return np.sqrt(np.clip(whole / by_halves, _LEAST, 1.0))


def _n_trees(sample: Sample) -> Int64s:
    return np.asarray(sample.n_votes if isinstance(sample, Scores) else sample.sum(axis=1))


def _smooth_curve(sample: Sample, cut: float) -> Floats:
    distance = measured(sample, cut)
    assert isinstance(distance, Margins)
    density = fit_density(_merged(distance), with_draws=False)
    return np.asarray(density.mass @ _law_of_density(False) * _further_rivals(distance))


def _disagreement_of_few(blocks: Blocks, cut: float, n_trees: int, *, of_scores: bool) -> float:
    """Disagreement of forests of ``n_trees`` of the trees with the infinite forest; NaN if it cannot be measured.

    Out of bag, some rows have far more trees than others. A few such rows may all agree, and would say that all do.
    """
    enough = blocks.n_first.min(axis=1) >= 2 * n_trees
    if not len(enough) or enough.mean() < 0.2:
        return math.nan
    blocks = where(blocks, enough)
    n_first, n_votes, whole = blocks.n_first.min(axis=1), blocks.scores.n_votes, blocks.scores.mean
    n_forests = blocks.first.shape[1] // n_trees
    trees = blocks.first[:, : n_forests * n_trees]
    n_rows, _, n_scores = trees.shape
    if not of_scores:
        trees, whole = np.eye(n_scores)[leading(trees, cut)], blocks.counts.astype(np.float64)
    forests = np.einsum("rfts->rfs", trees.reshape(n_rows, n_forests, n_trees, n_scores)) / n_trees
    differs = leading(forests, cut) != leading(whole, cut)[:, None]
    has_trees = np.arange(1, n_forests + 1) * n_trees <= n_first[:, None]
    beyond = 1.0 / np.sqrt(1.0 - n_trees / np.maximum(n_votes, 2 * n_trees))
    return float(np.count_nonzero(differs & has_trees, axis=1) @ beyond / np.count_nonzero(has_trees))
