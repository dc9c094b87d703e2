"""Rows of which few trees were asked beside rows of which many were: each kind is sized by itself.

The smooth estimates fit one density to all rows, as if it were by chance how many trees are asked about a row. Where
rows belong together that is not so: those of large groups have few votes, and may be the ones near a tie, such as the
copies of a rare class. The density would be that of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rfsize.estimation.base import Curves, Estimate, Margins
from rfsize.estimation.shared_trees import LeadChanges
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import TreeBlocks

# Fewer rows than this say too little by themselves, and are put with those of the next larger groups.
_FEWEST_ROWS = 50


def by_strata(
    sizes: NDArray[np.int64],
    asked: NDArray[np.int32],
    estimate: Callable[[NDArray[np.bool_]], Estimate],
    *,
    at_least: int,
) -> Estimate:
    """The estimate of all rows from those of the strata.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_rows,)
        Rows of the group that each row belongs to; each doubling of it is a stratum.
    asked : ndarray of int32, shape (n_rows,)
        Trees asked; rows with fewer than ``at_least`` are left out.
    estimate : callable
        Makes the estimate of some of the rows, a mask of shape (n_rows,).
    """
    used = asked >= at_least
    strata = _strata(_doublings(sizes[used]))
    parts = [used & np.isin(_doublings(sizes), each) for each in strata]
    if len(parts) == 1:
        return estimate(used)
    shares = np.array([part.sum() for part in parts]) / used.sum()
    return Strata([estimate(part) for part in parts], shares, strata)


def _doublings(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ceil(np.log2(sizes)).astype(np.int64)


def _strata(doublings: NDArray[np.int64]) -> list[list[int]]:
    """Doublings that make up each stratum."""
    strata: list[list[int]] = [[]]
    rows = 0
    for doubling, count in zip(*np.unique(doublings, return_counts=True), strict=True):
        if rows >= _FEWEST_ROWS:
            strata.append([])
            rows = 0
        strata[-1].append(int(doubling))
        rows += int(count)
    if len(strata) > 1 and rows < _FEWEST_ROWS:
        strata[-2:] = [strata[-2] + strata[-1]]
    return strata


class Strata(Estimate):
    """The mean of the estimates of strata, weighted by their shares of the rows; each is of some doublings."""

    def __init__(self, parts: Sequence[Estimate], shares: Floats, strata: Sequence[Sequence[int]]) -> None:
        self._parts, self._shares, self._strata = parts, shares, strata
        self.name = parts[int(np.argmax(shares))].name
        self.caveat = next((part.caveat for part in parts if part.caveat is not None), None)

    def disagreement(self, n_trees: int) -> float:
        return float(self._shares @ [part.disagreement(n_trees) for part in self._parts])

    def replicates(self, size: int | float) -> Curves:
        """Those of the strata, drawn independently of one another."""
        curves = [part.replicates(size) for part in self._parts]
        sizes = curves[0].sizes
        at_sizes = [_at(curve, sizes) for curve in curves]
        return Curves(sizes, np.tensordot(self._shares, np.stack(at_sizes), axes=1))

    def with_noise(self, blocks: TreeBlocks, weights: Floats, sizes: Int64s) -> Floats:
        assert blocks.group_sizes is not None
        doublings = _doublings(blocks.group_sizes)
        total = np.zeros((len(weights), len(sizes)))
        for part, share, each in zip(self._parts, self._shares, self._strata, strict=True):
            rows = np.isin(doublings, each)
            total += share * part.with_noise(blocks.where(rows), weights, sizes)
        return total

    def leads(self, blocks: TreeBlocks) -> LeadChanges:
        return self._parts[0].leads(blocks)

    def margins(self) -> Margins:
        margins = [part.margins() for part in self._parts]
        rows = [share * one.rows / one.rows.sum() for share, one in zip(self._shares, margins, strict=True)]
        values = np.concatenate([one.values for one in margins])
        return margins[0]._replace(values=values, rows=np.concatenate(rows))

    def why_infinite(self, alpha: float) -> str:
        never = next(part for part in self._parts if not np.isfinite(part.size(alpha)))
        return never.why_infinite(alpha)


def _at(curves: Curves, sizes: NDArray[np.int64]) -> Floats:
    """Disagreement at other sizes: curves are nearly straight on logarithmic axes."""
    if np.array_equal(curves.sizes, sizes):
        return curves.disagreement
    log_curves = np.log(np.maximum(curves.disagreement, 1e-300))
    return np.exp([np.interp(np.log(sizes), np.log(curves.sizes), curve) for curve in log_curves])
