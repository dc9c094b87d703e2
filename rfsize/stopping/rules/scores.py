"""The shared part of the rules that read scores of trees, and the search for the boldest rule on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.statistics.certify import Certificate, ClassCounts, RiskTarget
from rfsize.stopping.rules.base import Stops
from rfsize.stopping.terms import Terms

TRIED = 2048
"""Number of rules to try. Consecutive limits are within 1 % of each other."""


class ScoreStops(Stops):
    """Stops on the scores of single trees, before the link."""

    voting = "soft"

    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        scores, n_classes = np.asarray(outputs), terms.n_classes
        if scores.ndim == 2:
            scores = scores[:, :, None]
        n_scores = {1, 2} if n_classes == 2 else {n_classes}
        fits = scores.ndim == 3 and scores.shape[1] == terms.n_trees and (scores.shape[2] in n_scores or n_classes == 1)
        if not fits or scores.dtype.kind not in "iuf":
            raise ValueError(
                "this table goes by scores: give those of each tree alone, before the link, numbers of shape (n_rows, "
                f"{terms.n_trees}, {n_classes if n_classes > 2 else 1}); found shape {scores.shape} of {scores.dtype}"
            )
        return scores


@dataclass(frozen=True, eq=False)
class Tallies:
    """Counts of rules on rows. The rules go from cautious to bold.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_classes,)
        Number of rows, by the class that all trees give.
    differing, trees : ndarray of int64, shape (n_classes, n_rules)
        Number of rows that differ from all trees, and number of trees asked.
    """

    rows: Int64s
    differing: Int64s
    trees: Int64s

    @classmethod
    def nothing(cls, n_classes: int, n_rules: int) -> Tallies:
        """The counts on no rows."""
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
        """Counts for rules that stop a row when its evidence after t trees reaches limit · scale[t − 1].

        ``evidence`` and ``differs`` have the shape (rows, trees). ``group`` is the class that all trees give a row.
        """
        stops = cls.nothing(n_classes, limits.size)
        stops.rows[:] = np.bincount(group, minlength=n_classes)
        _core.count_stops(evidence, differs, group, limits, scale, stops.differing, stops.trees)
        return stops

    def boldest(self, promise: RiskTarget, labels: Sequence[Any]) -> int:
        """Index of the boldest rule that the rows certify; −1 if they certify none."""
        promise.check_rows(self.rows, labels)
        return promise.fixed_sequence(self.differing, self.rows)

    def certificate(self, rule: int, promise: RiskTarget) -> Certificate:
        """The certificate of one rule."""
        return promise.certificate(ClassCounts.of_sums(self.rows, self.differing[:, rule], self.trees[:, rule]))
