"""Smaller forests: the first trees of the chosen order, with leaves refitted if that helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats, Int64s
from rfsize.certifying.smaller_forests import Likeness, sizes_tried
from rfsize.shrinking.choosing import order_of_trees
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.shrinking.refitting import refitted

# The expected loss grows by this factor from one size that is tried to the next; see `sizes_tried`.
STEP = 1.1

# Leaves are refitted if a forest changes more than this part of the labels that may change. Larger forests change fewer
# labels and need no refitting.
_WORTH_REFITTING = 0.25

# One row in so many is held out, to see whether refitting helps.
_HELD_OUT = 5


@dataclass(frozen=True, eq=False)
class Candidate:
    """Some trees of a forest, with the scores of their leaves.

    Attributes
    ----------
    members : ndarray of int64
        Numbers of its trees in the whole forest.
    raw : ndarray or None
        The scores of all leaves, refitted and as a model stores them; None if no leaf is refitted.
    """

    members: Int64s
    raw: NDArray[Any] | None

    def mean(self, rows: LeavesOfRows) -> Floats:
        """Its mean scores on rows, shape (n_rows, n_scores)."""
        return rows.mean(self.members, self.raw)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The smaller forests of any size, as chosen on rows that do not certify.

    Attributes
    ----------
    rows : LeavesOfRows
        Rows to choose trees and refit leaves on.
    order : ndarray of int64
        The trees of the whole forest, in the order in which they are chosen.
    refits_below : int
        Largest size at which leaves are refitted; 0 if refitting does not help.
    """

    rows: LeavesOfRows
    order: Int64s
    refits_below: int

    @classmethod
    def of(cls, rows: LeavesOfRows, likeness: Likeness, level: float) -> Candidates:
        """Choose on ``rows``, for forests that may change a share ``level`` of the answers."""
        order = order_of_trees(rows)
        is_held_out = np.arange(len(rows)) % _HELD_OUT == 0
        held_out, others = (rows.some(np.flatnonzero(which)) for which in (is_held_out, ~is_held_out))
        sizes = sizes_tried(len(order), STEP).tolist()
        size = next((size for size in sizes if _share(held_out, order[:size], likeness) > _WORTH_REFITTING * level), 0)
        pays = bool(rows.forest.refits and size and len(others)) and _pays(held_out, others, order[:size])
        return cls(rows, order, size if pays else 0)

    def of_size(self, n_trees: int) -> Candidate:
        """The smaller forest of ``n_trees`` trees."""
        members = self.order[:n_trees]
        return Candidate(members, None if n_trees > self.refits_below else _refitted_as_stored(self.rows, members))


def _share(rows: LeavesOfRows, members: Int64s, likeness: Likeness) -> float:
    """Share of the rows that some trees answer differently from all trees."""
    return float(np.mean(likeness.differ(rows.mean(members), rows.whole)))


def _pays(held_out: LeavesOfRows, others: LeavesOfRows, members: Int64s) -> bool:
    """Whether refitting some trees on the other rows brings them nearer to the whole forest on held-out rows."""
    plain, fitted = held_out.mean(members), held_out.mean(members, _refitted_as_stored(others, members))
    return bool(np.square(fitted - held_out.whole).sum() < np.square(plain - held_out.whole).sum())


def _refitted_as_stored(rows: LeavesOfRows, members: Int64s) -> NDArray[Any]:
    return rows.ensemble.as_stored(refitted(rows, members), len(members))
