"""Strata: kinds of rows that are estimated separately, by the size of their group or by their class.

The smooth estimates fit one density to all rows, as if chance decided how many trees predict a row. If rows belong
together, this is wrong: rows of large groups have few votes, and they may be the rows near a tie, such as copies of a
rare class. One common density would be dominated by the other rows.

For the macro average, the kind of a row is the class that leads on it. With few trees this is not always the class that
the infinite forest gives. But the densities are folded at the tie: if they are smooth there, as many rows come from the
other side as go to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s
from rfsize.counting.part_sums import Blocks
from rfsize.estimation.base import Estimate, Margins
from rfsize.estimation.intervals import SEED, Curves
from rfsize.estimation.shared_trees import LeadChanges

# A stratum with fewer rows is merged with that of the next larger groups.
FEWEST_ROWS = 50

_DOUBLINGS = 64  # group sizes have fewer doublings than this

Mask = NDArray[np.bool_]


def of_group_sizes(sizes: Int64s) -> Int64s:
    """The stratum of each row by the size of its group; each doubling of the size is one stratum."""
    return np.ceil(np.log2(sizes)).astype(np.int64)


def within_classes(strata: Int64s | None, leader: Int64s) -> Int64s:
    """The stratum of each row by the class that leads on it, divided further by ``strata``, if any."""
    return _DOUBLINGS * leader + (0 if strata is None else strata)


def by_group_sizes(strata: Int64s, used: Mask, estimate: Callable[[Mask], Estimate]) -> Estimate:
    """The mean over the used rows, from one estimate for each stratum.

    Parameters
    ----------
    strata : ndarray of int64, shape (n_rows,)
        The stratum of each row; strata of few rows are merged.
    used : ndarray of bool, shape (n_rows,)
        Which rows are used.
    estimate : callable
        Makes the estimate of some of the rows, from a mask of shape (n_rows,).
    """
    found = _of_rows_enough(strata[used])
    if len(found) == 1:
        return estimate(used)
    rows = [used & np.isin(strata, each) for each in found]
    shares = np.array([one.sum() for one in rows]) / used.sum()
    return Strata([estimate(one) for one in rows], shares, found)


def by_class(strata: Int64s, used: Mask, estimate: Callable[[Mask], Estimate]) -> ByClass:
    """The mean over the classes that lead on any used row; ``strata`` are those of `within_classes`."""
    leader = strata // _DOUBLINGS
    classes = np.unique(leader[used]).tolist()
    rows = [used & (leader == each) for each in classes]
    parts = [by_group_sizes(strata, one, estimate) for one in rows]
    return ByClass(parts, [np.unique(strata[one]) for one in rows], classes)


def _of_rows_enough(strata: Int64s) -> list[Int64s]:
    """Groups of strata that are merged, so that each has enough rows."""
    found: list[list[int]] = [[]]
    rows = 0
    for stratum, count in zip(*np.unique(strata, return_counts=True), strict=True):
        if rows >= FEWEST_ROWS:
            found.append([])
            rows = 0
        found[-1].append(int(stratum))
        rows += int(count)
    if len(found) > 1 and rows < FEWEST_ROWS:
        found[-2:] = [found[-2] + found[-1]]
    return [np.array(each) for each in found]


class Strata(Estimate):
    """The mean of the estimates of several kinds of rows, weighted by their shares; each covers some strata."""

    def __init__(self, parts: Sequence[Estimate], shares: Floats, strata: Sequence[Int64s]) -> None:
        self._parts, self._shares, self._strata = parts, shares, strata
        self.name = parts[int(np.argmax(shares))].name
        self.caveat = next((part.caveat for part in parts if part.caveat is not None), None)

    @property
    def further_off(self) -> float:
        return max(part.further_off for part in self._parts)

    def disagreement(self, n_trees: int) -> float:
        return float(self._shares @ [part.disagreement(n_trees) for part in self._parts])

    def replicates(self, size: int | float) -> Curves:
        """Replicates of the strata, combined independently, although all are drawn with one seed."""
        curves = [part.replicates(size) for part in self._parts]
        sizes, generator = max((one.sizes for one in curves), key=len), np.random.default_rng(SEED)
        at_sizes = [generator.permutation(curve.at(sizes)) for curve in curves]
        return Curves(sizes, np.tensordot(self._shares, np.stack(at_sizes), axes=1))

    def with_noise(self, blocks: Blocks, weights: Floats) -> Callable[[Int64s], Floats]:
        return partial(
            self._mean,
            [
                part.with_noise(some, weights) if len(some.rows) else partial(_without_noise, part, len(weights))
                for part, some in zip(self._parts, self._of_each(blocks), strict=True)
            ],
        )

    def _mean(self, parts: list[Callable[[Int64s], Floats]], sizes: Int64s) -> Floats:
        return np.asarray(sum(share * part(sizes) for share, part in zip(self._shares, parts, strict=True)))

    def leads(self, blocks: Blocks) -> LeadChanges:
        """Leads in all strata; the weight of a row is its stratum's share, divided by the rows of the stratum."""
        found = []
        for part, share, some in zip(self._parts, self._shares, self._of_each(blocks), strict=True):
            if len(some.rows):
                one = part.leads(some)
                found.append(one._replace(weight=one.weight * (share / one.weight.sum())))
        return LeadChanges(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def _of_each(self, blocks: Blocks) -> list[Blocks]:
        """Blocks of each part, on the rows that at least two trees predicted."""
        assert blocks.strata is not None
        asked = blocks.scores.asked > 1
        return [blocks.where(asked & np.isin(blocks.strata, each)) for each in self._strata]

    def margins(self) -> Margins:
        margins = [part.margins() for part in self._parts]
        rows = [share * one.rows / one.rows.sum() for share, one in zip(self._shares, margins, strict=True)]
        values = np.concatenate([one.values for one in margins])
        return margins[0]._replace(values=values, rows=np.concatenate(rows))

    def why_infinite(self, alpha: float) -> str:
        never = next(part for part in self._parts if not np.isfinite(part.size(alpha)))
        return never.why_infinite(alpha)


def _without_noise(part: Estimate, n_draws: int, sizes: Int64s) -> Floats:
    """Disagreement of a part that has no rows in the blocks, shape (n_draws, n_sizes)."""
    return np.tile([part.disagreement(int(size)) for size in sizes], (n_draws, 1))


class ByClass(Strata):
    """The unweighted mean of the estimates of the classes that lead on any row.

    Attributes
    ----------
    classes : list of int
        Indices of the classes.
    """

    def __init__(self, parts: Sequence[Estimate], strata: Sequence[Int64s], classes: list[int]) -> None:
        super().__init__(parts, np.full(len(parts), 1.0 / len(parts)), strata)
        self.classes = classes

    def disagreement_of_each(self, n_trees: int) -> dict[int, float]:
        """Mean disagreement of a forest of ``n_trees`` with the infinite one on the rows of each class, by index."""
        return {of: part.disagreement(n_trees) for of, part in zip(self.classes, self._parts, strict=True)}

    def why_infinite(self, alpha: float) -> str:
        return f"one class never converges: {super().why_infinite(alpha)}"
