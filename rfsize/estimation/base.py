"""What a report asks of an estimate of agreement, whatever it was made from.

Votes or scores, a few of each row or many, two classes or more: each way to make an estimate is one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from rfsize import theory
from rfsize.estimation.intervals import SEED, Curves
from rfsize.estimation.shared_trees import LeadChanges, TreeNoise
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import TreeBlocks

# How much further off estimates of two classes are than their posterior and the blocks of trees tell, as a factor: all
# of them rests on the density at one tie, and it is not as smooth everywhere as on most problems. Measured on twelve
# problems that no benchmark has, with 400 rows and with 4000. Where there are several classes, estimates are no further
# off than they tell.
TWO_CLASSES_FURTHER_OFF = 1.25

# Rows from which the size is guessed before all are looked at.
_ROWS_TO_GUESS = 1000


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

    @property
    def further_off(self) -> float:
        """How much further off the estimate is than the noise of rows and trees that can be seen, as a factor."""
        return 1.0

    @abstractmethod
    def disagreement(self, n_trees: int) -> float:
        """Mean disagreement of a forest of ``n_trees`` with the infinite one."""

    def size(self, alpha: float) -> int | float:
        """T*(α), the smallest odd size; ``math.inf`` where none reaches α."""
        some = self.some(_ROWS_TO_GUESS)
        guess = 1 if some is self else some.size(alpha)
        return theory.smallest_size(self.disagreement, 1.0 - alpha, guess=guess, odd=True)

    def some(self, n_rows: int) -> Estimate:
        """The estimate from about so many of the rows, or this one where it is as quick."""
        return self

    @abstractmethod
    def replicates(self, size: int | float) -> Curves:
        """Disagreement around an ensemble size, or over all sizes, as uncertain as its estimate is."""

    @abstractmethod
    def with_noise(self, blocks: TreeBlocks, weights: Floats) -> Callable[[Int64s], Floats]:
        """Disagreement by the rows of blocks, to whose votes the noise of the trees is added once more.

        Parameters
        ----------
        blocks : TreeBlocks
            Of rows that the estimate was made from.
        weights : ndarray of float, shape (n_draws, n_blocks)
            What of each block's part in the votes is added; see `shared_trees`.

        Returns
        -------
        callable
            Of odd ensemble sizes, an ndarray of int64 of shape (n_sizes,), it gives the disagreement, an ndarray of
            float of shape (n_draws, n_sizes). It can be pickled.
        """

    def leads(self, blocks: TreeBlocks) -> LeadChanges:
        """How far ahead the leading classes are, by the votes."""
        return LeadChanges.of_votes(blocks)

    def tree_noise(self, blocks: TreeBlocks | None) -> TreeNoise | None:
        """The noise that all rows share; None where no blocks of trees tell it."""
        if blocks is None or blocks.n_filled < 2 or not (blocks.scores.asked > 1).any():
            return None
        generator = np.random.default_rng(SEED + 1)
        return TreeNoise.of(partial(self.with_noise, blocks), blocks, self.leads(blocks), generator)

    def replicates_with(self, noise: TreeNoise | None, size: int | float) -> Curves:
        """`replicates` with the noise of the trees, and as much wider as the estimate is further off."""
        curves = self.replicates(size)
        return (curves if noise is None else noise.added_to(curves, size)).wider(self.further_off)

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
