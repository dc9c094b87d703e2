"""Shrunken forests beside the whole one, on rows that neither trained nor refitted them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rfsize.certifying.certificate import tested
from rfsize.certifying.promise import Promise
from rfsize.certifying.smaller_forests import Likeness
from rfsize.shrinking.candidates import Candidate
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.utils.typing import Floats, Int64s


@dataclass(frozen=True, eq=False)
class Tester:
    """Rows that certify, and what all trees answer them.

    Attributes
    ----------
    rows : LeavesOfRows
    likeness : Likeness
    group : ndarray of int64, shape (n_rows,)
        The class that all trees give each.
    """

    rows: LeavesOfRows
    likeness: Likeness
    group: Int64s

    @classmethod
    def of(cls, rows: LeavesOfRows, likeness: Likeness) -> Tester:
        """Of the rows."""
        return cls(rows, likeness, likeness.classes(rows.whole))

    @property
    def in_class(self) -> Int64s:
        """Rows of each class."""
        return np.bincount(self.group, minlength=max(1, len(self.likeness.predictor.classes)))

    def differing(self, mean: Floats) -> Int64s:
        """Rows of each class that mean scores answer otherwise."""
        differs = self.likeness.differ(mean, self.rows.whole)
        return np.bincount(self.group[differs], minlength=len(self.in_class))

    def test(self, candidate: Candidate) -> Tested:
        """A shrunken forest beside the whole one."""
        mean = candidate.mean(self.rows)
        return Tested(candidate, self.differing(mean), mean)


@dataclass(frozen=True, eq=False)
class Tested:
    """A shrunken forest, the rows of each class that it answers otherwise, and its mean scores."""

    candidate: Candidate
    differing: Int64s
    mean: Floats

    @property
    def n_trees(self) -> int:
        """Its trees."""
        return len(self.candidate.members)


def tested_down(
    sizes: list[int], of_size: Callable[[int], Candidate], tester: Tester, promise: Promise
) -> Iterator[Tested]:
    """Forests of fewer and fewer trees, up to the first on which more rows like these could certify nothing either."""
    for size in sizes:
        candidate = of_size(size)
        found = tester.test(candidate)
        yield found
        failed = promise.boldest(found.differing[:, None], tester.in_class) < 0
        differing, rows = tested(found.differing, tester.in_class, promise.average)
        if failed and (differing / rows).max() > 1.0 - promise.alpha:
            return
