"""Smaller forests: trees in their chosen order, with their leaves refitted where that pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.certifying.first_trees import sizes_tried
from rfsize.certifying.likeness import Likeness
from rfsize.shrinking.choosing import order_of_trees
from rfsize.shrinking.crossing import crossed
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.shrinking.refitting import refitted
from rfsize.utils.typing import Floats, Int64s

# From one size that is tried to the next, what few trees are expected to lose grows by this factor; see `sizes_tried`.
STEP = 1.1

# Leaves are refitted in forests that differ on more than this part of what may differ: larger ones pass as they are.
_WORTH_REFITTING = 0.25

# One row in so many tells whether rows that were made, and refitting, pay.
_HELD_OUT = 5


@dataclass(frozen=True, eq=False)
class Candidate:
    """Some trees of a forest, with the scores of their leaves.

    Attributes
    ----------
    members : ndarray of int64
        Its trees, by their numbers in the whole forest.
    raw : ndarray or None
        The scores of all leaves, refitted and as a model stores them; None where they are as they were.
    """

    members: Int64s
    raw: NDArray[Any] | None

    def mean(self, rows: LeavesOfRows) -> Floats:
        """Its mean scores on rows, shape (n_rows, n_scores)."""
        return rows.mean(self.members, self.raw)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What rows that certify nothing say of how a forest is best shrunk.

    Attributes
    ----------
    rows : LeavesOfRows
    order : ndarray of int64
        The trees of the whole forest, in the order in which they are taken.
    refits_below : int
        From how many trees down leaves are refitted; 0 where that does not pay.
    """

    rows: LeavesOfRows
    order: Int64s
    refits_below: int

    @classmethod
    def of(cls, rows: LeavesOfRows, likeness: Likeness, level: float) -> Candidates:
        """Of the rows, for forests that may answer a share ``level`` of rows otherwise."""
        is_held_out = np.arange(len(rows)) % _HELD_OUT == 0
        held_out, others = (rows.some(np.flatnonzero(which)) for which in (is_held_out, ~is_held_out))
        if not len(others):
            return cls(rows, order_of_trees(rows), 0)
        order = order_of_trees(others)
        sizes = sizes_tried(len(order), STEP).tolist()
        size = next((size for size in sizes if _share(held_out, order[:size], likeness) > _WORTH_REFITTING * level), 1)
        # For the choice of trees alone rows that are made have been worse than those given.
        made = crossed(others) if rows.adapter.refits else None
        ways = [_Way.of(others, order[:size], held_out, None)]
        if made is not None:
            with_made = others.and_made(made)
            ways += [_Way.of(with_made, order_of_trees(with_made)[:size], held_out, made)]
        best = min((way for both in ways for way in both), key=lambda way: way.apart)
        rows = rows if best.made is None else rows.and_made(best.made)
        return cls(rows, order_of_trees(rows), size if best.refits else 0)

    def of_size(self, n_trees: int) -> Candidate:
        """The smaller forest of so many trees."""
        members = self.order[:n_trees]
        return Candidate(members, None if n_trees > self.refits_below else _refitted_as_stored(self.rows, members))


def _share(rows: LeavesOfRows, members: Int64s, likeness: Likeness) -> float:
    """Share of the rows that some trees answer unlike all."""
    return float(np.mean(likeness.differ(rows.mean(members), rows.whole)))


class _Way(NamedTuple):
    """A way to shrink: with rows that were made beside those given or without, refitted or not."""

    made: LeavesOfRows | None
    refits: bool
    apart: float  # from the whole forest, on rows held out

    @classmethod
    def of(
        cls, rows: LeavesOfRows, members: Int64s, held_out: LeavesOfRows, made: LeavesOfRows | None
    ) -> Iterator[_Way]:
        """Without, and where leaves can have any scores, with refitted ones."""
        yield cls(made, False, _apart(held_out, members, None))
        if rows.adapter.refits:
            yield cls(made, True, _apart(held_out, members, _refitted_as_stored(rows, members)))


def _apart(held_out: LeavesOfRows, members: Int64s, raw: NDArray[Any] | None) -> float:
    """How far some trees are from the whole forest."""
    return float(np.square(held_out.mean(members, raw) - held_out.whole).sum())


def _refitted_as_stored(rows: LeavesOfRows, members: Int64s) -> NDArray[Any]:
    return rows.adapter.as_stored(refitted(rows, members), len(members))
