"""The noise that rows share because all of them are asked of the same trees.

Blocks of trees are independent draws, so that what their votes on a row are beyond its mean, added up with random
weights of mean 0 and variance 1, is another draw of the noise that the row's votes have: on all rows at once, just as
the trees make rows err together. The estimate is made again with that noise added, and taken away; half the difference,
in logarithms, is a draw of the estimate's own noise. It needs no derivative, and goes as far as the votes really do:
where trees are of a few kinds, a fitted density is far from linear in them.

Estimates already know how uncertain the votes of a row are by themselves. That part of the scatter is told by the rows'
variances, and left out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import N_BLOCKS, TreeBlocks

N_DRAWS = 20

_LEAST = 1e-300


class LeadChanges(NamedTuple):
    """How far ahead the leading class of a row is of its nearest rival, and what blocks of trees change that by.

    Attributes
    ----------
    lead : ndarray of float, shape (n_rows,)
        Mean lead over the standard deviation of one tree's.
    change : ndarray of float, shape (n_rows, n_blocks)
        What each block adds to it beyond as many average trees.
    asked : ndarray of float, shape (n_rows,)
        Trees that were asked.
    """

    lead: Floats
    change: Floats
    asked: Floats

    @classmethod
    def of_votes(cls, blocks: TreeBlocks) -> LeadChanges:
        """Leads in votes."""
        counts, each = blocks.counts, np.arange(len(blocks.rows))
        leader = counts.argmax(axis=1)
        without = counts.copy()
        without[each, leader] = -1
        rival = without.argmax(axis=1)
        ahead, behind = counts[each, leader], counts[each, rival]
        asked = np.maximum(counts.sum(axis=1), 1)
        scale = 1.0 / np.sqrt(np.maximum(ahead + behind, 1) * asked)
        beyond = beyond_mean(blocks)
        change = beyond[each, :, leader] - beyond[each, :, rival]
        return cls((ahead - behind) * scale, change * scale[:, None], asked.astype(np.float64))

    def own_share(self, sizes: Int64s) -> Floats:
        """Part of the variance of disagreement that is due to each row by itself, shape (n_sizes,).

        A row counts as much as a change of its lead changes the disagreement of a forest of that size, near a tie; of
        larger forests than were asked, the lead is not known so well.
        """
        squares = (self.change**2).sum(axis=1)
        shares = []
        for size in sizes:
            known = np.sqrt(1.0 / (1.0 / size + 1.0 / np.maximum(self.asked, 1.0)))
            weight = np.exp(-0.5 * np.minimum(known * self.lead, 30.0) ** 2) * known
            together = ((weight @ self.change) ** 2).sum()
            shares.append(min(1.0, float(weight**2 @ squares) / max(together, _LEAST)))
        return np.array(shares)


def beyond_mean(blocks: TreeBlocks) -> Floats:
    """Votes of each block beyond what the row's mean makes of as many, shape (n_rows, n_blocks, n_classes)."""
    votes = blocks.votes.astype(np.float64)
    total = votes.sum(axis=1, keepdims=True)
    of_block = votes.sum(axis=2, keepdims=True)
    return votes - of_block * total / np.maximum(total.sum(axis=2, keepdims=True), 1.0)


def noisy_counts(blocks: TreeBlocks, weights: Floats) -> Floats:
    """Votes with the noise of the trees added once more, shape (n_rows, n_classes), of rows that have any votes."""
    voted = blocks.where(blocks.counts.sum(axis=1) > 0)
    noise = np.einsum("rbc,b->rc", beyond_mean(voted), weights)
    return np.asarray(np.maximum(voted.counts + noise, 0.0))


def shared_noise(
    disagreement: Callable[[Floats], Floats], n_blocks: int, own_share: Floats, generator: np.random.Generator
) -> Floats:
    """Draws of the noise that rows share, in the logarithm of an estimate, shape (N_DRAWS, n_sizes).

    Parameters
    ----------
    disagreement : callable
        The estimate at some sizes, shape (n_sizes,), with noise added to the votes: the weight of each block.
    n_blocks : int
        Blocks that hold any trees.
    own_share : ndarray of float, shape (n_sizes,)
        Part of the variance that is not shared.
    """
    # What blocks add is measured from their mean.
    weights = generator.standard_normal((N_DRAWS, N_BLOCKS)) * math.sqrt(n_blocks / (n_blocks - 1.0))
    drawn = [0.5 * np.log(_above(disagreement(one)) / _above(disagreement(-one))) for one in weights]
    return np.asarray(np.stack(drawn) * np.sqrt(1.0 - own_share))


def _above(disagreement: Floats) -> Floats:
    return np.maximum(disagreement, _LEAST)
