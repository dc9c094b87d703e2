"""The interface of all estimates of agreement, which reports use.

There is one class for each way to estimate: from votes or scores, from few or many of them, for two or more classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from rfsize import theory
from rfsize._util import Floats, Int64s
from rfsize.counting.part_sums import Blocks
from rfsize.estimation.intervals import SEED, Curves
from rfsize.estimation.shared_trees import LeadChanges, TreeNoise

# For two classes, the error of estimates exceeds the noise of rows and trees by this factor: the estimate rests on the
# density at one tie, and on some problems this density is not smooth. Measured on twelve problems that no benchmark
# has, with 400 rows and with 4000. With more classes, errors are no larger than the noise.
TWO_CLASSES_FURTHER_OFF = 1.25

# The size is first guessed from this number of rows, then found from all.
_ROWS_TO_GUESS = 1000


class Margins(NamedTuple):
    """Distances of the rows from a tie.

    Attributes
    ----------
    what : str
        The name of the measure, for an axis.
    tie, most : float
        The value at a tie, and the value farthest from a tie.
    values : ndarray of float, shape (n,)
        Values of the rows.
    rows : ndarray of float, shape (n,)
        Number or share of the rows with each value.
    """

    what: str
    tie: float
    most: float
    values: Floats
    rows: Floats


class Estimate(ABC):
    """An estimate of the agreement of forests of any size with the infinite forest."""

    name = "plugin"
    """The name of the method in `rfsize.size`."""

    caveat: str | None = None
    """Why the estimate cannot be trusted, for the report; None if it can."""

    @property
    def further_off(self) -> float:
        """The factor by which the error of the estimate exceeds the measured noise of rows and trees."""
        return 1.0

    @abstractmethod
    def disagreement(self, n_trees: int) -> float:
        """Mean disagreement of a forest of ``n_trees`` with the infinite one."""

    def size(self, alpha: float) -> int | float:
        """T*(α), the smallest odd size; ``math.inf`` if no size reaches α."""
        some = self.some(_ROWS_TO_GUESS)
        guess = 1 if some is self else some.size(alpha)
        return theory.smallest_size(self.disagreement, 1.0 - alpha, guess=guess, odd=True)

    def some(self, n_rows: int) -> Estimate:
        """The estimate from about ``n_rows`` of the rows, or this estimate if it is equally fast."""
        return self

    @abstractmethod
    def replicates(self, size: int | float) -> Curves:
        """Replicates of the disagreement around an ensemble size, or over all sizes, which show its uncertainty."""

    @abstractmethod
    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        """Disagreement on the rows of the blocks, after adding the noise of the trees to the votes once more.

        Parameters
        ----------
        blocks : Blocks
            Blocks of trees on rows that the estimate was made from.
        weights : ndarray of float, shape (n_draws, n_blocks)
            How much of each block's deviation is added; see `shared_trees`.

        Returns
        -------
        callable
            Takes odd ensemble sizes, an ndarray of int64 of shape (n_sizes,). Returns the disagreement, an ndarray of
            float of shape (n_draws, n_sizes). It can be pickled.
        """

    def leads(self, blocks: Blocks) -> LeadChanges:
        """The leads of the leading classes, by the votes."""
        return LeadChanges.of_votes(blocks)

    def tree_noise(self, blocks: Blocks | None) -> TreeNoise | None:
        """The noise that all rows share; None without blocks of trees."""
        if blocks is None or blocks.n_filled < 2 or not (blocks.scores.asked > 1).any():
            return None
        generator = np.random.default_rng(SEED + 1)
        blocks = blocks.apart
        return TreeNoise.of(partial(self.with_noise, blocks), blocks, self.leads(blocks), generator)

    def replicates_with(self, noise: TreeNoise | None, size: int | float) -> Curves:
        """`replicates` with the noise of the trees added, and widened by the factor `further_off`."""
        curves = self.replicates(size)
        return (curves if noise is None else noise.added_to(curves, size)).wider(self.further_off)

    @abstractmethod
    def margins(self) -> Margins:
        """Distances of the rows from a tie, by this estimate."""

    def why_infinite(self, alpha: float) -> str:
        """Why `size` is infinite, in one sentence."""
        return f"more than {theory.MAX_TREES:,} trees would be needed"

    def unless_doubted(self, other: Callable[[], Estimate]) -> Estimate:
        """This estimate; if it has a caveat, the other estimate with the same caveat."""
        if self.caveat is None:
            return self
        found = other()
        found.caveat = self.caveat
        return found
