"""The noise that rows share because all of them ask the same trees.

Blocks of trees are independent draws. Take the deviation of each block's votes on a row from the row's mean, and add up
the deviations with random weights of mean 0 and variance 1. The sum is another draw of the noise in the row's votes,
and with the same weights on all rows, the rows err together as with the real trees. The estimate is computed with this
noise added and with it subtracted. Half the difference, in logarithms, is a draw of the estimate's own noise. This
needs no derivative and is as large as real changes of the votes: if there are only a few kinds of trees, a fitted
density is far from linear in the votes.

Estimates already include the noise of each row by itself. That part is known from the variances of the rows, and left
out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s
from rfsize.counting.part_sums import Blocks
from rfsize.counting.votes import two_leaders
from rfsize.estimation.intervals import REPLICATES, Curves, between, sizes_around

N_DRAWS = 20

# Error that remains with any number of rows and trees, as a share of the disagreement: densities are less smooth than
# assumed, scores are not normal. Measured on the five known problems of `benchmarks/intervals.py`.
_UNFOLLOWED = 0.03

_LEAST = 1e-300


class LeadChanges(NamedTuple):
    """The lead of each row's leading class over its nearest rival, and how much each block of trees changes the lead.

    Attributes
    ----------
    lead : ndarray of float, shape (n_rows,)
        Mean lead, divided by the standard deviation of one tree's lead.
    change : ndarray of float, shape (n_rows, n_blocks)
        How much each block adds to the lead, compared with the same number of average trees.
    asked : ndarray of float, shape (n_rows,)
        Number of trees asked.
    weight : ndarray of float, shape (n_rows,)
        Weight of the row in the mean over the rows.
    """

    lead: Floats
    change: Floats
    asked: Floats
    weight: Floats

    @classmethod
    def of_votes(cls, blocks: Blocks) -> LeadChanges:
        """Leads in votes."""
        counts, each = blocks.counts, np.arange(len(blocks.rows))
        leader, rival = two_leaders(counts)
        ahead, behind = counts[each, leader], counts[each, rival]
        asked = np.maximum(counts.sum(axis=1), 1)
        scale = 1.0 / np.sqrt(np.maximum(ahead + behind, 1) * asked)
        beyond = beyond_mean(blocks)
        change = beyond[each, :, leader] - beyond[each, :, rival]
        return cls((ahead - behind) * scale, change * scale[:, None], asked.astype(np.float64), np.ones(len(asked)))

    def own_share(self, sizes: Int64s) -> Floats:
        """Share of the variance of the disagreement that is due to each row by itself, shape (n_sizes,).

        A row is weighted by how much a change of its lead changes the disagreement at that size, near a tie. For
        forests larger than the number of trees asked, the lead is not known well enough for that size.
        """
        squares = (self.change**2).sum(axis=1)
        shares = []
        for size in sizes:
            known = np.sqrt(1.0 / (1.0 / size + 1.0 / np.maximum(self.asked, 1.0)))
            weight = np.exp(-0.5 * np.minimum(known * self.lead, 30.0) ** 2) * known * self.weight
            together = ((weight @ self.change) ** 2).sum()
            shares.append(min(1.0, float(weight**2 @ squares) / max(together, _LEAST)))
        return np.array(shares)


@dataclass(frozen=True, eq=False)
class TreeNoise:
    """The noise of the trees in an estimate: drawn once, and evaluated at any ensemble size.

    Attributes
    ----------
    disagreement : callable
        Takes ensemble sizes. Returns the estimates with each draw of the noise added to the votes, then with each
        subtracted; shape (2·N_DRAWS, n_sizes).
    leads : LeadChanges
    mixed : ndarray of float, shape (REPLICATES, N_DRAWS)
        How much of each draw enters each replicate of the estimate.
    unfollowed : ndarray of float, shape (REPLICATES, 1)
        The remaining error of each replicate, in logarithms.
    """

    disagreement: Callable[[Int64s], Floats]
    leads: LeadChanges
    mixed: Floats
    unfollowed: Floats

    @classmethod
    def of(
        cls,
        with_noise: Callable[[Floats], Callable[[Int64s], Floats]],
        blocks: Blocks,
        leads: LeadChanges,
        generator: np.random.Generator,
    ) -> TreeNoise:
        """The noise of an estimate; ``with_noise`` adds noise to the votes by weights of shape (n_draws, n_blocks)."""
        freedom = blocks.n_filled - 1.0
        # The deviations of blocks are measured from their own mean.
        weights = generator.standard_normal((N_DRAWS, blocks.votes.shape[1]))
        weights *= math.sqrt(blocks.n_filled / freedom)
        mixed = generator.standard_normal((REPLICATES, N_DRAWS))
        # With few blocks their scatter is itself uncertain, so Student's t.
        mixed *= np.sqrt(freedom / generator.chisquare(freedom, size=(REPLICATES, 1)) / N_DRAWS)
        unfollowed = _UNFOLLOWED * generator.standard_normal((REPLICATES, 1))
        return cls(with_noise(np.concatenate([weights, -weights])), leads, mixed, unfollowed)

    def at(self, sizes: Int64s) -> Floats:
        """Draws of the shared noise, in the logarithm of the estimate, shape (N_DRAWS, n_sizes)."""
        found = np.log(np.maximum(self.disagreement(sizes), _LEAST))
        return np.asarray((found[:N_DRAWS] - found[N_DRAWS:]) / 2.0 * np.sqrt(1.0 - self.leads.own_share(sizes)))

    def added_to(self, curves: Curves, size: int | float) -> Curves:
        """Curves of the estimate around an ensemble size, with the shared noise added."""
        around = sizes_around(size)
        factors = self.mixed @ between(curves.sizes, around, self.at(around)) + self.unfollowed
        return Curves(curves.sizes, np.minimum(curves.disagreement * np.exp(factors), 1.0))


def beyond_mean(blocks: Blocks) -> Floats:
    """Votes of each block minus those of the same number of average trees, shape (n_rows, n_blocks, n_classes)."""
    votes = blocks.votes.astype(np.float64)
    total = votes.sum(axis=1, keepdims=True)
    of_block = votes.sum(axis=2, keepdims=True)
    return votes - of_block * total / np.maximum(total.sum(axis=2, keepdims=True), 1.0)


def noisy_counts(blocks: Blocks, weights: Floats) -> Iterator[Floats]:
    """Yield the votes with the noise of the trees added once more, on rows that have votes.

    Each array has shape (n_rows, n_classes); there is one for each draw of ``weights``, shape (n_draws, n_blocks).
    """
    voted = blocks.where(blocks.counts.sum(axis=1) > 0)
    for noise in weighted_sums(beyond_mean(voted), weights):
        yield np.maximum(voted.counts + noise, 0.0)


def weighted_sums(of_blocks: NDArray[Any], weights: Floats) -> Floats:
    """Sums over the blocks, shape (n_draws, n_rows, n), of an array of shape (n_rows, n_blocks, n).

    ``weights`` has shape (n_draws, n_blocks).
    """
    n_rows, n_blocks, n = of_blocks.shape
    by_block = of_blocks.transpose(1, 0, 2).reshape(n_blocks, -1)
    return np.asarray((weights @ by_block).reshape(len(weights), n_rows, n))
