"""The plug-in estimate, for two classes and for more: each row's counted vote fraction is taken as the true one.

This is equation (17) in Hernández-Lobato et al. 2013. `deconvolution` has the smooth estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from rfsize import theory
from rfsize._util import Floats, Int64s, in_percent
from rfsize.counting.part_sums import Blocks
from rfsize.counting.votes import Votes
from rfsize.estimation.base import TWO_CLASSES_FURTHER_OFF, Estimate, Margins
from rfsize.estimation.intervals import SEED, Curves, means_of_draws, sizes_around, spread_sizes
from rfsize.estimation.shared_trees import noisy_counts
from rfsize.theory.multiclass import Rivals


def plug_in(votes: Votes) -> Estimate:
    """The plug-in estimate from counted votes; ``ValueError`` if no row has a vote."""
    return (
        TwoClassFractions.of(votes)
        if len(votes.classes) == 2
        else ManyClassFractions(Rivals.of(votes.fractions()[votes.asked > 0]))
    )


# Number of bins of vote fractions, of equal width on the arcsine scale, where the noise of fractions is constant.
_FRACTION_BINS = 2048


class TwoClassFractions(Estimate):
    """Distinct vote fractions of the losing class, at most 1/2, and the number of rows with each."""

    def __init__(self, fractions: Floats, weights: Floats) -> None:
        self._fractions = fractions
        self._weights = weights

    @classmethod
    def of(cls, votes: Votes) -> TwoClassFractions:
        """Fractions of counted votes; agreement is the same for π and 1 − π."""
        cells = votes.histogram()
        losing = np.minimum(cells.count, cells.asked - cells.count) / cells.asked
        fractions, cell = np.unique(losing, return_inverse=True)
        return cls(fractions, np.bincount(cell, weights=cells.rows).astype(np.float64))

    @property
    def further_off(self) -> float:
        return TWO_CLASSES_FURTHER_OFF

    def disagreement(self, n_trees: int) -> float:
        return theory.mean_disagreement(n_trees, self._fractions, self._weights)

    def why_infinite(self, alpha: float) -> str:
        return theory.why_infinite(alpha, self._fractions, self._weights)

    def margins(self) -> Margins:
        return Margins("vote fraction of the losing class", 0.5, 0.0, self._fractions, self._weights)

    def replicates(self, size: int | float) -> Curves:
        centre, rows = _binned(self._fractions, self._weights)
        sizes = spread_sizes()
        generator = np.random.default_rng(SEED)
        return Curves(sizes, means_of_draws(theory.disagreement(sizes, centre[:, None]), rows, generator))

    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        counted = noisy_counts(blocks, weights)
        return partial(_disagreements, [_binned(of.min(axis=1) / of.sum(axis=1), np.ones(len(of))) for of in counted])


def _disagreements(binned: list[tuple[Floats, Floats]], sizes: Int64s) -> Floats:
    """Mean disagreement for several sets of fractions and weights."""
    return np.stack([rows @ theory.disagreement(sizes, centre[:, None]) / rows.sum() for centre, rows in binned])


def _binned(fractions: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fractions up to 1/2 with similar ones merged: the mean and the weight of each bin."""
    bins = np.floor(np.arcsin(np.sqrt(fractions)) * (4.0 / math.pi) * _FRACTION_BINS).astype(np.int64)
    _, bins = np.unique(bins, return_inverse=True)
    rows = np.bincount(bins, weights=weights).astype(np.float64)
    return np.minimum(np.bincount(bins, weights=weights * fractions) / rows, 0.5), rows


# With several classes, the effect of the trees' noise is computed on this number of rows.
_ROWS_WITH_NOISE = 2000


class ManyClassFractions(Estimate):
    """Vote fractions of the leading class and of each rival, row by row."""

    def __init__(self, rivals: Rivals) -> None:
        self._rivals = rivals

    def disagreement(self, n_trees: int) -> float:
        return float(self._rivals.disagreement(n_trees).mean())

    def some(self, n_rows: int) -> ManyClassFractions:
        rows = np.arange(len(self._rivals.leader))
        step = len(rows) // n_rows
        return ManyClassFractions(self._rivals.take(rows[::step])) if step > 1 else self

    def why_infinite(self, alpha: float) -> str:
        limit = self._rivals.limit()
        if limit.mean() <= 1.0 - alpha:
            return super().why_infinite(alpha)
        tied = in_percent(float(np.mean(limit > 0.0)))
        return (
            f"on {tied} of the rows several classes tie for the most votes; such rows never converge, so mean "
            f"agreement cannot exceed {in_percent(1.0 - limit.mean())}"
        )

    def margins(self) -> Margins:
        runner_up = np.maximum.reduceat(np.append(self._rivals.rival, 0.0), self._rivals.first[:-1])
        runner_up[np.diff(self._rivals.first) == 0] = 0.0
        share = runner_up / (runner_up + self._rivals.leader)
        return Margins("runner-up's share of the two leading classes' votes", 0.5, 0.0, share, np.ones(len(share)))

    def replicates(self, size: int | float) -> Curves:
        sizes = sizes_around(size)
        by_row = _by_row(self._rivals, sizes)
        return Curves.of_rows(sizes, by_row, np.ones(len(by_row)))

    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        some = np.arange(len(blocks.rows)) % max(1, len(blocks.rows) // _ROWS_WITH_NOISE) == 0
        counted = noisy_counts(blocks.where(some), weights)
        return partial(_means, [Rivals.of(counts / counts.sum(axis=1, keepdims=True)) for counts in counted])


def _means(noisy: list[Rivals], sizes: Int64s) -> Floats:
    """Mean disagreement for each noisy set of vote fractions."""
    return np.stack([_by_row(rivals, sizes).mean(axis=0) for rivals in noisy])


def _by_row(rivals: Rivals, sizes: Int64s) -> Floats:
    """Disagreement of each row, shape (n_rows, n_sizes)."""
    return np.stack([rivals.disagreement(int(one)) for one in sizes], axis=1)
