"""What a report asks of an estimate of agreement, whatever it was made from.

Votes or scores, a few of each row or many, two classes or more: each way to make an estimate is one class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import theory
from rfsize.estimation.shared_trees import LeadChanges, shared_noise
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import TreeBlocks

REPLICATES = 200
SEED = 2013  # fixed: the same votes give the same interval

# What no estimate follows, however many rows and trees there are, as a share of the disagreement: densities that are
# not so smooth, scores that are not normal. Measured on the five known problems of `benchmarks/intervals.py`.
_UNFOLLOWED = 0.03

# Sizes around T* at which the bootstrap knows the disagreement, and groups of rows per factor of e in it.
_FACTORS = 2.0 ** np.arange(-3.0, 4.0)
_GROUPS_PER_FACTOR = 32.0


class Curves(NamedTuple):
    """Mean disagreement over ensemble sizes, as it might also have come out.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_sizes,)
        Odd ensemble sizes.
    disagreement : ndarray of float, shape (n_replicates, n_sizes)
        Mean over all rows, in each replicate.
    """

    sizes: NDArray[np.int64]
    disagreement: Floats

    @classmethod
    def drawn_again(cls, sizes: NDArray[np.int64], disagreement: Floats, rows: Floats) -> Curves:
        """Replicates by the bootstrap over rows, which come in groups of a mean disagreement each."""
        n_rows = round(rows.sum())
        drawn = np.random.default_rng(SEED).multinomial(n_rows, rows / rows.sum(), size=REPLICATES)
        return cls(sizes, drawn @ disagreement / n_rows)

    @classmethod
    def of_rows(cls, sizes: NDArray[np.int64], by_row: Floats, rows: Floats) -> Curves:
        """The same from the disagreement of each row, shape (n_rows, n_sizes), which stands for so many ``rows``."""
        # Rows whose disagreement is alike at one size have it alike at the others.
        middle = np.maximum(by_row[:, len(sizes) // 2], 1e-12)
        _, group = np.unique(np.floor(np.log(middle) * _GROUPS_PER_FACTOR), return_inverse=True)
        in_group = np.bincount(group, weights=rows).astype(np.float64)
        sums = np.stack([np.bincount(group, weights=rows * column) for column in by_row.T], axis=1)
        return cls.drawn_again(sizes, sums / in_group[:, None], in_group)

    def quantile(self, alpha: float, share: float) -> int | float:
        """The size that T*(α) is at most in a share of the replicates.

        Each replicate's T* is read off its curve, which is close to a straight line on logarithmic axes.
        """
        log_curves = np.log(np.maximum(self.disagreement, 1e-300))
        log_sizes, target = np.log(self.sizes), math.log(1.0 - alpha)
        found = [np.interp(-target, -curve, log_sizes, right=np.inf) for curve in log_curves]
        return _odd(float(np.quantile(np.exp(found), share, method="inverted_cdf")))


class Margins(NamedTuple):
    """How far from a tie the rows are.

    Attributes
    ----------
    what : str
        What is measured, as an axis names it.
    tie, most : float
        Its value at a tie, and far from one.
    values : ndarray of float, shape (n,)
        Values that rows have.
    rows : ndarray of float, shape (n,)
        Rows, or shares of them, with each value.
    """

    what: str
    tie: float
    most: float
    values: Floats
    rows: Floats


class Estimate(ABC):
    """Agreement of forests of any size with the infinite one, estimated in one way."""

    name = "plugin"
    """As `rfsize.size` names it."""

    caveat: str | None = None
    """What a report says of an estimate that is not to be trusted."""

    @abstractmethod
    def disagreement(self, n_trees: int) -> float:
        """Mean disagreement of a forest of ``n_trees`` with the infinite one."""

    def size(self, alpha: float) -> int | float:
        """T*(α), the smallest odd size; ``math.inf`` where none reaches α."""
        return theory.smallest_odd(self.disagreement, alpha)

    @abstractmethod
    def replicates(self, size: int | float) -> Curves:
        """Disagreement around an ensemble size, or over all sizes, as uncertain as its estimate is."""

    @abstractmethod
    def with_noise(self, blocks: TreeBlocks, weights: Floats, sizes: Int64s) -> Floats:
        """Disagreement at some sizes by the rows of blocks, to whose votes the noise of the trees is added once more.

        Parameters
        ----------
        blocks : TreeBlocks
            Of rows that the estimate was made from.
        weights : ndarray of float, shape (n_draws, n_blocks)
            What of each block's part in the votes is added; see `shared_trees`.
        sizes : ndarray of int64, shape (n_sizes,)

        Returns
        -------
        ndarray of float, shape (n_draws, n_sizes)
        """

    def leads(self, blocks: TreeBlocks) -> LeadChanges:
        """How far ahead the leading classes are, by the votes."""
        return LeadChanges.of_votes(blocks)

    def shaken_replicates(self, size: int | float, blocks: TreeBlocks | None) -> Curves:
        """`replicates` with the noise that all rows share, where blocks of the trees tell it."""
        curves = self.replicates(size)
        if blocks is None or blocks.n_filled < 2 or not (blocks.scores.asked > 1).any():
            return curves
        generator, at = np.random.default_rng(SEED + 1), sizes_around(size)
        own_share = self.leads(blocks).own_share(at)
        drawn = shared_noise(lambda weights: self.with_noise(blocks, weights, at), blocks, own_share, generator)
        noise = np.stack([np.interp(np.log(curves.sizes), np.log(at), one) for one in drawn])
        mixed = generator.standard_normal((len(curves.disagreement), len(noise)))
        # The scatter of so few blocks is itself uncertain: Student's t.
        freedom = blocks.n_filled - 1.0
        mixed *= np.sqrt(freedom / generator.chisquare(freedom, size=(len(mixed), 1)) / len(noise))
        factors = mixed @ noise + _UNFOLLOWED * generator.standard_normal((len(mixed), 1))
        return Curves(curves.sizes, np.minimum(curves.disagreement * np.exp(factors), 1.0))

    @abstractmethod
    def margins(self) -> Margins:
        """How far from a tie the rows are, by this estimate."""

    def why_infinite(self, alpha: float) -> str:
        """The reason why `size` found none, in one sentence."""
        return f"more than {theory.MAX_TREES:,} trees would be needed"

    def unless_doubted(self, other: Callable[[], Estimate]) -> Estimate:
        """This estimate, or where it has a caveat the other one, with the same caveat."""
        if self.caveat is None:
            return self
        found = other()
        found.caveat = self.caveat
        return found


def spread_sizes() -> NDArray[np.int64]:
    """Odd ensemble sizes up to the largest searched for, four for each doubling."""
    steps = np.arange(0.0, math.log2(theory.MAX_TREES), 0.25)
    return np.unique(2 * np.floor(2.0 ** (steps - 1.0)).astype(np.int64) + 1)


def sizes_around(size: int | float) -> NDArray[np.int64]:
    """Odd ensemble sizes from an eighth to eight times a size."""
    around = min(size, theory.MAX_TREES // 16) * _FACTORS
    return np.unique(2 * np.floor(around / 2.0).astype(np.int64) + 1)


def _odd(size: float) -> int | float:
    """The smallest odd whole number that is at least ``size``."""
    return 2 * math.ceil((size - 1.0) / 2.0 - 1e-9) + 1 if math.isfinite(size) else math.inf
