"""What rules of stopping, from cautious to bold, do on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize.certifying.certificate import Certificate, ClassCounts
from rfsize.certifying.promise import Promise
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.stopping.terms import Terms, checked_trees, labels_of
from rfsize.utils.typing import Floats, Int64s

TRIED = 2048
"""Rules on scores that are tried: consecutive limits are within 1 %."""


def terms_on(trees: TreesOnRows, promise: Promise, rule: str) -> Terms:
    """What a table is for that a rule makes of the rows."""
    adapter = trees.adapter
    at = trees.threshold if promise.metric == "labels" or promise.average == "macro" else None
    labels, n_classes = labels_of(adapter.classes), max(1, adapter.classes.size)
    n_trees = checked_trees(adapter.n_trees)
    return Terms(n_trees, n_classes, promise.alpha, rule, "forest", None, classes=labels, threshold=at)


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
