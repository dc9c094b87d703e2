"""Many classes from few votes: on each row, the leading class competes with its first two rivals.

Given the number of votes for the leader or one rival, the rival's votes are binomial. The rival's share of them has a
density over the rows, like the vote fractions of two classes. `deconvolution` fits one density to the votes of the
runners-up and one to those of the third classes. If the two classes get a share s of all votes, a forest of T trees
gives them T·s votes, and near a tie disagreement goes like (T·s)^(−1/2). Therefore s is averaged as s^(−1/2), at each
value of the rival's share over the rows that may have it. Agreement is the product, over both rivals, of the mean
probability that the rival does not overtake the leader. The product assumes independence, but both rivals threaten on
the same rows, so for a few trees the estimated agreement is too low. Classes in fourth place and below are left out.

The votes themselves rank the classes. If several rivals are similar, the first one looks closer to the leader than it
is, and the next one less close. In the product, these errors mostly cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s
from rfsize.counting.part_sums import Blocks
from rfsize.counting.votes import Votes
from rfsize.estimation import deconvolution
from rfsize.estimation.base import TWO_CLASSES_FURTHER_OFF, Estimate, Margins
from rfsize.estimation.deconvolution import Density, VoteCells
from rfsize.estimation.intervals import Curves, sizes_around
from rfsize.estimation.shared_trees import noisy_counts
from rfsize.theory.multiclass import Rivals

_RIVALS = 2
_FACTORS = 2.0 ** np.arange(-6.0, 9.0)  # sizes around T* at which the disagreement is computed for posterior draws


class ClassPair(NamedTuple):
    """The leader against the rival in second place, or in third.

    Attributes
    ----------
    density : Density
        Density of the rival's share of the votes for the two classes.
    share : ndarray of float, shape (n_fractions,)
        Share of all votes that the two classes get, at each fraction of the density.
    """

    density: Density
    share: Floats

    @classmethod
    def of(cls, leader: Int64s, rival: Int64s, asked: Int64s, order: int) -> ClassPair:
        """Fit density and share to the votes for leader and rival, and the trees asked, each of shape (n_rows,)."""
        either = leader + rival
        cells, cell = VoteCells.binned(rival, either, np.ones_like(rival))
        density = deconvolution.fit_density(cells, order)
        thinned = np.bincount(cell, weights=np.sqrt(asked / either)) / cells.rows
        return cls(density, deconvolution.given_fraction(cells, density, thinned) ** -2.0)

    def overtaken(self, n_trees: int) -> Floats:
        """Probability at each fraction that the rival gets more votes than the leader; a tie counts half."""
        part = self.density.fractions
        first = np.arange(len(part) + 1)
        tied = [
            Rivals(self.share * (1.0 - part), first, self.share * part, np.full(len(part), wins))
            for wins in (False, True)
        ]
        return (tied[0].disagreement(n_trees) + tied[1].disagreement(n_trees)) / 2.0

    def overtaken_at(self, sizes: Int64s) -> Floats:
        """The probabilities of `overtaken` at several sizes, shape (n_fractions, n_sizes)."""
        return np.stack([self.overtaken(int(size)) for size in sizes], axis=1)


class SmoothPairs(Estimate):
    """The leading class of each row against its rivals, with the fitted densities of their shares of the votes."""

    name = "smooth"

    def __init__(self, contests: list[ClassPair]) -> None:
        self._contests = contests

    @classmethod
    def of(cls, votes: Votes) -> SmoothPairs:
        """Fit the contests to the votes of all rows; ``ValueError`` if no row has a vote."""
        counts = votes.counts[votes.asked > 0].astype(np.int64)
        if not len(counts):
            raise ValueError("no row has a vote: there is nothing to fit a density to")
        asked = counts.sum(axis=1)
        leader, *rivals = _ranked(counts)
        if not rivals[-1].any():
            del rivals[-1]
        return cls([ClassPair.of(leader, rival, asked, order) for order, rival in enumerate(rivals)])

    @property
    def peak(self) -> float:
        """`Density.peak` of the runners-up."""
        return self._contests[0].density.peak

    @property
    def further_off(self) -> float:
        return TWO_CLASSES_FURTHER_OFF if len(self._contests) == 1 else 1.0

    def disagreement(self, n_trees: int) -> float:
        # A single tree disagrees if it votes for any class but the leader.
        contests = self._contests if n_trees > 1 else self._contests[:1]
        agrees = [1.0 - contest.density.mass @ contest.overtaken(n_trees) for contest in contests]
        return float(1.0 - np.prod(agrees))

    def margins(self) -> Margins:
        density = self._contests[0].density
        return Margins("runner-up's share of the two leading classes' votes", 0.5, 0.0, density.fractions, density.mass)

    def replicates(self, size: int | float) -> Curves:
        """Disagreement under posterior draws of the runners-up's density; the part of the third class stays fixed."""
        sizes, density = sizes_around(size, _FACTORS), self._contests[0].density
        overtaken = self._contests[0].overtaken_at(sizes)
        added = np.array([self.disagreement(int(size)) for size in sizes]) / (density.mass @ overtaken)
        return Curves(sizes, density.draws @ overtaken * added)

    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        masses = []
        for counts in noisy_counts(blocks, weights):
            leader, *rivals = _ranked(counts)
            cells = [VoteCells.binned(rival, leader + rival, np.ones(len(leader)))[0] for rival in rivals]
            fitted = [one.density.fit_again(of) for one, of in zip(self._contests, cells, strict=False)]
            masses.append(np.stack(fitted))
        return partial(self._by_masses, np.stack(masses, axis=1))

    def _by_masses(self, masses: Floats, sizes: Int64s) -> Floats:
        """Disagreement for ``masses`` of the densities, of shape (n_contests, n_draws, n_fractions)."""
        agrees = [1.0 - mass @ one.overtaken_at(sizes) for one, mass in zip(self._contests, masses, strict=True)]
        return np.asarray(1.0 - np.prod(agrees, axis=0))


def _ranked(counts: NDArray[Any]) -> NDArray[Any]:
    """Votes for the leading class and for its first rivals, shape (n, n_rows)."""
    return np.asarray(-np.sort(np.partition(-counts, _RIVALS, axis=1)[:, : _RIVALS + 1], axis=1).T)
