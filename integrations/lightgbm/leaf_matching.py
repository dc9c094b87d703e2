"""Which leaves of a tree the rows of a training booster reached, found by their scores, and what that proves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rfsize.utils.typing import Bools, Floats, Int64s

# Tolerances that a score lies at most from the least of alike leaves, where a constant was judged by one.
_SLACK = 6.0
_ROWS_AT_ONCE, _PAIRS_AT_ONCE = 1 << 16, 1 << 20


@dataclass(frozen=True)
class LeafValues:
    """The leaves of one tree by their values; leaves too alike to be told apart count as one.

    Attributes
    ----------
    value : ndarray of float64, shape (n_values,)
        Distinct values, ascending.
    count : ndarray of float64, shape (n_values,)
        In-bag rows that LightGBM counted there.
    tolerance : float
        How far a score that was read may lie from its leaf's value.
    """

    value: Floats
    count: Floats
    tolerance: float

    @classmethod
    def of(cls, value: Floats, count: Floats, tolerance: float) -> LeafValues:
        """Those of a tree as the model text has it."""
        order = np.argsort(value)
        first = np.append(True, np.diff(value[order]) > 2.0 * tolerance)
        rows = np.bincount(np.cumsum(first) - 1, weights=count[order]).astype(np.float64)
        return cls(value[order][first], rows, tolerance)

    def find(self, score: Floats) -> tuple[Int64s, Bools]:
        """Place of each score among the values, and whether it is there at all."""
        place = np.searchsorted((self.value[1:] + self.value[:-1]) / 2.0, score)
        return place, np.abs(self.value[place] - score) <= _SLACK * self.tolerance


def find_up_to_constant(score: Floats, leaves: Sequence[LeafValues]) -> tuple[Int64s, Int64s]:
    """Every way in which the scores of a row, plus one constant, are values of one leaf of each tree.

    Parameters
    ----------
    score : ndarray of float64, shape (n_trees, n_rows)
        At least two trees.
    leaves : sequence of LeafValues
        Those of each tree.

    Returns
    -------
    row : ndarray of int64, shape (n_found,)
        Rows, as often as there are ways.
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
    """The gap between two trees' scores holds no constant; it leaves few pairs of leaves for the others to judge."""
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
    """Whether as many in-bag rows reached each leaf as LightGBM counted there.

    Parameters
    ----------
    score : ndarray of float64, shape (n_trees, n_rows)
        Scores of the in-bag rows: by one tree, or, but for one constant for each row, by several.
    leaves : sequence of LeafValues
        Those of each tree.
    lost : int
        In-bag rows whose scores are not known, and that may be in any leaf.
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
    """Whether the rows that are sure, and some choice for the others, give the counts of one tree."""
    n_values = leaves.value.size
    missing = leaves.count - np.bincount(place[sure], minlength=n_values)
    candidates = np.unique(row[~sure] * n_values + place[~sure]) % n_values
    at_most = np.bincount(candidates, minlength=n_values) + lost
    return bool((missing >= 0).all() and (missing <= at_most).all() and missing.sum() == unsure)
