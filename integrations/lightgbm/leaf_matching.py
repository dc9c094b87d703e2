"""Finds the leaves that rows reached in a booster in training, by their scores, and proves bags with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rfsize.utils.typing import Bools, Floats, Int64s

# How far, in tolerances, a score can lie from the smallest of nearly equal leaves if one of these gave a constant.
_SLACK = 6.0
_ROWS_AT_ONCE, _PAIRS_AT_ONCE = 1 << 16, 1 << 20


@dataclass(frozen=True)
class LeafValues:
    """The leaves of one tree by their values. Leaves with nearly equal values count as one.

    Attributes
    ----------
    value : ndarray of float64, shape (n_values,)
        Distinct values, ascending.
    count : ndarray of float64, shape (n_values,)
        Number of in-bag rows that LightGBM counted in the leaves of each value.
    tolerance : float
        How far a score may lie from the value of its leaf.
    """

    value: Floats
    count: Floats
    tolerance: float

    @classmethod
    def of(cls, value: Floats, count: Floats, tolerance: float) -> LeafValues:
        """The leaves of a tree, from the numbers in the model text."""
        order = np.argsort(value)
        first = np.append(True, np.diff(value[order]) > 2.0 * tolerance)
        rows = np.bincount(np.cumsum(first) - 1, weights=count[order]).astype(np.float64)
        return cls(value[order][first], rows, tolerance)

    def find(self, score: Floats) -> tuple[Int64s, Bools]:
        """The place of each score among the values, and whether a value is near enough."""
        place = np.searchsorted((self.value[1:] + self.value[:-1]) / 2.0, score)
        return place, np.abs(self.value[place] - score) <= _SLACK * self.tolerance


def find_up_to_constant(score: Floats, leaves: Sequence[LeafValues]) -> tuple[Int64s, Int64s]:
    """All ways to match the scores of a row, plus one constant, to one leaf of each tree.

    Parameters
    ----------
    score : ndarray of float64, shape (n_trees, n_rows)
        At least two trees.
    leaves : sequence of LeafValues
        The leaves of each tree.

    Returns
    -------
    row : ndarray of int64, shape (n_found,)
        Number of the row, once for each way.
    place : ndarray of int64, shape (n_trees, n_found)
        The leaf of each tree.
    """
    parts = [
        (row + start, place)
        for start in range(0, max(score.shape[1], 1), _ROWS_AT_ONCE)
        for row, place in _ways(score[:, start : start + _ROWS_AT_ONCE], leaves)
    ]
    rows, places = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(places, axis=1)


def _ways(score: Floats, leaves: Sequence[LeafValues]) -> Iterator[tuple[Int64s, Int64s]]:
    """The difference of the scores of two trees has no constant, so few pairs of leaves are left to check."""
    one, two, *others = sorted(range(len(leaves)), key=lambda tree: leaves[tree].value.size)
    slack = _SLACK * leaves[one].tolerance
    gap, width = score[two] - score[one], leaves[two].value.size
    step = max(_PAIRS_AT_ONCE // width, 1)
    for start in range(0, leaves[one].value.size, step):
        gaps = np.subtract.outer(-leaves[one].value[start : start + step], -leaves[two].value).ravel()
        order = np.argsort(gaps)
        low, high = (np.searchsorted(gaps[order], gap + bound) for bound in (-slack, slack))
        row = np.repeat(np.arange(gap.size), high - low)
        nth = np.arange(row.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        pair = order[low[row] + nth]
        place = np.empty((len(leaves), row.size), dtype=np.int64)
        place[one], place[two] = pair // width + start, pair % width
        constant = leaves[one].value[place[one]] - score[one, row]
        for tree in others:
            place[tree], fits = leaves[tree].find(score[tree, row] + constant)
            row, place, constant = row[fits], place[:, fits], constant[fits]
        yield row, place


def bag_fits(score: Floats, leaves: Sequence[LeafValues], lost: int) -> bool:
    """Whether the number of in-bag rows in each leaf is the number that LightGBM counted.

    Parameters
    ----------
    score : ndarray of float64, shape (n_trees, n_rows)
        Scores of the in-bag rows, by one tree; or by several trees, up to one constant for each row.
    leaves : sequence of LeafValues
        The leaves of each tree.
    lost : int
        Number of in-bag rows with unknown scores. They may be in any leaf.
    """
    if len(leaves) == 1:
        place, found = leaves[0].find(score[0])
        row, place = np.flatnonzero(found), place[None, found]
    else:
        row, place = find_up_to_constant(score, leaves)
    ways = np.bincount(row, minlength=score.shape[1])
    sure, unsure = ways[row] == 1, int(np.count_nonzero(ways > 1)) + lost
    return bool((ways > 0).all()) and all(
        _counts_fit(one, of_tree, row, sure, lost, unsure) for one, of_tree in zip(leaves, place, strict=True)
    )


def _counts_fit(leaves: LeafValues, place: Int64s, row: Int64s, sure: Bools, lost: int, unsure: int) -> bool:
    """Whether the rows with a sure leaf, and some choice of leaves for the others, give the counts of one tree."""
    n_values = leaves.value.size
    missing = leaves.count - np.bincount(place[sure], minlength=n_values)
    candidates = np.unique(row[~sure] * n_values + place[~sure]) % n_values
    at_most = np.bincount(candidates, minlength=n_values) + lost
    return bool((missing >= 0).all() and (missing <= at_most).all() and missing.sum() == unsure)
