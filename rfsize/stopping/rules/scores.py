"""Rules that go by the scores of trees: what they share, and how the boldest of many is found on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize.certifying.certificate import Certificate, ClassCounts
from rfsize.certifying.promise import Promise
from rfsize.stopping.rules.base import Stops
from rfsize.stopping.terms import Terms
from rfsize.utils.typing import Floats, Int64s

TRIED = 2048
"""Rules that are tried: consecutive limits are within 1 %."""


class ScoreStops(Stops):
    """Stops on scores of a tree alone, before the link."""

    voting = "soft"

    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        found, n_classes = np.asarray(outputs), terms.n_classes
        if found.ndim == 2:
            found = found[:, :, None]
        n_scores = {1, 2} if n_classes == 2 else {n_classes}
        fits = found.ndim == 3 and found.shape[1] == terms.n_trees and (found.shape[2] in n_scores or n_classes == 1)
        if not fits or found.dtype.kind not in "iuf":
            raise ValueError(
                "this table goes by scores: give those of each tree alone, before the link, numbers of shape (n_rows, "
                f"{terms.n_trees}, {n_classes if n_classes > 2 else 1}); found shape {found.shape}, dtype {found.dtype}"
            )
        return found


@dataclass(frozen=True, eq=False)
class Tallies:
    """What rules, from cautious to bold, do on rows.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        By the class that all trees give.
    differing, trees : ndarray of int64, shape (n_classes, n_rules)
        Rows answered otherwise, and trees asked for all rows.
    """

    rows: Int64s
    differing: Int64s
    trees: Int64s

    @classmethod
    def nothing(cls, n_classes: int, n_rules: int) -> Tallies:
        """Of no rows."""
        differing, trees = np.zeros((2, n_classes, n_rules), dtype=np.int64)
        return cls(np.zeros(n_classes, dtype=np.int64), differing, trees)

    def __iadd__(self, other: Tallies) -> Tallies:
        for own, others in ((self.rows, other.rows), (self.differing, other.differing), (self.trees, other.trees)):
            own += others
        return self

    @classmethod
    def of(
        cls, evidence: Floats, differs: NDArray[np.bool_], group: Int64s, limits: Floats, scale: Floats, n_classes: int
    ) -> Tallies:
        """What rules do that stop a row where its evidence after t trees reaches limit · scale[t − 1].

        ``evidence`` and ``differs`` are of rows and trees, ``group`` the class that all trees give a row.
        """
        found = cls.nothing(n_classes, limits.size)
        found.rows[:] = np.bincount(group, minlength=n_classes)
        _core.count_stops(evidence, differs, group, limits, scale, found.differing, found.trees)
        return found

    def boldest(self, promise: Promise, labels: Sequence[Any]) -> int:
        """The boldest rule that is certified to keep the promise; −1 where none is."""
        promise.check_rows(self.rows, labels)
        return promise.boldest(self.differing, self.rows)

    def certificate(self, rule: int, promise: Promise) -> Certificate:
        """Of what one rule did."""
        return promise.certificate(ClassCounts.of_sums(self.rows, self.differing[:, rule], self.trees[:, rule]))
