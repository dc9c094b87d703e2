"""Compare shrunken forests with the whole forest, on rows that took no part in training, choosing or refitting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rfsize._util import Floats, Int64s
from rfsize.certifying.certificate import tested
from rfsize.certifying.promise import Promise
from rfsize.certifying.smaller_forests import Likeness
from rfsize.shrinking.candidates import Candidate
from rfsize.shrinking.leaves_of_rows import LeavesOfRows


@dataclass(frozen=True, eq=False)
class Tester:
    """Rows that certify, and the answers of the whole forest on them.

    Attributes
    ----------
    rows : LeavesOfRows
        Rows that certify.
    likeness : Likeness
        Says when two forests answer a row alike.
    group : ndarray of int64, shape (n_rows,)
        The class that the whole forest gives each row.
    """

    rows: LeavesOfRows
    likeness: Likeness
    group: Int64s

    @classmethod
    def of(cls, rows: LeavesOfRows, likeness: Likeness) -> Tester:
        """Ask the whole forest about the rows."""
        return cls(rows, likeness, likeness.classes(rows.whole))

    @property
    def in_class(self) -> Int64s:
        """Number of rows in each class."""
        return np.bincount(self.group, minlength=max(1, len(self.likeness.predictor.classes)))

    def differing(self, mean: Floats) -> Int64s:
        """Number of rows in each class that these mean scores answer differently from the whole forest."""
        differs = self.likeness.differ(mean, self.rows.whole)
        return np.bincount(self.group[differs], minlength=len(self.in_class))

    def test(self, candidate: Candidate) -> Tested:
        """Compare a shrunken forest with the whole forest."""
        mean = candidate.mean(self.rows)
        return Tested(candidate, self.differing(mean), mean)


@dataclass(frozen=True, eq=False)
class Tested:
    """A shrunken forest, how many rows of each class it answers differently, and its mean scores."""

    candidate: Candidate
    differing: Int64s
    mean: Floats

    @property
    def n_trees(self) -> int:
        """Number of its trees."""
        return len(self.candidate.members)


def tested_down(
    sizes: list[int], of_size: Callable[[int], Candidate], tester: Tester, promise: Promise
) -> Iterator[Tested]:
    """Test forests of fewer and fewer trees; stop at the first that misses the promise on these very rows.

    More rows like these could not certify that forest either.
    """
    for size in sizes:
        candidate = of_size(size)
        found = tester.test(candidate)
        yield found
        failed = promise.boldest(found.differing[:, None], tester.in_class) < 0
        differing, rows = tested(found.differing, tester.in_class, promise.average)
        if failed and (differing / rows).max() > 1.0 - promise.alpha:
            return
